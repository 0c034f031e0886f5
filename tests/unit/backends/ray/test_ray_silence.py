"""When a Ray cluster that refuses to answer is over."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from airlane.backends.ray.ledger import JobRecord, RayFiles
from airlane.backends.ray.silence import GONE_ELSEWHERE_S, GONE_HERE_S, is_gone, note_answer, note_refusal
from airlane.store.paths import RunPaths


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "7k2m9q4d")
    RayFiles(paths).root.mkdir(parents=True)
    return paths


def record(url: str, head: str | None) -> JobRecord:
    return JobRecord(url, "air-7k2m9q4d", "air-7k2m9q4d", 0.0, head=head)


HERE = record("http://127.0.0.1:8265", "127.0.0.1")
TUNNEL = record("http://127.0.0.1:8265", "10.0.0.1")
UNKNOWN_HEAD = record("http://127.0.0.1:8265", None)
ELSEWHERE = record("http://10.0.0.1:8265", "10.0.0.1")


def refused_for(run: RunPaths, seconds: float) -> None:
    note_refusal(run)
    then = time.time() - seconds
    os.utime(RayFiles(run).refused, (then, then))


def test_a_cluster_that_has_not_refused_is_not_gone(run: RunPaths) -> None:
    assert not is_gone(run, HERE)


@pytest.mark.parametrize(
    ("of", "longest_s"),
    [(HERE, GONE_HERE_S), (TUNNEL, GONE_ELSEWHERE_S), (UNKNOWN_HEAD, GONE_ELSEWHERE_S), (ELSEWHERE, GONE_ELSEWHERE_S)],
)
def test_only_a_refusal_that_lasts_is_an_end_and_one_by_this_machine_lasts_less(
    run: RunPaths, of: JobRecord, longest_s: float
) -> None:
    refused_for(run, longest_s - 3)
    assert not is_gone(run, of)
    refused_for(run, longest_s + 1)
    assert is_gone(run, of)


def test_the_first_refusal_counts_and_an_answer_ends_the_count(run: RunPaths) -> None:
    refused_for(run, GONE_HERE_S + 1)
    note_refusal(run)
    assert is_gone(run, HERE)
    note_answer(run)
    note_refusal(run)
    assert not is_gone(run, HERE)


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "nothing" / "here")
    note_refusal(paths)
    note_answer(paths)
    assert not is_gone(paths, HERE)
