"""What looks like a secret in the words of others, masked before they are written: `TOKEN=***`.

Only its owner knows what is secret in a command line. Masked is what follows a name such things usually have, and what
has the form that well-known services give to theirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from airlane.top.values import Actor, Actors, Job, Node, NodeDetail, Panel, Process, Snapshot, TrainRun

T = TypeVar("T")

MASK = "***"
# HF_TOKEN and --api-key-file are such names; --tokenizer and tokens are none.
_CALLED = re.compile(
    r"(?i)(?:token|secret|passwd|password|passphrase|credentials?|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|authorization)(?![a-z])"
)
_NAME = re.compile(r"[\w.-]++")
_SAID = r"(?:\"[^\"]*\"|'[^']*'|(?:(?i:bearer|basic)\s+)?[^\s\"',;&)}\]]+)"
_ASSIGNED = re.compile(rf"([\"']?\s?[=:]\s?){_SAID}")
_AFTER_OPTION = re.compile(rf"(\s+)(?!-){_SAID}")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}")
_IN_ADDRESS = re.compile(r"(://)[^\s/@]{1,300}@")
_FORMS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{16,}|gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}|dapi[0-9a-f]{32}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)


def masked(words: str) -> str:
    """The words, with `***` for what looks like a secret."""
    out: list[str] = []
    done = 0
    for name in _NAME.finditer(words):
        if name.start() < done or not _CALLED.search(name[0]):
            continue
        follows = _ASSIGNED.match(words, name.end())
        if follows is None and name[0].startswith("-"):
            follows = _AFTER_OPTION.match(words, name.end())
        if follows is not None:
            out += (words[done : follows.end(1)], MASK)
            done = follows.end()
    rest = _BEARER.sub(rf"\g<1>{MASK}", "".join((*out, words[done:])))
    return _FORMS.sub(MASK, _IN_ADDRESS.sub(rf"\g<1>{MASK}@", rest))


def without_secrets(content: T) -> T:
    """A value of this monitor's, and all that is in it, with its words masked."""
    return cast("T", _masked(content))


def _masked(content: Any) -> Any:
    match content:
        case Snapshot():
            return _snapshot(content)
        case Panel():
            return replace(content, data=_masked(content.data), trouble=_words(content.trouble))
        case NodeDetail():
            return replace(content, processes=_all(content.processes), actors=_all(content.actors))
        case Actors():
            return replace(content, living=_all(content.living))
        case tuple():
            return _all(content)
        case _:
            return _row(content)


def _row(content: Any) -> Any:
    match content:
        case Job():
            return _job(content)
        case Process():
            return replace(content, what=masked(content.what))
        case Actor() | Node():
            return replace(content, why=_words(content.why)) if content.why else content
        case TrainRun():
            return replace(content, name=masked(content.name), detail=_words(content.detail))
        case _:
            return content


def _all(some: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_masked, some))


def _snapshot(snapshot: Snapshot) -> Snapshot:
    return replace(
        snapshot,
        trouble=_words(snapshot.trouble),
        nodes=_masked(snapshot.nodes),
        load=_masked(snapshot.load),
        jobs=_masked(snapshot.jobs),
        actors=_masked(snapshot.actors),
        groups=_masked(snapshot.groups),
        train=_masked(snapshot.train),
        runs=_masked(snapshot.runs),
    )


def _job(job: Job) -> Job:
    return replace(
        job, entrypoint=masked(job.entrypoint), message=_words(job.message), metadata=_metadata(job.metadata)
    )


def _metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if _CALLED.search(name) else masked(said) for name, said in metadata.items()}


def _words(words: str | None) -> str | None:
    return masked(words) if words else words
