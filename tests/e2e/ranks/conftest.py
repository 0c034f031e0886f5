"""air-ranks as a user types it, on a cluster whose nodes have Ray and torch, and no Airlane."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import airlane.ranks
from airlane.cluster.rest import Dashboard
from ray_lab import RayLab

BIN = Path(airlane.ranks.__file__).parent / "bin"
_NOT_INHERITED = ("AIR_", "CUDA_", "MLFLOW_", "RAY_", "SLURM_", "OMP_")


@dataclass(frozen=True)
class Ranks:
    """A folder with a user's scripts, and a cluster to start them on."""

    folder: Path
    python: Path
    lab: RayLab

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        path = os.pathsep.join([str(BIN), str(self.python.parent), os.environ["PATH"]])
        return {**kept, **self.lab.env, "PATH": path, "LC_ALL": "C.UTF-8"}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """air-ranks with these words, its streams in pipes."""
        return subprocess.Popen(
            ["air-ranks", *words],
            cwd=self.folder,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, env: Mapping[str, str] | None = None, timeout_s: float = 180) -> Launched:
        began_s = time.monotonic()
        with self.start(*words, env=env) as process:
            try:
                out, errors = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Launched(process.returncode, out, errors, time.monotonic() - began_s)

    def rank_pids(self) -> list[int]:
        """Every process of a rank on the cluster, and every keeper."""
        return [pid for pid in self.lab.pids() if _is_of_rank(pid)]

    def groups_left(self) -> list[str]:
        """The states of the placement groups that are still there."""
        answer = Dashboard(self.lab.url, self.lab.token or None).get_json("/api/v0/placement_groups?limit=1000")
        rows = answer["data"]["result"]["result"]
        return [row["state"] for row in rows if row["state"] != "REMOVED"]

    def assert_nothing_left(self, *, within_s: float = 10) -> None:
        wait_until(lambda: not self.rank_pids(), within_s=within_s, what=f"ranks are gone: {self.rank_pids()}")
        wait_until(lambda: not self.groups_left(), within_s=within_s, what="placement groups are gone")


@dataclass(frozen=True)
class Launched:
    """What air-ranks did."""

    code: int
    out: str
    errors: str
    took_s: float

    def said(self, pattern: str) -> list[str]:
        """What the ranks' lines on stdout say where they fit a pattern, in the order of ranks."""
        found = re.findall(rf"^\[rank (\d+)\] ({pattern})$", self.out, re.MULTILINE)
        return [text for _, text in sorted((int(rank), text) for rank, text in found)]


def wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and _state(pid) not in ("Z", "")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def _is_of_rank(pid: int) -> bool:
    try:
        process = Path(f"/proc/{pid}")
        is_rank = b"AIR_RANK_MARK=" in (process / "environ").read_bytes()
        return is_rank or b"/ranks/keeper.py" in (process / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def ranks(tmp_path: Path, ray_python: Path, ray_lab: RayLab) -> Ranks:
    folder = tmp_path / "wörk folder"
    folder.mkdir()
    return Ranks(folder, ray_python, ray_lab)
