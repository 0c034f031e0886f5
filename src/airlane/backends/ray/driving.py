"""The supervisor's side of a run on a Ray cluster: this process is the driver of the run's Ray job."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from airlane.backends.base import Interruption
from airlane.backends.ray.agent import session_folder
from airlane.backends.ray.allocation import Holding, Parcel, RayAllocation
from airlane.backends.ray.capacity import bundle
from airlane.backends.ray.door import Demand, Door
from airlane.backends.ray.options import RayOptions
from airlane.backends.ray.outbox import Feed, Outbox
from airlane.backends.ray.package import CODE, KIT, TRACKING_LOGIN
from airlane.backends.ray.replica import Source
from airlane.backends.ray.uv_environment import runtime_env
from airlane.store.paths import RunPaths
from airlane.store.records import CauseKind, RunRecord

_TOLD = (RunPaths(Path()).status.name, RunPaths(Path()).events.name)
_SEND_EVERY_S = 0.2
_LAST_WORD_PATIENCE_S = 300.0


class Driving:
    """One supervisor's view of its cluster. Its run folder is told to whoever reads the outbox."""

    def __init__(self, run: RunRecord, paths: RunPaths, options: RayOptions) -> None:
        self._run = run
        self._paths = paths
        self._options = options
        self._own = paths.root.parents[3]  # where boot.py has unpacked everything
        self._secrets = self._take_secrets()
        self._door = Door()
        self._holding = Holding(self._door)
        self._runtime_env = runtime_env(run.environment.dependencies, ray=self._door.version)
        self._kit = self._door.put((self._own / KIT).read_bytes())
        code = self._own / CODE
        self._code = self._door.put(code.read_bytes() if code.exists() else b"")
        self._sender = Sender(paths, Outbox(self._logs(), f"air-{run.id}"))
        self._sender.start()

    def _logs(self) -> Path:
        """What this node's own agent serves: a driver on a host with several nodes is connected to any of them."""
        logs = self._own.parents[1] / "logs"
        return logs if logs.is_dir() else session_folder() / "logs"

    def _take_secrets(self) -> dict[str, bytes]:
        """From here on they are in no file of this node."""
        login = self._own / "home" / TRACKING_LOGIN
        if login.exists():
            os.environ.update(json.loads(login.read_bytes()))
            login.unlink()
        if not self._paths.secrets.exists():
            return {}
        content = self._paths.secrets.read_bytes()
        self._paths.secrets.unlink()
        return {str(self._paths.secrets): content}

    def allocate(self, attempt: int) -> RayAllocation:
        options = self._options
        return RayAllocation(
            self._run,
            self._paths,
            attempt,
            door=self._door,
            holding=self._holding,
            demand=Demand(bundle(self._run, options), self._runtime_env),
            parcel=Parcel(
                kit=self._kit,
                code=self._code,
                secrets=self._secrets,
                wait_s=options.wait_minutes * 60.0,
                grows=options.autoscales,
                storage=options.storage,
            ),
        )

    def asked_to_stop(self) -> Interruption:
        """Ray ends a job with SIGTERM, and for nothing but somebody's request."""
        return Interruption(CauseKind.CANCELED, "canceled by the user")

    def leave(self) -> None:
        """Tell the end, and leave nothing on this node but that."""
        self._holding.give_back()
        self._sender.close()
        self._door.close()
        shutil.rmtree(self._own, ignore_errors=True)
        with contextlib.suppress(OSError):  # what a node has saved is in it
            self._own.parent.rmdir()


class Sender:
    """Puts what the run folder gains into the outbox, in a thread of its own."""

    def __init__(self, paths: RunPaths, outbox: Outbox, *, every_s: float = _SEND_EVERY_S) -> None:
        self._feed = Feed(Source(paths.root, is_told), outbox)
        self._kept = Feed(Source(paths.root, is_kept), outbox)
        self._outbox = outbox
        self._every_s = every_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(self._every_s):
            with contextlib.suppress(OSError):  # a full disk: tried again
                self._send(self._feed)

    def _send(self, feed: Feed) -> None:
        while feed.move():
            continue

    def close(self) -> None:
        """Send the rest, and say that it is all."""
        self._closing.set()
        self._thread.join()
        self._insist(lambda: self._send(self._kept))  # a database that is written no more
        self._insist(lambda: self._send(self._feed))
        with contextlib.suppress(OSError):  # what the disk refuses now is written by the next line
            self._outbox.end()
        self._insist(self._outbox.flush)

    def _insist(self, tell: Callable[[], None]) -> None:
        """Until the disk has room: nobody tells it after us."""
        deadline = time.monotonic() + _LAST_WORD_PATIENCE_S
        while time.monotonic() < deadline:
            try:
                tell()
            except OSError:
                time.sleep(self._every_s)
            else:
                return


def is_told(name: str) -> bool:
    """Which files of the run folder its owner is told about while it runs."""
    what, _, inside = name.partition("/")
    if what != "attempts":
        return what in _TOLD
    folder = inside.partition("/")[2]
    return folder.startswith(("nodes/", "ray/")) and not folder.endswith("/token")


def is_kept(name: str) -> bool:
    """What the run recorded on its own because no MLflow server was reached; it travels when it is closed."""
    return name.startswith("tracking/")
