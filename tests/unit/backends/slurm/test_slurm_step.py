"""One srun, heard and told; a small process stands for it, which speaks the members' protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airlane.backends.slurm.options import SlurmOptions, read_options
from airlane.backends.slurm.step import Step, step_command
from airlane.store.paths import RunPaths
from airlane.store.records import RunRecord

from .made_srun import HELLO, MadeSrun, read_until

CANCELLED = "*** STEP 17.3 ON scan1 CANCELLED AT 2026-11-30T10:00:00"


@pytest.fixture
def srun() -> Iterator[MadeSrun]:
    made = MadeSrun()
    yield made
    made.close()


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def step(srun: MadeSrun, now: list[float]) -> Iterator[Step]:
    started = Step(["srun", "--label"], srun.env, clock=lambda: now[0])
    assert srun.arguments == ["--label"]
    yield started
    started._clock = time.monotonic
    started.close()
    assert started._srun.poll() is not None


def test_what_a_node_says_of_itself_is_known_by_its_rank(srun: MadeSrun, step: Step) -> None:
    srun.node(1, hello={**HELLO, "host": "scan2", "devices": ["0", "GPU-8f"], "time": time.time() - 40})
    read_until(step.read, lambda: 1 in step.hellos)
    hello = step.hellos[1]
    assert (hello.host, hello.address, hello.port, hello.cores) == ("scan2", "10.0.0.1", 20400, 8)
    assert (hello.devices, hello.step, hello.shared) == (("0", "GPU-8f"), "3", True)
    assert 39 < hello.behind_s < 60


def test_a_beat_is_a_sign_of_life_and_no_news(srun: MadeSrun, step: Step, now: list[float]) -> None:
    srun.hello(0)
    read_until(step.read, lambda: 0 in step.hellos)
    now[0] += 7
    srun.node(0, beat=1)
    assert step.read(20.0) is False
    assert step.seen == {0: now[0]}
    srun.node(0, gone=0)
    assert step.read(20.0) is True


def test_an_agent_that_is_gone_says_its_exit_code(srun: MadeSrun, step: Step, now: list[float]) -> None:
    srun.node(0, gone=137)
    read_until(step.read, lambda: bool(step.gone))
    assert (step.gone, step.gone_at) == ({0: 137}, {0: now[0]})


def test_labels_are_read_as_srun_pads_them(srun: MadeSrun, step: Step) -> None:
    for label in ("   0", "  17", "1023"):
        srun.says(f"{label}: {json.dumps({'gone': 0})}\n".encode())
    read_until(step.read, lambda: len(step.gone) == 3)
    assert set(step.gone) == {0, 17, 1023}


@pytest.mark.parametrize(
    "line",
    [
        b'{"gone": 1}',
        b'x: {"gone": 1}',
        b'-1: {"gone": 1}',
        b'0:{"gone": 1}',
        b"0: {gone",
        b'0: {"gone": "soon"}',
        b'0: {"gone": null}',
        b'0: {"hello": {"host": "scan1"}}',
        b'0: {"hello": null}',
        b"0: warning: \xff\xfe",
        b"",
    ],
)
def test_a_line_that_is_no_nodes_says_nothing_of_a_node(srun: MadeSrun, step: Step, line: bytes) -> None:
    srun.says(line + b"\n")
    srun.node(5, gone=0)
    read_until(step.read, lambda: 5 in step.gone)
    assert set(step.gone) == {5}
    assert step.hellos == {}


def test_what_a_node_writes_is_no_word_of_sruns_about_the_step(srun: MadeSrun, step: Step) -> None:
    srun.node(0, beat=1, words=f"{CANCELLED} DUE TO PREEMPTION ***")
    srun.node(0, gone=0)
    read_until(step.read, lambda: bool(step.gone))
    assert not step.taken_back


def test_a_line_may_be_cut_at_any_byte(srun: MadeSrun, step: Step) -> None:
    line = b'0: {"hello": ' + json.dumps({**HELLO, "host": "gpü1"}, ensure_ascii=False).encode() + b"}\n"
    for byte in line:
        srun.says(bytes([byte]))
        step.read(20.0)
    read_until(step.read, lambda: 0 in step.hellos)
    assert step.hellos[0].host == "gpü1"


def test_a_last_line_without_its_end_is_heard(srun: MadeSrun, step: Step) -> None:
    srun.says(b"srun: error: Unable to create step: Invalid partition", stderr=True)
    srun.ends(1)
    read_until(step.read, lambda: step.over)
    assert step.last_words == "Unable to create step: Invalid partition"


def test_a_thousand_nodes_are_heard(srun: MadeSrun, step: Step) -> None:
    srun.says(b"".join(b'%4d: {"hello": %s}\n' % (rank, json.dumps(HELLO).encode()) for rank in range(1000)))
    read_until(step.read, lambda: len(step.hellos) == 1000)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (f"slurmstepd: error: {CANCELLED} DUE TO TIME LIMIT ***", "TIME LIMIT"),
        (f"0: slurmstepd: error: {CANCELLED} DUE TO PREEMPTION ***", "PREEMPTION"),
        (f"srun: error: {CANCELLED} DUE TO JOB REQUEUE ***", "JOB REQUEUE"),
        (
            f"slurmstepd: error: {CANCELLED} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
            "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
        ),
        (f"slurmstepd: error: {CANCELLED} ***", None),
        (f"slurmstepd: error: {CANCELLED.replace('STEP 17.3', 'JOB 17')} DUE TO PREEMPTION ***", "PREEMPTION"),
    ],
)
def test_why_slurm_ended_a_step_is_heard(srun: MadeSrun, step: Step, words: str, why: str | None) -> None:
    srun.errs(words)
    read_until(step.read, lambda: step.taken_back)
    assert step.ended_because == why


def test_a_reason_is_kept_when_the_same_is_said_again_without_it(srun: MadeSrun, step: Step) -> None:
    srun.errs(f"slurmstepd: error: {CANCELLED} DUE TO TIME LIMIT ***")
    srun.errs(f"slurmstepd: error: {CANCELLED} ***")
    srun.node(0, gone=0)
    read_until(step.read, lambda: bool(step.gone))
    read_until(step.read, lambda: len(step._words) == 2)
    assert step.ended_because == "TIME LIMIT"


def test_machines_that_failed_are_named(srun: MadeSrun, step: Step) -> None:
    srun.errs("srun: error: Node failure on scan-3.cluster")
    read_until(step.read, lambda: bool(step.failed_hosts))
    assert step.failed_hosts == {"scan-3.cluster"}


def test_members_that_were_killed_are_known_from_srun(srun: MadeSrun, step: Step, now: list[float]) -> None:
    srun.errs("srun: error: scan1: task 0: Killed")
    read_until(step.read, lambda: bool(step.ended_at))
    now[0] += 5
    srun.errs("srun: error: scan2: tasks 0,2-4: Exited with exit code 1")
    read_until(step.read, lambda: len(step.ended_at) > 1)
    assert step.ended_at == {0: 100.0, 2: 105.0, 3: 105.0, 4: 105.0}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((), "srun ended without a word"),
        (("srun: error: Invalid account", "srun: Force Terminated job 7"), "Invalid account"),
        (("srun: Job step aborted",), "Job step aborted"),
    ],
)
def test_the_last_words_are_those_that_tell_why(srun: MadeSrun, step: Step, said: tuple[str, ...], words: str) -> None:
    for line in said:
        srun.errs(line)
    srun.ends(1)
    read_until(step.read, lambda: step.over)
    assert step.last_words == words
    assert step.read(20.0) is True, "there is nothing more to wait for"


def test_what_is_told_reaches_srun_and_is_harmless_when_it_has_ended(srun: MadeSrun, step: Step) -> None:
    step.tell("stop 3")
    assert srun.heard() == "stop 3"
    srun.ends()
    read_until(step.read, lambda: step.over)
    for _ in range(2):
        step.tell("kill 3")
    step.close()
    step.tell("kill 3")


def test_a_step_that_has_started_tells_the_nodes_that_it_is_there(srun: MadeSrun, step: Step) -> None:
    step.start()
    assert srun.heard() == "start"
    assert srun._line() == "beat"


def test_a_killed_srun_is_over(srun: MadeSrun, step: Step) -> None:
    srun.hello(0)
    read_until(step.read, lambda: 0 in step.hellos)
    step.kill()
    read_until(step.read, lambda: step.over)
    step.kill()


RUN_OPTIONS = read_options(
    {"accelerators": {"H100": "gpu:h100"}, "cpus_per_accelerator": 4, "python": "/shared/python"}
)


def words(run: RunRecord, paths: RunPaths, options: SlurmOptions = RUN_OPTIONS, **more: object) -> list[str]:
    arguments = {"attempt": 2, "folder": paths.nodes(2), "held_job": None, **more}
    return step_command(run, options, **arguments)  # type: ignore[arg-type]


def test_the_command_says_all_that_a_site_or_an_environment_might_say_otherwise(
    run: RunRecord, paths: RunPaths
) -> None:
    command = words(replace(run, accelerator_type="GPU_8xH100", accelerators_per_node=8), paths)
    said = command[: command.index("bash")]
    for option in (
        "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=32", "--gres=gpu:h100:8",
        "--kill-on-bad-exit=0", "--wait=0", "--label", "--mpi=none", "--export=ALL",
    ):  # fmt: skip
        assert option in said
    assert not [option for option in said if option.startswith(("--jobid", "--exclude"))]
    assert command[-6:-4] == ["airlane-node", "/shared/python"]
    assert command[-3:] == [str(paths.nodes(2)), run.id, "2"]


def test_in_the_users_allocation_the_command_names_it_and_the_hosts_to_leave_out(
    run: RunRecord, paths: RunPaths
) -> None:
    command = words(run, paths, held_job=17, without=("scan3", "scan4"))
    assert "--jobid=17" in command
    assert "--exclude=scan3,scan4" in command


def test_simulated_accelerators_and_cpus_ask_for_no_device(run: RunRecord, paths: RunPaths) -> None:
    simulated = replace(run, accelerator_type="GPU_8xH100", accelerators_per_node=8, simulate=True)
    for each in (run, simulated):
        assert not [word for word in words(each, paths) if word.startswith("--gres")]
