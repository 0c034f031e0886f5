"""Stopping, killing, orphans: nothing of a command outlives it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airlane.launch.sweep import sweep

if TYPE_CHECKING:
    from e2e.launch.conftest import AgentHost

UNTIL_UP = "until [ -e up ]; do sleep 0.01; done"
DAEMONS = {
    "background": "./sleeper &",
    "disowned": "./sleeper & disown",
    "no hangup": "nohup ./sleeper >/dev/null 2>&1 &",
    "own session": "setsid ./sleeper >/dev/null 2>&1 </dev/null &",
    "double fork": '( setsid bash -c "( ./sleeper & ) &" & )',
    "deaf": "(trap '' TERM HUP INT; ./sleeper) &",
    "empty environment": "env -i setsid ./sleeper &",
}


def _wait_until_none_is_left(host: AgentHost, within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while left := host.left_over():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


@pytest.mark.parametrize("kind", DAEMONS)
def test_daemons_that_the_command_leaves_are_ended_with_it(host: AgentHost, kind: str) -> None:
    agent = host.start(f"{DAEMONS[kind]}\n{UNTIL_UP}; echo over; exit 6")
    record = agent.end()
    assert agent.log.endswith("over\n")
    assert record["exit_code"] == 6
    assert record["leftovers_killed"] == 1
    assert host.left_over() == []


def test_many_leftovers_are_all_counted_and_ended(host: AgentHost) -> None:
    record = host.run(f"for i in {{1..60}}; do ./sleeper & done; {UNTIL_UP}").record
    assert record["leftovers_killed"] == 60
    assert host.left_over() == []


def test_a_tee_behind_the_command_may_finish_writing(host: AgentHost) -> None:
    agent = host.run("exec > >(sleep 0.05; cat) 2>&1; seq 20000")
    assert agent.log.splitlines() == [str(number) for number in range(1, 20001)]
    assert agent.record["leftovers_killed"] == 0


def test_a_stop_lets_the_command_clean_up(host: AgentHost) -> None:
    agent = host.start("trap 'echo saving; exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    agent.said("ready")
    agent.ask("stop")
    record = agent.end()
    assert "saving\n" in agent.log
    assert (record["exit_code"], record["signal"], record["stop_reason"]) == (7, None, "stop")


def test_programs_that_a_trap_calls_to_save_are_not_asked_to_stop(host: AgentHost) -> None:
    many = "for i in {1..200}; do sleep 60 & done"  # the longer it takes to ask everyone, the sooner a trap forks
    agent = host.start(f"trap '/bin/sleep 0.3; /bin/echo saved; exit 0' TERM; {many}; echo ready; wait")
    agent.said("ready")
    agent.ask("stop")
    record = agent.end()
    assert "saved\n" in agent.log
    assert (record["exit_code"], record["signal"], record["stop_reason"]) == (0, None, "stop")


def test_a_program_that_saves_on_sigterm_keeps_its_grace_when_bash_is_gone(host: AgentHost) -> None:
    program = "trap 'sleep 0.5; echo saved; exit 0' TERM; touch up; while :; do sleep 0.05; done"
    agent = host.start(f'bash -c "{program}" &\n{UNTIL_UP}; echo ready; wait')
    agent.said("ready")
    agent.ask("stop")
    record = agent.end()
    assert "saved\n" in agent.log
    assert (record["exit_code"], record["signal"]) == (None, "SIGTERM")
    assert record["leftovers_killed"] == 0


def test_what_ignores_sigterm_is_killed_after_the_grace(host: AgentHost) -> None:
    agent = host.start("trap '' TERM; ./sleeper & echo ready; wait; while :; do ./sleeper; done", stop_grace_s=0.3)
    agent.said("ready")
    asked_at = time.time()
    agent.ask("stop")
    record = agent.end()
    assert 0.3 <= record["ended_at"] - asked_at < 3
    assert (record["exit_code"], record["signal"], record["stop_reason"]) == (None, "SIGKILL", "stop")
    assert record["leftovers_killed"] >= 1
    assert host.left_over() == []


def test_what_is_suspended_still_hears_a_stop(host: AgentHost) -> None:
    agent = host.start("trap 'echo awake; exit 0' TERM; echo ready; kill -STOP $$; while :; do sleep 0.05; done")
    agent.said("ready")
    agent.ask("stop")
    assert agent.end()["exit_code"] == 0
    assert "awake" in agent.log


def test_a_kill_ends_everything_at_once(host: AgentHost) -> None:
    agent = host.start(f"trap '' TERM; ./sleeper & {UNTIL_UP}; echo ready; wait")
    agent.said("ready")
    asked_at = time.time()
    agent.ask("kill")
    record = agent.end()
    assert record["ended_at"] - asked_at < 2
    assert (record["signal"], record["stop_reason"], record["leftovers_killed"]) == ("SIGKILL", "kill", 1)
    assert host.left_over() == []


def test_requests_may_be_repeated_split_and_mixed_with_nonsense(host: AgentHost) -> None:
    agent = host.start(
        "n=0; trap 'n=$((n+1)); echo $n' TERM; echo ready; while :; do sleep 0.05 || :; done", stop_grace_s=60
    )
    agent.said("ready")
    assert agent.process.stdin is not None
    agent.process.stdin.write(b"what\n\nst")
    agent.process.stdin.flush()
    agent.process.stdin.write(b"op\nstop\nstop\n")
    agent.process.stdin.flush()
    agent.said("\n1\n")
    agent.ask("stop")
    agent.ask("kill")
    record = agent.end()
    assert "2" not in agent.log.split()
    assert record["stop_reason"] == "kill"


def test_sigterm_to_the_agent_is_a_stop(host: AgentHost) -> None:
    agent = host.start(f"./sleeper & {UNTIL_UP}; echo ready; wait")
    agent.said("ready")
    agent.process.send_signal(signal.SIGTERM)
    record = agent.end()
    assert (record["signal"], record["stop_reason"]) == ("SIGTERM", "stop")
    assert host.left_over() == []


def test_a_command_whose_supervisor_is_gone_is_stopped(host: AgentHost) -> None:
    agent = host.start(f"trap '' TERM; ./sleeper & {UNTIL_UP}; echo ready; wait; wait", orphan_grace_s=0.2)
    agent.said("ready")
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    record = agent.end()
    assert (record["signal"], record["stop_reason"]) == ("SIGKILL", "orphaned")
    assert host.left_over() == []


def test_an_end_of_its_own_beats_a_request_that_comes_too_late(host: AgentHost) -> None:
    agent = host.start("exit 0")
    agent.ask("stop")
    record = agent.end()
    assert (record["exit_code"], record["stop_reason"]) in {(0, None), (0, "stop"), (None, "stop")}


def test_a_command_that_keeps_forking_is_stopped(host: AgentHost) -> None:
    agent = host.start("trap '' TERM; while :; do ./sleeper & touch up; sleep 0.002; done", stop_grace_s=0.2)
    agent_has_many = time.monotonic() + 10
    while len(host.left_over()) < 20:
        assert time.monotonic() < agent_has_many
    agent.ask("stop")
    record = agent.end()
    assert record["signal"] == "SIGKILL"
    assert record["leftovers_killed"] >= 20
    assert host.left_over() == []


def test_a_killed_agent_takes_its_pid_namespace_with_it(namespace_host: AgentHost) -> None:
    agent = namespace_host.start(f"trap '' TERM; setsid ./sleeper & {UNTIL_UP}; echo ready; wait")
    agent.said("ready")
    assert namespace_host.left_over()
    agent.process.kill()
    _wait_until_none_is_left(namespace_host)


def test_a_sweep_ends_what_a_killed_agent_left(host: AgentHost) -> None:
    agent = host.start(f"trap '' TERM; setsid ./sleeper & {UNTIL_UP}; echo ready; wait")
    agent.said("ready")
    agent.process.kill()
    agent.process.wait()
    assert sweep(f"{host.run_id}0") == 0
    assert sweep(host.run_id, attempt=1) == 0
    if host.containment == "subreaper":
        assert host.left_over()
        assert sweep(host.run_id, attempt=0, exclude=_pids(host)) == 0
        assert sweep(host.run_id, attempt=0) >= 1
        assert host.left_over() == []
    _wait_until_none_is_left(host)
    assert sweep(host.run_id) == 0


def test_a_sweep_finds_a_daemon_that_emptied_its_environment(host: AgentHost) -> None:
    agent = host.start(f"(env -i setsid ./sleeper &) ; {UNTIL_UP}; echo ready; exec sleep 60")
    agent.said("ready")
    agent.process.kill()
    agent.process.wait()
    assert sweep(host.run_id, attempt=1) == 0
    begun = time.monotonic()
    sweep(host.run_id, attempt=0)
    assert time.monotonic() - begun < 1.5  # the dead that nobody has read yet are not waited for
    assert host.left_over() == []


def _pids(host: AgentHost) -> frozenset[int]:
    """Every process whose environment names the run."""
    pids = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if host.run_id.encode() in path.read_bytes():
                pids.add(int(path.parent.name))
        except OSError:
            continue
    return frozenset(pids)


def test_bash_dies_with_a_killed_agent(host: AgentHost) -> None:
    agent = host.start("echo $PPID ready; exec ./sleeper")
    agent.said("ready")
    agent.process.kill()
    _wait_until_none_is_left(host)


SAMPLE_WITHOUT_THREADS = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from airlane.launch.system_metrics import Sampler
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
sampler = Sampler("metrics", interval_s=1.0, gpus=())
sampler.start()
sampler.stop()
print("went on")
"""


def test_an_agent_that_may_start_no_thread_goes_on_without_metrics(user_host: AgentHost) -> None:
    if user_host.user == 0:
        pytest.skip("root has no such limit")
    line = [*user_host.wrapper, user_host.python, "-I", "-c", SAMPLE_WITHOUT_THREADS, str(user_host.folder / "lib")]
    user_host.hand_over()
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, cwd=user_host.folder)
    assert (done.stdout, done.stderr) == ("went on\n", "")


def test_a_record_that_cannot_be_written_and_a_full_supervisors_log_do_not_end_the_command(host: AgentHost) -> None:
    with Path("/dev/full").open("wb") as full:
        spoil = "sleep 0.3; rm ../0.json*; mkdir ../0.json.next; sleep 0.2; echo over"
        agent = host.start(spoil, popen={"stderr": full})
        assert agent.process.wait(20) == 74
    assert agent.log == "over\n"
