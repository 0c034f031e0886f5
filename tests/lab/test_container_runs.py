"""Workloads in containers on the lab's nodes, each with an engine of its own: what they find, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.contained_runs import ContainedRuns, containers_of
from lab.docker_engine import DockerEngine
from lab.small_image import TAG, write_relabeled

NOBODY = 65534


@pytest.fixture
def runs(lab: Lab, tmp_path: Path, engines: dict[str, DockerEngine], small_image: Path) -> ContainedRuns:
    return ContainedRuns(lab, tmp_path, engines, small_image)


def test_every_node_runs_the_command_in_a_container_of_its_own(runs: ContainedRuns, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("from the file system\n", encoding="utf-8")
    runs.profile("lab", container="docker", mounts=[f"{tmp_path / 'data'}:/data:ro"])
    command = """
      echo "node $NODE_RANK of $NUM_NODES on $(hostname), uid $(id -u), first process $(cat /proc/1/comm)"
      echo "gpus '$CUDA_VISIBLE_DEVICES', path $PATH, python $(python3 -c 'import sys; print(sys.prefix)')"
      echo "master $MASTER_ADDR, $(cat /data/x)"
      touch /data/y || echo "read-only"
      echo "kept by $NODE_RANK" > "$AIR_CHECKPOINT_DIR/$NODE_RANK"
      touch "$RAY_TMPDIR/x"
    """
    run = runs.submit(command)
    facts = runs.ended(run, within_s=60)
    assert facts["status"] == "SUCCESS", runs.log(run)
    assert facts["image"]["runtime"] == "docker"
    hosts = facts["attempts"][0]["hosts"]
    assert len(set(hosts)) == 2
    for node, host in enumerate(hosts):
        log = runs.log(run, node=node)
        assert f"node {node} of 2 on {host}, uid 0, first process bash\n" in log
        assert "gpus '', path /usr/bin, python /usr\n" in log
        assert f"master {runs.lab.address(hosts[0])}, from the file system\n" in log
        assert "read-only\n" in log
        assert (runs.paths(run).checkpoints / str(node)).read_text() == f"kept by {node}\n"


def test_the_first_failure_in_a_container_is_the_cause_and_stops_the_others(runs: ContainedRuns) -> None:
    run = runs.submit('[ "$NODE_RANK" = 0 ] || { echo "no luck"; exit 126; }; sleep 1000')
    facts = runs.ended(run, within_s=60)
    cause = facts["cause"]
    assert (facts["status"], cause["kind"], cause["exit_code"], cause["node"]) == ("FAILED", "exit_code", 126, 1)
    assert cause["host"] == facts["attempts"][0]["hosts"][1]


def test_an_image_is_loaded_once_a_node_and_a_newer_one_of_the_same_tag_is_another(
    runs: ContainedRuns, tmp_path: Path
) -> None:
    archive = tmp_path / "an 'image'.tar"
    write_relabeled(archive, f"old {time.time_ns()}", source=runs.image)
    for times in (1, 0):
        run = runs.submit("true", image=archive)
        assert runs.ended(run, within_s=60)["status"] == "SUCCESS"
        assert [runs.log(run, node=node).count("[airlane] loading") for node in range(2)] == [times, times]
    write_relabeled(archive, f"new {time.time_ns()}", source=runs.image)
    run = runs.submit("true", image=archive)
    facts = runs.ended(run, within_s=60)
    assert facts["status"] == "SUCCESS"
    assert [runs.log(run, node=node).count("[airlane] loading") for node in range(2)] == [1, 1]


def test_an_image_that_cannot_be_had_is_refused_or_named_as_the_cause(runs: ContainedRuns, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(runs.image.read_bytes()[:5_000_000])
    for image, words in {tmp_path / "none.tar.gz": "there is no", broken: "damaged"}.items():
        refused = runs.air("run", "-p", "lab", "-f", runs.workload("true", image=image))
        assert refused.returncode != 0
        assert words in refused.stderr
        assert str(image) in refused.stderr
    run = runs.submit("true", image="127.0.0.1:1/nowhere:1", max_retries=3)
    facts = runs.ended(run, within_s=60)
    assert (facts["status"], facts["cause"]["kind"], len(facts["attempts"])) == ("FAILED", "setup", 1)
    assert "127.0.0.1:1/nowhere:1" in facts["cause"]["summary"]
    assert "check its name" in facts["cause"]["summary"]
    runs.profile("lab", container="apptainer")
    facts = runs.ended(runs.submit("true", image="a/b:1"), within_s=60)
    assert facts["cause"]["kind"] == "setup"
    assert "apptainer is not installed on" in facts["cause"]["summary"]


CDI = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [],
}


def test_a_container_sees_the_gpus_of_its_grant_and_no_other(lab: Lab, tmp_path: Path, small_image: Path) -> None:
    """Podman, because this Docker knows GPUs through NVIDIA's toolkit alone; the device files are the lab's own."""
    devices = [
        {"name": str(gpu), "containerEdits": {"deviceNodes": [{"path": f"/dev/lab{gpu}", "hostPath": str(file)}]}}
        for gpu, file in enumerate(sorted((lab.folder / "dev").iterdir()))
    ]
    described = json.dumps({**CDI, "devices": devices})
    for node in lab.nodes:
        lab.exec(node, ["sh", "-c", 'mkdir -p /run/cdi && printf %s "$0" > /run/cdi/nvidia.json', described])
    runs = ContainedRuns(lab, tmp_path, {}, small_image)
    runs.profile("lab", container="podman", sbatch=[f"--nodelist={lab.nodes[0]}"])
    compute = {"num_accelerators": 1, "accelerator_type": "GPU_1xH100"}
    command = 'echo "gpus $CUDA_VISIBLE_DEVICES:" /dev/lab*; until [ -e "$AIR_CHECKPOINT_DIR/go" ]; do sleep 0.1; done'
    first, second = (runs.submit(command, compute=compute) for _ in range(2))
    for run in (first, second):
        runs.await_log(run, "gpus", nodes=1, within_s=60)
    for run in (first, second):
        (runs.paths(run).checkpoints / "go").touch()
    assert [runs.ended(run, within_s=60)["status"] for run in (first, second)] == ["SUCCESS", "SUCCESS"]
    assert sorted(runs.log(run).splitlines()[-1] for run in (first, second)) == [
        "gpus 0: /dev/lab0",
        "gpus 0: /dev/lab1",
    ]


@pytest.fixture
def installation() -> Iterator[Path]:
    """The Python of a copy of Airlane, in a folder that any user reaches and NOBODY owns."""
    with tempfile.TemporaryDirectory(prefix="lab-user-", dir="/var/tmp") as name:
        folder = Path(name)
        packages = folder / "venv" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
        subprocess.run([system_python(), "-m", "venv", "--without-pip", folder / "venv"], check=True)
        for package in ("airlane", "yaml", "zstandard", "rich", "shtab", "markdown_it", "mdurl", "pygments"):
            found = find_spec(package)
            assert found is not None
            assert found.origin is not None
            shutil.copytree(Path(found.origin).parent, packages / package)
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        yield folder / "venv" / "bin" / "python"


def system_python() -> str:
    """A Python of this version outside of root's home folder, which others may not enter."""
    for program in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        words = [os.path.realpath(program), "-c", "import encodings.punycode, sys; print(sys.version_info[1])"]
        with suppress(OSError, subprocess.CalledProcessError):
            told = subprocess.run(words, user=NOBODY, group=NOBODY, capture_output=True, text=True, check=True).stdout
            if int(told) == sys.version_info[1]:
                return words[0]
    pytest.skip(f"there is no Python 3.{sys.version_info[1]} that every user of this machine reaches")


