"""Every command: its name, the module under commands/ that has it, and what it does in a few words."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from airlane.cli.command import Command


class Entry(NamedTuple):
    """A row of the table of commands."""

    module: str
    summary: str


GROUPS: dict[str, dict[str, Entry]] = {
    "runs": {
        "init": Entry("init", "write a folder that is ready to run, to begin with"),
        "run": Entry("run", "submit a workload"),
        "get": Entry("get", "what happened to a run, and why"),
        "list": Entry("list", "the latest runs"),
        "logs": Entry("logs", "what a node of a run wrote, followed as it grows"),
        "cancel": Entry("cancel", "stop runs"),
        "rerun": Entry("rerun", "submit a run again, with the same code and settings"),
    },
    "Ray clusters": {
        "top": Entry("top", "a Ray cluster, live: nodes, GPUs, jobs, actors"),
        "ray up": Entry("ray", "start a Ray cluster, and wait until it is ready"),
        "ray list": Entry("ray", "the Ray clusters there are"),
        "ray status": Entry("ray_use", "its nodes, what is in use, and what waits"),
        "ray dashboard": Entry("ray_dashboard", "its dashboard, as a page of this machine"),
        "ray exec": Entry("ray_use", "run a command on its head"),
        "ray env": Entry("ray_use", "variables that make programs here find it"),
        "ray logs": Entry("ray_use", "the logs of Ray's own processes"),
        "ray down": Entry("ray", "take a Ray cluster down"),
    },
    "Ray's own jobs": {
        "ray job submit": Entry("ray_job_submit", "run a command as a job of a Ray cluster, and follow it"),
        "ray job list": Entry("ray_job", "the jobs of a Ray cluster"),
        "ray job status": Entry("ray_job", "one job: its state, and why"),
        "ray job logs": Entry("ray_job_logs", "what a job has written, followed as it grows"),
        "ray job stop": Entry("ray_job", "stop a job"),
    },
    "what runs need": {
        "env list": Entry("env", "the environments that were built"),
        "env show": Entry("env", "one environment"),
        "env build": Entry("env", "build the environment of a workload now"),
        "env prune": Entry("env", "remove environments that were not used for a while"),
        "secrets set": Entry("secrets", "keep a secret, read from a prompt or from stdin"),
        "secrets list": Entry("secrets", "the names of the secrets"),
        "secrets delete": Entry("secrets", "forget a secret"),
        "ui": Entry("ui", "the page of the metrics (MLflow)"),
    },
    "this installation": {
        "doctor": Entry("doctor", "check what runs need on this machine or profile"),
        "schema": Entry("schema", "the JSON Schema of a workload, for editors"),
        "completion": Entry("completion", "tab completion for a shell"),
    },
}

COMMANDS: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}
FIRST_WORDS: tuple[str, ...] = tuple(dict.fromkeys(name.split()[0] for name in COMMANDS))


def load(name: str) -> Command:
    """The command of a name in the table; imports its module."""
    module = importlib.import_module(f"airlane.cli.commands.{COMMANDS[name].module}")
    commands = cast("tuple[Command, ...]", module.COMMANDS)
    return next(command for command in commands if command.name == name)
