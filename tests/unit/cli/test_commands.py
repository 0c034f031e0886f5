from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.api import LogChunk
from airlane.api.shelves import ServerPage
from airlane.cli.command import Context
from airlane.cli.commands.doctor import doctor_page
from airlane.cli.commands.env import env_page, env_table
from airlane.cli.plan_pages import check_marks, dry_run_page, joined_variables
from airlane.cli.screen import PLAIN
from airlane.errors import CapacityError
from airlane.store.paths import RunPaths
from airlane.store.records import Cause, CauseKind
from airlane.store.states import Phase, State
from golden_text import FOLDER, check_golden

from .conftest import Air
from .made_client import MadeClient, MadeRun, made_environment, made_plan, updates
from .made_runs import NOW, failed, made_view, queued, running, succeeded


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MadeClient:
    return use(monkeypatch, MadeClient())


def use(monkeypatch: pytest.MonkeyPatch, made: MadeClient) -> MadeClient:
    monkeypatch.setattr(Context, "client", lambda _context: made)
    return made


def type_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_run_shows_what_is_settled_and_how_to_go_on(air: Air, client: MadeClient) -> None:
    output = air("run", "train.yaml")
    assert (output.code, output.out) == (0, "7k2m9q4d\n")
    check_golden("run.txt", output.err.rstrip("\n"))
    assert client.asked[0] == ("plan", Path("train.yaml"), (), {"simulate": False, "touch": True})


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "t.yaml", "--override", "a=1", "b=2", "--override", "c=3"),
        ("--override", "a=1", "--override", "b=2", "c=3", "t.yaml"),
        ("t.yaml", "--override", "a=1", "b=2", "c=3"),
    ],
)
def test_overrides_may_be_repeated_or_listed(air: Air, client: MadeClient, words: tuple[str, ...]) -> None:
    assert air("run", "--simulate", *words).code == 0
    assert client.asked[0] == ("plan", Path("t.yaml"), ("a=1", "b=2", "c=3"), {"simulate": True, "touch": True})


def test_run_with_a_known_key_says_so(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient(MadeRun(running(), created=False)))
    output = air("run", "t.yaml", "--idempotency-key", "nightly")
    assert "run 7m0c2x1a  (submitted before with the same key)\n" in output.err
    assert made.asked[1] == ("submit", "ray-train-distributed", {"idempotency_token": "nightly"})


def test_run_answers_in_json_as_the_reference_does(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(MadeRun(queued())))
    output = air("run", "t.yaml", "--json")
    assert output.lines() == [
        {
            "v": 1,
            "ts": "2026-11-30T10:33:07Z",
            "data": {"run_id": "7m0d11zz", "status": "PENDING", "dashboard_url": None, "created": True},
        }
    ]


def test_a_dry_run_prints_the_plan_and_submits_nothing(air: Air, client: MadeClient) -> None:
    output = air("run", "t.yaml", "--dry-run")
    assert (output.code, output.out) == (0, "")
    check_golden("dry_run_pipe.txt", output.err.rstrip("\n"))
    assert [asked[0] for asked in client.asked] == ["plan"]


def test_a_dry_run_fits_a_terminal() -> None:
    check_golden("dry_run.txt", dry_run_page(made_plan(), PLAIN))


@pytest.mark.usefixtures("client")
def test_a_dry_run_in_json_holds_the_whole_plan(air: Air) -> None:
    data = air("run", "t.yaml", "--dry-run", "--json").data()
    assert (data["status"], data["dry_run"], data["nodes"]) == ("DRY_RUN_OK", True, 2)
    assert data["environment"]["key"] == "51ac03d2e9aa"
    assert [variables["NODE_RANK"] for variables in data["variables"]] == ["0", "1"]


