"""Which Ray cluster a command means, and the way to it."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airlane.cluster.find import RayCluster, find_cluster
from airlane.cluster.rest import Dashboard
from airlane.errors import AirError, ArgumentError, BackendError, NotFoundError
from airlane.frozen import frozen

if TYPE_CHECKING:
    from airlane.api.client import Client
    from airlane.api.clusters import Cluster

_WANTED_PORT = 0


@frozen
class JobTarget:
    """How a cluster was named. `profile` is the profile that was asked for, which need not be the client's."""

    address: str | None = None
    cluster: str | None = None
    profile: str | None = None

    @property
    def again(self) -> str:
        """The same, for another command line."""
        options = (("-p", self.profile), ("--address", self.address), ("--cluster", self.cluster))
        return "".join(f" {option} {name}" for option, name in options if name is not None)


@frozen
class Reached:
    """A cluster that was found: its dashboard, how to name it again, and whether it adds nodes by itself.

    `ended` says of one of ours that it has ended; of others nobody knows.
    """

    dashboard: Dashboard
    again: str
    grows: bool = False
    ended: Callable[[], AirError | None] | None = None


def reach(client: Client, target: JobTarget, env: Mapping[str, str], ways: contextlib.ExitStack) -> Reached:
    """The cluster at an address, of a name, of a Ray profile, of Ray's own variables, or the only one of ours.

    What leads there is kept open by `ways`.

    Raises:
        ArgumentError: it is named twice.
        NotFoundError: nothing names one, or there is none of that name.
        ConfigError: the address or the token cannot be.
    """
    if target.address is not None and target.cluster is not None:
        raise ArgumentError("--address and --cluster exclude each other", hint="air ray job list --cluster NAME")
    ours = _Ours(client, ways)
    if target.cluster is not None:
        return _reached(ours(target.cluster), target, ours)
    address, token_file, grows = target.address, None, False
    if client.profile.backend == "ray" and (target.profile is not None or address is None):
        from airlane.backends.ray.options import read_options

        options = read_options(client.profile.options)
        address, token_file, grows = address or options.address, options.token_file, options.autoscales
    elif target.profile is not None and address is None:
        return _reached(ours(None), target, ours)
    try:
        found = find_cluster(address=address, token_file=token_file, env=env, named=ours)
    except NotFoundError as error:
        if address is not None:
            raise
        hint = "--address http://HEAD:8265, or export RAY_API_SERVER_ADDRESS=http://HEAD:8265\nair ray up starts one"
        raise NotFoundError(error.message, hint=hint) from error
    return _reached(found, target, ours, grows=grows)


def _reached(cluster: RayCluster | None, target: JobTarget, ours: _Ours, *, grows: bool = False) -> Reached:
    if cluster is None:
        raise NotFoundError("there is no Ray cluster", hint="air ray up")
    dashboard = Dashboard(cluster.url, cluster.token, called=ours.called)
    return Reached(dashboard, target.again, grows, ours.ended)


class _Ours:
    """The clusters that Airlane started, by name; a way to one on another machine is opened."""

    def __init__(self, client: Client, ways: contextlib.ExitStack) -> None:
        self._client, self._ways = client, ways
        self.called: str | None = None
        self.ended: Callable[[], AirError | None] | None = None

    def __call__(self, name: str | None) -> RayCluster | None:
        if name is None and not self._client.clusters.list():
            return None
        return self._reach(self._client.clusters.find(name))

    def _reach(self, cluster: Cluster) -> RayCluster:
        dashboard = cluster.dashboard()
        try:
            token = dashboard.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BackendError(
                f"the token of cluster {cluster.id} is gone", hint=f"air ray status {cluster.id}"
            ) from error
        url = f"http://{dashboard.address}"
        if not dashboard.is_here:
            from airlane.api.tunnel import LOOPBACK, RelayTunnel, free_port, open_tunnel

            port = free_port(_WANTED_PORT)
            tunnel = open_tunnel(port, host=dashboard.host, dashboard=dashboard.address, relay=dashboard.relay)
            self._ways.callback(tunnel.close)
            if isinstance(tunnel, RelayTunnel):
                threading.Thread(target=tunnel.serve, name="relay", daemon=True).start()
            url, self.called = f"http://{LOOPBACK}:{port}", f"the dashboard of cluster {cluster.id} on {dashboard.host}"
        self.ended = functools.partial(_why_ended, cluster)
        return RayCluster(url, token, f"cluster {cluster.id}", str(dashboard.token_file), dashboard.token_file)


def _why_ended(cluster: Cluster) -> AirError | None:
    state = cluster.run.view().state
    if not state.terminal:
        return None
    return NotFoundError(f"the cluster of run {cluster.id} has ended ({state})", hint=f"air get {cluster.id}")
