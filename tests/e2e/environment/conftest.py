"""A small world to build environments in: our own packages in a folder, our own base, no network."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.environment import EnvironmentPlan, bases, plan
from airlane.store.paths import Home

# An sdist whose build waits until a file appears: the test decides when a build goes on.
GATED_BACKEND = """
import os, sys, time, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    gate = os.environ["AIR_TEST_GATE"]
    with open(gate + ".started", "a") as file:
        file.write(str(os.getpid()) + "\\n")
    deadline = time.monotonic() + 60
    while not os.path.exists(gate) and time.monotonic() < deadline:
        time.sleep(0.01)
    name = "gated-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr("gated.py", "")
        wheel.writestr("gated-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: gated\\nVersion: 1\\n")
        wheel.writestr("gated-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("gated-1.dist-info/RECORD", "")
    return name
"""

# What a second process runs; prints what it is told of progress, then the folder.
BUILDER = """
import sys
from pathlib import Path
from airlane.environment import bases, build, plan
from airlane.store.paths import Home
folder, home, *dependencies = sys.argv[1:]
bases._FOLDER = Path(folder)
planned = plan("5", dependencies, base_dir=Path(folder), home=Home(Path(home)))
print(build(planned, progress=lambda message: print(message, flush=True)).folder, flush=True)
"""


class World:
    """Packages in `wheels`, the base `5` made of them, and a home; all below a folder whose name needs quoting."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wheels = root / "wheels"
        self.wheels.mkdir(parents=True)
        self.home = Home(root / "home")
        self.gate = root / "gate"

    def add_wheel(self, name: str, version: str, *requires: str, padding_bytes: int = 0) -> Path:
        path = self.wheels / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        metadata = "".join(f"Requires-Dist: {line}\n" for line in requires)
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{name}.py", f"__version__ = {version!r}\ndef main():\n    print({version!r})\n")
            wheel.writestr(f"{name}.bin", os.urandom(padding_bytes))
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/entry_points.txt", f"[console_scripts]\nshow-{name} = {name}:main\n")
            wheel.writestr(f"{info}/RECORD", "")
        return path

    def add_gated_sdist(self) -> str:
        """A dependency whose build waits for `self.gate`."""
        project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        project += '[project]\nname = "gated"\nversion = "1"\n'
        files = {"pyproject.toml": project, "backend.py": GATED_BACKEND, "PKG-INFO": "Name: gated\nVersion: 1\n"}
        with tarfile.open(self.root / "gated-1.tar.gz", "w:gz") as archive:
            for name, text in files.items():
                member = tarfile.TarInfo(f"gated-1/{name}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        return "./gated-1.tar.gz"

    def base(self, direct: str, lock: str) -> None:
        (self.root / "5.in").write_text(direct, encoding="utf-8")
        (self.root / "5.lock").write_text(lock, encoding="utf-8")

    def plan(self, *dependencies: str) -> EnvironmentPlan:
        return plan("5", dependencies, base_dir=self.root, home=self.home)

    def builder(self, *dependencies: str) -> subprocess.Popen[str]:
        """Another process that builds the same."""
        command = [sys.executable, "-c", BUILDER, str(self.root), str(self.home.root), *dependencies]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def leftovers(self) -> list[Path]:
        return list(self.home.environments.glob(".building-*"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    found = World(tmp_path / "a 'wörld' to build in")
    monkeypatch.setattr(bases, "_FOLDER", found.root)
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    for name, value in {
        "HOME": str(tmp_path / "user"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "UV_FIND_LINKS": str(found.wheels),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_HTTP_RETRIES": "0",
        "AIR_TEST_GATE": str(found.gate),
    }.items():
        monkeypatch.setenv(name, value)
    found.add_wheel("alpha", "1.0", "beta")
    found.add_wheel("alpha", "2.0", "beta")
    found.add_wheel("beta", "1.0")
    found.add_wheel("beta", "1.5")
    found.base("alpha>=1,<2\n", "alpha==1.0\nbeta==1.0\n")
    return found


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object], str], None]:
    """Poll a condition to a deadline."""

    def wait(condition: Callable[[], object], what: str) -> None:
        import time

        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"waited in vain for {what}")
            time.sleep(0.01)

    return wait
