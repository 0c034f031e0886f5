"""What is searched: for each setting its choices or its range, and the candidates that are tried."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, get_args

from recipes.overrides import UnfitError, read

SCALES = ("uniform", "log")
FORMS = "takes a list, such as [1e-5, 3e-5], or a range, such as log 1e-5 1e-3 or uniform 0 0.1"
MOST_DRAWN = 100_000  # candidates looked at, to find so many that differ
DRAWN_AT_ONCE = 64


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    def at(self, quantile: float) -> Any:
        return self.values[int(quantile * len(self.values))]

    def __str__(self) -> str:
        return json.dumps(self.values)


@dataclass(frozen=True)
class Range:
    """Everything from `low` to `high`; as likely in each decade as in another where it is logarithmic."""

    low: float
    high: float
    logarithmic: bool
    whole: bool  # numbers, both ends included

    def at(self, quantile: float) -> float:
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        value = low * (high / low) ** quantile if self.logarithmic else low + (high - low) * quantile
        if self.whole:
            return min(max(round(value), int(self.low)), int(self.high))
        return float(f"{value:.4g}")  # more digits tell nothing, and have to be typed

    def __str__(self) -> str:
        ends = (int(self.low), int(self.high)) if self.whole else (self.low, self.high)
        return f"{'log' if self.logarithmic else 'uniform'} {ends[0]} {ends[1]}"


Space = Mapping[str, Choice | Range]
Candidate = dict[str, Any]


def read_dimension(text: str, kind: Any) -> Choice | Range:
    """The values that `text` gives to a setting of this type.

    Raises:
        UnfitError: it gives none, or some that the setting does not take.
    """
    if text.lstrip().startswith("["):
        return read_choices(text, kind)
    scale, *ends = text.split() or [""]
    if scale not in SCALES or len(ends) != len(("low", "high")):
        raise UnfitError(FORMS)
    numbers = {int, float} & {kind, *get_args(kind)}
    if not numbers:
        raise UnfitError("has no range; give a list of its values")
    whole = float not in numbers
    low, high = (float(read(end, int if whole else float)) for end in ends)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UnfitError(f"needs a lower and then a higher number, not {' '.join(ends)}")
    if scale == "log" and low <= 0:
        raise UnfitError("takes numbers above 0 where it is logarithmic")
    return Range(low, high, scale == "log", whole)


def read_choices(text: str, kind: Any) -> Choice:
    """The items of a list, in JSON or as plain words between commas."""
    try:
        items = [item if isinstance(item, str) else json.dumps(item) for item in json.loads(text)]
    except ValueError:
        if not text.rstrip().endswith("]"):
            raise UnfitError(FORMS) from None
        items = [word.strip() for word in text.strip()[1:-1].split(",")]
    values = tuple(dict.fromkeys(read(item, kind) for item in items))
    if len(values) < 2:  # noqa: PLR2004 - a choice
        raise UnfitError("has no choice: give two values or more, or set it outside of the search")
    return Choice(values)


def size_of(space: Space) -> int | None:
    """How many candidates there are; None where ranges make them countless."""
    if not all(isinstance(dimension, Choice) for dimension in space.values()):
        return None
    return math.prod(len(dimension.values) for dimension in space.values() if isinstance(dimension, Choice))


def candidates(space: Space, most: int | None, seed: int) -> list[Candidate]:
    """So many that differ, or all there are. The first ones stay the same when more are asked for."""
    size = size_of(space)
    if size is not None and (most is None or most >= size):
        values = (dimension.values for dimension in space.values() if isinstance(dimension, Choice))
        return [dict(zip(space, chosen, strict=True)) for chosen in product(*values)]
    found: dict[tuple[Any, ...], Candidate] = {}
    for point in islice(points(len(space), seed), MOST_DRAWN):
        at = zip(space.items(), point, strict=True)
        candidate = {name: dimension.at(quantile) for (name, dimension), quantile in at}
        found.setdefault(tuple(candidate.values()), candidate)
        if len(found) == most:
            break
    return list(found.values())


def points(dimensions: int, seed: int) -> Iterator[list[float]]:
    """A scrambled Sobol sequence: it fills the unit cube evenly, however many points are taken."""
    from torch import float64
    from torch.quasirandom import SobolEngine

    engine = SobolEngine(dimensions, scramble=True, seed=seed)
    while True:
        yield from engine.draw(DRAWN_AT_ONCE, dtype=float64).tolist()
