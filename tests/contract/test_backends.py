"""What every backend promises (backends/base.py), tested through its Protocol alone, for each line of CASES.

A new backend is one file, one line in backends/registry.py, and one line in cases.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.backends.base import Backend, Liveness
from airlane.backends.registry import BACKENDS
from airlane.errors import CapacityError
from airlane.store.paths import RunPaths
from contract import steps
from contract.cases import (
    CASES,
    PATIENCE_S,
    Case,
    give_word,
    new_run,
    submit,
    told,
    told_file,
    wait_until,
)

FOREVER = "exec sleep 54321"


@pytest.fixture(
    params=[
        pytest.param(name, marks=[getattr(pytest.mark, mark) for mark in case.marks]) for name, case in CASES.items()
    ]
)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    chosen = CASES[request.param]
    if chosen.place is not None:
        for name, value in request.getfixturevalue(chosen.place).items():
            monkeypatch.setenv(name, value)
    return chosen


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "a 'home' with \"quotes\" and ünïcode\nand a newline"


@pytest.fixture
def backend(case: Case, home: Path) -> Iterator[Backend]:
    made = case.make(home)
    yield made
    for pid_file in home.glob("runs/*/*/told-pid"):
        with_end(pid_file.parent, made)


def with_end(folder: Path, backend: Backend) -> None:
    """Let nothing of a failed test live on."""
    paths = RunPaths(folder)
    if not told_file(paths, "done").exists():
        kill_supervisor(paths)
        backend.sweep(paths)


def kill_supervisor(paths: RunPaths) -> None:
    try:
        os.kill(told(paths, "pid"), signal.SIGKILL)
    except ProcessLookupError:
        return


def is_dead(backend: Backend, paths: RunPaths) -> bool:
    return backend.poll([paths])[paths.id] is Liveness.DEAD


def commands_of(paths: RunPaths) -> list[int]:
    """The processes that work in the run's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == paths.root and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_every_backend_has_a_row_here() -> None:
    assert {case.backend for case in CASES.values()} == set(BACKENDS)


def test_check_tells_where_a_run_would_go_and_changes_nothing(case: Case, backend: Backend, home: Path) -> None:
    lines = backend.check(case.compute)
    assert lines
    assert all(lines)
    assert backend.check(case.compute) == lines
    assert not home.exists()


def test_check_refuses_what_can_never_fit(case: Case, backend: Backend) -> None:
    with pytest.raises(CapacityError) as caught:
        backend.check(case.too_large)
    assert caught.value.hint


def test_a_supervisor_outlives_the_process_that_submitted_it(case: Case, backend: Backend, home: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from contract import cases;"
        "case, home = cases.CASES[sys.argv[2]], Path(sys.argv[3]);"
        "from contract import steps;"
        "print(cases.submit(case.make(home), cases.new_run(case, home, 'true'), steps.waits).id)"
    )
    name = next(name for name, each in CASES.items() if each is case)
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code, tests, name, home], check=True, capture_output=True, text=True, timeout=PATIENCE_S
    )
    (folder,) = home.glob(f"runs/*/{done.stdout.strip()}")
    paths = RunPaths(folder)
    told(paths, "pid")
    assert backend.poll([paths]) == {paths.id: Liveness.ALIVE}
    give_word(paths, "go")
    told(paths, "done")
    wait_until(lambda: is_dead(backend, paths), "the supervisor has ended")


def never_submitted(case: Case, home: Path) -> RunPaths:
    """A run whose submitter died an hour ago, before it had handed it over."""
    new = new_run(case, home, "true")
    os.close(new.lock)
    then = time.time() - 3600
    os.utime(new.paths.record, (then, then))
    return new.paths


def test_poll_answers_for_all_runs_at_once(case: Case, backend: Backend, home: Path) -> None:
    never = never_submitted(case, home)
    alive = [submit(backend, new_run(case, home, "true"), steps.waits) for _ in range(2)]
    ended = submit(backend, new_run(case, home, "true"), steps.does_nothing)
    wait_until(lambda: is_dead(backend, ended), "the supervisor has ended")
    answers = backend.poll([*alive, ended, never])
    assert [answers[p.id] for p in (*alive, ended, never)] == [Liveness.ALIVE] * 2 + [Liveness.DEAD] * 2
    assert backend.poll([]) == {}
    for paths in alive:
        give_word(paths, "go")
        told(paths, "done")


def test_granted_nodes_are_told_by_rank_with_an_address_and_a_port(case: Case, backend: Backend, home: Path) -> None:
    paths = submit(backend, new_run(case, home, "true"), steps.holds_nodes)
    places = told(paths, "places")
    assert [node for node, _, _ in places] == list(range(case.compute.nodes))
    assert all(host and address for _, host, address in places)
    assert 1024 < told(paths, "port") < 65536
    assert told(paths, "still")
    give_word(paths, "go")
    told(paths, "done")


