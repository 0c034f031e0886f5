"""A commit or branch that a workload names, as a full SHA."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from airlane.errors import SnapshotError
from airlane.frozen import frozen
from airlane.snapshot.model import CodeRequest
from airlane.snapshot.repository import Repository
from airlane.snapshot.wording import counted, listed

_REMOTE_TIMEOUT_S = 120.0
_HEADS = "refs/heads/"
_HEX = re.compile(r"[0-9a-fA-F]{4,64}")


@frozen
class Pin:
    """A full SHA, and the branch that led to it."""

    commit: str
    branch: str | None


def resolve(repository: Repository, request: CodeRequest, changed: Sequence[bytes]) -> Pin:
    """What a pinned request means now; `changed` names tracked files that differ in the working tree.

    Raises:
        SnapshotError: there is no such commit, branch or remote; or a branch is asked for and the tree is not clean.
    """
    if request.commit is not None:
        commit = _commit(repository, request.commit)
        return Pin(commit, repository.tree.branch if commit == repository.tree.commit else None)
    branch = request.branch or ""
    if changed:  # untracked files are not in the way, as in `git checkout`; the plan warns that they stay behind
        raise SnapshotError(
            f"git.branch {branch!r} needs a clean working tree; "
            f"{counted(len(changed), 'file')} changed: {listed(changed, 5)}",
            hint="commit them or `git stash` them; git.commit takes a commit as it is, whatever has changed since",
        )
    if request.remote:
        return Pin(_remote_head(repository, branch, "origin" if request.remote is True else request.remote), branch)
    return Pin(_local_head(repository, branch), branch)


def _commit(repository: Repository, revision: str) -> str:
    if not revision or revision.startswith("-"):
        raise SnapshotError(f"git.commit {revision!r} is not a commit")
    answer = repository.git.ask("rev-parse", "--verify", f"{revision}^{{commit}}")
    if answer.ok:
        return answer.text
    if "is ambiguous" in answer.problem:
        raise SnapshotError(
            f"git.commit {revision!r} is ambiguous: several commits begin so", hint="give more of its SHA"
        )
    close = (
        [] if _HEX.fullmatch(revision) else _close(revision, _names(repository, _HEADS, "refs/tags/", "refs/remotes/"))
    )
    raise SnapshotError(
        f"git.commit {revision!r} is not in the repository at {repository.top.folder}",
        hint=_did_you_mean(close) or _fetch_hint(repository),
    )


def _local_head(repository: Repository, branch: str) -> str:
    answer = repository.git.ask("rev-parse", "--verify", "--quiet", f"{_HEADS}{branch}^{{commit}}")
    if branch and answer.ok:
        return answer.text
    remotes = [name.split("/", 1)[0] for name in _names(repository, "refs/remotes/") if name.endswith(f"/{branch}")]
    hint = _did_you_mean(_close(branch, _names(repository, _HEADS)))
    if remotes:
        hint = f"the remote {remotes[0]} has it: set git.remote to {remotes[0]}"
    raise SnapshotError(
        f"git.branch {branch!r} is not a branch of the repository at {repository.top.folder}",
        hint=hint or "git branch --all",
    )


def _remote_head(repository: Repository, branch: str, remote: str) -> str:
    """The remote's head of a branch now; its objects are fetched where they are not here, no reference is moved."""
    remotes = repository.git.read("remote").decode("utf-8", "replace").split()
    if remote not in remotes:
        has = f"it has {', '.join(remotes)}" if remotes else "it has none"
        raise SnapshotError(
            f"git.remote {remote!r} is not a remote of the repository at {repository.top.folder}; {has}"
        )
    for _ in range(2):  # the branch may move between the question and the fetch
        commit = _ask_remote(repository, branch, remote)
        if _has(repository, commit):
            return commit
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")
        answer = repository.git.ask("fetch", *quiet, remote, f"{_HEADS}{branch}", timeout_s=_REMOTE_TIMEOUT_S)
        if not answer.ok:
            raise SnapshotError(f"git could not fetch {branch!r} from {remote!r}: {answer.last_words}")
    if not _has(repository, commit):
        raise SnapshotError(f"branch {branch!r} of {remote!r} moved while it was fetched", hint="run it again")
    return commit


def _ask_remote(repository: Repository, branch: str, remote: str) -> str:
    answer = repository.git.ask("ls-remote", "--heads", remote, timeout_s=_REMOTE_TIMEOUT_S)
    if not answer.ok:
        raise SnapshotError(
            f"git could not ask the remote {remote!r}: {answer.last_words}",
            hint=f"git ls-remote {remote}",
        )
    heads: dict[str, str] = {}
    for line in os.fsdecode(answer.output).splitlines():
        commit, _, reference = line.partition("\t")
        heads[reference.removeprefix(_HEADS)] = commit
    if branch not in heads:
        raise SnapshotError(
            f"git.branch {branch!r} is not a branch of the remote {remote!r}",
            hint=_did_you_mean(_close(branch, heads)) or f"git ls-remote --heads {remote}",
        )
    return heads[branch]


def _has(repository: Repository, commit: str) -> bool:
    return repository.git.ask("cat-file", "-e", f"{commit}^{{commit}}").ok


def _names(repository: Repository, *places: str) -> list[str]:
    output = repository.git.read("for-each-ref", "--format=%(refname:lstrip=2)", *places)
    return os.fsdecode(output).splitlines()


def _close(name: str, names: Iterable[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, list(names), n=3)


def _did_you_mean(names: Sequence[str]) -> str | None:
    return f"did you mean {' or '.join(names)}?" if names else None


def _fetch_hint(repository: Repository) -> str:
    if repository.shallow:
        return "this clone is shallow and may lack it: git fetch --unshallow"
    return "if it is on a remote: git fetch --all"
