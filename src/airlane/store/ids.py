"""Run ids: eight characters that sort by time and are easy to read aloud."""

from __future__ import annotations

# Crockford's base 32: no i, l, o or u.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 8
_FIRST_SECOND = 1_767_225_600  # 2026-01-01 UTC
_TICKS_PER_SECOND = 8
_RANDOM_BITS = 7


def new_id(now: float, chance: int) -> str:
    """An id for a run submitted at `now` (epoch seconds); `chance` is any number. Not unique by itself: RunStore is."""
    ticks = max(0, int((now - _FIRST_SECOND) * _TICKS_PER_SECOND))
    number = (ticks << _RANDOM_BITS | chance % (1 << _RANDOM_BITS)) % (1 << 5 * LENGTH)
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(LENGTH)))


def is_id(text: str) -> bool:
    return len(text) == LENGTH and set(text) <= set(ALPHABET)
