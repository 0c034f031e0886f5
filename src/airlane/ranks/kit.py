"""The part of Airlane that ranks need on their nodes, as a small archive: nothing need be installed there."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
FILES = (
    "__init__.py",
    "launch/__init__.py",
    "launch/contained.py",
    "launch/libc.py",
    "launch/oom.py",
    "launch/process_group.py",
    "launch/processes.py",
    "launch/subreaper.py",
    "ranks/__init__.py",
    "ranks/call.py",
    "ranks/inherited.py",
    "ranks/keeper.py",
    "ranks/order.py",
    "ranks/preflight_rank.py",
    "ranks/program.py",
)


def build_kit() -> bytes:
    """A zip archive with the package's folder in it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as kit:
        for name in FILES:
            kit.writestr(f"{_PACKAGE.name}/{name}", (_PACKAGE / name).read_bytes())
    return archive.getvalue()
