"""What `air top` shows: a cluster that lives, found as `air ray job` finds it, or one that was recorded."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.api.ray_target import JobTarget, reach
from airlane.errors import ArgumentError, NotFoundError
from airlane.frozen import frozen
from airlane.top.seam import Clock, Source

if TYPE_CHECKING:
    from airlane.api import Client

_PATIENCE_S = 2.0  # what is later than that is in the next round
_ONCE_PATIENCE_S = 20.0  # there is no next one
_ALL_AT_ONCE = 1e12  # as many times as fast: the last round is there at once


@frozen
class Wish:
    """What was asked for. `replay` and `record` are files."""

    target: JobTarget
    record: Path | None = None
    replay: Path | None = None


@frozen
class Opened:
    """A source, and the clock that ages are measured with: the recording's, where one is played."""

    source: Source
    clock: Clock


@contextlib.contextmanager
def open_source(client: Client, wish: Wish, *, once: bool, env: Mapping[str, str] | None = None) -> Iterator[Opened]:
    """The source that is meant. A way to a cluster on another machine is open as long as this is.

    Whether the head answers at all is asked here, so that a wrong address is told in plain words, and not on a screen.

    Raises:
        ArgumentError: it is named twice, or the recording cannot be read.
        NotFoundError, ConfigError, BackendError: no cluster is named, or it cannot be reached.
        StoreError: nothing can be recorded there.
    """
    with contextlib.ExitStack() as ways:
        opened = _recording(wish, once=once) if wish.replay else _cluster(client, wish, ways, once=once, env=env)
        ways.callback(opened.source.close)
        yield opened


def _recording(wish: Wish, *, once: bool) -> Opened:
    from airlane.top.recording import Replay

    assert wish.replay is not None  # noqa: S101 - for mypy
    if wish.target != JobTarget(profile=wish.target.profile):
        raise ArgumentError("--replay shows a recording, and no cluster", hint=f"air top --replay {wish.replay}")
    if wish.record is not None:
        raise ArgumentError("--replay and --record exclude each other", hint=f"air top --replay {wish.replay}")
    replay = Replay(wish.replay, speed=_ALL_AT_ONCE if once else 1.0)
    return Opened(replay, replay.clock)


def _cluster(
    client: Client, wish: Wish, ways: contextlib.ExitStack, *, once: bool, env: Mapping[str, str] | None
) -> Opened:
    from airlane.top.head import VERSION, Head
    from airlane.top.runs import AirRuns

    target = wish.target
    if target.address is not None and target.cluster is not None:
        raise ArgumentError("--address and --cluster exclude each other", hint="air top --cluster NAME")
    try:
        reached = reach(client, target, os.environ if env is None else env, ways)
    except NotFoundError as error:
        raise NotFoundError(error.message, hint=f"{error.hint}\nair list shows runs without one") from error
    dashboard = reached.dashboard
    dashboard.get_json(VERSION)
    patience_s = _ONCE_PATIENCE_S if once else _PATIENCE_S
    source: Source = Head(
        dashboard,
        cluster=dashboard.called.removeprefix("the dashboard of "),
        runs=AirRuns(client, url=dashboard.url, called=dashboard.called),
        patience_s=patience_s,
    )
    if wish.record is not None:
        from airlane.top.recording import Recorded, Recorder

        source = Recorded(source, Recorder(wish.record))
    return Opened(source, time.time)
