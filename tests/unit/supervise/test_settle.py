"""The truth about a run whose supervisor died, from what its files say."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.backends.base import Allocation, Backend, Compute, Interruption, Liveness
from airlane.store import codec
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, EnvironmentRecord, NodeRecord, RunRecord, Status, Verdict
from airlane.store.runs import NewRun, RunContent, RunStore, RunView
from airlane.store.states import Phase, State
from airlane.supervise.settle import judge, settle

from .made_nodes import LIMITS, START, node_record

LOST = "its supervisor ended without a word (killed, or the machine went down)"
NOW = START + 100
Node = NodeRecord | bytes | None


class DeadBackend(Backend):
    """A place where every supervisor is dead, or what else is said of it."""

    name = "made"

    def __init__(self, liveness: Liveness | None = Liveness.DEAD, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.liveness = liveness
        self.meanwhile = meanwhile
        self.swept: list[str] = []

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        self.meanwhile()
        return {run.id: self.liveness for run in runs} if self.liveness is not None else {}

    def sweep(self, run: RunPaths) -> None:
        self.swept.append(run.id)

    def check(self, compute: Compute) -> tuple[str, ...]:
        raise AssertionError(compute)

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        raise AssertionError(run, supervise, ready)

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        raise AssertionError(run, paths, attempt)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(Home(tmp_path / "a 'home' ü\n"))


def made(
    store: RunStore,
    *nodes: Node,
    attempts: tuple[Attempt, ...] | None = None,
    canceled: bool = False,
    secrets: bytes | None = None,
) -> RunView:
    """A run with these records of its nodes in an attempt that is open, or with other attempts, or with no status."""
    count = max(len(nodes), 1)
    record = RunRecord(
        "", "test", "me", START, "w.yaml", "made", None, count, count, 1, "CPU_1xCORE", simulate=False,
        limits=LIMITS, environment=EnvironmentRecord("host", (), "3.11", None),
    )  # fmt: skip
    new = store.create(record, RunContent("", "true", secrets=secrets))
    os.close(new.lock)
    paths = new.paths
    if attempts is None and nodes:
        attempts = (Attempt(0, START, hosts=tuple(f"gpu-b{node}" for node in range(count))),)
    if attempts is not None:
        status = Status(State.RUNNING, Phase.RUNNING, None, START, 1, "here", attempts)
        store.disk.replace(paths.status, codec.encode(status))
    paths.nodes(0).mkdir(parents=True)
    for node, content in enumerate(nodes):
        if content is not None:
            data = content if isinstance(content, bytes) else codec.encode(content)
            paths.node_record(attempt=0, node=node).write_bytes(data)
    if canceled:
        paths.cancel.touch()
    return store.view(paths)


def said(node: int, code: int, at: float, reason: str | None = None) -> NodeRecord:
    return node_record(node, at=at, exit_code=code, stop_reason=reason)


def orphaned(node: int, code: int = 143, at: float = 9) -> NodeRecord:
    return said(node, code, at, "orphaned")


FAILURE = Cause(CauseKind.EXIT_CODE, "node 0 exited with code 3", node=0, exit_code=3)
ENDED = Attempt(0, START, START + 5, State.FAILED, FAILURE, ("here",))
SUCCEEDED = replace(ENDED, state=State.SUCCESS, cause=Cause(CauseKind.COMPLETED, "done"))

End = tuple[State, CauseKind, str]
DONE = (State.SUCCESS, CauseKind.COMPLETED, f"the command exited with code 0; {LOST}")
GONE = (State.FAILED, CauseKind.SUPERVISOR_LOST, f"the run was lost: {LOST}")
ASKED = (State.CANCELED, CauseKind.CANCELED, f"canceled by the user; {LOST}")


def failed(node: int, code: int) -> End:
    return State.FAILED, CauseKind.EXIT_CODE, f"node {node} exited with code {code}; {LOST}"


TABLE: list[tuple[str, tuple[Node, ...], bool, End]] = [
    ("all succeeded", (said(0, 0, 5), said(1, 0, 6)), False, DONE),
    ("node 0 succeeded, the other was ended", (said(0, 0, 5), orphaned(1)), False, DONE),
    ("success goes before a cancel", (said(0, 0, 5),), True, DONE),
    ("one failed by itself", (orphaned(0), said(1, 7, 4)), False, failed(1, 7)),
    ("two failed: the first in time", (said(0, 1, 6), said(1, 7, 4)), False, failed(1, 7)),
    ("a failure goes before a cancel", (said(0, 1, 6),), True, failed(0, 1)),
    ("node 1 succeeded, node 0 was ended", (orphaned(0), said(1, 0, 5)), False, GONE),
    ("all ended because of it", (orphaned(0), orphaned(1)), False, GONE),
    ("canceled and ended", (orphaned(0),), True, ASKED),
    ("no node wrote", (None, None), False, GONE),
    ("killed agents", (node_record(0), node_record(1)), False, GONE),
    ("one succeeded, one wrote nothing", (said(0, 0, 5), None), False, GONE),
    ("a damaged record", (b"{", said(1, 0, 4)), False, GONE),
    ("a damaged record beside a failure", (b"\xff", said(1, 7, 4)), False, failed(1, 7)),
]


@pytest.mark.parametrize(("nodes", "canceled", "end"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_the_nodes_wrote_decides(store: RunStore, nodes: tuple[Node, ...], canceled: bool, end: End) -> None:
    state, cause = judge(made(store, *nodes, canceled=canceled), evidence=lambda *_: None)
    assert (state, cause.kind, cause.summary) == end


@pytest.mark.parametrize(
    ("attempts", "canceled", "state", "summary"),
    [
        (None, False, State.FAILED, f"the run never started: {LOST}"),
        (None, True, State.CANCELED, f"canceled by the user; {LOST}"),
        ((), False, State.FAILED, f"the run never started: {LOST}"),
        ((ENDED,), False, State.FAILED, f"node 0 exited with code 3; {LOST}"),
        ((ENDED,), True, State.CANCELED, f"canceled by the user; {LOST}"),
        ((SUCCEEDED,), False, State.SUCCESS, "done"),
        ((SUCCEEDED,), True, State.SUCCESS, "done"),
    ],
)
def test_between_attempts_the_last_one_decides(
    store: RunStore, attempts: tuple[Attempt, ...] | None, canceled: bool, state: State, summary: str
) -> None:
    found, cause = judge(made(store, attempts=attempts, canceled=canceled), evidence=lambda *_: None)
    assert (found, cause.summary) == (state, summary)


def test_a_failure_names_its_host_and_what_the_log_says(store: RunStore) -> None:
    view = made(store, orphaned(0), said(1, 7, 4))
    _, cause = judge(view, evidence=lambda *_: ("CUDA out of memory", ("oom",), "less"))
    assert (cause.node, cause.host, cause.exit_code, cause.after_s) == (1, "gpu-b1", 7, 4.0)
    assert (cause.finding, cause.log_lines, cause.hint) == ("CUDA out of memory", ("oom",), "less")


def test_a_lost_run_says_how_to_run_it_again(store: RunStore) -> None:
    view = made(store, orphaned(0))
    assert judge(view, evidence=lambda *_: None)[1].hint == f"air rerun {view.paths.id}"


def settled(view: RunView, store: RunStore, backend: DeadBackend, disk: SystemDisk | None = None) -> RunView:
    return settle(view, store, backend, disk or SystemDisk(), now=NOW, evidence=lambda *_: None)


def test_a_dead_run_is_swept_judged_and_the_verdict_kept(store: RunStore) -> None:
    backend = DeadBackend()
    view = settled(made(store, said(0, 7, 4), secrets=b"{}"), store, backend)
    assert (view.state, view.ended_at, backend.swept) == (State.FAILED, NOW, [view.paths.id])
    assert store.view(view.paths) == view
    assert not view.paths.secrets.exists(), "secrets of a run that has ended"
    assert settled(view, store, backend) == view
    assert backend.swept == [view.paths.id]


@pytest.mark.parametrize("liveness", [Liveness.ALIVE, Liveness.UNKNOWN])
def test_a_run_that_is_alive_or_perhaps_is_left_alone(store: RunStore, liveness: Liveness) -> None:
    backend = DeadBackend(liveness)
    view = made(store, said(0, 7, 4))
    assert settled(view, store, backend) is view
    assert backend.swept == []


def test_a_backend_that_says_nothing_about_a_run_is_no_evidence(store: RunStore) -> None:
    backend = DeadBackend(liveness=None)
    view = made(store, said(0, 7, 4))
    assert settled(view, store, backend) is view


def test_an_end_that_the_supervisor_wrote_just_before_it_died_counts(store: RunStore) -> None:
    view = made(store, orphaned(0))
    assert view.status is not None
    cause = Cause(CauseKind.COMPLETED, "done")
    end = replace(view.status, state=State.SUCCESS, phase=None, cause=cause, ended_at=NOW)
    backend = DeadBackend(meanwhile=lambda: store.disk.replace(view.paths.status, codec.encode(end)))
    assert settled(view, store, backend).state is State.SUCCESS
    assert not view.paths.verdict.exists()


def test_of_two_readers_the_first_verdict_counts(store: RunStore) -> None:
    view = made(store, orphaned(0))
    first = Verdict(State.CANCELED, Cause(CauseKind.CANCELED, "the first reader"), NOW - 1, "a reader")

    class Beaten(DeadBackend):
        def sweep(self, run: RunPaths) -> None:
            store.disk.create(run.verdict, codec.encode(first))

    assert settled(view, store, Beaten()).cause == first.cause


def test_a_full_disk_keeps_the_verdict_from_the_file_but_not_from_the_reader(store: RunStore) -> None:
    class Full(SystemDisk):
        def create(self, path: Path, data: bytes) -> bool:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path), len(data))

    view = settled(made(store, said(0, 7, 4), secrets=b"{}"), store, DeadBackend(), Full())
    assert view.state is State.FAILED
    assert not view.paths.verdict.exists()
    assert not view.paths.secrets.exists(), "removing needs no space"


WORDS = {kind: Interruption(kind, f"the place says {kind}") for kind in CauseKind}
SAID: list[tuple[CauseKind, State]] = [
    (CauseKind.CANCELED, State.CANCELED),
    (CauseKind.TIMEOUT, State.TIMEDOUT),
    (CauseKind.PREEMPTED, State.FAILED),
    (CauseKind.NODE_FAILED, State.FAILED),
    (CauseKind.OUT_OF_MEMORY, State.FAILED),
    (CauseKind.SETUP, State.FAILED),
    (CauseKind.SUPERVISOR_LOST, State.FAILED),
]


@pytest.mark.parametrize(("kind", "state"), SAID)
def test_where_the_nodes_say_nothing_the_place_does(store: RunStore, kind: CauseKind, state: State) -> None:
    found, cause = judge(made(store, orphaned(0)), evidence=lambda *_: None, last_words=WORDS[kind])
    assert (found, cause.kind, cause.summary) == (state, kind, f"the place says {kind}")


@pytest.mark.parametrize(("kind", "state"), SAID)
def test_a_run_that_never_started_ended_as_the_place_says(store: RunStore, kind: CauseKind, state: State) -> None:
    found, cause = judge(made(store), evidence=lambda *_: None, last_words=WORDS[kind])
    # What never ran cannot have run out of time.
    assert (found, cause.kind) == (State.FAILED if state is State.TIMEDOUT else state, kind)


def test_the_host_and_the_signal_that_the_place_names_are_kept(store: RunStore) -> None:
    words = Interruption(CauseKind.SUPERVISOR_LOST, "killed by SIGKILL", "gpu-b1", "SIGKILL")
    _, cause = judge(made(store, orphaned(0)), evidence=lambda *_: None, last_words=words)
    assert (cause.host, cause.signal) == ("gpu-b1", "SIGKILL")


def test_what_the_nodes_wrote_and_a_cancel_go_before_what_the_place_says(store: RunStore) -> None:
    words = WORDS[CauseKind.PREEMPTED]
    assert judge(made(store, said(0, 7, 4)), evidence=lambda *_: None, last_words=words)[1].exit_code == 7
    assert judge(made(store, orphaned(0), canceled=True), evidence=lambda *_: None, last_words=words)[0] is (
        State.CANCELED
    )


def test_between_attempts_the_last_one_goes_before_what_the_place_says(store: RunStore) -> None:
    view = made(store, attempts=(ENDED,))
    assert judge(view, evidence=lambda *_: None, last_words=WORDS[CauseKind.PREEMPTED])[1].exit_code == 3


def test_the_place_is_asked_when_a_dead_run_is_settled(store: RunStore) -> None:
    class Telling(DeadBackend):
        def last_words(self, run: RunPaths) -> Interruption | None:
            assert run.root.exists()
            return WORDS[CauseKind.TIMEOUT]

    assert settled(made(store, orphaned(0)), store, Telling()).state is State.TIMEDOUT
