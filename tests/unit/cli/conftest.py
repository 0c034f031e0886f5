from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from airlane.cli.main import main

from .made_runs import NOW


@dataclass(frozen=True)
class Output:
    """What a command line wrote, and its exit code."""

    code: int
    out: str
    err: str

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def data(self) -> dict[str, Any]:
        """What the envelope in the last line holds."""
        found = self.lines()[-1]["data"]
        assert isinstance(found, dict)
        return found

    def error(self) -> dict[str, Any]:
        found = self.lines()[-1]["error"]
        assert isinstance(found, dict)
        return found


Air = Callable[..., Output]


@pytest.fixture
def air(capsys: pytest.CaptureFixture[str]) -> Air:
    """Run a command line in this process; neither stream is a terminal."""

    def run(*words: str) -> Output:
        code = main(list(words))
        out, err = capsys.readouterr()
        return Output(code, out, err)

    return run


@pytest.fixture(autouse=True)
def utc_at_a_fixed_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(time, "time", lambda: NOW)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
