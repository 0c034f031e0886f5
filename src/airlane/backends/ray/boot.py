"""The first thing that runs on the cluster: unpacks what a run brings, and becomes its supervisor.

`python boot.py RUN_ID`, in the folder where Ray has unpacked the package (package.py). Ours is not there yet.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NoReturn

KIT, RUN, CODE = "kit.tar.gz", "run.sealed", "code.tar.gz"
KEY = "AIR_RUN_KEY"
BELOW_THE_SESSION = "/runtime_resources/"


def session_folder(here: Path) -> Path:
    """Ray unpacks packages below the folder of its session."""
    session, found, _ = str(here).partition(BELOW_THE_SESSION)
    return Path(session) if found else Path(tempfile.gettempdir())


def sealed(content: bytes, key: bytes) -> bytes:
    """What nobody reads without the key; done again, it is the content. A key is for one content alone."""
    stream = hashlib.shake_256(key).digest(len(content))
    return (int.from_bytes(content, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(content), "big")


def unpack(here: Path, own: Path, key: bytes) -> None:
    """Everything in place below `own`, for this user alone, and nothing left here."""
    own.mkdir(mode=0o700, parents=True)
    own.parent.chmod(0o700)
    run = io.BytesIO(sealed((here / RUN).read_bytes(), key))
    with tarfile.open(here / KIT) as archive:
        archive.extractall(own / "kit", filter="data")
    with tarfile.open(fileobj=run) as archive:
        archive.extractall(own / "home", filter="data")
    (here / RUN).unlink()
    (here / KIT).rename(own / KIT)
    if (here / CODE).exists():
        (here / CODE).rename(own / CODE)


def leave_nothing(here: Path, own: Path) -> None:
    """Have everything removed when this process is gone, and what it becomes, whatever ends it."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    line = ["/bin/sh", str(here / "after.sh"), str(own), *(str(here / name) for name in (RUN, KIT, CODE))]
    subprocess.run(line, check=True, stdin=reading, start_new_session=True)
    os.close(reading)


def main(arguments: list[str]) -> NoReturn:
    """Become the run's supervisor."""
    os.umask(0o077)
    run_id, here = arguments[1], Path(__file__).resolve().parent
    own = session_folder(here) / f"air-{run_id}" / "driver"
    leave_nothing(here, own)
    try:
        unpack(here, own, bytes.fromhex(os.environ.pop(KEY)))
    except BaseException:
        shutil.rmtree(own, ignore_errors=True)
        raise
    (folder,) = (own / "home").glob(f"runs/*/{run_id}")
    before = os.environ.get("PYTHONPATH")
    path = str(own / "kit") + (os.pathsep + before if before else "")
    supervisor = [sys.executable, "-m", "airlane.supervise.batch", str(folder)]
    os.execve(sys.executable, supervisor, {**os.environ, "PYTHONPATH": path})  # noqa: S606


if __name__ == "__main__":
    main(sys.argv)
