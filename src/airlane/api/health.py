"""What `air doctor` looks at on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator

from airlane import __version__
from airlane.api.shelves import TrackingServer
from airlane.backends.base import Backend
from airlane.errors import AirError
from airlane.frozen import frozen
from airlane.spec.profiles import NO_TRACKING, Profile
from airlane.store.paths import Home

_LITTLE_SPACE_BYTES = 10 * 10**9


@frozen
class Check:
    """One thing that was looked at: well (True), not well (False), or worth knowing (None)."""

    name: str
    ok: bool | None
    detail: str
    hint: str | None = None


def check_machine(home: Home, profile: Profile, backend: Backend, tracking: TrackingServer) -> tuple[Check, ...]:
    """Every check, in the order in which a run would need them."""
    checks: list[Callable[[], Iterator[Check]]] = [
        lambda: _check_python(profile, backend),
        lambda: _check_home(home),
        _check_uv,
        _check_git,
        _check_containment,
        _check_accelerators,
        lambda: _check_tracking(home, tracking),
    ]
    return tuple(found for check in checks for found in check())


def _check_python(profile: Profile, backend: Backend) -> Iterator[Check]:
    version = sys.version.split()[0]
    yield Check("airlane", True, f"{__version__} on Python {version}")
    where = f" in {profile.file}" if profile.file is not None else " (built in)"
    yield Check("profile", True, f"{profile.name}, backend {backend.name}{where}")


def _check_home(home: Home) -> Iterator[Check]:
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = home.root / f".doctor-{os.getpid()}"
        probe.write_text("x")
        probe.unlink()
    except OSError as error:
        yield Check("home", False, f"{home.root} cannot be written: {error.strerror}", "set AIR_HOME to another folder")
        return
    if home.root.stat().st_mode & 0o077:
        yield Check("home", None, f"{home.root} can be read by others", f"chmod 700 {home.root}")
    else:
        yield Check("home", True, str(home.root))
    free = shutil.disk_usage(home.root).free
    words = f"{free / 1e9:.0f} GB free under {home.root}"
    if free < _LITTLE_SPACE_BYTES:
        yield Check("space", None, words, "an environment with torch takes 1 to 8 GB: air env prune")
    else:
        yield Check("space", True, words)


def _check_uv() -> Iterator[Check]:
    import subprocess

    try:
        from uv import find_uv_bin

        answer = subprocess.run([find_uv_bin(), "--version"], capture_output=True, text=True, check=True, timeout=30)
    except (ImportError, FileNotFoundError, subprocess.SubprocessError, OSError) as error:
        yield Check("uv", False, f"uv does not run: {error}", "pip install uv")
        return
    yield Check("uv", True, answer.stdout.strip().removeprefix("uv "))


def _check_git() -> Iterator[Check]:
    if shutil.which("git") is None:
        yield Check("git", None, "not installed", "snapshots then hold what .gitignore names, and no commit")
    else:
        yield Check("git", True, "installed")


def _check_containment() -> Iterator[Check]:
    if sys.platform != "linux":
        yield Check("containment", None, "process groups only", "on Linux, nothing outlives an attempt")
    elif os.geteuid() == 0:
        yield Check("containment", True, "each node in its own PID namespace, where the kernel allows it")
    else:
        yield Check("containment", True, "child subreaper: nothing outlives an attempt")


def _check_accelerators() -> Iterator[Check]:
    from airlane.backends.local import usable_cores, visible_gpus

    cores = usable_cores()
    yield Check("cores", True, f"{cores}: accelerator_type CPU_1xCORE to CPU_{cores}xCORE")
    found = visible_gpus()
    if found:
        models = ", ".join(dict.fromkeys(gpu.name for gpu in found))
        yield Check("GPUs", True, f"{len(found)}: {models}")
    else:
        yield Check("GPUs", None, "none", "workloads for GPUs can be tried here with --simulate")


def _check_tracking(home: Home, tracking: TrackingServer) -> Iterator[Check]:
    if tracking.uri == NO_TRACKING:
        yield Check("tracking", None, 'off (tracking_uri = "none")', "metrics of runs are not kept")
        return
    if tracking.uri is not None:
        yield _check_user_server(tracking.uri)
        return
    from airlane.tracking import server

    try:
        status = server.status(home)
    except AirError as error:
        yield Check("tracking", False, error.message, error.hint)
        return
    if status is None:
        yield Check("tracking", True, "Airlane's own MLflow server starts with the first run")
    elif not status.answering:
        yield Check("tracking", None, f"{status.uri} does not answer", "air ui --stop; the next run starts it anew")
    else:
        yield Check("tracking", True, f"Airlane's own MLflow server at {status.uri}")


def _check_user_server(uri: str) -> Check:
    from airlane.tracking.rest import Mlflow

    try:
        Mlflow(uri, dict(os.environ)).check()
    except AirError as error:
        return Check("tracking", False, error.message, error.hint or "set tracking_uri to an address that answers")
    return Check("tracking", True, uri)
