"""A CI that has root, or the lab, cannot skip the tests that need it without being told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from house.repository import ROOT

SKIPPED = """
import pytest

def test_of_another_user():
    pytest.skip("needs root: a second user")

def test_of_a_mount():
    pytest.skip("only root on Linux can mount a file system")

def test_of_a_device():
    pytest.skip("needs a GPU")
"""
OF_THE_LAB = """
import pytest

@pytest.mark.lab
def test_of_slurm():
    pass

def test_that_needs_nothing():
    pass
"""
REQUIRED = ("AIR_REQUIRE_ROOT_TESTS", "AIR_REQUIRE_LAB_TESTS")


def told(folder: Path, sample: str, *, path: str | None = None, required: str = "") -> str:
    """What pytest prints about a file of tests, below this project's own conftest."""
    (folder / "test_sample.py").write_text(sample, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -rs --strict-markers\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", str(folder)]
    env = {name: value for name, value in os.environ.items() if name not in REQUIRED}
    env |= {"PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env |= {"PATH": path} if path else {}
    env |= {required: "1"} if required else {}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("required", "result"), [("AIR_REQUIRE_ROOT_TESTS", "2 failed, 1 skipped"), ("", "3 skipped")], ids=["root", "-"]
)
def test_a_test_that_misses_root_fails_where_root_is_required(tmp_path: Path, required: str, result: str) -> None:
    text = told(tmp_path, SKIPPED, required=required)
    assert result in text.splitlines()[-1]
    assert ("0 tests that need root ran" in text) == bool(required)


def test_a_test_of_the_lab_is_skipped_with_one_line_that_names_what_is_not_there(tmp_path: Path) -> None:
    text = told(tmp_path, OF_THE_LAB, path=str(tmp_path))
    lines = [line for line in text.splitlines() if line.startswith("SKIPPED")]
    assert len(lines) == 1
    assert "the lab wants root on Linux, Slurm and Docker (not here: slurmctld, slurmd, slurmdbd, " in lines[0]
    assert "1 passed, 1 skipped" in text.splitlines()[-1]


def test_a_test_of_the_lab_that_is_skipped_fails_where_the_lab_is_required(tmp_path: Path) -> None:
    text = told(tmp_path, OF_THE_LAB, path=str(tmp_path), required="AIR_REQUIRE_LAB_TESTS")
    assert "1 passed, 1 error" in text.splitlines()[-1]
    assert "0 tests that need the lab ran" in text
