"""What is kept beside the runs: environments, secrets, and the MLflow server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airlane import environment
from airlane.environment import BuiltEnvironment, EnvironmentInfo, EnvironmentPlan
from airlane.errors import ConfigError, TrackingError
from airlane.frozen import frozen
from airlane.spec.profiles import NO_TRACKING
from airlane.store import secrets
from airlane.store.paths import Home
from airlane.store.uploaded import upload_waits
from airlane.supervise.body import mlflow_python
from airlane.supervise.uploading import upload_beside


@frozen
class Environments:
    """The environments that were built under a home."""

    home: Home

    def list(self) -> tuple[EnvironmentInfo, ...]:
        """All of them, the last used first."""
        return environment.list_environments(self.home)

    def show(self, key: str) -> EnvironmentInfo:
        """The one whose key begins so."""
        return environment.show(self.home, key)

    def build(self, plan: EnvironmentPlan, *, progress: Callable[[str], None]) -> BuiltEnvironment:
        """Make it, unless it is there."""
        return environment.build(plan, progress=progress)

    def prune(self, *, older_than_days: float | None = None, dry_run: bool = False) -> tuple[EnvironmentInfo, ...]:
        """Remove those that nothing uses; returns what went."""
        return environment.prune(self.home, older_than_days=older_than_days, dry_run=dry_run)


@frozen
class Secrets:
    """The secrets kept under a home, by "scope/key"."""

    home: Home

    def set(self, ref: str, value: str) -> None:
        secrets.set_secret(self.home, ref, value)

    def delete(self, ref: str) -> None:
        secrets.delete_secret(self.home, ref)

    def list(self) -> tuple[str, ...]:
        """Their names; values are never read."""
        return secrets.list_secrets(self.home)


@frozen
class ServerPage:
    """Where the metrics are seen. `public_uri` is for other machines, whose users sign in as `login_file` says."""

    uri: str
    public_uri: str | None = None
    login_file: Path | None = None


@frozen
class TrackingServer:
    """The MLflow server of a home, or the user's own at `uri`."""

    home: Home
    uri: str | None

    def start(self) -> ServerPage:
        """Where the server is; Airlane's own is started if need be.

        Raises:
            TrackingError: it does not start.
            ConfigError: the profile turns tracking off.
        """
        if self.uri == NO_TRACKING:
            raise ConfigError('tracking is off (tracking_uri = "none")', hint="remove tracking_uri from the profile")
        if self.uri is not None:
            return ServerPage(self.uri)
        from contextlib import closing

        from airlane.tracking import login, orphans, server
        from airlane.tracking.rest import Mlflow

        uri = server.ensure(self.home, mlflow_python(self.home))
        with closing(Mlflow(uri, login.variables(self.home))) as mlflow:
            orphans.settle(self.home, mlflow, None)  # what supervisors owed that were killed while it was away
        if upload_waits(self.home):
            upload_beside(self.home)
        status = server.status(self.home)
        if status is None:
            return ServerPage(uri)
        return ServerPage(uri, status.public_uri, status.login_file)

    def open_towards(self, host: str | None) -> str:
        """The address of Airlane's own server that machines such as this host reach; it is started if need be.

        Raises:
            TrackingError: it does not start, or there is no way to the host.
        """
        from airlane.launch.interface import reachable_address
        from airlane.tracking import server
        from airlane.tracking.server_record import Reach

        try:
            address = reachable_address(host)
        except OSError as error:
            raise TrackingError(f"no address leads to {host}: {error.strerror or error}") from error
        return server.ensure(self.home, mlflow_python(self.home), reach=Reach(address))

    def stop(self) -> bool:
        """Stop Airlane's own server; False if it was not running."""
        from airlane.tracking import server

        return server.stop(self.home)
