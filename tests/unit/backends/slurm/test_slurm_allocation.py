"""The nodes of an attempt as a supervisor sees them; a small process stands for srun, Slurm's answers are recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airlane.backends.base import Interruption, NodePlace
from airlane.backends.slurm.allocation import (
    LONGEST_NAP_S,
    MOST_SKEW_S,
    OTHERS_PATIENCE_S,
    RECORD_PATIENCE_S,
    START_S,
    WHY_PATIENCE_S,
    SlurmAllocation,
)
from airlane.backends.slurm.options import read_options
from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm
from airlane.errors import BackendError, ConfigError, NodeFailedError, SlurmUnavailableError
from airlane.launch.complaint import EXIT_NO_RECORD
from airlane.launch.ending import CUT_OFF
from airlane.launch.order import Order
from airlane.store import codec
from airlane.store.disk import make_private_folder
from airlane.store.paths import RunPaths
from airlane.store.records import CauseKind, NodeRecord, RunRecord

from .answers import SHOWN_EXIT_3, Played, failed, said
from .made_srun import MadeSrun, read_until

CANCELLED = "slurmstepd: error: *** STEP 17.3 ON scan1 CANCELLED AT 2026-11-30T10:00:00"
SILENCE_S = 60.0
OUT_OF_THE_JOB = "scan1"  # SHOWN_EXIT_3 is a job that has scan2 alone


CANCELED = Interruption(CauseKind.CANCELED, "canceled with scancel (Slurm job 17)")


@dataclass
class Bench:
    """One allocation, and the world around it; `now` is its clock."""

    run: RunRecord
    paths: RunPaths
    srun: MadeSrun
    options: dict[str, Any] = field(default_factory=dict)
    now: float = 1000.0
    time_is_up: str | None = None
    why: Interruption | None = CANCELED

    def __post_init__(self) -> None:
        self.slurm = Played(
            scontrol_14=said(SHOWN_EXIT_3), scontrol=said(SHOWN_EXIT_3), scancel=said(""), sinfo=said("")
        )

    def ask(self, **changes: Any) -> SlurmAllocation:
        fields: dict[str, Any] = {
            "options": read_options(self.options), "slurm": Slurm(self.slurm, {}), "job": 17, "held": False,
            "hosts": ("scan1", "scan2"), "env": self.srun.env, "time_is_up": lambda: self.time_is_up,
            "why": lambda: self.why, "clock": lambda: self.now,
        }  # fmt: skip
        self.made = SlurmAllocation(self.run, self.paths, 0, **{**fields, **changes})
        self.arguments = self.srun.arguments
        return self.made

    def granted(self, **hello: Any) -> SlurmAllocation:
        made = self.ask()
        for rank in range(self.run.nodes):
            self.srun.hello(rank, time=time.time(), **hello)
        self.until(lambda: len(made._step.hellos) == self.run.nodes)
        assert made.waiting() is None
        return made

    def started(self) -> SlurmAllocation:
        made = self.granted()
        for node in range(self.run.nodes):
            made.start(self.order(node))
        assert self.srun.heard() == "start"
        return made

    def order(self, node: int) -> Order:
        return Order(self.run.id, 0, node, "command.sh", "/", "log", "record", {})

    def until(self, true: Callable[[], bool]) -> None:
        read_until(self.made._step.read, true)

    def wrote(self, node: int, **fields: Any) -> NodeRecord:
        """The node's record on the disk."""
        made = {"ended_at": 5.0, "exit_code": 0, **fields}
        record = NodeRecord(node, f"scan{node + 1}", 42, "subreaper", 1.0, **made)
        self.paths.node_record(attempt=0, node=node).write_bytes(codec.encode(record))
        return record

    def gone(self, node: int, code: int = 0) -> None:
        self.srun.node(node, gone=code)
        self.until(lambda: node in self.made._step.gone)

    def errs(self, line: str) -> None:
        before = len(self.made._step._words)
        self.srun.errs(line)
        self.until(lambda: len(self.made._step._words) > before)

    def commands(self, program: str) -> list[tuple[str, ...]]:
        return [command for command in self.slurm.commands if command[0] == program]


@pytest.fixture
def bench(run: RunRecord, paths: RunPaths) -> Iterator[Bench]:
    srun = MadeSrun()
    made = Bench(run, paths, srun)
    yield made
    made.made._step._clock = time.monotonic
    made.made._step.kill()
    made.made._step.close()
    srun.close()


