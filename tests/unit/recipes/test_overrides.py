"""`section.setting=value`."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes.errors import RecipeError
from recipes.megatron.deepseek_v2_lite import configure
from recipes.overrides import UnfitError, assignments, override, read, readable

WITH_CHARACTERS = st.text().filter(lambda text: text.lower() not in {"none", "null"})


class Colour(Enum):
    red = 1
    blue = 2


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("4", int, 4),
        ("1_000", int, 1000),
        ("3e-4", float, 3e-4),
        ("1", float, 1.0),
        ("True", bool, True),
        ("false", bool, False),
        ("a b=c 'd'", str, "a b=c 'd'"),
        ("none", int | None, None),
        ("Null", str | None, None),
        ("8", int | None, 8),
        ("none", str, "none"),
        ("2", int | str, 2),
        ("two", Union[int, str], "two"),  # noqa: UP007 - as Megatron Bridge spells it
        ("flex", Literal["flex", "alltoall"], "flex"),
        ("2", Literal[0, 1, 2], 2),
        ("red", Colour, Colour.red),
        ("/data/a b", tuple[str, ...], ("/data/a b",)),
        ('["30", "/data/a b"]', tuple[str, ...], ("30", "/data/a b")),
        ("[30, 0.5]", list[float], [30.0, 0.5]),
        ("[]", list[int], []),
    ],
)
def test_text_is_read_by_the_type_of_its_setting(text: str, kind: Any, value: object) -> None:
    made = read(text, kind)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("x", int, "takes a whole number, such as 8"),
        ("1.5", int, "takes a whole number, such as 8"),
        ("x", float, "takes a number, such as 3e-4"),
        ("yes", bool, "takes true or false"),
        ("", int | None, "takes a whole number, such as 8, or none"),
        ("x", Literal["full", "selective"] | None, "takes one of full, selective, or none"),
        ("green", Colour, "takes one of red, blue"),
        ("[1,", list[int], 'is no JSON list, such as \'["30", "/data/a"]\''),
        ('["x"]', list[int], "takes a whole number, such as 8"),
        ("x", bytes, "bytes cannot be given as text"),
    ],
)
def test_text_that_does_not_fit_is_told_what_would(text: str, kind: Any, reason: str) -> None:
    with pytest.raises(UnfitError) as caught:
        read(text, kind)
    assert str(caught.value) == reason


def test_a_type_that_no_text_can_give_is_known() -> None:
    assert [readable(kind) for kind in (bytes, bytes | None, list[bytes], dict[str, int])] == [False] * 4
    assert [readable(kind) for kind in (int | None, bytes | str, list[int], Colour)] == [True] * 4


def test_a_setting_is_replaced_and_no_other() -> None:
    before = configure(hf_path="/model")
    after = override(before, ["model.tensor_model_parallel_size=4"])
    assert after == replace(before, model=replace(before.model, tensor_model_parallel_size=4))
    assert before.model.tensor_model_parallel_size == 8


def test_the_last_of_two_words_for_a_setting_wins() -> None:
    config = override(configure(), ["train.train_iters=7", "mixed_precision=fp16", "train.train_iters=9"])
    assert (config.train.train_iters, config.mixed_precision) == (9, "fp16")


def test_everything_that_is_wrong_is_told_at_once() -> None:
    words = [
        "tensor_model_parallel_size=2",
        "model.tensor_model_paralel_size=4",
        "entirely.else=1",
        "train=5",
        "bridge=x",
        "train.train_iters=many",
        "model.moe_token_dispatcher_type=deepep",
        "--flag",
    ]
    with pytest.raises(RecipeError) as caught:
        override(configure(), words)
    assert caught.value.problems == (
        "tensor_model_parallel_size=2: no such setting. Did you mean model.tensor_model_parallel_size?",
        "model.tensor_model_paralel_size=4: no such setting. Did you mean model.tensor_model_parallel_size?",
        "entirely.else=1: no such setting",
        "train=5: no such setting",
        "bridge=x: no such setting",
        "train.train_iters=many: takes a whole number, such as 8",
        "model.moe_token_dispatcher_type=deepep: takes one of allgather, alltoall, flex",
        "--flag: is no NAME=VALUE",
    )


@given(save=WITH_CHARACTERS, path=st.text(), blend=st.lists(st.text()), rate=st.floats(allow_nan=False))
def test_what_is_written_makes_the_same_configuration(save: str, path: str, blend: list[str], rate: float) -> None:
    config = configure(hf_path=path)
    config = replace(
        config,
        checkpoint=replace(config.checkpoint, save=save, save_interval=100),
        dataset=replace(config.dataset, blend=tuple(blend)),
        optimizer=replace(config.optimizer, lr=rate),
    )
    assert override(configure(), list(assignments(config))) == config


def test_a_section_within_a_section_has_a_longer_name() -> None:
    assert override(Outer(), ["inner.size=3"]) == Outer(Inner(3))
    assert list(assignments(Outer())) == ["inner.size=1"]


@dataclass(frozen=True)
class Inner:
    size: int = 1


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()


def test_an_error_is_the_same_in_another_process() -> None:
    error = pickle.loads(pickle.dumps(RecipeError(["a=b: no such setting", "c: is no NAME=VALUE"], "look there")))  # noqa: S301 - our own
    assert (error.problems, error.hint) == (("a=b: no such setting", "c: is no NAME=VALUE"), "look there")
    assert str(error) == "a=b: no such setting\nc: is no NAME=VALUE\nlook there"
