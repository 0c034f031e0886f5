from __future__ import annotations

from dataclasses import replace

import pytest

from airlane.cli.run_json import list_facts, run_facts
from airlane.cli.run_pages import get_page, run_table, verdict
from airlane.cli.screen import PLAIN, Look
from airlane.store.records import Attempt, Cause, CauseKind, LastMetric
from airlane.store.states import Phase, State
from golden_text import check_golden

from .made_runs import HOSTS, NOW, OUT_OF_MEMORY, SUBMITTED, URL, failed, made_view, queued, running, succeeded

PIPE = Look(columns=None)


def test_the_verdict_of_a_success_is_one_line() -> None:
    check_golden("verdict_success.txt", verdict(succeeded(), PLAIN, NOW))


def test_an_address_that_does_not_fit_beside_the_verdict_stands_below_it() -> None:
    assert verdict(succeeded(), Look(columns=70), NOW).splitlines() == [
        "✓ SUCCESS  in 12m 41s",
        "  http://127.0.0.1:5000/#/experiments/3/runs/9f2ab31c",
    ]


def test_the_verdict_of_a_failure_names_the_cause_first() -> None:
    check_golden("verdict_failed.txt", verdict(failed(), PIPE, NOW))


def test_the_verdict_of_a_cancelled_run_blames_nothing() -> None:
    cause = Cause(CauseKind.CANCELED, "canceled by the user")
    attempts = running().attempts
    view = made_view(State.CANCELED, attempts=attempts, cause=cause, ended_at=NOW)
    assert verdict(view, PLAIN, NOW) == "! CANCELED  after 2m 04s"


def test_the_verdict_of_a_run_that_never_started_shows_the_whole_explanation() -> None:
    cause = Cause(
        CauseKind.SETUP,
        "the environment could not be built\nBecause nosuchpackage was not found in the package registry,\n"
        "we can conclude that your requirements are unsatisfiable.",
        hint="check environment.dependencies",
    )
    check_golden("verdict_setup.txt", verdict(made_view(State.FAILED, cause=cause, ended_at=NOW), PLAIN, NOW))


def test_the_verdict_says_when_metrics_may_be_missing() -> None:
    view = made_view(State.SUCCESS, ended_at=NOW, tracking_error="http://mlflow:5000 did not answer")
    assert verdict(view, PLAIN, NOW).splitlines()[-1] == (
        "! metrics may be incomplete: http://mlflow:5000 did not answer"
    )


def test_get_shows_a_failed_run() -> None:
    check_golden("get_failed.txt", get_page(failed(), PIPE, NOW))


def test_get_fits_a_terminal() -> None:
    check_golden("get_failed_terminal.txt", get_page(failed(), PLAIN, NOW))


def test_get_shows_a_running_run() -> None:
    check_golden("get_running.txt", get_page(running(), PLAIN, NOW))


def test_get_shows_a_queued_run_with_its_warnings_and_its_workload() -> None:
    view = queued()
    view = replace(view, record=replace(view.record, warnings=("permissions mean nothing here",), rerun_of="7k2m9q4d"))
    check_golden("get_queued.txt", get_page(view, PIPE, NOW, workload="# as written\ncommand: echo hi\n"))


def test_the_list_fits_a_terminal_of_80_columns() -> None:
    table = run_table([queued(), running(), failed()], PLAIN, NOW)
    check_golden("list.txt", table)
    assert max(map(len, table.splitlines())) <= 80


def test_the_list_is_not_cut_in_a_pipe() -> None:
    table = run_table([queued()], Look(columns=None), NOW)
    assert "a-very-long-experiment-name-that-would-not-fit-on-a-terminal" in table


def test_colour_changes_no_word() -> None:
    import re

    views = [queued(), running(), failed()]
    coloured = run_table(views, Look(colour=True), NOW)
    assert "\x1b[1;36mRUNNING" in coloured
    words = re.sub(r"\x1b\[[\d;]*m", "", coloured).splitlines()
    assert [line.rstrip() for line in words] == run_table(views, PLAIN, NOW).splitlines()


def test_the_facts_of_a_failed_run_are_those_of_the_reference() -> None:
    facts = run_facts(failed(), NOW)
    assert {key: facts[key] for key in list(facts)[:11]} == {
        "run_id": "7k2m9q4d",
        "status": "FAILED",
        "phase": None,
        "detail": None,
        "started_at": "2026-11-30T10:22:42.000000+00:00",
        "duration_seconds": 92.0,
        "attempt_number": 1,
        "experiment_name": "ray-train-distributed",
        "dashboard_url": "http://127.0.0.1:5000/#/experiments/3/runs/9f2ab31c",
        "mlflow_url": "http://127.0.0.1:5000/#/experiments/3/runs/9f2ab31c",
        "termination_reason": "node 1 exited with code 1 (CUDA out of memory)",
    }
    assert facts["cause"]["log_lines"] == list(OUT_OF_MEMORY.log_lines)
    assert [attempt["number"] for attempt in facts["attempts"]] == [0, 1]


@pytest.mark.parametrize("view", [succeeded(), queued(), made_view(State.CANCELED, cause=OUT_OF_MEMORY, ended_at=NOW)])
def test_only_failures_have_a_termination_reason(view: object) -> None:
    assert run_facts(view, NOW)["termination_reason"] is None  # type: ignore[arg-type] # parametrize loses the type


def test_a_run_that_has_not_started_has_no_start_and_no_duration() -> None:
    facts = run_facts(made_view(State.PENDING, phase=Phase.PREPARING), NOW)
    assert (facts["started_at"], facts["duration_seconds"], facts["attempt_number"]) == (None, None, 0)


def test_a_row_of_the_list_has_the_keys_of_the_reference() -> None:
    row = list_facts(running(), NOW)
    assert (row["run_id"], row["run_name"], row["user"], row["status"]) == ("7m0c2x1a", "sft-qwen", "ada", "RUNNING")
    assert row["duration_seconds"] == 124.0


def test_the_last_metric_stands_in_the_verdict_the_page_and_the_facts() -> None:
    metric = LastMetric("train_loss", 1.10234, 40)
    attempt = Attempt(0, SUBMITTED, SUBMITTED + 90, State.SUCCESS, None, HOSTS, "9f2ab31c", URL)
    cause = Cause(CauseKind.COMPLETED, "the command exited with code 0 on every node")
    view = made_view(State.SUCCESS, attempts=(attempt,), cause=cause, ended_at=SUBMITTED + 90, last_metric=metric)
    assert verdict(view, PIPE, NOW).splitlines()[0].endswith(f"in 1m 30s   train_loss 1.102   {URL}")
    assert f"metrics      train_loss 1.102 (step 40)   {URL}" in get_page(view, PIPE, NOW)
    assert run_facts(view, NOW)["last_metric"] == {"name": "train_loss", "value": 1.10234, "step": 40}
