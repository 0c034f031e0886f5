"""The latest runs: ended ones from the index, the others from their folders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from airlane.errors import ArgumentError, NotFoundError, StoreError
from airlane.frozen import frozen
from airlane.spec.suggest import did_you_mean
from airlane.store.index import IndexRow, RunIndex, index_row
from airlane.store.paths import RunPaths
from airlane.store.runs import RunStore, RunView

FILTER_KEYS = ("accelerator_type", "experiment", "num_accelerators", "user")
RECENT_S = 24 * 3600.0

# So many runs are read before the scheduler is asked about them.
_CHUNK = 64


@frozen
class Selection:
    """Which runs to list: `user` None is everybody's; `since` leaves out runs that ended before (epoch seconds)."""

    limit: int
    user: str | None
    since: float | None
    matches: Callable[[IndexRow], bool]

    def takes(self, row: IndexRow) -> bool:
        recent = self.since is None or row.ended_at is None or row.ended_at >= self.since
        return recent and (self.user is None or row.user == self.user) and self.matches(row)


def read_filters(filters: Mapping[str, str]) -> Callable[[IndexRow], bool]:
    """A test of all the filters.

    Raises:
        ArgumentError: a key is unknown or a number is none.
    """
    for key in filters:
        if key not in FILTER_KEYS:
            hint = did_you_mean(key, FILTER_KEYS) or f"keys: {', '.join(FILTER_KEYS)}"
            raise NotFoundError(f"--filter {key}=...: there is no such key", hint=hint)
    count = filters.get("num_accelerators")
    if count is not None and not count.isdigit():
        raise ArgumentError(f"--filter num_accelerators={count}: expected a whole number")

    def matches(row: IndexRow) -> bool:
        return (
            filters.get("accelerator_type", "").lower() in row.accelerator_type.lower()
            and fnmatchcase(row.experiment_name.lower(), filters.get("experiment", "*").lower())
            and (count is None or row.accelerators == int(count))
            and filters.get("user", row.user) == row.user
        )

    return matches


def list_runs(
    store: RunStore,
    index: RunIndex,
    settle: Callable[[Sequence[RunView]], Sequence[RunView]],
    selection: Selection,
    *,
    on_damage: Callable[[StoreError], None] | None = None,
) -> tuple[RunView, ...]:
    """The newest runs that the selection takes; what has ended since the last list goes into the index.

    `settle` gets many views at a time: a scheduler is asked once about all of them.
    """
    rows = index.rows()
    chosen: list[RunPaths] = []
    read: dict[str, RunView] = {}
    for some in _chunks(store.ids()):
        views = _read([paths for paths in some if paths.id not in rows], store, on_damage)
        read |= {view.paths.id: view for view in settle(views)}
        for paths in some:
            row = rows.get(paths.id) or (index_row(read[paths.id]) if paths.id in read else None)
            if row is not None and selection.takes(row) and len(chosen) < selection.limit:
                chosen.append(paths)
        if len(chosen) == selection.limit:
            break
    index.save(view for view in read.values() if view.state.terminal)
    read |= index.views([paths for paths in chosen if paths.id not in read])
    missing = _read([paths for paths in chosen if paths.id not in read], store, on_damage)
    read |= {view.paths.id: view for view in settle(missing)}
    return tuple(read[paths.id] for paths in chosen if paths.id in read)


def _chunks(ids: Iterator[RunPaths]) -> Iterator[list[RunPaths]]:
    while some := list(islice(ids, _CHUNK)):
        yield some


def _read(some: Sequence[RunPaths], store: RunStore, on_damage: Callable[[StoreError], None] | None) -> list[RunView]:
    """The runs as their files tell them, without folders whose submission was cut off, or whose files are damaged."""
    views = []
    for paths in some:
        try:
            views.append(store.view(paths))
        except NotFoundError:
            continue
        except StoreError as error:
            if on_damage is not None:
                on_damage(error)
    return views


def recent(now: float | None = None) -> float:
    """The time before which an ended run is old."""
    return (time.time() if now is None else now) - RECENT_S
