"""The library: what the `air` command does, for a Python program.

client = Client()
run = client.submit(client.plan(Path("train.yaml")))
for update in run.watch():
    ...
print(run.view().state)
"""

from airlane.api.client import Client
from airlane.api.following import LogChunk, PhaseChanged, StatusChanged, Update
from airlane.api.health import Check
from airlane.api.planning import RunPlan
from airlane.api.run import Run
from airlane.environment import EnvironmentInfo
from airlane.store.runs import RunView

__all__ = [
    "Check",
    "Client",
    "EnvironmentInfo",
    "LogChunk",
    "PhaseChanged",
    "Run",
    "RunPlan",
    "RunView",
    "StatusChanged",
    "Update",
]
