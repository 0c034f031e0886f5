"""Run ids: eight characters that sort by time and are easy to read aloud."""

from __future__ import annotations

# Crockford's base 32: no i, l, o or u.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 8
_FIRST_SECOND = 1_767_225_600  # 2026-01-01 UTC
_TICKS_PER_SECOND = 1024
_IDS = 32**LENGTH  # enough until the year 2060


def new_id(now: float) -> str:
    """The id for a run submitted at `now` (epoch seconds). Not unique by itself: RunStore takes the next free one."""
    number = max(0, int((now - _FIRST_SECOND) * _TICKS_PER_SECOND)) % _IDS
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(LENGTH)))


def next_id(run_id: str) -> str:
    """The id of the tick after."""
    return new_id(_FIRST_SECOND + (_number(run_id) + 1) / _TICKS_PER_SECOND)


def _number(run_id: str) -> int:
    number = 0
    for character in run_id:
        number = number << 5 | ALPHABET.index(character)
    return number


def is_id(text: str) -> bool:
    return len(text) == LENGTH and set(text) <= set(ALPHABET)
