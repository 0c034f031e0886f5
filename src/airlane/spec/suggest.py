"""Did you mean: the nearest known word."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be; upper and lower case count as the same."""
    import difflib

    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The question to ask about a mistyped word, or None where nothing is near."""
    name = nearest(word, known)
    return f"Did you mean `{name}`?" if name else None