@pytest.mark.parametrize("by_force", [False, True])
def test_released_nodes_and_those_of_a_killed_supervisor_go_to_the_next_in_line(
    case: Case, backend: Backend, home: Path, *, by_force: bool
) -> None:
    holder = submit(backend, new_run(case, home, "true"), steps.holds_nodes)
    told(holder, "places")
    following = submit(backend, new_run(case, home, "true"), steps.tells_its_wait)
    detail, position = told(following, "waiting")
    assert detail
    assert position in (1, None)
    if by_force:
        kill_supervisor(holder)
    else:
        give_word(holder, "go")
    give_word(following, "go")
    told(following, "done")


def test_an_allocation_that_was_never_granted_can_be_released(case: Case, backend: Backend, home: Path) -> None:
    holder = submit(backend, new_run(case, home, "true"), steps.holds_nodes)
    told(holder, "places")
    leaver = submit(backend, new_run(case, home, "true"), steps.leaves_the_queue)
    assert told(leaver, "waits")
    told(leaver, "done")
    following = submit(backend, new_run(case, home, "true"), steps.tells_its_wait)
    assert told(following, "waiting")[1] in (1, None)
    give_word(holder, "go")
    give_word(following, "go")
    told(following, "done")


def test_each_node_runs_the_command_and_its_end_is_reported(case: Case, backend: Backend, home: Path) -> None:
    command = 'echo "here is $NODE_RANK"; exit $((NODE_RANK + 3))'
    paths = submit(backend, new_run(case, home, command), steps.runs_to_the_end)
    assert [report["node"] for report in told(paths, "first")] == list(range(case.compute.nodes))
    last = told(paths, "last")
    assert [report["record"]["exit_code"] for report in last] == [3 + node for node in range(case.compute.nodes)]
    assert [report["record"]["stop_reason"] for report in last] == [None] * case.compute.nodes
    for node in range(case.compute.nodes):
        assert paths.log(attempt=0, node=node).read_text() == f"here is {node}\n"
    told(paths, "done")
    assert told(paths, "after") == last
    assert told(paths, "took_s") < PATIENCE_S, "wait did not return when the nodes ended"


def test_a_node_is_stopped_alone_and_repeating_it_is_harmless(case: Case, backend: Backend, home: Path) -> None:
    command = 'trap "echo saving; exit 7" TERM; touch "up-$NODE_RANK"; while :; do sleep 0.05; done'
    paths = submit(backend, new_run(case, home, command), steps.stops_the_last)
    last = case.compute.nodes - 1
    wait_until(lambda: len(list(paths.root.glob("up-*"))) == case.compute.nodes, "the commands run")
    give_word(paths, "started")
    *others, stopped = told(paths, "reports")
    assert all(report["agent_alive"] for report in others)
    assert not any(report["record"] and report["record"]["ended_at"] for report in others)
    assert (stopped["record"]["exit_code"], stopped["record"]["stop_reason"]) == (7, "stop")
    assert "saving\n" in paths.log(attempt=0, node=last).read_text()
    assert not any(report["agent_alive"] for report in told(paths, "released")), "a node outlived its allocation"
    told(paths, "done")
    assert commands_of(paths) == []


def test_a_killed_node_leaves_nothing_though_its_command_ignores_sigterm(
    case: Case, backend: Backend, home: Path
) -> None:
    command = 'trap "" TERM; touch "up-$NODE_RANK"; while :; do sleep 0.05; done'
    paths = submit(backend, new_run(case, home, command), steps.kills_all)
    wait_until(lambda: len(list(paths.root.glob("up-*"))) == case.compute.nodes, "the commands run")
    give_word(paths, "started")
    assert [report["agent_alive"] for report in told(paths, "reports")] == [False] * case.compute.nodes
    wait_until(lambda: commands_of(paths) == [], "the commands have ended")
    give_word(paths, "go")
    told(paths, "done")


def test_a_supervisor_can_ask_for_nodes_again(case: Case, backend: Backend, home: Path) -> None:
    paths = submit(backend, new_run(case, home, 'exit "$AIR_ATTEMPT"'), steps.tries_twice, ready=False)
    for attempt in range(2):
        codes = [report["record"]["exit_code"] for report in told(paths, f"reports-{attempt}")]
        assert codes == [attempt] * case.compute.nodes
    told(paths, "done")


def test_sweep_ends_what_a_killed_supervisor_left_and_repeating_it_is_harmless(
    case: Case, backend: Backend, home: Path
) -> None:
    bystander = subprocess.Popen(["sleep", "54322"])
    paths = submit(backend, new_run(case, home, f'touch "up-$NODE_RANK"; {FOREVER}'), steps.never_ends)
    wait_until(lambda: len(list(paths.root.glob("up-*"))) == case.compute.nodes, "the commands run")
    kill_supervisor(paths)
    wait_until(lambda: is_dead(backend, paths), "the supervisor is known to be dead")
    for _ in range(2):
        begun = time.monotonic()
        backend.sweep(paths)
        assert time.monotonic() - begun < 15
        assert commands_of(paths) == []
    assert bystander.poll() is None, "a process of the user's was ended"
    bystander.kill()
    bystander.wait()
    again = submit(backend, new_run(case, home, "true"), steps.runs_to_the_end)
    told(again, "done")


def test_sweeping_a_run_that_never_started_is_harmless(case: Case, backend: Backend, home: Path) -> None:
    paths = never_submitted(case, home)
    backend.sweep(paths)
    assert is_dead(backend, paths)
