"""The tests of the recipes that need torch, Ray and MLflow, in an environment that has them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT

TESTS = ROOT / "tests" / "training"
PARTS = sorted({file.parent.name for file in TESTS.glob("*/test_*.py")})


def test_there_are_parts() -> None:
    assert {"data", "steps", "run", "batch", "tune"} <= set(PARTS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_passes_its_tests_in_the_environment_of_workloads(python: Path, part: str, tmp_path: Path) -> None:
    line = [
        str(python), "-m", "pytest", "-c", str(TESTS / "pytest.ini"), f"--confcutdir={TESTS}",
        f"--rootdir={ROOT}",  # so that other processes find the modules of the tests by their names
        str(TESTS / part), "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}",
    ]  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "PYTEST_", "RAY_"))}
    environment = kept | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        line, check=False, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(done.stdout)
    assert done.returncode == 0, f"{part}: the tests in its environment failed; what they printed is above"
