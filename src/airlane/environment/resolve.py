"""Choosing the version of every package: the base's pins where they can hold, the user's dependencies first.

The direct packages of a base are constraints (`torch==2.13.0` also takes 2.13.0+cpu, which a preference would not);
the rest of its lock are preferences, which uv gives up one by one where something else is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airlane.environment import folders
from airlane.environment.bases import LOCAL_BUILDS, Base, Package, normalized
from airlane.environment.dependencies import Dependency, Kind, expand
from airlane.environment.uv_process import Outcome, Uv
from airlane.errors import EnvironmentBuildError
from airlane.frozen import frozen


@frozen
class Request:
    """What is to be resolved. `flags` and `constraint_files` come from pip's settings and the dependencies' options."""

    base: Base
    requirements: tuple[Dependency, ...]
    python: Path
    flags: tuple[str, ...]
    constraint_files: tuple[str, ...]
    environ: Mapping[str, str]


@frozen
class Resolution:
    """Every package, pinned, in `file`. `moved` tells which of the base's direct packages are not at their pin."""

    file: Path
    moved: tuple[str, ...]
    offline: bool


@frozen
class _Rung:
    """How far the base is loosened: which of its direct packages keep their pin, and how the others are asked for."""

    requirements: tuple[str, ...]
    pinned: tuple[Package, ...]


def resolve(request: Request, *, uv: Uv, folder: Path, progress: Callable[[str], None]) -> Resolution:
    """Try from the base as it is to the base as names only; the first that holds together is taken.

    Raises EnvironmentBuildError with uv's explanation when nothing does.
    """
    lines = [expand(item, request.environ) for item in request.requirements if item.kind is not Kind.OPTION]
    kinds = [item.kind for item in request.requirements if item.kind is not Kind.OPTION]
    wanted = [line for line, kind in zip(lines, kinds, strict=True) if kind is not Kind.CONSTRAINT]
    limits = [line for line, kind in zip(lines, kinds, strict=True) if kind is Kind.CONSTRAINT]
    pins = request.base.pins()
    outcome = Outcome(succeeded=False, output="")
    for number, rung in enumerate(_rungs(request)):
        if number == 1:
            progress("resolving with the base's own versions loosened")
        _write_lines(folder / "requirements.in", [*rung.requirements, *wanted])
        _write_lines(folder / "constraints.txt", [*(pin.text for pin in rung.pinned), *limits])
        for offline in (True, False) if number == 0 and _may_stay_offline(request) else (False,):
            resolved = folder / "resolved.txt"
            _write_lines(resolved, [pin.text for pin in pins if pin.name not in LOCAL_BUILDS])
            outcome = uv.run(*_command(request, folder), *(("--offline",) if offline else ()))
            if outcome.succeeded and not (offline and _changed(resolved, pins, request.requirements)):
                return Resolution(resolved, _moved(resolved, request.base), offline)
        if not outcome.unsatisfiable or outcome.unknown_package:
            break
    raise build_error(request, outcome, verb="resolved")


def build_error(request: Request, outcome: Outcome, *, verb: str) -> EnvironmentBuildError:
    """The error for people: what cannot be done, uv's own explanation, and what to do about the usual causes."""
    if outcome.no_space:
        return folders.no_space_error(outcome.explanation())
    named = [item.shown for item in request.requirements if item.kind is not Kind.OPTION]
    where = " + ".join([request.base.name, *named])
    if outcome.unsatisfiable:
        hint = "Loosen or remove one of the requirements named above."
    else:
        hint = "Check the name, the version, and that this machine reaches the index: air doctor"
    return EnvironmentBuildError(f"The environment ({where}) cannot be {verb}.\n{outcome.explanation()}", hint=hint)


def read_pins(file: Path) -> dict[str, str]:
    """Package -> version of a resolved file; what stands there as a URL has the URL for its version."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, separator, version = line.partition("==")
        if not separator:
            name, separator, version = line.partition(" @ ")
        if separator and not line.startswith("#"):
            found[normalized(name.partition("[")[0].strip())] = version.partition(";")[0].strip()
    return found


def _rungs(request: Request) -> list[_Rung]:
    """From strict to loose, without repeats."""
    direct = request.base.direct()
    pins = [pin for pin in request.base.pins() if pin.name in {package.name for package in direct}]
    named = {item.name for item in request.requirements}
    bare = tuple(package.bare for package in direct)
    ranges = tuple(package.bare if package.name in named else package.text for package in direct)
    rungs = [
        _Rung(bare, tuple(pins)),
        _Rung(bare, tuple(pin for pin in pins if pin.name not in named)),
        _Rung(ranges, ()),
        _Rung(bare, ()),
    ]
    return list(dict.fromkeys(rungs))


def _command(request: Request, folder: Path) -> list[str | Path]:
    own = folder / "constraints.txt"
    files: list[str | Path] = [*([own] if own.stat().st_size else []), *request.constraint_files]
    limits: list[str | Path] = [word for file in files for word in ("--constraint", file)]
    return [
        "pip",
        "compile",
        "--no-header",
        "--no-annotate",
        "--python",
        request.python,
        *request.flags,
        folder / "requirements.in",
        *limits,
        "--output-file",
        folder / "resolved.txt",
    ]


def _may_stay_offline(request: Request) -> bool:
    """Whether what uv has cached can be enough: a link may have new content, an option a new index."""
    kinds = {item.kind for item in request.requirements}
    return not kinds & {Kind.LINK, Kind.OPTION} and not request.flags


def _changed(resolved: Path, pins: Sequence[Package], requirements: Sequence[Dependency]) -> bool:
    """Whether a version was chosen freely, from cached lists of versions that may be old."""
    fixed = {(pin.name, pin.version) for pin in pins}
    exact = {item.name for item in requirements if item.exact}
    return any(
        (name, version.partition("+")[0]) not in fixed and name not in exact
        for name, version in read_pins(resolved).items()
    )


def _moved(resolved: Path, base: Base) -> tuple[str, ...]:
    chosen = read_pins(resolved)
    names = {package.name for package in base.direct()}
    pinned: dict[str, set[str]] = {}
    for pin in base.pins():
        if pin.name in names:
            pinned.setdefault(pin.name, set()).add(pin.version or "")
    return tuple(
        f"{name} {chosen[name]} (the base has {', '.join(sorted(versions))})"
        for name, versions in sorted(pinned.items())
        if name in chosen and chosen[name].partition("+")[0] not in versions
    )


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
