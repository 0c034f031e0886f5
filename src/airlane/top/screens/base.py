"""What all screens have in common: the header above, what is wrong and the keys below."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from airlane.top.view import View
from airlane.top.widgets.bars import Header, Keys, Status
from airlane.top.widgets.pane import Pane

if TYPE_CHECKING:
    from airlane.top.app import TopApp

TABS = ("Overview", "Jobs", "Nodes", "Actors", "Groups")


class TopScreen(Screen[None]):
    """A screen of `air top`. The app shows it each round."""

    ALLOW_SELECT = False
    AUTO_FOCUS = ""
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()

    def compose(self) -> ComposeResult:
        yield Header()
        yield from self.body()
        yield Status()
        yield Keys(self.KEYS)

    def body(self) -> Iterable[Widget]:
        """What is between."""
        raise NotImplementedError

    @property
    def top(self) -> TopApp:
        return cast("TopApp", self.app)

    def on_screen_resume(self) -> None:
        self.show(self.top.view)

    def show(self, view: View) -> None:
        """A round, or the same one a second later."""
        self.query_one(Header).show(view)
        self.query_one(Status).show(view)

    def repaint(self) -> None:
        """In other colours."""
        for pane in self.query(Pane):
            pane.refresh()


class DetailScreen(TopScreen):
    """A screen above the lists: it leads back to them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", show=False),
        *(Binding(str(index + 1), f"app.tab({index})", show=False) for index in range(len(TABS))),
    ]

    def action_back(self) -> None:
        self.dismiss()
