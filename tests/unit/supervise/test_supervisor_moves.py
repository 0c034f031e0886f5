"""A run whose place takes its nodes back, and a run that goes on under another supervisor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.backends.base import Interruption
from airlane.errors import BackendError
from airlane.store import codec
from airlane.store.records import Attempt, Cause, CauseKind
from airlane.store.states import State
from airlane.supervise.supervisor import ReplacedError
from simulation.world import NodeScript

from .made_nodes import node_record
from .made_world import CANCELED, LASTS, NODE_FAILED, PREEMPTED, TIMEOUT, Stage, taken

FAILS, SUCCEEDS = NodeScript(5.0, 3), NodeScript(5.0, 0)
DONE = "the command exited with code 0 on every node"


def test_a_preempted_attempt_is_closed_and_the_run_goes_on_elsewhere_with_its_secrets(tmp_path: Path) -> None:
    stage = Stage(tmp_path, nodes=2)
    assert stage.supervise(taken(PREEMPTED)) is None
    assert stage.ends == [(State.FAILED, PREEMPTED.summary)]
    assert (stage.view.state, stage.view.status and stage.view.status.detail) == (State.RUNNING, "elsewhere")
    assert stage.paths.secrets.exists()
    assert not [node for node in stage.backend.nodes if node.agent_alive]


def test_a_preempted_run_ends_under_its_next_supervisor(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [LASTS, SUCCEEDS], limits={"max_retries": 0})
    assert stage.supervise(taken(PREEMPTED)) is None
    assert stage.supervise() is State.SUCCESS
    assert stage.ends == [(State.FAILED, PREEMPTED.summary), (State.SUCCESS, DONE)]
    assert not stage.paths.secrets.exists()
    assert stage.orphans == []


def test_the_next_place_is_asked_for_while_the_command_still_saves(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(LASTS, grace_used=1.0)])
    stage.supervise(taken(PREEMPTED))
    assert stage.backend.asked == ["move after nothing", "move after FAILED while nodes run", "move after FAILED"]


def test_a_refusal_of_the_next_place_is_asked_about_again_when_the_attempt_has_ended(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    refusals: list[BackendError | None] = [BackendError("sbatch gave no answer"), None]

    def moves(attempts: Sequence[Attempt]) -> str | None:
        refusal = refusals.pop(0) if attempts else None
        if refusal is not None:
            raise refusal
        return "elsewhere" if attempts else None

    stage.backend.moves = moves
    assert stage.supervise(taken(PREEMPTED)) is None
    assert '"not_moved"' in stage.paths.events.read_text()


def test_a_place_that_has_no_next_one_ends_the_run_and_says_why(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [FAILS])

    def moves(attempts: Sequence[Attempt]) -> str | None:
        if attempts:
            raise BackendError("Slurm refuses: invalid account")
        return None

    stage.backend.moves = moves
    assert stage.supervise() is State.FAILED
    assert stage.view.cause == Cause(CauseKind.NODE_LOST, "Slurm refuses: invalid account")
    assert len(stage.view.attempts) == 1


def test_a_time_limit_of_the_place_uses_up_a_retry(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits={"max_retries": 1})
    assert stage.supervise(taken(TIMEOUT)) is None
    assert stage.supervise(taken(TIMEOUT)) is State.TIMEDOUT
    assert stage.ends == [(State.TIMEDOUT, TIMEOUT.summary)] * 2


def test_time_that_is_up_before_the_nodes_are_there_fails_the_attempt(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits={"max_retries": 0})
    stage.backend.wait_s = 60.0
    assert stage.supervise(taken(TIMEOUT)) is State.FAILED
    assert stage.ends == [(State.FAILED, TIMEOUT.summary)]


def ends_and_is_interrupted_before_the_next_look(stage: Stage, exit_code: int) -> None:
    def happen() -> None:
        (node,) = stage.backend.nodes
        node._end(exit_code=exit_code)
        stage.backend.taken_back = PREEMPTED

    stage.world.at(stage.start + 10, happen)


def test_a_success_that_came_before_the_interruption_counts_and_the_next_place_is_given_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    ends_and_is_interrupted_before_the_next_look(stage, 0)
    assert stage.supervise() is State.SUCCESS
    assert stage.backend.asked == ["move after nothing", "move after FAILED", "cancel"]


def test_a_failure_that_came_before_the_interruption_is_the_cause(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    ends_and_is_interrupted_before_the_next_look(stage, 3)
    assert stage.supervise() is None
    assert stage.ends == [(State.FAILED, "node 0 exited with code 3")]


def test_a_command_that_the_place_itself_ended_did_not_fail(tmp_path: Path) -> None:
    stage = Stage(tmp_path, nodes=2)
    assert stage.supervise(taken(PREEMPTED, stops_nodes=True)) is None
    assert stage.ends == [(State.FAILED, PREEMPTED.summary)]


@pytest.mark.parametrize("after_s", [10.0, 12.0])
def test_a_cancel_while_a_preempted_command_saves_ends_the_run_and_gives_the_next_place_back(
    tmp_path: Path, after_s: float
) -> None:
    stage = Stage(tmp_path, [replace(LASTS, grace_used=1.0)])
    stage.cancel_at(after_s)
    assert stage.supervise(taken(PREEMPTED)) is State.CANCELED
    assert stage.view.cause == Cause(CauseKind.CANCELED, "canceled by the user")
    ((state, _),) = stage.ends
    assert state is (State.CANCELED if after_s == 10.0 else State.FAILED)
    assert "cancel" in stage.backend.asked or len(stage.backend.asked) == 1


def test_a_place_that_cannot_be_given_back_does_not_keep_the_run_from_its_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(LASTS, grace_used=1.0)])
    stage.cancel_at(12.0)
    stage.backend.cancel_refusal = BackendError("scancel gave no answer")
    assert stage.supervise(taken(PREEMPTED)) is State.CANCELED
    assert '"not_moved_back"' in stage.paths.events.read_text()


def test_a_supervisor_that_is_canceled_where_it_runs_says_by_what(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.supervise(taken(CANCELED, told_s=0.0)) is State.CANCELED
    assert stage.view.cause == Cause(CauseKind.CANCELED, CANCELED.summary)


@pytest.mark.parametrize("of_what", ["the environment", "the MLflow server"])
@pytest.mark.parametrize(
    ("interruption", "state", "summary"),
    [
        (PREEMPTED, None, None),
        (TIMEOUT, State.FAILED, TIMEOUT.summary),
        (CANCELED, State.CANCELED, CANCELED.summary),
    ],
)
def test_a_supervisor_that_is_asked_to_stop_while_it_prepares_makes_no_attempt(
    tmp_path: Path, of_what: str, interruption: Interruption, state: State | None, summary: str | None
) -> None:
    wait_s = {"the environment": (60.0, 0.0), "the MLflow server": (0.0, 60.0)}[of_what]
    stage = Stage(tmp_path, build_s=wait_s[0], tracking_s=wait_s[1])
    assert stage.supervise(taken(interruption, told_s=0.0)) is state
    assert stage.ends == []
    assert (stage.view.cause.summary if stage.view.cause is not None else None) == summary


def test_a_supervisor_that_is_asked_to_stop_between_attempts_moves_at_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [FAILS])
    assert stage.supervise(taken(PREEMPTED, after_s=5.2, told_s=0.0)) is None
    assert stage.backend.asked[-2:] == ["move after FAILED", "move after FAILED"]
    assert stage.world.now - stage.start < 7


def test_a_supervisor_that_was_replaced_ends_its_nodes_and_writes_nothing_more(tmp_path: Path) -> None:
    stage = Stage(tmp_path, nodes=2)
    stage.backend.is_replaced = lambda: stage.world.now > stage.start + 10
    with pytest.raises(ReplacedError):
        stage.supervise()
    assert not [node for node in stage.backend.nodes if node.agent_alive]
    assert all(node.stopped is None for node in stage.backend.nodes), "it could have saved over what the next one does"
    assert stage.ends == [(None, "open")]


def open_attempt(stage: Stage, *codes: int, number: int = 0) -> Attempt:
    """An attempt whose supervisor was killed; its nodes ended by themselves with these exit codes."""
    stage.paths.nodes(number).mkdir(parents=True)
    for node, code in enumerate(codes):
        record = codec.encode(node_record(node, at=5, exit_code=code))
        stage.paths.node_record(attempt=number, node=node).write_bytes(record)
    return Attempt(number, stage.start, hosts=("gpu-b0", "gpu-b1"))


LOST = "the supervisor of this attempt was lost, and the run was started again"


@pytest.mark.parametrize(
    ("words", "state", "kind", "summary"),
    [
        (None, State.FAILED, CauseKind.NODE_FAILED, LOST),
        (NODE_FAILED, State.FAILED, CauseKind.NODE_FAILED, "host0 failed"),
        (PREEMPTED, State.FAILED, CauseKind.PREEMPTED, PREEMPTED.summary),
        (TIMEOUT, State.TIMEDOUT, CauseKind.TIMEOUT, TIMEOUT.summary),
    ],
)
def test_an_open_attempt_is_closed_by_what_the_place_says(
    tmp_path: Path, words: Interruption | None, state: State, kind: CauseKind, summary: str
) -> None:
    stage = Stage(tmp_path, [LASTS, SUCCEEDS])
    stage.left(open_attempt(stage))
    assert stage.supervise(how_it_ended=words) is State.SUCCESS
    closed = stage.view.attempts[0]
    assert closed.cause is not None
    assert (closed.state, closed.cause.kind, closed.cause.summary) == (state, kind, summary)
    assert stage.orphans == [closed], "it is closed in MLflow, too"
    assert [attempt.number for attempt in stage.view.attempts] == [0, 1]


def test_an_open_attempt_whose_run_was_canceled_there_ends_the_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.left(open_attempt(stage))
    assert stage.supervise(how_it_ended=CANCELED) is State.CANCELED
    assert stage.ends == [(State.CANCELED, CANCELED.summary)]


@pytest.mark.parametrize("written", [State.RUNNING, State.PENDING])
def test_an_open_attempt_that_had_succeeded_ends_the_run_and_nothing_is_prepared(
    tmp_path: Path, written: State
) -> None:
    stage = Stage(tmp_path, nodes=2)
    stage.left(open_attempt(stage, 0, 0), state=written)
    assert stage.supervise(how_it_ended=PREEMPTED) is State.SUCCESS
    assert stage.workshop.begun == 0
    assert stage.ends == [(State.SUCCESS, "the command exited with code 0")]


def test_an_open_attempt_that_had_failed_keeps_its_cause(tmp_path: Path) -> None:
    stage = Stage(tmp_path, nodes=2, limits={"max_retries": 0})
    stage.left(open_attempt(stage, 0, 7))
    assert stage.supervise(how_it_ended=PREEMPTED) is State.FAILED
    ((_, summary),) = stage.ends
    assert summary == "node 1 exited with code 7"


def test_a_machine_that_failed_is_why_the_nodes_beside_it_failed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [LASTS, SUCCEEDS], nodes=2, limits={"max_retries": 0})
    stage.left(open_attempt(stage, 0, 7))
    assert stage.supervise(how_it_ended=NODE_FAILED) is State.SUCCESS
    assert stage.ends[0] == (State.FAILED, NODE_FAILED.summary)


def test_attempts_that_had_ended_stay_as_they_are_and_the_next_one_follows_them(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [LASTS, SUCCEEDS])
    cause = Cause(CauseKind.EXIT_CODE, "node 0 exited with code 3")
    ended = replace(open_attempt(stage), ended_at=stage.start + 5, state=State.FAILED, cause=cause)
    stage.left(ended)
    assert stage.supervise(how_it_ended=PREEMPTED) is State.SUCCESS
    assert stage.view.attempts[0] == ended
    assert [attempt.number for attempt in stage.view.attempts] == [0, 1]
    assert stage.orphans == []


def test_a_supervisor_that_was_lost_uses_up_no_retry_but_not_for_ever(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits={"max_retries": 0})
    cause = Cause(CauseKind.NODE_FAILED, LOST)
    lost = [Attempt(n, stage.start, stage.start + 1, State.FAILED, cause) for n in range(10)]
    stage.left(*lost, open_attempt(stage, number=10))
    assert stage.supervise() is State.FAILED
    assert stage.view.cause == cause


def test_what_an_attempt_left_that_no_status_tells_of_is_not_taken_for_the_next_ones_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [SUCCEEDS])
    open_attempt(stage, 7)  # with a full disk its supervisor could not say that it had begun
    assert stage.supervise() is State.SUCCESS
    assert stage.ends == [(State.SUCCESS, DONE)]


def test_what_is_said_last_before_another_supervisor_goes_on_is_on_the_disk(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    full = [stage.start + 9, stage.start + 100]
    stage.disk._full = lambda now: full[0] <= now <= full[1]
    assert stage.supervise(taken(PREEMPTED)) is None
    assert stage.world.now >= full[1]
    assert stage.ends == [(State.FAILED, PREEMPTED.summary)]
