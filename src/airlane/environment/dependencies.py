"""The user's dependencies, as written in a workload or a requirements file, parsed into frozen values.

Everything a requirements file includes is read here, once: what enters the environment's key is what is built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from airlane.environment.bases import normalized
from airlane.errors import EnvironmentBuildError
from airlane.frozen import frozen

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_OPTION = re.compile(r"(?P<flag>--[a-z-]+|-[a-z])\s*=?\s*(?P<value>.*)")
_CLAUSE = r"[<>=!~]=?=?\s*[^;\s,()<>=!~]+"
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*"
    r"(?P<extras>\[[A-Za-z0-9._,\s-]*\])?\s*"
    rf"(?P<rest>(?:@\s*\S.*|\(?\s*(?:{_CLAUSE}\s*(?:,\s*{_CLAUSE}\s*)*,?\s*)?\)?\s*)(?:;.*)?)"
)
_LINK = re.compile(r"(?:git\+|hg\+|svn\+|bzr\+)?(?:https?|ssh|git|file|s3|gs)://", re.IGNORECASE)
_ARCHIVES = (".whl", ".tar.gz", ".zip")
_FLAGS = {
    "-r": "--requirement",
    "-c": "--constraint",
    "-i": "--index-url",
    "--pypi-url": "--index-url",
    "-f": "--find-links",
    "-e": "--editable",
}
_INDEX_FLAGS = frozenset({"--index-url", "--extra-index-url", "--find-links", "--no-index", "--pre", "--trusted-host"})
_DEEPEST = 16


class Kind(StrEnum):
    """What a line of a requirements file is."""

    REQUIREMENT = "requirement"
    ARCHIVE = "archive"
    LINK = "link"
    CONSTRAINT = "constraint"
    OPTION = "option"


@frozen
class Dependency:
    """One line. `text` is what uv reads, with `$VAR` as written; `identity` is what enters the key.

    `name` is the package, normalized, where the line tells it. `flag` and the value in `text` are an OPTION's.
    """

    kind: Kind
    text: str
    identity: str
    origin: str
    name: str | None = None
    flag: str | None = None

    @property
    def shown(self) -> str:
        """The line for people."""
        if self.kind is Kind.ARCHIVE:
            return self.text.rpartition("/")[2]
        return without_credentials(self.text)

    @property
    def exact(self) -> bool:
        """Whether the line leaves no choice of version."""
        return self.kind is Kind.ARCHIVE or bool(re.match(r"[^;]*?==[^*;,]+([;,]|$)", self.text))


def parse(items: Sequence[str], *, base_dir: Path) -> tuple[Dependency, ...]:
    """The dependencies of a workload; paths are relative to `base_dir`, the folder of its file.

    Raises EnvironmentBuildError for a line that cannot be understood or a file that cannot be read.
    """
    found: list[Dependency] = []
    for number, item in enumerate(items):
        found += _parse_line(item.strip(), origin=f"dependencies[{number}]", folder=base_dir, depth=0)
    return tuple(found)


def variables(text: str) -> tuple[str, ...]:
    """The names of the environment variables that a line uses."""
    return tuple(braced or plain for braced, plain in _VARIABLE.findall(text))


def expand(dependency: Dependency, values: Mapping[str, str]) -> str:
    """The line as uv reads it, with its variables replaced.

    Raises EnvironmentBuildError that names the first variable that is not set, and no value.
    """
    text = _expanded(dependency.text, values, origin=dependency.origin)
    if dependency.kind is Kind.ARCHIVE and not _LINK.match(text):
        # A URL, because a requirements file has no way to quote a path with a space in it.
        return f"{dependency.name} @ {Path(text).as_uri()}"
    return text


def _expanded(text: str, values: Mapping[str, str], *, origin: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        if name not in values:
            raise EnvironmentBuildError(
                f"{origin}: ${name} is not set in the environment that air was started in.",
                hint=f"export {name}=... and run it again.",
            )
        return values[name]

    return _VARIABLE.sub(value, text)


def without_credentials(text: str) -> str:
    """The text with user names and passwords in URLs replaced by stars; `ssh://git@` is no secret."""
    return re.sub(r"(?<=://)(?<!ssh://)[^/\s@]+@", "***@", text)


def _parse_line(line: str, *, origin: str, folder: Path, depth: int) -> Iterator[Dependency]:
    line = re.sub(r"(^|\s)#.*$", "", line).strip()
    if not line:
        return
    if line.startswith("-"):
        yield from _parse_option(line, origin=origin, folder=folder, depth=depth)
    elif _LINK.match(line) and not line.lower().startswith("file:"):
        yield Dependency(Kind.LINK, line, line, origin, name=_link_name(line))
    elif _is_path(line):
        yield _archive(line, origin=origin, folder=folder)
    else:
        named_file = re.fullmatch(r"[^@\s]+\s*@\s*(file:[^;\s]+)", line)
        if named_file is not None:
            yield _archive(named_file.group(1), origin=origin, folder=folder)
        else:
            yield _requirement(line, origin=origin)


def _requirement(line: str, *, origin: str) -> Dependency:
    if re.search(r"\s--[a-z]", line):
        raise EnvironmentBuildError(
            f"{origin}: options after a requirement are not supported: {without_credentials(line)}",
            hint="Leave out --hash and the like: the base's packages have none.",
        )
    match = _REQUIREMENT.fullmatch(line)
    if match is None:
        raise EnvironmentBuildError(
            f"{origin}: expected a requirement such as fsspec>=2024.6.1, got {without_credentials(line)!r}.",
            hint="Also accepted: a path to a wheel, a URL, git+https://..., -r FILE, --index-url URL.",
        )
    name = normalized(match.group("name"))
    extras = re.sub(r"\s", "", match.group("extras") or "").lower()
    rest = match.group("rest")
    linked = rest.startswith("@")
    if not linked:
        specifier, semicolon, marker = rest.partition(";")
        clauses = sorted(clause for clause in re.sub(r"[\s()]", "", specifier).split(",") if clause)
        rest = ",".join(clauses) + (f" ; {' '.join(marker.split())}" if semicolon else "")
    text = f"{name}{extras} {rest}" if linked else f"{name}{extras}{rest}"
    return Dependency(Kind.LINK if linked else Kind.REQUIREMENT, text, text, origin, name=name)


def _archive(line: str, *, origin: str, folder: Path) -> Dependency:
    """A wheel or source archive on disk: its content is its identity, unless a variable hides where it is."""
    filename = line.rpartition("/")[2]
    name = normalized(filename.partition("-")[0])
    if variables(line):
        return Dependency(Kind.ARCHIVE, line if line.startswith(("$", "/")) else f"{folder}/{line}", line, origin, name)
    path = _local_path(line, folder)
    if path.is_dir():
        raise EnvironmentBuildError(
            f"{origin}: {line} is a folder; an environment takes wheels and archives, whose content can be named.",
            hint=f"uv build --wheel {line} and name the wheel, or put the code in code_source.",
        )
    digest = _file_digest(path, origin=origin)
    return Dependency(Kind.ARCHIVE, str(path), f"{path.name} sha256:{digest}", origin, name)


def _parse_option(line: str, *, origin: str, folder: Path, depth: int) -> Iterator[Dependency]:
    match = _OPTION.fullmatch(line)
    flag = _FLAGS.get(match["flag"], match["flag"]) if match else line
    value = match["value"].strip().strip("'\"") if match else ""
    if flag == "--editable":
        raise EnvironmentBuildError(
            f"{origin}: {line}: an editable install would change with its folder, so a run could not be repeated.",
            hint="Put the code in code_source, or build a wheel and name it.",
        )
    if flag in {"--requirement", "--constraint"}:
        # Read now, because what it says is part of the key; the environment is built from what was read.
        path = _local_path(_expanded(value, os.environ, origin=origin), folder)
        for inner in _parse_file(path, origin=origin, depth=depth):
            yield _as_constraint(inner) if flag == "--constraint" else inner
    elif flag in _INDEX_FLAGS:
        if flag == "--find-links" and value and not _LINK.match(value) and not variables(value):
            value = str(_local_path(value, folder))
        if not value and flag not in {"--no-index", "--pre"}:
            raise EnvironmentBuildError(f"{origin}: {flag} needs a value.")
        yield Dependency(Kind.OPTION, value, f"{flag} {value}", origin, flag=flag)
    else:
        raise EnvironmentBuildError(
            f"{origin}: the option {flag} is not supported.",
            hint=f"Supported: -r, -c, {', '.join(sorted(_INDEX_FLAGS))}.",
        )


def _parse_file(path: Path, *, origin: str, depth: int) -> Iterator[Dependency]:
    if depth >= _DEEPEST:
        raise EnvironmentBuildError(f"{origin}: {path} includes itself, or files {_DEEPEST} deep.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentBuildError(f"{origin}: cannot read {path}: {_reason(error)}.") from error
    number, pending = 0, ""
    for line in [*text.splitlines(), ""]:
        number += 1
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        whole, pending = (pending + line).strip(), ""
        yield from _parse_line(whole, origin=f"{path.name}:{number}", folder=path.parent, depth=depth + 1)


def _as_constraint(inner: Dependency) -> Dependency:
    if inner.kind is Kind.OPTION:
        return inner
    return Dependency(Kind.CONSTRAINT, inner.text, f"constraint {inner.identity}", inner.origin, name=inner.name)


def _is_path(line: str) -> bool:
    if line.startswith(("./", "../", "/", "~/", "file:")):
        return True
    return " @ " not in line and line.lower().endswith(_ARCHIVES)


def _link_name(line: str) -> str | None:
    egg = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", line)
    if egg is not None:
        return normalized(egg.group(1))
    filename = line.partition("#")[0].rpartition("/")[2]
    return normalized(filename.partition("-")[0]) if filename.endswith(_ARCHIVES) else None


def _local_path(value: str, folder: Path) -> Path:
    if value.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        value = unquote(urlsplit(value).path)
    return (folder / Path(value).expanduser()).absolute()


def _file_digest(path: Path, *, origin: str) -> str:
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EnvironmentBuildError(f"{origin}: cannot read {path}: {_reason(error)}.") from error


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8 text"
