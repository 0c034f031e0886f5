"""The names of the environments that Airlane ships, and the other names they go by."""

from __future__ import annotations

import re

BASES: tuple[str, ...] = ("4", "5", "6", "AI5", "AI6", "host")
"""`4`, `5` and `6` are small; `AI5` and `AI6` bring ray, torch and transformers; `host` is the Python that runs air."""

DEFAULT_BASE = "4"

RAY_OF_BASES: dict[str, str] = {"AI5": "2.60", "AI6": "2.60"}
"""The Ray of the bases that bring one, major.minor. A test keeps it in step with what they are locked to."""

_ALIAS = re.compile(r"databricks_ai_v([0-9]+)", re.IGNORECASE)
_BY_LOWER_CASE = {base.lower(): base for base in BASES}


def find_base(name: str) -> str | None:
    """The base that a version names, or None; `databricks_ai_v<N>` is `AI<N>`, upper and lower case are the same."""
    alias = _ALIAS.fullmatch(name)
    return _BY_LOWER_CASE.get(f"ai{alias[1]}" if alias else name.lower())


PATTERN = "^(?:4|5|6|[Aa][Ii]5|[Aa][Ii]6|[Hh][Oo][Ss][Tt]|[Dd][Aa][Tt][Aa][Bb][Rr][Ii][Cc][Kk][Ss]_[Aa][Ii]_[Vv][56])$"
"""What `find_base` knows, as a regular expression without flags (JSON Schema has none)."""
