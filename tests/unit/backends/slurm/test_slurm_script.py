"""The whole script of six profiles, compared with golden files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from airlane.backends.slurm.options import read_options
from airlane.backends.slurm.script import batch_script, time_limit_s
from airlane.errors import ConfigError
from airlane.store.paths import RunPaths
from airlane.store.records import Limits, RunRecord
from golden_text import check_golden
from unit.store.made_records import made_record

RUN_ID = "0vfpwx17"
HOME = Path("/fsx/ada/.air")
PYTHON = "/fsx/ada/airlane/bin/python"
HOUR_S = 3600


def run(accelerator_type: str, nodes: int, per_node: int, **changes: Any) -> RunRecord:
    return made_record(
        id=RUN_ID,
        experiment_name="sft-qwen",
        backend="slurm",
        nodes=nodes,
        accelerators=nodes * per_node,
        accelerators_per_node=per_node,
        accelerator_type=accelerator_type,
        **changes,
    )


def script_of(
    record: RunRecord,
    options: dict[str, Any],
    *,
    home: Path = HOME,
    python: str = PYTHON,
    exclude: tuple[str, ...] = (),
    max_time_s: int | None = None,
) -> str:
    read = read_options(options)
    paths = RunPaths(home / "runs" / "2026-11" / RUN_ID)
    limit = time_limit_s(record, read, max_time_s)
    return batch_script(record, paths, read, python=python, exclude=exclude, time_s=limit)


def check_script(name: str, text: str) -> None:
    """The golden file is the script; bash accepts it."""
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert done.stderr == ""
    check_golden(name, text.removesuffix("\n"))


def test_a_profile_that_says_nothing() -> None:
    check_script("slurm_plain.sh", script_of(run("CPU_4xCORE", 1, 4), {}))


def test_a_profile_for_gpus_with_an_account() -> None:
    record = run("GPU_8xH100", 2, 8, limits=Limits(3, 90 * 60.0, 30.0, 300.0))
    options = {
        "partition": "gpu",
        "account": "ml",
        "qos": "high",
        "cpus_per_accelerator": 12,
        "memory_per_node": "1000G",
        "accelerators": {"H100": "gpu:h100"},
    }
    check_script("slurm_gpus.sh", script_of(record, options))


def test_a_profile_that_chooses_its_nodes() -> None:
    options = {
        "reservation": "conference",
        "constraint": "[rack1|rack2]&ib",
        "exclude": ["gpu[1-3]", "gpu7"],
        "time": "2-12:00:00",
        "sbatch": ["--exclusive", "--switches=1@10:00", "--mail-type END"],
    }
    check_script("slurm_chosen_nodes.sh", script_of(run("GPU_8xB300", 4, 8), options))


def test_a_retry_in_a_partition_with_a_short_limit() -> None:
    record = run("GPU_1xA10", 1, 1, limits=Limits(3, 8 * HOUR_S, 30.0, 300.0))
    text = script_of(record, {"partition": "short", "exclude": "gpu1"}, exclude=("gpu4", "gpu5"), max_time_s=6 * HOUR_S)
    check_script("slurm_short_limit.sh", text)


def test_a_home_that_is_hard_to_quote() -> None:
    home = Path('/fsx/a da\'s "ünï" 100%j #1 $HOME/.air')
    check_script(
        "slurm_hard_to_quote.sh", script_of(run("CPU_1xCORE", 1, 1), {}, home=home, python="/fsx/a da's/bin/python")
    )


def test_a_run_without_the_accelerators_it_asks_for() -> None:
    record = run("GPU_8xH100", 2, 8, simulate=True)
    check_script("slurm_simulated.sh", script_of(record, {"partition": "cpu", "cpus_per_node": 8, "warn_s": 300}))


@pytest.mark.parametrize("home", ["/fsx/back\\slash", "/fsx/line\nbreak"])
def test_a_home_that_slurm_cannot_write_to_is_refused(home: str) -> None:
    with pytest.raises(ConfigError, match="a backslash or a line break"):
        script_of(run("CPU_1xCORE", 1, 1), {}, home=Path(home))


@pytest.mark.parametrize(
    ("retries", "timeout_s", "time", "max_time_s", "limit_s"),
    [
        (3, None, None, None, None),
        (3, None, "8:00:00", None, 8 * HOUR_S),
        (3, None, "8:00:00", HOUR_S, HOUR_S),
        (3, None, None, HOUR_S, None),  # the partition's default may be shorter than its limit
        (0, HOUR_S, None, None, 3900),  # the attempt, 150 s for its start and stop, 120 s at the end, in whole minutes
        (1, HOUR_S, None, None, 7680),
        (1, HOUR_S, "8:00:00", None, 7680),
        (3, 24 * HOUR_S, None, 24 * HOUR_S, 24 * HOUR_S),
    ],
)
def test_the_time_limit_holds_every_attempt_up_to_the_partitions_own(
    retries: int, timeout_s: float | None, time: str | None, max_time_s: int | None, limit_s: int | None
) -> None:
    record = run("CPU_1xCORE", 1, 1, limits=Limits(retries, timeout_s, 30.0, 300.0))
    options = read_options({"time": time} if time is not None else {})
    assert time_limit_s(record, options, max_time_s) == limit_s


def test_a_node_without_the_run_folder_says_so_and_exits_with_78(tmp_path: Path) -> None:
    text = script_of(run("CPU_1xCORE", 1, 1), {}, home=tmp_path / "not here")
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 78
    assert f"has no {tmp_path}/not here/runs/2026-11/{RUN_ID}: set home in the profile" in done.stderr


def test_a_node_without_the_interpreter_says_so_and_exits_with_78(tmp_path: Path) -> None:
    (tmp_path / "runs" / "2026-11" / RUN_ID).mkdir(parents=True)
    text = script_of(run("CPU_1xCORE", 1, 1), {}, home=tmp_path, python="/nowhere/bin/python")
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 78
    assert "has no /nowhere/bin/python: set python in the profile" in done.stderr
