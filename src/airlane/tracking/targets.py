"""Which tracking server a run uses: the embedded one, near or from a node, or the user's own."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from airlane.errors import TrackingError
from airlane.frozen import frozen
from airlane.launch.interface import reachable_address
from airlane.store.paths import Home, RunPaths
from airlane.tracking import kept, server
from airlane.tracking.login import find_login, variables
from airlane.tracking.rest import Mlflow
from airlane.tracking.server_record import HOST, Reach, read_record

REACH_S = 3.0
_UPLOADED_LATER = "and uploaded by the next air get where that server is reached"


@frozen
class Link:
    """A server, ready. `login_file` signs the command in, None where it need not or has its own way.

    `kept_because` says why it is not the server that the run was to use; its data are uploaded there later.
    """

    mlflow: Mlflow
    login_file: Path | None = None
    kept_because: str | None = None


class Target(Protocol):
    """A server that a tracker talks to."""

    @property
    def uri(self) -> str | None:
        """None for the embedded server."""

    def connect(self) -> Link:
        """The server, ready; the embedded one is started if need be.

        Raises:
            AirError: it is not reachable.
        """

    def lost(self) -> bool:
        """Whether the server is known to be gone; costs microseconds."""

    def close(self) -> None:
        """The run has ended."""


@frozen
class Embedded:
    """The server of this home; `python` gives the interpreter of the `mlflow-server` environment."""

    home: Home
    python: Callable[[], Path]
    uri: None = None

    def connect(self) -> Link:
        # No proxy and no credentials of the environment apply to it.
        mlflow = Mlflow(server.ensure(self.home, self.python), variables(self.home))
        own = mlflow.address.host == HOST and sys.platform == "linux"  # serve.py knows this user's programs then
        login = None if own else find_login(self.home)
        return Link(mlflow, login.file if login is not None else None)

    def lost(self) -> bool:
        return not server.alive(self.home)

    def close(self) -> None: ...


@frozen
class Remote:
    """The user's own server; `env` may hold its credentials."""

    uri: str
    env: Mapping[str, str]

    def connect(self) -> Link:
        mlflow = Mlflow(self.uri, self.env)
        try:
            mlflow.check()
        except TrackingError:
            mlflow.close()
            raise
        return Link(mlflow)

    def lost(self) -> bool:
        return False

    def close(self) -> None: ...


class FromNode:
    """The home's server as one of the run's nodes reaches it. It is never started here, for it must outlive the run.

    Where it is out of reach, a server of the run's own takes its place for good, with its data in the run folder.
    """

    uri: None = None

    def __init__(self, home: Home, python: Callable[[], Path], run: RunPaths) -> None:
        self._home = home
        self._python = python
        self._run = run
        self._kept: Home | None = None
        self._because = ""
        self._leash: int | None = None

    def connect(self) -> Link:
        if self._kept is None:
            try:
                return self._connect_home()
            except TrackingError as error:
                self._because = f"on {socket.gethostname()}, {error.message}"
                self._kept = kept.open_store(self._home, self._run)
        return self._connect_kept(self._kept)

    def lost(self) -> bool:
        return self._kept is not None and not server.alive(self._kept)

    def close(self) -> None:
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None
        if self._kept is not None:
            server.stop(self._kept)
            kept.close_store(self._kept)

    def _connect_home(self) -> Link:
        record, login = read_record(self._home), find_login(self._home)
        if record is None or record.public_uri is None or login is None:
            raise TrackingError(f"the MLflow server of {self._home.root} was not started for other machines")
        mlflow = Mlflow(record.public_uri, login.variables, timeout_s=REACH_S)
        try:
            mlflow.check()
        finally:
            mlflow.close()
        return Link(Mlflow(record.public_uri, login.variables), login.file)

    def _connect_kept(self, store: Home) -> Link:
        reading, writing = os.pipe()
        try:
            reach = Reach() if reachable_address() is not None else None
            uri = server.ensure(store, self._python, reach=reach, leash=reading)
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        # One that runs already is tied to an earlier pipe.
        if self._leash is None:
            self._leash = writing
        else:
            os.close(writing)
        login = find_login(store)
        because = f"{self._because}: metrics are kept in the run folder, {_UPLOADED_LATER}"
        return Link(Mlflow(uri, variables(store)), login.file if login is not None else None, because)
