"""Processes that die: calls are tried again, actors start again, and what must not be forgotten is kept elsewhere."""

from __future__ import annotations

import os
import signal

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Notebook:
    """Outlives those who write in it."""

    def __init__(self) -> None:
        self.pages: dict[str, list[int]] = {}

    def write(self, page: str, number: int) -> list[int]:
        self.pages.setdefault(page, []).append(number)
        return self.pages[page]

    def read(self, page: str) -> list[int]:
        return self.pages.get(page, [])


LAST = 3  # the try that succeeds


@ray.remote(max_retries=LAST)
def fragile(notebook: ray.actor.ActorHandle) -> int:
    """Dies twice, as it would when memory runs out: nothing of it can be caught or cleaned up."""
    tries = ray.get(notebook.write.remote("tries", os.getpid()))
    if len(tries) < LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    return len(tries)


# An exception is an answer, so it is not retried unless it is named here.
@ray.remote(max_retries=1, retry_exceptions=[ConnectionError])
def flaky(notebook: ray.actor.ActorHandle) -> int:
    """Fails once with an error that goes away, then answers."""
    tries = ray.get(notebook.write.remote("errors", os.getpid()))
    if len(tries) == 1:
        raise ConnectionError("try again")
    return len(tries)


# max_task_retries: calls that were under way when the actor died are made again. They may have been done, so this is
# for what can be done twice.
@ray.remote(max_restarts=1, max_task_retries=1)
class Counter:
    """Starts from nothing each time, unless it looks up where it was."""

    def __init__(self) -> None:
        # By its name: what is passed to a constructor must still be in the object store when the actor starts again.
        self.notebook = ray.get_actor("notebook")
        self.counted = len(ray.get(self.notebook.read.remote("counts")))

    def count(self) -> int:
        self.counted += 1
        ray.get(self.notebook.write.remote("counts", self.counted))
        return self.counted

    def place(self) -> tuple[str, int]:
        """Its node and its process."""
        return ray.get_runtime_context().get_node_id(), os.getpid()


@ray.remote(num_cpus=0)
def kill(process: int) -> None:
    """What an operator, or the kernel when memory runs out, does to a process of this node."""
    os.kill(process, signal.SIGKILL)


def main() -> None:
    ray.init("auto", logging_level="error", log_to_driver=False)
    notebook = Notebook.options(name="notebook").remote()

    tries = ray.get(fragile.remote(notebook))
    processes = len(set(ray.get(notebook.read.remote("tries"))))
    print(f"killed twice, done at try {tries}, by {processes} processes")
    print(f"an error that may be retried, done at try {ray.get(flaky.remote(notebook))}")

    counter = Counter.remote()
    before = ray.get(counter.place.remote())
    print("counted", [ray.get(counter.count.remote()) for _ in range(3)])
    kill_at(*before)
    print("counted", [ray.get(counter.count.remote()) for _ in range(2)], "after a restart")
    after = ray.get(counter.place.remote())
    print("the actor's process is another:", after != before)

    kill_at(*after)  # one restart was allowed
    try:
        ray.get(counter.count.remote())
    except ray.exceptions.RayActorError:
        print("killed again: the actor is dead, and every call says so")


def kill_at(node: str, process: int) -> None:
    """Kill it from its own node: a process has its number only there."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    ray.get(kill.options(scheduling_strategy=there).remote(process))


if __name__ == "__main__":
    main()
