"""The questions that are put to Slurm's programs, and what is made of answers that were recorded from them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from airlane.backends.slurm.jobs import JobState
from airlane.backends.slurm.programs import Completed, run_program
from airlane.backends.slurm.scheduler import QUERY_S, SUBMIT_S, Slurm
from airlane.errors import AirError, BackendError, CapacityError, ConfigError, SlurmUnavailableError
from unit.backends.slurm.answers import (
    GROUPS,
    NO_ACCOUNTING,
    NO_SUCH_JOB,
    NODE_DOWN,
    PARTITIONS,
    QUEUE,
    REFUSED,
    SHOWN_EXIT_3,
    Played,
    failed,
    said,
)

SCRIPT = Path("/fsx/ada/.air/runs/2026-11/x/batch.sh")


def test_submitting_gives_the_id_of_the_job() -> None:
    run = Played(sbatch=said("48211\n"))
    assert Slurm(run, {}).submit(SCRIPT, SCRIPT.parent) == 48211
    assert run.commands == [("sbatch", "--parsable", f"--chdir={SCRIPT.parent}", str(SCRIPT))]
    assert run.timeouts == [SUBMIT_S]


def test_a_job_may_be_told_to_wait_for_another() -> None:
    run = Played(sbatch=said("48212\n"))
    Slurm(run, {}).submit(SCRIPT, SCRIPT.parent, after=48211)
    assert "--dependency=afterany:48211" in run.commands[0]


def test_a_cluster_name_beside_the_id_is_passed_over() -> None:
    assert Slurm(Played(sbatch=said("48211;hpc\n")), {}).submit(SCRIPT, SCRIPT.parent) == 48211


def test_no_variable_of_the_user_changes_what_the_script_says() -> None:
    run = Played(sbatch=said("1\n"))
    Slurm(run, {"SBATCH_PARTITION": "cheap", "SBATCH_ARRAY_INX": "1-9", "PATH": "/bin", "SQUEUE_FORMAT": "%i"}).submit(
        SCRIPT, SCRIPT.parent
    )
    assert run.envs == [{"PATH": "/bin", "SQUEUE_FORMAT": "%i"}]


def test_no_variable_of_the_user_reshapes_an_answer() -> None:
    run = Played(squeue=said(QUEUE))
    env = {"SQUEUE_STATES": "RUNNING", "SQUEUE_FORMAT2": "jobid", "SLURM_TIME_FORMAT": "relative", "SLURM_CONF": "/c"}
    Slurm(run, env).jobs([40])
    assert run.envs == [{"SLURM_CONF": "/c", "SLURM_TIME_FORMAT": "%s"}]


NO_NODE = "Requested node configuration is not available"
LIMIT = "Requested time limit is invalid (missing or exceeds some limit)"
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
ASSOCIATION = "Invalid account or account/partition combination specified"


@pytest.mark.parametrize(
    ("words", "kind", "message", "hint"),
    [
        (
            "Invalid partition name specified",
            ConfigError,
            "the cluster has no such partition",
            "partitions: gpu, small",
        ),
        (
            NO_NODE,
            CapacityError,
            f"no node of the partition can ever be what the run asks for (sbatch: {NO_NODE})",
            "%G",
        ),
        ("Requested reservation is invalid", ConfigError, "Slurm has no such reservation now", "show reservation"),
        ("Invalid feature specification", ConfigError, "no node has the features of constraint", "sinfo"),
        ("Invalid node name specified", ConfigError, "Slurm does not know a node of exclude", "sinfo"),
        ("Invalid license specification", ConfigError, "Slurm does not know a license", "scontrol show licenses"),
        # The words of Slurm 22.05 for what the lab, which keeps no accounts, never says.
        (ASSOCIATION, ConfigError, "Slurm does not let this user submit with this account", "set account"),
        ("Invalid account specified", ConfigError, "Slurm does not know this account", "sacctmgr"),
        ("Invalid qos specification", ConfigError, "Slurm does not know this QOS", "set qos"),
        (POLICY, CapacityError, "a limit of the account or QOS forbids the run", "sacctmgr"),
        (LIMIT, ConfigError, "the run may take longer than the partition allows", "timeout_minutes"),
        ("Node count specification invalid", CapacityError, "the run asks for more than the partition has", "sinfo"),
        (
            "User's group not permitted to use this partition",
            ConfigError,
            "Slurm does not let this user into",
            "scontrol",
        ),
        (
            "Required node not available (down, drained or reserved)",
            BackendError,
            "what the run needs is down",
            "sinfo -R",
        ),
        ("Something new", BackendError, "sbatch refused the run: Something new", "sbatch --test-only"),
    ],
)
def test_a_refusal_of_the_controller_is_told_with_a_next_step(
    words: str, kind: type[AirError], message: str, hint: str
) -> None:
    _check_refusal(f"sbatch: error: Batch job submission failed: {words}\n", kind, message, hint)


@pytest.mark.parametrize(
    ("words", "kind", "message", "hint"),
    [
        (
            "error: invalid partition specified: gpus",
            ConfigError,
            "the cluster has no partition 'gpus'",
            "Did you mean `gpu`?",
        ),
        (
            "error: Invalid generic resource (gres) specification",
            CapacityError,
            "the cluster has no such GRES",
            "accelerators",
        ),
        ("error: Memory specification can not be satisfied", CapacityError, "no node has the memory", "sinfo"),
        (
            "unrecognized option '--nonsense'",
            ConfigError,
            "sbatch does not take an option of the profile",
            "sbatch --help",
        ),
        (
            "error: Invalid --mem specification",
            ConfigError,
            "sbatch does not take an option of the profile",
            "sbatch --help",
        ),
        ("error: Unable to open file x", BackendError, "sbatch refused the run: Unable to open file x", "sbatch"),
    ],
)
def test_a_refusal_of_sbatch_itself_is_told_with_a_next_step(
    words: str, kind: type[AirError], message: str, hint: str
) -> None:
    _check_refusal(f'sbatch: {words}\nTry "sbatch --help" for more information\n', kind, message, hint)


def _check_refusal(stderr: str, kind: type[AirError], message: str, hint: str) -> None:
    slurm = Slurm(Played(sbatch=failed(stderr), scontrol_partition=said(PARTITIONS)), {})
    with pytest.raises(AirError) as caught:
        slurm.submit(SCRIPT, SCRIPT.parent)
    assert type(caught.value) is kind
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


def test_a_refusal_without_words_tells_the_exit_code() -> None:
    with pytest.raises(BackendError, match="sbatch refused the run: exit code 4"):
        Slurm(Played(sbatch=failed("", 4)), {}).submit(SCRIPT, SCRIPT.parent)


def test_a_controller_that_does_not_answer_is_no_refusal() -> None:
    stderr = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n"
    with pytest.raises(SlurmUnavailableError) as caught:
        Slurm(Played(sbatch=failed(stderr)), {}).submit(SCRIPT, SCRIPT.parent)
    assert caught.value.retryable
    assert caught.value.message == "Slurm does not answer: Unable to contact slurm controller (connect failure)"


def test_all_jobs_are_asked_for_at_once() -> None:
    run = Played(squeue=said(QUEUE))
    jobs = Slurm(run, {}).jobs([40, 14, 9999, 14])
    assert (jobs[40].state, jobs[14].state, 9999 in jobs) == (JobState.RUNNING, JobState.FAILED, False)
    assert len(run.commands) == 1
    assert "--jobs=14,40,9999" in run.commands[0]
    assert run.timeouts == [QUERY_S]


def test_no_question_is_put_about_no_job() -> None:
    run = Played()
    assert Slurm(run, {}).jobs([]) == {}
    assert Slurm(run, {}).account([]) == {}
    assert run.commands == []


def test_no_such_job_is_an_answer_and_no_answer_is_none() -> None:
    gone = Slurm(Played(squeue=failed(NO_SUCH_JOB), scontrol=failed(NO_SUCH_JOB)), {})
    assert gone.jobs([9999]) == {}
    assert gone.show(9999) is None
    silent = Slurm(Played(squeue=failed(REFUSED), scontrol=failed(REFUSED)), {})
    with pytest.raises(SlurmUnavailableError):
        silent.jobs([9999])
    with pytest.raises(SlurmUnavailableError):
        silent.show(9999)


def test_an_answer_that_nobody_expects_is_an_error_that_quotes_it() -> None:
    with pytest.raises(BackendError, match="squeue: something new") as caught:
        Slurm(Played(squeue=failed("squeue: something new\n")), {}).jobs([1])
    assert not isinstance(caught.value, SlurmUnavailableError)


def test_a_question_that_ends_with_the_job_it_was_asked_in_is_asked_again() -> None:
    answers = iter([Completed(-15, "", ""), said("scan2\n")])
    slurm = Slurm(lambda *_: next(answers), {})
    assert slurm.down(["scan1", "scan2"]) == {"scan2"}


def test_one_job_is_shown() -> None:
    job = Slurm(Played(scontrol_job=said(SHOWN_EXIT_3)), {}).show(14)
    assert job is not None
    assert job.exit_code == 3


def test_a_cluster_without_accounting_is_asked_once() -> None:
    run = Played(sacct=failed(NO_ACCOUNTING))
    slurm = Slurm(run, {})
    assert slurm.account([1]) == {}
    assert slurm.account([1]) == {}
    assert len(run.commands) == 1
    assert not slurm.has_accounting()


@pytest.mark.parametrize(
    "answer",
    [
        failed(
            "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:db:6819\n"
        ),
        failed("sacct: error: Sending PersistInit msg: Connection refused\n"),
        SlurmUnavailableError("sacct gave no answer in 10 s"),
        BackendError("sacct cannot be run: no such file or directory"),
    ],
)
def test_accounting_that_is_down_is_asked_again_and_never_an_error(answer: Completed | Exception) -> None:
    run = Played(sacct=answer)
    slurm = Slurm(run, {})
    assert slurm.account([1]) == {}
    assert slurm.account([1]) == {}
    assert len(run.commands) == 2
    assert not slurm.has_accounting()


def test_accounting_that_answers_is_read() -> None:
    slurm = Slurm(Played(sacct=said("12|CANCELLED by 1000|0:15|1|2|gpu1|1:00\n")), {})
    assert slurm.account([12])[12].canceled_by == 1000
    assert slurm.has_accounting()


def test_the_steps_of_a_name_are_told_by_their_numbers() -> None:
    run = Played(squeue=said("17.0|air-x\n17.12|air-x\n17.1|air-xy\n17.extern|extern\n17.batch|air-x\n"))
    assert Slurm(run, {}).steps(17, "air-x") == (0, 12)
    assert Slurm(Played(squeue=failed(NO_SUCH_JOB)), {}).steps(17, "air-x") == ()


def test_canceling_says_what_is_to_be_ended() -> None:
    run = Played(scancel=said(""))
    slurm = Slurm(run, {})
    slurm.cancel(7)
    slurm.cancel(7, pending_only=True)
    slurm.cancel(7, signal="USR1", batch=True)
    slurm.cancel(7, signal="TERM", step=0)
    assert run.commands == [
        ("scancel", "7"),
        ("scancel", "--state=PENDING", "7"),
        ("scancel", "--signal=USR1", "--batch", "7"),
        ("scancel", "--signal=TERM", "7.0"),
    ]


@pytest.mark.parametrize("words", ["Invalid job id specified", "Job/step already completing or completed"])
def test_canceling_what_has_ended_is_harmless(words: str) -> None:
    Slurm(Played(scancel=failed(f"scancel: error: Kill job error on job id 7: {words}\n")), {}).cancel(7)


def test_a_cancel_that_slurm_refuses_or_does_not_hear_is_an_error() -> None:
    refused = "scancel: error: Kill job error on job id 7: Access/permission denied\n"
    with pytest.raises(BackendError, match="Access/permission denied"):
        Slurm(Played(scancel=failed(refused)), {}).cancel(7)
    silent = "scancel: error: Kill job error on job id 7: Unable to contact slurm controller (connect failure)\n"
    with pytest.raises(SlurmUnavailableError):
        Slurm(Played(scancel=failed(silent)), {}).cancel(7)


def test_a_node_tells_its_state() -> None:
    node = Slurm(Played(scontrol_node=said(NODE_DOWN)), {}).node("scan3")
    assert node is not None
    assert (node.name, node.states, node.fit) == ("scan3", ("DOWN", "NOT_RESPONDING"), False)
    assert Slurm(Played(scontrol_node=Completed(1, "Node x not found\n", "")), {}).node("x") is None


def test_partitions_and_their_nodes_are_read() -> None:
    slurm = Slurm(Played(scontrol_partition=said(PARTITIONS), sinfo=said(GROUPS)), {})
    gpu, small, off = slurm.partitions()
    assert (gpu.default, gpu.max_time_s, gpu.max_nodes, gpu.up) == (True, None, None, True)
    assert (small.max_time_s, small.max_nodes, small.total_nodes) == (600, 1, 2)
    assert (off.up, off.max_time_s) == (False, 86400)
    assert [partition.preempt_mode for partition in (gpu, small, off)] == ["REQUEUE", "OFF", "CANCEL"]
    down, idle = slurm.groups("gpu")
    assert (down.fit, down.hosts) == (False, ("scan3",))
    assert (idle.fit, idle.hosts, idle.has("gpu"), idle.memory_mb) == (True, ("scan1", "scan2"), 2, 4000)


def test_the_version_is_the_last_word() -> None:
    assert Slurm(Played(sbatch=said("slurm-wlm 22.05.8\n")), {}).version() == "22.05.8"


def test_a_program_that_is_not_installed_is_an_error_with_a_next_step() -> None:
    with pytest.raises(BackendError, match="no-such-program cannot be run: no such file") as caught:
        run_program(["no-such-program"], 1.0, {})
    assert caught.value.hint == "the slurm backend needs Slurm's programs: run air on a login node of the cluster"


def test_a_program_that_hangs_is_ended_at_its_deadline() -> None:
    started = time.monotonic()
    with pytest.raises(SlurmUnavailableError, match=r"sleep gave no answer in 0.1 s"):
        run_program(["sleep", "1000"], 0.1, {"PATH": "/usr/bin:/bin"})
    assert time.monotonic() - started < 10


def test_a_program_gives_back_its_streams_and_its_exit_code() -> None:
    code = "import os, sys; print(os.environ['A']); print('no', file=sys.stderr); sys.exit(3)"
    done = run_program([sys.executable, "-c", code], 20.0, {"A": "ünï"})
    assert done == Completed(3, "ünï\n", "no\n")
