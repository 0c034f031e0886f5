"""Lines that are longer than the screen: looked at from any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.binding import Binding, BindingType

from airlane.top.lines import Line, Tone, fitted
from airlane.top.widgets.pane import Drawn, Pane

if TYPE_CHECKING:
    from airlane.top.app import TopApp

_WHEEL = 3


class Scrolled(Pane, can_focus=True):
    """Some lines, scrolled by keys: only those that are seen are made."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
    ]
    DEFAULT_CSS = "Scrolled { height: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.start = 0

    @property
    def length(self) -> int:
        """How many lines there are."""
        raise NotImplementedError

    def line(self, index: int) -> Line:
        raise NotImplementedError

    @property
    def most(self) -> int:
        """The last line that a screen may begin with."""
        return max(0, self.length - self.size.height)

    @property
    def cells(self) -> int:
        return max(1, self.size.width - 2)

    def drawn(self, cells: int, lines: int) -> list[Drawn]:
        marks = cast("TopApp", self.app).marks
        seen = (self.line(index) for index in range(self.start, min(self.start + lines, self.length)))
        return [Drawn([(" ", Tone.PLAIN), *fitted(line, cells - 2, marks)]) for line in seen]

    def move_to(self, start: int) -> None:
        self.start = max(0, min(start, self.most))
        self.redraw()

    def action_scroll(self, lines: int) -> None:
        self.move_to(self.start + lines)

    def action_page(self, pages: int) -> None:
        self.move_to(self.start + pages * max(1, self.size.height - 1))

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(self.most)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move_to(self.start + _WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move_to(self.start - _WHEEL)


class Page(Scrolled):
    """Lines that are given to it."""

    def __init__(self) -> None:
        super().__init__()
        self._all: Sequence[Line] = ()

    @property
    def length(self) -> int:
        return len(self._all)

    def line(self, index: int) -> Line:
        return self._all[index]

    def show(self, lines: Sequence[Line]) -> None:
        self._all = lines
        self.start = min(self.start, self.most)
        self.redraw()
