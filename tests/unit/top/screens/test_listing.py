"""Columns: which there is room for, how wide they are, and what they say of odd rows."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from airlane.top import columns
from airlane.top.lines import plain, width
from airlane.top.listing import GAP, Context, Listing, fitting, heading_line, lines_of, natural_widths, row_line
from airlane.top.nodes import node_names
from airlane.top.values import Actor, ActorClass, AirRun, Bundle, Gpu, Group, Job, Node, Process, TrainRun

from .made_clusters import NOW, broken_cluster, made_up_gpu_cluster

LISTS: tuple[Listing[Any], ...] = (
    columns.NODES,
    columns.WORK,
    columns.JOBS,
    columns.RUNS,
    columns.CLASSES,
    columns.ACTORS,
    columns.GROUPS,
    columns.BUNDLES,
    columns.PROCESSES,
    columns.GPUS,
)
BARE: tuple[tuple[Listing[Any], Any], ...] = (
    (columns.NODES, Node(id="n")),
    (columns.WORK, Job(id="j")),
    (columns.WORK, AirRun(id="r")),
    (columns.WORK, TrainRun(id="t")),
    (columns.JOBS, Job(id="j")),
    (columns.RUNS, AirRun(id="r")),
    (columns.RUNS, TrainRun(id="t")),
    (columns.CLASSES, ActorClass("c")),
    (columns.ACTORS, Actor(id="a")),
    (columns.GROUPS, Group(id="g")),
    (columns.BUNDLES, Bundle(0)),
    (columns.PROCESSES, Process(pid=1)),
    (columns.GPUS, Gpu(index=0)),
)


@pytest.mark.parametrize("listing", LISTS, ids=lambda listing: listing.name)
def test_columns_fit_any_width_and_the_name_stays(listing: Listing[Any]) -> None:
    for cells in range(1, 260):
        fits = fitting(listing.columns, cells)
        assert next(column for column in listing.columns if column.priority == 0) in [column for column, _ in fits]
        assert sum(taken for _, taken in fits) + GAP * (len(fits) - 1) <= cells
        line = heading_line(fits, None, Context(NOW).marks)
        assert width(line) <= cells


@pytest.mark.parametrize("listing", LISTS, ids=lambda listing: listing.name)
def test_what_goes_first_where_it_is_narrow_is_what_matters_least(listing: Listing[Any]) -> None:
    whole = [column.title for column, _ in fitting(listing.columns, 400)]
    assert whole == [column.title for column in listing.columns]
    for cells in range(30, 200):
        kept = {column.title for column, _ in fitting(listing.columns, cells)}
        gone = [column.priority for column in listing.columns if column.title not in kept]
        stays = [column.priority for column in listing.columns if column.title in kept]
        assert not gone or min(gone) >= max(stays)


@pytest.mark.parametrize(("listing", "row"), BARE, ids=lambda part: getattr(part, "name", type(part).__name__))
def test_a_row_of_which_nothing_is_told_is_a_row_all_the_same(listing: Listing[Any], row: Any) -> None:
    context = Context(NOW)
    fits = fitting(listing.columns, 200)
    assert width(row_line(fits, row, context)) == width(heading_line(fits, None, context.marks))
    assert isinstance(listing.id(row), str)
    assert isinstance(listing.text(row, context), str)
    for column in listing.columns:
        assert isinstance(column.key(row, context), str | float | int | None)


def test_columns_of_words_are_as_wide_as_their_words_and_empty_ones_go() -> None:
    jobs = made_up_gpu_cluster().jobs.data
    context = Context(NOW)
    natural = natural_widths(columns.JOBS.columns, jobs, context, {})
    widths = {column.title: cells for column, cells in fitting(columns.JOBS.columns, 250, natural)}
    assert widths["JOB"] == len("raysubmit_pretrain7b")
    nodes = made_up_gpu_cluster().nodes.data
    natural = natural_widths(columns.NODES.columns, nodes, context, {})
    assert "NOTE" not in {column.title for column, _ in fitting(columns.NODES.columns, 250, natural)}


def test_widths_never_shrink_so_that_nothing_jumps() -> None:
    context = Context(NOW)
    jobs = made_up_gpu_cluster().jobs.data
    before = natural_widths(columns.JOBS.columns, jobs, context, {})
    assert natural_widths(columns.JOBS.columns, (), context, before) == before


def test_printed_lists_are_lined_up() -> None:
    snapshot = broken_cluster()
    context = Context(NOW, nodes=node_names(snapshot.nodes.data))
    lines = [plain(line) for line in lines_of(columns.NODES, snapshot.nodes.data, context, 120)]
    state = lines[0].index("STATE")
    for line, word in zip(lines[1:], ("alive", "stale", "DEAD", "alive", "DEAD"), strict=True):
        assert cell_len(line.partition(word)[0]) == state
    assert [plain(line) for line in lines_of(columns.GROUPS, (), context, 80)] == ["There is no placement group."]


def test_nodes_of_one_name_are_told_apart_by_their_addresses() -> None:
    nodes = (
        Node(id="1", hostname="vm", address="127.0.0.2", state="ALIVE"),
        Node(id="2", hostname="vm", address="127.0.0.3", state="ALIVE"),
        Node(id="3", name="worker", hostname="vm", address="127.0.0.4", state="ALIVE"),
        Node(id="4", hostname="old", address="10.0.0.1", state="DEAD"),
        Node(id="5", hostname="old", address="10.0.0.2", state="ALIVE"),
        Node(id="abcdefghij"),
    )
    assert list(node_names(nodes).values()) == ["vm 127.0.0.2", "vm 127.0.0.3", "worker", "old", "old", "abcdefgh"]


def test_jobs_that_go_on_come_before_those_that_are_over() -> None:
    rows = columns.work_rows(made_up_gpu_cluster())
    assert [row.state for row in rows] == ["PENDING", "RUNNING", "RUNNING", "RUNNING", "FAILED", "SUCCEEDED"]


def test_the_head_is_the_first_node_and_the_dead_are_last() -> None:
    alive, dead = "ALIVE", "DEAD"
    nodes = (
        Node(id="d1", state=dead, ended_at=5.0),
        Node(id="a1", state=alive),
        Node(id="d2", state=dead, ended_at=9.0),
        Node(id="h", state=alive, head=True),
        Node(id="a2", state=alive),
        Node(id="d3", state=dead),
    )
    assert [node.id for node in columns.node_rows(nodes)] == ["h", "a1", "a2", "d2", "d1", "d3"]
