"""What environment a workload would run in, and whether it is there already. Builds nothing; costs a few stats."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from airlane.environment import dependencies as parsing
from airlane.environment.bases import HOST, Base, find_base
from airlane.environment.dependencies import Dependency
from airlane.errors import EnvironmentBuildError
from airlane.frozen import frozen
from airlane.store.paths import Home

_KEY_LENGTH = 20
# Raised when the way environments are built changes so that old ones must not be used.
_LAYOUT = "1"


@frozen
class EnvironmentPlan:
    """An environment to be. `key` and `folder` are None for `host`, which is never built.

    `dependencies` are as the user wrote them, without credentials; `requirements` are what will be installed.
    `python_version` is major.minor.
    """

    base: str
    dependencies: tuple[str, ...]
    python_version: str
    key: str | None
    folder: Path | None
    cached: bool
    python: Path
    requirements: tuple[Dependency, ...]
    home: Home


@frozen
class BuiltEnvironment:
    """An environment that is there; `key` is None for `host`. `duration_s` is None where nothing had to be built."""

    key: str | None
    folder: Path
    bin_folder: Path
    python: Path
    virtual_env: Path | None
    duration_s: float | None = None

    def variables(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """What makes a command run in this environment, on top of `environ` (the current one).

        An empty PYTHONDONTWRITEBYTECODE counts as unset: without bytecode files every worker of a run would compile
        torch and ray again (measured: `import ray.train.torch` 11.6 s without them, 4.4 s with).
        """
        path = (os.environ if environ is None else environ).get("PATH") or os.defpath
        found = {"PATH": f"{self.bin_folder}{os.pathsep}{path}"}
        if self.virtual_env is not None:
            found["VIRTUAL_ENV"] = str(self.virtual_env)
        if self.key is not None:
            found["PYTHONDONTWRITEBYTECODE"] = ""
        return found


def plan(
    base: str, dependencies: Sequence[str], *, base_dir: Path, home: Home, python: Path | None = None
) -> EnvironmentPlan:
    """The environment of a base and the user's dependencies, for `python` (the interpreter that runs this).

    Raises:
        NotFoundError: there is no such base.
        EnvironmentBuildError: a dependency cannot be understood, or the base is not for this Python.
    """
    found = find_base(base)
    requirements = parsing.parse(dependencies, base_dir=base_dir)
    shown = tuple(parsing.without_credentials(item.strip()) for item in dependencies if item.strip())
    version, implementation = _this_python() if python is None else _ask_python(python)
    interpreter = Path(sys.executable) if python is None else python
    if not found.packaged:
        _refuse_dependencies(shown)
        return EnvironmentPlan(
            HOST, (), _dotted(version), None, None, cached=True, python=interpreter, requirements=(), home=home
        )
    found.check_python(version)
    _refuse_separator(home)
    key = environment_key(found, requirements, f"{implementation}-{_dotted(version)}", platform_tag())
    folder = home.environments / key
    return EnvironmentPlan(
        found.name,
        shown,
        _dotted(version),
        key,
        folder,
        cached=is_built(folder),
        python=interpreter,
        requirements=requirements,
        home=home,
    )


def _refuse_separator(home: Home) -> None:
    if os.pathsep in str(home.root):
        raise EnvironmentBuildError(
            f"No environment can be in {home.root}: {os.pathsep} separates folders in PATH.",
            hint=f"set AIR_HOME to a folder without {os.pathsep} in its name",
        )


def environment_key(base: Base, requirements: Sequence[Dependency], python: str, platform: str) -> str:
    """A digest of everything that decides what is in an environment, in any order of the dependencies.

    Options keep their order, because the first index may win; a `$VAR` counts by its name, a wheel by its content.
    """
    import hashlib

    options = [item.identity for item in requirements if item.flag is not None]
    packages = sorted({item.identity for item in requirements if item.flag is None})
    digest = hashlib.sha256()
    for part in (_LAYOUT, base.name, python, platform, *options, *packages):
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%s" % (len(encoded), encoded))
    digest.update(base.content())
    return digest.hexdigest()[:_KEY_LENGTH]


def is_built(folder: Path) -> bool:
    """Whether a whole environment is there. Its folder appears by a rename; its interpreter may have gone since."""
    return (folder / "bin" / "python").exists()


def platform_tag() -> str:
    """The operating system and processor that an environment's wheels are for."""
    return f"{sys.platform}-{os.uname().machine}"


def built(plan: EnvironmentPlan, *, duration_s: float | None = None) -> BuiltEnvironment:
    """The environment of a plan, which must be there."""
    if plan.folder is None:
        inside = Path(sys.prefix) if sys.prefix != sys.base_prefix else None
        return BuiltEnvironment(None, Path(sys.prefix), plan.python.parent, plan.python, inside)
    bin_folder = plan.folder / "bin"
    return BuiltEnvironment(plan.key, plan.folder, bin_folder, bin_folder / "python", plan.folder, duration_s)


def _refuse_dependencies(shown: tuple[str, ...]) -> None:
    if shown:
        raise EnvironmentBuildError(
            f"environment.version: host is used as it is and takes no dependencies (asked for: {', '.join(shown)}).",
            hint="Install them beside air yourself, or use a base such as 5 or AI5.",
        )


def _this_python() -> tuple[tuple[int, int], str]:
    return (sys.version_info.major, sys.version_info.minor), sys.implementation.name


def _ask_python(python: Path) -> tuple[tuple[int, int], str]:
    import subprocess

    question = "import sys; print(sys.version_info[0], sys.version_info[1], sys.implementation.name)"
    try:
        answer = subprocess.run([python, "-IS", "-c", question], capture_output=True, text=True, check=True)
        major, minor, implementation = answer.stdout.split()
        return (int(major), int(minor)), implementation
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise EnvironmentBuildError(f"{python} is not a Python interpreter that can be used: {error}") from error


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
