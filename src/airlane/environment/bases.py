"""The bases: named, locked package sets that an environment starts from.

bases/NAME.in says what a base promises, in ranges; bases/NAME.lock pins every package of it (tools/lock_bases.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from airlane.errors import EnvironmentBuildError, NotFoundError
from airlane.frozen import frozen

_FOLDER = Path(__file__).parent / "bases"
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<extras>\[[^\]]*\])?\s*(?P<rest>.*)")

# Wheels of these exist in builds that differ in a local version (2.13.0, 2.13.0+cpu): which one a machine gets is
# the business of its indexes, so a pin must leave the choice open.
LOCAL_BUILDS = frozenset({"torch"})


@frozen
class Package:
    """One line of a package set. `rest` is the version specifier, and the marker if there is one."""

    name: str
    extras: str
    rest: str

    @property
    def text(self) -> str:
        return f"{self.name}{self.extras}{self.rest}"

    @property
    def bare(self) -> str:
        return f"{self.name}{self.extras}"

    @property
    def version(self) -> str | None:
        """The version where the line is an exact pin, without its local part."""
        match = re.match(r"==\s*([^\s;+]+)", self.rest)
        return match.group(1) if match else None


@frozen
class Base:
    """A base by its name. `packaged` is False for `host`, which is the interpreter that runs `air`."""

    name: str
    summary: str
    packaged: bool = True
    internal: bool = False
    oldest_python: tuple[int, int] = (3, 11)
    newest_python: tuple[int, int] = (3, 13)

    @property
    def direct_file(self) -> Path:
        return _FOLDER / f"{self.name}.in"

    @property
    def lock_file(self) -> Path:
        return _FOLDER / f"{self.name}.lock"

    def direct(self) -> tuple[Package, ...]:
        """What the base promises, in ranges."""
        return _read(self.direct_file)

    def pins(self) -> tuple[Package, ...]:
        """Every package of the base, pinned; a name stands twice where the pin depends on the Python version."""
        return _read(self.lock_file)

    def content(self) -> bytes:
        """What the base is made of, for the key."""
        return self.direct_file.read_bytes() + self.lock_file.read_bytes() if self.packaged else b""

    def check_python(self, version: tuple[int, int]) -> None:
        """Raise EnvironmentBuildError for a Python that the base is not locked for."""
        if not self.packaged or self.oldest_python <= version <= self.newest_python:
            return
        oldest, newest, came = (f"{v[0]}.{v[1]}" for v in (self.oldest_python, self.newest_python, version))
        raise EnvironmentBuildError(
            f"Base {self.name} is for Python {oldest} to {newest}; air runs on Python {came}.",
            hint=f"Install Airlane with Python {newest}, or use environment.version: host.",
        )


HOST = "host"

BASES: dict[str, Base] = {
    base.name: base
    for base in (
        Base("4", "numpy, pandas 2, pyarrow, PyYAML and the MLflow client"),
        Base("5", "numpy, pandas 2, pyarrow, PyYAML and the MLflow client"),
        Base("6", "base 5 with pandas 3"),
        Base("AI5", "Ray, PyTorch, transformers, datasets, MLflow and what goes with them; pandas 2"),
        Base("AI6", "base AI5 with pandas 3"),
        Base(HOST, "the Python that runs air, as it is", packaged=False),
        Base("mlflow-server", "the embedded tracking server", internal=True),
    )
}

ALIASES: dict[str, str] = {
    "databricks_ai_v5": "AI5",
    "databricks_ai_v6": "AI6",
    "ai5": "AI5",
    "ai6": "AI6",
}


def find_base(name: str) -> Base:
    """The base of this name or alias, in any case.

    Raises NotFoundError, which lists the bases there are.
    """
    base = BASES.get(name) or BASES.get(ALIASES.get(name.lower(), ""))
    if base is None:
        known = ", ".join(base.name for base in BASES.values() if not base.internal)
        raise NotFoundError(f"There is no base {name!r}.", hint=f"Bases: {known}.")
    return base


def normalized(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read(path: Path) -> tuple[Package, ...]:
    packages = []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _PACKAGE.match(line)
        if match is not None:
            name, extras, rest = match.group("name", "extras", "rest")
            packages.append(Package(normalized(name), extras or "", rest))
    return tuple(packages)
