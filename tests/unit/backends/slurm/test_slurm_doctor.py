"""The checks of a profile for Slurm. srun is played by this machine: it runs the probe here, in the node's place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from airlane import __version__
from airlane.backends.base import Finding
from airlane.backends.slurm import doctor as doctor_module
from airlane.backends.slurm.doctor import doctor
from airlane.backends.slurm.options import read_options
from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm
from airlane.errors import BackendError, SlurmUnavailableError
from airlane.store.paths import Home
from unit.backends.slurm.answers import NO_ACCOUNTING, PARTITIONS, REFUSED, Played, failed, said


class PlayedNode(Played):
    """Runs what srun is given on this machine; `elsewhere` is the folder it sees in the place of the shared one."""

    def __init__(self, elsewhere: Path | None = None, **answers: Completed | Exception) -> None:
        recorded = {"sbatch": said("slurm-wlm 22.05.8\n"), "sacct": failed(NO_ACCOUNTING)}
        super().__init__(**(recorded | {"scontrol_partition": said(PARTITIONS)} | answers))
        self._elsewhere = elsewhere
        self._plays_srun = "srun" not in answers

    def __call__(self, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
        if command[0] != "srun" or not self._plays_srun:
            return super().__call__(command, timeout_s, env)
        self.commands.append(tuple(command))
        words = list(command[command.index("/bin/sh") :])
        if self._elsewhere is not None:
            words[4] = str(self._elsewhere)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a 'home' with ünïcode")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "SEE_FILE_S", 0)


def findings(run: Played, home: Home, **options: str) -> dict[str, Finding]:
    read = read_options({"python": sys.executable, **options})
    return {finding.name: finding for finding in doctor(read, Slurm(run, {}), home)}


def test_a_cluster_that_works_is_told_so(home: Home) -> None:
    run = PlayedNode()
    found = findings(run, home, account="ml", exclude="gpu7")
    assert list(found) == [
        "sbatch, srun, scontrol",
        "slurmctld",
        "sacct",
        "partition",
        "home on a node",
        "Python on a node",
        "containers",
    ]
    assert {name for name, finding in found.items() if finding.ok is False} == set()
    assert found["sbatch, srun, scontrol"].detail == "Slurm 22.05.8"
    assert found["sacct"].ok is None
    assert found["partition"].detail == "gpu, 3 nodes, no time limit, PreemptMode=REQUEUE"
    assert "is shared with" in found["home on a node"].detail
    assert found["Python on a node"].detail.endswith(f"has airlane {__version__}")
    assert list(home.root.iterdir()) == []
    assert {"--account=ml", "--exclude=gpu7", "--immediate=15"} <= set(run.commands[-1])


def test_a_home_that_is_not_shared_is_found(home: Home, tmp_path: Path) -> None:
    finding = findings(PlayedNode(tmp_path / "elsewhere"), home)["home on a node"]
    assert finding.ok is False
    assert "is not shared with" in finding.detail
    assert finding.hint == "set home in the profile to a folder that all nodes share"
    assert list(home.root.iterdir()) == []


def test_an_interpreter_that_is_not_there_is_found(home: Home) -> None:
    finding = findings(PlayedNode(), home, python="/nowhere/bin/python")["Python on a node"]
    assert finding.ok is False
    assert "/nowhere/bin/python" in finding.detail
    assert "not found" in finding.detail


def test_an_airlane_of_another_version_is_found(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho airlane=0.0.1\n")
    other.chmod(0o755)
    finding = findings(PlayedNode(), home, python=str(other))["Python on a node"]
    assert finding.ok is False
    assert finding.detail.startswith("airlane 0.0.1 on ")


@pytest.mark.parametrize(
    ("answer", "ok", "detail"),
    [
        (
            failed("srun: job 44 queued\nsrun: error: Unable to allocate resources: Requested nodes are busy\n"),
            None,
            "none",
        ),
        (failed("srun: error: Unable to allocate resources: Invalid qos specification\n"), False, "srun: Unable to"),
        (SlurmUnavailableError("srun gave no answer in 30 s"), None, "srun gave no answer in 30 s"),
    ],
)
def test_a_node_that_is_not_granted_ends_the_checks(
    home: Home, answer: Completed | Exception, ok: bool | None, detail: str
) -> None:
    found = findings(PlayedNode(srun=answer), home)
    assert list(found)[-1] == "a node"
    assert found["a node"].ok is ok
    assert found["a node"].detail.startswith(detail)
    assert list(home.root.iterdir()) == []


def test_without_slurm_on_this_machine_the_checks_end_at_once(home: Home) -> None:
    found = findings(PlayedNode(sbatch=BackendError("sbatch cannot be run: no such file or directory")), home)
    assert {name: finding.ok for name, finding in found.items()} == {"Slurm": False}


def test_a_controller_that_does_not_answer_is_found(home: Home) -> None:
    found = findings(PlayedNode(scontrol_partition=failed(REFUSED)), home)
    assert found["slurmctld"].ok is False
    assert found["slurmctld"].hint == "scontrol ping; then try again"


def test_a_partition_that_is_closed_or_missing_is_found(home: Home) -> None:
    closed = findings(PlayedNode(), home, partition="off")
    assert (closed["partition"].ok, closed["partition"].detail) == (False, "off is closed")
    assert "a node" not in closed
    assert findings(PlayedNode(), home, partition="of")["Slurm"].detail == "the cluster has no partition 'of'"
