"""However an attempt ends, its container is gone within seconds, and the cause is the right one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.api import Run
from airlane.store.runs import RunView
from e2e.runs.conftest import ended, kill, supervisor_pid, wait_until

from .conftest import BoxedLane

pytestmark = pytest.mark.root

# From the blow to the last process of the container and the engine's last word about it.
GONE_WITHIN_S = 10.0
# Deaf to SIGTERM, with a daemon in a session of its own.
STUBBORN = 'trap "" TERM; (trap "" TERM; setsid sleep 1000) & echo up; sleep 1000'


def started(boxed: BoxedLane, command: str = STUBBORN, **limits: float | None) -> Run:
    run = boxed.lane.submit(boxed.workload(command), limits=limits or {"max_retries": 0})
    log = run.view().paths.log(attempt=0, node=0)
    wait_until(lambda: log.exists() and "up" in log.read_text(), within_s=30, what="the command runs")
    return run


def gone(boxed: BoxedLane, run: Run, since: float) -> None:
    """Neither a container nor a process of the run is left."""
    wait_until(lambda: not inside(run), within_s=GONE_WITHIN_S, what="its processes are gone")
    wait_until(lambda: not boxed.left(run.id), within_s=GONE_WITHIN_S, what="the container is gone")
    assert time.monotonic() - since < GONE_WITHIN_S


def inside(run: Run) -> list[int]:
    """The processes of the run's containers, as this machine sees them."""
    return _processes(lambda entry: f"AIR_RUN_ID={run.id}".encode() in (entry / "environ").read_bytes().split(b"\0"))


def on_the_command_line(*words: str) -> list[int]:
    return _processes(lambda entry: all(word.encode() in (entry / "cmdline").read_bytes() for word in words))


def _processes(belongs: Callable[[Path], bool]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if belongs(entry) and ") Z " not in (entry / "stat").read_text():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def agents(run: Run) -> list[int]:
    """The agent and the runner that it forked."""
    return on_the_command_line("launch/__main__.py", f"/{run.id}/")


def clients(boxed: BoxedLane, run: Run) -> list[int]:
    return on_the_command_line(boxed.engine.runtime, "run", "--interactive", f"air-{run.id}-0-0")


def cause_of(view: RunView) -> tuple[str, str, str | None]:
    assert view.cause is not None
    return view.state.value, view.cause.kind.value, view.cause.signal


def test_the_agent_is_killed(boxed: BoxedLane) -> None:
    run = started(boxed)
    since = time.monotonic()
    kill(min(agents(run)))
    gone(boxed, run, since)
    assert cause_of(ended(run)) == ("FAILED", "node_lost", None)


def test_the_engines_client_is_killed(boxed: BoxedLane) -> None:
    run = started(boxed)
    since = time.monotonic()
    for pid in clients(boxed, run):
        kill(pid)
    gone(boxed, run, since)
    assert cause_of(ended(run)) == ("FAILED", "signal", "SIGKILL")


def test_everything_on_the_host_is_killed_at_once(boxed: BoxedLane) -> None:
    run = started(boxed)
    since = time.monotonic()
    for pid in [supervisor_pid(run.view().paths), *agents(run), *clients(boxed, run)]:
        kill(pid)
    gone(boxed, run, since)
    assert ended(run).state == "FAILED"


def test_the_supervisor_is_killed(boxed: BoxedLane) -> None:
    run = started(boxed)
    since = time.monotonic()
    kill(supervisor_pid(run.view().paths))
    gone(boxed, run, since)
    assert cause_of(ended(run)) == ("FAILED", "supervisor_lost", None)


def test_the_container_is_killed(boxed: BoxedLane) -> None:
    run = started(boxed)
    since = time.monotonic()
    boxed.engine("kill", f"air-{run.id}-0-0")
    gone(boxed, run, since)
    assert cause_of(ended(run)) == ("FAILED", "signal", "SIGKILL")


def test_the_container_is_removed_by_someone(boxed: BoxedLane) -> None:
    run = started(boxed)
    boxed.engine("rm", "--force", f"air-{run.id}-0-0")
    since = time.monotonic()
    gone(boxed, run, since)
    assert cause_of(ended(run)) == ("FAILED", "signal", "SIGKILL")


def test_a_cancel_reaches_every_process_and_then_ends_what_is_deaf(boxed: BoxedLane) -> None:
    daemon = 'setsid bash -c "trap \\"echo daemon heard; exit\\" TERM; while :; do sleep 0.05; done" &'
    command = f'{daemon} trap "echo command heard; exit 0" TERM; echo up; while :; do sleep 0.05; done'
    run = started(boxed, command)
    since = time.monotonic()
    boxed.lane.client.cancel([run.id])
    view = ended(run)
    gone(boxed, run, since)
    log = view.paths.log(attempt=0, node=0).read_text()
    assert "command heard" in log
    assert "daemon heard" in log
    assert view.state == "CANCELED"
    deaf = started(boxed)
    since = time.monotonic()
    boxed.lane.client.cancel([deaf.id])
    assert ended(deaf).state == "CANCELED"
    gone(boxed, deaf, since)


def test_a_timeout_ends_the_container_and_the_next_attempt_has_its_own(boxed: BoxedLane) -> None:
    command = 'echo up; [ "$AIR_ATTEMPT" = 1 ] || sleep 1000'
    run = started(boxed, command, timeout_s=4.0, max_retries=1, stop_grace_s=1.0)
    view = ended(run)
    assert [attempt.state for attempt in view.attempts] == ["TIMEDOUT", "SUCCESS"]
    assert boxed.left(run.id) == []


def test_a_container_that_runs_out_of_memory_says_so(boxed: BoxedLane) -> None:
    boxed.profile('container_args = ["--memory", "64m", "--memory-swap", "64m"]')
    view = ended(boxed.lane.submit(boxed.workload("python3 -c 'x = bytearray(500_000_000)'; echo survived")))
    assert view.cause is not None
    assert view.cause.kind == "out_of_memory"


def test_an_engine_that_hangs_does_not_keep_the_processes_alive(boxed: BoxedLane) -> None:
    if boxed.engine.runtime != "docker":
        pytest.skip("podman has no daemon that could hang")
    run = started(boxed)
    (daemon,) = on_the_command_line("dockerd", boxed.engine.variables["DOCKER_HOST"])
    os.kill(daemon, signal.SIGSTOP)
    try:
        boxed.lane.client.cancel([run.id])
        view = ended(run, within_s=60)
        assert inside(run) == []
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert view.state == "CANCELED"
    wait_until(lambda: not boxed.left(run.id), within_s=30, what="the container is gone")
