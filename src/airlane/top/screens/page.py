"""A screen with everything about one thing, and the help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from airlane.top.lines import Line
from airlane.top.pages import node_page
from airlane.top.screens.base import DetailScreen
from airlane.top.values import NodeDetail, Panel
from airlane.top.view import View
from airlane.top.widgets.page import Page

Make = Callable[[View, int], list[Line]]


class PageScreen(DetailScreen):
    """Lines that are made anew each round."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Esc", "back"),
        ("j k PgDn PgUp", "scroll"),
        ("h", "help"),
        ("q", "quit"),
    )

    def __init__(self, make: Make) -> None:
        super().__init__()
        self._make = make

    def body(self) -> Iterable[Widget]:
        yield Page()

    def on_mount(self) -> None:
        self.query_one(Page).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(lambda: self.show(self.top.view))

    def show(self, view: View) -> None:
        super().show(view)
        page = self.query_one(Page)
        page.show(self._make(view, page.cells))


class HelpScreen(PageScreen):
    """What the keys do."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("Esc", "back"), ("j k PgDn PgUp", "scroll"), ("q", "quit"))


class WorkScreen(PageScreen):
    """A job or a run; a job's log and its end are a key away."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Esc", "back"),
        ("l", "logs"),
        ("x", "stop"),
        ("j k PgDn PgUp", "scroll"),
        ("h", "help"),
        ("q", "quit"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "logs", show=False),
        Binding("x", "stop", show=False),
    ]

    def __init__(self, make: Make, key: str) -> None:
        super().__init__(make)
        self._key = key

    def action_logs(self) -> None:
        self.top.show_log(self._key)

    def action_stop(self) -> None:
        self.top.ask_to_stop(self._key)


class NodeScreen(PageScreen):
    """A node. What runs on it is asked for as long as somebody looks."""

    def __init__(self, node_id: str) -> None:
        super().__init__(self._lines)
        self._node_id = node_id
        self._detail: Panel[NodeDetail] | None = None

    def _lines(self, view: View, cells: int) -> list[Line]:
        return node_page(view, self._node_id, self._detail, cells)

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._ask(), name="node")

    async def _ask(self) -> None:
        while True:
            if not self.top.view.paused or self._detail is None:
                self._detail = await self.top.source.node(self._node_id)
                if self.is_current:
                    self.show(self.top.view)
            await asyncio.sleep(self.top.view.interval_s)
