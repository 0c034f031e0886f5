"""Large data, stored once: `put` gives a reference, and each node fetches the object when it first needs it."""

from __future__ import annotations

import numpy as np
import ray

ROWS = 1_000_000


@ray.remote(scheduling_strategy="SPREAD")
def total(table: np.ndarray) -> tuple[float, bool, str]:
    """What is in the store is read in place, without a copy; so nobody may change it."""
    return float(table.sum()), table.flags.writeable, ray.get_runtime_context().get_node_id()


@ray.remote
def kinds(alone: object, listed: list[object]) -> tuple[str, str]:
    """Only an argument that is itself a reference is replaced by its value; in a list it stays a reference."""
    return type(alone).__name__, type(listed[0]).__name__


@ray.remote
def first(references: list[ray.ObjectRef]) -> float:
    """Whoever gets a reference may fetch the object, now or never."""
    return float(ray.get(references[0])[0])


def main() -> None:
    ray.init("auto", logging_level="error")
    table = np.ones(ROWS)

    # Passing `table` itself to six calls would store it six times.
    reference = ray.put(table)
    sums, writeable, nodes = zip(*ray.get([total.remote(reference) for _ in range(6)]), strict=True)
    print(f"{table.nbytes // 10**6} MB, stored once, read by 6 calls on {len(set(nodes))} nodes: {set(sums)}")
    print(f"a reader may write: {any(writeable)}")

    alone, listed = ray.get(kinds.remote(reference, [reference]))
    print(f"as an argument: {alone}; in a list: {listed}")
    print(f"fetched by who holds the reference: {ray.get(first.remote([reference]))}")

    # The object lives as long as a reference to it; then its memory is free again.
    del reference


if __name__ == "__main__":
    main()
