"""A pool of slots in a folder that is hard to quote, and a second process that uses it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from airlane.backends.slots import Pool

# The second process: it evaluates one line after the other and answers each.
_LOOP = """
import os, sys
from pathlib import Path
from airlane.backends.slots import Pool, Stage
from airlane.backends.lock_files import is_held
names = {"Pool": Pool, "Stage": Stage, "Path": Path, "os": os, "is_held": is_held}
for line in sys.stdin:
    try:
        target, _, expression = line.rpartition(" <- ")
        value = eval(expression, names)
        if target:
            names[target] = value
        print(repr(value) if not target else "None", flush=True)
    except Exception as error:
        print(f"raised {type(error).__name__}: {error}", flush=True)
"""


class OtherProcess:
    """A process that does what it is told, one expression at a time; `name <- expression` keeps the value there."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, expression: str) -> None:
        """Tell it, without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(expression + "\n")

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def ask(self, expression: str) -> str:
        self.send(expression)
        return self.answer()

    def kill(self) -> None:
        """SIGKILL; when this returns, the kernel has freed its locks."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a 'pool' with \"quotes\", ünïcode\nand a newline" / "cpu"


@pytest.fixture
def pool(folder: Path) -> Pool:
    return Pool(folder, ("0", "1"))


@pytest.fixture
def other(folder: Path) -> Iterator[OtherProcess]:
    """A process in which `pool` is the same pool."""
    with OtherProcess() as process:
        assert process.ask(f"pool <- Pool(Path({str(folder)!r}), ('0', '1'))") == "None"
        yield process
