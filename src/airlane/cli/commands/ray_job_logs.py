"""air ray job logs: what a job has written, followed as it grows."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line, event_line
from airlane.cli.job_watching import followed
from airlane.cli.parser import Parser, whole_number
from airlane.cli.ray_job_options import CLUSTER_NOTES, job_target, takes_cluster
from airlane.cli.ray_job_pages import job_facts
from airlane.errors import EXIT_OK, ArgumentError
from airlane.logs.tail import whole_lines

if TYPE_CHECKING:
    from airlane.api.ray_jobs import LastLines, RayJobs
    from airlane.cluster.jobs import RayJob


def configure(parser: Parser) -> None:
    parser.add_argument("id", metavar="JOB", help="a job: its id, the beginning of one, or @last")
    takes_cluster(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended (so it is anyway)")
    parser.add_argument("--no-follow", action="store_true", help="only what it has written so far")
    parser.add_argument("--lines", type=whole_number(1), metavar="N", help="begin with the last N lines (with all)")


def execute(values: Namespace, context: Context) -> int:
    from airlane.api.ray_jobs import open_jobs

    if values.follow and values.no_follow:
        raise ArgumentError("air ray job logs: --follow and --no-follow exclude each other", hint="air ray job logs -h")
    with open_jobs(context.client(), job_target(values, context)) as jobs:
        job = jobs.find(values.id)
        if job.submission_id is None:
            raise ArgumentError(
                f"{job.id} is a driver that was not submitted: Ray keeps no log of it",
                hint="its output is where it was started",
            )
        known = jobs.last_lines(job, values.lines) if values.lines is not None else None
        if values.no_follow:
            return _now(jobs, job, known, context)
        if known is not None:
            _show(known.lines, context)
        updates = jobs.follow(job.id, known_bytes=known.known_bytes if known is not None else 0)
        return followed(updates, job.id, context, again=jobs.again)


def _now(jobs: RayJobs, job: RayJob, known: LastLines | None, context: Context) -> int:
    if job.driver_node_id is None and not context.json:
        context.screen.say(f"{job.id} has written nothing: no node has run it ({job.state})")
    _show(known.lines if known is not None else jobs.output(job), context)
    if context.json:
        context.screen.show(data_line(job_facts(job), time.time()))
    return EXIT_OK


def _show(pieces: Iterable[bytes], context: Context) -> None:
    if context.json:
        for line in whole_lines(pieces):
            context.screen.show(event_line("LOG", time.time(), line=line.decode("utf-8", "replace")))
        return
    for piece in pieces:
        context.screen.show_bytes(piece)


COMMANDS = (
    Command(
        "ray job logs",
        "JOB [options]",
        (
            ("air ray job logs @last", "the latest job, followed until it ends"),
            ("air ray job logs U6KB --lines 100", "from its last 100 lines on"),
            ("air ray job logs U6KB --no-follow > job.log", "what there is now"),
        ),
        configure,
        execute,
        notes="What the job wrote goes to stdout, everything else to stderr. Followed to its end, the exit code is the "
        f"job's command's; 130 after Ctrl-C, which leaves the job running. {CLUSTER_NOTES}",
    ),
)
