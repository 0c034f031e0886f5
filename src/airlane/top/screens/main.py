"""The lists: an overview, jobs and runs, nodes, actors, placement groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from airlane.top import columns
from airlane.top.header import trouble_words
from airlane.top.pages import actor_page, group_page, work_page
from airlane.top.screens.base import TABS, TopScreen
from airlane.top.screens.page import NodeScreen, PageScreen, WorkScreen
from airlane.top.values import Bundle, Group, Panel, Snapshot
from airlane.top.view import View
from airlane.top.widgets.bars import Keys, Tabs
from airlane.top.widgets.table import ABOVE, Table

_LESSER = {0: 0, 1: 1, 3: 0, 4: 1}  # which of a tab's two lists
_LESSER_SHARE = 0.4
_LEAST_ROWS = 2
_HIDDEN_WITHOUT_ROWS = ("runs", "bundles")

Rows = Callable[[Snapshot], Sequence[Any]]


class Listed:
    """A table, and where its rows come from."""

    def __init__(self, table: Table[Any], rows: Rows, *panels: Callable[[Snapshot], Panel[Any]]) -> None:
        self.table = table
        self._rows = rows
        self._panels = panels
        self._made_of: Snapshot | None = None
        self._made: Sequence[Any] = ()

    def show(self, view: View) -> None:
        snapshot = view.snapshot
        if snapshot is None:
            return
        if snapshot is not self._made_of:
            self._made_of, self._made = snapshot, self._rows(snapshot)
        said = (trouble_words(view, panel(snapshot)) for panel in self._panels)
        self.table.show(self._made, view.context, trouble=", ".join(word for word in said if word))


class MainScreen(TopScreen):
    """Five tabs of one or two lists each."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Enter", "open"),
        ("/", "filter"),
        ("s", "sort"),
        ("l", "logs"),
        ("x", "stop"),
        ("Tab", "next list"),
        ("h", "help"),
        ("q", "quit"),
        ("p", "pause"),
        ("t", "theme"),
        ("+ -", "more, less often"),
    )
    CSS = """
    .tab { display: none; height: 1fr; }
    .tab.seen { display: block; }
    .tab Table { height: 1fr; }
    #filter { height: 1; border: none; padding: 0 1; display: none; }
    #filter.typing { display: block; }
    Keys.away { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # What comes in one go is given out before the first of it is obeyed, unless that has priority.
        *(Binding(str(index + 1), f"tab({index})", show=False, priority=True) for index in range(len(TABS))),
        Binding("tab,right", "next_list(1)", show=False),
        Binding("shift+tab,left", "next_list(-1)", show=False),
        Binding("slash", "filter", show=False, priority=True),
        Binding("escape", "clear", show=False),
        Binding("l", "logs", show=False),
        Binding("x", "stop", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        nodes, groups = (lambda one: one.nodes), (lambda one: one.groups)
        jobs, runs, train = (lambda one: one.jobs), (lambda one: one.runs), (lambda one: one.train)
        actors: Callable[[Snapshot], Panel[Any]] = lambda one: one.actors  # noqa: E731
        self.lists: tuple[tuple[Listed, ...], ...] = (
            (
                Listed(Table(columns.WORK, id="work"), columns.work_rows, jobs, runs, train),
                Listed(Table(columns.NODES, id="all-nodes"), lambda one: columns.node_rows(one.nodes.data), nodes),
            ),
            (
                Listed(Table(columns.JOBS, id="jobs"), lambda one: one.jobs.data, jobs),
                Listed(Table(columns.RUNS, id="runs"), lambda one: (*one.runs.data, *one.train.data), runs, train),
            ),
            (Listed(Table(columns.NODES, id="nodes"), lambda one: columns.node_rows(one.nodes.data), nodes),),
            (
                Listed(Table(columns.CLASSES, id="classes"), lambda one: one.actors.data.classes, actors),
                Listed(
                    Table(columns.ACTORS, id="actors"), lambda one: columns.actor_rows(one.actors.data.living), actors
                ),
            ),
            (
                Listed(Table(columns.GROUPS, id="groups"), lambda one: one.groups.data, groups),
                Listed(Table(columns.BUNDLES, id="bundles"), self._bundles),
            ),
        )
        self.tab = 0
        self._focus = [0 for _ in TABS]

    def body(self) -> Iterable[Widget]:
        yield Tabs(TABS)
        for index, lists in enumerate(self.lists):
            yield Vertical(*(listed.table for listed in lists), id=f"tab-{index}", classes="tab")
        yield Input(id="filter", placeholder="words that rows must have", compact=True)

    def on_mount(self) -> None:
        self.action_tab(0)

    # What is shown

    def show(self, view: View) -> None:
        super().show(view)
        for listed in self.lists[self.tab]:
            listed.show(view)
        self._share_height()

    def _share_height(self) -> None:
        """The lesser list of two takes what it needs, as long as the other one keeps the larger part."""
        lesser = _LESSER.get(self.tab)
        room = self.query_one(f"#tab-{self.tab}").size.height
        if lesser is None or not room:
            return
        table = self.lists[self.tab][lesser].table
        table.display = table.count > 0 or table.id not in _HIDDEN_WITHOUT_ROWS
        height = min(max(_LEAST_ROWS, table.count) + ABOVE, max(_LEAST_ROWS + ABOVE, int(room * _LESSER_SHARE)))
        if table.styles.height is None or table.styles.height.value != height:
            table.styles.height = height

    def _bundles(self, _: Snapshot) -> Sequence[Any]:
        group = self.query_one("#groups", Table).row
        return group.bundles if isinstance(group, Group) else ()

    @on(Table.Moved, "#groups")
    def show_bundles(self) -> None:
        view = self.top.view
        if view.snapshot is not None:
            bundles = self.lists[-1][1].table
            bundles.show(self._bundles(view.snapshot), view.context)

    def on_resize(self) -> None:
        self.call_after_refresh(self._share_height)

    # Which list

    @property
    def table(self) -> Table[Any]:
        """The one that keys go to."""
        return self.lists[self.tab][self._focus[self.tab]].table

    def action_tab(self, index: int) -> None:
        self.tab = index
        for number in range(len(TABS)):
            self.query_one(f"#tab-{number}").set_class(number == index, "seen")
        self.query_one(Tabs).show(index)
        self._stop_typing()
        self.set_focus(self.table)
        self.show(self.top.view)
        self.call_after_refresh(self._share_height)

    @on(Tabs.Chosen)
    def tab_clicked(self, event: Tabs.Chosen) -> None:
        self.action_tab(event.index)

    def action_next_list(self, step: int) -> None:
        """To the other list of the tab, then to the next tab."""
        at = self._focus[self.tab] + step
        if 0 <= at < len(self.lists[self.tab]):
            self._focus[self.tab] = at
            self.set_focus(self.table)
            return
        index = (self.tab + step) % len(TABS)
        self._focus[index] = 0 if step > 0 else len(self.lists[index]) - 1
        self.action_tab(index)

    def on_descendant_focus(self) -> None:
        for number, listed in enumerate(self.lists[self.tab]):
            if listed.table.has_focus:
                self._focus[self.tab] = number

    # Filter

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a filter is typed, its letters are letters."""
        if action in ("filter", "tab") and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.value = self.table.filter
        box.add_class("typing")
        self.query_one(Keys).add_class("away")
        box.display = True  # now, and not with the next look at the styles: the next key is a letter of the filter
        self.set_focus(box)

    def _stop_typing(self) -> None:
        box = self.query_one("#filter")
        box.remove_class("typing")
        box.display = False
        self.query_one(Keys).remove_class("away")

    @on(Input.Changed, "#filter")
    def narrow(self, event: Input.Changed) -> None:
        if event.input.has_class("typing"):
            self.table.narrow(event.value)

    @on(Input.Submitted, "#filter")
    def keep_filter(self) -> None:
        self._stop_typing()
        self.set_focus(self.table)

    def action_clear(self) -> None:
        self.table.narrow("")
        self._stop_typing()
        self.set_focus(self.table)

    # What a row leads to

    @on(Table.Chosen)
    def open_row(self, event: Table.Chosen) -> None:
        """Everything about it."""
        listing, key = event.table.listing.name, event.key
        if listing == columns.NODES.name:
            self.app.push_screen(NodeScreen(key))
        elif listing in (columns.WORK.name, columns.RUNS.name):
            self._open_work(key)
        elif listing == columns.JOBS.name:
            self._open_work(self.work or "")
        elif listing == columns.ACTORS.name:
            self.app.push_screen(PageScreen(lambda view, cells: actor_page(view, key, cells)))
        elif listing == columns.GROUPS.name:
            self.app.push_screen(PageScreen(lambda view, cells: group_page(view, key, cells)))
        elif listing == columns.CLASSES.name:
            self.action_next_list(1)
            self.table.narrow(key)
        elif listing == columns.BUNDLES.name:
            self._open_bundle(event.table.row)

    def _open_bundle(self, bundle: Bundle | None) -> None:
        if bundle is not None and bundle.node_id:
            self.app.push_screen(NodeScreen(bundle.node_id))

    def _open_work(self, key: str) -> None:
        self.app.push_screen(WorkScreen(lambda view, cells: work_page(view, key, cells), key))

    @property
    def work(self) -> str | None:
        """The job or run with the cursor, by its key."""
        listing, row = self.table.listing.name, self.table.row
        if row is None or listing not in (columns.WORK.name, columns.JOBS.name, columns.RUNS.name):
            return None
        return columns.work_key(row)

    def action_logs(self) -> None:
        if self.work is None:
            self.top.say("Choose a job first: its log is shown with l.")
        else:
            self.top.show_log(self.work)

    def action_stop(self) -> None:
        if self.work is None:
            self.top.say("Choose a job first: it is stopped with x, after a question.")
        else:
            self.top.ask_to_stop(self.work)