def test_what_an_ordinary_user_writes_is_that_users(runs: ContainedRuns, installation: Path) -> None:
    assert runs.ended(runs.submit("true"), within_s=60)["status"] == "SUCCESS"  # each engine has the image now
    folder = installation.parents[2]
    theirs = ContainedRuns(runs.lab, folder, runs.engines, runs.image)
    theirs.profile("lab", container="docker", python=str(installation))
    command = 'echo "$(id -u):$(id -g) $(id -un) in $HOME"; touch "$HOME/x" "$RAY_TMPDIR/x" "$AIR_CHECKPOINT_DIR/x"'
    workload = theirs.workload(command, image=TAG)
    line = [str(installation), "-m", "airlane", "run", "-p", "lab", "--watch", "-f", str(workload)]
    for node in runs.lab.nodes:
        runs.lab.exec(node, ["chown", str(NOBODY), "/run/docker.sock"])
    done = subprocess.run(
        line,
        env={**theirs.env, "HOME": str(folder)},
        cwd=folder,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{NOBODY}:{NOBODY} " in done.stdout
    (written,) = folder.glob("*/runs/*/*/checkpoints/x")
    assert (written.stat().st_uid, written.stat().st_gid) == (NOBODY, NOBODY)
    assert containers_of(written.parents[1].name, runs.engines) == []
