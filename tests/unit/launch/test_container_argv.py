"""The command lines of all runtimes, compared whole; Apptainer's and Enroot's were never run here."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from airlane.launch.container_argv import (
    FIRST_PROCESS,
    PLAIN_PROCESS,
    RUNTIMES,
    Node,
    box_folder,
    container_argv,
    inside_variables,
    passwd_text,
    removal_argv,
    takers,
    variables_text,
    visible_gpus,
)
from airlane.launch.order import ContainerOrder, Order
from golden_text import check_golden

ORDER = Order(
    run_id="7k2m9q4d",
    attempt=1,
    node_rank=3,
    command_file="/fsx/runs/7k2m9q4d/command.sh",
    working_folder="/fsx/runs/7k2m9q4d/attempts/1/code/3/train",
    log_file="/fsx/runs/7k2m9q4d/attempts/1/nodes/3.log",
    record_file="/fsx/runs/7k2m9q4d/attempts/1/nodes/3.json",
    env={"AIR_RUN_ID": "7k2m9q4d"},
    gpus=("GPU-aa", "GPU-bb"),
    scratch_folders=("/tmp/air-7k2m9q4d-1-3", box_folder("7k2m9q4d", attempt=1, node=3)),
    container=ContainerOrder(
        image="ghcr.io/me/train:1.2",
        folders=("/fsx/runs/7k2m9q4d",),
        mounts=("/fsx:/fsx", '/data "x", y:/data:ro'),
        arguments=("--privileged",),
    ),
)
NODE = Node(
    uid=1000,
    gid=1000,
    groups=(1000, 27),
    devices=("/dev/infiniband/uverbs0", "/dev/gdrdrv"),
    cpus="0,1,2",
    memory_bytes=1 << 36,
)
ROOT = Node(uid=0, gid=0)


def shown(argv: list[str]) -> str:
    """One option a line; scripts and the place of our package by name."""
    lines: list[str] = []
    for word in argv:
        text = word.replace(FIRST_PROCESS, "<first process>").replace(PLAIN_PROCESS, "<plain process>")
        if "airlane/launch" in text:
            text = "<launch package, read-only>"
        if word.startswith("-") or not lines or not lines[-1].startswith("-") or " " in lines[-1]:
            lines.append(text)
        else:
            lines[-1] += f" {text}"
    return "\n".join(lines)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_command_line_of_a_container(runtime: str) -> None:
    check_golden(f"container_{runtime}.txt", shown(container_argv(runtime, ORDER, "the-image", NODE)))


def test_root_is_root_inside_whatever_the_image_says() -> None:
    argv = container_argv("docker", ORDER, "the-image", ROOT)
    assert argv[argv.index("--user") + 1] == "0:0"
    assert not any("/etc/passwd" in word for word in argv)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_no_container_is_privileged_unless_the_profile_asks(runtime: str) -> None:
    assert ORDER.container is not None
    plain = replace(ORDER, container=replace(ORDER.container, arguments=()))
    assert "--privileged" in container_argv(runtime, ORDER, "i", NODE)
    assert "--privileged" not in container_argv(runtime, plain, "i", NODE)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_a_grant_no_gpu_is_handed_through(runtime: str) -> None:
    line = " ".join(container_argv(runtime, replace(ORDER, gpus=()), "i", ROOT))
    assert not any(word in line for word in ("--gpus", "nvidia.com/gpu", "--nv "))
    assert ("NVIDIA_VISIBLE_DEVICES=void" in line) == (runtime == "enroot")


@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_limits_are_left_out_where_the_engine_refuses_them(runtime: str) -> None:
    assert "--ulimit" not in container_argv(runtime, ORDER, "i", NODE, limits=False)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_no_value_of_a_variable_is_an_argument(runtime: str) -> None:
    order = replace(ORDER, env={**ORDER.env, "HF_TOKEN": "hunter2-hunter2"})
    assert not any("hunter2" in word for word in container_argv(runtime, order, "i", NODE))


def test_a_container_has_a_name_of_its_own() -> None:
    assert removal_argv("docker", ORDER) == ["docker", "rm", "--force", "air-7k2m9q4d-1-3"]
    assert removal_argv("podman", ORDER) == ["podman", "rm", "--force", "--time", "0", "air-7k2m9q4d-1-3"]


def test_indexes_begin_at_zero_where_only_granted_gpus_are_there() -> None:
    assert visible_gpus("docker", ("4", "6")) == ["0", "1"]
    assert visible_gpus("apptainer", ("4", "6")) == ["4", "6"]
    assert visible_gpus("podman", ("GPU-aa", "MIG-bb")) == ["GPU-aa", "MIG-bb"]


def test_the_image_keeps_its_path_and_the_user_gets_a_name_and_a_home() -> None:
    added = {"PATH": "/env/bin", "VIRTUAL_ENV": "/env", "CUDA_VISIBLE_DEVICES": "5", "USER": "someone", "X": "1"}
    order = replace(ORDER, gpus=("5",))
    assert inside_variables("docker", order, added, user="ada", home="/home/ada") == {
        "CUDA_VISIBLE_DEVICES": "0",
        "USER": "someone",
        "LOGNAME": "ada",
        "HOME": "/home/ada",
        "X": "1",
    }
    assert "HOME" not in inside_variables("docker", order, added, user="root", home=None)


def test_every_value_survives_the_way_in() -> None:
    values = {
        "A": "plain",
        "B": 'it\'s "quoted" $HOME `id` \\',
        "C": "two\nlines\n",
        "D": "",
        "E": "ünï\udcff",
        "UID": "7",
    }
    script = 'IFS= LC_ALL=C read -r -d \'\' lines; eval "$lines"; printf \'%s\\0\' "$A" "$B" "$C" "$D" "$E"'
    said = subprocess.run(["bash", "-euc", script], input=variables_text(values), capture_output=True, check=True)
    assert said.stderr == b""
    assert said.stdout.decode(errors="surrogateescape").split("\0")[:-1] == [values[name] for name in "ABCDE"]


def test_a_user_that_no_image_knows_can_be_looked_up() -> None:
    assert passwd_text("ada", 1000, 1001, "/home/ada").splitlines()[-1] == "ada:x:1000:1001::/home/ada:/bin/bash"


def test_an_archive_goes_to_a_runtime_that_takes_it() -> None:
    assert takers("/a/b.sif") == ("apptainer",)
    assert takers("/a/b.sqsh") == ("enroot",)
    assert takers("/a/b.tar.gz") == ("docker", "podman", "apptainer")


@pytest.mark.parametrize("script", [FIRST_PROCESS, PLAIN_PROCESS])
def test_the_first_process_is_bash_that_parses(script: str) -> None:
    subprocess.run(["bash", "-n", "-c", script], check=True)
