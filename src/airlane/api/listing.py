"""The latest runs: ended ones from the index, the others from their folders."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from airlane.errors import ArgumentError, NotFoundError, StoreError
from airlane.frozen import frozen
from airlane.spec.suggest import did_you_mean
from airlane.store.index import IndexRow, RunIndex, index_row
from airlane.store.paths import RunPaths
from airlane.store.runs import RunStore, RunView

FILTER_KEYS = ("accelerator_type", "experiment", "num_accelerators", "user")
RECENT_S = 24 * 3600.0


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
    settle: Callable[[RunView], RunView],
    selection: Selection,
    *,
    on_damage: Callable[[StoreError], None] | None = None,
) -> tuple[RunView, ...]:
    """The newest runs that the selection takes; what has ended since the last list goes into the index."""

    def read_run(paths: RunPaths) -> RunView | None:
        """The run, settled; None for a folder whose submission was cut off, or whose files are damaged."""
        try:
            return settle(store.view(paths))
        except NotFoundError:
            return None
        except StoreError as error:
            if on_damage is not None:
                on_damage(error)
            return None

    rows = index.rows()
    chosen: list[RunPaths] = []
    read: dict[str, RunView] = {}
    for paths in store.ids():
        row = rows.get(paths.id)
        if row is None:
            view = read_run(paths)
            if view is None:
                continue
            read[paths.id], row = view, index_row(view)
        if selection.takes(row):
            chosen.append(paths)
            if len(chosen) == selection.limit:
                break
    index.save(view for view in read.values() if view.state.terminal)
    read |= index.views([paths for paths in chosen if paths.id not in read])
    views = (read.get(paths.id) or read_run(paths) for paths in chosen)
    return tuple(view for view in views if view is not None)


def recent(now: float | None = None) -> float:
    """The time before which an ended run is old."""
    return (time.time() if now is None else now) - RECENT_S