def test_nodes_come_up_one_by_one_and_are_told_by_rank(bench: Bench) -> None:
    allocation = bench.ask()
    waiting = allocation.waiting()
    assert waiting is not None
    assert (waiting.detail, waiting.position) == ("0 of 2 nodes are up", None)
    bench.srun.hello(1, port=20500)
    bench.until(lambda: 1 in allocation._step.hellos)
    waiting = allocation.waiting()
    assert waiting is not None
    assert waiting.detail == "1 of 2 nodes are up"
    bench.srun.hello(0, port=20400)
    bench.until(lambda: 0 in allocation._step.hellos)
    assert allocation.waiting() is None
    assert allocation.places() == (NodePlace(0, "scan1", "10.0.0.1"), NodePlace(1, "scan2", "10.0.0.2"))
    assert allocation.free_port() == 20400


def test_the_granted_devices_are_those_that_each_node_shows(bench: Bench) -> None:
    bench.run = replace(bench.run, accelerator_type="GPU_1xH100")
    assert [place.devices for place in bench.granted(devices=["GPU-8f"]).places()] == [("GPU-8f",)] * 2


def test_a_run_on_cpus_has_no_devices_whatever_the_environment_shows(bench: Bench) -> None:
    assert [place.devices for place in bench.granted(devices=["0"]).places()] == [(), ()]


def test_the_nodes_start_together_once_every_order_is_written(bench: Bench) -> None:
    allocation = bench.granted()
    allocation.start(bench.order(1))
    file = bench.paths.node_order(attempt=0, node=1)
    assert file.stat().st_mode & 0o777 == 0o600
    order = json.loads(file.read_text())
    assert (order["node_rank"], order["beat_interval_s"], order["silence_s"]) == (1, 1.0, SILENCE_S)
    assert [report.node for report in allocation.look()] == [1]
    allocation.start(bench.order(0))
    assert bench.srun.heard() == "start"


@pytest.mark.parametrize("changes", [{"devices": []}, {"devices": ["0", "1"]}])
def test_a_node_that_shows_other_devices_than_granted_is_named(bench: Bench, changes: dict[str, Any]) -> None:
    bench.run = replace(bench.run, accelerator_type="GPU_1xH100")
    with pytest.raises(NodeFailedError, match=r"node 0 \(scan1\) shows [02] of 1 accelerators") as caught:
        bench.granted(**changes)
    assert caught.value.host == "scan1"


def test_a_node_without_the_run_folder_is_named_with_what_to_set(bench: Bench) -> None:
    with pytest.raises(ConfigError, match=r"node 0 \(scan1\) has no ") as caught:
        bench.granted(shared=False)
    assert caught.value.hint == "set home in the profile to a folder that all nodes share"


@pytest.mark.parametrize(("skew_s", "words"), [(-MOST_SKEW_S - 20, "behind"), (MOST_SKEW_S + 20, "ahead")])
def test_a_clock_that_is_off_is_told_where_the_profile_asks(bench: Bench, skew_s: float, words: str) -> None:
    bench.options = {"preflight": True}
    allocation = bench.ask()
    for rank in range(2):
        bench.srun.hello(rank, time=time.time() + (skew_s if rank else 0))
    bench.until(lambda: len(allocation._step.hellos) == 2)
    with pytest.raises(NodeFailedError, match=f"its clock is [45][0-9] s {words}") as caught:
        allocation.waiting()
    assert caught.value.host == "scan2"


def test_a_node_that_does_not_answer_is_named(bench: Bench) -> None:
    allocation = bench.ask()
    bench.srun.hello(0)
    bench.until(lambda: 0 in allocation._step.hellos)
    bench.now += START_S
    assert allocation.waiting() is not None
    bench.now += 0.1
    with pytest.raises(NodeFailedError, match="scan2 did not answer in 180 s") as caught:
        allocation.waiting()
    assert caught.value.host == "scan2"


def test_nodes_that_nobody_can_name_are_counted(bench: Bench) -> None:
    allocation = bench.ask(hosts=())
    bench.now += START_S + 1
    with pytest.raises(BackendError, match="2 of 2 nodes did not answer in 180 s") as caught:
        allocation.waiting()
    assert not isinstance(caught.value, NodeFailedError), "no host could be excluded"


def test_an_srun_that_refuses_is_quoted(bench: Bench) -> None:
    allocation = bench.ask()
    bench.errs("srun: error: Unable to create step for job 17: Invalid generic resource (gres) specification")
    bench.srun.ends(1)
    bench.until(lambda: allocation._step.over)
    with pytest.raises(BackendError, match="srun could not start the nodes: Unable to create step for job 17"):
        allocation.waiting()


