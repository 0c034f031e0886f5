"""Frozen values behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field

import pytest

from airlane.frozen import frozen


@frozen
class Point:
    x: int
    y: int = 2
    tags: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def sum(self) -> int:
        return self.x + self.y


@frozen(kw_only=True)
class Named:
    name: str
    size: int = 0


def test_values_are_made_by_position_and_by_name_with_defaults() -> None:
    assert (Point(1).x, Point(1).y, Point(1, y=3).sum) == (1, 2, 4)
    assert Point(1).tags is not Point(1).tags
    assert Named(name="a").size == 0


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        ((), {}, "Point needs 'x'"),
        ((1, 2, {}, 4), {}, "Point takes 3 values by position, got 4"),
        ((1,), {"x": 2}, "Point got 'x' twice"),
        ((1,), {"z": 2, "q": 1}, "Point has no 'z', 'q'"),
    ],
)
def test_wrong_arguments_are_named(positional: tuple[object, ...], named: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Point(*positional, **named)  # type: ignore[arg-type]


def test_a_value_cannot_be_changed() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises((FrozenInstanceError, AttributeError)):
        point.z = 2  # type: ignore[attr-defined]


def test_equal_values_are_equal_and_of_another_class_are_not() -> None:
    assert Point(1) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != Named(name="a")  # type: ignore[comparison-overlap]
    assert len({Named(name="a"), Named(name="a")}) == 1


def test_a_value_shows_its_fields_but_those_left_out() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2)"


def test_what_dataclasses_offers_works() -> None:
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "tags": {}}
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)


def test_values_survive_copying_and_pickling() -> None:
    assert copy.deepcopy(Point(1, tags={"a": "b"})) == Point(1, tags={"a": "b"})
    assert pickle.loads(pickle.dumps(Named(name="ü"))) == Named(name="ü")  # noqa: S301 (our own bytes)
