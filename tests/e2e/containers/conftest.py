"""A Docker engine of the tests' own, Podman with a store of its own, and a small image for both."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.runs.conftest import Lane, lane
from lab.small_image import small_image_archive

__all__ = ["lane"]

_START_S = 60.0
# Podman always sets limits, and raised ones are refused in many test machines: this leaves them out.
_RUNTIME_WITHOUT_LIMITS = """\
#!/usr/bin/python3
import json, os, sys

words = sys.argv[1:]
if "create" in words and "--bundle" in words:
    path = os.path.join(words[words.index("--bundle") + 1], "config.json")
    with open(path) as file:
        content = json.load(file)
    content["process"].pop("rlimits", None)
    with open(path, "w") as file:
        json.dump(content, file)
os.execvp("runc", ["runc", *words])
"""


@dataclass(frozen=True)
class Engine:
    """A runtime with the variables that make it the tests' own."""

    runtime: str
    variables: dict[str, str]

    def __call__(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [self.runtime, *words],
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=check,
        )
        return done.stdout.strip()

    def containers(self) -> list[str]:
        """The names of all containers, ended ones included."""
        return self("ps", "--all", "--format", "{{.Names}}").split()


def _needs(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}")


@contextmanager
def docker_engine(folder: Path) -> Iterator[Engine]:
    """Containers use the network of this machine: no bridge, no rules."""
    _needs("docker", "dockerd")
    socket = f"unix://{folder}/docker.sock"
    words = ["--bridge=none", "--iptables=false", "--ip6tables=false", "--data-root", str(folder / "data")]
    places = ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid"), "-H", socket]
    engine = Engine("docker", {"DOCKER_HOST": socket})
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(["dockerd", *words, *places], stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + _START_S
        while not engine("version", "--format", "{{.Server.Version}}", check=False):
            assert daemon.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, "dockerd does not answer"
            time.sleep(0.1)
        yield engine
    finally:
        for name in engine("ps", "--all", "--quiet", check=False).split():
            engine("rm", "--force", name, check=False)
        daemon.terminate()
        daemon.wait(60)


@contextmanager
def podman_engine(folder: Path) -> Iterator[Engine]:
    _needs("podman", "runc", "conmon")
    runtime = folder / "runc-without-limits"
    runtime.write_text(_RUNTIME_WITHOUT_LIMITS)
    runtime.chmod(0o755)
    storage, settings = folder / "storage.conf", folder / "containers.conf"
    storage.write_text(f'[storage]\ndriver = "overlay"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/data"\n')
    settings.write_text(
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "plain"\n'
        f'[engine.runtimes]\nplain = ["{runtime}"]\n'
    )
    engine = Engine("podman", {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(settings)})
    yield engine
    engine("rm", "--all", "--force", check=False)
    engine("rmi", "--all", "--force", check=False)


@pytest.fixture(scope="session", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each engine in turn; the folder is short, because sockets are in it."""
    folder = Path(tempfile.mkdtemp(prefix="air-engine-"))
    start = {"docker": docker_engine, "podman": podman_engine}[request.param]
    with start(folder) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def image() -> Path:
    """A `.tar.gz` with bash, the usual commands and python3."""
    return small_image_archive()


@pytest.fixture(scope="session")
def saved_files(image: Path) -> dict[str, bytes]:
    """The files in the small image's archive."""
    with tarfile.open(image) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry)) is not None}


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


@pytest.fixture
def made_image(tmp_path: Path, saved_files: dict[str, bytes]) -> Callable[[str], Path]:
    """Writes an archive, always the same file with the same tag, whose image differs from others by a label."""
    (saved,) = json.loads(saved_files["manifest.json"])

    def make(label: str) -> Path:
        configuration = json.loads(saved_files[saved["Config"]])
        configuration["config"]["Labels"] = {"airlane.test": label}
        content = json.dumps(configuration).encode()
        name = f"{hashlib.sha256(content).hexdigest()}.json"
        manifest = [{**saved, "Config": name, "RepoTags": ["airlane-made:1"]}]
        layers = {layer: saved_files[layer] for layer in saved["Layers"]}
        write_tar(tmp_path / "made.tar", {name: content, **layers, "manifest.json": json.dumps(manifest).encode()})
        return tmp_path / "made.tar"

    return make


@dataclass
class BoxedLane:
    """A lane whose runs are in containers of one engine."""

    lane: Lane
    engine: Engine
    image: Path

    def workload(self, command: str, **fields: object) -> Path:
        url = str(fields.pop("image", self.image))
        return self.lane.workload(command, **{"environment": {"docker_image": {"url": url}}, **fields})

    def profile(self, *lines: str) -> None:
        """Further keys of the profile."""
        config = Path(self.lane.env["AIR_CONFIG"])
        config.write_text("\n".join([config.read_text().rstrip(), *lines, ""]))

    def left(self, run_id: str) -> list[str]:
        """The containers of a run that are still there."""
        return [name for name in self.engine.containers() if run_id in name]


@pytest.fixture
def boxed(lane: Lane, engine: Engine, image: Path, monkeypatch: pytest.MonkeyPatch) -> BoxedLane:
    lane.env.update(engine.variables)
    for name, value in engine.variables.items():  # a run that the library submits is supervised by a fork of ours
        monkeypatch.setenv(name, value)
    made = BoxedLane(lane, engine, image)
    made.profile(f'container = "{engine.runtime}"')
    return made
