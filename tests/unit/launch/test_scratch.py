"""Folders of agents that were killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.launch.container_argv import box_folder
from airlane.launch.rendezvous import ray_tmpdir
from airlane.launch.scratch import remove_left_scratch


@pytest.fixture
def folders() -> list[Path]:
    """Of two attempts on two nodes, and of another run."""
    names = [("testscra", attempt, node) for attempt in (0, 1) for node in (0, 1)] + [("testscrb", 0, 0)]
    made = [
        Path(name(run, attempt=attempt, node=node)) for run, attempt, node in names for name in (ray_tmpdir, box_folder)
    ]
    for folder in made:
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "file").touch()
    return made


def left(folders: list[Path]) -> list[str]:
    """The names of those that are there, each pair of a node once."""
    there = [folder.name.removeprefix("air-test") for folder in folders if folder.exists()]
    assert [f"{name}.box" for name in there[::2]] == there[1::2]
    return there[::2]


def test_what_killed_agents_left_is_removed_node_by_node_and_then_all(folders: list[Path]) -> None:
    remove_left_scratch("testscra", attempt=1, node=0)
    assert left(folders) == ["scra-0-0", "scra-0-1", "scra-1-1", "scrb-0-0"]
    remove_left_scratch("testscra", attempt=0)
    assert left(folders) == ["scra-1-1", "scrb-0-0"]
    remove_left_scratch("testscra")
    assert left(folders) == ["scrb-0-0"]
    remove_left_scratch("testscrb")
    assert left(folders) == []
