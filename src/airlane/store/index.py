"""A cache of the runs that have ended, so that a list of ten thousand reads only the few that still change.

The run folders are the truth: the index is rebuilt when it is missing or damaged, and a write that finds it locked is
left out.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from airlane.errors import StoreError
from airlane.store import codec
from airlane.store.paths import RunPaths
from airlane.store.records import RunRecord, Status, Verdict
from airlane.store.runs import RunView

_LONGEST_WAIT_S = 2.0
_MOST_PARAMETERS = 500
_TABLE = (
    "CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, user TEXT, experiment_name TEXT, accelerator_type TEXT,"
    " accelerators INTEGER, ended_at REAL, record BLOB, status BLOB, verdict BLOB)"
)


class IndexRow(NamedTuple):
    """What a list filters by: of every run there is, so it is the cheapest of values."""

    user: str
    experiment_name: str
    accelerator_type: str
    accelerators: int
    ended_at: float | None


def index_row(view: RunView) -> IndexRow:
    record = view.record
    return IndexRow(record.user, record.experiment_name, record.accelerator_type, record.accelerators, view.ended_at)


class RunIndex:
    """Ended runs by id."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self) -> dict[str, IndexRow]:
        """Every row that can be read."""
        columns = "id, user, experiment_name, accelerator_type, accelerators, ended_at"
        return {row[0]: IndexRow._make(row[1:]) for row in self._read(f"SELECT {columns} FROM runs")}  # noqa: S608

    def views(self, runs: Sequence[RunPaths]) -> dict[str, RunView]:
        """These runs as they ended; one that cannot be read is left out."""
        paths = {run.id: run for run in runs}
        found = {}
        for first in range(0, len(runs), _MOST_PARAMETERS):
            ids = [run.id for run in runs[first : first + _MOST_PARAMETERS]]
            marks = ", ".join("?" * len(ids))
            query = f"SELECT id, record, status, verdict FROM runs WHERE id IN ({marks})"  # noqa: S608
            for run_id, record, status, verdict in self._read(query, ids):
                try:
                    found[run_id] = _view(paths[run_id], record, status, verdict)
                except StoreError:
                    continue
        return found

    def save(self, views: Iterable[RunView]) -> None:
        """Add runs that have ended; nothing happens if the index cannot be written now."""
        rows = [_columns(view) for view in views]
        if not rows:
            return
        try:
            self._insert(rows)
        except (sqlite3.OperationalError, OSError):
            return  # locked, read-only, or no space: the next reader saves them
        except sqlite3.DatabaseError:
            self._discard()

    def forget(self, run_id: str) -> None:
        """Have the run read anew: its files changed after its end."""
        if not self._path.exists():
            return
        try:
            with self._open() as connection, connection:
                connection.execute(_TABLE)
                connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
        except (sqlite3.DatabaseError, OSError):
            self._discard()  # it would go on telling the old

    def _insert(self, rows: list[tuple[object, ...]]) -> None:
        # SQLite gives its other files the mode of this one.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with self._open() as connection, connection:
            connection.execute(_TABLE)
            connection.executemany(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * 9)})", rows)  # noqa: S608

    def _read(self, query: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        if not self._path.exists():
            return []
        try:
            with self._open() as connection:
                return connection.execute(query, parameters).fetchall()
        except sqlite3.OperationalError:
            return []  # locked, or without a table yet
        except sqlite3.DatabaseError:
            self._discard()
            return []

    def _discard(self) -> None:
        """Damaged: it is started anew."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=_LONGEST_WAIT_S)
        try:
            yield connection
        finally:
            connection.close()


def _columns(view: RunView) -> tuple[object, ...]:
    row = index_row(view)
    facts = (row.user, row.experiment_name, row.accelerator_type, row.accelerators, row.ended_at)
    files = (view.record, view.status, view.verdict)
    return (view.record.id, *facts, *(codec.encode(file) if file is not None else None for file in files))


def _view(paths: RunPaths, record: bytes, status: bytes | None, verdict: bytes | None) -> RunView:
    return RunView(
        paths,
        codec.decode(RunRecord, record, source="index.db"),
        codec.decode(Status, status, source="index.db") if status is not None else None,
        codec.decode(Verdict, verdict, source="index.db") if verdict is not None else None,
    )
