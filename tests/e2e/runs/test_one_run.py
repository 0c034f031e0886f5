"""What one run on this machine does, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from airlane.store.records import CauseKind
from airlane.store.states import State

from .conftest import Lane, ended, processes_of, supervisor_pid, wait_until


def test_a_watched_run_prints_its_lines_alone_on_stdout(lane: Lane) -> None:
    done = lane.air("run", "-f", lane.workload("echo hi"), "--watch")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert "SUCCESS" in done.stderr


def test_a_failure_names_node_exit_code_and_attempt(lane: Lane) -> None:
    done = lane.air("run", "-f", lane.workload("exit 3"), "--watch")
    assert done.returncode == 1
    shown = lane.air("get", "@last")
    assert shown.returncode == 0
    assert "node 0 exited with code 3" in shown.stdout
    view = lane.client.get("@last").view()
    assert view.cause is not None
    assert (view.cause.kind, view.cause.node, view.cause.exit_code) == (CauseKind.EXIT_CODE, 0, 3)
    assert [attempt.number for attempt in view.attempts] == [0]


def test_the_first_node_that_fails_ends_the_others_and_is_the_cause(lane: Lane) -> None:
    command = 'if [ "$NODE_RANK" = 1 ]; then sleep 1; exit 7; fi\nsleep 600'
    begun = time.monotonic()
    run = lane.submit(lane.workload(command, nodes=2, cores=2))
    view = ended(run, within_s=10)
    assert time.monotonic() - begun < 10
    assert view.state is State.FAILED
    assert view.cause is not None
    assert (view.cause.node, view.cause.exit_code, view.cause.collateral_nodes) == (1, 7, (0,))
    assert processes_of(run.id) == []


def test_a_timeout_is_retried_and_told_and_the_checkpoint_folder_is_kept(lane: Lane) -> None:
    command = 'ls "$AIR_CHECKPOINT_DIR"\ntouch "$AIR_CHECKPOINT_DIR/from-$AIR_ATTEMPT"\nsleep 600'
    run = lane.submit(lane.workload(command), limits={"timeout_s": 1.0, "max_retries": 2})
    view = ended(run)
    assert view.state is State.TIMEDOUT
    assert [attempt.state for attempt in view.attempts] == [State.TIMEDOUT] * 3
    assert b"from-0" in b"".join(run.logs(attempt=1))
    assert b"".join(run.logs(attempt=2)).split()[:2] == [b"from-0", b"from-1"]
    assert processes_of(run.id) == []


def test_a_second_attempt_resumes_from_the_first_ones_file(lane: Lane) -> None:
    command = (
        'f="$AIR_CHECKPOINT_DIR/step"; if [ -e "$f" ]; then echo resumed at $(cat "$f"); else echo 5 > "$f"; exit 1; fi'
    )
    run = lane.submit(lane.workload(command, max_retries=1))
    view = ended(run)
    assert view.state is State.SUCCESS
    assert b"resumed at 5" in b"".join(run.logs())
    assert [a.state for a in view.attempts] == [State.FAILED, State.SUCCESS]


def test_stragglers_are_stopped_when_node_0_has_succeeded(lane: Lane) -> None:
    command = '[ "$NODE_RANK" = 0 ] && exit 0\nsleep 600'
    run = lane.submit(lane.workload(command, nodes=2, cores=1), limits={"straggler_grace_s": 1.0})
    view = ended(run)
    assert view.state is State.SUCCESS
    assert view.cause is not None
    assert view.cause.collateral_nodes == (1,)
    assert processes_of(run.id) == []


def test_cancel_ends_a_run_and_twice_is_harmless(lane: Lane) -> None:
    run = lane.submit(lane.workload("sleep 600"))
    wait_until(lambda: run.view().state is State.RUNNING, within_s=10, what="running")
    assert lane.air("cancel", run.id).returncode == 0
    view = ended(run)
    assert view.state is State.CANCELED
    assert view.cause is not None
    assert lane.air("cancel", run.id).returncode == 0
    assert run.view() == view
    assert processes_of(run.id) == []


def test_sigterm_to_the_supervisor_cancels_the_run(lane: Lane) -> None:
    run = lane.submit(lane.workload("sleep 600"))
    wait_until(lambda: run.view().state is State.RUNNING, within_s=10, what="running")
    os.kill(supervisor_pid(run.view().paths), signal.SIGTERM)
    view = ended(run)
    assert view.state is State.CANCELED
    assert view.cause is not None
    assert "SIGTERM" in view.cause.summary


def test_ctrl_c_stops_watching_not_the_run(lane: Lane) -> None:
    watching = lane.start("run", "-f", lane.workload("echo ready; sleep 2; echo done"), "--watch")
    assert watching.stdout is not None
    assert watching.stdout.readline() == b"ready\n"
    watching.send_signal(signal.SIGINT)
    _, stderr = watching.communicate(timeout=20)
    assert watching.returncode == 130
    run = lane.client.get("@last")
    assert f"The run goes on: air logs {run.id}" in stderr.decode()
    assert ended(run).state is State.SUCCESS
    assert b"done" in b"".join(run.logs())


def test_a_run_outlives_the_session_it_was_started_from(lane: Lane) -> None:
    starter = lane.start("run", "-f", lane.workload("sleep 1; echo survived"))
    starter.communicate(timeout=30)
    run = lane.client.get("@last")
    pid = supervisor_pid(run.view().paths)
    assert os.getsid(pid) != os.getsid(0)
    assert ended(run).state is State.SUCCESS
    assert b"survived" in b"".join(run.logs())


def test_no_pipe_of_the_caller_stays_open(lane: Lane) -> None:
    # `air run | tee log` must end when air ends, though the supervisor lives on: this reads stdout to its end.
    done = lane.air("run", "-f", lane.workload("sleep 300"), timeout_s=30)
    assert done.returncode == 0
    run = lane.client.get("@last")
    assert not run.view().state.terminal
    lane.air("cancel", run.id)
    ended(run)


def test_an_idempotency_token_gives_the_same_run(lane: Lane) -> None:
    workload = lane.workload("echo once")
    first, second = (json.loads(lane.air("run", workload, "--json", "--idempotency-key", "k").stdout) for _ in range(2))
    assert first["data"]["run_id"] == second["data"]["run_id"]
    assert (first["data"]["created"], second["data"]["created"]) == (True, False)


def test_ten_submissions_at_once_with_one_token_give_one_run(lane: Lane) -> None:
    workload = lane.workload("echo once")
    started = [lane.start("run", workload, "--json", "--idempotency-key", "k") for _ in range(10)]
    answers = [json.loads(each.communicate(timeout=60)[0]) for each in started]
    assert len({answer["data"]["run_id"] for answer in answers}) == 1
    assert sum(answer["data"]["created"] for answer in answers) == 1


def test_secrets_reach_the_command_and_nothing_else(lane: Lane) -> None:
    value = "s3cr3t-välue"
    lane.air("secrets", "set", "hf/token", input=value)
    workload = lane.workload('echo "token: $HF_TOKEN"; test ${#HF_TOKEN} = 12', secrets={"HF_TOKEN": "hf/token"})
    done = lane.air("run", workload, "--watch")
    assert (done.returncode, done.stdout) == (0, "token: ***\n")
    run = lane.client.get("@last").view()
    for path in run.paths.root.rglob("*"):
        if path.is_file():
            assert value.encode() not in path.read_bytes(), path
    assert not run.paths.secrets.exists()


def test_a_missing_secret_is_told_before_anything_is_made(lane: Lane) -> None:
    done = lane.air("run", lane.workload("true", secrets={"A": "no/such"}))
    assert done.returncode == 1
    assert "air secrets set no/such" in done.stderr
    assert list(lane.client._store.ids()) == []


def test_rerun_takes_the_frozen_code_not_the_folder_of_today(lane: Lane) -> None:
    code = lane.folder / "code"
    code.mkdir()
    (code / "say.sh").write_text("echo first")
    workload = lane.workload("bash say.sh; echo $X", code_source={"root_path": "code"}, env_variables={"X": "a"})
    assert lane.air("run", workload, "--watch").stdout == "first\na\n"
    (code / "say.sh").write_text("echo second")
    again = lane.air("rerun", "@last", "--override", "env_variables.X=b", "--watch")
    assert again.stdout == "first\nb\n", again.stderr
    view = lane.client.get("@last").view()
    assert view.record.rerun_of is not None


def test_the_command_finds_the_variables_that_were_promised(lane: Lane) -> None:
    code = lane.folder / "my code"
    code.mkdir()
    workload = lane.workload(
        "env -0; echo; pwd", nodes=2, cores=2, code_source={"root_path": "my code"}, parameters={"lr": 0.1}
    )
    run = lane.submit(workload)
    assert ended(run).state is State.SUCCESS
    for node in range(2):
        out = b"".join(run.logs(node=node))
        found = dict(item.split("=", 1) for item in out.decode().split("\0") if "=" in item)
        assert (found["NODE_RANK"], found["NUM_NODES"]) == (str(node), "2")
        assert (found["WORLD_SIZE"], found["LOCAL_WORLD_SIZE"]) == ("4", "2")
        assert found["CODE_SOURCE_PATH"].endswith("/my code")
        assert out.decode().rstrip("\n").endswith(found["CODE_SOURCE_PATH"])
        assert found["AIR_RUN_ID"] == run.id
        assert found["CUDA_VISIBLE_DEVICES"] == ""
        assert found["HYPERPARAMETERS_PATH"].endswith("parameters.yaml")
        assert "RANK" not in found
        assert "LOCAL_RANK" not in found
        assert len(found["RAY_TMPDIR"]) < 39


def test_daemons_that_the_command_leaves_end_with_it(lane: Lane) -> None:
    run = lane.submit(lane.workload("setsid nohup sleep 601 >/dev/null 2>&1 & (sleep 602 &) & echo started"))
    assert ended(run).state is State.SUCCESS
    assert processes_of(run.id) == []


def test_other_runs_and_the_users_processes_are_left_alone(lane: Lane) -> None:
    bystander = subprocess.Popen(["sleep", "603"])
    other = lane.submit(lane.workload("sleep 604"))
    wait_until(lambda: len(processes_of(other.id)) > 1, within_s=10, what="the other run runs")
    run = lane.submit(lane.workload("exit 1"))
    ended(run)
    assert bystander.poll() is None
    assert other.view().state is State.RUNNING
    bystander.kill()
    bystander.wait()
    lane.air("cancel", other.id)
    ended(other)


@pytest.mark.parametrize(
    ("command", "finding"),
    [
        ("python3 -c 'raise ValueError(\"bad learning rate\")'", "ValueError: bad learning rate"),
        ("kill -9 $$", "SIGKILL"),
        ("no-such-command", "no-such-command"),
        ("echo 'RuntimeError: NCCL communicator was aborted: watchdog timeout'; exit 1", "NCCL"),
        ("echo 'OSError: [Errno 28] No space left on device'; exit 1", "No space left"),
    ],
)
def test_the_cause_shows_the_lines_that_say_why(lane: Lane, command: str, finding: str) -> None:
    done = lane.air("run", lane.workload(command), "--watch")
    assert done.returncode == 1
    assert finding in done.stderr


def test_code_that_cannot_fit_is_refused_with_what_there_is(lane: Lane) -> None:
    done = lane.air("run", lane.workload("true", cores=4096))
    assert done.returncode == 1
    assert "asked for: 4096" in done.stderr
    assert list(lane.client._store.ids()) == []
