"""The command line of a recipe: `python -m recipes.sft data.source=rows.jsonl training.steps=100`.

What the workload gives as `parameters:` comes first, in the file that $HYPERPARAMETERS_PATH names; the words win.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

from recipes.errors import RecipeError
from recipes.overrides import assignments, override, settings, written

S = TypeVar("S")
FILE = "HYPERPARAMETERS_PATH"
NAMES_OF_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "none"}

Contradictions = Callable[[S], Iterable[str]]


def nothing(_: object) -> Iterable[str]:
    """No contradictions."""
    return ()


def main(
    program: str,
    defaults: S,
    run: Callable[[S], int],
    words: Sequence[str],
    env: Mapping[str, str],
    *,
    contradictions: Contradictions[S] = nothing,
) -> int:
    """What a recipe's process does; its exit code, 2 for settings (or data) that are refused."""
    try:
        chosen = configured(program, defaults, words, env, contradictions=contradictions)
        if "--print-config" in words:
            sys.stdout.write("\n".join(shlex.quote(word) for word in assignments(chosen)) + "\n")
            return 0
        return run(chosen)
    except RecipeError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def configured(
    program: str,
    defaults: S,
    words: Sequence[str],
    env: Mapping[str, str],
    *,
    contradictions: Contradictions[S] = nothing,
) -> S:
    """`defaults` with the settings of the workload and those of the command line; `--help` is answered here.

    Raises:
        RecipeError: everything that is wrong with them.
    """
    if {"-h", "--help"} & set(words):
        sys.stdout.write(usage(program, defaults))
        sys.exit(0)
    problems: list[str] = []
    chosen = defaults
    try:
        chosen = override(chosen, list(parameters(type(defaults), env)))
    except RecipeError as error:
        problems += [f"parameters: {problem}" for problem in error.problems]
    try:
        chosen = override(chosen, [word for word in words if word != "--print-config"])
    except RecipeError as error:
        problems += error.problems
    if problems := problems or list(endless(chosen)) or list(contradictions(chosen)):
        raise RecipeError(problems, every_setting(program))
    return chosen


def parameters(kind: type, env: Mapping[str, str]) -> Iterator[str]:
    """The settings of the workload as words; sections may be nested (`data: {source: a}`) or dotted (`data.source`).

    Raises:
        RecipeError: the file cannot be read, or what it holds is no section with settings.
    """
    if FILE not in env:
        return
    import yaml  # not needed to show the help

    try:
        given = yaml.safe_load(Path(env[FILE]).read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RecipeError([f"${FILE} cannot be read: {error}"]) from error
    if not isinstance(given, Mapping):
        raise RecipeError([f"{env[FILE]}: sections with settings are needed, such as data: {{source: rows.jsonl}}"])
    kinds = dict(settings(kind))
    for name, value in flat(given):
        if value is None and any(setting.startswith(f"{name}.") for setting in kinds):
            continue  # a section with nothing in it
        if isinstance(value, list) and name in kinds and not takes_several(kinds[name]):
            raise RecipeError([f"{name} is a list; it takes {takes(kinds[name])}"])
        if value is None and NoneType not in get_args(kinds.get(name, NoneType | str)):
            raise RecipeError([f"{name} is empty; it takes {takes(kinds[name])}"])
        yield f"{name}={json.dumps(value, default=str) if isinstance(value, list) else written(value)}"


def flat(section: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def endless(config: object, prefix: str = "") -> Iterator[str]:
    """Settings that are numbers by their type alone."""
    for name, value in vars(config).items():
        if dataclasses.is_dataclass(value):
            yield from endless(value, f"{prefix}{name}.")
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{prefix}{name}={value} has to be a finite number"


def takes_several(kind: Any) -> bool:
    return get_origin(kind) in {tuple, list} or any(map(takes_several, get_args(kind)))


def every_setting(program: str) -> str:
    return f"Every setting: {program} --help"


def usage(program: str, defaults: object) -> str:
    """Every setting with what it takes and its default, below what its section says of itself."""
    lines = [f"{program} [SECTION.SETTING=VALUE ...] [--print-config]", "", *described(defaults)]
    top = {name: value for name, value in vars(defaults).items() if dataclasses.is_dataclass(value)}
    kinds = dict(settings(type(defaults)))
    rows = [(word, takes(kinds[word.partition("=")[0]])) for word in assignments(defaults)]
    width = min(max((len(word) for word, _ in rows), default=0), 44)
    for name, section in {"": defaults, **top}.items():
        own = [row for row in rows if row[0].partition("=")[0].rpartition(".")[0].partition(".")[0] == name]
        if own:
            lines += ["", *(described(section, f"{name}: ") if name else [])]
            lines += [f"  {word:{width}}  {kind}" for word, kind in own]
    lines += ["", f"Settings may also stand under `parameters:` of the workload (${FILE}); words given here win."]
    return "\n".join(lines) + "\n"


def described(section: object, prefix: str = "") -> list[str]:
    return f"{prefix}{inspect.getdoc(type(section)) or ''}".splitlines()


def takes(kind: Any) -> str:
    """What text a setting of this type takes."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(str(choice) for choice in arguments)
    if origin in {tuple, list}:
        return f"{takes(arguments[0])}, or a JSON list of it"
    if arguments:
        return ", or ".join(takes(one) for one in arguments)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " | ".join(kind.__members__)
    return NAMES_OF_KINDS.get(kind, str(kind))
