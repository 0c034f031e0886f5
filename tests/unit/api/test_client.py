"""The client: submitting, finding again, canceling, and what it does when something is in the way."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from airlane.api.client import Client
from airlane.api.user import user_name
from airlane.errors import ArgumentError, BackendError, ConfigError, NotFoundError, StoreError
from airlane.store.disk import SystemDisk
from airlane.store.runs import NewRun, RunStore
from airlane.store.states import State
from airlane.store.supervisor_lock import is_held

from .conftest import WORKLOAD, Bench

ONCE = "once"


def folders(bench: Bench) -> list[str]:
    return [path.name for path in bench.home.glob("runs/*/*")]


def submitted(bench: Bench) -> NewRun:
    new = bench.backend.submitted[-1]
    bench.locks.append(new.lock)
    return new


def test_a_submitted_run_is_there_before_its_supervisor_starts(bench: Bench) -> None:
    def look(new: NewRun) -> None:
        assert RunStore(bench.client.home).view(new.paths).record == new.record
        assert json.loads(new.paths.events.read_text())["type"] == "submitted"

    bench.backend.meanwhile = look
    run = bench.client.submit(bench.client.plan(bench.workload()))
    new = submitted(bench)
    assert (run.id, run.created) == (new.record.id, True)
    assert new.paths.command.read_text() == "echo hi"
    assert new.paths.workload.read_text() == WORKLOAD
    assert new.record.user == "me"


def test_a_run_that_cannot_be_started_leaves_nothing_behind(bench: Bench) -> None:
    bench.backend.refusal = BackendError("the supervisor could not be started")
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    plan = bench.client.plan(bench.workload())
    with pytest.raises(BackendError):
        bench.client.submit(plan)
    assert folders(bench) == []
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_a_token_gives_the_run_of_then(bench: Bench) -> None:
    plan = bench.client.plan(bench.workload())
    first = bench.client.submit(plan, idempotency_token=f" {ONCE} ")
    submitted(bench)
    second = bench.new_client().submit(plan, idempotency_token=ONCE)
    assert (second.id, first.created, second.created) == (first.id, True, False)
    assert len(bench.backend.submitted) == 1
    assert first.view().record.idempotency_token == ONCE


def test_tokens_of_different_users_are_different(bench: Bench) -> None:
    client = bench.new_client(USER="you")
    first = bench.client.submit(bench.client.plan(bench.workload()), idempotency_token=ONCE)
    submitted(bench)
    second = client.submit(client.plan(bench.workload()), idempotency_token=ONCE)
    submitted(bench)
    assert first.id != second.id


def test_a_token_names_its_run_before_anything_of_it_starts(bench: Bench) -> None:
    # Who is killed after this and tries again gets the same run, and never a second one.
    def look(new: NewRun) -> None:
        (token,) = bench.client.home.tokens.iterdir()
        assert token.read_text() == new.record.id

    bench.backend.meanwhile = look
    bench.client.submit(bench.client.plan(bench.workload()), idempotency_token=ONCE)
    submitted(bench)


def test_a_token_whose_run_could_not_be_started_can_be_used_again(bench: Bench) -> None:
    plan = bench.client.plan(bench.workload())
    bench.backend.refusal = BackendError("no process left")
    with pytest.raises(BackendError):
        bench.client.submit(plan, idempotency_token=ONCE)
    bench.backend.refusal = None
    assert bench.client.submit(plan, idempotency_token=ONCE).created
    submitted(bench)


@pytest.mark.parametrize("token", ["", "   ", "x" * 65])
def test_a_token_has_1_to_64_characters(bench: Bench, token: str) -> None:
    with pytest.raises(ArgumentError, match="expected 1 to 64 characters"):
        bench.client.submit(bench.client.plan(bench.workload()), idempotency_token=token)
    assert folders(bench) == []


def test_a_home_that_cannot_be_written_is_told(bench: Bench) -> None:
    plan = bench.client.plan(bench.workload())
    bench.home.touch()
    with pytest.raises(StoreError, match="could not write under") as caught:
        bench.client.submit(plan)
    assert caught.value.hint == "free some space, or set AIR_HOME to another folder"
    with pytest.raises(StoreError, match="could not write under"):
        bench.client.submit(plan, idempotency_token=ONCE)


def test_code_that_cannot_be_frozen_into_the_home_is_told(bench: Bench) -> None:
    code = bench.folder / "code"
    code.mkdir()
    (code / "train.py").touch()
    text = WORKLOAD + f"code_source: {{type: snapshot, snapshot: {{root_path: {code}}}}}\n"
    plan = bench.client.plan(bench.workload(text), touch=False)
    bench.home.touch()
    with pytest.raises(StoreError, match="could not write under"):
        bench.client.submit(plan)


def test_cancel_asks_once_and_twice_is_harmless(bench: Bench) -> None:
    run = bench.run(State.RUNNING, alive=True)
    assert bench.client.cancel([run.id]) == (run.id,)
    request = json.loads(run.cancel.read_text())
    assert request["by"] == "me"
    assert bench.client.cancel([run.id, run.id]) == (run.id,)
    assert json.loads(run.cancel.read_text()) == request


def test_a_run_that_has_ended_is_not_canceled(bench: Bench) -> None:
    ended, lost = bench.run(State.FAILED), bench.run(State.RUNNING)
    assert bench.client.cancel([ended.id, lost.id]) == ()
    assert not ended.cancel.exists()
    assert bench.client.get(lost.id).view().state is State.FAILED


def test_one_unknown_run_keeps_all_from_being_canceled(bench: Bench) -> None:
    run = bench.run(State.RUNNING, alive=True)
    with pytest.raises(NotFoundError):
        bench.client.cancel([run.id, "zzzzzzzz"])
    assert not run.cancel.exists()


def test_cancel_all_cancels_what_has_not_ended_of_this_user(bench: Bench) -> None:
    runs = [bench.run(State.RUNNING, alive=True), bench.run(alive=True)]
    bench.run(State.SUCCESS)
    bench.run(State.RUNNING, alive=True, user="you")
    assert set(bench.client.cancel_all()) == {run.id for run in runs}


def test_a_full_disk_refuses_a_cancel_and_says_how_to_do_without(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.run(State.RUNNING, alive=True)

    def refuse(_disk: SystemDisk, path: Path, _data: bytes) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(SystemDisk, "create", refuse)
    with pytest.raises(StoreError, match=r"(?s)cannot write .*cancel\.json: No space left on device") as caught:
        bench.client.cancel([run.id])
    assert caught.value.hint == "free some space, or ask its supervisor: kill 4242"


def test_a_dead_run_is_settled_by_whoever_looks(bench: Bench) -> None:
    run = bench.run(State.RUNNING)
    view = bench.client.get(run.id).view()
    assert (view.state, bench.backend.swept) == (State.FAILED, [run.id])
    assert bench.client.get("@last").view() == view
    assert bench.backend.swept == [run.id]


def test_a_living_run_is_left_alone(bench: Bench) -> None:
    run = bench.run(State.RUNNING, alive=True)
    assert bench.client.get(run.id).view().state is State.RUNNING
    assert is_held(run.lock)
    assert bench.backend.swept == []


@pytest.mark.parametrize("name", ["status.json", "run.json"])
def test_a_damaged_run_is_told_by_name(bench: Bench, name: str) -> None:
    run = bench.run(State.RUNNING)
    (run.root / name).write_bytes(b"\0" * 100)
    with pytest.raises(StoreError, match=r"(?s)" + name.replace(".", r"\.") + " is damaged"):
        bench.client.get(run.id)
    with pytest.raises(StoreError):
        bench.client.cancel([run.id])


def test_logs_of_nodes_and_attempts_that_are_not_there_say_which_are(bench: Bench) -> None:
    run = bench.client.get(bench.run(State.FAILED).id)
    for node, attempt, hint in (
        (2, None, "it has 2 nodes: --node 0 to 1"),
        (-1, None, "it has 2 nodes: --node 0 to 1"),
        (0, 1, "it has one attempt: --retry 0"),
    ):
        with pytest.raises(NotFoundError) as caught:
            list(run.logs(node=node, attempt=attempt))
        assert caught.value.hint == hint
    waiting = bench.client.get(bench.run(alive=True).id)
    with pytest.raises(NotFoundError) as caught:
        list(waiting.logs(attempt=0))
    assert caught.value.hint == f"it has not started yet: air get {waiting.id}"


def test_logs_are_copied_by_node(bench: Bench, tmp_path: Path) -> None:
    paths = bench.run(State.FAILED)
    paths.log(attempt=0, node=0).write_text("zero")
    paths.log(attempt=0, node=1).write_text("one")
    run = bench.client.get(paths.id)
    folder = tmp_path / "new" / "folder"
    copies = run.download_logs(folder)
    assert copies == [folder / "node_0.log", folder / "node_1.log"]
    assert [copy.read_text() for copy in copies] == ["zero", "one"]
    assert run.download_logs(folder, node=1) == [folder / "node_1.log"]
    paths.log(attempt=0, node=1).unlink()
    assert run.download_logs(folder, node=1) == []


@pytest.mark.parametrize(("env", "name"), [({"USER": "ada"}, "ada"), ({"USER": ""}, None), ({}, None)])
def test_who_submits_is_the_login_name(env: dict[str, str], name: str | None) -> None:
    import pwd

    assert user_name(env) == (name or pwd.getpwuid(os.getuid()).pw_name)


def test_who_has_no_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert user_name({}) == "4000000"


def test_a_run_of_another_profile_is_told_to_be_there(bench: Bench, tmp_path: Path) -> None:
    run = bench.run(State.SUCCESS)
    config = tmp_path / "config.toml"
    config.write_text(f"[profiles.hpc]\nhome = {json.dumps(str(bench.home))}\n", encoding="utf-8")
    elsewhere = Client(home=tmp_path / "other", env={"AIR_CONFIG": str(config)})
    with pytest.raises(NotFoundError, match=f"there is no run {run.id}") as caught:
        elsewhere.get(run.id)
    assert caught.value.hint == "profile hpc has it: add -p hpc"


def test_an_option_that_the_backend_does_not_know_is_told_with_its_file(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[profiles.hpc]\nbackend = "slurm"\npartiton = "gpu"\n', encoding="utf-8")
    client = Client("hpc", home=tmp_path / "home", env={"AIR_CONFIG": str(config)})
    with pytest.raises(ConfigError) as caught:
        client.doctor()
    assert caught.value.message == f"{config}: profiles.hpc: the slurm backend has no option 'partiton'"
    assert caught.value.hint == "Did you mean `partition`?"
