"""What a supervisor on a Ray cluster tells of its run folder, and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.backends.ray.driving import Sender, is_kept, is_told
from airlane.backends.ray.outbox import Outbox
from airlane.backends.ray.wire import Kind, decode_frame, decode_lines
from airlane.store.paths import RunPaths


def told(folder: Path) -> Iterator[tuple[Kind, str]]:
    """What the outbox holds, in order: the kind of each line, and the file that a frame is of."""
    for part in sorted(folder.iterdir()):
        for line in decode_lines(part.read_bytes()):
            yield line.kind, decode_frame(line.content).path if line.kind is Kind.FRAME else ""


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "7k2m9q4d")
    made.nodes(0).mkdir(parents=True)
    return made


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("status.json", True),
        ("events.jsonl", True),
        ("attempts/0/nodes/1.log", True),
        ("attempts/0/nodes/1.json", True),
        ("attempts/0/nodes/1.metrics.jsonl", True),
        ("attempts/0/ray/cluster.json", True),
        ("attempts/0/ray/token", False),
        ("attempts/0/sent/1/command.sh", False),
        ("attempts/0/sent/1/attempts/0/ray/token", False),
        ("attempts/0/code/1/train.py", False),
        ("secrets.json", False),
        ("run.json", False),
        ("command.sh", False),
        ("checkpoints/model.pt", False),
        ("supervisor.lock", False),
        ("tracking/0/mlflow/mlflow.db", False),
    ],
)
def test_the_owner_is_told_what_the_run_did_and_no_secret(name: str, *, expected: bool) -> None:
    assert is_told(name) is expected


def test_what_mlflow_kept_travels_when_it_is_closed_and_the_end_is_the_last_word(
    paths: RunPaths, tmp_path: Path
) -> None:
    paths.log(attempt=0, node=0).write_bytes(b"hello\n")
    kept = paths.tracking / "0" / "mlflow.db"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"rows")
    sender = Sender(paths, Outbox(tmp_path / "logs", "air-7k2m9q4d"), every_s=0.001)
    sender.start()
    paths.status.write_text('{"state": "RUNNING", "attempts": []}')
    sender.close()
    found = list(told(tmp_path / "logs"))
    files = [path for kind, path in found if kind is Kind.FRAME]
    assert set(files) == {"attempts/0/nodes/0.log", "tracking/0/mlflow.db", "status.json"}
    assert [kind for kind, _ in found if kind is not Kind.MARK][-1] is Kind.END
    assert is_kept("tracking/0/mlflow.db")


class FullDisk(Outbox):
    """An outbox whose disk has no room at first."""

    refusals = 3

    def flush(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(28, "No space left on device")
        super().flush()


def test_a_disk_that_is_full_at_the_end_is_waited_for(paths: RunPaths, tmp_path: Path) -> None:
    paths.log(attempt=0, node=0).write_bytes(b"hello\n")
    sender = Sender(paths, FullDisk(tmp_path / "logs", "air-7k2m9q4d"), every_s=0.001)
    sender.start()
    sender.close()
    kinds = [kind for kind, _ in told(tmp_path / "logs")]
    assert kinds.count(Kind.FRAME) == 1
    assert kinds.count(Kind.END) == 1