def test_a_run_that_can_never_fit_is_refused_and_its_dry_run_says_so(
    air: Air, client: MadeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made_plan()
    plan.refusal = CapacityError("This machine has no GPU (asked for: 16 × H100).", hint="add --simulate")
    monkeypatch.setattr(client, "plan", lambda *_words, **_asked: plan)
    output = air("run", "t.yaml")
    assert (output.code, output.err) == (1, "This machine has no GPU (asked for: 16 × H100).\n  add --simulate\n")
    output = air("run", "t.yaml", "--dry-run", "--json")
    assert output.code == 0
    assert (
        "✗ where       hpc       This machine has no GPU (asked for: 16 × H100).\n"
        "                        add --simulate\n"
    ) in output.err
    assert output.data()["fits"] is False


def test_an_environment_that_is_not_there_yet_is_announced() -> None:
    plan = made_plan()
    plan.environment.cached = False
    plan.snapshot = None
    assert "· environment AI5+1     to be built first  (key 51ac03d2)" in check_marks(plan, PLAIN)
    plan.environment.key = None
    assert any("the Python 3.11 that runs air" in line for line in check_marks(plan, PLAIN))


def test_an_environment_that_the_nodes_have_is_told_and_not_announced_as_work() -> None:
    plan = made_plan()
    plan.environment.cached = False
    plan.environment_there = "the cluster's Python 3.11.7 with Ray 2.60.0"
    assert "✓ environment AI5+1     the cluster's Python 3.11.7 with Ray 2.60.0" in check_marks(plan, PLAIN)


def test_variables_of_all_nodes_are_told_once() -> None:
    assert joined_variables([]) == []
    assert joined_variables([{"A": "0", "B": "x", "C": "1"}, {"A": "1", "B": "x", "C": "5"}]) == [
        "A=0..1",
        "B=x",
        "C=1|5",
    ]


def test_watching_puts_the_log_alone_on_stdout(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(MadeRun(succeeded(), updates=updates(b"step 1\nst", b"ep 2\n"))))
    output = air("run", "t.yaml", "--watch")
    assert (output.code, output.out) == (0, "step 1\nstep 2\n")
    check_golden("watch_success.txt", output.err.rstrip("\n"))


@pytest.mark.parametrize("state", [State.FAILED, State.TIMEDOUT, State.CANCELED])
def test_watching_ends_with_the_outcome_of_the_run(air: Air, monkeypatch: pytest.MonkeyPatch, state: State) -> None:
    cause = Cause(CauseKind.EXIT_CODE, "node 0 exited with code 3", node=0, exit_code=3)
    view = made_view(state, attempts=failed().attempts, cause=cause, ended_at=NOW)
    use(monkeypatch, MadeClient(MadeRun(view, updates=updates(b"x\n", end=state))))
    assert air("run", "t.yaml", "--watch").code == 1
    assert air("rerun", "7k", "--watch").code == 1
    assert air("logs", "7k").code == 1


def test_watching_a_failure_tells_its_cause_last(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(MadeRun(failed(), updates=updates(b"x", end=State.FAILED))))
    output = air("run", "t.yaml", "--watch")
    assert output.out == "x"
    assert output.err.endswith((FOLDER / "verdict_failed.txt").read_text(encoding="utf-8"))


def test_a_retry_is_told_also_in_a_pipe(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    from airlane.api import PhaseChanged

    retry = PhaseChanged(Phase.RETRYING, "attempt 1 starts in 5 s")
    view = made_view(State.RUNNING, phase=Phase.RETRYING, attempts=failed().attempts[:1])
    use(monkeypatch, MadeClient(MadeRun(view, updates=(LogChunk(0, b"x\n"), retry, LogChunk(0, b"y\n")))))
    output = air("run", "t.yaml", "--watch")
    assert output.out == "x\ny\n"
    assert (
        "! attempt 0 FAILED: node 1 exited with code 1 (CUDA out of memory)\n! attempt 1 starts in 5 s\n" in output.err
    )


def test_ctrl_c_stops_watching_and_not_the_run(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    run = MadeRun(running(), updates=updates(b"x\n")[:-1], chunks=(b"x\n",), raises=KeyboardInterrupt())
    use(monkeypatch, MadeClient(run))
    output = air("run", "t.yaml", "--watch")
    assert output.code == 130
    assert output.err.endswith("\nStopped watching. The run goes on: air logs 7m0c2x1a\n")
    output = air("logs", "7m")
    assert output.code == 130
    assert output.err.endswith("\nStopped following. The run goes on: air logs 7m0c2x1a\n")


def test_watching_in_json_is_one_event_a_line_and_an_envelope(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(MadeRun(failed(), updates=updates("é\nla".encode(), b"st", end=State.FAILED))))
    output = air("run", "t.yaml", "--watch", "--json")
    assert output.code == 1
    ts = "2026-11-30T10:33:07Z"
    url = "http://127.0.0.1:5000/#/experiments/3/runs/9f2ab31c"
    assert output.lines()[:-1] == [
        {"type": "SUBMITTED", "ts": ts, "run_id": "7k2m9q4d", "dashboard_url": url},
        {"type": "STATUS", "ts": ts, "status": "RUNNING", "previous_status": "PENDING"},
        {"type": "LOG", "ts": ts, "node": 0, "line": "é"},
        {"type": "STATUS", "ts": ts, "status": "FAILED", "previous_status": "RUNNING"},
        {"type": "LOG", "ts": ts, "node": 0, "line": "last"},
    ]
    assert output.data()["status"] == "FAILED"


def test_ctrl_c_in_json_closes_with_an_envelope(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    run = MadeRun(running(), updates=updates(b"x")[:-1], chunks=(b"x",), raises=KeyboardInterrupt())
    use(monkeypatch, MadeClient(run))
    for words in (("run", "t.yaml", "--watch"), ("logs", "7m")):
        output = air(*words, "--json")
        assert output.code == 130
        assert (output.data()["status"], output.data()["watching"]) == ("RUNNING", False)


def test_ctrl_c_while_submitting_says_where_to_look(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient())
    monkeypatch.setattr(made, "submit", MadeRun(running(), raises=KeyboardInterrupt()).interrupt)
    output = air("run", "t.yaml", "--watch")
    assert output.code == 130
    assert output.err.endswith("\nInterrupted while submitting.\n  air list   shows whether there is a run\n")


def test_get_succeeds_whatever_became_of_the_run(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient(MadeRun(failed())))
    plain = air("get", "7k")
    assert (plain.code, plain.err) == (0, "")
    assert plain.out == (FOLDER / "get_failed.txt").read_text(encoding="utf-8")
    assert air("get", "run", "7k").out == plain.out
    assert air("get", "run", "7k", "--json").data()["termination_reason"].startswith("node 1 exited")
    assert made.asked == [("get", "7k")] * 3


def test_list_passes_its_options_on(air: Air, client: MadeClient) -> None:
    output = air("list", "runs", "--limit", "3", "--all-status", "--all-users", "--filter", "user=a", "experiment=b*")
    assert output.err == "No run matches.\n"
    filters = {"user": "a", "experiment": "b*"}
    ((_, asked),) = client.asked
    del asked["on_damage"]
    assert asked == {"limit": 3, "all_status": True, "all_users": True, "filters": filters}


def test_list_has_a_table_ids_and_json(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(views=[queued(), failed()]))
    assert len(air("list").out.splitlines()) == 3
    assert air("list", "-q").out == "7m0d11zz\n7k2m9q4d\n"
    assert [run["run_id"] for run in air("list", "--json").data()["runs"]] == ["7m0d11zz", "7k2m9q4d"]


@pytest.mark.usefixtures("client")
def test_an_empty_list_says_what_to_type(air: Air) -> None:
    for words in (("list",), ("list", "--all-status")):
        assert air(*words).err == "There are no runs yet.\n  air run -f train.yaml\n"
    assert air("list", "--filter", "user=a").err == "No run matches.\n"
    assert air("list", "--json").data() == {"runs": []}


def test_a_list_that_leaves_out_old_runs_says_how_to_see_them(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient())
    monkeypatch.setattr(made, "list", lambda **asked: (failed(),) if asked["all_status"] else ())
    assert air("list").err == "No run waits, runs, or ended in the last 24 hours.\n  air list --all-status\n"
    told = air("list", "--filter", "user=a").err
    assert told == "No run of the last 24 hours matches.\n  with --all-status: older ones\n"


def test_logs_asks_for_what_was_typed(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    run = MadeRun(failed(), chunks=(b"x\n", b"more"))
    use(monkeypatch, MadeClient(run))
    air("logs", "7k", "--node", "1", "--tail", "5", "--retry", "0")
    assert run.asked == {"node": 1, "tail": 5, "attempt": 0}
    air("logs", "7k")
    assert run.asked == {"node": 0, "tail": 10_000, "attempt": None}


def test_logs_of_an_attempt_end_with_the_outcome_of_that_attempt(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    view = failed()
    assert view.status is not None
    attempts = (view.attempts[0], replace(view.attempts[1], state=State.SUCCESS))
    view = made_view(State.SUCCESS, attempts=attempts, ended_at=NOW)
    use(monkeypatch, MadeClient(MadeRun(view, chunks=(b"x\n",))))
    assert [air("logs", "7k", "--retry", retry).code for retry in ("0", "1")] == [1, 0]


def test_logs_in_json_close_with_an_envelope(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(MadeRun(succeeded(), chunks=(b"a\nb",))))
    output = air("logs", "7k", "--json")
    assert [line.get("line") for line in output.lines()] == ["a", "b", None]
    assert output.data() == {"run_id": "7k2m9q4d", "status": "SUCCESS", "node": 0, "attempt_number": None}


def test_a_run_without_a_log_says_why(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    cause = Cause(CauseKind.SETUP, "the environment could not be built\nbecause")
    use(monkeypatch, MadeClient(MadeRun(made_view(State.FAILED, cause=cause, ended_at=NOW))))
    output = air("logs", "7k")
    assert output.code == 1
    assert output.err.splitlines() == [
        "! node 0 has no log: it did not start",
        "✗ FAILED",
        "  the environment could not be built",
        "  because",
    ]
    event = air("logs", "7k", "--json").lines()[0]
    assert (event["type"], event["message"]) == ("ERROR", "node 0 has no log: it did not start")


def test_a_node_that_wrote_nothing_is_told_from_one_that_never_started(
    air: Air, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view = replace(succeeded(), paths=RunPaths(tmp_path))
    use(monkeypatch, MadeClient(MadeRun(view)))
    view.paths.nodes(0).mkdir(parents=True)
    view.paths.log(attempt=0, node=0).touch()
    output = air("logs", "7k")
    assert (output.code, output.out, output.err) == (0, "", "! node 0 wrote nothing\n")


def test_a_failed_attempt_says_why_below_its_log(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(MadeRun(failed(), chunks=(b"x\n",))))
    output = air("logs", "7k", "--retry", "0")
    assert (output.code, output.err) == (1, "attempt 0 FAILED: node 1 exited with code 1 (CUDA out of memory)\n")


def test_logs_are_downloaded_and_named(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(MadeRun(succeeded(), chunks=(b"x",))))
    assert air("logs", "7k", "--download-to", "a b").out == "a b/node_0.log\na b/node_1.log\n"
    assert air("logs", "7k", "--download-to", "a b", "--node", "1", "--json").data()["files"] == ["a b/node_1.log"]


@pytest.mark.usefixtures("client")
def test_downloading_nothing_is_a_failure(air: Air) -> None:
    output = air("logs", "7k", "--download-to", "x")
    assert (output.code, output.err.splitlines()[0]) == (1, "7k2m9q4d has no log yet")


def test_cancel_names_what_it_cancels(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeClient(views=[running(), queued()]))
    output = air("cancel", "a", "b")
    assert (output.code, output.out, output.err) == (0, "a\nb\n", "Canceling 2 runs.\n")
    assert air("cancel", "a", "--json").data() == {"cancelled": ["a"]}
    assert air("cancel", "--all", "-y", "--json").data() == {"cancelled": ["7m0c2x1a", "7m0d11zz"], "all": True}


@pytest.mark.usefixtures("client")
def test_cancelling_nothing_is_no_error(air: Air) -> None:
    output = air("cancel", "--all", "--yes")
    assert (output.code, output.err) == (0, "No run had to be canceled.\n")


@pytest.mark.parametrize(
    ("typed", "value"), [(b"hf_x\n", "hf_x"), (b"two\nlines\n", "two\nlines"), (b"\xff", "\udcff")]
)
def test_a_secret_is_read_from_stdin(
    air: Air, client: MadeClient, monkeypatch: pytest.MonkeyPatch, typed: bytes, value: str
) -> None:
    type_in(monkeypatch, typed)
    output = air("secrets", "set", "hf/token")
    assert (output.code, output.out, output.err) == (0, "", "hf/token is set.\n")
    assert client.asked == [("set", "hf/token", value)]


def test_secrets_are_listed_and_deleted(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient(views=[running()]))
    assert air("secrets", "list").out == "hf/token\nwandb/key\n"
    assert air("secrets", "list", "--json").data() == {"secrets": ["hf/token", "wandb/key"]}
    assert air("secrets", "delete", "hf/token", "--json").data() == {"deleted": "hf/token"}
    assert made.asked == [("delete", "hf/token")]


def test_environments_are_listed_shown_built_and_pruned(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient(views=[running()]))
    check_golden("env_show.txt", air("env", "show", "51").out.rstrip("\n"))
    assert air("env", "list").out.count("\n") == 2
    assert air("env", "list", "--json").data()["environments"][0]["last_used_at"] == "2026-11-30T07:33:07.000000+00:00"
    assert air("env", "build", "t.yaml").err == "✓ environment 51ac03d2  built in 12s\n"
    output = air("env", "prune", "--older-than", "30", "--dry-run")
    assert (output.out, output.err) == ("51ac03d2e9aabbccddee\n", "Would remove 1 environment (1.9 GB).\n")
    assert made.asked[-1] == ("prune", {"older_than_days": 30.0, "dry_run": True})


@pytest.mark.usefixtures("client")
def test_an_environment_that_is_there_is_not_built(air: Air) -> None:
    assert air("env", "build", "t.yaml").err == "✓ environment 51ac03d2  it was there already\n"
    assert air("env", "list").err == "No environment was built yet. Runs build what they need.\n"
    assert air("env", "prune").err == "Nothing to remove.\n"


def test_the_table_of_environments_fits_80_columns() -> None:
    check_golden("env_list.txt", env_table([made_environment()], PLAIN, NOW))
    assert env_page(made_environment(), PLAIN, NOW).startswith("key           51ac03d2e9aabbccddee")


def test_doctor_fails_where_a_check_fails(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient(views=[running()]))
    output = air("doctor")
    assert output.code == 1
    check_golden("doctor.txt", output.out.rstrip("\n"))
    assert air("doctor", "--json").data()["ok"] is False
    made.views = ()
    assert air("doctor").code == 0
    assert doctor_page(made.doctor(), PLAIN).endswith("\nReady.")


def test_ui_starts_and_stops_the_server(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, MadeClient(views=[running()]))
    output = air("ui")
    assert (output.out, output.err) == ("http://127.0.0.1:5000\n", "")
    data = {"uri": "http://127.0.0.1:5000", "public_uri": None, "login_file": None}
    assert air("ui", "--json").data() == data
    made.page = ServerPage("http://127.0.0.1:5000", "http://10.0.0.1:5000", Path("/home/me/.air/mlflow/login.json"))
    output = air("ui")
    assert output.out == "http://127.0.0.1:5000\n"
    assert output.err == (
        "From other machines: http://10.0.0.1:5000, with the login in /home/me/.air/mlflow/login.json\n"
    )
    assert air("ui", "--json").data()["public_uri"] == "http://10.0.0.1:5000"
    assert air("ui", "--stop").err == "The MLflow server is stopped.\n"
    assert air("ui", "--stop", "--json").data() == {"stopped": True}


def test_the_schema_is_json(air: Air) -> None:
    import json

    schema: dict[str, Any] = json.loads(air("schema").out)
    assert "experiment_name" in schema["properties"]
    assert air("schema", "--json").data() == schema


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_knows_every_command(air: Air, shell: str) -> None:
    script = air("completion", shell).out
    assert all(word in script for word in ("rerun", "secrets", "prune", "idempotency-key"))
