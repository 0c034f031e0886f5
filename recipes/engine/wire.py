"""The line between rank 0 and the driver, a Ray actor on the driver's node: neither end waits for the other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from recipes.engine.failures import Failure

MOST_MESSAGES = 10_000
POLL_S = 20.0  # how long a question without an answer stays open
FLUSH_S = 10.0
Message = tuple[str, dict[str, Any], float]  # kind, facts, and when it was told, in seconds since 1970


class Board:
    """What the two ends leave for each other; runs as a Ray actor."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._failures: list[Failure] = []
        self._closed = False
        self._news = asyncio.Event()
        self._stop = asyncio.Event()

    async def tell(self, messages: list[Message]) -> None:
        self._messages += messages
        self._news.set()

    async def hear(self, timeout_s: float) -> list[Message] | None:
        """What was told since the last time, soon after it was; None when nothing more will come."""
        await true_within(self._news, timeout_s)
        self._news.clear()
        messages, self._messages = self._messages, []
        return None if self._closed and not messages else messages

    async def close(self) -> None:
        self._closed = True
        self._news.set()

    async def stop(self) -> None:
        """Ask the training to save and end."""
        self._stop.set()

    async def stop_asked(self, timeout_s: float) -> bool:
        return await true_within(self._stop, timeout_s)

    async def fail(self, failure: Failure) -> None:
        self._failures.append(failure)

    async def take_failures(self) -> list[Failure]:
        """What workers said of their ends since the last time, the first to end first."""
        failures, self._failures = self._failures, []
        return failures


async def true_within(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
    return True


class WireLine:
    """Rank 0's end. Of more messages than the other end can take, the oldest are lost."""

    def __init__(self, board: Any) -> None:
        self._board = board
        self._messages: deque[Message] = deque(maxlen=MOST_MESSAGES)
        self._news = threading.Condition()
        self._stopping = self._closed = False
        self._sender = threading.Thread(target=self._send, name="line", daemon=True)
        self._sender.start()
        threading.Thread(target=self._watch, name="stop", daemon=True).start()

    def tell(self, kind: str, facts: Mapping[str, Any]) -> None:
        with self._news:
            self._messages.append((kind, dict(facts), time.time()))
            self._news.notify()

    def stopping(self) -> bool:
        return self._stopping

    def close(self) -> None:
        """Until all that was told is with the driver, or its node does not answer."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._sender.join(FLUSH_S)

    def _send(self) -> None:
        while messages := self._take():
            try:
                answer(self._board.tell.remote(messages), FLUSH_S)
            except Exception:  # noqa: BLE001 - the driver is gone, and Ray ends this worker
                return

    def _take(self) -> list[Message]:
        """Everything told since the last time; nothing when the line is closed."""
        with self._news:
            self._news.wait_for(lambda: self._messages or self._closed)
            messages = list(self._messages)
            self._messages.clear()
            return messages

    def _watch(self) -> None:
        while not (self._stopping or self._closed):
            try:
                self._stopping = answer(self._board.stop_asked.remote(POLL_S), POLL_S + FLUSH_S)
            except Exception:  # noqa: BLE001 - as above
                return


class Silent:
    """The line of the other ranks: what concerns all, rank 0 tells."""

    def tell(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Nobody listens."""

    def stopping(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is on its way."""


class Listener:
    """The driver's end: passes each message on, in a thread of its own."""

    def __init__(self, board: Any, hear: Callable[[Message], None]) -> None:
        self._board = board
        self._hear = hear
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Until everything is passed on that the training has told, for so long at the most."""
        self._board.close.remote()
        self._thread.join(timeout_s)

    def _listen(self) -> None:
        while True:
            try:
                messages = answer(self._board.hear.remote(POLL_S), POLL_S + FLUSH_S)
            except Exception:  # noqa: BLE001 - Ray is gone; who started the training hears of that elsewhere
                return
            if messages is None:
                return
            for message in messages:
                self._hear(message)


def answer(reference: Any, timeout_s: float) -> Any:
    import ray

    return ray.get(reference, timeout=timeout_s)
