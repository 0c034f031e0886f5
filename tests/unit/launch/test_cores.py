"""How many cores a process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airlane.launch import cores
from airlane.launch.cores import granted_cores, quota_cores, usable_cores


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 0),
        ({"cpu.max": "nonsense\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "0\n"}, None),
    ],
)
def test_the_quota_of_a_control_group_is_read(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert quota_cores(str(tmp_path)) == expected


@pytest.mark.parametrize(("quota", "expected"), [(None, 6), (0, 1), (3, 3), (64, 6)])
def test_less_than_a_core_counts_as_one_and_more_than_there_are_as_all(
    monkeypatch: pytest.MonkeyPatch, quota: int | None, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(6)), raising=False)
    monkeypatch.setattr(cores, "quota_cores", lambda: quota)
    assert usable_cores() == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, 6),
        ({"SLURM_CPUS_PER_TASK": "2"}, 2),
        ({"SLURM_CPUS_ON_NODE": "4"}, 4),
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_CPUS_ON_NODE": "4"}, 2),
        ({"SLURM_CPUS_ON_NODE": "64"}, 6),
        ({"SLURM_CPUS_ON_NODE": "2(x3)"}, 6),
    ],
)
def test_what_slurm_granted_counts_where_it_is_less(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(6)), raising=False)
    monkeypatch.setattr(cores, "quota_cores", lambda: None)
    assert granted_cores(environ) == expected
