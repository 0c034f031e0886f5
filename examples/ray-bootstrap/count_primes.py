"""Count primes on every core of a Ray cluster, once all of its nodes have joined."""

from __future__ import annotations

import os
import time

import ray

BLOCK = 20_000


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def primes_between(first: int, last: int) -> int:
    """How many primes there are from `first` to before `last`."""
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(first, last))


def wait_for_cores(wanted: int, timeout_s: float = 120) -> None:
    """Wait until so many cores have joined: workers come a few seconds after the head."""
    deadline = time.monotonic() + timeout_s
    while ray.cluster_resources().get("CPU", 0) < wanted:
        if time.monotonic() > deadline:
            raise SystemExit(f"fewer than {wanted} cores joined within {timeout_s:.0f} s")
        time.sleep(0.5)


def main() -> None:
    ray.init(logging_level="warning")
    wait_for_cores(int(os.environ["WORLD_SIZE"]))
    blocks = [(max(2, first), first + BLOCK) for first in range(0, 4 * BLOCK, BLOCK)]
    counts = ray.get([primes_between.remote(*block) for block in blocks])
    nodes = sum(node["Alive"] for node in ray.nodes())
    print(f"{sum(counts)} primes below {4 * BLOCK}, counted by a cluster of {nodes} nodes")


if __name__ == "__main__":
    main()
