"""One frame of `air top` as text: for a pipe, a log, a message to a colleague."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from airlane.top import words
from airlane.top.columns import ACTORS, CLASSES, GROUPS, NODES, WORK, actor_rows, work_rows
from airlane.top.header import header_lines, trouble_words
from airlane.top.history import History
from airlane.top.lines import Line, Tone, fitted
from airlane.top.listing import Listing, lines_of
from airlane.top.values import Group, Node, Panel, Snapshot
from airlane.top.view import View, view_of
from airlane.top.words import UNICODE, Marks

_ASKED = ("nodes", "load", "jobs", "actors", "placement groups")  # of every cluster
MOST_ROWS = 20  # of what may be very many; nodes are all there
_DIGITS = re.compile(r"(\d+)")

Row = TypeVar("Row")


def _without(listing: Listing[Row], *titles: str) -> Listing[Row]:
    """The listing without columns that are for looking closer: they leave too little room for why something waits."""
    return replace(listing, columns=tuple(column for column in listing.columns if column.title not in titles))


_ACTORS = _without(ACTORS, "RESTARTS", "JOB", "ID")
_GROUPS = _without(GROUPS, "JOB", "ID")


def frame(snapshot: Snapshot, now: float, cells: int, marks: Marks = UNICODE) -> list[Line]:
    """The cluster in all, its nodes, jobs and runs, actors, placement groups; then what could not be told."""
    view = replace(view_of(snapshot, now, marks=marks), history=History())  # one round has no past
    waiting = [actor for actor in actor_rows(snapshot.actors.data.living) if actor.state != "ALIVE"]
    groups = sorted(snapshot.groups.data, key=_waits_first)
    nodes = _in_order(snapshot.nodes.data, view)
    return [
        *header_lines(view, cells),
        *_section(NODES, nodes, snapshot.nodes, view, cells, most=None),
        *(fitted(line, cells, marks) for line in _unwell(nodes, view)),
        *_section(WORK, work_rows(snapshot), snapshot.jobs, view, cells),
        *_section(CLASSES, snapshot.actors.data.classes, snapshot.actors, view, cells),
        *(_section(_ACTORS, waiting, snapshot.actors, view, cells, title="Actors that wait") if waiting else ()),
        *_section(_GROUPS, groups, snapshot.groups, view, cells),
        *_troubles(view, snapshot, cells),
    ]


def _section(
    listing: Listing[Row],
    rows: Sequence[Row],
    panel: Panel[object],
    view: View,
    cells: int,
    *,
    title: str | None = None,
    most: int | None = MOST_ROWS,
) -> list[Line]:
    """A list below its title, with how many there are."""
    title = title or f"{listing.name[0].upper()}{listing.name[1:]}"
    counted: Line = [(f"  {len(rows):,}", Tone.DIM)] if rows else []
    lines: list[Line] = [[], [(title, Tone.TITLE), *counted]]
    if not rows and panel.at is None:
        return [*lines, [("Not told.", Tone.DIM)]]
    lines += lines_of(listing, rows[:most], view.context, cells)
    left = len(rows) - len(rows[:most])
    if left:
        lines.append([(f"{view.marks.more} {left:,} more: air top, or air top --once --json", Tone.DIM)])
    return lines


def _unwell(nodes: Sequence[Node], view: View) -> list[Line]:
    """Why nodes are dead: the list has no room for it."""
    told = [node for node in nodes if node.why and not node.alive][:MOST_ROWS]
    return [
        [
            ("! ", Tone.BAD),
            (f"{view.names[node.id]} is {node.state}: {words.clean(node.why or '', view.marks)}", Tone.DIM),
        ]
        for node in told
    ]


def _troubles(view: View, snapshot: Snapshot, cells: int) -> list[Line]:
    """Every question that was not answered, by name; and every list that is longer than Ray tells."""
    lines: list[Line] = []
    if snapshot.trouble:
        lines.append([("! ", Tone.BAD), (words.clean(snapshot.trouble, view.marks), Tone.PLAIN)])
    for name, panel in snapshot.panels.items():
        why = trouble_words(view, panel)
        if why is None and panel.at is None and name in _ASKED:
            why = "no answer in time"
        if why is not None:
            lines.append([("! ", Tone.BAD), (f"{name}: {why}", Tone.PLAIN)])
        if panel.cut:
            lines.append([("! ", Tone.WARN), (f"{name}: Ray told only a part, {panel.cut:,} are missing", Tone.PLAIN)])
    return [[], *(fitted(line, cells, view.marks) for line in lines)] if lines else []


def _in_order(nodes: Sequence[Node], view: View) -> list[Node]:
    """The head, then what is alive, by name: node-2 before node-10."""
    return sorted(nodes, key=lambda node: (not node.head, not node.alive, _natural(view.names.get(node.id, ""))))


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name))


def _waits_first(group: Group) -> tuple[bool, float]:
    return group.state == "CREATED", -(group.asked_at or 0.0)
