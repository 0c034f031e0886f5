"""Building an environment: in a folder of its own, then renamed, so that a half-built one is never seen."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from airlane.environment import folders
from airlane.environment.bases import find_base
from airlane.environment.bytecode import borrow_bytecode
from airlane.environment.planning import BuiltEnvironment, EnvironmentPlan, built, is_built, platform_tag
from airlane.environment.resolve import Request, Resolution, no_space_error, read_pins, resolution_error, resolve
from airlane.environment.sources import sources
from airlane.environment.uv_process import Uv
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
    values = os.environ if environ is None else environ
    building = _Building(plan, plan.key, plan.folder, values, log, progress, cancelled)
    started = time.monotonic()
    try:
        plan.home.environments.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folders.build_lock(plan.home, plan.key, lambda: _tell_waiting(progress)) as (lock, locks):
            if not is_built(plan.folder):
                if locks:
                    folders.remove_unfinished(plan.home, plan.key)
                _build_locked(building, lock)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise no_space_error(str(error)) from error
        raise EnvironmentBuildError(f"The environment cannot be built in {plan.folder}: {error}") from error
    return built(plan, duration_s=time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _Building:
    """One build: what, and with whom it talks."""

    plan: EnvironmentPlan
    key: str
    folder: Path
    environ: Mapping[str, str]
    log: Path | None
    progress: Callable[[str], None]
    cancelled: Callable[[], bool]


def _tell_waiting(progress: Callable[[str], None]) -> None:
    progress("waiting for another run that builds the same environment")


def _build_locked(building: _Building, lock: int) -> None:
    plan, progress = building.plan, building.progress
    started = time.monotonic()
    place = folders.new_building_folder(plan.home, building.key)
    try:
        environment = place / "environment"
        environment.mkdir()
        found = sources(plan.requirements, building.environ)
        request = Request(
            base=find_base(plan.base),
            requirements=plan.requirements,
            python=plan.python,
            flags=found.flags,
            constraint_files=found.constraint_files,
            environ=building.environ,
        )
        logs = [environment / "build.log", *([building.log] if building.log else [])]
        with contextlib.ExitStack() as stack:
            uv = Uv(
                environ=found.environ,
                folder=place,
                log=[stack.enter_context(path.open("ab")) for path in logs],
                secrets=found.secrets,
                progress=progress,
                cancelled=building.cancelled,
                inherit=(lock,),
            )
            progress("resolving")
            resolution = resolve(request, uv=uv, folder=place, progress=progress)
            for moved in resolution.moved:
                progress(f"with {moved}")
            _install(request, resolution, environment, uv)
        lock_text = uv.mask(resolution.file.read_text(encoding="utf-8"))
        (environment / "requirements.lock").write_text(lock_text, encoding="utf-8")
        _record(building, resolution, environment, build_s=time.monotonic() - started)
        borrow_bytecode(environment, plan)
        _give_name(environment, building.folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _install(request: Request, resolution: Resolution, environment: Path, uv: Uv) -> None:
    """Make the virtual environment and put the resolved packages in, by hard links from uv's cache where it can.

    Relocatable, because its scripts must work under the name it gets afterwards. Not compiled to bytecode: that takes
    longer than the whole build, mostly for files that are never imported (see BuiltEnvironment.variables).
    """
    venv = uv.run("venv", "--relocatable", "--allow-existing", "--no-project", "--python", request.python, environment)
    if not venv.succeeded:
        raise resolution_error(request, venv)
    python = environment / "bin" / "python"
    flags: tuple[str | Path, ...] = ("--no-deps", "--python", python, *request.flags, "--requirement", resolution.file)
    outcome = uv.run("pip", "install", *flags, "--offline") if resolution.offline else None
    if outcome is None or not outcome.succeeded:
        outcome = uv.run("pip", "install", *flags)
    if not outcome.succeeded:
        raise resolution_error(request, outcome)


def _record(building: _Building, resolution: Resolution, environment: Path, *, build_s: float) -> None:
    now = time.time()
    folders.write_record(
        environment,
        folders.EnvironmentInfo(
            key=building.key,
            base=building.plan.base,
            dependencies=building.plan.dependencies,
            python_version=building.plan.python_version,
            platform=platform_tag(),
            packages=len(read_pins(resolution.file)),
            size_bytes=folders.tree_size_bytes(environment),
            created_at=now,
            last_used_at=now,
            build_s=round(build_s, 3),
            moved=resolution.moved,
            folder=environment,
        ),
    )


def _give_name(environment: Path, folder: Path) -> None:
    """Rename into place. Where the file system has no locks, another builder may have been first: then ours goes."""
    for _ in range(2):
        try:
            environment.rename(folder)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            if is_built(folder):
                return
            folders.discard(folder)  # its interpreter has gone: it is of no use to anyone
        else:
            return
    raise EnvironmentBuildError(f"{folder} is in the way and cannot be removed.", hint=f"rm -r {folder}")
