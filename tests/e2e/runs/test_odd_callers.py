"""Callers that are not a login shell: closed streams, a strange umask, no variables, few descriptors."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from airlane.store.states import State

from .conftest import AIR, Lane, ended, wait_until


def _bash(lane: Lane, line: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which $air is the command and $f a workload file."""
    file = lane.workload('echo "umask $(umask)"; touch made')
    env = {**lane.env, "air": str(AIR), "f": str(file)}
    return subprocess.run(["bash", "-c", line], check=False, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_caller_may_have_closed_its_standard_streams(lane: Lane, closed: str) -> None:
    done = _bash(lane, f'"$air" run -f "$f" --watch {closed}')
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    wait_until(lambda: len(lane.client.list(all_users=True)) == 1, within_s=5, what="the run is listed")
    assert ended(lane.client.get("@last")).state is State.SUCCESS


def test_everything_in_the_home_is_private_and_the_commands_files_have_the_callers_umask(lane: Lane) -> None:
    file = lane.workload('umask; touch "$AIR_CHECKPOINT_DIR/made"')
    done = subprocess.run(
        ["bash", "-c", 'umask 000; "$0" run -f "$1" --watch; "$0" list', str(AIR), str(file)],
        check=True, env=lane.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == "0000"
    shared = [str(path) for path in (lane.home, *lane.home.rglob("*")) if _mode(path) & 0o077]
    assert shared == [str(lane.client.get("@last").view().paths.checkpoints / "made")]


def test_file_names_and_values_that_are_not_utf_8_survive(lane: Lane) -> None:
    folder = os.fsencode(lane.folder) + b"/folder \xff"
    Path(os.fsdecode(folder)).mkdir()
    file = os.fsdecode(folder + b"/w \xfe.yaml")
    Path(file).write_bytes(lane.workload('printf "%s" "$STRANGE"; basename "$CODE_SOURCE_PATH"').read_bytes())
    lane.env |= {"STRANGE": os.fsdecode(b"\xfd"), "AIR_HOME": os.fsdecode(folder + b"/home")}
    done = subprocess.run([str(AIR), "run", "-f", file, "--watch"], check=False, env=lane.env, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"\xfdscratch\n")
    assert lane.air("get", "@last").returncode == 0
    assert lane.air("list").stdout.count("SUCCESS") == 1


def test_a_run_that_is_named_twice_is_canceled_once(lane: Lane) -> None:
    run = lane.submit(lane.workload("sleep 600"))
    assert lane.client.cancel([run.id, "@last", run.id]) == (run.id,)
    assert ended(run).state is State.CANCELED


def test_a_home_within_the_code_is_not_frozen_with_it(lane: Lane) -> None:
    code = lane.folder / "code"
    code.mkdir()
    (code / "train.py").touch()
    lane.env["AIR_HOME"] = str(code / ".air")
    file = lane.workload("ls -A", code_source={"root_path": str(code)})
    for _ in range(2):
        done = lane.air("run", "-f", file, "--watch")
        assert (done.returncode, done.stdout) == (0, "train.py\n")
    assert lane.air("list").stdout.count("SUCCESS") == 2


def _mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)
