"""Whatever a cluster tells, there are lines for it."""

from __future__ import annotations

import dataclasses
import random
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from airlane.top import columns, pages
from airlane.top.header import header_lines, status_line
from airlane.top.history import History
from airlane.top.lines import Line, plain, width
from airlane.top.listing import in_order, lines_of
from airlane.top.values import NodeDetail, Panel, Snapshot
from airlane.top.view import View, view_of
from airlane.top.words import ASCII, UNICODE

from .made_clusters import NOW

WORDS = (
    "ALIVE",
    "DEAD",
    "RUNNING",
    "FAILED",
    "PENDING",
    "CPU",
    "GPU",
    "memory",
    "",
    "\x1b[2J",
    "日本語",
    "\ud83d",
    "a\nb",
    "x" * 999,
)
NUMBERS = (0.0, -1.0, 0.5, 69.9, 90.0, 100.0, 1e9, 1e12, NOW, NOW * 1000, 1e300, -1e300, 5e-324)
CASES = 150


def anything(kind: Any, luck: random.Random) -> Any:
    """A value of a type, of which every part is anything that its own type allows."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return anything(luck.choice(parts), luck)
    if origin is Panel:
        return Panel(
            anything(parts[0], luck), anything(float | None, luck), anything(str | None, luck), luck.choice((0, 7))
        )
    if origin is tuple:
        return tuple(anything(parts[0], luck) for _ in range(luck.choice((0, 1, 3))))
    if origin is Mapping:
        return {anything(str, luck): anything(parts[1], luck) for _ in range(luck.choice((0, 1, 3)))}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{field.name: anything(hints[field.name], luck) for field in dataclasses.fields(kind)})
    simple = {
        type(None): None,
        bool: luck.random() < 0.5,
        str: luck.choice(WORDS),
        int: int(luck.choice(NUMBERS)),
        float: luck.choice(NUMBERS),
    }
    return simple[kind]


def all_pages(view: View, snapshot: Snapshot, detail: Panel[NodeDetail], cells: int) -> list[Line]:
    """Everything about every row."""
    lines: list[Line] = []
    for node in snapshot.nodes.data:
        lines += pages.node_page(view, node.id, detail, cells)
    for work in columns.work_rows(snapshot):
        lines += pages.work_page(view, columns.work_key(work), cells)
    for actor in snapshot.actors.data.living:
        lines += pages.actor_page(view, actor.id, cells)
    for group in snapshot.groups.data:
        lines += pages.group_page(view, group.id, cells)
    return [*lines, *pages.help_page(view, cells)]


def all_lists(view: View, snapshot: Snapshot, cells: int) -> list[Line]:
    lines: list[Line] = []
    for listing, rows in (
        (columns.NODES, columns.node_rows(snapshot.nodes.data)),
        (columns.WORK, columns.work_rows(snapshot)),
        (columns.JOBS, snapshot.jobs.data),
        (columns.RUNS, (*snapshot.runs.data, *snapshot.train.data)),
        (columns.CLASSES, snapshot.actors.data.classes),
        (columns.ACTORS, columns.actor_rows(snapshot.actors.data.living)),
        (columns.GROUPS, snapshot.groups.data),
    ):
        lines += shown(listing, rows, view, cells)
    return lines


def shown(listing: Any, rows: Any, view: View, cells: int) -> list[Line]:
    """A list, sorted by each of its columns."""
    for column in listing.columns:
        rows = in_order(rows, column, view.context, falling=column.falling)
    assert all(isinstance(listing.text(row, view.context), str) for row in rows)
    return lines_of(listing, rows, view.context, cells)


@pytest.mark.parametrize("seed", range(5))
def test_there_are_lines_for_anything_that_the_types_allow(seed: int) -> None:
    luck = random.Random(seed)
    history = History()
    for _ in range(CASES // 5):
        snapshot = anything(Snapshot, luck)
        detail = anything(Panel[NodeDetail], luck)
        marks = luck.choice((UNICODE, ASCII))
        view = view_of(snapshot, NOW, history=history, marks=marks)
        for cells in (8, 78, 200):
            fitting = [*header_lines(view, cells), status_line(view, cells), *all_lists(view, snapshot, cells)]
            assert [plain(line) for line in fitting if width(line) > max(cells, 40)] == []
            for line in (*fitting, *all_pages(view, snapshot, detail, cells)):
                assert plain(line).isprintable(), line
                plain(line).encode("ascii" if marks is ASCII else "utf-8")
