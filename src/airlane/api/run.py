"""One run, as a Python program holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from airlane.api.following import Update, Watcher, follow_log, watch_run
from airlane.errors import NotFoundError, StoreError
from airlane.store.runs import RunStore, RunView

DEFAULT_TAIL = 10_000


class Run:
    """A run by its folder. `created` is False where an idempotency token named a run that was there already."""

    def __init__(
        self, view: RunView, store: RunStore, settle: Callable[[RunView], RunView], *, created: bool = False
    ) -> None:
        self._view = view
        self._store = store
        self._settle = settle
        self.created = created

    @property
    def id(self) -> str:
        return self._view.record.id

    def view(self) -> RunView:
        """The truth about the run now; a supervisor found dead is cleaned up after, and the run's end written."""
        return self._settle(self._store.view(self._view.paths))

    def watch(self) -> Iterator[Update]:
        """What happens to the run, and node 0's log, until it has ended."""
        return watch_run(self.watcher())

    def logs(self, node: int = 0, tail: int = DEFAULT_TAIL, attempt: int | None = None) -> Iterator[bytes]:
        """The last lines of a node's log in chunks of bytes, and of a run that goes on, all that follows.

        Raises:
            NotFoundError: there is no such node or attempt.
        """
        self._check_range(node, attempt)
        return follow_log(self.watcher(), node=node, tail=tail, attempt=attempt)

    def download_logs(self, folder: Path, node: int | None = None, attempt: int | None = None) -> list[Path]:
        """Copy the logs of all nodes, or of one, of the latest attempt; returns the copies.

        Raises:
            NotFoundError: there is no such node or attempt.
        """
        view = self.view()
        self._check_range(node or 0, attempt)
        number = attempt if attempt is not None else max(len(view.attempts) - 1, 0)
        copies = []
        for each in range(view.record.nodes) if node is None else (node,):
            log = view.paths.log(attempt=number, node=each)
            if log.exists():
                copies.append(folder / f"node_{each}.log")
                _copy(log, copies[-1])
        return copies

    def watcher(self) -> Watcher:
        """What looks at the run again and again without asking more often than is needed."""
        return Watcher(self.view(), self._store, self._settle)

    def _check_range(self, node: int, attempt: int | None) -> None:
        view = self.view()
        nodes, attempts = view.record.nodes, len(view.attempts)
        if not 0 <= node < nodes:
            raise NotFoundError(f"run {self.id} has no node {node}", hint=_range("--node", nodes, "node"))
        if attempt is not None and not 0 <= attempt < attempts:
            hint = _range("--retry", attempts, "attempt") if attempts else f"it has not started yet: air get {self.id}"
            raise NotFoundError(f"run {self.id} has no attempt {attempt}", hint=hint)


def _range(flag: str, count: int, noun: str) -> str:
    return f"it has one {noun}: {flag} 0" if count == 1 else f"it has {count} {noun}s: {flag} 0 to {count - 1}"


def _copy(log: Path, copy: Path) -> None:
    import shutil

    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, copy)
    except OSError as error:
        raise StoreError(
            f"could not write {copy}: {(error.strerror or str(error)).lower()}", hint="name another folder"
        ) from error
