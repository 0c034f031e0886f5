"""Going where a cluster's head is: its dashboard listens there on the loopback address alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airlane import launch
from airlane.launch.ray_reach import LOG_FILE, fetch
from airlane.launch.ray_rest import RestError

__all__ = ["LOG_FILE", "exec_argv", "fetch_through", "relay_argv"]

_FETCH_S = 30.0


def fetch_through(prefix: Sequence[str], folder: Path, paths: Sequence[str]) -> dict[str, Any]:
    """What the dashboard answers, by path, asked from here or, with a prefix, by a command that goes to the head.

    Raises RestError.
    """
    if not prefix:
        return fetch(str(folder), paths)
    line = [*prefix, *_script("ray_reach.py"), "fetch", str(folder), *paths]
    try:
        done = subprocess.run(
            line, check=False, capture_output=True, text=True, timeout=_FETCH_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise RestError(f"no answer from the head's host within {_FETCH_S:.0f} s") from error
    except OSError as error:
        raise RestError(f"the head's host cannot be reached: {prefix[0]}: {error.strerror}") from error
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise RestError(f"the head's host cannot be reached: {done.stderr.strip() or done.stdout.strip()}") from error
    if "error" in answer:
        raise RestError(str(answer["error"]))
    return answer


def relay_argv(prefix: Sequence[str], folder: Path) -> tuple[str, ...]:
    """A command that joins its stdin and stdout to one connection with the dashboard."""
    return (*prefix, *_script("ray_reach.py"), "relay", str(folder))


def exec_argv(folder: Path, order_file: Path) -> tuple[str, ...]:
    """What stands, on the head, before a command that is to use the cluster."""
    return (*_script("ray_exec.py"), str(folder), str(order_file))


def _script(name: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(Path(launch.__file__).with_name(name)))
