"""What the nodes of a run with `ray:` need before they start: one script, one file of settings, and the token."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path

from airlane.backends.base import NodePlace
from airlane.launch.ray_settings import NODE_SCRIPT, SETTINGS, TOKEN, RaySettings
from airlane.store.disk import make_private_folder
from airlane.store.paths import RunPaths
from airlane.store.records import RayRecord, RunRecord
from airlane.supervise.layout import Layout

_NODE_MAIN = "ray_node.py"
_TOKEN_BYTES = 32


def new_token() -> str:
    """What opens a cluster."""
    return secrets.token_hex(_TOKEN_BYTES)


def lay_out_ray(
    record: RunRecord, ray: RayRecord, attempt: int, places: Sequence[NodePlace], *, layout: Layout, token: str
) -> Path:
    """Write the files of an attempt's cluster; returns the script that a node runs in place of the command.

    Raises OSError.
    """
    seen, folder = layout.seen.ray(attempt), layout.written.ray(attempt)
    make_private_folder(folder)
    settings = RaySettings(
        folder=str(seen),
        command_file=str(layout.seen.command),
        hosts=tuple(place.host for place in places),
        addresses=tuple(place.address for place in places),
        gpus_per_node=record.accelerators_per_node if _has_gpus(record) else 0,
        cpus_per_node=ray.num_cpus if ray.num_cpus is not None or _has_gpus(record) else record.accelerators_per_node,
        object_store_bytes=ray.object_store_bytes,
        ready_timeout_s=ray.ready_timeout_s,
        public=ray.public,
    )
    _write(folder / TOKEN, token)
    _write(folder / SETTINGS, settings.to_json())
    _write(folder / NODE_SCRIPT, node_script(layout.launch / _NODE_MAIN, seen / SETTINGS, layout.programs))
    return seen / NODE_SCRIPT


def node_script(main: Path, settings: Path, programs: Path) -> str:
    """What bash runs on every node: the Python of the environment or the image, whatever it is called.

    An image has its own PATH, and only from within can our programs be added to it.
    """
    return (
        "# This node's part of the run's Ray cluster. Node 0 runs command.sh in it, once all nodes have joined.\n"
        f'export PATH="$PATH":{shlex.quote(str(programs))}\n'
        "python=$(command -v python3 || command -v python) ||\n"
        "  { echo 'Ray cluster failed: there is no Python in the environment'; exit 127; }\n"
        f'exec "$python" -I -S {shlex.quote(str(main))} {shlex.quote(str(settings))}\n'
    )


def forget_token(paths: RunPaths, attempt: int) -> None:
    """Remove the token of a cluster that is gone; one that the disk keeps opens nothing any more."""
    with contextlib.suppress(OSError):
        (paths.ray(attempt) / TOKEN).unlink(missing_ok=True)


def _has_gpus(record: RunRecord) -> bool:
    return not record.simulate and not record.accelerator_type.startswith("CPU_")


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
