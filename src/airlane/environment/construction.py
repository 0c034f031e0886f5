"""Making an environment in a folder of its own, then renaming it, so that a half-made one is never seen."""

from __future__ import annotations

import contextlib
import errno
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from airlane.environment import folders
from airlane.environment.bases import find_base
from airlane.environment.bytecode import borrow_bytecode
from airlane.environment.planning import EnvironmentPlan, is_built, platform_tag
from airlane.environment.resolve import Request, Resolution, build_error, read_pins, resolve
from airlane.environment.sources import sources
from airlane.environment.uv_process import Uv
from airlane.errors import EnvironmentBuildError
from airlane.frozen import frozen


@frozen
class Construction:
    """One build: what, and with whom it talks."""

    plan: EnvironmentPlan
    key: str
    folder: Path
    environ: Mapping[str, str]
    log: Path | None
    progress: Callable[[str], None]
    cancelled: Callable[[], bool]


def construct(construction: Construction, lock: int) -> None:
    plan, progress = construction.plan, construction.progress
    started = time.monotonic()
    place = folders.new_building_folder(plan.home, construction.key)
    try:
        environment = place / "environment"
        environment.mkdir()
        found = sources(plan.requirements, construction.environ)
        request = Request(
            base=find_base(plan.base),
            requirements=plan.requirements,
            python=plan.python,
            flags=found.flags,
            constraint_files=found.constraint_files,
            environ=construction.environ,
        )
        logs = [environment / "build.log", *([construction.log] if construction.log else [])]
        with contextlib.ExitStack() as stack:
            uv = Uv(
                environ=found.environ,
                folder=place,
                log=[stack.enter_context(path.open("ab")) for path in logs],
                secrets=found.secrets,
                progress=progress,
                cancelled=construction.cancelled,
                inherit=(lock,),
            )
            progress("resolving")
            resolution = resolve(request, uv=uv, folder=place, progress=progress)
            for moved in resolution.moved:
                progress(f"with {moved}")
            progress(f"installing {len(read_pins(resolution.file))} packages")
            _install(request, resolution, environment, uv)
        lock_text = uv.mask(resolution.file.read_text(encoding="utf-8"))
        (environment / "requirements.lock").write_text(lock_text, encoding="utf-8")
        _record(construction, resolution, environment, build_s=time.monotonic() - started)
        borrow_bytecode(environment, plan)
        _give_name(environment, construction.folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _install(request: Request, resolution: Resolution, environment: Path, uv: Uv) -> None:
    """Make the virtual environment and put the resolved packages in, by hard links from uv's cache where it can.

    Relocatable, because its scripts must work under the name it gets afterwards. Not compiled to bytecode: all
    of AI5 took over two minutes here, mostly for files that are never imported (see BuiltEnvironment.variables).
    """
    venv = uv.run("venv", "--relocatable", "--allow-existing", "--no-project", "--python", request.python, environment)
    if not venv.succeeded:
        raise build_error(request, venv, verb="built")
    python = environment / "bin" / "python"
    flags: tuple[str | Path, ...] = ("--no-deps", "--python", python, *request.flags, "--requirement", resolution.file)
    outcome = uv.run("pip", "install", *flags, "--offline") if resolution.offline else None
    if outcome is None or not outcome.succeeded:
        outcome = uv.run("pip", "install", *flags)
    if not outcome.succeeded:
        raise build_error(request, outcome, verb="built")


def _record(construction: Construction, resolution: Resolution, environment: Path, *, build_s: float) -> None:
    now = time.time()
    folders.write_record(
        environment,
        folders.EnvironmentInfo(
            key=construction.key,
            base=construction.plan.base,
            dependencies=construction.plan.dependencies,
            python_version=construction.plan.python_version,
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
