"""What another process holds open, looked at while it runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def open_files_of(pid: int) -> dict[int, Path]:
    """The files behind a process's descriptors (Linux); what it closes during the look is left out."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(entry.name)] = entry.readlink()
    return found
