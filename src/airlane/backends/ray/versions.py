"""Whether the environment of a Ray cluster is the one that a workload asks for: it is used as it is, and not built."""

from __future__ import annotations

import re
from typing import Any

from airlane.backends.ray.uv_environment import runtime_env
from airlane.cluster.rest import Dashboard
from airlane.errors import ConfigError, RayAnswerError
from airlane.frozen import frozen
from airlane.spec.bases import RAY_OF_BASES
from airlane.store.records import RunRecord

VERSION = "/api/version"
METADATA = "/api/v0/cluster_metadata"
OLDEST_PYTHON = (3, 11)
HOST = "host"
_NOT_FOUND = 404


@frozen
class ClusterVersions:
    """What a cluster runs on, "2.60.0" and "3.11.7". Old clusters do not tell their Python."""

    ray: str
    python: str | None

    @property
    def words(self) -> str:
        return f"Python {self.python} with Ray {self.ray}" if self.python is not None else f"Ray {self.ray}"


def read_versions(dashboard: Dashboard) -> ClusterVersions:
    """What the dashboard tells.

    Raises what the dashboard raises.
    """
    ray = _field(_known(dashboard, VERSION), "ray_version")
    if ray is None:
        raise RayAnswerError(
            f"{dashboard.url} is no Ray dashboard: it does not tell Ray's version",
            status=_NOT_FOUND,
            hint="the port of a dashboard is 8265, unless another was chosen",
        )
    return ClusterVersions(ray, _field(_field(_known(dashboard, METADATA), "data"), "pythonVersion"))


def _known(dashboard: Dashboard, path: str) -> Any:
    """The answer; None where the dashboard knows no such question."""
    try:
        return dashboard.get_json(path)
    except RayAnswerError as error:
        if error.status != _NOT_FOUND:
            raise
        return None


def _field(said: Any, name: str) -> Any:
    return said.get(name) if isinstance(said, dict) else None


def check_environment(run: RunRecord, dashboard: Dashboard) -> str:
    """What the command would find, for people.

    Raises:
        ConfigError: it is not what the workload asks for.
    """
    if run.image is not None:
        raise ConfigError(
            "environment.docker_image: a Ray cluster is there already, and its nodes start no containers for a run",
            hint="leave docker_image out: the command runs with the cluster's own Python; or use a profile of Slurm",
        )
    versions = read_versions(dashboard)
    check_python(versions, dashboard.url)
    check_base(run.environment.base, run.environment.python_version, versions, dashboard.url)
    dependencies = len(runtime_env(run.environment.dependencies).get("uv", {}).get("packages", ()))
    added = (
        f", and {dependencies} {'package' if dependencies == 1 else 'packages'} that Ray installs"
        if dependencies
        else ""
    )
    return f"the cluster's {versions.words}{added}"


def check_python(versions: ClusterVersions, url: str) -> None:
    """Raises ConfigError for a Python that cannot run a run's supervisor, whatever the workload says."""
    if versions.python is not None and _numbers(versions.python) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise ConfigError(
            f"the Ray cluster at {url} has Python {versions.python}; a run on it needs {oldest} or later",
            hint=f"start the cluster with Python {oldest} or later",
        )


def check_base(base: str, python: str, versions: ClusterVersions, url: str) -> None:
    """Compare a base, for Python `python` (major.minor), with what the cluster has. Patch releases count as the same.

    Raises:
        ConfigError: they differ.
    """
    if base == HOST:
        return
    wanted = RAY_OF_BASES.get(base)
    if wanted is not None and _numbers(versions.ray) != _numbers(wanted):
        raise ConfigError(
            f"environment.version: {base} has Ray {wanted}, and the Ray cluster at {url} has {versions.ray}",
            hint=_ways(bases_of(versions)),
        )
    if versions.python is not None and _numbers(versions.python) != _numbers(python):
        own = ".".join(map(str, _numbers(versions.python)))
        raise ConfigError(
            f"environment.version: {base} is planned for Python {python}, which runs air, "
            f"and the Ray cluster at {url} has {versions.python}",
            hint=f"install Airlane with Python {own}; or environment.version: {HOST}, the cluster's Python as it is",
        )


def bases_of(versions: ClusterVersions) -> tuple[str, ...]:
    """The bases that bring the Ray of the cluster."""
    return tuple(base for base, ray in RAY_OF_BASES.items() if _numbers(ray) == _numbers(versions.ray))


def _ways(bases: tuple[str, ...]) -> str:
    host = f"environment.version: {HOST} takes the cluster's Python as it is"
    return f"{host}; {' and '.join(bases)} would match" if bases else host


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
