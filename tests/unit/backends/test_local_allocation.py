"""The parts of a local allocation that need no agent; tests/contract has the rest."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from airlane.backends import local_allocation
from airlane.backends.agents import AGENT_MAIN
from airlane.backends.local_allocation import end_agents, is_agent
from airlane.launch.ports import free_port
from airlane.store.paths import RunPaths

from .conftest import OtherProcess

RUN = RunPaths(Path("/home/me/a 'home' ü/runs/2026-11/7k2m9q4d"))
ORDER = os.fsencode(RUN.node_order(attempt=0, node=1))
SCRIPT = os.fsencode(AGENT_MAIN)


@pytest.mark.parametrize(
    ("arguments", "agent"),
    [
        ([b"python", b"-I", b"-S", SCRIPT, ORDER, b""], True),
        ([b"/old/python", b"-I", b"-S", b"/elsewhere/airlane/launch/__main__.py", ORDER, b""], True),
        ([b"python", SCRIPT, ORDER.replace(b"7k2m9q4d", b"7k2m9q4e"), b""], False),
        ([b"tail", b"-f", os.fsencode(RUN.log(attempt=0, node=0)), b""], False),
        ([b"less", ORDER, b""], False),
        ([b"vim", SCRIPT, os.fsencode(RUN.log(attempt=0, node=0)), b""], False),
        ([b""], False),
        ([], False),
    ],
)
def test_an_agent_is_known_by_its_whole_command_line(arguments: list[bytes], agent: bool) -> None:
    assert is_agent(arguments, RUN) is agent


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_whoever_reads_the_log_of_a_lost_run_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_allocation, "ORPHANS_PATIENCE_S", 0.0)
    run = RunPaths(tmp_path / "7k2m9q4d")
    run.nodes(0).mkdir(parents=True)
    log = run.log(attempt=0, node=0)
    log.touch()
    with OtherProcess() as reader:
        start = f"__import__('subprocess').Popen(['tail', '-f', {str(log)!r}], stdin=-3, stdout=-3)"
        reader.ask(f"tail <- {start}")
        end_agents(run)
        assert reader.ask("tail.poll()") == "None"
        reader.ask("tail.kill()")


def test_ending_the_agents_gives_up_on_one_that_the_kernel_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(local_allocation, "ORPHANS_PATIENCE_S", 0.0)
    monkeypatch.setattr(local_allocation, "_UNKILLABLE_PATIENCE_S", 0.0)
    monkeypatch.setattr(local_allocation, "_agents_of", lambda _run: iter([4242]))
    monkeypatch.setattr(local_allocation, "_kill", killed.append)
    end_agents(RunPaths(tmp_path / "7k2m9q4d"))
    assert killed == [4242]


def test_a_free_port_can_be_bound_with_the_three_after_it() -> None:
    first = free_port()
    assert 20_000 <= first < 30_003
    for port in range(first, first + 4):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("number", "word"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (111, "111th")],
)
def test_a_place_in_line_is_said_as_people_say_it(number: int, word: str) -> None:
    assert local_allocation._ordinal(number) == word
