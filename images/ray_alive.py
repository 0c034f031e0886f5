# ruff: noqa: INP001 - a program of the images, copied into them
"""The health check of the images: whether each Ray node in this container has a control store that answers.

Standard library only, and no import of Ray, which takes a second each time. A container in which no Ray was started is
healthy: it runs something else.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

TIMEOUT_S = 2.0


def main(proc: Path = Path("/proc")) -> int:
    silent = [address for address in sorted(set(control_stores(proc))) if not answers(address)]
    for address in silent:
        print(f"no answer from the control store of Ray at {address}", file=sys.stderr)  # noqa: T201 - docker inspect shows it
    return 1 if silent else 0


def control_stores(proc: Path) -> Iterator[str]:
    """HOST:PORT of the control store of each raylet that runs here."""
    for file in proc.glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if Path(words[0]).name == "raylet":
            yield from (word.partition("=")[2] for word in words if word.startswith("--gcs-address="))


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S):
            return True
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(main())
