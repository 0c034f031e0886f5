"""Lock the bases again: bases/NAME.in -> bases/NAME.lock, for every supported Python on Linux and macOS.

    python tools/lock_bases.py [NAME ...]       the bases named, or all of them
    python tools/lock_bases.py --upgrade        take newer versions too, where NAME.in allows them

Resolves against the public index alone, whatever pip or uv are configured to use here: the locks are for everyone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from airlane.environment.bases import BASES, Base
from airlane.environment.uv_process import find_uv

HEADER = "# Made by tools/lock_bases.py from {name}.in; edit that file instead.\n"
# uv repeats the platforms we lock for in every marker; a marker that always holds says nothing.
EVERYWHERE = "sys_platform == 'darwin' or sys_platform == 'linux'"


def main() -> None:
    parser = argparse.ArgumentParser(description="Lock the package sets of the bases.")
    parser.add_argument("names", nargs="*", help="the bases to lock (all of them)")
    parser.add_argument("--upgrade", action="store_true", help="take newer versions where the .in file allows them")
    arguments = parser.parse_args()
    for base in BASES.values():
        if base.packaged and (not arguments.names or base.name in arguments.names):
            lock(base, upgrade=arguments.upgrade)


def lock(base: Base, *, upgrade: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch, "pyproject.toml")
        project.write_text(project_text(base), encoding="utf-8")
        resolved = Path(scratch, "resolved.txt")
        if base.lock_file.exists() and not upgrade:
            resolved.write_bytes(base.lock_file.read_bytes())
        command = [find_uv(), "pip", "compile", "--quiet", "--universal", "--no-config", "--no-header", "--no-annotate"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        subprocess.run([*command, project, "-o", resolved], cwd=scratch, env=environ, check=True)
        lines = [simplified(line) for line in resolved.read_text(encoding="utf-8").splitlines()]
    base.lock_file.write_text(HEADER.format(name=base.name) + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{base.name}: {len(lines)} packages")


def project_text(base: Base) -> str:
    """A project that stands for the base: only a project can say for which platforms and Pythons uv resolves."""
    oldest, newest = base.oldest_python, base.newest_python
    return "\n".join(
        [
            "[project]",
            'name = "base"',
            'version = "0"',
            f'requires-python = ">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"',
            f"dependencies = {json.dumps([package.text for package in base.direct()])}",
            "[tool.uv]",
            """environments = ["sys_platform == 'linux'", "sys_platform == 'darwin'"]""",
        ]
    )


def simplified(line: str) -> str:
    return line.replace(f" ; {EVERYWHERE}", "").replace(f" and ({EVERYWHERE})", "")


if __name__ == "__main__":
    main()
