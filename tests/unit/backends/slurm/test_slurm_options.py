from __future__ import annotations

import sys
from typing import Any

import pytest

from airlane.backends.slurm.options import SlurmOptions, read_options
from airlane.errors import ConfigError

EVERY_KEY: dict[str, Any] = {
    "partition": "gpu",
    "account": "ml",
    "qos": "high",
    "reservation": "maint-1",
    "constraint": "h100&ib",
    "exclude": ["gpu[1-3]", "gpu7"],
    "sbatch": ["--hint=nomultithread", "--mail-type END"],
    "time": "8:00:00",
    "cpus_per_accelerator": 12,
    "memory_per_node": "200G",
    "accelerators": {"H100": "gpu:h100"},
    "preflight": True,
    "silence_s": 30,
    "warn_s": 120,
    "python": "/fsx/me/.venv/bin/python",
}


def test_every_key_is_read() -> None:
    assert read_options(EVERY_KEY) == SlurmOptions(
        partition="gpu",
        account="ml",
        qos="high",
        reservation="maint-1",
        constraint="h100&ib",
        exclude="gpu[1-3],gpu7",
        sbatch=("--hint=nomultithread", "--mail-type END"),
        time_s=28800,
        cpus_per_accelerator=12,
        memory_per_node="200G",
        accelerators={"H100": "gpu:h100"},
        preflight=True,
        silence_s=30.0,
        warn_s=120,
        python="/fsx/me/.venv/bin/python",
    )


def test_nothing_has_to_be_said() -> None:
    options = read_options({})
    assert options == SlurmOptions()
    assert options.interpreter == sys.executable
    assert options.warning_s(stop_grace_s=30.0) == 60
    assert options.warning_s(stop_grace_s=1e6) == 65535


@pytest.mark.parametrize(
    ("options", "accelerator_type", "per_node", "cpus", "gres"),
    [
        ({}, "CPU_4xCORE", 4, 4, None),
        ({"cpus_per_node": 96}, "CPU_4xCORE", 4, 4, None),
        ({}, "GPU_8xH100", 8, None, "gpu"),
        ({"cpus_per_node": 96}, "GPU_8xH100", 8, 96, "gpu"),
        ({"cpus_per_accelerator": 12}, "GPU_8xH100", 8, 96, "gpu"),
        ({"accelerators": {"H100": "gpu:h100"}}, "GPU_8xH100", 8, None, "gpu:h100"),
        ({"accelerators": {"H100": "gpu:h100"}}, "h100_80gb", 8, None, "gpu:h100"),
        ({"accelerators": {"H100": "gpu:h100"}}, "GPU_1xA10", 1, None, "gpu"),
    ],
)
def test_an_accelerator_type_says_the_cpus_and_the_gres_of_a_node(
    options: dict[str, Any], accelerator_type: str, per_node: int, cpus: int | None, gres: str | None
) -> None:
    read = read_options(options)
    assert read.cpus(accelerator_type, per_node) == cpus
    assert read.gres(accelerator_type) == gres


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"particion": "gpu"}, "the slurm backend has no option 'particion'", "Did you mean `partition`?"),
        ({"partition": "a b"}, "partition must be text without spaces, not 'a b'", None),
        ({"partition": "--wrap=x"}, "partition must be text without spaces, not '--wrap=x'", None),
        ({"account": 7}, "account must be text without spaces, not 7", None),
        ({"constraint": "a\nb"}, "constraint must be text on one line, not 'a\\nb'", None),
        ({"exclude": []}, "exclude must be text without spaces, not []", None),
        ({"cpus_per_node": 0}, "cpus_per_node must be a whole number above 0, not 0", None),
        ({"cpus_per_node": True}, "cpus_per_node must be a whole number above 0, not True", None),
        ({"memory_per_node": "200 GB"}, "memory_per_node must be a size, not '200 GB'", 'write "200G"'),
        ({"time": 8}, "time must be a length of time, not 8", '"8:00:00" is 8 hours'),
        ({"time": "UNLIMITED"}, "time must be a length of time, not 'UNLIMITED'", '"8:00:00" is 8 hours'),
        (
            {"accelerators": "gpu"},
            "accelerators must be a table, not 'gpu'",
            'write accelerators = { H100 = "gpu:h100" }',
        ),
        ({"accelerators": {"H10": "gpu"}}, "accelerators: there is no accelerator 'H10'", "Did you mean `"),
        (
            {"accelerators": {"H100": "gpu:h100:8"}},
            "accelerators.H100 must be the name of a GRES, not 'gpu:h100:8'",
            "without a count",
        ),
        ({"preflight": "yes"}, "preflight must be true or false, not 'yes'", None),
        ({"silence_s": 0}, "silence_s must be seconds, 1 or more, not 0", None),
        ({"warn_s": 70000}, "warn_s must be seconds, at most 65535, not 70000", None),
        ({"python": "python3"}, "python must be the absolute path of an interpreter, not 'python3'", None),
        ({"sbatch": "--qos=high"}, "sbatch must be a list, not '--qos=high'", "sbatch = ["),
        ({"sbatch": ["qos=high"]}, "sbatch: 'qos=high' is no option of sbatch", "one option an item"),
        ({"sbatch": ["--a\n#SBATCH -x"]}, "sbatch: '--a\\n#SBATCH -x' is no option of sbatch", "one option an item"),
        (
            {"cpus_per_node": 8, "cpus_per_accelerator": 4},
            "cpus_per_node and cpus_per_accelerator both say how many CPUs a node gets",
            "leave one of them out",
        ),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, Any], message: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(options)
    assert caught.value.message == message
    if hint is not None:
        assert caught.value.hint is not None
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    "item",
    [
        "--output=x.log",
        "--outp=x.log",
        "-o x.log",
        "-ox.log",
        "--nodes=4",
        "-N4",
        "--ntasks=4",
        "--ntasks-per-node=8",
        "-n 4",
        "--job-name=x",
        "--comment=x",
        "--signal=USR2",
        "--requeue",
        "--no-requeue",
        "--no-kill",
        "--array=1-3",
        "--wrap=true",
        "--parsable",
        "--export=NONE",
        "--gres=gpu:1",
        "--gpus-per-node=8",
        "--cpus-per-task=4",
        "--time=60",
        "--chdir=x",
    ],
)
def test_an_sbatch_option_that_the_script_sets_is_refused(item: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options({"sbatch": [item]})
    assert caught.value.message == f"sbatch: {item!r} is not for a profile to set"
    assert caught.value.hint


@pytest.mark.parametrize(
    "item",
    [
        "--qos=high",
        "-p gpu",
        "--mem=4G",
        "--mem-per-cpu=2G",
        "--time-min=60",
        "--gres-flags=enforce-binding",
        "--nodelist=gpu[1-2]",
        "--exclusive",
        "--hold",
        "--mail-type=END",
        "--switches=1",
        "--nice=10",
        "--wckey=x",
        "--hint=nomultithread",
    ],
)
def test_any_other_sbatch_option_is_taken_as_it_stands(item: str) -> None:
    assert read_options({"sbatch": [item]}).sbatch == (item,)


def test_an_sbatch_option_that_has_a_key_is_given_once() -> None:
    with pytest.raises(ConfigError, match="'--qos=high' and qos set the same"):
        read_options({"qos": "low", "sbatch": ["--qos=high"]})
    with pytest.raises(ConfigError, match="'--mem-per-cpu=1G' and memory_per_node set the same"):
        read_options({"memory_per_node": "1G", "sbatch": ["--mem-per-cpu=1G"]})
