"""A command beside a run, on one of its nodes."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path
from typing import IO

import pytest

from airlane.backends.registry import make_backend
from airlane.store.paths import Home
from lab.cluster import Lab
from lab.slurm_runs import SlurmRuns

ANSWERS = "head -c 3; sleep 600"
PATIENCE_S = 10.0


@pytest.fixture
def runs(lab: Lab, tmp_path: Path) -> SlurmRuns:
    return SlurmRuns(lab, tmp_path)


def answer(stream: IO[bytes]) -> bytes:
    assert select.select([stream], [], [], PATIENCE_S)[0], "nothing came"
    return os.read(stream.fileno(), 100)


def test_a_command_beside_a_run_answers_at_once_byte_by_byte(runs: SlurmRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.submit("echo here; sleep 600", nodes=2)
    runs.await_log(run, "here")
    monkeypatch.setenv("SLURM_CONF", str(runs.lab.conf))
    backend = make_backend("slurm", Home(runs.home), {})
    second = runs.hosts(run)[1]
    command = [*backend.on_node(runs.paths(run), second), "bash", "-c", f'hostname | tr -d "\\n"; {ANSWERS}']
    beside = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert beside.stdin is not None
        assert beside.stdout is not None
        assert answer(beside.stdout) == second.encode()
        beside.stdin.write(b"abc")  # no line break, and more could follow
        beside.stdin.flush()
        assert answer(beside.stdout) == b"abc"
    finally:
        beside.kill()
        beside.communicate()
    runs.air("cancel", run, "-p", "lab")
    assert runs.ended(run, within_s=30)["status"] == "CANCELED"
