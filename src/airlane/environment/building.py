"""Having an environment: at once where it is cached, else by one builder at a time."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from airlane.environment import folders
from airlane.environment.folders import stopped_error
from airlane.environment.planning import BuiltEnvironment, EnvironmentPlan, built, is_built
from airlane.errors import EnvironmentBuildError


def _never() -> bool:
    return False


def build(
    plan: EnvironmentPlan,
    *,
    log: Path | None = None,
    progress: Callable[[str], None],
    environ: Mapping[str, str] | None = None,
    cancelled: Callable[[], bool] = _never,
) -> BuiltEnvironment:
    """Make the planned environment, unless it is there already: then this costs a stat.

    `progress` gets short lines for people. What uv says is appended to `log`, and kept in the environment's
    build.log. `$VAR`s in dependencies are looked up in `environ`. While `cancelled` says no, the build goes on.

    Raises EnvironmentBuildError: nothing resolves (with uv's explanation), the disk is full, or it was cancelled.
    """
    if plan.key is None or plan.folder is None:
        return built(plan)
    if is_built(plan.folder):
        folders.touch(plan.folder)
        return built(plan)
    # Imported here: a cached environment, the usual case, must not pay for uv's door (subprocess, tomllib, ...).
    from airlane.environment.construction import Construction, construct

    values = os.environ if environ is None else environ
    construction = Construction(plan, plan.key, plan.folder, values, log, progress, cancelled)
    started = time.monotonic()
    told: list[str] = []

    def wait() -> None:
        if cancelled():
            raise stopped_error()
        if not told:
            told.append("waiting for another run that builds the same environment")
            progress(told[0])

    try:
        plan.home.environments.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folders.build_lock(plan.home, plan.key, wait) as (lock, locks):
            if not is_built(plan.folder):
                if locks:
                    folders.remove_unfinished(plan.home, plan.key)
                construct(construction, lock)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise folders.no_space_error(str(error)) from error
        reason = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        raise EnvironmentBuildError(f"The environment cannot be built in {plan.folder}: {reason}") from error
    return built(plan, duration_s=time.monotonic() - started)
