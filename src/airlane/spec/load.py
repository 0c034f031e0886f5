"""A workload file, read: every problem at once, or a Workload."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node

from airlane.errors import Problem, SpecError
from airlane.frozen import frozen
from airlane.spec import nodes
from airlane.spec.files import read_file, reason
from airlane.spec.models import WORKLOAD, Workload
from airlane.spec.reading import Place, Reading
from airlane.spec.suggest import nearest


@frozen
class Loaded:
    """A workload and where it came from.

    `text` is the YAML as submitted, overrides applied: `load_text` reads it back to an equal workload. `hosted_only`
    holds the values that mean something on the hosted service only, by dotted name, as plain Python.
    """

    workload: Workload
    file: str
    base_dir: Path
    text: str
    warnings: tuple[str, ...]
    hosted_only: Mapping[str, Any]


def load(path: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read a workload file; paths in it are relative to its folder.

    Raises:
        SpecError: everything that is wrong with it.
    """
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise _refused(path, "expected a file that ends in .yaml or .yml", None)
    try:
        text = read_file(path)
    except FileNotFoundError as error:
        raise _refused(path, "there is no such file", _similar_file(path)) from error
    except OSError as error:
        raise _refused(path, f"cannot be read: {reason(error)}", None) from error
    return load_text(text, file=str(path), base_dir=path.absolute().parent, overrides=overrides)


def load_text(
    text: str, *, file: str, base_dir: Path, overrides: Sequence[str] = (), check_files: bool = True
) -> Loaded:
    """Read the text of a workload file; `check_files=False` takes its paths on trust.

    Raises:
        SpecError: everything that is wrong with it.
    """
    reading = Reading(file, nodes.split_lines(text), base_dir, os.environ, check_files=check_files)
    root = _compose(text, reading)
    if overrides:
        from airlane.spec.overrides import apply_overrides

        root, problems = apply_overrides(root, overrides, WORKLOAD)
        reading.problems.extend(problems)
    workload = WORKLOAD.read(root, Place(reading, "", root))
    if reading.problems or not isinstance(workload, Workload):
        raise SpecError(_in_order(reading))
    return Loaded(
        workload=workload,
        file=file,
        base_dir=base_dir,
        text=nodes.serialize(root) if overrides else text,
        warnings=_warnings(reading),
        hosted_only=dict(reading.hosted_only),
    )


def _compose(text: str, reading: Reading) -> Node:
    try:
        root = nodes.compose(text)
    except nodes.NodeError as error:
        problem = reading.problem_at(error.line, error.column, message=error.message, hint=error.hint)
        raise SpecError((problem,)) from error
    start = yaml.Mark(reading.file, 0, 0, 0, None, 0)
    return MappingNode(nodes.MAP, [], start, start) if root is None or nodes.is_null(root) else root


def _in_order(reading: Reading) -> tuple[Problem, ...]:
    """Each problem once: this file's by place, then those of other files and of overrides."""

    def place(problem: Problem) -> tuple[bool, str, int, int]:
        elsewhere = problem.file != reading.file
        return elsewhere, problem.file or "" if elsewhere else "", problem.line or 0, problem.column or 0

    return tuple(sorted(dict.fromkeys(reading.problems), key=place))


def _warnings(reading: Reading) -> tuple[str, ...]:
    names = list(reading.hosted_only)
    if not names:
        return ()
    return (f"{', '.join(names)}: recorded, without effect here (hosted service only)",)


def _refused(path: Path, message: str, hint: str | None) -> SpecError:
    return SpecError((Problem(message=message, field="", file=str(path), hint=hint),))


def _similar_file(path: Path) -> str | None:
    try:
        files = [entry for entry in path.absolute().parent.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return f"There is no folder {path.parent}."
    names = {entry.stem: entry.name for entry in files}  # the ending alone makes no two names alike
    near = nearest(path.stem, names)
    return f"Did you mean {path.parent / names[near]}?" if near else None