def test_a_machine_that_fails_while_the_nodes_come_up_is_named(bench: Bench) -> None:
    allocation = bench.ask()
    bench.errs("srun: error: Node failure on scan2")
    bench.srun.ends(1)
    bench.until(lambda: allocation._step.over)
    with pytest.raises(NodeFailedError) as caught:
        allocation.waiting()
    assert caught.value.host == "scan2"


def test_an_agent_that_cannot_even_start_is_not_waited_for(bench: Bench) -> None:
    allocation = bench.ask()
    bench.srun.hello(0)
    bench.errs("1: airlane-node: line 2: /shared/python: No such file or directory")
    bench.gone(1, 127)
    bench.until(lambda: 0 in allocation._step.hellos)
    with pytest.raises(ConfigError, match=r"node 1 \(scan2\) has no "):
        allocation.waiting()


def test_an_agent_that_ends_before_its_hello_is_told_in_its_words(bench: Bench) -> None:
    allocation = bench.ask()
    bench.errs("1: ImportError: no module named airlane")
    bench.gone(1, 1)
    with pytest.raises(BackendError, match=r"srun could not start the nodes: .*no module named airlane"):
        allocation.waiting()


def test_a_node_that_beats_is_alive_and_its_record_is_not_read(bench: Bench) -> None:
    allocation = bench.started()
    bench.wrote(0)
    assert [(r.node, r.agent_alive, r.record, r.lost) for r in allocation.look()] == [
        (0, True, None, None),
        (1, True, None, None),
    ]


def test_an_end_is_what_the_record_says(bench: Bench) -> None:
    allocation = bench.started()
    record = bench.wrote(0, exit_code=7)
    bench.gone(0)
    assert allocation.look()[0].agent_alive, "srun may say a moment later that it was Slurm's doing"
    bench.now += OTHERS_PATIENCE_S
    report = allocation.look()[0]
    assert (report.agent_alive, report.record, report.lost, report.host_failed) == (False, record, None, False)


def test_a_record_that_a_shared_disk_shows_late_is_waited_for(bench: Bench) -> None:
    allocation = bench.started()
    bench.wrote(0, ended_at=None, exit_code=None)
    bench.gone(0)
    bench.now += RECORD_PATIENCE_S - 0.1
    assert allocation.look()[0].agent_alive
    record = bench.wrote(0, exit_code=0)
    assert allocation.look()[0].record == record


def test_a_record_that_never_comes_is_told(bench: Bench) -> None:
    allocation = bench.started()
    bench.gone(0)
    bench.now += RECORD_PATIENCE_S
    report = allocation.look()[0]
    assert (report.agent_alive, report.record) == (False, None)
    assert report.lost == "its agent ended with code 0 and without a word"


def test_an_agent_that_could_not_write_the_end_is_told(bench: Bench) -> None:
    allocation = bench.started()
    bench.wrote(0, ended_at=None, exit_code=None)
    bench.gone(0, EXIT_NO_RECORD)
    record = allocation.look()[0].record
    assert record is not None
    assert record.error == "how the command ended could not be written: is the disk full?"
    assert allocation.look()[0].record == record, "its end is not another one at each look"


def test_an_agent_that_was_killed_is_told(bench: Bench) -> None:
    allocation = bench.started()
    bench.gone(0, 137)
    assert allocation.look()[0].lost == "its agent ended with code 137 and without a word"


def test_a_member_that_srun_says_was_killed_is_lost_a_moment_later(bench: Bench) -> None:
    allocation = bench.started()
    record = bench.wrote(0, exit_code=3)
    bench.errs("srun: error: scan2: tasks 0-1: Killed")
    assert [report.agent_alive for report in allocation.look()] == [True, True]
    bench.now += WHY_PATIENCE_S + 0.1
    by_itself, lost = allocation.look()
    assert (by_itself.agent_alive, by_itself.record) == (False, record)
    assert (lost.agent_alive, lost.lost, lost.host_failed) == (False, "its agent was killed", False)


def pass_time(bench: Bench, allocation: SlurmAllocation, seconds: float) -> None:
    """Let it pass as a supervisor that looks all the time sees it."""
    end = bench.now + seconds
    while bench.now < end:
        bench.now = min(end, bench.now + LONGEST_NAP_S)
        allocation.look()


