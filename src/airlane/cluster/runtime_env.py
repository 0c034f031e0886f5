"""Ray's runtime environment: read from JSON or YAML, with what it names on this machine.

Ray's own client reads such files, too: the cluster knows nothing of a path here. Source: Ray 2.60,
ray/_private/runtime_env/validation.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airlane.errors import ArgumentError

WORKING_DIR = "working_dir"
PY_MODULES = "py_modules"
EXCLUDES = "excludes"
ENV_VARS = "env_vars"
FIELDS = frozenset(
    {
        WORKING_DIR,
        PY_MODULES,
        EXCLUDES,
        ENV_VARS,
        "py_executable",
        "pip",
        "uv",
        "conda",
        "container",
        "image_uri",
        "java_jars",
        "mpi",
        "nsight",
        "rocprof_sys",
        "worker_process_setup_hook",
        "config",
    }
)
_YAML = (".yaml", ".yml")


def from_json(text: str, where: str) -> dict[str, Any]:
    """An object in JSON; `where` is the option or file that has it.

    Raises:
        ArgumentError: it is none; the place of the mistake is shown.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if error.lineno <= len(text.splitlines()) else ""
        raise ArgumentError(
            f"{where} is not JSON: {error.msg[0].lower()}{error.msg[1:]}, at line {error.lineno}, "
            f"column {error.colno}\n  {line}\n  {' ' * (error.colno - 1)}^"
        ) from error
    return _object(content, where)


def from_yaml(file: Path) -> dict[str, Any]:
    """The runtime environment in a YAML file. Raises ArgumentError."""
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{file} is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise ArgumentError(f"{file} is not YAML: {error}") from error
    return _object({} if content is None else content, str(file))


def check(env: Mapping[str, Any]) -> None:
    """Refuse what the cluster would refuse only when the job is to start.

    Raises:
        ArgumentError: a field has another kind of value than Ray takes.
    """
    for name, content in _mapping(env, ENV_VARS).items():
        if not isinstance(content, str):
            raise ArgumentError(
                f"runtime environment: {ENV_VARS}.{name}: expected text, got {json.dumps(content)}",
                hint=f'write "{content}", in quotes',
            )
    for name in (EXCLUDES, PY_MODULES):
        content = env.get(name) or []
        if not isinstance(content, list) or not all(isinstance(item, str) for item in content):
            raise ArgumentError(f"runtime environment: {name}: expected a list of texts, got {json.dumps(content)}")
    if not isinstance(env.get(WORKING_DIR) or "", str):
        raise ArgumentError(f"runtime environment: {WORKING_DIR}: expected a folder or an address")


def with_files(env: Mapping[str, Any]) -> dict[str, Any]:
    """The environment with the content of the files that it names for pip, uv and conda.

    Raises:
        ArgumentError: one cannot be read.
    """
    found = dict(env)
    for name in ("pip", "uv"):
        content = found.get(name)
        if isinstance(content, str):
            found[name] = _requirements(Path(content), name)
        elif isinstance(content, dict) and isinstance(content.get("packages"), str):
            found[name] = {**content, "packages": _requirements(Path(content["packages"]), name)}
    conda = found.get("conda")
    if isinstance(conda, str) and conda.endswith(_YAML):
        found["conda"] = from_yaml(Path(conda))
    return found


def is_address(code: str) -> bool:
    """Whether code is somewhere else already, and named by an address that Ray's nodes understand."""
    return "://" in code


def _requirements(file: Path, name: str) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ArgumentError(
            f"runtime environment: {name}: {file} cannot be read: {(reason or str(error)).lower()}",
            hint=f'a list of packages is written {name}: ["einops==0.8.1"]',
        ) from error
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _object(content: Any, where: str) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ArgumentError(f"{where}: expected fields with values, got {json.dumps(content, default=str)}")
    return content


def _mapping(env: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    content = env.get(name) or {}
    if not isinstance(content, dict):
        raise ArgumentError(f"runtime environment: {name}: expected fields with values, got {json.dumps(content)}")
    return content
