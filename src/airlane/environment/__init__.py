"""Python environments: which one a workload needs, building it with uv, keeping it for the next run."""

from airlane.environment.bases import ALIASES, BASES, HOST, Base, find_base
from airlane.environment.building import build
from airlane.environment.folders import EnvironmentInfo, hold, list_environments, prune, show
from airlane.environment.planning import BuiltEnvironment, EnvironmentPlan, plan

__all__ = [
    "ALIASES",
    "BASES",
    "HOST",
    "Base",
    "BuiltEnvironment",
    "EnvironmentInfo",
    "EnvironmentPlan",
    "build",
    "find_base",
    "hold",
    "list_environments",
    "plan",
    "prune",
    "show",
]