def test_a_node_without_a_sign_of_life_is_lost_with_its_machine(bench: Bench) -> None:
    allocation = bench.started()
    pass_time(bench, allocation, SILENCE_S - 1)
    bench.srun.node(0, beat=1)
    bench.until(lambda: allocation._step.seen[0] == bench.now)
    pass_time(bench, allocation, 2)
    reports = allocation.look()
    assert reports[0].agent_alive
    assert (reports[1].agent_alive, reports[1].lost, reports[1].host_failed) == (
        False,
        "no sign of life for 60 s",
        True,
    )


def test_no_node_is_lost_while_the_controller_does_not_answer(bench: Bench) -> None:
    allocation = bench.started()
    bench.slurm._answers["scontrol"] = SlurmUnavailableError("scontrol gave no answer in 10 s")
    pass_time(bench, allocation, SILENCE_S + 60)
    assert all(report.agent_alive for report in allocation.look())


def test_no_node_is_lost_because_the_supervisor_slept(bench: Bench) -> None:
    allocation = bench.started()
    bench.now += 3600
    assert all(report.agent_alive for report in allocation.look())
    pass_time(bench, allocation, SILENCE_S + 1)
    assert not any(report.agent_alive for report in allocation.look())


def test_a_machine_of_which_slurm_says_that_it_failed_is_lost_at_once(bench: Bench) -> None:
    allocation = bench.started()
    bench.errs("srun: error: Node failure on scan2")
    report = allocation.look()[1]
    assert (report.lost, report.host_failed) == ("Slurm says that the machine failed", True)


def test_an_srun_that_is_over_leaves_no_node_alive(bench: Bench) -> None:
    allocation = bench.started()
    bench.errs("srun: error: Connection timed out")
    bench.srun.ends(1)
    bench.until(lambda: allocation._step.over)
    assert [report.lost for report in allocation.look()] == ["srun ended: Connection timed out"] * 2


SIGNALLED: list[dict[str, Any]] = [
    {"exit_code": 143, "stop_reason": "stop"},
    {"exit_code": 143},
    {"exit_code": 137},
    {"exit_code": None, "signal": "SIGTERM"},
    {"exit_code": None, "signal": "SIGKILL"},
]


@pytest.mark.parametrize("fields", SIGNALLED)
def test_what_slurms_signal_ended_was_taken_back(bench: Bench, fields: dict[str, Any]) -> None:
    allocation = bench.started()
    bench.wrote(0, **fields)
    bench.gone(0)
    assert allocation.look()[0].agent_alive, "srun says why a moment later"
    bench.errs(f"{CANCELLED} DUE TO PREEMPTION ***")
    record = allocation.look()[0].record
    assert record is not None
    assert record.stop_reason is not None


@pytest.mark.parametrize("fields", SIGNALLED[1:])
def test_what_ended_by_a_signal_that_was_not_slurms_ended_by_it(bench: Bench, fields: dict[str, Any]) -> None:
    allocation = bench.started()
    record = bench.wrote(0, **fields)
    bench.gone(0)
    bench.now += WHY_PATIENCE_S + 0.1
    assert allocation.look()[0].record == record


@pytest.mark.parametrize(
    ("reason", "lost", "host_failed"),
    [
        ("stop", "its agent was ended by a signal there", False),
        (CUT_OFF, "it had no word from the supervisor for 60 s", True),
    ],
)
def test_an_agent_that_was_stopped_by_nobody_here_is_lost(
    bench: Bench, reason: str, lost: str, host_failed: bool
) -> None:
    allocation = bench.started()
    bench.wrote(0, exit_code=143, stop_reason=reason)
    bench.gone(0)
    bench.now += WHY_PATIENCE_S + 0.1
    report = allocation.look()[0]
    assert (report.record, report.lost, report.host_failed) == (None, lost, host_failed)


def test_what_was_asked_to_stop_is_reported_at_once(bench: Bench) -> None:
    allocation = bench.started()
    allocation.stop(0)
    assert bench.srun.heard() == "stop 0"
    record = bench.wrote(0, exit_code=143, stop_reason="stop")
    bench.gone(0)
    assert allocation.look()[0].record == record
    allocation.kill(1)
    assert bench.srun.heard() == "kill 1"


