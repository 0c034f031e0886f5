"""Real members of a Slurm step, started by hand: SLURM_PROCID says which node, stdin what to do."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airlane.launch.complaint import EXIT_NO_ORDER
from e2e.launch.conftest import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from e2e.launch.conftest import AgentHost

UNTIL_STOPPED = "trap 'echo saving; exit 7' TERM; echo ready; while :; do sleep 0.05; done"


@dataclass
class Member:
    """A member of rank 3 and what it says; `folder` is where its order and record are."""

    host: AgentHost
    folder: Path
    process: subprocess.Popen[bytes]
    text: bytes = b""

    def said(self, what: str) -> dict[str, Any]:
        """The next line that tells this."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line, separator, rest = self.text.partition(b"\n")
            if separator:
                self.text = rest
                told: dict[str, Any] = json.loads(line)
                if what in told:
                    return told
                continue
            assert self.process.stdout is not None
            ready = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"it did not tell {what}"
            got = os.read(self.process.stdout.fileno(), 4096)
            assert got, f"it ended and did not tell {what}"
            self.text += got

    def tell(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n".encode())

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    @property
    def log(self) -> str:
        file = self.folder / "3.log"
        return file.read_text() if file.exists() else ""

    def end(self) -> dict[str, Any]:
        assert self.process.wait(PATIENCE_S) == 0
        record: dict[str, Any] = json.loads((self.folder / "3.json").read_text())
        return record


class Step:
    """Starts members and lets none of them live on."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._started: list[subprocess.Popen[bytes]] = []
        self.folder = host.folder / 'the "nodes" ü'
        self.folder.mkdir()

    def start(self, command: str, *, keeper: bool = False, folder: Path | None = None, **changes: Any) -> Member:
        files = {"log_file": str(self.folder / "3.log"), "record_file": str(self.folder / "3.json")}
        order = self._host.order(command, node_rank=3, beat_interval_s=0.05, **files)
        (self.folder / "3.order.json").write_text(replace(order, **changes).to_json())
        self._host.hand_over()
        line = [*self._host.agent_line, "--member", str(folder or self.folder)]
        if keeper:
            line = ["bash", "-c", '"$@"; exit $?', "keeper", *line]
        process = subprocess.Popen(
            line,
            env={**os.environ, "SLURM_PROCID": "3", "SLURMD_NODENAME": "gpu-b3", "SLURM_STEP_ID": "5"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._started.append(process)
        return Member(self._host, self.folder, process)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


@pytest.fixture
def step(host: AgentHost) -> Iterator[Step]:
    made = Step(host)
    yield made
    made.close()


def test_a_member_introduces_itself_waits_for_the_word_and_carries_its_order_out(step: Step) -> None:
    member = step.start('echo "here is $NODE_RANK"; exit 4', env={"NODE_RANK": "3"})
    hello = member.said("hello")["hello"]
    assert (hello["host"], hello["step"], hello["shared"]) == ("gpu-b3", "5", True)
    assert not (step.folder / "3.json").exists(), "it began without the word"
    member.tell("start")
    record = member.end()
    assert (record["node_rank"], record["exit_code"], record["stop_reason"]) == (3, 4, None)
    assert member.log == "here is 3\n"


def test_a_member_gives_signs_of_life_while_its_command_runs(step: Step) -> None:
    member = step.start(UNTIL_STOPPED)
    member.said("hello")
    member.tell("start")
    for _ in range(3):
        member.said("beat")
    member.tell("kill")
    assert member.end()["stop_reason"] == "kill"


def test_a_request_for_another_node_is_not_for_this_one(step: Step) -> None:
    member = step.start(UNTIL_STOPPED)
    member.said("hello")
    member.tell("start")
    wait_until(lambda: "ready" in member.log, "the command")
    for words in ("stop 33", "kill 1", "stop 0", "beat", "rubbish", ""):
        member.tell(words)
    member.said("beat")
    member.tell("stop 3")
    record = member.end()
    assert (record["exit_code"], record["stop_reason"]) == (7, "stop")
    assert member.log.endswith("saving\n")


def test_a_request_without_a_node_is_for_all_of_them(step: Step) -> None:
    member = step.start(UNTIL_STOPPED)
    member.said("hello")
    member.tell("start")
    wait_until(lambda: "ready" in member.log, "the command")
    member.tell("stop")
    assert member.end()["exit_code"] == 7


def test_requests_that_come_with_the_word_are_not_lost(step: Step) -> None:
    member = step.start(UNTIL_STOPPED)
    member.said("hello")
    member.tell("start\nbeat\nkill 3")
    record = member.end()
    assert record["stop_reason"] == "kill"


def test_a_request_that_is_cut_in_two_is_one(step: Step) -> None:
    member = step.start(UNTIL_STOPPED)
    member.said("hello")
    member.tell("start")
    wait_until(lambda: "ready" in member.log, "the command")
    assert member.process.stdin is not None
    member.process.stdin.write(b"sto")
    member.said("beat")
    member.process.stdin.write(b"p 3\n")
    assert member.end()["stop_reason"] == "stop"


def test_a_supervisor_that_is_gone_before_the_word_leaves_nothing_to_do(step: Step) -> None:
    member = step.start("echo never")
    member.said("hello")
    member.leave()
    assert member.process.wait(PATIENCE_S) == EXIT_NO_ORDER
    assert member.log == ""


def test_another_word_than_start_starts_nothing(step: Step) -> None:
    member = step.start("echo never")
    member.said("hello")
    member.tell("stop 3")
    assert member.process.wait(PATIENCE_S) == EXIT_NO_ORDER
    assert member.log == ""


def test_a_supervisor_that_leaves_ends_the_command(step: Step) -> None:
    member = step.start(UNTIL_STOPPED)
    member.said("hello")
    member.tell("start")
    wait_until(lambda: "ready" in member.log, "the command")
    member.leave()
    record = member.end()
    assert (record["exit_code"], record["stop_reason"]) == (7, "orphaned")


def test_a_supervisor_that_falls_silent_ends_the_command_without_a_word_to_it(step: Step, host: AgentHost) -> None:
    member = step.start(f"./sleeper & {UNTIL_STOPPED}", silence_s=0.3)
    member.said("hello")
    member.tell("start")
    record = member.end()
    assert record["stop_reason"] == "cut off"
    assert "saving" not in member.log, "it could have saved over what the next attempt has done"
    assert host.left_over() == []


def test_a_word_now_and_then_keeps_the_command_alive(step: Step) -> None:
    member = step.start(UNTIL_STOPPED, silence_s=2.0)
    member.said("hello")
    member.tell("start")
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        member.said("beat")
        member.tell("beat")
    member.tell("stop 3")
    assert member.end()["stop_reason"] == "stop"


def test_a_member_whose_keeper_is_killed_ends_its_command(step: Step, host: AgentHost) -> None:
    member = step.start(f"./sleeper & {UNTIL_STOPPED}", keeper=True)
    member.said("hello")
    member.tell("start")
    wait_until(lambda: "ready" in member.log, "the command")
    os.kill(member.process.pid, signal.SIGKILL)
    record = step.folder / "3.json"
    wait_until(lambda: record.exists() and '"ended_at": null' not in record.read_text(), "the record")
    assert json.loads(record.read_text())["stop_reason"] == "stop"
    wait_until(lambda: host.left_over() == [], "the end of what it started")


def test_a_member_says_that_the_folder_of_its_order_is_not_there(step: Step, host: AgentHost) -> None:
    member = step.start("true", folder=host.folder / "not there")
    assert member.said("hello")["hello"]["shared"] is False
    member.tell("start")
    assert member.process.wait(PATIENCE_S) == EXIT_NO_ORDER


def test_what_a_killed_agent_left_is_swept_by_its_keeper(step: Step, host: AgentHost) -> None:
    del step
    environ = {**os.environ, "AIR_RUN_ID": host.run_id, "AIR_ATTEMPT": "0", "SLURM_PROCID": "3"}
    host.hand_over()
    left = subprocess.Popen(["setsid", *host.wrapper, "./sleeper"], cwd=host.work, env=environ)
    other = subprocess.Popen(["setsid", *host.wrapper, "./sleeper"], cwd=host.work, env={**environ, "AIR_ATTEMPT": "1"})
    wait_until(lambda: len(host.left_over()) == 2, "both sleepers")
    bare = {name: value for name, value in environ.items() if not name.startswith("AIR_")}
    subprocess.run([*host.agent_line, "--sweep", host.run_id, "0"], check=True, env=bare, timeout=PATIENCE_S)
    assert left.wait(PATIENCE_S) == -signal.SIGKILL
    assert other.poll() is None, "another attempt's was ended"
    other.kill()
    other.wait()
