"""What a run brings to a cluster, and that its first program puts everything in place and leaves nothing."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from airlane import snapshot
from airlane.backends.ray import boot, package
from airlane.backends.ray.package import Package, kit
from airlane.errors import SnapshotError
from airlane.store.disk import make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.records import EnvironmentRecord, Limits, RunRecord, SnapshotRecord
from airlane.store.runs import RunContent, RunStore

SECRET = b'{"TOKEN": "hunter2-\\u00fc"}'
KEY = b"k" * 32


def record() -> RunRecord:
    return RunRecord(
        id="",
        experiment_name="ray",
        user="ada",
        submitted_at=1.7e9,
        workload_file="/w.yaml",
        backend="ray",
        profile="cluster",
        nodes=1,
        accelerators=1,
        accelerators_per_node=1,
        accelerator_type="CPU_1xCORE",
        simulate=False,
        limits=Limits(0, None, 30.0, 300.0),
        environment=EnvironmentRecord("AI5", (), "3.11", "abc"),
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a 'home' with ünïcode")


def made(home: Home, record: RunRecord, login: dict[str, str] | None = None) -> Package:
    new = RunStore(home).create(
        record, RunContent(workload="w", command="echo $X\n", parameters="a: 1\n", secrets=SECRET)
    )
    return Package(new.record, new.paths, home, login or {}, KEY)


def open_run(whole: zipfile.ZipFile) -> tarfile.TarFile:
    """The run's archive in a package."""
    return tarfile.open(fileobj=io.BytesIO(boot.sealed(whole.read(boot.RUN), KEY)))


def unzipped(file: Path, folder: Path) -> Path:
    """As Ray does it: file by file, with the mode that the zip gives; links and folders' modes are lost."""
    with zipfile.ZipFile(file) as whole:
        for info in whole.infolist():
            target = folder / info.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(whole.read(info))
            target.chmod(info.external_attr >> 16)
    return folder


def test_everything_in_the_package_is_for_its_owner_alone(home: Home, tmp_path: Path) -> None:
    whole = made(home, record())
    whole.write(tmp_path / "p.zip")
    assert stat.S_IMODE((tmp_path / "p.zip").stat().st_mode) == 0o600
    folder = unzipped(tmp_path / "p.zip", tmp_path / "there")
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert {path.name for path in folder.iterdir()} == {"boot.py", "start.sh", "after.sh", "kit.tar.gz", "run.sealed"}


def test_the_first_program_puts_the_run_in_place_and_leaves_no_secret_where_ray_unpacked(
    home: Home, tmp_path: Path
) -> None:
    whole = made(home, record(), {"MLFLOW_TRACKING_PASSWORD": "open"})
    whole.write(tmp_path / "p.zip")
    here = unzipped(tmp_path / "p.zip", tmp_path / "session" / "runtime_resources" / "working_dir_files" / "pkg")
    own = boot.session_folder(here) / f"air-{whole.record.id}" / "driver"
    assert own.parent.parent == tmp_path / "session"
    boot.unpack(here, own, KEY)
    (folder,) = (own / "home").glob(f"runs/*/{whole.record.id}")
    paths = RunPaths(folder)
    assert paths.command.read_text() == "echo $X\n"
    assert paths.parameters.read_text() == "a: 1\n"
    assert paths.secrets.read_bytes() == SECRET
    assert stat.S_IMODE(paths.secrets.stat().st_mode) == 0o600
    assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
    assert json.loads((own / "home" / package.TRACKING_LOGIN).read_text()) == {"MLFLOW_TRACKING_PASSWORD": "open"}
    assert (own / package.KIT).exists()
    assert not any(b"hunter2" in path.read_bytes() for path in here.rglob("*") if path.is_file())


def test_a_package_that_is_never_opened_says_nothing_of_the_run(home: Home, tmp_path: Path) -> None:
    made(home, record(), {"MLFLOW_TRACKING_PASSWORD": "open sesame"}).write(tmp_path / "p.zip")
    content = (tmp_path / "p.zip").read_bytes()
    assert not [word for word in (b"hunter2", b"open sesame", b"echo $X", b"secrets.json") if word in content]


@pytest.mark.parametrize("content", [b"", b"\0\0", b"\0words", bytes(range(256)) * 99])
def test_what_is_sealed_twice_is_the_content_and_once_it_is_not(content: bytes) -> None:
    assert boot.sealed(boot.sealed(content, KEY), KEY) == content
    assert len(boot.sealed(content, KEY)) == len(content)
    assert not content or boot.sealed(content, KEY) not in (content, boot.sealed(content, b"q" * 32))


def test_the_package_and_its_first_program_name_the_same_archives() -> None:
    assert (package.KIT, package.RUN, package.CODE) == (boot.KIT, boot.RUN, boot.CODE)


def test_our_package_travels_whole_and_is_the_same_each_time() -> None:
    first = kit()
    assert kit() == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        names = set(archive.getnames())
    assert {"airlane/supervise/batch.py", "airlane/launch/__main__.py", "airlane/backends/ray/start.sh"} <= names
    assert not any("__pycache__" in name for name in names)


