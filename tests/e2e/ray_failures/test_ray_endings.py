"""What else becomes of runs on a Ray cluster: canceled, out of time, resumed, queued, and cut off from who looks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from e2e.ray_failures.remains import assert_nothing_is_left, drivers_of
from e2e.ray_replica.cut_proxy import CutProxy
from ray_runs_home import RayRunsHome, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FOREVER = 'echo "up $AIR_ATTEMPT"; exec sleep 600'
DEAF = 'trap "" TERM; echo up; while :; do sleep 0.1; done'
SAVES = 'cd "$AIR_CHECKPOINT_DIR"; [ -e saved ] && exec cat saved; echo "of attempt $AIR_ATTEMPT" > saved; exit 3'


def end_of(view: dict[str, Any]) -> tuple[str, str]:
    return view["status"], view["cause"]["kind"]


def test_runs_of_every_kind_end_as_they_do_elsewhere(runs: RayRunsHome, tmp_path: Path) -> None:
    """All at once: that is quicker, and no other answer is right for it."""
    runs.configure(stop_grace_s=5, storage=str(tmp_path), straggler_grace_s=1)
    late = runs.submit('[ "$NODE_RANK" = 0 ] || exec sleep 600')
    saving = runs.submit(SAVES, nodes=1, max_retries=1)
    gpus = {"num_accelerators": 2, "accelerator_type": "GPU_1xH100"}
    file = runs.workload('echo "simulated $NODE_RANK [$CUDA_VISIBLE_DEVICES]"', compute=gpus)
    simulated = str(runs.answer("run", str(file), "--simulate")["run_id"])
    view = runs.ended(late)
    assert end_of(view) == ("SUCCESS", "completed")
    assert "node 1 had not ended 1 s later" in view["cause"]["summary"]
    view = runs.ended(saving)
    assert end_of(view) == ("SUCCESS", "completed")
    assert [end_of(attempt) for attempt in view["attempts"]] == [("FAILED", "exit_code"), ("SUCCESS", "completed")]
    assert runs.log(saving, attempt=1) == "of attempt 0\n", "it resumes from what the first attempt has saved"
    assert (tmp_path / saving / "checkpoints" / "saved").exists()
    view = runs.ended(simulated)
    assert end_of(view) == ("SUCCESS", "completed")
    assert [runs.log(simulated, node) for node in range(2)] == [f"simulated {node} []\n" for node in range(2)]
    again = str(runs.answer("rerun", simulated)["run_id"])
    assert end_of(runs.ended(again)) == ("SUCCESS", "completed")
    assert runs.log(again, 1) == "simulated 1 []\n"
    for run_id in (late, saving, simulated, again):
        assert_nothing_is_left(runs, run_id)


@pytest.mark.long
def test_a_run_whose_minute_is_over_is_out_of_time(runs: RayRunsHome) -> None:
    run_id = runs.submit(DEAF, timeout_minutes=1)
    view = runs.ended(run_id)
    assert end_of(view) == ("TIMEDOUT", "timeout")
    assert_nothing_is_left(runs, run_id)


def test_a_run_is_canceled_before_its_job_starts_and_while_it_stops(runs: RayRunsHome) -> None:
    early = runs.submit(FOREVER)
    assert runs.air("cancel", early).returncode == 0
    deaf = runs.submit(DEAF, nodes=1)
    assert end_of(runs.ended(early, within_s=40)) == ("CANCELED", "canceled")
    runs.await_log(deaf, "up")
    begun = time.monotonic()
    for _ in range(2):
        assert runs.air("cancel", deaf).returncode == 0
    assert end_of(runs.ended(deaf, within_s=40)) == ("CANCELED", "canceled")
    assert time.monotonic() - begun > 3, "it has its grace, however often it is asked to end"
    for run_id in (early, deaf):
        assert_nothing_is_left(runs, run_id)


def test_a_run_waits_for_busy_nodes_and_says_so_and_the_next_in_line_is_not_kept(runs: RayRunsHome) -> None:
    all_of_it = {"num_accelerators": 8, "accelerator_type": "CPU_2xCORE"}
    first = runs.submit(FOREVER, compute=all_of_it)
    runs.await_log(first, "up")
    leaves = runs.submit(FOREVER, compute=all_of_it)
    second = runs.submit("echo at last", compute=all_of_it)
    for waiting in (leaves, second):
        wait_until(lambda run=waiting: _queued(runs, run), within_s=60, what=f"{waiting} waits")  # type: ignore[misc]
        view = runs.view(waiting)
        assert view["status"] == "PENDING"
        assert view["detail"] == "0 of 4 nodes with 2 CPUs are free; asked for 4"
    assert runs.air("cancel", leaves).returncode == 0
    assert end_of(runs.ended(leaves, within_s=40)) == ("CANCELED", "canceled")
    assert runs.air("cancel", first).returncode == 0
    assert end_of(runs.ended(first, within_s=40)) == ("CANCELED", "canceled")
    assert end_of(runs.ended(second)) == ("SUCCESS", "completed")
    for run_id in (first, leaves, second):
        assert_nothing_is_left(runs, run_id)


def _queued(runs: RayRunsHome, run_id: str) -> bool:
    view = runs.view(run_id)
    return bool(view["phase"] == "queued" and "are free" in (view["detail"] or ""))


@pytest.mark.long
def test_a_dashboard_that_is_away_for_a_while_loses_no_line_and_no_cancel(runs: RayRunsHome) -> None:
    with CutProxy(int(runs.lab.url.rpartition(":")[2])) as proxy:
        runs.configure(address=proxy.url, stop_grace_s=5)
        run_id = runs.submit("for i in $(seq 60); do echo line $i; sleep 0.1; done", nodes=1)
        kept = runs.submit(FOREVER, nodes=1)
        with runs.start("logs", run_id) as following:
            runs.await_log(run_id, "line 5")
            runs.await_log(kept, "up")
            proxy.refuse()
            assert runs.view(run_id)["status"] == "RUNNING", "no answer is no end"
            refused = runs.air("cancel", kept)
            assert refused.returncode != 0
            assert "the run ends when the cluster answers" in refused.stderr
            time.sleep(8)
            assert drivers_of(kept)
            proxy.refuse(refuses=False)
            said, _ = following.communicate(timeout=120)
        assert [line for line in said.splitlines() if line.startswith("line")] == [f"line {i}" for i in range(1, 61)]
        assert end_of(runs.ended(run_id)) == ("SUCCESS", "completed")
        assert end_of(runs.ended(kept, within_s=40)) == ("CANCELED", "canceled")
    for each in (run_id, kept):
        assert_nothing_is_left(runs, each)
