"""The small recipe as a user starts it, what it printed and left, and the Ray cluster that it runs on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
OPEN = {"RAY_AUTH_MODE": "disabled"}  # no token to hand on
RECIPE = Path(__file__).with_name("small_recipe.py")


@contextmanager
def ray_cluster(script: str, log: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address that `script` prints first, and its process, which holds a Ray of the tests' own open."""
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, **OPEN},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        process.stdin.close()
        process.wait(60)


class Recipe:
    """The small recipe in a process of its own."""

    def __init__(self, folder: Path, address: str | None, *words: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "AIR_CHECKPOINT_DIR": str(folder)}
        environment |= {"RAY_ADDRESS": address, **OPEN} if address else {}
        command = [sys.executable, str(RECIPE), "cluster.workers=2", *words]
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=folder)

    def wait(self) -> int:
        return self.process.wait(300)

    @property
    def lines(self) -> list[str]:
        """What it printed."""
        return self.output.read_text().splitlines()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 240
        while text not in self.output.read_text():
            assert time.monotonic() < deadline, self.output.read_text()
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.05)

    @property
    def answer(self) -> str:
        return next(line for line in self.lines if line.startswith("at "))

    def losses(self) -> dict[int, float]:
        told = [json.loads(line) for line in (self.checkpoints / "history.jsonl").read_text().splitlines()]
        steps = [entry["facts"] for entry in told if entry["kind"] == "step"]
        assert [facts["step"] for facts in steps] == sorted({facts["step"] for facts in steps})
        return {facts["step"]: facts["loss"] for facts in steps}
