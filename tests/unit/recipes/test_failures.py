"""What is said of workers that ended, and whether the training starts again."""

from __future__ import annotations

import pytest
from recipes.engine.failures import Failure, Patience, Verdict, failure_of, judge, story_of
from recipes.errors import RecipeError

GLOO = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.1]:20879: Connection reset by peer"
)
RAY_SAYS = """A worker health check failed.
Worker info: Worker(
  metadata=ActorMetadata(
    node_ip='10.0.0.2',
    pid=30005,
  ),
)
The actor died unexpectedly before finishing this task.
The actor is dead because {}
"""


def lost(rank: int) -> Failure:
    return failure_of(RuntimeError(GLOO), rank, "10.0.0.1")


def test_a_dead_worker_is_the_cause_and_those_that_miss_it_are_not() -> None:
    assert judge([lost(0), lost(2)], {1: "on 10.0.0.2 died: killed"}) == Verdict(
        "worker 1 on 10.0.0.2 died: killed", again=True, exit_code=1
    )


def test_refused_data_is_the_cause_whoever_died_of_it() -> None:
    refused = failure_of(RecipeError(["rows.jsonl:7: no text"], "Mend it"), 1, "10.0.0.2")
    verdict = judge([lost(0), refused], {2: "died"})
    assert verdict == Verdict("rows.jsonl:7: no text\nMend it", again=False, exit_code=2)


def test_an_error_of_the_program_is_not_tried_again() -> None:
    with pytest.raises(KeyError) as raised:
        {"ids": 1}["labels"]
    failure = failure_of(raised.value, 1, "10.0.0.2")
    verdict = judge([lost(0), failure], {})
    assert (verdict.again, verdict.exit_code) == (False, 1)
    assert verdict.text.startswith("worker 1 on 10.0.0.2 failed\nTraceback")
    assert verdict.text.endswith("KeyError: 'labels'")


def test_an_error_beside_a_death_may_be_its_effect() -> None:
    assert judge([failure_of(ValueError("half a message"), 0, "10.0.0.1")], {1: "died"}).again


def test_a_connection_that_breaks_alone_is_tried_again() -> None:
    verdict = judge([lost(3), lost(1)], {})
    assert verdict.again
    assert verdict.text == f"worker 3 on 10.0.0.1 failed: {GLOO}"


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), RuntimeError("NCCL error: remote process exited")])
def test_a_machine_may_do_better_another_time(error: Exception) -> None:
    assert failure_of(error, 0, "10.0.0.1").kind == "machine"


def test_workers_that_say_nothing_are_tried_again() -> None:
    assert judge([], {}) == Verdict("the workers ended without a word", again=True, exit_code=1)


@pytest.mark.parametrize(
    ("says", "story"),
    [
        (
            "it has died. Worker exit detail: Worker unexpectedly exits with a connection error code 2. End",
            "its process was killed or crashed; often for want of memory",
        ),
        ("its node has died. Node Id: 7c", "its node was lost"),
        (
            "it is unavailable: The actor is temporarily unavailable: RpcError: Connection refused rpc_code: 14.",
            "it cannot be reached any more; its node, or the network to it, may be gone",
        ),
        (
            "its process has died. Worker exit detail: Task was killed due to the node running low on memory.",
            "its node ran out of memory, and Ray ended it",
        ),
        (
            "its worker process has died. Worker exit type: INTENDED Worker exit detail: Worker exits by ray.kill.",
            "Worker exits by ray.kill.",
        ),
    ],
)
def test_of_what_ray_says_about_a_death_one_sentence_is_left(says: str, story: str) -> None:
    assert story_of(RuntimeError(RAY_SAYS.format(says))) == f"on 10.0.0.2 (pid 30005) died: {story}"


def test_what_ray_says_otherwise_is_kept() -> None:
    assert story_of(RuntimeError("Something new\nand more")) == "died: Something new"
    unhealthy = RuntimeError("A worker health check failed.\nSomething new")
    unhealthy.health_check_failure = ValueError("Something new")  # type: ignore[attr-defined]  # as Ray Train's has it
    assert story_of(unhealthy) == "died: Something new"


def test_failures_in_a_row_are_counted_anew_after_a_newer_checkpoint() -> None:
    patience = Patience(most=2)
    for saved_step in (0, 0):
        patience = patience.after_failure(saved_step)
    assert (patience.failures, patience.exhausted) == (2, False)
    assert patience.after_failure(0).exhausted
    patience = patience.after_failure(40)
    assert (patience.failures, patience.exhausted) == (1, False)
    assert patience.after_failure(40).failures == 2
