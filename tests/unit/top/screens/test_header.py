"""Sums over a cluster, its last minutes, and the lines above and below the lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airlane.top.header import LINES, header_lines, status_line
from airlane.top.history import KEPT, History
from airlane.top.lines import plain, width
from airlane.top.totals import Totals, totals
from airlane.top.values import Demand, Load, Measures, Node, Panel, Snapshot
from airlane.top.view import View, view_of

from .made_clusters import GB, NOW, broken_cluster, made_up_gpu_cluster, plain_cluster, silent_cluster

EMPTY = Snapshot(at=NOW, cluster="nothing yet")


def test_sums_are_those_of_the_nodes_that_are_well() -> None:
    sums = totals(broken_cluster())
    assert (sums.alive, sums.dead, sums.stale) == (3, 2, 1)
    assert (sums.cores, sums.gpus) == (96, 8)
    assert (sums.cpu, sums.memory_used) == (31.5, 310 * GB)
    assert sums.gpu == 79.0


def test_means_are_weighted() -> None:
    nodes = (
        Node(id="1", state="ALIVE", measures=Measures(cpu=100.0, cores=2)),
        Node(id="2", state="ALIVE", measures=Measures(cpu=0.0, cores=6)),
        Node(id="3", state="ALIVE", measures=Measures()),
    )
    assert totals(replace(EMPTY, nodes=Panel(nodes, at=NOW))).cpu == 25.0


def test_what_nobody_tells_is_not_zero() -> None:
    assert totals(EMPTY) == Totals()
    assert totals(plain_cluster()).gpu is None


@pytest.mark.parametrize(
    "snapshot", [EMPTY, plain_cluster(), made_up_gpu_cluster(), broken_cluster(), silent_cluster()]
)
def test_the_header_has_six_lines_that_fit_any_width(snapshot: Snapshot) -> None:
    view = view_of(snapshot, NOW)
    for cells in range(1, 260):
        lines = header_lines(view, cells)
        assert len(lines) == LINES
        if cells >= 20:
            assert all(width(line) <= cells for line in lines), cells
        assert width(status_line(view, cells)) <= cells


def test_before_the_first_answer_there_is_a_header_too() -> None:
    view = View(NOW, asked_at=NOW - 3)
    assert len(header_lines(view, 80)) == LINES
    assert plain(status_line(view, 80)) == "asked 3s ago, no answer yet"


def test_what_waits_is_told_with_its_shape() -> None:
    demands = (Demand(1, {"CPU": 0.5}), Demand(1204, {"GPU": 1.0}, group=True))
    view = view_of(replace(EMPTY, load=Panel(Load(demands=demands), at=NOW)), NOW)
    assert plain(header_lines(view, 80)[-1]) == "Waiting 1,204 × 1 GPU (placement group), 1 × 0.5 CPU"
    assert plain(header_lines(view_of(EMPTY, NOW), 80)[-1]) == "Waiting nothing waits for resources"


def test_the_head_that_is_away_is_told_of_with_the_age_of_what_is_shown() -> None:
    view = replace(view_of(silent_cluster(), NOW + 75), interval_s=2.0)
    said = plain(status_line(view, 120))
    assert said == "! The head does not answer since 1m 15s, this is what was there: connection refused"
    never = replace(EMPTY, answers=False, trouble="no route to host")
    assert plain(status_line(view_of(never, NOW), 120)) == "! The head does not answer: no route to host"


def test_data_is_old_after_two_rounds() -> None:
    fresh, old = plain_cluster(), replace(plain_cluster(), jobs=Panel((), at=NOW - 30))
    assert plain(status_line(view_of(fresh, NOW), 80)) == "asked every 2s"
    assert plain(status_line(view_of(old, NOW), 80)) == "! jobs 30s old"
    slow = replace(view_of(old, NOW), interval_s=30.0)
    assert plain(status_line(slow, 80)) == "asked every 30s"


def test_every_failing_endpoint_is_named() -> None:
    said = plain(status_line(view_of(broken_cluster(), NOW), 120))
    assert said == "! nodes HTTP 500 (12s old) · placement groups no answer within 5s (40s old)"


def test_names_alone_are_told_where_there_is_no_room_for_more() -> None:
    assert plain(status_line(view_of(broken_cluster(), NOW), 50)) == "! no new nodes, placement groups"


def test_the_past_of_a_node_is_kept_by_its_id_and_goes_with_it() -> None:
    history = History()
    snapshot = made_up_gpu_cluster()
    first = snapshot.nodes.data[0]
    for number in range(KEPT + 5):
        busier = replace(first, measures=replace(first.measures, cpu=float(number % 100)))
        nodes = (busier, *snapshot.nodes.data[1:])
        view_of(replace(snapshot, nodes=Panel(nodes, at=NOW + number)), NOW, history=history)
    past = history.nodes[first.id]
    assert len(past.cpu) == KEPT
    assert past.cpu[-1] == (KEPT + 4) % 100
    assert len(past.gpus) == 8
    assert past.gpus[0][-1] == 55.0
    assert past.gpu[-1] == pytest.approx(79.0, abs=0.5)
    view_of(replace(snapshot, nodes=Panel(snapshot.nodes.data[1:], at=NOW + KEPT + 9)), NOW, history=history)
    assert first.id not in history.nodes


def test_a_round_without_new_measures_leaves_a_gap() -> None:
    history = History()
    for at in (NOW, NOW, NOW + 1):
        view_of(replace(plain_cluster(), nodes=Panel(plain_cluster().nodes.data, at=at)), NOW, history=history)
    assert history.cpu.values() == [4.5, None, 4.5]


def test_dead_and_stale_nodes_have_no_load_in_their_past() -> None:
    history = History()
    view_of(broken_cluster(), NOW, history=history)
    stale, dead = broken_cluster().nodes.data[1:3]
    assert history.nodes[stale.id].cpu == [None]
    assert history.nodes[dead.id].memory == [None]


def test_odd_numbers_are_kept_within_bounds() -> None:
    history = History()
    odd = Measures(cpu=1e30, memory_used=-5, memory_total=10)
    view_of(replace(EMPTY, nodes=Panel((Node(id="1", state="ALIVE", measures=odd),), at=NOW)), NOW, history=history)
    assert (history.nodes["1"].cpu, history.nodes["1"].memory) == ([100.0], [0.0])
