"""A widget that is made of lines, and draws again only those that are others than before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from airlane.top.lines import Line, Tone

if TYPE_CHECKING:
    from airlane.top.app import TopApp
    from airlane.top.themes import Palette


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line of a widget; `cursor` says that it is the chosen one."""

    line: Line
    cursor: bool = False


_EMPTY = Drawn([])


class Pane(Widget):
    """Lines as `drawn` gives them for the size at hand."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._lines: list[Drawn] = []

    def drawn(self, cells: int, lines: int) -> list[Drawn]:
        """What it shows now."""
        raise NotImplementedError

    @property
    def palette(self) -> Palette:
        return cast("TopApp", self.app).palette

    def look(self, drawn: Drawn) -> Callable[[Tone], Style]:
        """How the tones of a line look."""
        if drawn.cursor:
            return self.palette.chosen if self.has_focus else self.palette.kept
        return self.palette.__getitem__

    def redraw(self) -> None:
        """Make the lines anew, and have those drawn that changed."""
        width, height = self.size
        if not width or not height:
            return
        before, self._lines = self._lines, self.drawn(width, height)
        count = min(height, max(len(before), len(self._lines)))
        changed = [y for y in range(count) if _at(before, y) != _at(self._lines, y)]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def on_resize(self) -> None:
        self.redraw()
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        drawn = _at(self._lines, y)
        style = self.look(drawn)
        strip = Strip([Segment(text, style(tone)) for text, tone in drawn.line if text])
        return strip.adjust_cell_length(self.size.width, style(Tone.PLAIN))


def _at(lines: list[Drawn], y: int) -> Drawn:
    return lines[y] if y < len(lines) else _EMPTY
