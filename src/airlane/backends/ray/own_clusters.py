"""The clusters that `air ray up` has started under this home, by name: a profile's address may be one."""

from __future__ import annotations

from airlane.cluster.find import RayCluster
from airlane.cluster.state import read_state
from airlane.errors import BackendError
from airlane.launch.interface import is_own
from airlane.launch.ray_settings import TOKEN
from airlane.store.paths import Home
from airlane.store.runs import RunStore, RunView


def named_cluster(home: Home, name: str | None) -> RayCluster | None:
    """The cluster of a name, or of a run's id; with None the only one. None where there is no such.

    Raises:
        BackendError: there are several, or its dashboard is not reached from here.
    """
    found = [view for view in _running(home) if name in (None, view.record.id, view.record.experiment_name)]
    if not found:
        return None
    if len(found) > 1:
        ids = ", ".join(view.record.id for view in found)
        raise BackendError(f"there are {len(found)} Ray clusters: name one by its run id", hint=ids)
    return _reach(found[0])


def _running(home: Home) -> list[RunView]:
    store = RunStore(home)
    views = (store.view(paths) for paths in store.ids() if paths.record.exists())
    return [view for view in views if view.record.ray is not None and not view.state.terminal and view.attempts]


def _reach(view: RunView) -> RayCluster:
    folder = view.paths.ray(view.attempts[-1].number)
    state = read_state(folder)
    if state is None or not state.ready:
        raise BackendError(f"the cluster of run {view.record.id} is not ready", hint="air ray list")
    host, _, _ = state.dashboard.rpartition(":")
    if host.startswith("127.") and not _is_here(view):
        raise BackendError(
            f"the dashboard of {view.record.id} listens on {state.host} alone",
            hint='air ray up --public; or air ray dashboard, and address = "http://127.0.0.1:8265" in the profile',
        )
    token = folder / TOKEN
    return RayCluster(
        f"http://{state.dashboard}",
        token.read_text(encoding="ascii").strip(),
        f"the cluster of run {view.record.id}",
        token_from=str(token),
        token_file=token,
    )


def _is_here(view: RunView) -> bool:
    return view.record.backend == "local" or any(is_own(host) for host in view.attempts[-1].hosts)
