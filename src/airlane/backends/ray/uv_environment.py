"""A run's dependencies as the runtime environment that Ray builds with uv on each node, and what Ray says if it cannot.

Source: Ray 2.60, ray/_private/runtime_env/uv.py, tried. For every new list of packages a node copies the virtual
environment that Ray runs in; where it runs in none, it makes one that sees Ray's packages, but uv does not see these
and installs what a package needs anew. Then it calls `python -m uv pip install -r`, with uv from there or from pip. A
failure is tried three times. `$NAME` is replaced on the node, by its own variables. Whoever may look at the cluster's
dashboard sees the list.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from airlane.errors import ConfigError, EnvironmentBuildError

_OPTION = re.compile(r"(?P<flag>--[a-z-]+|-[a-z])\s*=?\s*(?P<value>.*)")
_SHORT = {"-i": "--index-url", "--pypi-url": "--index-url", "-f": "--find-links"}
_FOR_UV = {
    "--index-url": "--index-url={}",
    "--extra-index-url": "--extra-index-url={}",
    "--find-links": "--find-links={}",
    "--trusted-host": "--allow-insecure-host={}",
    "--no-index": "--no-index",
    "--pre": "--prerelease=allow",
}
# As pip, for whom such a list was written: the best version of all indexes, not the first index that knows it.
_AS_PIP = "--index-strategy=unsafe-best-match"
# A node's home may be read-only, as in many containers; uv's cache is in it.
_ALWAYS = ("--no-cache",)
_FILES = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
_ARCHIVES = (".whl", ".tar.gz", ".zip")
_URL = re.compile(r"[a-z+]+://", re.IGNORECASE)
_MASKED = "***@"  # what a run's record has in place of a user and a password

_OUTPUT = re.compile(r"^Last \d+ lines of std(?:out|err):\n(?P<lines>(?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
_NO_INSTALLER = "No module named pip"
_OTHER_RAY = re.compile(r"Changing the ray version is not allowed:\s+current version: (?P<new>[^,\s]+)")


def runtime_env(dependencies: Sequence[str], *, ray: str | None = None) -> dict[str, Any]:
    """Ray's runtime environment with these packages; nothing where there are none.

    A dependency on Ray itself stays at version `ray`, the cluster's: Ray refuses an environment with another one.

    Raises:
        ConfigError: one of them is on the user's machine alone, or holds a password.
    """
    packages: list[str] = []
    options: list[str] = []
    for number, item in enumerate(dependencies):
        line = re.sub(r"(^|\s)#.*$", "", item).strip()
        _refuse_what_stays(line, f"dependencies[{number}]")
        if line.startswith("-"):
            options.append(_option(line))
        elif line:
            packages.append(line)
    if not packages:
        return {}
    if ray is not None and any(re.match(r"ray(?![\w.-])", line, re.IGNORECASE) for line in packages):
        packages.append(f"ray=={ray}")
    if any(option.startswith("--extra-index-url") for option in options):
        options.append(_AS_PIP)
    return {"uv": {"packages": packages, "uv_pip_install_options": [*_ALWAYS, *options]}}


def _option(line: str) -> str:
    flag, value = _flag_and_value(line)
    return _FOR_UV[flag].format(value)


def _flag_and_value(line: str) -> tuple[str, str]:
    match = _OPTION.fullmatch(line)
    flag = match["flag"] if match else line
    value = match["value"].strip().strip("'\"") if match else ""
    return _SHORT.get(flag, flag), value


def _refuse_what_stays(line: str, where: str) -> None:
    """Raises ConfigError for what cannot travel to the cluster."""
    if _MASKED in line:
        raise ConfigError(
            f"{where}: {line}: everybody who sees the Ray cluster's dashboard could read the password",
            hint="write $NAME in place of the user and the password, and set NAME where the nodes of the cluster start",
        )
    if line.startswith("-"):
        flag, value = _flag_and_value(line)
        if flag in _FILES:
            hint = "write its lines here; or dependencies: FILE, which is read before the run is submitted"
            raise ConfigError(f"{where}: {line}: the file is on this machine, and not on the Ray cluster", hint=hint)
        if flag not in _FOR_UV:
            raise ConfigError(f"{where}: {line}: no such option", hint=f"known: {', '.join(_FOR_UV)}")
        if flag == "--find-links" and not _URL.match(value) and not value.startswith("$"):
            raise ConfigError(
                f"{where}: {line}: the folder is on this machine, and not on the Ray cluster",
                hint="name a URL; or set UV_FIND_LINKS where the nodes of the cluster start",
            )
    elif _is_local(line):
        raise ConfigError(
            f"{where}: {line}: the file is on this machine, and not on the Ray cluster",
            hint="publish the package, name its repository (git+https://...), or put its code into code_source",
        )


def _is_local(line: str) -> bool:
    name, at, target = line.partition("@")
    if at and target.strip().startswith("file:") and not _URL.match(name):
        return True
    if line.startswith(("./", "../", "/", "~/", "file:")):
        return True
    return not at and not _URL.match(line) and line.lower().endswith(_ARCHIVES)


def setup_failure(said: str) -> EnvironmentBuildError:
    """The error for a runtime environment that Ray could not build, from the traceback that it gives."""
    if _NO_INSTALLER in said:
        return EnvironmentBuildError(
            "the dependencies cannot be installed: the environment of the Ray cluster has neither uv nor pip",
            hint="install uv beside Ray on the nodes, and start the cluster again",
        )
    if (other := _OTHER_RAY.search(said)) is not None:
        return EnvironmentBuildError(
            f"the dependencies bring Ray {other['new']}, and a run cannot have another Ray than its cluster",
            hint="name the cluster's version among the dependencies: ray==VERSION; air doctor tells it",
        )
    outputs = [textwrap.dedent(match["lines"]).strip() for match in _OUTPUT.finditer(said)]
    lines = [line for output in outputs for line in output.splitlines() if not line.startswith("Using Python ")]
    if not lines:
        lines = [line for line in said.splitlines() if line.strip()][-1:] or ["Ray does not say why"]
    return EnvironmentBuildError(
        "the dependencies cannot be installed on the Ray cluster\n" + "\n".join(lines),
        hint="correct environment.dependencies; the nodes need a way to the index, too",
    )
