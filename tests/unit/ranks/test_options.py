"""torchrun's command lines, read by air-ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airlane.errors import ArgumentError
from airlane.ranks.options import parser, read
from airlane.ranks.order import PYTHON
from airlane.ranks.settings import Settings
from airlane.ranks.shape import Request

# Every option of torchrun (torch 2.13), with a value where it takes one.
TORCHRUN = {
    "--nnodes": "2",
    "--nproc-per-node": "2",
    "--rdzv-backend": "c10d",
    "--rdzv-endpoint": "head:29400",
    "--rdzv-id": "77",
    "--rdzv-conf": "timeout=900",
    "--standalone": None,
    "--max-restarts": "3",
    "--monitor-interval": "1",
    "--start-method": "spawn",
    "--event-log-handler": "null",
    "--role": "trainer",
    "--module": None,
    "--no-python": None,
    "--run-path": None,
    "--log-dir": "logs",
    "--redirects": "3",
    "--tee": "3",
    "--local-ranks-filter": "0",
    "--duplicate-stdout-filters": "a,b",
    "--duplicate-stderr-filters": "a",
    "--node-rank": "0",
    "--master-addr": "head",
    "--master-port": "29500",
    "--local-addr": "host",
    "--logs-specs": "x",
    "--numa-binding": "node",
    "--signals-to-handle": "SIGTERM",
    "--shutdown-timeout": "30",
    "--virtual-local-rank": None,
}


def settings(*words: str) -> Settings:
    return read(words, {})[0]


def request(*words: str) -> Request:
    return settings(*words, "train.py").request


@pytest.mark.parametrize("separator", ["-", "_"])
@pytest.mark.parametrize("name", TORCHRUN)
def test_every_option_of_torchrun_is_accepted_in_both_spellings(name: str, separator: str) -> None:
    value = TORCHRUN[name]
    spelled = "--" + name[2:].replace("-", separator)
    read([spelled, *([value] if value is not None else []), "train.py"], {})


def test_options_without_a_meaning_here_are_named_and_the_others_are_not() -> None:
    words = ["--rdzv_backend=c10d", "--rdzv-endpoint", "h:1", "-t", "3", "--max-restarts", "2", "--role=x", "train.py"]
    assert set(read(words, {})[1]) == {"--rdzv-backend", "--rdzv-endpoint", "--tee"}


def test_what_follows_the_script_is_the_scripts_own() -> None:
    command = settings("--nodes", "2", "train.py", "--nodes", "5", "-m", "--", "-h").command
    assert command.argv == (PYTHON, "train.py", "--nodes", "5", "-m", "--", "-h")
    assert command.script == "train.py"


def test_a_dash_dash_may_stand_before_the_script() -> None:
    assert settings("--nodes", "2", "--", "train.py", "--lr", "1").command.argv == (PYTHON, "train.py", "--lr", "1")


def test_a_module_a_program_and_a_path_are_run_as_torchrun_runs_them() -> None:
    assert settings("-m", "my.training", "x").command.argv == (PYTHON, "-m", "my.training", "x")
    assert settings("--no-python", "bash", "-c", "echo $RANK").command.argv == ("bash", "-c", "echo $RANK")
    assert settings("--no_python", "./run.sh").command.script == "./run.sh"
    assert settings("--run-path", "/a/b.py", "x").command.argv[-2:] == ("/a/b.py", "x")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("", Request(1, None)),
        ("--nnodes 2 --nproc-per-node 8", Request(2, 2, 8)),
        ("--nnodes=1:4 --nproc_per_node=gpu", Request(1, 4, "gpu")),
        ("--nodes 2 --gpus-per-node 8", Request(2, 2, 8, takes_gpus=True)),
        ("--gpus-per-node auto", Request(1, None, None, takes_gpus=True)),
        ("--nproc-per-node cpu --cpus-per-rank 0.5", Request(1, None, "cpu", None, 0.5)),
        ("--standalone --nproc-per-node 2 --cpu-only", Request(1, 1, 2, takes_gpus=False)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nodes_and_ranks_are_asked_for_in_torchruns_words(words: str, asked: Request) -> None:
    assert request(*words.split()) == asked


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--nodes 0 x.py",
        "--nodes 4:2 x.py",
        "--nodes two x.py",
        "--nproc-per-node -1 x.py",
        "--nproc-per-node all x.py",
        "--gpus-per-node 2 --nproc-per-node 2 x.py",
        "--gpus-per-node 2 --cpu-only x.py",
        "--max-restarts -1 x.py",
        "--timeout 0 x.py",
        "--watchdog soon x.py",
        "--cpus-per-rank inf x.py",
        "--env NAME x.py",
        "--working-dir /not/there x.py",
        "--no-python -m x",
        "--unknown x.py",
        "--nodes",
    ],
)
def test_what_is_wrong_is_refused_with_what_to_type(words: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        read(words.split(), {})
    assert refused.value.exit_code == 2
    assert (refused.value.hint or "").startswith(("air-ranks ", "--nodes"))


def test_a_topology_is_a_file_or_a_list(tmp_path: Path) -> None:
    file = tmp_path / "order of nodes"
    file.write_text("10.0.0.2\n10.0.0.1\n")
    assert settings("--topology", str(file), "x.py").topology == ("10.0.0.2", "10.0.0.1")
    assert settings("--topology", "b,a", "x.py").topology == ("b", "a")


def test_variables_and_deadlines_are_read() -> None:
    found = settings("--env", "A=b=c", "--env", "E=", "--watchdog", "1.5", "--shutdown_timeout", "3", "x.py")
    assert found.env == {"A": "b=c", "E": ""}
    assert (found.watchdog_s, found.stop_grace_s, found.timeout_s) == (1.5, 3, 600)


def test_the_environment_is_sent_without_what_belongs_to_this_machine() -> None:
    found, _ = read(["x.py"], {"HF_TOKEN": "s", "HOSTNAME": "here", "RANK": "1", "RAY_ADDRESS": "a:1"})
    assert found.sent == {"HF_TOKEN": "s"}


def test_ranks_are_logged_to_files_but_in_a_run_whose_log_masks_secrets() -> None:
    assert read(["x.py"], {})[0].log_dir == "ranks-logs"
    assert read(["x.py"], {"AIR_RUN_ID": "r"})[0].log_dir is None
    assert read(["--log-dir", "d", "x.py"], {"AIR_RUN_ID": "r"})[0].log_dir == "d"


def test_help_begins_with_an_example_and_names_every_option_once() -> None:
    text = parser().format_help()
    assert text.startswith("air-ranks --nodes 2 --gpus-per-node 8 train.py")
    own = {
        name for action in parser()._actions for name in action.option_strings if name[:2] == "--" and "_" not in name
    }
    assert [name for name in own if not re.search(rf"(?<![\w-]){re.escape(name)}\b", text)] == []
