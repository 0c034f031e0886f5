"""air ray job submit: a command as a job of a Ray cluster."""

from __future__ import annotations

import argparse
import re
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line, event_line
from airlane.cli.job_watching import followed
from airlane.cli.live import LiveLine
from airlane.cli.parser import Parser
from airlane.cli.ray_job_options import CLUSTER_NOTES, job_target, takes_cluster
from airlane.cli.ray_job_pages import code_line
from airlane.errors import EXIT_OK, ArgumentError, InterruptedCommandError

if TYPE_CHECKING:
    from airlane.api.ray_jobs import JobSubmission, RayJobs, Submitted

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<scale>[kKMGT]?)(?P<binary>i?)B?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def configure(parser: Parser) -> None:
    add = parser.add_argument
    add("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its words, after --")
    takes_cluster(parser)
    add("--working-dir", metavar="DIR|URI", help="run in a copy of this folder, or of the package at an address")
    add("--runtime-env", type=Path, metavar="FILE", help="Ray's runtime environment, in YAML")
    add("--runtime-env-json", metavar="JSON", help="the same, in JSON")
    add("--entrypoint-num-cpus", type=amount, metavar="N", help="CPUs that are kept for the command itself")
    add("--entrypoint-num-gpus", type=amount, metavar="N", help="GPUs, likewise")
    add("--entrypoint-memory", type=memory_bytes, metavar="SIZE", help="memory, likewise: bytes, or 16GB")
    add("--entrypoint-resources", metavar="JSON", help="other resources, likewise: '{\"licence\": 1}'")
    add("--may-grow", action="store_true", help="submit it although no node has so much: one may come")
    add("--metadata", action="append", default=[], metavar="K=V|JSON", help="kept with the job (may be repeated)")
    add("--submission-id", type=submission_id, metavar="ID", help="an id of your own in place of a made one")
    add("--no-wait", action="store_true", help="come back as soon as it is submitted")


def execute(values: Namespace, context: Context) -> int:
    from airlane.api.ray_jobs import open_jobs

    wanted = _submission(values, context)
    with open_jobs(context.client(), job_target(values, context)) as jobs:
        submitted = _submitted(jobs, wanted, context)
        _announce(submitted, jobs, context, wait=not values.no_wait)
        if values.no_wait:
            return EXIT_OK
        updates = jobs.follow(submitted.submission_id, submitted.request)
        return followed(updates, submitted.submission_id, context, again=jobs.again)


def _submission(values: Namespace, context: Context) -> JobSubmission:
    from airlane.api.ray_jobs import JobSubmission
    from airlane.cluster import runtime_env

    words = tuple(values.words[1:] if values.words[:1] == ["--"] else values.words)
    if not words:
        raise ArgumentError(
            "air ray job submit: COMMAND is missing", hint="for example air ray job submit -- python train.py"
        )
    if len(words) == 1 and " " in words[0].strip() and not context.json:
        context.screen.say(
            f"{context.screen.err_look.warn} {words[0]!r} is one word, and so the name of a program. "
            "A line for the shell is written -- bash -c 'LINE'"
        )
    resources = runtime_env.from_json(values.entrypoint_resources or "{}", "--entrypoint-resources")
    for name, number in resources.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ArgumentError(f"--entrypoint-resources: {name}: expected a number, got {number!r}")
    return JobSubmission(
        words=words,
        runtime_env=_runtime_env(values, context),
        submission_id=values.submission_id,
        metadata=_metadata(values.metadata),
        num_cpus=values.entrypoint_num_cpus,
        num_gpus=values.entrypoint_num_gpus,
        memory_bytes=values.entrypoint_memory,
        resources=resources,
        may_grow=values.may_grow,
    )


