"""What `air doctor` looks at on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator

from airlane import __version__
from airlane.api.shelves import TrackingServer
from airlane.backends.base import Backend, Finding
from airlane.errors import AirError
from airlane.spec.profiles import NO_TRACKING, Profile
from airlane.store.paths import Home

_LITTLE_SPACE_BYTES = 10 * 10**9


def check_machine(home: Home, profile: Profile, backend: Backend, tracking: TrackingServer) -> tuple[Finding, ...]:
    """Every check, in the order in which a run would need them."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        lambda: _check_python(profile, backend),
        lambda: _check_home(home),
        _check_uv,
        _check_git,
        _check_containment,
        backend.doctor,
        lambda: _check_tracking(home, tracking),
        lambda: _check_tracking_from_a_node(backend, tracking) if backend.elsewhere else iter(()),
    ]
    return tuple(found for check in checks for found in check())


def _check_python(profile: Profile, backend: Backend) -> Iterator[Finding]:
    version = sys.version.split()[0]
    yield Finding("airlane", True, f"{__version__} on Python {version}")
    where = f" in {profile.file}" if profile.file is not None else " (built in)"
    yield Finding("profile", True, f"{profile.name}, backend {backend.name}{where}")


def _check_home(home: Home) -> Iterator[Finding]:
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = home.root / f".doctor-{os.getpid()}"
        probe.write_text("x")
        probe.unlink()
    except OSError as error:
        words = f"{home.root} cannot be written: {error.strerror}"
        yield Finding("home", False, words, "set AIR_HOME to another folder")
        return
    if home.root.stat().st_mode & 0o077:
        yield Finding("home", None, f"{home.root} can be read by others", f"chmod 700 {home.root}")
    else:
        yield Finding("home", True, str(home.root))
    free = shutil.disk_usage(home.root).free
    words = f"{free / 1e9:.0f} GB free under {home.root}"
    if free < _LITTLE_SPACE_BYTES:
        yield Finding("space", None, words, "an environment with torch takes 1 to 8 GB: air env prune")
    else:
        yield Finding("space", True, words)


def _check_uv() -> Iterator[Finding]:
    import subprocess

    try:
        from uv import find_uv_bin

        answer = subprocess.run([find_uv_bin(), "--version"], capture_output=True, text=True, check=True, timeout=30)
    except (ImportError, FileNotFoundError, subprocess.SubprocessError, OSError) as error:
        yield Finding("uv", False, f"uv does not run: {error}", "pip install uv")
        return
    yield Finding("uv", True, answer.stdout.strip().removeprefix("uv "))


def _check_git() -> Iterator[Finding]:
    if shutil.which("git") is None:
        yield Finding("git", None, "not installed", "snapshots then hold what .gitignore names, and no commit")
    else:
        yield Finding("git", True, "installed")


def _check_containment() -> Iterator[Finding]:
    if sys.platform != "linux":
        yield Finding("containment", None, "process groups only", "on Linux, nothing outlives an attempt")
    elif os.geteuid() == 0:
        yield Finding("containment", True, "each node in its own PID namespace, where the kernel allows it")
    else:
        yield Finding("containment", True, "child subreaper: nothing outlives an attempt")


def _check_tracking(home: Home, tracking: TrackingServer) -> Iterator[Finding]:
    if tracking.uri == NO_TRACKING:
        yield Finding("tracking", None, 'off (tracking_uri = "none")', "metrics of runs are not kept")
        return
    if tracking.uri is not None:
        yield _check_user_server(tracking.uri)
        return
    from airlane.tracking import kept, server

    try:
        status = server.status(home)
    except AirError as error:
        yield Finding("tracking", False, error.message, error.hint)
        return
    waiting = [note.id for _, note in kept.notes(home)]
    if waiting:
        detail = f"metrics of {len(waiting)} runs wait to be uploaded: {', '.join(waiting[:3])}"
        yield Finding("kept metrics", None, detail, f"air ui starts the server; the log is {home.kept / '.log'}")
    if status is None:
        yield Finding("tracking", True, "Airlane's own MLflow server starts with the first run")
    elif not status.answering:
        yield Finding("tracking", None, f"{status.uri} does not answer", "air ui --stop; the next run starts it anew")
    else:
        beside = f", from other machines at {status.public_uri}" if status.public_uri is not None else ""
        yield Finding("tracking", True, f"Airlane's own MLflow server at {status.uri}{beside}")


def _check_tracking_from_a_node(backend: Backend, tracking: TrackingServer) -> Iterator[Finding]:
    """Runs record from their nodes: there the server has to be reached, and its login be read."""
    from airlane.tracking import server
    from airlane.tracking.address import parse

    if tracking.uri == NO_TRACKING:
        return
    login: list[str] = []
    try:
        if tracking.uri is not None:
            uri = parse(tracking.uri, {}).base
        else:
            uri = tracking.open_towards(backend.a_node())
            status = server.status(tracking.home)
            login = [str(status.login_file)] if status is not None and status.login_file is not None else []
        host, said = backend.ask_node("airlane.launch.reachable", uri, *login)
    except AirError as error:
        yield Finding("tracking on a node", None, error.message, error.hint)
        return
    why = said.partition("tracking=")[2].strip() or said.strip() or "no answer"
    if why == "ok":
        yield Finding("tracking on a node", True, f"{uri} is reached from {host}")
    elif tracking.uri is not None:
        hint = "set tracking_uri to an address that the nodes reach, or leave it out to use the embedded server"
        yield Finding("tracking on a node", False, f"{uri} is not reached from {host}: {why}", hint)
    else:
        hint = "metrics are kept in the run folder and uploaded when the run has ended"
        yield Finding("tracking on a node", None, f"{uri} is not reached from {host}: {why}", hint)


def _check_user_server(uri: str) -> Finding:
    from airlane.tracking.rest import Mlflow

    try:
        Mlflow(uri, dict(os.environ)).check()
    except AirError as error:
        return Finding("tracking", False, error.message, error.hint or "set tracking_uri to an address that answers")
    return Finding("tracking", True, uri)
