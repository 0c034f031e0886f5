"""The lines around a list: the cluster above, the tabs, what is wrong and which keys there are below."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from airlane.top.header import LINES, header_lines, status_line
from airlane.top.lines import Line, Tone, fitted
from airlane.top.view import View
from airlane.top.widgets.pane import Drawn, Pane


class ViewPane(Pane):
    """Lines that are made of the whole view."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._view: View | None = None

    def show(self, view: View) -> None:
        self._view = view
        self.redraw()

    def of(self, view: View, cells: int) -> list[Line]:
        raise NotImplementedError

    def drawn(self, cells: int, lines: int) -> list[Drawn]:
        if self._view is None:
            return []
        made = self.of(self._view, cells - 2)[:lines]
        return [Drawn([(" ", Tone.PLAIN), *line]) for line in made]


class Header(ViewPane):
    """The cluster in all."""

    DEFAULT_CSS = f"Header {{ height: {LINES}; }}"

    def of(self, view: View, cells: int) -> list[Line]:
        return header_lines(view, cells)


class Status(ViewPane):
    """What is not as it should be."""

    DEFAULT_CSS = "Status { height: 1; }"

    def of(self, view: View, cells: int) -> list[Line]:
        return [status_line(view, cells)]


class Keys(Pane):
    """Which keys do what here."""

    DEFAULT_CSS = "Keys { height: 1; }"

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def drawn(self, cells: int, lines: int) -> list[Drawn]:
        del lines
        line: Line = [(" ", Tone.PLAIN)]
        room = cells - 2
        for key, what in self._keys:
            took = len(key) + len(what) + 3
            if took - 2 > room:
                break
            room -= took
            line += [(key, Tone.ACCENT), (f" {what}  ", Tone.DIM)]
        return [Drawn(line)]


class Tabs(Pane):
    """The names of the screens, the one that is seen marked."""

    DEFAULT_CSS = "Tabs { height: 1; }"

    class Chosen(Message):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names
        self._at = 0

    def show(self, index: int) -> None:
        self._at = index
        self.redraw()

    def drawn(self, cells: int, lines: int) -> list[Drawn]:
        del lines
        line: Line = []
        for index, name in enumerate(self._names):
            tone = Tone.CHOSEN if index == self._at else Tone.DIM
            line += [(f" {index + 1} {name} ", tone), (" ", Tone.PLAIN)]
        return [Drawn(fitted([(" ", Tone.PLAIN), *line], cells, self.app.marks))]  # type: ignore[attr-defined]

    def on_click(self, event: events.Click) -> None:
        start = 1
        for index, name in enumerate(self._names):
            end = start + len(name) + 5
            if start <= event.x < end:
                self.post_message(self.Chosen(index))
                return
            start = end
