"""One frame as text, of clusters that are made up."""

from __future__ import annotations

from dataclasses import replace

from airlane.top.lines import plain
from airlane.top.once import MOST_ROWS, frame
from airlane.top.values import Actor, ActorClass, Actors, Demand, Group, Job, Load, Node, Panel, Snapshot
from airlane.top.words import ASCII

NOW = 1_800_000_000.0
NODES = (
    Node("a", "node-10", state="ALIVE"),
    Node("b", "node-2", state="ALIVE"),
    Node("c", "node-1", state="DEAD", why="health check failed due to missing too many heartbeats, for a long time"),
    Node("d", "node-9", state="ALIVE", head=True),
)
WAITS = Actor("f" * 32, "Greedy", state="PENDING_CREATION", why="needs 50 CPUs: no node has more than 2")
SNAPSHOT = Snapshot(
    NOW,
    "http://head:8265",
    nodes=Panel(NODES, NOW),
    load=Panel(Load(demands=(Demand(1, {"CPU": 50.0}),)), NOW),
    jobs=Panel((), NOW),
    actors=Panel(Actors((ActorClass("Greedy", {"PENDING_CREATION": 1}),), (WAITS,)), NOW),
    groups=Panel((Group("1", "made", "CREATED"), Group("2", "waits", "PENDING", why="asks for too much")), NOW),
)


def text(snapshot: Snapshot, cells: int = 120) -> list[str]:
    return [plain(line) for line in frame(snapshot, NOW, cells)]


def test_the_head_comes_first_then_what_is_alive_by_name() -> None:
    named = [line.split()[0] for line in text(SNAPSHOT) if line.startswith("node-")]
    assert named == ["node-9", "node-2", "node-10", "node-1"]


def test_what_is_wrong_is_there_in_full_words() -> None:
    lines = text(SNAPSHOT)
    assert f"! node-1 is DEAD: {NODES[2].why}" in lines
    assert any(line.endswith("needs 50 CPUs: no node has more than 2") for line in lines)
    waiting, made = (next(i for i, line in enumerate(lines) if line.startswith(name)) for name in ("waits ", "made "))
    assert waiting < made


def test_what_was_not_told_is_not_shown_as_none() -> None:
    lines = text(replace(SNAPSHOT, groups=Panel((), None, "answers 500"), jobs=Panel(())))
    assert [lines[lines.index(title) + 1] for title in ("Jobs and runs", "Placement groups")] == ["Not told."] * 2
    assert lines[-2:] == ["! jobs: no answer in time", "! placement groups: answers 500"]


def test_a_list_that_ray_cut_says_how_much_is_missing() -> None:
    cut = replace(SNAPSHOT, actors=replace(SNAPSHOT.actors, cut=12_345))
    assert text(cut)[-1] == "! actors: Ray told only a part, 12,345 are missing"


def test_long_lists_end_with_how_many_more_there_are_and_nodes_are_all_there() -> None:
    jobs = tuple(Job(f"job-{number}", state="RUNNING", started_at=NOW - number) for number in range(1000))
    nodes = tuple(Node(str(number), f"node-{number}", state="ALIVE") for number in range(1000))
    lines = text(replace(SNAPSHOT, jobs=Panel(jobs, NOW), nodes=Panel(nodes, NOW)))
    assert sum(" job-" in line for line in lines) == MOST_ROWS
    assert sum(line.startswith("node-") for line in lines) == 1000
    assert "… 980 more: air top, or air top --once --json" in lines


def test_it_is_as_wide_as_asked_and_has_no_sign_beyond_ascii_where_there_is_none() -> None:
    for cells in (40, 80, 120, 250):
        assert max(map(len, text(SNAPSHOT, cells))) <= cells
    assert all(plain(line).isascii() for line in frame(SNAPSHOT, NOW, 80, ASCII))
