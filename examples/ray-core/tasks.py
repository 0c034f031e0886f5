"""Functions that run elsewhere: a call returns at once, with a reference to what will be its result."""

from __future__ import annotations

import time

import ray


@ray.remote
def square(number: int) -> int:
    """One CPU for a moment."""
    time.sleep(0.5)
    return number * number


@ray.remote
def add(*numbers: int) -> int:
    """References that are arguments arrive as their values."""
    return sum(numbers)


@ray.remote(num_returns=2)
def divide(number: int, by: int) -> tuple[int, int]:
    """Two results, two references: who needs one does not wait for, or fetch, the other."""
    return number // by, number % by


@ray.remote(scheduling_strategy="SPREAD")
def node() -> str:
    """The default strategy fills one node before the next; SPREAD takes them in turn."""
    time.sleep(0.5)
    return ray.get_runtime_context().get_node_id()


def main() -> None:
    ray.init("auto", logging_level="error")
    ray.get([square.remote(0) for _ in range(6)])  # starting the workers takes longer than the work below

    started = time.monotonic()
    squares = [square.remote(number) for number in range(6)]
    print(f"6 calls returned after {time.monotonic() - started:.1f} s")
    total = add.remote(*squares)  # nothing has to be fetched to be passed on
    print(
        f"0 + 1 + 4 + 9 + 16 + 25 = {ray.get(total)} after {time.monotonic() - started:.1f} s; one by one it takes 3 s"
    )

    quotient, remainder = ray.get(divide.remote(17, 5))
    print(f"17 = {quotient} * 5 + {remainder}")

    print(f"6 spread calls ran on {len(set(ray.get([node.remote() for _ in range(6)])))} nodes")


if __name__ == "__main__":
    main()
