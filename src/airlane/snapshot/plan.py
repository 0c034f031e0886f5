"""Decide exactly what a snapshot holds, and its name, without writing anything but a cache of digests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from airlane.errors import SnapshotError
from airlane.snapshot.commit_tree import Subtree, read_commit_files
from airlane.snapshot.git import GitMissingError
from airlane.snapshot.hashing import tree_digest
from airlane.snapshot.ignored import ignore_rules
from airlane.snapshot.include import normalised, within
from airlane.snapshot.left_out import without_left_out
from airlane.snapshot.model import CodeRequest, Entry, Kind, SnapshotPlan, Source
from airlane.snapshot.pins import Pin, resolve
from airlane.snapshot.repository import Repository, open_repository, remote_url, working_diff
from airlane.snapshot.stat_cache import cache_for
from airlane.snapshot.wording import counted, listed, shown, size_text
from airlane.snapshot.working_tree import FolderSource, WorkingFiles, read_working_files
from airlane.store.records import GitState

_LARGE_SNAPSHOT_BYTES = 100_000_000
_LARGEST_SHOWN = 10


def plan(request: CodeRequest, *, cache_dir: Path | None = None) -> SnapshotPlan:
    """Which files would be frozen, their digest, and the state of their repository.

    Nothing is written but digests under `cache_dir`, which make the next plan fast; and a remote branch is fetched
    if its commit is not here (no reference moves).

    Raises:
        SnapshotError: the folder, a path, commit or branch does not exist; or something cannot be packaged.
    """
    root = _resolved(request.root)
    include = normalised(request.include_paths)
    if request.pinned:
        return _plan_commit(root, request, include)
    return _plan_folder(root, include, _below(root, request.leave_out), cache_dir)


def _resolved(root: Path) -> Path:
    try:
        resolved = root.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise SnapshotError(f"root_path {root} does not exist") from error
    if not resolved.is_dir():
        raise SnapshotError(f"root_path {root} is not a folder")
    if not resolved.name:
        raise SnapshotError(f"root_path {root} is the whole file system", hint="name the folder that holds your code")
    return resolved


def _below(root: Path, paths: Sequence[Path]) -> tuple[bytes, ...]:
    """Those of the paths that lie in the root, relative to it."""
    resolved = [path.resolve() for path in paths]
    return tuple(os.fsencode(path.relative_to(root)) for path in resolved if root in path.parents)


def _plan_folder(
    root: Path, include: tuple[bytes, ...], leave_out: tuple[bytes, ...], cache_dir: Path | None
) -> SnapshotPlan:
    cache = cache_for(cache_dir, os.fsencode(root), include) if cache_dir else None
    try:
        repository = open_repository(root)
        rules = ignore_rules(root, repository)
    except GitMissingError:
        repository, rules = None, None
    files = read_working_files(root, include, rules, cache, leave_out)
    state, diff = None, None
    if repository:
        changed = [path for path in _changed(repository, include, files.withheld) if not within(path, leave_out)]
        tree = repository.tree
        state = GitState(tree.commit, tree.branch, remote_url(repository), bool(changed), len(changed))
        diff = working_diff(repository, include, files.withheld)
    warnings = _unapplied(files, rules is None) + _withheld(files.withheld)
    return _finish(root, FolderSource(os.fsencode(root)), files.entries, (state, diff), warnings)


def _plan_commit(root: Path, request: CodeRequest, include: tuple[bytes, ...]) -> SnapshotPlan:
    repository = open_repository(root)
    if repository is None:
        raise SnapshotError(f"{root} is not in a git repository, so code_source.git cannot pin its code")
    leave_out = _below(root, request.leave_out)
    changed = [path for path in _changed(repository, include, ()) if not within(path, leave_out)]
    tracked = {*repository.tree.changed}
    pin = resolve(repository, request, [path for path in changed if path in tracked])
    subtree = Subtree(repository.top, pin.commit, repository.prefix)
    files = read_commit_files(subtree, include)
    state = GitState(pin.commit, pin.branch, remote_url(repository), bool(changed), len(changed))
    warnings = _not_packaged(pin, changed) + _empty(files.absent_submodules) + _withheld(files.withheld)
    return _finish(root, subtree, files.entries, (state, None), warnings)


def _changed(repository: Repository, include: Sequence[bytes], withheld: Sequence[bytes]) -> list[bytes]:
    """What differs from the commit among the files that a snapshot is made of."""
    apart = {*withheld}
    paths = [*repository.tree.changed, *without_left_out(repository.tree.untracked)]
    return [path for path in paths if path not in apart and (not include or within(path, include))]


def _finish(
    root: Path, source: Source, entries: tuple[Entry, ...], git: tuple[GitState | None, str | None], warnings: list[str]
) -> SnapshotPlan:
    size_bytes = sum(entry.size_bytes for entry in entries)
    files = sum(entry.kind is not Kind.FOLDER for entry in entries)
    largest: tuple[tuple[str, int], ...] = ()
    if size_bytes > _LARGE_SNAPSHOT_BYTES:
        by_size = sorted(entries, key=lambda entry: entry.size_bytes, reverse=True)[:_LARGEST_SHOWN]
        largest = tuple((shown(entry.path), entry.size_bytes) for entry in by_size if entry.size_bytes)
        lines = "".join(f"\n  {size_text(size):>10}  {path}" for path, size in largest)
        warnings = [*warnings, f"the code is {size_text(size_bytes)}; the largest files are:{lines}"]
    if not files:
        warnings = [*warnings, f"there are no files to package in {root}"]
    return SnapshotPlan(
        root=root,
        root_name=root.name,
        files=files,
        size_bytes=size_bytes,
        digest=tree_digest(os.fsencode(root.name), entries),
        git=git[0],
        diff=git[1],
        warnings=tuple(warnings),
        largest=largest,
        entries=entries,
        source=source,
    )


def _unapplied(files: WorkingFiles, without_git: bool) -> list[str]:
    if not (without_git and files.saw_ignore_files):
        return []
    return ["git is not installed, so .gitignore files were not applied: everything they name is in the snapshot"]


def _withheld(paths: Sequence[bytes]) -> list[str]:
    if not paths:
        return []
    return [f"left out, because they may hold secrets: {listed(paths)} (code_source.include_paths brings them along)"]


def _not_packaged(pin: Pin, changed: Sequence[bytes]) -> list[str]:
    if not changed:
        return []
    verb = "is" if len(changed) == 1 else "are"
    return [f"{counted(len(changed), 'changed file')} {verb} not in the snapshot, which holds commit {pin.commit[:12]}"]


def _empty(submodules: Sequence[bytes]) -> list[str]:
    if not submodules:
        return []
    return [
        f"these submodules are empty in the snapshot: {listed(submodules)} (git submodule update --init fetches them)"
    ]
