"""Which tracking server a run uses: the embedded one, or the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from airlane.errors import TrackingError
from airlane.frozen import frozen
from airlane.store.paths import Home
from airlane.tracking import server
from airlane.tracking.rest import Mlflow


class Target(Protocol):
    """A server that a tracker talks to."""

    @property
    def uri(self) -> str | None:
        """None for the embedded server."""

    def connect(self) -> Mlflow:
        """The server, ready; the embedded one is started if need be.

        Raises:
            AirError: it is not reachable.
        """

    def lost(self) -> bool:
        """Whether the server is known to be gone; costs microseconds."""


@frozen
class Embedded:
    """The server of this home; `python` gives the interpreter of the `mlflow-server` environment."""

    home: Home
    python: Callable[[], Path]
    uri: None = None

    def connect(self) -> Mlflow:
        # No proxy and no credentials of the environment apply to it.
        return Mlflow(server.ensure(self.home, self.python), {})

    def lost(self) -> bool:
        return not server.alive(self.home)


@frozen
class Remote:
    """The user's own server; `env` may hold its credentials."""

    uri: str
    env: Mapping[str, str]

    def connect(self) -> Mlflow:
        mlflow = Mlflow(self.uri, self.env)
        try:
            mlflow.check()
        except TrackingError:
            mlflow.close()
            raise
        return mlflow

    def lost(self) -> bool:
        return False
