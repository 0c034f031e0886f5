"""Where packages come from: uv's own settings, then pip's, then the index options among the dependencies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from airlane.environment import pip_settings
from airlane.environment.dependencies import Dependency, Kind, expand, variables
from airlane.frozen import frozen


@frozen
class Sources:
    """What uv is given: variables (credentials stay out of argv), flags, constraint files, and what logs must hide."""

    environ: dict[str, str]
    flags: tuple[str, ...]
    constraint_files: tuple[str, ...]
    secrets: tuple[str, ...]


def sources(requirements: Sequence[Dependency], environ: Mapping[str, str]) -> Sources:
    """The sources for one build.

    Raises EnvironmentBuildError when an option uses a variable that is not set.
    """
    pip = pip_settings.read(environ, prefix=Path(sys.prefix))
    found = {**environ, **pip_settings.uv_variables(pip, environ)}
    no_index = pip.no_index and not pip_settings.knows_indexes(environ)
    extra_indexes = []
    for option in requirements:
        if option.kind is not Kind.OPTION:
            continue
        value = expand(option, environ)
        match option.flag:
            case "--index-url":
                found.pop("UV_INDEX_URL", None)
                found["UV_DEFAULT_INDEX"] = value
            case "--extra-index-url":
                extra_indexes.append(value)
            case "--find-links":
                found["UV_FIND_LINKS"] = _joined(",", found.get("UV_FIND_LINKS"), value)
            case "--trusted-host":
                found["UV_INSECURE_HOST"] = _joined(" ", found.get("UV_INSECURE_HOST"), value)
            case "--pre":
                found["UV_PRERELEASE"] = "allow"
            case _:
                no_index = True
    if extra_indexes:
        found["UV_INDEX"] = _joined(" ", *extra_indexes, found.get("UV_INDEX"))
        # As pip, for whom these options were made: the best version of all indexes, not the first index that knows it.
        found.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    names = {name for item in requirements for name in variables(item.text)}
    return Sources(
        environ=found,
        flags=("--no-index",) if no_index else (),
        # Given as flags, which silence the variable; and uv runs in another folder than its user.
        constraint_files=tuple(str(Path(file).absolute()) for file in environ["UV_CONSTRAINT"].split())
        if "UV_CONSTRAINT" in environ
        else pip.constraints,
        secrets=tuple(environ[name] for name in sorted(names) if environ.get(name)),
    )


def _joined(separator: str, *values: str | None) -> str:
    return separator.join(value for value in values if value)