@pytest.mark.parametrize(
    ("words", "kind", "summary"),
    [
        (" DUE TO TIME LIMIT", CauseKind.TIMEOUT, "Slurm's time limit was reached: Slurm job 17"),
        (
            " DUE TO PREEMPTION",
            CauseKind.PREEMPTED,
            "Slurm gave the nodes to a run that goes first (preemption): Slurm job 17",
        ),
        (
            " DUE TO JOB REQUEUE",
            CauseKind.PREEMPTED,
            "Slurm put the run back into the queue (requeue): Slurm job 17",
        ),
        (
            " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
            CauseKind.NODE_FAILED,
            "a node of the run failed: Slurm job 17",
        ),
        ("", CauseKind.CANCELED, "canceled with scancel (Slurm job 17)"),
        (" DUE TO SOMETHING NEW", CauseKind.CANCELED, "canceled with scancel (Slurm job 17)"),
    ],
)
def test_why_slurm_takes_the_nodes_back(bench: Bench, words: str, kind: CauseKind, summary: str) -> None:
    allocation = bench.started()
    assert allocation.interruption() is None
    bench.errs(f"{CANCELLED}{words} ***")
    host = OUT_OF_THE_JOB if kind is CauseKind.NODE_FAILED else None
    assert allocation.interruption() == Interruption(kind, summary, host)


def test_what_slurm_takes_back_without_a_word_is_over_once_the_controller_says_why(bench: Bench) -> None:
    allocation = bench.started()
    bench.why = None
    bench.wrote(0, exit_code=1, stop_reason="stop")
    bench.gone(0)
    bench.errs(f"{CANCELLED} ***")
    bench.now += WHY_PATIENCE_S + 0.1
    assert allocation.look()[0].agent_alive
    assert allocation.interruption() is None
    bench.why = Interruption(CauseKind.PREEMPTED, "Slurm gave the nodes to a run that goes first")
    assert not allocation.look()[0].agent_alive
    assert allocation.interruption() == bench.why


def test_a_rank_that_fails_because_slurm_ended_its_peer_was_taken_back(bench: Bench) -> None:
    allocation = bench.started()
    bench.wrote(0, exit_code=1)
    bench.gone(0)
    assert allocation.look()[0].agent_alive
    bench.errs(f"{CANCELLED} DUE TO PREEMPTION ***")
    record = allocation.look()[0].record
    assert record is not None
    assert record.stop_reason == "taken back"


def test_an_end_that_was_told_stays_what_it_was(bench: Bench) -> None:
    allocation = bench.started()
    bench.wrote(0, exit_code=3)
    bench.gone(0)
    bench.now += OTHERS_PATIENCE_S + 0.1
    told = allocation.look()[0]
    assert not told.agent_alive
    bench.errs(f"{CANCELLED} ***")
    assert allocation.look()[0] == told


def test_the_machine_that_failed_is_told_with_the_node_failure(bench: Bench) -> None:
    allocation = bench.started()
    bench.errs("srun: error: Node failure on scan2")
    bench.errs(f"{CANCELLED} DUE TO NODE FAILURE ***")
    found = allocation.interruption()
    assert found is not None
    assert found.host == "scan2"


def test_a_machine_that_srun_does_not_name_is_the_one_that_slurm_has_taken_out_of_the_job(bench: Bench) -> None:
    allocation = bench.started()
    bench.errs(f"{CANCELLED} DUE TO NODE FAILURE ***")
    found = allocation.interruption()
    assert found is not None
    assert found.host == OUT_OF_THE_JOB


def test_a_machine_that_is_in_the_job_still_is_the_one_that_slurm_calls_dead(bench: Bench) -> None:
    allocation = bench.started()
    bench.slurm._answers["sinfo"] = said("scan2\nscan2\n")  # a line for each of its partitions
    bench.errs(f"{CANCELLED} DUE TO NODE FAILURE ***")
    found = allocation.interruption()
    assert found is not None
    assert found.host == "scan2"


@pytest.mark.parametrize("hosts", ["scan[1-2]", "(null)"])
def test_a_machine_that_nobody_names_stays_unnamed(bench: Bench, hosts: str) -> None:
    allocation = bench.started()
    shown = said(SHOWN_EXIT_3.replace(" NodeList=scan2 ", f" NodeList={hosts} "))
    bench.slurm._answers["scontrol_14"] = bench.slurm._answers["scontrol"] = shown
    bench.errs(f"{CANCELLED} DUE TO NODE FAILURE ***")
    found = allocation.interruption()
    assert found is not None
    assert found.host is None


