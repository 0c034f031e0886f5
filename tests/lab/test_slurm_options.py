"""Every option of a profile reaches a real Slurm, and what a real Slurm refuses is told with a next step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.backends.base import Compute
from airlane.backends.slurm import doctor as doctor_module
from airlane.backends.slurm import scheduler
from airlane.backends.slurm.capacity import check, max_time_s
from airlane.backends.slurm.doctor import doctor
from airlane.backends.slurm.hostlist import hostnames
from airlane.backends.slurm.jobs import EndKind, JobEnd, SlurmJob, Stage, job_end, read_pairs
from airlane.backends.slurm.options import read_options
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.script import batch_script, time_limit_s
from airlane.backends.slurm.words import pending_words
from airlane.errors import AirError, CapacityError, ConfigError, SlurmUnavailableError
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Limits, RunRecord
from lab.cluster import Lab
from unit.store.made_records import made_record

RUN_ID = "0vfpwx17"
HELD = "--hold"


@pytest.fixture
def slurm(lab: Lab) -> Slurm:
    return Slurm(env={**os.environ, **lab.env})


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """The folder of a run whose path has all that a batch script could stumble over."""
    run = RunPaths(tmp_path / 'a da\'s "home" 100%j #1 $HOME ünï' / "runs" / "2026-11" / RUN_ID)
    run.root.mkdir(parents=True)
    return run


@pytest.fixture
def interpreter(tmp_path: Path) -> str:
    """An interpreter that stands for the node's Python: it says what it was given and ends."""
    program = tmp_path / "the python"
    program.write_text('#!/bin/sh\necho "started with: $*"\n', encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def run(accelerator_type: str = "CPU_1xCORE", nodes: int = 1, per_node: int = 1, **changes: Any) -> RunRecord:
    return made_record(
        id=RUN_ID,
        experiment_name="sft-qwen",
        nodes=nodes,
        accelerators=nodes * per_node,
        accelerators_per_node=per_node,
        accelerator_type=accelerator_type,
        **changes,
    )


def script_of(
    record: RunRecord, paths: RunPaths, options: dict[str, Any], *, exclude: tuple[str, ...] = (), python: str = "/x"
) -> Path:
    read = read_options(options)
    script = paths.root / "batch.sh"
    limit = time_limit_s(record, read, None)
    text = batch_script(record, paths, read, python=python, exclude=exclude, time_s=limit)
    script.write_text(text, encoding="utf-8")
    return script


def shown(lab: Lab, job: int) -> dict[str, str]:
    return read_pairs(lab.run(["scontrol", "--oneliner", "show", "job", str(job)]).stdout)


def wait_for_end(lab: Lab, slurm: Slurm, job: int) -> SlurmJob:
    found: list[SlurmJob] = []

    def ended() -> bool:
        now = slurm.show(job)
        found[:] = [now] if now is not None else []
        return now is not None and now.stage is Stage.ENDED

    lab.wait_until(ended, timeout_s=30)
    return found[0]


@pytest.fixture
def reservation(lab: Lab) -> Iterator[str]:
    words = ["starttime=now", "duration=60", f"nodes={','.join(lab.nodes)}", "users=root", "flags=ignore_jobs"]
    lab.run(["scontrol", "create", "reservation", "reservationname=conference", *words])
    yield "conference"
    lab.run(["scontrol", "delete", "reservationname=conference"])


@pytest.fixture
def feature(lab: Lab) -> Iterator[str]:
    lab.run(["scontrol", "update", f"nodename={','.join(lab.nodes)}", "availablefeatures=rack1"])
    yield "rack1"
    lab.run(["scontrol", "update", f"nodename={','.join(lab.nodes)}", "availablefeatures=", "activefeatures="])


def test_every_option_of_a_profile_reaches_slurm(
    lab: Lab, slurm: Slurm, paths: RunPaths, reservation: str, feature: str
) -> None:
    first, second, _ = lab.nodes
    options = {
        "partition": "main,urgent",
        "account": "ml",
        "reservation": reservation,
        "constraint": feature,
        "exclude": [first],
        "cpus_per_accelerator": 2,
        "memory_per_node": "3G",
        "accelerators": {"H100": "gpu:h100"},
        "warn_s": 90,
        "sbatch": [HELD, "--nice=17"],
    }
    record = run("GPU_8xH100", 1, 2, limits=Limits(1, 3600.0, 30.0, 300.0))
    job = slurm.submit(script_of(record, paths, options, exclude=(second,)), paths.root)
    fields = shown(lab, job)
    assert {
        "JobName": "air-sft-qwen",
        "Comment": f"airlane run {RUN_ID}",
        "Partition": "main,urgent",
        "Account": "ml",
        "Reservation": reservation,
        "Features": feature,
        "NumNodes": "1-1",
        "NumTasks": "1",
        "CPUs/Task": "4",
        "MinMemoryNode": "3G",
        "TresPerNode": "gres:gpu:h100:2",
        "TimeLimit": "02:08:00",
        "Requeue": "1",
        "Nice": "17",
        "Reason": "JobHeldUser",
        "WorkDir": str(paths.root),
    }.items() <= fields.items()
    assert sorted(hostnames(fields["ExcNodeList"])) == sorted([first, second])
    assert slurm.jobs([job])[job].reason == "JobHeldUser"
    slurm.cancel(job)


def test_options_that_a_cluster_without_accounts_forgets_reach_sbatch(lab: Lab, paths: RunPaths) -> None:
    script = script_of(run(), paths, {"qos": "high", "warn_s": 90})
    done = lab.run(["sbatch", "-vv", "--test-only", str(script)])
    told = dict(re.findall(r"sbatch: (\S+)\s+: (.*)", done.stderr))
    assert told["qos"] == "high"
    assert told["signal"].startswith("B:")
    assert "@90" in told["signal"]
    assert told["open-mode"] == "a"
    assert told["export"] == "ALL"


def test_a_run_folder_that_is_hard_to_quote_gets_the_log(
    lab: Lab, slurm: Slurm, paths: RunPaths, interpreter: str
) -> None:
    job = slurm.submit(script_of(run(), paths, {}, python=interpreter), paths.root)
    ended = wait_for_end(lab, slurm, job)
    end = job_end(ended)
    assert end is not None
    assert end.kind is EndKind.COMPLETED
    assert paths.supervisor_log.read_text() == f"started with: -I -m airlane.supervise.batch {paths.root}\n"


def test_a_home_that_is_not_shared_is_told_by_the_end_of_the_job(lab: Lab, slurm: Slurm, paths: RunPaths) -> None:
    job = slurm.submit(script_of(run(), paths, {"sbatch": [HELD]}, python=sys.executable), paths.root)
    with lab.unshared(paths.root.parents[2]):
        lab.run(["scontrol", "release", str(job)])
        ended = wait_for_end(lab, slurm, job)
    end = job_end(ended)
    assert end is not None
    assert end.kind is EndKind.NO_OUTPUT
    assert ended.batch_host in lab.nodes


REFUSALS: list[tuple[dict[str, Any], RunRecord, type[AirError], str]] = [
    ({"partition": "mian"}, run(), ConfigError, "the cluster has no partition 'mian'"),
    ({}, run("GPU_8xH100", 1, 8), CapacityError, "no node of the partition can ever be what the run asks for"),
    ({"accelerators": {"A10": "tpu"}}, run("GPU_1xA10"), CapacityError, "the cluster has no such GRES"),
    ({"memory_per_node": "900G"}, run(), CapacityError, "no node has the memory of memory_per_node"),
    ({"reservation": "none"}, run(), ConfigError, "Slurm has no such reservation now"),
    ({"constraint": "rack9"}, run(), ConfigError, "no node has the features of constraint"),
    ({"exclude": "nowhere"}, run(), ConfigError, "Slurm does not know a node of exclude"),
    ({"sbatch": ["--licenses=matlab"]}, run(), ConfigError, "Slurm does not know a license"),
    ({"sbatch": ["--nonsense"]}, run(), ConfigError, "sbatch does not take an option of the profile"),
]


def test_what_slurm_refuses_is_told_with_a_next_step(slurm: Slurm, paths: RunPaths) -> None:
    for options, record, kind, message in REFUSALS:
        with pytest.raises(AirError) as caught:
            slurm.submit(script_of(record, paths, options), paths.root)
        assert type(caught.value) is kind
        assert caught.value.message.startswith(message)
        assert caught.value.hint


def test_the_cluster_says_what_it_can_hold(lab: Lab, slurm: Slurm) -> None:
    named = read_options({"accelerators": {"H100": "gpu:h100"}, "cpus_per_accelerator": 2})
    assert check(Compute(2, 2, "GPU_8xH100"), named, slurm) == (
        "4 × H100 on 2 nodes of Slurm's partition main (3 of 3 free now)",
    )
    with pytest.raises(CapacityError) as caught:
        check(Compute(1, 8, "GPU_8xH100"), named, slurm)
    assert caught.value.hint == "its nodes: gpu:h100:2, 8 CPUs, 8000 MB"
    assert max_time_s(read_options({"partition": "short"}), slurm) == 60
    lab.run(["scontrol", "update", f"nodename={lab.nodes[0]}", "state=down", "reason=broken"])
    lines = check(Compute(3, 1, "CPU_1xCORE"), read_options({}), slurm)
    assert lines == (
        "3 CPU cores on 3 nodes of Slurm's partition main (2 of 3 free now)",
        "only 2 nodes that could hold it are up: it waits for others",
    )


def test_a_job_that_waits_says_why(lab: Lab, slurm: Slurm, paths: RunPaths) -> None:
    first = slurm.submit(script_of(run(), paths, {"sbatch": ["--exclusive", HELD]}, python="/x"), paths.root)
    second = slurm.submit(script_of(run(), paths, {}), paths.root, after=first)
    lab.wait_until(lambda: slurm.jobs([second])[second].reason == "Dependency", timeout_s=10)
    words = {number: pending_words(job, 0) for number, job in slurm.jobs([first, second]).items()}
    assert words == {
        first: "held by its user: scontrol release starts it",
        second: "waiting for another Slurm job to end",
    }
    slurm.cancel(first, pending_only=True)
    slurm.cancel(second)
    slurm.cancel(second)
    assert wait_for_end(lab, slurm, first).stage is Stage.ENDED


def test_no_such_job_is_an_answer_and_a_stopped_controller_is_none(
    lab: Lab, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slurm.jobs([987_654]) == {}
    assert slurm.show(987_654) is None
    slurm.cancel(987_654)
    assert slurm.account([987_654]) == {}
    lab.stop_controller()
    with pytest.raises(SlurmUnavailableError):
        slurm.jobs([987_654])
    monkeypatch.setattr(scheduler, "QUERY_S", 1.0)
    with pytest.raises(SlurmUnavailableError, match="gave no answer in 1 s"):
        slurm.cancel(987_654)
    assert [finding.ok for finding in doctor(read_options({}), slurm, Home(Path("/nowhere")))] == [True, False]


@pytest.fixture
def sleeper(tmp_path: Path) -> str:
    """An interpreter that stands for a supervisor which does not end by itself."""
    program = tmp_path / "sleeper"
    program.write_text("#!/bin/sh\nexec sleep 1000\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


ENDS = {"requeued": EndKind.REQUEUED, "canceled": EndKind.PREEMPTED, "main": EndKind.CANCELED}


@pytest.mark.parametrize("partition", ENDS)
def test_how_a_job_lost_its_nodes_is_told_apart(
    lab: Lab, slurm: Slurm, paths: RunPaths, sleeper: str, partition: str
) -> None:
    options = {"partition": partition, "sbatch": ["--exclusive"]}
    job = slurm.submit(script_of(run(nodes=3), paths, options, python=sleeper), paths.root)
    lab.wait_until(lambda: slurm.jobs([job])[job].stage is Stage.RUNNING, timeout_s=20)
    if partition == "main":
        slurm.cancel(job)
    else:
        lab.run(["srun", "--partition=urgent", "--nodes=3", "--exclusive", "true"])

    def kind() -> EndKind | None:
        now = slurm.show(job)
        found = job_end(now) if now is not None else None
        return found.kind if found is not None else None

    lab.wait_until(lambda: kind() is ENDS[partition], timeout_s=30)


DEATHS = {"exit 3": JobEnd(EndKind.FAILED, 3), "kill -9 $$": JobEnd(EndKind.FAILED, 0, 9)}


@pytest.mark.parametrize("words", DEATHS)
def test_a_supervisor_that_dies_leaves_its_exit_code_or_signal(
    lab: Lab, slurm: Slurm, paths: RunPaths, interpreter: str, words: str
) -> None:
    Path(interpreter).write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8")
    job = slurm.submit(script_of(run(), paths, {}, python=interpreter), paths.root)
    assert job_end(wait_for_end(lab, slurm, job)) == DEATHS[words]


def test_partitions_and_nodes_say_what_they_are(lab: Lab, slurm: Slurm) -> None:
    modes = {partition.name: partition.preempt_mode for partition in slurm.partitions()}
    assert {"requeued": "REQUEUE", "canceled": "CANCEL", "main": "OFF"}.items() <= modes.items()
    node = slurm.node(lab.nodes[0])
    assert node is not None
    assert (node.name, node.fit) == (lab.nodes[0], True)
    assert slurm.node("nowhere") is None


def test_a_node_proves_what_a_run_needs(
    lab: Lab, slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "SEE_FILE_S", 1)
    home = Home(tmp_path / "home")
    options = read_options({"python": sys.executable})
    found = {finding.name: finding for finding in doctor(options, slurm, home)}
    assert [name for name, finding in found.items() if finding.ok is False] == []
    assert f"is shared with {lab.nodes[0]}" in found["home on a node"].detail
    assert list(home.root.iterdir()) == []
    with lab.unshared(home.root):
        alone = {finding.name: finding for finding in doctor(replace(options, python="/x"), slurm, home)}
    assert alone["home on a node"].detail == f"{home.root} is not shared with {lab.nodes[0]}"
    assert alone["Python on a node"].ok is False
    assert (
        subprocess.run(["squeue", "-h"], env={**os.environ, **lab.env}, capture_output=True, check=True).stdout == b""
    )
