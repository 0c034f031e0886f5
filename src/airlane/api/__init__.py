"""The library: what the `air` command does, for a Python program.

client = Client()
run = client.submit(client.plan(Path("train.yaml")))
for update in run.watch():
    ...
print(run.view().state)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airlane.api.client import Client
from airlane.api.following import LogChunk, PhaseChanged, StatusChanged, Update
from airlane.api.run import Run
from airlane.store.runs import RunView

if TYPE_CHECKING:
    from airlane.api.planning import RunPlan
    from airlane.backends.base import Finding
    from airlane.environment import EnvironmentInfo

__all__ = [
    "Client",
    "EnvironmentInfo",
    "Finding",
    "LogChunk",
    "PhaseChanged",
    "Run",
    "RunPlan",
    "RunView",
    "StatusChanged",
    "Update",
]

_LAZY = {
    "Finding": "airlane.backends.base",
    "EnvironmentInfo": "airlane.environment",
    "RunPlan": "airlane.api.planning",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
