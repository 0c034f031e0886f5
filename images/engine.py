"""A Docker engine to build with: the one that answers, or one that is started for this build alone (root on Linux)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PATIENCE_S = 30.0
STEP_S = 0.1


@contextlib.contextmanager
def docker_engine() -> Iterator[Mapping[str, str]]:
    """The environment in which `docker` finds an engine.

    Raises:
        SystemExit: there is none, and none can be started.
    """
    if not shutil.which("docker"):
        raise SystemExit("docker is not installed (Debian: apt-get install docker.io)")
    if answers(os.environ):
        yield os.environ
        return
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        raise SystemExit("no Docker engine answers here. Start one, or run this as root where dockerd is installed.")
    # Not in /tmp, which may be memory: an engine holds each layer of what it builds.
    disk = os.environ.get("TMPDIR", "/var/tmp")  # noqa: S108 - a folder of our own is made in it
    with tempfile.TemporaryDirectory(prefix="airlane-engine-", dir=disk) as folder, started(Path(folder)) as address:
        yield {**os.environ, "DOCKER_HOST": address}


def is_private(env: Mapping[str, str]) -> bool:
    """Whether what this engine holds is gone when the build is over."""
    return env is not os.environ


def answers(env: Mapping[str, str]) -> bool:
    return subprocess.run(["docker", "version"], env=env, capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def started(folder: Path) -> Iterator[str]:
    """An engine with everything of its own in `folder`, and no network but the host's; the address of its socket."""
    address = f"unix://{folder}/docker.sock"
    places = {
        "--data-root": folder / "data",
        "--exec-root": folder / "exec",
        "--pidfile": folder / "docker.pid",
        "--host": address,
    }
    flags = ["--bridge=none", "--iptables=false", "--ip6tables=false", *(f"{key}={at}" for key, at in places.items())]
    # In a mount namespace of its own: what it mounts goes when it does, and the folder can be removed.
    command = ["unshare", "--mount", "dockerd", *flags]
    with (folder / "log").open("wb") as log:
        engine = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers({**os.environ, "DOCKER_HOST": address}):
            if engine.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"dockerd did not start:\n{(folder / 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(STEP_S)
        yield address
    finally:
        engine.send_signal(signal.SIGTERM)
        try:
            engine.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(engine.pid, signal.SIGKILL)
            engine.wait()
