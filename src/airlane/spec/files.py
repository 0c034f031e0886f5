"""The kinds that name files: the folder of the code, and the dependencies (a list, or a requirements file)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, SequenceNode

from airlane.frozen import frozen
from airlane.launch.image_archive import ENDINGS, GZIP, TAR, ArchiveError, kind_of
from airlane.spec import nodes
from airlane.spec.containers import Items
from airlane.spec.kinds import Kind, Text, override_value, read_text
from airlane.spec.reading import INVALID, Place, came, clip

MAX_FILE_BYTES = 1024 * 1024
_VARIABLE = r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))"

# Source: distribution/reference, reference.go (its grammar, without the limits on lengths).
_PART = "[a-z0-9][a-z0-9._-]*"
_REFERENCE = (
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?"
    rf"{_PART}(?:/{_PART})*(?::[A-Za-z0-9_.-]+)?(?:@sha256:[0-9a-f]{{64}})?"
)


def expand(text: str, place: Place) -> Path | None:
    """A path with ~ and $VAR expanded, relative to the workload file; reports variables that are not set."""
    environ = place.reading.environ
    missing = [name for pair in re.findall(_VARIABLE, text) for name in pair if name and name not in environ]
    if missing:
        place.report(f"${missing[0]} is not set", hint=f"export {missing[0]}=... where you type `air`")
        return None
    text = re.sub(_VARIABLE, lambda found: environ[found[1] or found[2]], text)
    text = os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for users it does not know
    return Path(os.path.realpath(place.reading.base_dir / text))


class Folder(Kind):
    """A folder that exists, relative to the workload file."""

    @property
    def words(self) -> str:
        return "a folder, relative to this file (~ and $VAR are expanded)"

    def read(self, node: Node, place: Place) -> Any:
        text = read_text(node, place)
        if text is None:
            return INVALID
        if not text.strip():
            place.report("empty: expected a folder", hint="`.` is the folder of this file")
            return INVALID
        path = expand(text, place)
        if path is None:
            return INVALID
        if place.reading.check_files and not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for long names
            exists = os.path.lexists(path)
            place.report(f"{path} is not a folder" if exists else f"there is no folder {path}")
            return INVALID
        return path

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        return nodes.text_scalar(text, mark)


class Image(Kind):
    """A container image: a registry's reference, or the path of an archive, told by its ending."""

    @property
    def words(self) -> str:
        return f"an image's reference, or an archive ({', '.join(ENDINGS)})"

    def read(self, node: Node, place: Place) -> Any:
        text = read_text(node, place)
        if text is None:
            return INVALID
        if text.endswith(ENDINGS):
            return self._read_archive(text, place)
        if not re.fullmatch(_REFERENCE, text):
            place.report(f"expected {self.words}, got {clip(text)!r}", hint="for example ghcr.io/me/train:1.2")
            return INVALID
        return text

    def _read_archive(self, text: str, place: Place) -> Any:
        path = expand(text, place)
        if path is None:
            return INVALID
        if place.reading.check_files:
            try:
                kind = kind_of(str(path))
            except FileNotFoundError:
                place.report(f"there is no file {path}")
                return INVALID
            except (OSError, ArchiveError) as error:
                why = str(error) if isinstance(error, ArchiveError) else f"cannot be read: {reason(error)}"
                place.report(f"{path} {why}", hint="make it with: docker save IMAGE | gzip > FILE.tar.gz")
                return INVALID
            if not _ending_fits(text, kind):
                place.report(f"{path} is a {kind} file, whatever its name says", hint=f"call it NAME.{kind}")
                return INVALID
        return str(path)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        return nodes.text_scalar(text, mark)


def _ending_fits(name: str, kind: str) -> bool:
    if kind in (TAR, GZIP):
        return name.endswith((".tar", ".tar.gz", ".tgz"))
    return name.endswith(f".{kind}")


class InnerPath(Kind):
    """A relative path that stays inside the code's folder."""

    @property
    def words(self) -> str:
        return "a relative path without `..`"

    def read(self, node: Node, place: Place) -> Any:
        text = read_text(node, place)
        if text is None:
            return INVALID
        if not text.strip() or text.startswith(("/", "~")) or ".." in text.split("/"):
            place.report(f"expected {self.words}, got {text!r}")
            return INVALID
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


@frozen
class RequirementsFile:
    """A requirements file that was read: `version` only in its map form, where it was given."""

    path: Path
    version: str | None
    dependencies: tuple[str, ...]


PACKAGE = Text(hint="for example numpy>=2")


class Dependencies(Kind):
    """Packages for pip: a list, or the path of a requirements file."""

    @property
    def words(self) -> str:
        return "a list of packages, or the path of a requirements file"

    def read(self, node: Node, place: Place) -> Any:
        if isinstance(node, SequenceNode):
            values = Items(PACKAGE).read(node, place)
            return INVALID if values is INVALID else without_blanks(values)
        if isinstance(node, MappingNode):
            place.report(f"expected {self.words}, got {came(node)}")
            return INVALID
        text = read_text(node, place)
        path = expand(text, place) if text else None
        if text == "":
            place.report(f"empty: expected {self.words}")
        if path is None:
            return INVALID
        from airlane.spec.requirements_file import read_requirements

        return read_requirements(path, place)

    def schema(self) -> dict[str, Any]:
        return {"type": ["array", "string"], "items": {"type": "string"}, "minLength": 1}

    def child(self, key: str) -> Kind | None:
        return PACKAGE if key == "[]" else None

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        listed = text.startswith("[") or text == "null"
        return override_value(text, mark) if listed else nodes.text_scalar(text, mark)


def without_blanks(values: tuple[str, ...]) -> tuple[str, ...]:
    """The entries that say something, trimmed."""
    return tuple(value.strip() for value in values if value.strip())


def reason(error: OSError) -> str:
    """Why a file could not be read, to follow a colon."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def read_file(path: Path) -> str:
    """The text of a small UTF-8 file.

    Raises:
        OSError: it cannot be read. The message of a plain OSError (no errno) says why it is refused.
    """
    if path.is_dir():
        raise OSError("it is a folder")
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise OSError("it is larger than 1 MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OSError(f"it is not UTF-8 text (line {line})") from error
