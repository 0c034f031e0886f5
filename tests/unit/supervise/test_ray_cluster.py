"""What a run with `ray` lays out for its nodes."""

from __future__ import annotations

import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.backends.base import NodePlace
from airlane.launch.ray_settings import SETTINGS, TOKEN, RaySettings
from airlane.store.paths import RunPaths
from airlane.store.records import EnvironmentRecord, Limits, RayRecord, RunRecord
from airlane.supervise.layout import lay_out
from airlane.supervise.ray_cluster import forget_token, lay_out_ray, new_token, node_script

RAY = RayRecord(num_cpus=None, object_store_bytes=None, ready_timeout_s=600.0, public=False)
PLACES = (NodePlace(0, "alpha", "10.0.0.1"), NodePlace(1, "beta", "10.0.0.2"))


def record(**changes: Any) -> RunRecord:
    made = RunRecord(
        id="7k2m9q4d",
        experiment_name="ray",
        user="ada",
        submitted_at=0.0,
        workload_file="/w.yaml",
        backend="slurm",
        profile="hpc",
        nodes=2,
        accelerators=16,
        accelerators_per_node=8,
        accelerator_type="GPU_8xH100",
        simulate=False,
        limits=Limits(0, None, 30.0, 300.0),
        environment=EnvironmentRecord("AI5", (), "3.11", "abc"),
    )
    return replace(made, **changes)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path / "a 'run' with \"quotes\" and ünïcode")


def test_every_attempt_has_a_token_that_its_owner_alone_can_read_until_it_ends(paths: RunPaths) -> None:
    tokens = []
    for attempt in (0, 1):
        layout = lay_out(paths, attempt, PLACES[0])
        lay_out_ray(record(), RAY, attempt, PLACES, layout=layout, token=new_token())
        token = paths.ray(attempt) / TOKEN
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
        tokens.append(token.read_text())
    assert len(set(tokens)) == 2
    assert {len(token) for token in tokens} == {64}
    forget_token(paths, 0)
    forget_token(paths, 0)
    assert not (paths.ray(0) / TOKEN).exists()
    assert (paths.ray(1) / TOKEN).exists()


@pytest.mark.parametrize(
    ("changes", "ray", "gpus", "cpus"),
    [
        ({}, RAY, 8, None),
        ({}, replace(RAY, num_cpus=16), 8, 16),
        ({"accelerator_type": "CPU_8xCORE"}, RAY, 0, 8),
        ({"accelerator_type": "CPU_8xCORE"}, replace(RAY, num_cpus=2), 0, 2),
        ({"simulate": True}, RAY, 0, 8),
    ],
)
def test_a_node_offers_what_the_run_was_given(
    paths: RunPaths, changes: dict[str, Any], ray: RayRecord, gpus: int, cpus: int | None
) -> None:
    lay_out_ray(record(**changes), ray, 0, PLACES, layout=lay_out(paths, 0, PLACES[0]), token=new_token())
    settings = RaySettings.read(str(paths.ray(0) / SETTINGS))
    assert (settings.gpus_per_node, settings.cpus_per_node) == (gpus, cpus)
    assert (settings.hosts, settings.addresses) == (("alpha", "beta"), ("10.0.0.1", "10.0.0.2"))
    assert settings.command_file == str(paths.command)


def test_the_script_of_a_node_finds_python_by_either_name_and_says_when_there_is_none(tmp_path: Path) -> None:
    main, settings = tmp_path / "it's main.py", tmp_path / "the settings"
    script = tmp_path / "node.sh"
    script.write_text(node_script(main, settings, tmp_path / "our programs"))
    strict = ["/bin/bash", "-euo", "pipefail", str(script)]
    for name in ("python3", "python"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
        (folder / name).chmod(0o755)
        done = subprocess.run(strict, env={"PATH": str(folder)}, check=True, capture_output=True, text=True)
        assert done.stdout.splitlines() == ["-I", "-S", str(main), str(settings)]
    (tmp_path / "none").mkdir()
    none = {"PATH": str(tmp_path / "none")}
    done = subprocess.run(strict, env=none, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (
        127,
        "Ray cluster failed: there is no Python in the environment\n",
    )
