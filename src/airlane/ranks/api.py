"""Ranks from Python: a function on every rank, and what it returned."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from airlane.errors import AirError, ArgumentError, RankFailedError
from airlane.ranks.decide import DONE
from airlane.ranks.ends import ranks_in_words
from airlane.ranks.inherited import to_send
from airlane.ranks.order import KIT, PYTHON
from airlane.ranks.screen import Screen
from airlane.ranks.settings import RankCommand, Settings
from airlane.ranks.shape import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from airlane.ranks.launcher import Ended

    T = TypeVar("T")


def launch(
    fn: Callable[..., T],
    *,
    args: Sequence[Any] = (),
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    ranks_per_node: int | None = None,
    cpus_per_rank: float = 1.0,
    env: Mapping[str, str] | None = None,
    max_restarts: int = 0,
    timeout_s: float = 600.0,
    watchdog_s: float | None = None,
    topology: Sequence[str] = (),
    log_dir: str | None = None,
) -> list[T]:
    """Call `fn(*args)` on every rank of a Ray cluster, and return what it returned, by rank.

    Each rank is a process of its own with torchrun's variables: `torch.distributed.init_process_group()` works in it.
    `gpus_per_node` ranks on each node have a GPU each; 0, or `ranks_per_node`, starts ranks without. `nodes` None: all
    that the cluster has. The cluster is the one this process is connected to, that of RAY_ADDRESS, or this machine's.

    Raises CapacityError where the cluster can never hold it, RankFailedError for the first rank that failed.
    """
    if gpus_per_node and ranks_per_node:
        raise ArgumentError("gpus_per_node and ranks_per_node say the same", hint="launch(fn, gpus_per_node=8)")
    per_node = gpus_per_node or ranks_per_node
    takes_gpus = True if gpus_per_node else False if gpus_per_node == 0 or ranks_per_node else None
    settings = Settings(
        request=Request(nodes or 1, nodes, per_node, takes_gpus, cpus_per_rank),
        command=RankCommand((PYTHON, f"{KIT}/airlane/ranks/call.py", KIT), call=b""),
        folder=str(Path.cwd()),
        sent=to_send(os.environ),
        env=dict(env or {}),
        max_restarts=max_restarts,
        timeout_s=timeout_s,
        watchdog_s=watchdog_s,
        log_dir=log_dir,
        topology=tuple(topology),
    )
    return _results(_run(settings, functools.partial(fn, *args)))


def _run(settings: Settings, call: Callable[[], Any]) -> tuple[Ended, Any]:
    from dataclasses import replace

    from airlane.ranks import door
    from airlane.ranks.following import Asked
    from airlane.ranks.launcher import Launcher

    cluster = door.connect(os.environ)
    pickled = _pickled(cluster.ray, call)
    settings = replace(settings, command=replace(settings.command, call=pickled))
    launcher = Launcher(cluster, settings, Screen(1, 2), python=sys.executable, asked=Asked())
    try:
        ended = launcher.run()
    finally:
        launcher.close()
        loads = cluster.ray.cloudpickle.loads
        cluster.close()
    return ended, loads


def _pickled(ray: Any, call: Callable[[], Any]) -> bytes:
    """Where modules are found here, and then the function: what is read first must not need what it tells."""
    import pickle

    return pickle.dumps(([path for path in sys.path if path], ray.cloudpickle.dumps(call)))


def _results(done: tuple[Ended, Any]) -> list[Any]:
    ended, loads = done
    outcome = ended.outcome
    if outcome is not None and outcome.why == DONE:
        return [loads(result) for result in ended.results]
    if outcome is None or outcome.first is None:
        why = "the ranks hung" if outcome is not None else "the ranks were stopped"
        raise AirError(why, hint="launch(..., watchdog_s=600)")
    first = outcome.first
    words = "\n".join(outcome.words)
    raise RankFailedError(
        f"{ranks_in_words([first.rank])} {first.words}" + (f"\n{words}" if words else ""),
        rank=first.rank,
        exit_code=first.code,
        hint="launch(..., max_restarts=3)",
    )
