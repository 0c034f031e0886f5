"""What `--json` writes: one envelope a command, and one line an event while a run is watched."""

from __future__ import annotations

import json
import time
from typing import Any

from airlane.errors import AirError, SpecError

_VERSION = 1


def stamp(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def data_line(data: dict[str, Any], now: float) -> str:
    return _line({"v": _VERSION, "ts": stamp(now), "data": data})


def event_line(kind: str, now: float, **facts: Any) -> str:
    return _line({"type": kind, "ts": stamp(now), **facts})


def error_line(error: AirError, now: float) -> str:
    facts: dict[str, Any] = {
        "code": error.code,
        "kind": error.kind,
        "message": error.message,
        "retryable": error.retryable,
    }
    if error.hint:
        facts["hint"] = error.hint
    if isinstance(error, SpecError):
        facts["problems"] = [
            {
                "message": problem.message,
                "field": problem.field,
                "file": problem.file,
                "line": problem.line,
                "column": problem.column,
                "hint": problem.hint,
            }
            for problem in error.problems
        ]
    return _line({"v": _VERSION, "ts": stamp(now), "error": facts})


def _line(content: dict[str, Any]) -> str:
    # A lone surrogate (a path that is not UTF-8) stays an escape: the line is valid JSON in any encoding.
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"))
