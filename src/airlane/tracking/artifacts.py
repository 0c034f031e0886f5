"""Files of an attempt on their way to MLflow: cut into parts that its pages can show, and where they go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airlane.errors import TrackingRejectedError
from airlane.frozen import frozen
from airlane.tracking.address import Address

PART_BYTES = 8 * 1024 * 1024
MOST_PARTS = 64
_LINE_SEARCH_BYTES = 64 * 1024
_NOT_IN_NAMES = re.compile(r"[^\w\-. ]")  # MLflow refuses names that would read differently as a URI


@frozen
class Part:
    """A stretch of a file, or a note of our own, to be stored as `name` (a path within the run's artifacts)."""

    name: str
    path: Path
    start: int = 0
    length_bytes: int = 0
    note: bytes | None = None


def parts(path: Path, folder: str) -> Iterator[Part]:
    """A small file as it is; a large one in numbered parts that end at line ends, the middle left out beyond 512 MB.

    Nothing for a file that is missing or empty.
    """
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return
    if size == 0:
        return
    folder = folder.strip("/")
    prefix = f"{folder}/" if folder else ""
    stem, suffix = _NOT_IN_NAMES.sub("_", path.stem), _NOT_IN_NAMES.sub("_", path.suffix)
    if size <= PART_BYTES:
        yield Part(f"{prefix}{stem}{suffix}", path, 0, size)
        return
    gap_start, gap_end = _gap(path, size)
    if gap_end > gap_start:
        text = f"Bytes {gap_start} to {gap_end} of {size} are left out here. The whole file: {path}\n"
        yield Part(f"{prefix}{stem}.left-out.txt", path, note=text.encode("utf-8", "replace"))
    number = 0
    start = 0
    while start < size:
        if start == gap_start < gap_end:
            start = gap_end
        end = _line_end(path, start + PART_BYTES, size)
        if start < gap_start:
            end = min(end, gap_start)
        yield Part(f"{prefix}{stem}.{number:03d}{suffix}", path, start, end - start)
        start = end
        number += 1


def destination(artifact_uri: str, address: Address) -> str | Path:
    """Where a run's artifacts go: a path within the server's artifact proxy, or a folder of this machine.

    Raises:
        TrackingRejectedError: they are kept where only the user's own cloud credentials reach.
    """
    uri = urlsplit(artifact_uri)
    if uri.scheme == "mlflow-artifacts" and uri.hostname in (None, address.host):
        return unquote(uri.path).strip("/")
    marker = "/api/2.0/mlflow-artifacts/artifacts/"
    if uri.scheme in ("http", "https") and uri.hostname == address.host and marker in uri.path:
        return unquote(uri.path.partition(marker)[2]).strip("/")
    if uri.scheme in ("", "file") and address.loopback and uri.path.startswith("/"):
        return Path(unquote(uri.path) if uri.scheme else artifact_uri)
    raise TrackingRejectedError(
        f"the logs were not stored in MLflow: this experiment keeps its artifacts at {_root(artifact_uri)}, "
        "and only a server that serves artifacts itself is supported",
        hint="start the server with --serve-artifacts, or read the logs with: air logs",
    )


def _gap(path: Path, size: int) -> tuple[int, int]:
    """The stretch that is left out of a very large file; its end comes right after a newline."""
    if size <= PART_BYTES * MOST_PARTS:
        return size, size
    start = _line_end(path, PART_BYTES, size)
    return start, _line_end(path, size - PART_BYTES * (MOST_PARTS - 1), size)


def _line_end(path: Path, position: int, size: int) -> int:
    """The end of the line that lies at `position`, if it is near."""
    if position >= size:
        return size
    with path.open("rb") as file:
        file.seek(position)
        end = file.read(_LINE_SEARCH_BYTES).find(b"\n")
    return min(position + end + 1, size) if end >= 0 else position


def _root(artifact_uri: str) -> str:
    uri = urlsplit(artifact_uri)
    host = uri.hostname or ""
    return f"{uri.scheme}://{host}" if uri.scheme else "a folder of the server"
