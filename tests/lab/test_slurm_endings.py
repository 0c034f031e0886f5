"""How runs end: killed, canceled, preempted or requeued, with Slurm away, and in allocations that were there before."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.slurm_conf import ClusterShape
from lab.slurm_runs import AIR, DEAF, SAVES, SlurmRuns, cause_of, ends_of, seconds_from, wait_until

SUCCESS = ("SUCCESS", "completed")
PREEMPTED = ("FAILED", "preempted")
# From a cause that is seen at once to the run's end in `air get`, on a busy machine.
SOON_S = 20
FOREVER = "echo up; exec sleep 1000"


@pytest.fixture
def runs(lab: Lab, tmp_path: Path) -> SlurmRuns:
    return SlurmRuns(lab, tmp_path)


def test_a_process_that_is_killed_on_a_node_ends_the_attempt_and_is_named(runs: SlurmRuns) -> None:
    victims = ("agent", "keeper", "command")
    submitted = {what: runs.submit(SAVES, max_retries=1) for what in victims}
    for run in submitted.values():
        runs.await_log(run)
    killed_at = {}
    for what, run in submitted.items():
        killed_at[what] = time.time()
        runs.kill(run, runs.hosts(run)[1], what=what)
    kinds = {"agent": "node_lost", "keeper": "node_lost", "command": "signal"}
    for what, run in submitted.items():
        facts = runs.ended(run, within_s=SOON_S)
        assert ends_of(facts) == [("FAILED", kinds[what]), SUCCESS], what
        cause = facts["attempts"][0]["cause"]
        assert (cause["node"], cause["host"]) == (1, facts["attempts"][0]["hosts"][1])
        assert cause["signal"] == ("SIGKILL" if what == "command" else None)
        assert seconds_from(killed_at[what], facts["attempts"][0]["ended_at"]) < SOON_S
        assert "found: attempt 0, node 0\n" in runs.log(run, attempt=1)
        assert len(runs.jobs(run)) == 1, "a node where a process was killed is fit for the next attempt"


def test_without_accounting_a_supervisor_that_is_killed_leaves_its_signal(runs: SlurmRuns) -> None:
    run = runs.submit(SAVES, max_retries=3)
    runs.await_log(run)
    runs.kill(run, runs.hosts(run)[0], what="supervisor")
    facts = runs.ended(run, within_s=SOON_S)
    assert facts["status"] == "FAILED"
    assert (facts["cause"]["kind"], facts["cause"]["signal"]) == ("supervisor_lost", "SIGKILL")
    assert "was killed by SIGKILL" in facts["cause"]["summary"]


def test_scancel_cancels_a_run(runs: SlurmRuns) -> None:
    held = runs.profile("held", sbatch=["--hold"])
    pending = runs.submit(FOREVER, profile=held)
    running = [runs.submit(SAVES) for _ in range(3)]
    for run in running:
        runs.await_log(run)
    assert runs.facts(pending)["detail"] == "held by its user: scontrol release starts it"
    options: list[list[str]] = [[], ["--signal=KILL"], ["--signal=TERM", "--batch"]]
    runs.lab.run(["scancel", runs.job(pending)])
    for run, words in zip(running, options, strict=True):
        runs.lab.run(["scancel", *words, runs.job(run)])
    for run in (pending, *running):
        facts = runs.ended(run, within_s=SOON_S)
        assert (facts["status"], facts["cause"]["kind"]) == ("CANCELED", "canceled")
        assert f"Slurm job {runs.job(run)}" in facts["cause"]["summary"]
    assert (runs.paths(running[0]).checkpoints / "saved").exists()


def test_air_cancel_cancels_a_run(runs: SlurmRuns) -> None:
    pending = runs.submit(FOREVER, profile=runs.profile("held", sbatch=["--hold"]))
    running, twice, deaf = (runs.submit(command) for command in (SAVES, SAVES, DEAF))
    for run in (running, twice, deaf):
        runs.await_log(run)
    for run in (pending, running, twice, twice, deaf):
        runs.cancel(run)
    for run in (pending, running, twice, deaf):
        facts = runs.ended(run, within_s=SOON_S)
        assert (facts["status"], facts["cause"]["kind"]) == ("CANCELED", "canceled")
        assert "canceled by the user" in facts["cause"]["summary"]
    runs.cancel(running)
    assert runs.facts(running)["status"] == "CANCELED"
    assert (runs.paths(running).checkpoints / "saved").exists()


def test_a_run_that_waits_for_its_next_job_is_canceled_with_it(runs: SlurmRuns) -> None:
    run = runs.submit(SAVES, nodes=3)
    runs.await_log(run, nodes=3)
    runs.lab.kill(runs.hosts(run)[1])
    runs.await_phase(run, "queued")
    assert len(runs.jobs(run)) == 2
    runs.cancel(run)
    facts = runs.told_end(run, within_s=SOON_S)
    assert (facts["status"], facts["cause"]["kind"]) == ("CANCELED", "canceled")
    assert cause_of(facts, 0)[0] == "node_failed"
    assert [line for line in runs.queue(run) if "PENDING" in line] == []


def test_a_run_that_is_preempted_or_requeued_goes_on_afterwards(runs: SlurmRuns) -> None:
    modes = {"requeued": 1, "canceled": 2}
    saving = {name: runs.submit(SAVES, profile=runs.profile(name, partition=name)) for name in modes}
    # Slurm kills their supervisors 5 s after it has asked them to end: they are busy with commands that do not hear.
    deaf = {
        name: runs.submit(DEAF, profile=runs.profile(f"{name}_patient", partition=name, stop_grace_s=60))
        for name in modes
    }
    requeued = runs.submit(SAVES)
    for run in (*saving.values(), *deaf.values(), requeued):
        runs.await_log(run)
    runs.lab.run(["scontrol", "requeue", runs.job(requeued)])
    again = "Slurm has put it back into the queue and starts it again"
    wait_until(lambda: (runs.facts(requeued)["detail"] or "").startswith(again), within_s=SOON_S, what=again)
    runs.lab.run(["srun", "--partition=urgent", "--nodes=3", "--exclusive", "sleep", "1"])
    for name, run in (*saving.items(), *deaf.items(), ("requeued", requeued)):
        facts = runs.ended(run, within_s=60)
        assert ends_of(facts) == [PREEMPTED, SUCCESS], name
        assert len(runs.jobs(run)) == modes[name]
        assert ("found: attempt 0" in runs.log(run, attempt=1)) == (run not in deaf.values())


WAITS = 'echo up; until [ -e "$AIR_CHECKPOINT_DIR/go" ]; do sleep 0.1; done; exit $((NODE_RANK * {code}))'


def test_a_run_outlives_a_restart_of_slurms_controller_and_its_absence(runs: SlurmRuns) -> None:
    lab = runs.lab
    run = runs.submit(WAITS.format(code=0))
    runs.await_log(run)
    lab.restart_controller()
    assert runs.facts(run)["status"] == "RUNNING"
    lab.stop_controller()
    assert runs.facts(run)["status"] == "RUNNING", "no answer is no evidence, though squeue gives up after 10 s"
    lab.start_controller()
    (runs.paths(run).checkpoints / "go").touch()
    assert ends_of(runs.ended(run, within_s=SOON_S)) == [SUCCESS]


@pytest.mark.long  # Slurm frees the nodes of what has ended meanwhile a minute after it is back
def test_a_run_can_end_and_be_canceled_while_slurms_controller_is_away(runs: SlurmRuns) -> None:
    ends, canceled = runs.submit(WAITS.format(code=7)), runs.submit(SAVES)
    for run in (ends, canceled):
        runs.await_log(run)
    runs.lab.stop_controller()
    (runs.paths(ends).checkpoints / "go").touch()
    runs.cancel(canceled)
    facts = runs.told_end(ends, within_s=SOON_S)
    assert (facts["cause"]["kind"], facts["cause"]["exit_code"], facts["cause"]["node"]) == ("exit_code", 7, 1)
    assert runs.told_end(canceled, within_s=SOON_S)["status"] == "CANCELED"
    runs.lab.start_controller()
    for run in (ends, canceled):
        wait_until(lambda run=run: not runs.queue(run), within_s=120, what="its nodes are free")  # type: ignore[misc]


def test_a_run_outlives_the_machine_that_it_was_submitted_from(runs: SlurmRuns) -> None:
    lab = runs.lab
    lab.start(lab.login)
    workload = runs.workload("echo up; sleep 2; echo over")
    words = [str(AIR), "run", "-p", "lab", "-f", str(workload), "--watch"]
    lab.popen(lab.login, words, env=runs.env)
    wait_until(lambda: any(runs.home.glob("runs/*/*/slurm/0.json")), within_s=SOON_S, what="the run is submitted")
    lab.kill(lab.login)
    (run,) = (folder.name for folder in runs.home.glob("runs/*/*"))
    assert ends_of(runs.ended(run, within_s=SOON_S)) == [SUCCESS]
    assert runs.log(run, node=1) == "up\nover\n"


def test_a_run_goes_on_while_its_node_is_drained_and_while_it_is_suspended(runs: SlurmRuns) -> None:
    run = runs.submit('echo up; until [ -e "$AIR_CHECKPOINT_DIR/go" ]; do sleep 0.1; done')
    runs.await_log(run)
    runs.lab.run(["scontrol", "update", f"NodeName={runs.hosts(run)[1]}", "State=drain", "Reason=test"])
    runs.lab.run(["scontrol", "suspend", runs.job(run)])
    suspended_at = time.monotonic()
    wait_until(lambda: time.monotonic() > suspended_at + 8, within_s=10, what="longer than nodes may be silent")
    assert runs.facts(run)["status"] == "RUNNING"
    runs.lab.run(["scontrol", "resume", runs.job(run)])
    resumed_at = time.monotonic()
    wait_until(lambda: time.monotonic() > resumed_at + 6, within_s=10, what="time to call a node lost wrongly")
    (runs.paths(run).checkpoints / "go").touch()
    assert ends_of(runs.ended(run, within_s=SOON_S)) == [SUCCESS]


def test_retries_are_used_up(runs: SlurmRuns) -> None:
    run = runs.submit("exit $((NODE_RANK * 4))", max_retries=2)
    facts = runs.ended(run, within_s=40)
    assert ends_of(facts) == [("FAILED", "exit_code")] * 3
    assert (facts["status"], facts["cause"]["exit_code"]) == ("FAILED", 4)


@pytest.mark.long
def test_twenty_runs_share_the_nodes(runs: SlurmRuns) -> None:
    command = 'printf "%s %s\\n" "$NODE_RANK" "$MASTER_PORT"; sleep 1'
    submitted = [runs.submit(command) for _ in range(20)]
    begun = time.monotonic()
    for run in submitted:
        assert ends_of(runs.told_end(run, within_s=90)) == [SUCCESS]
        assert [runs.log(run, node=node).split()[0] for node in range(2)] == ["0", "1"]
    assert time.monotonic() - begun < 90
    wait_until(lambda: runs.lab.run(["squeue", "-h"]).stdout == "", within_s=SOON_S, what="all nodes are free")


class Held:
    """An allocation that the user holds before any run: a shell in salloc, which is told what to type."""

    def __init__(self, runs: SlurmRuns, *options: str) -> None:
        self.runs = runs
        words = ["salloc", "--quiet", *options, "bash"]
        self._shell = subprocess.Popen(
            words, env=runs.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.job = self.type("echo $SLURM_JOB_ID").strip()

    def type(self, line: str) -> str:
        """What a line that is typed there prints."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{line} </dev/null\necho; echo DONE\n")
        self._shell.stdin.flush()
        told: list[str] = []
        while (said := self._shell.stdout.readline()) != "DONE\n":
            assert said, "".join(told)
            told.append(said)
        return "".join(told)

    def submit(self, command: str, **fields: object) -> str:
        """Submits a run there; its id."""
        workload = self.runs.workload(command, **fields)  # type: ignore[arg-type]
        return self.type(f"{AIR} run -p lab -f '{workload}' 2>/dev/null").strip()

    def leave(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(timeout=SOON_S)
        assert self._shell.stdout is not None
        self._shell.stdout.close()

    def state(self) -> str:
        return self.runs.lab.run(["squeue", "-h", "-j", self.job, "-o", "%T %D"], check=False).stdout.strip()


def test_an_allocation_that_is_held_already_is_used_and_left_as_it_was(runs: SlurmRuns) -> None:
    held = Held(runs, "--nodes=2", "--ntasks-per-node=2")
    workload = runs.workload("hostname; env | grep ^SLURM_JOB_ID")
    told = held.type(f"{AIR} run -p lab -f '{workload}' --watch")
    assert f"inside your allocation, Slurm job {held.job} on " in told
    assert f"SLURM_JOB_ID={held.job}" in told
    failing = held.submit("exit 3", max_retries=1)
    running = held.submit(FOREVER)
    assert ends_of(runs.ended(failing, within_s=SOON_S)) == [("FAILED", "exit_code")] * 2
    runs.await_log(running)
    runs.cancel(running)
    assert runs.ended(running, within_s=SOON_S)["status"] == "CANCELED"
    assert held.state() == "RUNNING 2"
    too_large = held.type(f"{AIR} run -p lab -f '{runs.workload('true', nodes=3)}'")
    assert f"your allocation (Slurm job {held.job}) has 2 nodes (asked for: 3)" in too_large
    held.leave()


def test_in_an_allocation_that_is_held_a_run_goes_on_without_the_node_that_failed(runs: SlurmRuns) -> None:
    held = Held(runs, "--nodes=3", "--ntasks-per-node=1", "--no-kill")
    run = held.submit(SAVES)
    runs.await_log(run)
    victim = runs.hosts(run)[1]
    runs.lab.kill(victim)
    facts = runs.ended(run, within_s=40)
    assert ends_of(facts) == [("FAILED", "node_failed"), SUCCESS]
    assert cause_of(facts, 0) == ("node_failed", victim)
    assert victim not in facts["attempts"][1]["hosts"]
    assert held.state().startswith("RUNNING")
    held.leave()


def test_a_run_ends_with_the_allocation_that_it_was_started_in(runs: SlurmRuns) -> None:
    held = Held(runs, "--nodes=2", "--ntasks-per-node=1")
    run = held.submit(SAVES, max_retries=3)
    runs.await_log(run)
    held.leave()
    facts = runs.ended(run, within_s=SOON_S)
    assert (facts["status"], facts["cause"]["kind"]) == ("CANCELED", "canceled")
    assert f"Slurm job {held.job}" in facts["cause"]["summary"]


def test_a_run_whose_job_slurm_has_forgotten_is_told_by_its_files(tmp_path: Path) -> None:
    lab = Lab.up(ClusterShape(nodes=1, gpus=0, min_job_age_s=2))
    try:
        runs = SlurmRuns(lab, tmp_path)
        lost, canceled = (runs.submit(FOREVER, nodes=1) for _ in range(2))
        for run in (lost, canceled):
            runs.await_log(run, nodes=1)
            runs.kill(run, lab.nodes[0], what="supervisor")
        runs.paths(canceled).cancel.write_text("{}", encoding="utf-8")
        forgotten = ["scontrol", "show", "job"]
        wait_until(lambda: "No jobs" in lab.run(forgotten).stdout, within_s=120, what="Slurm forgets the jobs")
        facts = runs.ended(lost, within_s=SOON_S)
        assert (facts["status"], facts["cause"]["kind"]) == ("FAILED", "supervisor_lost")
        assert runs.ended(canceled, within_s=SOON_S)["status"] == "CANCELED"
    finally:
        lab.down()