def test_the_way_to_our_mlflow_server_travels_only_where_the_run_uses_it(home: Home, tmp_path: Path) -> None:
    make_private_folder(home.mlflow)
    for name in ("server.json", "login.json"):
        (home.mlflow / name).write_text("{}")
    for uri, expected in ((None, True), ("http://mlflow:5000", False), ("none", False)):
        whole = made(home, replace(record(), tracking_uri=uri))
        whole.write(tmp_path / "p.zip")
        with zipfile.ZipFile(tmp_path / "p.zip") as file, open_run(file) as run:
            assert ("mlflow/login.json" in run.getnames()) is expected


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "my code"
    (root / "sub").mkdir(parents=True)
    (root / "train.sh").write_text("echo hi\n")
    (root / "train.sh").chmod(0o755)
    (root / "sub" / "ü").write_text("x")
    (root / "link").symlink_to("sub/ü")
    return root


def test_code_arrives_with_its_links_and_modes(home: Home, code: Path, tmp_path: Path) -> None:
    from airlane.snapshot import CodeRequest

    plan = snapshot.plan(CodeRequest(code, (), None, None, None, ()), cache_dir=None)
    snapshot.pack(plan, home.snapshot_archive(plan.digest))
    frozen = SnapshotRecord(plan.digest, plan.root_name, plan.files, plan.size_bytes, None)
    whole = made(home, replace(record(), snapshot=frozen))
    whole.write(tmp_path / "p.zip")
    folder = unzipped(tmp_path / "p.zip", tmp_path / "there")
    root = snapshot.unpack(folder / package.CODE, tmp_path / "node")
    assert root.name == "my code"
    assert (root / "link").readlink() == Path("sub/ü")
    assert stat.S_IMODE((root / "train.sh").stat().st_mode) == 0o755
    damaged = (folder / package.CODE).read_bytes()[:-20]
    (folder / package.CODE).write_bytes(damaged)
    shutil.rmtree(root)
    with pytest.raises(SnapshotError, match="damaged"):
        snapshot.unpack(folder / package.CODE, tmp_path / "node")


def test_code_that_is_more_than_ray_takes_is_refused_with_both_sizes(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "MOST_PACKAGE_BYTES", 1000)
    with pytest.raises(SnapshotError, match=r"has \d+\.\d MB, and Ray takes 0\.0"):
        made(home, record()).write(tmp_path / "p.zip")


def test_code_that_is_gone_is_named(home: Home, tmp_path: Path) -> None:
    frozen = SnapshotRecord("abc", "code", 1, 1, None)
    with pytest.raises(SnapshotError, match="is gone"):
        made(home, replace(record(), snapshot=frozen)).write(tmp_path / "p.zip")


def test_the_script_says_when_no_python_with_ray_is_there(tmp_path: Path) -> None:
    script = Path(package.__file__).with_name("start.sh")
    for name in ("sed", "head", "uname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    env = {"PATH": str(tmp_path)}
    done = subprocess.run(["/bin/sh", str(script), "7k2m9q4d"], check=False, env=env, capture_output=True, text=True)
    assert done.returncode == 78
    assert "no Python with Ray" in done.stderr


def test_the_script_takes_the_first_python_that_has_ray(tmp_path: Path) -> None:
    """On PATH there is one without Ray under the first name that is tried, and one with it under the second."""
    script = Path(package.__file__).with_name("start.sh")
    for name in ("sed", "head", "uname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python").write_text('#!/bin/sh\n[ "$1" = -c ] || echo "$@"\n')
    for name in ("python3", "python"):
        (tmp_path / name).chmod(0o755)
    line = ["/bin/sh", str(script), "7k2m9q4d"]
    done = subprocess.run(line, check=False, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "boot.py 7k2m9q4d\n")


def after(folder: Path, *files: Path) -> int:
    """Start what removes them; the open end of its stdin."""
    reading, writing = os.pipe()
    script = Path(boot.__file__).with_name("after.sh")
    subprocess.run(["sh", str(script), str(folder), *map(str, files)], check=True, stdin=reading, timeout=10)
    os.close(reading)
    return writing


def await_removal(path: Path) -> None:
    deadline = time.monotonic() + 10
    while path.exists():
        assert time.monotonic() < deadline, f"{path} is still there"
        time.sleep(0.01)


def test_what_a_run_leaves_is_removed_when_its_process_is_gone_and_the_process_that_it_started(tmp_path: Path) -> None:
    own, file = tmp_path / "air-run" / "a 'node' ünïcode" / "0", tmp_path / "package" / "run.tar"
    for path in (own / "run" / "log", file):
        path.parent.mkdir(parents=True)
        path.touch()
    with subprocess.Popen(["sleep", "600"]) as started:
        life = after(own, file)
        os.write(life, b"%d\n" % started.pid)
        os.close(life)
        with pytest.raises(subprocess.TimeoutExpired):
            started.wait(0.3)
        assert own.exists(), "what it has started may still need it"
        started.kill()
    await_removal(tmp_path / "air-run")
    assert list((tmp_path / "package").iterdir()) == []


def test_checkpoints_stay_when_everything_else_of_a_node_is_removed(tmp_path: Path) -> None:
    own = tmp_path / "air-run" / "node" / "0"
    own.mkdir(parents=True)
    (own.parent / "checkpoints").mkdir()
    os.close(after(own))
    await_removal(own)
    assert (own.parent / "checkpoints").is_dir()
