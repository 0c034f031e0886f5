"""The nodes of an attempt on a Ray cluster, with a cluster that is made for the test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airlane.backends.base import Waiting
from airlane.backends.ray.agent import travels
from airlane.backends.ray.allocation import REPLACEMENT_S, Holding, Parcel, RayAllocation
from airlane.backends.ray.door import AgentLostError, Demand
from airlane.errors import BackendError, CapacityError, NodeFailedError
from airlane.launch.order import Order
from airlane.store.paths import RunPaths
from airlane.store.records import EnvironmentRecord, Limits, RunRecord

from .made_door import MadeDoor, Promise

RECORD = RunRecord(
    id="7k2m9q4d",
    experiment_name="ray",
    user="ada",
    submitted_at=0.0,
    workload_file="/w.yaml",
    backend="ray",
    profile="cluster",
    nodes=3,
    accelerators=3,
    accelerators_per_node=1,
    accelerator_type="CPU_1xCORE",
    simulate=False,
    limits=Limits(0, None, 30.0, 300.0),
    environment=EnvironmentRecord("AI5", (), "3.11", "abc"),
)
THREE = ["10.0.0.10", "10.0.0.9", "10.0.0.100"]


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path / "7k2m9q4d")


def made(
    paths: RunPaths, door: MadeDoor, *, attempt: int = 0, grows: bool = False, holding: Holding | None = None
) -> RayAllocation:
    return RayAllocation(
        RECORD,
        paths,
        attempt,
        door=door,
        holding=holding or Holding(door),
        demand=Demand({"CPU": 1.0}, {}),
        parcel=Parcel(kit=b"kit", code=b"code", secrets={"/s": b"{}"}, wait_s=1200.0, grows=grows, storage=None),
        clock=lambda: door.now,
    )


def order(paths: RunPaths, node: int) -> Order:
    return Order(
        run_id="7k2m9q4d",
        attempt=0,
        node_rank=node,
        command_file="c",
        working_folder="w",
        log_file=str(paths.log(attempt=0, node=node)),
        record_file=str(paths.node_record(attempt=0, node=node)),
        env={},
        secrets_files=("/s",),
    )


def started(paths: RunPaths, door: MadeDoor, *, holding: Holding | None = None) -> RayAllocation:
    allocation = made(paths, door, holding=holding)
    assert allocation.waiting() is None
    for place in allocation.places():
        allocation.start(order(paths, place.node))
    allocation.wait(0.0)
    return allocation


def test_nodes_are_numbered_by_address_as_numbers_wherever_ray_put_the_bundles(paths: RunPaths) -> None:
    for placed in ([0, 1, 2], [2, 0, 1]):
        allocation = made(paths, MadeDoor(THREE, placed=placed))
        assert allocation.waiting() is None
        assert [place.address for place in allocation.places()] == ["10.0.0.9", "10.0.0.10", "10.0.0.100"]
        assert allocation.free_port() == 20000 + placed.index(1)


def test_two_bundles_on_one_node_are_an_error_and_not_a_run(paths: RunPaths) -> None:
    allocation = made(paths, MadeDoor(THREE, placed=[0, 0, 1]))
    with pytest.raises(BackendError, match="two of 3 bundles on one node"):
        allocation.waiting()


def test_what_the_cluster_can_never_hold_is_refused_before_anything_is_asked_for(paths: RunPaths) -> None:
    door = MadeDoor(THREE[:2])
    with pytest.raises(CapacityError, match="2"):
        made(paths, door).waiting()
    assert door.groups == []


def test_a_node_that_was_lost_may_come_back_before_the_next_attempt_is_refused(paths: RunPaths) -> None:
    door = MadeDoor(THREE[:2], granted_now=False)
    allocation = made(paths, door, attempt=1)
    assert isinstance(allocation.waiting(), Waiting)
    door.now = REPLACEMENT_S - 1
    assert isinstance(allocation.waiting(), Waiting)
    door.now = REPLACEMENT_S + 60
    with pytest.raises(CapacityError):
        allocation.waiting()


def test_busy_nodes_are_waited_for_with_a_reason_and_not_for_ever(paths: RunPaths) -> None:
    door = MadeDoor(THREE, granted_now=False, free={"CPU": 0.0})
    allocation = made(paths, door)
    waiting = allocation.waiting()
    assert waiting is not None
    assert "0 of 3" in waiting.detail
    door.now = 1201.0
    with pytest.raises(CapacityError, match="no nodes within 20 min"):
        allocation.waiting()


def test_a_cluster_that_grows_is_waited_for_where_another_is_refused(paths: RunPaths) -> None:
    door = MadeDoor(THREE[:1], granted_now=False)
    assert isinstance(made(paths, door, grows=True).waiting(), Waiting)
    assert door.groups == ["air-7k2m9q4d-0"]


def test_an_order_goes_to_its_node_with_the_files_laid_out_for_it_and_the_secrets(paths: RunPaths) -> None:
    sent = paths.sent(attempt=0, node=1)
    (sent / "attempts").mkdir(parents=True)
    (sent / "attempts" / "x").write_text("for node 1")
    door = MadeDoor(THREE)
    started(paths, door)
    starts = {arguments[0]: arguments for _, arguments in door.told("start")}
    assert starts[1][2] == {"attempts/x": b"for node 1"}
    assert starts[0][2] == {}
    assert starts[1][3:] == ([b"{}"], b"code")
    assert json.loads(starts[1][1])["silence_s"] > 0


Told = tuple[list[tuple[str, int | None, bytes]], bool]


def news(by_rank: dict[int, list[Told]]) -> Callable[[Promise], None]:
    """Agents that tell this, one after the other, and then wait. Agents are ordered as their ranks are in SORTED."""

    def answer(promise: Promise) -> None:
        if promise.method == "news":
            left = by_rank.get(promise.agent, [])
            promise.ready = bool(left)
            promise.answer = left.pop(0) if left else None

    return answer


SORTED = sorted(THREE, key=lambda address: int(address.rpartition(".")[2]))


def record(node: int, **fields: Any) -> bytes:
    base = {"node_rank": node, "host": "h", "agent_pid": 1, "containment": "x", "started_at": 1.0}
    return json.dumps({**base, **fields}).encode()


def test_what_nodes_write_is_in_the_run_folder_before_their_end_is_reported(paths: RunPaths) -> None:
    log, file = "attempts/0/nodes/0.log", "attempts/0/nodes/0.json"
    told: list[Told] = [
        ([(log, 0, b"one\n")], True),
        ([(log, 4, b"two\n"), (file, None, record(0, ended_at=2.0, exit_code=3))], True),
        ([], False),
    ]
    allocation = started(paths, MadeDoor(SORTED, answers=news({0: told})))
    allocation.wait(0.0)
    assert paths.log(attempt=0, node=0).read_text() == "one\n"
    for _ in range(3):
        allocation.wait(0.0)
    first, *others = allocation.look()
    assert not first.agent_alive
    assert first.record is not None
    assert first.record.exit_code == 3
    assert paths.log(attempt=0, node=0).read_text() == "one\ntwo\n"
    assert all(report.agent_alive for report in others)


def test_what_one_node_of_a_cluster_of_the_run_writes_reaches_the_others(paths: RunPaths) -> None:
    name = "attempts/0/ray/cluster.json"
    door = MadeDoor(SORTED, answers=news({0: [([(name, None, b'{"phase": "ready"}')], True)]}))
    started(paths, door).wait(0.0)
    assert door.told("put") == [(1, (name, b'{"phase": "ready"}')), (2, (name, b'{"phase": "ready"}'))]


@pytest.mark.parametrize("died", [True, False])
def test_an_agent_that_ray_has_lost_is_told_from_a_machine_that_has_failed(paths: RunPaths, *, died: bool) -> None:
    def answer(promise: Promise) -> None:
        promise.ready = promise.method != "news" or promise.agent == 1
        if promise.method == "news":
            promise.lost = AgentLostError("its worker was killed")

    door = MadeDoor(SORTED, answers=answer)
    allocation = started(paths, door)
    if died:
        door.dead.add(SORTED[1])
    allocation.wait(0.0)
    report = allocation.look()[1]
    assert not report.agent_alive
    assert report.host_failed is died
    assert report.lost == ("its Ray node died" if died else "its worker was killed")
    allocation.release()
    asked = {SORTED.index(door.addresses[agent]) for agent, _ in door.told("close")}
    assert (1 not in asked) is died, "a machine that has failed would be waited for until Ray notices, too"
    assert {0, 2} <= asked


def test_a_node_lost_before_it_began_is_a_failed_machine(paths: RunPaths) -> None:
    def answer(promise: Promise) -> None:
        if promise.agent == 2:
            promise.lost = AgentLostError("died")

    with pytest.raises(NodeFailedError):
        made(paths, MadeDoor(THREE, answers=answer)).waiting()


def test_a_retry_has_the_bundles_of_the_attempt_before(paths: RunPaths) -> None:
    door = MadeDoor(THREE)
    holding = Holding(door)
    started(paths, door, holding=holding).release()
    assert (len(door.killed), door.returned) == (3, [])
    assert made(paths, door, attempt=1, holding=holding).waiting() is None
    assert door.groups == ["air-7k2m9q4d-0"]


def test_bundles_whose_node_was_lost_or_has_died_since_are_given_back_and_others_asked_for(paths: RunPaths) -> None:
    door = MadeDoor(SORTED)
    holding = Holding(door)
    lost = started(paths, door, holding=holding)
    lost._host_failed.add(1)
    lost.release()
    assert door.returned == ["air-7k2m9q4d-0"]
    again = made(paths, door, attempt=1, holding=holding)
    assert again.waiting() is None
    again.release()
    assert door.returned == ["air-7k2m9q4d-0"]
    door.dead.add(SORTED[1])
    with pytest.raises(CapacityError):
        made(paths, door, holding=holding).waiting()
    assert door.returned == ["air-7k2m9q4d-0", "air-7k2m9q4d-1"]


def test_stop_kill_and_release_are_harmless_when_repeated_and_the_end_gives_the_bundles_back_once(
    paths: RunPaths,
) -> None:
    door = MadeDoor(THREE)
    holding = Holding(door)
    allocation = started(paths, door, holding=holding)
    for _ in range(2):
        allocation.stop(1)
        allocation.kill(1)
        allocation.release()
    for _ in range(2):
        holding.give_back()
    assert (len(door.killed), door.returned) == (3, ["air-7k2m9q4d-0"])
    assert not any(report.agent_alive for report in allocation.look())
    assert len(door.told("close")) == 3


def test_an_allocation_that_was_never_asked_for_is_released_without_a_word(paths: RunPaths) -> None:
    door = MadeDoor(THREE)
    made(paths, door).release()
    assert (door.groups, door.returned) == ([], [])


def test_a_node_tells_of_its_own_files_and_of_none_that_another_has_written() -> None:
    first, second = travels(0, 0), travels(0, 1)
    for name in ("nodes/1.log", "nodes/1.json", "nodes/1.metrics.jsonl", "ray/start-1.log"):
        assert second(f"attempts/0/{name}")
        assert not first(f"attempts/0/{name}")
    assert first("attempts/0/ray/cluster.json")
    for name in ("ray/cluster.json", "ray/token", "nodes/1.order.json", "nodes/1.json.next", "code/1/x.log"):
        assert not second(f"attempts/0/{name}")
    assert not second("attempts/1/nodes/1.log")
