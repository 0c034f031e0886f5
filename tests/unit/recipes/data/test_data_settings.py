"""Settings of the data that no training can be made with."""

from __future__ import annotations

import pytest
from recipes.engine.data.settings import Data, contradictions
from recipes.overrides import assignments, override


def wrong(*words: str) -> list[str]:
    return list(contradictions(override(Data(), words)))


def test_the_defaults_contradict_nothing() -> None:
    assert wrong() == []


def test_every_setting_can_be_given_as_text() -> None:
    data = Data(source="a b", eval_source="x", limit=3, packing="grouped", chat_template="t.jinja")
    assert override(Data(), list(assignments(data))) == data
    assert len(list(assignments(data))) == len(vars(data))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["source= "], "data.source is empty: it takes a file, a folder, a pattern, or the name of a data set"),
        (
            ["eval_source="],
            "data.eval_source is empty: it takes a file, a folder, a pattern, or the name of a data set",
        ),
        (["max_tokens=1"], "data.max_tokens=1 has to be 2 or more: the first token of a document is never learned"),
        (["limit=0"], "data.limit=0 has to be 1 or more"),
        (["packs=-1"], "data.packs=-1 has to be 1 or more"),
        (["eval_share=1"], "data.eval_share=1.0 has to be 0 or more, and less than 1"),
        (
            ["max_tokens=4096"],
            ("data.max_tokens=4096 does not fit into data.pack_tokens=2048: use data.max_tokens=2048, or larger packs"),
        ),
        (
            ["format=text", "chat_template=t.jinja"],
            "data.chat_template is for conversations, and data.format=text has none",
        ),
    ],
)
def test_a_contradiction_is_told_with_its_values(words: list[str], problem: str) -> None:
    assert wrong(*words) == [problem]


def test_documents_may_be_longer_than_a_pack_that_is_not_packed() -> None:
    assert wrong("packing=none", "max_tokens=4096") == []
