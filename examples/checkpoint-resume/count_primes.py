"""Count primes block by block, saving after each block; the first attempt is made to fail half way."""

from __future__ import annotations

import json
import os
from pathlib import Path

BLOCKS = 10
BLOCK_SIZE = 5000
CHECKPOINT = Path(os.environ["AIR_CHECKPOINT_DIR"], "progress.json")


def main() -> None:
    blocks, primes = load()
    print(f"starting at block {blocks} with {primes} primes")
    for block in range(blocks, BLOCKS):
        if block == BLOCKS // 2 and os.environ["AIR_ATTEMPT"] == "0":
            raise SystemExit("the power went out")
        primes += sum(map(is_prime, range(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE)))
        save(block + 1, primes)
        print(f"block {block}  {primes} primes below {(block + 1) * BLOCK_SIZE}")


def load() -> tuple[int, int]:
    """Blocks done and primes found so far."""
    if not CHECKPOINT.exists():
        return 0, 0
    progress = json.loads(CHECKPOINT.read_text(encoding="utf-8"))
    return progress["blocks"], progress["primes"]


def save(blocks: int, primes: int) -> None:
    """Replace the checkpoint in one step: whenever this is killed, the old one or the new one is there, complete."""
    written = CHECKPOINT.with_suffix(".new")
    written.write_text(json.dumps({"blocks": blocks, "primes": primes}), encoding="utf-8")
    written.replace(CHECKPOINT)


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


if __name__ == "__main__":
    main()
