"""A CI that has root cannot skip the tests that need it without being told."""

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


@pytest.mark.parametrize(("required", "told"), [("1", "2 failed, 1 skipped"), ("", "3 skipped")])
def test_a_test_that_misses_root_fails_where_root_is_required(tmp_path: Path, required: str, told: str) -> None:
    (tmp_path / "test_sample.py").write_text(SKIPPED, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = root\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", str(tmp_path)]
    env = os.environ | {
        "PYTHONPATH": str(ROOT / "tests"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "AIR_REQUIRE_ROOT_TESTS": required,
    }
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert told in done.stdout.splitlines()[-1]
    assert ("0 tests that need root ran" in done.stdout) == bool(required)
