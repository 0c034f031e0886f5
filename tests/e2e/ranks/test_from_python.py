"""`airlane.ranks.launch`, from a program that has Airlane."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import airlane

from .conftest import Ranks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BEFORE = """
import json, os, sys
from airlane.errors import CapacityError, RankFailedError
from airlane.ranks import launch
import mine

FACTOR = 10

class Answer:
    def __init__(self, value): self.value = value

def work(offset):
    print("says", os.environ["RANK"])
    return Answer([int(os.environ["RANK"]) * FACTOR + offset + mine.one(), os.environ.get("EXTRA")])

def fails():
    if os.environ["RANK"] == "1": return 1 / 0
    import time; time.sleep(600)

def comes_back():
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0": os._exit(9)
    return os.environ["LOCAL_RANK"]
"""


def answer(ranks: Ranks, code: str) -> Any:
    """The last line on stdout of a program in the cluster's Python, as JSON."""
    ranks.write("mine.py", "def one(): return 1")
    program = ranks.write("program.py", BEFORE + code)
    paths = [str(ranks.folder), str(Path(airlane.__file__).parents[1])]
    start = f"import runpy, sys; sys.path += {paths!r}; runpy.run_path({str(program)!r}, run_name='__main__')"
    done = subprocess.run(
        [ranks.python, "-c", start], cwd="/", env=ranks.env, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_function_runs_on_every_rank_and_returns_its_results_in_order(ranks: Ranks) -> None:
    code = "print(json.dumps([a.value for a in launch(work, args=(5,), nodes=2, gpus_per_node=2, env={'EXTRA': 'x'})]))"
    found = answer(ranks, code)
    assert found == [[6, "x"], [16, "x"], [26, "x"], [36, "x"]]
    ranks.assert_nothing_left()


def test_a_function_that_raises_is_an_error_with_its_traceback_and_nothing_of_ours(ranks: Ranks) -> None:
    code = """
try:
    launch(fails, nodes=2, ranks_per_node=1)
except RankFailedError as error:
    print(json.dumps([str(error), error.rank, error.rank_exit_code]))
"""
    message, rank, exit_code = answer(ranks, code)
    assert (rank, exit_code) == (1, 1)
    assert message.startswith("rank 1 exited with code 1\nTraceback (most recent call last):\n")
    assert message.endswith("ZeroDivisionError: division by zero")
    assert "call.py" not in message
    ranks.assert_nothing_left()


@pytest.mark.long
def test_a_function_may_be_restarted_and_the_connection_may_be_the_callers_own(ranks: Ranks) -> None:
    code = """
import ray
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
results = launch(comes_back, nodes=1, gpus_per_node=2, max_restarts=1)
print(json.dumps([results, ray.is_initialized()]))
"""
    assert answer(ranks, code) == [["0", "1"], True]


def test_what_the_cluster_cannot_hold_is_an_error(ranks: Ranks) -> None:
    code = """
try:
    launch(work, nodes=9, gpus_per_node=1)
except CapacityError as error:
    print(json.dumps(str(error)))
"""
    assert "no room for 9 nodes with 1 GPU and 1 CPU each" in answer(ranks, code)
