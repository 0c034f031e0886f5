"""`python -m recipes.batch` as a process, on a Ray cluster of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 240
MARK = "BATCH_OF_TEST"
WORDS = (
    "data.limit=60",
    "generation.max_new_tokens=150",
    "generation.temperature=1.0",
    "generation.batch_tokens=8192",
    "output.shard_rows=6",
)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIR_", "MLFLOW_", "RAY_"))}
    env = kept | {"PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled", MARK: str(folder)}
    command = [sys.executable, "-m", "recipes.batch", *WORDS, *words, "output.folder=answers"]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said
    return said


def answers(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "answers").glob("*.jsonl"))}


def workers_in(folder: Path) -> Iterator[int]:
    """The processes that have a model, of the run in this folder: Ray's workers inherit the driver's variables."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                variables, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                if f"{MARK}={folder}".encode() in variables.split(b"\0") and line.startswith(b"ray::MapWorker"):
                    yield int(entry.name)


def wait_for(folder: Path, files: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while len(answers(folder)) < files:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run by one worker that nothing disturbs, and what it said."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, ended(start(folder, "cluster.workers=1"))


@pytest.mark.timeout(600)
def test_every_row_is_answered_in_its_place(whole: tuple[Path, str]) -> None:
    folder, said = whole
    assert "60 rows of docstrings; answers go to answers" in said
    rows = [json.loads(line) for content in answers(folder).values() for line in content.splitlines()]
    assert [row["row"] for row in rows] == list(range(60))
    assert {row["error"] for row in rows} == {None}
    assert len({row["response"] for row in rows}) == 60


@pytest.mark.long
@pytest.mark.timeout(900)
def test_answers_are_the_same_whatever_is_killed_and_however_many_workers_there_are(
    whole: tuple[Path, str], tmp_path: Path
) -> None:
    first = start(tmp_path, "cluster.workers=2")
    wait_for(tmp_path, 1)
    os.kill(next(workers_in(tmp_path)), signal.SIGKILL)
    wait_for(tmp_path, 4)
    first.kill()
    first.communicate()
    kept = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "answers").glob("*.jsonl")}
    assert 4 <= len(kept) < 10
    said = ended(start(tmp_path, "cluster.workers=2"))
    assert answers(tmp_path) == answers(whole[0])
    assert {name: (tmp_path / "answers" / name).stat().st_mtime_ns for name in kept} == kept
    assert f"60 rows of docstrings, of which {6 * len(kept)} are answered already" in said
    assert json.loads((tmp_path / "answers" / "summary.json").read_text(encoding="utf-8"))["rows"] == 60
