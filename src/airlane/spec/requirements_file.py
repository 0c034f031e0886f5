"""Requirements files: a YAML map of version and dependencies, or lines for pip."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from yaml.nodes import Node

from airlane.spec import nodes
from airlane.spec.containers import Items
from airlane.spec.files import PACKAGE, RequirementsFile, read_file, reason, without_blanks
from airlane.spec.kinds import Base
from airlane.spec.reading import INVALID, Place, Reading, read_map, report_unknown


def read_requirements(path: Path, place: Place) -> Any:
    """A requirements file in either form, or INVALID; its problems point into it."""
    if not place.reading.check_files and not path.exists():
        return RequirementsFile(path, None, ())
    try:
        text = read_file(path)
    except OSError as error:
        place.report(f"cannot read {path}: {reason(error)}")
        return INVALID
    if path.suffix.lower() not in (".yaml", ".yml"):
        return RequirementsFile(path, None, _lines(text))
    reading = Reading(
        str(path), nodes.split_lines(text), path.parent, place.reading.environ, problems=place.reading.problems
    )
    try:
        root = nodes.compose(text)
    except nodes.NodeError as error:
        problem = reading.problem_at(error.line, error.column, message=error.message, hint=error.hint)
        reading.problems.append(problem)
        return INVALID
    if root is None:
        return RequirementsFile(path, None, ())
    return _read_map_form(root, Place(reading, "", root), path)


def _read_map_form(root: Node, place: Place, path: Path) -> Any:
    before = len(place.reading.problems)
    pairs = read_map(root, place)
    version: str | None = None
    dependencies: tuple[str, ...] = ()
    for pair in pairs or []:
        here = place.child(pair.key, pair.key_node)
        if pair.key not in ("version", "dependencies"):
            report_unknown(pair, ["version", "dependencies"], place)
        elif nodes.is_null(pair.value):
            continue
        elif pair.key == "version":
            version = Base().read(pair.value, here)
        else:
            dependencies = Items(PACKAGE).read(pair.value, here)
    if len(place.reading.problems) > before:
        return INVALID
    return RequirementsFile(path, version, without_blanks(dependencies))


def _lines(text: str) -> tuple[str, ...]:
    """The entries of a requirements.txt: comments gone, continued lines joined."""
    joined = re.sub(r"\s*\\\r?\n\s*", " ", text)
    return without_blanks(tuple(re.sub(r"(?:^|\s)#.*$", "", line) for line in joined.splitlines()))
