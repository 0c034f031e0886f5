"""A job's log, as it grows."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.widget import Widget

from airlane.top import words
from airlane.top.lines import Line, Tone, spread
from airlane.top.screens.base import DetailScreen
from airlane.top.view import View
from airlane.top.widgets.bars import ViewPane
from airlane.top.widgets.page import Scrolled

if TYPE_CHECKING:
    from airlane.top.app import TopApp

KEPT_LINES = 20_000
_LONGEST_LINE = 10_000
_LOOK_S = 0.1
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_SIDE_CELLS = 20


class LogText:
    """Text that comes in pieces, as lines. Pieces may come from another thread than the one that reads."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.dropped = 0
        self._pieces: deque[str] = deque()
        self._rest = ""

    def take(self, piece: str) -> None:
        self._pieces.append(piece)

    def read(self) -> bool:
        """Make lines of what has come; whether any has."""
        pieces = []
        while self._pieces:
            pieces.append(self._pieces.popleft())
        if not pieces:
            return False
        *whole, self._rest = (self._rest + "".join(pieces)).split("\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        self.dropped += max(0, len(self.lines) + len(whole) - KEPT_LINES)
        self.lines.extend(_shown(line) for line in whole)
        return True

    def all(self) -> list[str]:
        """Every line that is kept, the unfinished one, too."""
        return [*self.lines, _shown(self._rest)] if self._rest else list(self.lines)


def _shown(line: str) -> str:
    """As a terminal would have it in the end: without colours, and what a progress bar wrote last."""
    line = _ESCAPES.sub("", line[:_LONGEST_LINE]).rstrip("\r")
    return line.rpartition("\r")[2].expandtabs(8)


class LogPage(Scrolled):
    """Follows the end until somebody looks further up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "side(1)", show=False),
        Binding("left", "side(-1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.follows = True
        self._aside = 0
        self._texts: list[str] = []

    @property
    def length(self) -> int:
        return len(self._texts)

    def line(self, index: int) -> Line:
        text = words.clean(self._texts[index], cast("TopApp", self.app).marks)
        return [(words.without_start(text, self._aside) if self._aside else text, Tone.PLAIN)]

    def show(self, texts: list[str], dropped: int) -> None:
        """All lines; `dropped` of those before have gone from their beginning."""
        self._texts = texts
        self.start = self.most if self.follows else max(0, min(self.start - dropped, self.most))
        self.redraw()

    def move_to(self, start: int) -> None:
        super().move_to(start)
        self.follows = self.start == self.most

    def on_resize(self) -> None:
        if self.follows:
            self.start = self.most
        super().on_resize()

    def action_side(self, steps: int) -> None:
        self._aside = max(0, self._aside + steps * _SIDE_CELLS)
        self.redraw()


class LogTitle(ViewPane):
    """Whose log it is, and whether more comes."""

    DEFAULT_CSS = "LogTitle { height: 1; }"

    def __init__(self, job_id: str, page: LogPage) -> None:
        super().__init__()
        self._job_id, self._page = job_id, page
        self.ended = False
        self.why: str | None = None

    def of(self, view: View, cells: int) -> list[Line]:
        marks, page = view.marks, self._page
        left: Line = [
            (f"log of {words.clean(self._job_id, marks)}", Tone.TITLE),
            (f"  {words.count(page.length, 'line')}", Tone.DIM),
        ]
        if self.why is not None:
            left.append((f"  {words.clean(self.why, marks)}", Tone.BAD))
        elif self.ended:
            left.append(("  the job is over", Tone.DIM))
        if page.follows:
            right: Line = [("" if self.ended else "follows the end", Tone.GOOD)]
        else:
            last = min(page.start + page.size.height, page.length)
            right = [(f"{page.start + 1:,}-{last:,}  G follows the end", Tone.DIM)]
        return [spread(left, right, cells, marks)]


class LogScreen(DetailScreen):
    """Every line from the first one on, until the job is over."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Esc", "back"),
        ("j k PgDn PgUp", "scroll"),
        ("G", "follow the end"),
        ("left right", "aside"),
        ("q", "quit"),
    )

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self._job_id = job_id
        self._text = LogText()
        self._seen_dropped = 0

    def body(self) -> Iterable[Widget]:
        page = LogPage()
        yield LogTitle(self._job_id, page)
        yield page

    def on_mount(self) -> None:
        self.query_one(LogPage).focus()
        self.run_worker(self._follow(), name="log")
        self.set_interval(_LOOK_S, self._look)

    def show(self, view: View) -> None:
        super().show(view)
        self.query_one(LogTitle).show(view)

    async def _follow(self) -> None:
        why = await self.top.source.follow_job_log(self._job_id, self._text.take)
        title = self.query_one(LogTitle)
        title.ended, title.why = True, why
        self._look()
        title.redraw()

    def _look(self) -> None:
        if self._text.read():
            dropped, self._seen_dropped = self._text.dropped - self._seen_dropped, self._text.dropped
            self.query_one(LogPage).show(self._text.all(), dropped)
        self.query_one(LogTitle).redraw()
