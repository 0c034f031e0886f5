"""Results as they come: `wait` says which are ready, so that the slowest does not hold up the rest."""

from __future__ import annotations

import time

import ray

SECONDS = (3.6, 0.4, 2.0)
AT_ONCE = 2


@ray.remote
def sleep(seconds: float) -> float:
    """Work that takes this long."""
    time.sleep(seconds)
    return seconds


def main() -> None:
    ray.init("auto", logging_level="error")
    ray.get([sleep.remote(0.5) for _ in SECONDS])  # workers that are there already make the order below plain

    print(f"started    {SECONDS}")
    waiting = [sleep.remote(seconds) for seconds in SECONDS]
    finished = []
    while waiting:
        # One at a time; num_returns takes more at once. get() on the whole list would wait for the slowest.
        ready, waiting = ray.wait(waiting)
        finished += ray.get(ready)
    print(f"completed  {tuple(finished)}")

    # With a deadline: what is not ready by then can be left, or given up.
    slow = sleep.remote(600)
    ready, late = ray.wait([slow], timeout=1)
    print(f"after 1 s  {len(ready)} ready, {len(late)} late")
    ray.cancel(slow, force=True)  # without force it is an exception in the call, which a sleep does not notice
    try:
        ray.get(slow)
    except (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError):
        print("canceled   the late one")

    # Never more than two at once, however long the list: before the next is started, one must be done.
    running: list[ray.ObjectRef] = []
    most = 0
    for _ in range(8):
        if len(running) == AT_ONCE:
            _, running = ray.wait(running)
        running.append(sleep.remote(0.1))
        most = max(most, len(running))
    ray.get(running)
    print(f"in turn    8 calls, {most} at a time")


if __name__ == "__main__":
    main()
