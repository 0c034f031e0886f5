"""Room on the disk for a node's record, taken before the command can fill it."""

from __future__ import annotations

import os

RESERVED_BYTES = 4096


def next_of(record_file: str) -> str:
    """The file that becomes the record by a rename."""
    return f"{record_file}.next"


def reserve(record_file: str) -> None:
    """Raises OSError when there is no room."""
    descriptor = os.open(next_of(record_file), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, b" " * RESERVED_BYTES)
    finally:
        os.close(descriptor)