def test_a_machine_stays_unnamed_while_the_controller_does_not_answer(bench: Bench) -> None:
    allocation = bench.started()
    bench.slurm._answers["sinfo"] = SlurmUnavailableError("sinfo: no answer")
    bench.slurm._answers["scontrol_14"] = bench.slurm._answers["scontrol"] = SlurmUnavailableError(
        "scontrol: no answer"
    )
    bench.errs(f"{CANCELLED} DUE TO NODE FAILURE ***")
    found = allocation.interruption()
    assert found is not None
    assert found.host is None


def test_a_time_limit_that_is_near_interrupts_and_is_not_taken_back(bench: Bench) -> None:
    allocation = bench.started()
    bench.time_is_up = "Slurm's time limit is about to be reached"
    found = allocation.interruption()
    assert found == Interruption(CauseKind.TIMEOUT, "Slurm's time limit is about to be reached")
    bench.time_is_up = None
    assert allocation.interruption() == found


def test_a_stop_that_was_ours_is_no_interruption(bench: Bench) -> None:
    allocation = bench.started()
    allocation.stop(0)
    bench.errs(f"{CANCELLED} ***")
    bench.time_is_up = "soon"
    assert allocation.interruption() is None


def test_a_step_that_we_end_ourselves_is_no_interruption(bench: Bench) -> None:
    allocation = bench.granted()  # and then the code could not be unpacked, say
    bench.srun.errs(f"{CANCELLED} ***")
    bench.srun.ends(1)
    allocation._step._clock = time.monotonic
    allocation.release()
    assert allocation._step.taken_back
    assert allocation.interruption() is None


def released(bench: Bench, allocation: SlurmAllocation) -> list[tuple[str, ...]]:
    """What Slurm was told to end."""
    allocation._step._clock = time.monotonic
    allocation.release()
    allocation.release()
    assert allocation._step.over
    return bench.commands("scancel")


def test_release_ends_the_step_alone_and_repeating_it_is_harmless(bench: Bench) -> None:
    allocation = bench.started()
    assert released(bench, allocation) == [("scancel", "--signal=KILL", "17.3")]
    allocation.stop(0)
    allocation.kill(0)


def test_release_asks_for_nothing_where_all_agents_are_gone(bench: Bench) -> None:
    allocation = bench.started()
    for node in range(2):
        bench.wrote(node)
        bench.gone(node)
    assert released(bench, allocation) == []
    assert not any(report.agent_alive for report in allocation.look())


def test_release_of_nodes_that_never_came_up_ends_srun(bench: Bench) -> None:
    assert released(bench, bench.ask()) == []


def test_release_does_not_wait_for_a_machine_that_failed(bench: Bench) -> None:
    allocation = bench.started()
    bench.errs("srun: error: Node failure on scan2")
    assert released(bench, allocation) == []


def test_release_ends_srun_where_slurm_refuses(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    allocation = bench.started()
    bench.slurm._answers["scancel"] = failed("scancel: error: Access/permission denied")
    assert len(released(bench, allocation)) == 1
    assert "the step could not be ended: scancel: " in capfd.readouterr().err


def test_wait_returns_for_news_and_not_for_beats(bench: Bench) -> None:
    allocation = bench.started()
    for _ in range(3):
        bench.srun.node(0, beat=1)
    bench.srun.node(1, gone=0)
    allocation._clock = time.monotonic
    allocation.wait(20.0)
    assert 1 in allocation._step.gone


def test_wait_returns_when_its_time_is_over_though_nodes_beat(bench: Bench) -> None:
    allocation = bench.started()
    readings = iter([0.0, 0.0, 9.0, 9.0, 9.0])
    allocation._clock = lambda: next(readings)
    bench.srun.node(0, beat=1)
    bench.srun.node(0, beat=1)
    allocation.wait(5.0)
    assert allocation._clock() == 9.0, "it looked at the clock once more, and had no news"


def test_the_folder_of_the_attempt_is_private(bench: Bench) -> None:
    bench.ask()
    assert bench.paths.nodes(0).stat().st_mode & 0o777 == 0o700


def test_an_srun_that_is_not_there_is_told(run: RunRecord, paths: RunPaths, tmp_path: Path) -> None:
    make_private_folder(tmp_path / "bin")
    with pytest.raises(FileNotFoundError, match="srun"):
        SlurmAllocation(
            run, paths, 0, options=read_options({}), slurm=Slurm(Played(scancel=Completed(0, "", "")), {}), job=17,
            held=False, hosts=(), env={"PATH": str(tmp_path / "bin")}, time_is_up=lambda: None, why=lambda: None,
        )  # fmt: skip
