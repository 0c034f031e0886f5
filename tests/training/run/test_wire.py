"""The line between rank 0 and the driver, with a real actor between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from recipes.engine.cluster import Cluster, connect
from recipes.engine.failures import Failure
from recipes.engine.wire import MOST_MESSAGES, Board, Listener, Message, Silent, WireLine


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        connect(Cluster())
        yield
        ray.shutdown()


@pytest.fixture
def board(ray_here: None) -> Iterator[Any]:  # noqa: ARG001
    actor = ray.remote(num_cpus=0)(Board).remote()
    yield actor
    ray.kill(actor)


def test_everything_told_is_heard_in_order(board: Any) -> None:
    heard: list[Message] = []
    listener = Listener(board, heard.append)
    line = WireLine(board)
    for step in range(2000):
        line.tell("step", {"step": step})
    line.close()
    listener.finish(30)
    assert [(kind, facts["step"]) for kind, facts, _ in heard] == [("step", step) for step in range(2000)]
    assert [at for _, _, at in heard] == sorted(at for _, _, at in heard)


def test_a_message_is_heard_soon(board: Any) -> None:
    arrived = threading.Event()
    listener = Listener(board, lambda _: arrived.set())
    line = WireLine(board)
    line.tell("warm", {})
    assert arrived.wait(30)
    arrived.clear()
    line.tell("step", {})
    assert arrived.wait(2)
    line.close()
    listener.finish(30)


def test_asking_to_stop_is_noticed_without_being_asked_for(board: Any) -> None:
    line = WireLine(board)
    assert not line.stopping()
    board.stop.remote()
    deadline = time.monotonic() + 30
    while not line.stopping():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    line.close()


def test_telling_takes_no_time_and_little_memory_when_the_driver_is_gone(ray_here: None) -> None:  # noqa: ARG001
    board = ray.remote(num_cpus=0)(Board).remote()
    line = WireLine(board)
    ray.kill(board)
    began = time.monotonic()
    for step in range(3 * MOST_MESSAGES):
        line.tell("step", {"step": step})
    assert time.monotonic() - began < 2
    assert len(line._messages) <= MOST_MESSAGES
    assert not line.stopping()


def test_failures_are_taken_in_the_order_of_their_coming(board: Any) -> None:
    failures = [Failure(rank, "10.0.0.1", "machine", "lost") for rank in (1, 0)]
    for failure in failures:
        ray.get(board.fail.remote(failure))
    assert ray.get(board.take_failures.remote()) == failures
    assert ray.get(board.take_failures.remote()) == []


def test_other_ranks_tell_nothing() -> None:
    line = Silent()
    line.tell("step", {})
    assert not line.stopping()
    line.close()
