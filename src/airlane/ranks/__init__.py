"""Ranks on a Ray cluster: `air-ranks`, and `launch` for functions.

Runs in the workload's own Python, 3.9 or later; parts of it travel to nodes that have no Airlane (kit.py). So nothing
is imported here before it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airlane.ranks.api import launch

__all__ = ["launch"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from airlane.ranks import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
