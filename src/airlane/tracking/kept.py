"""What a run recorded on its own because its node did not reach the home's server: where it is, and that it waits.

`<run>/tracking/<n>` is to one server of the run's own (a run that is moved may have several) what the home is to its
server. The name of a run that waits to be uploaded is in `<home>/mlflow/kept`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from airlane.errors import StoreError
from airlane.store import codec
from airlane.store.disk import make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.uploaded import KeptNote, note_kept
from airlane.tracking import server

_CLOSED = "closed"


def open_store(home: Home, run: RunPaths) -> Home:
    """A new place for what this process records, known to whoever looks for something to upload.

    Raises:
        OSError: it cannot be written.
    """
    note_kept(home, run)
    make_private_folder(run.tracking)
    number = 0
    while True:
        try:
            (run.tracking / str(number)).mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return Home(run.tracking / str(number))


def close_store(store: Home) -> None:
    """Say that nothing more will be recorded there."""
    # Without the mark, whoever uploads waits a little longer.
    with contextlib.suppress(OSError):
        (store.root / _CLOSED).touch(mode=0o600)


def stores(run: RunPaths) -> tuple[Home, ...]:
    """What the run recorded on its own, in order."""
    try:
        folders = [entry for entry in run.tracking.iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return ()
    return tuple(Home(folder) for folder in sorted(folders, key=lambda folder: int(folder.name)))


def is_closed(store: Home, *, long_ago: bool) -> bool:
    """Whether nothing more will be recorded; a supervisor that was killed left no mark, which only time can tell."""
    return (store.root / _CLOSED).exists() or (long_ago and not server.alive(store))


def notes(home: Home) -> Iterator[tuple[Path, RunPaths]]:
    """The runs that wait, each with its note."""
    try:
        paths = sorted(path for path in home.kept.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return
    for path in paths:
        try:
            note = codec.read(KeptNote, path)
        except StoreError:
            continue
        if note is not None:
            yield path, RunPaths(home.root / note.folder)
