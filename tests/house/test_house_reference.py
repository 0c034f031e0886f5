"""The pages of the reference that people write leave nothing out."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.backends import local
from airlane.backends.slurm import options as slurm
from airlane.launch.rendezvous import node_variables
from airlane.spec import profiles
from airlane.spec.runtime_variables import RUNTIME_VARIABLES
from airlane.store.paths import Home, RunPaths
from house.repository import DOCS

ROOT = Path("/r")


def page(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def names_of(paths: Home | RunPaths) -> set[str]:
    """The first part of every path that a class names, below its root."""
    values = [getattr(paths, name) for name in dir(type(paths)) if isinstance(getattr(type(paths), name), property)]
    return {value.relative_to(ROOT).parts[0] for value in values if isinstance(value, Path)}


@pytest.mark.parametrize("name", sorted(names_of(Home(ROOT)) | names_of(RunPaths(ROOT))))
def test_a_file_of_a_run_has_its_line(name: str) -> None:
    assert name in page("run-folder.md")


def test_a_file_of_a_node_has_its_line() -> None:
    paths = RunPaths(ROOT)
    files = [paths.log, paths.node_record, paths.node_order, paths.node_metrics, paths.code]
    named = {file(attempt=8, node=9).relative_to(paths.attempt(8)).as_posix().replace("9", "<n>") for file in files}
    missing = [name for name in {*named, paths.setup_log(8).name} if f"`{name}" not in page("run-folder.md")]
    assert missing == []


def test_a_variable_has_its_line_and_says_who_owns_it() -> None:
    given = node_variables(
        run_id="r",
        attempt=0,
        node=0,
        nodes=1,
        accelerators_per_node=1,
        master_addr="a",
        master_port=1,
        devices=("0",),
        code_source_path="c",
        checkpoint_dir="d",
        path="p",
    )
    text = page("variables.md")
    owned = [name for name in RUNTIME_VARIABLES if f"| `{name}` | owned |" not in text]
    others = [name for name in given.keys() - RUNTIME_VARIABLES if f"| `{name}` | |" not in text]
    assert (owned, others) == ([], [])


def test_a_key_of_the_configuration_has_its_line() -> None:
    keys = ["default", *profiles._READERS, *local._OPTIONS, *slurm._READERS]
    assert [key for key in keys if f"| `{key}` |" not in page("configuration.md")] == []
