"""What a node of a Ray cluster has for runs, as a program: prints one JSON object. It needs nothing of ours.

`python node_facts.py [FOLDER]`, started by Ray below one of its own processes; FOLDER is the storage of a profile.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

_RAYS_LIBRARY = re.compile(r"\s(/\S.*/(?:site|dist)-packages)/ray/_raylet\.so$", re.MULTILINE)
_MOST_PARENTS = 8


def facts(storage: str | None) -> dict[str, str | bool | None]:
    packages = rays_packages()
    return {
        "packages": str(packages) if packages is not None else None,
        # packages are in PREFIX/lib/pythonX.Y/site-packages
        "virtual": packages is not None and (packages.parents[2] / "pyvenv.cfg").exists(),
        **{name: packages is not None and (packages / name).is_dir() for name in ("uv", "pip", "virtualenv")},
        "storage": _obstacle(Path(storage)) if storage is not None else None,
    }


def rays_packages() -> Path | None:
    """The folder of packages that the Ray above this process was loaded from."""
    pid = os.getppid()
    for _ in range(_MOST_PARENTS):
        process = Path("/proc", str(pid))
        try:
            found = _RAYS_LIBRARY.search(process.joinpath("maps").read_text(errors="surrogateescape"))
            if found:
                return Path(found.group(1))
            pid = int(process.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
    return None


def _obstacle(folder: Path) -> str:
    """What keeps runs from saving there; empty where nothing does."""
    probe = folder / f".airlane-{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts(sys.argv[1] if len(sys.argv) > 1 else None)) + "\n")
