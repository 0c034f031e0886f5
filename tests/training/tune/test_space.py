"""What may be searched, how it is written, and which candidates come of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import pytest
from recipes.overrides import UnfitError
from recipes.tune.space import Choice, Range, Space, candidates, points, read_dimension, size_of


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("[1e-5, 3e-5]", float, (1e-5, 3e-5)),
        ("[4, 8, 8]", int, (4, 8)),
        ("[none, 8]", int | None, (None, 8)),
        ("[null, 8]", int | None, (None, 8)),
        ("[true, false]", bool, (True, False)),
        ("[packed, none]", Literal["packed", "none"], ("packed", "none")),
        ('[["q_proj"], ["q_proj", "v_proj"]]', tuple[str, ...], (("q_proj",), ("q_proj", "v_proj"))),
    ],
)
def test_a_list_is_a_choice_of_what_the_setting_takes(text: str, kind: Any, values: tuple[Any, ...]) -> None:
    assert read_dimension(text, kind) == Choice(values)


def test_ranges_are_even_or_logarithmic_and_whole_where_the_setting_is() -> None:
    assert read_dimension("uniform 0 0.1", float) == Range(0, 0.1, logarithmic=False, whole=False)
    assert read_dimension("log 1e-5 1e-3", float | None) == Range(1e-5, 1e-3, logarithmic=True, whole=False)
    whole = read_dimension("log 1 64", int | None)
    assert whole == Range(1, 64, logarithmic=True, whole=True)
    assert [whole.at(quantile) for quantile in (0, 0.5, 0.999)] == [1, 6, 64]
    even = read_dimension("uniform 1 4", int)
    assert sorted({even.at(step / 100) for step in range(100)}) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("1e-3", float, "takes a list, such as"),
        ("log 1e-3", float, "takes a list, such as"),
        ("", float, "takes a list, such as"),
        ("[1, 2", int, "takes a list, such as"),
        ("[0.01]", float, "has no choice"),
        ("[1, x]", int, "takes a whole number"),
        ("[packed, sorted]", Literal["packed", "none"], "takes one of packed, none"),
        ("uniform a b", float, "takes a number"),
        ("uniform 2 1", float, "a lower and then a higher number, not 2 1"),
        ("uniform 0 nan", float, "a lower and then a higher number"),
        ("log 0 1", float, "above 0"),
        ("uniform 0 1", bool, "has no range"),
        ("uniform 0 1", str, "has no range"),
    ],
)
def test_what_is_no_choice_and_no_range_is_refused_with_what_is(text: str, kind: Any, words: str) -> None:
    with pytest.raises(UnfitError, match=words):
        read_dimension(text, kind)


@pytest.mark.parametrize("text", ["[1, null, 3]", "uniform 1 8", "log 1 8"])
def test_a_dimension_reads_back_as_it_is_written(text: str) -> None:
    dimension = read_dimension(text, int | None)
    assert read_dimension(str(dimension), int | None) == dimension


SPACE: Space = {"a": Choice((1, 2, 3)), "b": Choice(("x", "y"))}
WIDE: Space = {**SPACE, "c": Range(1e-5, 1e-1, logarithmic=True, whole=False)}


@pytest.mark.parametrize("most", [None, 6, 100])
def test_choices_alone_are_combined_in_every_way(most: int | None) -> None:
    found = candidates(SPACE, most, 0)
    assert size_of(SPACE) == len(found) == 6
    assert found[:2] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}]


def test_fewer_trials_than_combinations_are_all_different() -> None:
    found = candidates(SPACE, 5, 0)
    assert len({tuple(one.values()) for one in found}) == 5


def test_candidates_depend_on_the_seed_alone_and_more_of_them_begin_with_the_same() -> None:
    assert size_of(WIDE) is None
    assert candidates(WIDE, 20, 1)[:8] == candidates(WIDE, 8, 1)
    assert candidates(WIDE, 8, 1) != candidates(WIDE, 8, 2)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_points_leave_no_part_of_a_range_out(dimensions: int, seed: int) -> None:
    sequence = points(dimensions, seed)
    found = [next(sequence) for _ in range(16)]
    for axis in range(dimensions):
        places = sorted(point[axis] for point in found)
        assert max(after - before for before, after in pairwise([0.0, *places, 1.0])) < 2 / 16
