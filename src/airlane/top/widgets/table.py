"""A list of any length: only the lines that are seen are made, and the cursor stays on its row when rows change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from airlane.top import words
from airlane.top.lines import Line, Tone, fitted, spread, width
from airlane.top.listing import (
    GAP,
    Column,
    Context,
    Listing,
    Order,
    Row,
    fitting,
    heading_line,
    in_order,
    natural_widths,
    row_line,
)
from airlane.top.widgets.pane import Drawn, Pane

ABOVE = 2  # the title and the headings
_WHEEL = 3
_MEASURED = 200  # rows: what is further down is cut where it is longer


class Table(Pane, Generic[Row], can_focus=True):
    """Rows below headings, sorted and filtered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
        Binding("enter", "choose", show=False),
        Binding("s", "next_order", show=False),
        Binding("S", "turn_order", show=False),
    ]

    class Chosen(Message):
        """Enter, or a second click, on a row."""

        def __init__(self, table: Table[Any], key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table[Any]:
            return self.table

    class Moved(Message):
        """Another row has the cursor, or it has other words."""

        def __init__(self, table: Table[Any]) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table[Any]:
            return self.table

    def __init__(self, listing: Listing[Row], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.listing = listing
        self.order: Order | None = None
        self.filter = ""
        self.shown: Sequence[Row] = ()
        self.cursor = 0
        self._rows: Sequence[Row] = ()
        self._texts: list[str] | None = None
        self._knows = Context(0.0)
        self._key: str | None = None
        self._top = 0
        self._trouble = ""
        self._natural: dict[str, int] = {}
        self._fits: list[tuple[Column[Row], int]] = []

    # What it shows

    def show(self, rows: Sequence[Row], context: Context, *, trouble: str = "") -> None:
        """Other rows, or the same with other words. `trouble` is what is wrong with them, in a few words."""
        self._knows, self._trouble = context, trouble
        if rows is self._rows:  # only older
            self.redraw()
            return
        self._rows, self._texts = rows, None
        self._arrange()

    def narrow(self, text: str) -> None:
        """Only rows that have each of these words."""
        if text != self.filter:
            self.filter = text
            self._top = 0
            self._arrange()

    @property
    def row(self) -> Row | None:
        """The one with the cursor."""
        return self.shown[self.cursor] if self.cursor < len(self.shown) else None

    @property
    def count(self) -> int:
        return len(self._rows)

    def _arrange(self) -> None:
        """Filter, sort, and put the cursor where its row is now."""
        rows = self._filtered()
        column = next((one for one in self.listing.columns if self.order and one.title == self.order.title), None)
        if column is not None and self.order is not None:
            rows = in_order(rows, column, self._knows, falling=self.order.falling)
        self.shown = rows
        self._natural = natural_widths(self.listing.columns, rows[:_MEASURED], self._knows, self._natural)
        before = self.cursor
        if self._key is not None:
            get_id = self.listing.id
            key = self._key
            self.cursor = next((index for index, row in enumerate(rows) if get_id(row) == key), self.cursor)
        if not 0 <= self.cursor < len(rows):
            self.cursor = max(0, len(rows) - 1)
        if before != self.cursor and self._top <= before < self._top + self._page:
            self._top += self.cursor - before
        self._settle()
        self.redraw()
        self.post_message(self.Moved(self))

    def _filtered(self) -> Sequence[Row]:
        wanted = self.filter.casefold().split()
        if not wanted:
            return self._rows
        if self._texts is None:
            text = self.listing.text
            self._texts = [text(row, self._knows).casefold() for row in self._rows]
        return [row for row, text in zip(self._rows, self._texts, strict=True) if all(word in text for word in wanted)]

    # Lines

    @property
    def _page(self) -> int:
        return max(1, self.size.height - ABOVE)

    def _settle(self) -> None:
        """Scroll as little as keeps the cursor in sight."""
        self._top = max(self.cursor - self._page + 1, min(self._top, self.cursor))
        self._top = max(0, min(self._top, len(self.shown) - self._page))

    def drawn(self, cells: int, lines: int) -> list[Drawn]:
        self._settle()
        context = self._knows
        inside = cells - 2
        self._fits = fitting(self.listing.columns, inside, self._natural)
        made = [Drawn(self._title(cells)), Drawn(_indented(heading_line(self._fits, self.order, context.marks)))]
        if not self.shown:
            empty = f"Nothing here has “{self.filter}”. Esc shows all." if self._rows else self.listing.empty
            made.append(
                Drawn(_indented(fitted([(words.clean(empty, context.marks), Tone.DIM)], inside, context.marks)))
            )
        for index in range(self._top, min(self._top + lines - ABOVE, len(self.shown))):
            line = row_line(self._fits, self.shown[index], context)
            made.append(Drawn(_indented(line), cursor=index == self.cursor))
        return made

    def _title(self, cells: int) -> Line:
        """A rule with the name, how many there are, and what part of them is seen."""
        marks = self._knows.marks
        name_tone = Tone.TITLE if self.has_focus else Tone.STRONG
        left: Line = [(f"{marks.rule} ", Tone.TRACK), (self.listing.name, name_tone), (f" {self.count:,} ", Tone.DIM)]
        if self.filter:
            left += [(f"/{words.clean(self.filter, marks)} ", Tone.ACCENT), (f"{len(self.shown):,} ", Tone.DIM)]
        right: Line = [(f" {self._trouble} ", Tone.WARN)] if self._trouble else []
        if len(self.shown) > self._page:
            last = min(self._top + self._page, len(self.shown))
            right += [(f" {self._top + 1:,}-{last:,} ", Tone.DIM)]
        space = cells - width(left) - width(right)
        if space < 1:
            return spread(left, right, cells, marks)
        return [*left, (marks.rule * space, Tone.TRACK), *right]

    def on_focus(self) -> None:
        self.redraw()
        super().on_focus()

    def on_blur(self) -> None:
        self.redraw()
        super().on_blur()

    # Keys and mouse

    def move_to(self, index: int) -> None:
        """The cursor onto a row, or the nearest that there is."""
        self.cursor = max(0, min(index, len(self.shown) - 1))
        row = self.row
        self._key = None if row is None else self.listing.id(row)
        self.redraw()
        self.post_message(self.Moved(self))

    def action_move(self, rows: int) -> None:
        self.move_to(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        self._top = max(0, min(self._top + pages * self._page, len(self.shown) - self._page))
        self.move_to(self.cursor + pages * self._page)

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(len(self.shown) - 1)

    def action_choose(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(self.Chosen(self, self.listing.id(row)))

    def action_next_order(self) -> None:
        """By the next column to the right; after the last one as it comes."""
        titles = [column.title for column, _ in self._fits]
        at = titles.index(self.order.title) if self.order and self.order.title in titles else -1
        self._sort(self._fits[at + 1][0] if at + 1 < len(titles) else None)

    def action_turn_order(self) -> None:
        if self.order is not None:
            self.order = Order(self.order.title, not self.order.falling)
            self._arrange()

    def _sort(self, column: Column[Row] | None) -> None:
        self.order = None if column is None else Order(column.title, column.falling)
        self._arrange()

    def on_click(self, event: events.Click) -> None:
        if event.y == 1:
            self._click_heading(event.x - 1)
        elif event.y >= ABOVE and self._top + event.y - ABOVE < len(self.shown):
            index = self._top + event.y - ABOVE
            self.move_to(index)
            if event.chain > 1:
                self.action_choose()

    def _click_heading(self, x: int) -> None:
        start = 0
        for column, cells in self._fits:
            if start <= x < start + cells + GAP:
                if self.order is not None and self.order.title == column.title:
                    self.action_turn_order()
                else:
                    self._sort(column)
                return
            start += cells + GAP

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-_WHEEL)

    def _scroll(self, rows: int) -> None:
        """Other rows in sight; the cursor comes along only as far as it must."""
        self._top = max(0, min(self._top + rows, len(self.shown) - self._page))
        self.move_to(max(self._top, min(self.cursor, self._top + self._page - 1)))


def _indented(line: Line) -> Line:
    return [(" ", Tone.PLAIN), *line]
