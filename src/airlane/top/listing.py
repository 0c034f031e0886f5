"""What a list is made of: columns that turn a row into cells, and the choice of those that there is room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Generic, TypeVar

from rich.cells import cell_len

from airlane.top import words
from airlane.top.lines import LEVELS, Line, Tone, fitted
from airlane.top.words import UNICODE, Marks

Row = TypeVar("Row")

GAP = 2
_SHARE = 6  # what the words of a share take
_BAR_FROM = _SHARE + 4
_LONGER = 14

Key = float | str | None


@dataclass(frozen=True, slots=True)
class Context:
    """What a row needs to know of everything else. `nodes` are the names by node id."""

    now: float
    marks: Marks = UNICODE
    nodes: Mapping[str, str] = field(default_factory=dict)

    def node(self, node_id: str | None) -> str:
        if not node_id:
            return ""
        return self.nodes.get(node_id) or node_id[:8]


@dataclass(frozen=True, slots=True)
class Cell:
    """A text; or a share in percent, which has a bar where the column is wide enough."""

    text: str = ""
    tone: Tone = Tone.PLAIN
    is_share: bool = False
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column. The one with the highest `priority` goes first where it is narrow; 0 stays.

    `key` is what rows are sorted by: None comes last. `falling` says that the largest stands first at the first press.
    """

    title: str
    cell: Callable[[Row, Context], Cell]
    key: Callable[[Row, Context], Key]
    least: int
    most: int = 0
    priority: int = 0
    right: bool = False
    falling: bool = False
    is_share: bool = False
    after: int = 0
    """Cells at the right end that are for marks: the title ends before them."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """A list: its columns, what tells its rows apart, and what a filter looks at. `empty` is said where it has none."""

    name: str
    columns: tuple[Column[Row], ...]
    id: Callable[[Row], str]
    text: Callable[[Row, Context], str]
    empty: str


@dataclass(frozen=True, slots=True)
class Order:
    """Which column rows are sorted by."""

    title: str
    falling: bool


def text_column(
    title: str,
    get: Callable[[Row, Context], str],
    least: int,
    most: int = 0,
    priority: int = 0,
    *,
    tone: Callable[[Row], Tone] | Tone = Tone.PLAIN,
) -> Column[Row]:
    """Words, sorted as words."""

    def cell(row: Row, context: Context) -> Cell:
        return Cell(get(row, context), tone if isinstance(tone, Tone) else tone(row))

    return Column(title, cell, lambda row, context: get(row, context).lower() or None, least, most, priority)


def number_column(
    title: str,
    get: Callable[[Row], float | None],
    show: Callable[[float], str],
    least: int,
    priority: int = 0,
    *,
    tone: Callable[[float], Tone] = lambda _: Tone.PLAIN,
    falling: bool = True,
    after: int = 0,
) -> Column[Row]:
    """A number, aligned to the right, sorted as a number."""

    def cell(row: Row, _: Context) -> Cell:
        value = get(row)
        return Cell("-", Tone.DIM) if value is None else Cell(show(value), tone(value))

    return Column(
        title, cell, lambda row, _: get(row), least, least, priority, right=True, falling=falling, after=after
    )


def share_column(
    title: str, get: Callable[[Row], float | None], priority: int = 0, *, most: int = 20, least: int = _SHARE
) -> Column[Row]:
    """A share in percent, with a bar where there is room."""

    def cell(row: Row, _: Context) -> Cell:
        value = get(row)
        return Cell("", LEVELS[words.level(value)], is_share=True, share=value)

    return Column(title, cell, lambda row, _: get(row), max(least, _SHARE), most, priority, falling=True, is_share=True)


def time_column(
    title: str, get: Callable[[Row, Context], float | None], show: Callable[[float], str], priority: int = 0
) -> Column[Row]:
    """A length of time, or an age."""

    def cell(row: Row, context: Context) -> Cell:
        value = get(row, context)
        return Cell("-", Tone.DIM) if value is None else Cell(show(value))

    return Column(title, cell, get, 8, 8, priority, right=True, falling=True)


def fitting(
    columns: Sequence[Column[Row]], cells: int, natural: Mapping[str, int] | None = None
) -> list[tuple[Column[Row], int]]:
    """The columns that there is room for, each with its width.

    `natural` is how wide words would be: a column that may go, goes where it has none.
    """
    wide = natural or {}
    kept = [column for column in columns if not column.priority or wide.get(column.title) != 0]
    widths = {column.title: _least(column, wide, cells) for column in kept}
    while len(kept) > 1 and sum(widths[column.title] + GAP for column in kept) - GAP > cells:
        last = max(column.priority for column in kept)
        kept.remove(next(column for column in reversed(kept) if column.priority == last))
    widths = {column.title: widths[column.title] for column in kept}
    left = cells - sum(widths.values()) - GAP * (len(kept) - 1)
    for _, group in groupby(sorted(kept, key=_growth), key=_growth):
        left -= _grow(list(group), widths, left, wide)
    if left < 0:
        widths[kept[0].title] = max(1, cells)
    return [(column, widths[column.title]) for column in kept]


def _least(column: Column[Row], natural: Mapping[str, int], cells: int) -> int:
    """What it needs: what matters most in whole, if it is not too long."""
    if column.priority > 1 or column.title not in natural:
        return column.least
    return max(column.least, min(natural[column.title], column.most, column.least + _LONGER, cells // 3))


def _growth(column: Column[Row]) -> tuple[bool, int]:
    """Words before bars, then what matters more."""
    return column.is_share, column.priority


def _grow(columns: Sequence[Column[Row]], widths: dict[str, int], cells: int, natural: Mapping[str, int]) -> int:
    """Share cells out evenly, as far as each column can use them; how many that were."""
    used = 0
    growing = list(columns)
    while growing and used < cells:
        most = [min(column.most, natural.get(column.title, column.most)) for column in growing]
        growing = [column for column, limit in zip(growing, most, strict=True) if widths[column.title] < limit]
        for column in growing[: cells - used]:
            widths[column.title] += 1
            used += 1
    return used


def natural_widths(
    columns: Sequence[Column[Row]], rows: Sequence[Row], context: Context, before: Mapping[str, int]
) -> dict[str, int]:
    """How wide the words of some rows are, where columns may grow; never less than before, so that nothing jumps."""
    widths = dict(before)
    for column in columns:
        if column.most > column.least and not column.is_share:
            texts = (words.clean(column.cell(row, context).text, context.marks) for row in rows)
            cells = (len(text) if text.isascii() else cell_len(text) for text in texts)
            widths[column.title] = max(widths.get(column.title, 0), max(cells, default=0))
    return widths


def row_line(fits: Sequence[tuple[Column[Row], int]], row: Row, context: Context) -> Line:
    """A row as a line of the table."""
    line: Line = []
    for column, width in fits:
        line += cell_pieces(column.cell(row, context), width, context.marks, right=column.right)
        line.append((" " * GAP, Tone.PLAIN))
    line.pop()
    return line


def cell_pieces(cell: Cell, width: int, marks: Marks, *, right: bool = False) -> Line:
    """A cell in exactly so many cells of the screen."""
    if not cell.is_share:
        return [(words.fit(words.clean(cell.text, marks), width, marks, right=right), cell.tone)]
    said = words.percent_words(cell.share)
    tone = Tone.DIM if cell.share is None else cell.tone
    if width < _BAR_FROM:
        return [(said.rjust(width), tone if words.level(cell.share) else Tone.PLAIN)]
    filled, rest = words.bar(cell.share, width - _SHARE, marks)
    return [(filled, tone), (rest, Tone.TRACK), (said, tone if words.level(cell.share) else Tone.PLAIN)]


def heading_line(fits: Sequence[tuple[Column[Row], int]], order: Order | None, marks: Marks) -> Line:
    """The titles; the one that is sorted by has an arrow."""
    line: Line = []
    for column, width in fits:
        title, tone = column.title, Tone.DIM
        if order is not None and order.title == column.title:
            title, tone = f"{title[: width - 1]}{marks.down if order.falling else marks.up}", Tone.ACCENT
        title = words.fit(title, width - column.after, marks, right=column.right) + " " * column.after
        line += [(title, tone), (" " * GAP, Tone.PLAIN)]
    line.pop()
    return line


def in_order(rows: Sequence[Row], column: Column[Row], context: Context, *, falling: bool) -> list[Row]:
    """Sorted; rows that have nothing there are last, whichever way it goes."""
    told: list[tuple[float | str, Row]] = []
    silent: list[Row] = []
    for row in rows:
        key = column.key(row, context)
        if key is None:
            silent.append(row)
        else:
            told.append((key, row))
    told.sort(key=lambda pair: pair[0], reverse=falling)
    return [*(row for _, row in told), *silent]


def lines_of(
    listing: Listing[Row], rows: Sequence[Row], context: Context, cells: int, *, order: Order | None = None
) -> list[Line]:
    """A whole list as lines below its headings; where it has no rows, what is said then."""
    if not rows:
        return [fitted([(listing.empty, Tone.DIM)], cells, context.marks)]
    natural = natural_widths(listing.columns, rows, context, {})
    fits = fitting(listing.columns, cells, natural)
    return [heading_line(fits, order, context.marks), *(row_line(fits, row, context) for row in rows)]
