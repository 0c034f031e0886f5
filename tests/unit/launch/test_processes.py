"""Processes, found by what was in their environment when they started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from airlane.launch.processes import STOPS_LAST, started_with, stops_last

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def process_with(environment: Mapping[str, str]) -> Iterator[int]:
    """The id of a process that is there, and not only on its way."""
    line = ["sh", "-c", "echo; read _"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


def test_processes_are_found_by_all_of_the_words_they_were_started_with() -> None:
    with process_with({"AIR_TEST_A": "one", "AIR_TEST_B": "two"}) as pid:
        assert started_with("AIR_TEST_A=one", "AIR_TEST_B=two") == [pid]
        assert started_with("AIR_TEST_A=one", "AIR_TEST_B=tw") == []
        assert not stops_last(pid)


def test_what_stops_last_says_so_in_its_environment() -> None:
    with process_with({STOPS_LAST: "ray"}) as pid:
        assert stops_last(pid)
