"""What every test with a real Ray uses: one environment that has it, and one cluster that nobody harms."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_lab import RayLab

_AIR = Path(sys.executable).with_name("air")
_WORKLOAD = """\
experiment_name: environment
command: "true"
compute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}
environment: {version: AI5}
"""


@pytest.fixture(scope="session")
def ray_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with base AI5: Ray, torch, MLflow."""
    home = tmp_path_factory.mktemp("ray-environment") / "ünïcode"  # no space: Ray cannot start workers from below one
    home.mkdir()
    (home / "config.toml").touch()
    (home / "workload.yaml").write_text(_WORKLOAD)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIR_", "MLFLOW_", "RAY_"))}
    variables = {"AIR_HOME": str(home), "AIR_CONFIG": str(home / "config.toml")}
    line = [str(_AIR), "env", "build", str(home / "workload.yaml"), "--json"]
    done = subprocess.run(line, check=False, env={**kept, **variables}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(json.loads(done.stdout)["data"]["folder"])


def share_environment(environment: Path, home: Path) -> None:
    """Let another home use what has been built, by a link to the folder of environments."""
    (home / "environments").symlink_to(environment.parent)


@pytest.fixture(scope="session")
def ray_python(ray_environment: Path) -> Path:
    return ray_environment / "bin" / "python"


@pytest.fixture(scope="session")
def ray_lab(ray_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayLab]:
    """Three nodes of 2 CPUs and 2 logical GPUs, with a token. A test that kills any of it makes a RayLab of its own."""
    with RayLab(tmp_path_factory.mktemp("ray-lab"), ray_python) as lab:
        yield lab