def _runtime_env(values: Namespace, context: Context) -> dict[str, Any]:
    from airlane.cli.parser import closest
    from airlane.cluster import runtime_env

    if values.runtime_env is not None and values.runtime_env_json is not None:
        raise ArgumentError(
            "air ray job submit: --runtime-env and --runtime-env-json exclude each other", hint="air ray job submit -h"
        )
    env: dict[str, Any] = {}
    if values.runtime_env is not None:
        env = runtime_env.from_yaml(values.runtime_env)
    elif values.runtime_env_json is not None:
        env = runtime_env.from_json(values.runtime_env_json, "--runtime-env-json")
    for name in env.keys() - runtime_env.FIELDS:
        if (guess := closest(name, sorted(runtime_env.FIELDS))) is not None:
            look = context.screen.err_look
            context.screen.say(f"{look.warn} runtime environment: Ray does not know {name}. Did you mean {guess}?")
    return env if values.working_dir is None else {**env, runtime_env.WORKING_DIR: values.working_dir}


def _metadata(given: Sequence[str]) -> dict[str, str]:
    from airlane.cluster.runtime_env import from_json

    found: dict[str, str] = {}
    for text in given:
        if text.lstrip().startswith("{"):
            pairs = from_json(text, "--metadata")
        else:
            name, equals, content = text.partition("=")
            if not (name and equals):
                raise ArgumentError(f"--metadata: expected KEY=VALUE or JSON, got {text!r}", hint="--metadata team=nlp")
            pairs = {name: content}
        for name, content in pairs.items():
            if not isinstance(content, str):
                raise ArgumentError(
                    f"--metadata: {name}: expected text, got {content!r}", hint=f'"{name}": "{content}"'
                )
            found[name] = content
    return found


def _submitted(jobs: RayJobs, wanted: JobSubmission, context: Context) -> Submitted:
    line = LiveLine(context.screen)
    try:
        return jobs.submit(wanted, line.update)
    except KeyboardInterrupt as error:
        raise InterruptedCommandError(
            "Interrupted while submitting.", hint=f"air ray job list{jobs.again}   shows whether there is a job"
        ) from error
    finally:
        line.close()


def _announce(submitted: Submitted, jobs: RayJobs, context: Context, *, wait: bool) -> None:
    screen, job_id = context.screen, submitted.submission_id
    if context.json:
        facts = {"submission_id": job_id, "url": jobs.url}
        screen.show(event_line("SUBMITTED", time.time(), **facts) if wait else data_line(facts, time.time()))
        return
    for sent in submitted.code:
        screen.say(code_line(sent, screen.err_look))
    if wait:
        screen.say(f"job {job_id} · logs follow · Ctrl-C stops following, not the job")
        return
    which = f"{jobs.again} {job_id}"
    screen.say(f"job {job_id}\n  follow   air ray job logs{which}\n  status   air ray job status{which}")
    if not screen.out_is_terminal:
        screen.show(job_id)  # for scripts: id=$(air ray job submit --no-wait -- python train.py)


def amount(text: str) -> float:
    """A number of a resource, which may be a part of one."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"expected a number such as 2 or 0.5, got {text!r}")
    return number


def memory_bytes(text: str) -> int:
    """Bytes in "16GB", "512MiB", or a number of them."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ArgumentTypeError(f"expected a size such as 16GB or 17179869184, got {text!r}")
    return int(float(found["number"]) * (1024 if found["binary"] else 1000) ** _POWERS[found["scale"]])


def submission_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ArgumentTypeError(f"expected letters, digits, -, _ and ., got {text!r}")
    return text


COMMANDS = (
    Command(
        "ray job submit",
        "[options] -- COMMAND...",
        (
            ("air ray job submit -- python train.py", "on the only cluster, or that of RAY_API_SERVER_ADDRESS"),
            ("air ray job submit --working-dir . -- python train.py --lr 1e-3", "with the code of this folder"),
            ("air ray job submit -p ray --entrypoint-num-gpus 1 --no-wait -- python serve.py", "and come back"),
        ),
        configure,
        execute,
        notes="What the job writes goes to stdout, everything else to stderr. The exit code is the command's; 1 for "
        "a job that was stopped or never ran, 130 after Ctrl-C, which leaves the job running. .git, .venv, venv and "
        "__pycache__ stay out of the copy, and what .gitignore, .rayignore and the runtime environment's excludes "
        f"name. {CLUSTER_NOTES}",
    ),
)
