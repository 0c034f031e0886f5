"""air ray job list, status and stop: a cluster's jobs."""

from __future__ import annotations

import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.live import LiveLine
from airlane.cli.parser import Parser, whole_number
from airlane.cli.ray_job_options import CLUSTER_NOTES, job_target, takes_cluster
from airlane.cli.ray_job_pages import job_facts, job_page, job_table
from airlane.cli.words import duration
from airlane.cluster.jobs import JobState, RayJob
from airlane.errors import EXIT_OK


def _configure_list(parser: Parser) -> None:
    takes_cluster(parser)
    parser.add_argument(
        "--status",
        type=str.upper,
        choices=[str(state) for state in JobState],
        action="append",
        metavar="STATUS",
        help="only jobs that are PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED (may be repeated)",
    )
    parser.add_argument("--limit", type=whole_number(1), metavar="N", help="at most so many (all)")
    parser.add_argument("-q", "--quiet", action="store_true", help="ids alone, one a line")


def _list(values: Namespace, context: Context) -> int:
    from airlane.api.ray_jobs import open_jobs

    screen = context.screen
    with open_jobs(context.client(), job_target(values, context)) as jobs:
        found = [job for job in jobs.list() if not values.status or job.state in values.status][: values.limit]
        again = jobs.again
    if context.json:
        screen.show(data_line({"jobs": [job_facts(job) for job in found]}, time.time()))
    elif values.quiet:
        for job in found:
            screen.show(job.id)
    elif found:
        screen.show(job_table(found, screen.out_look, time.time()))
    else:
        screen.say(
            "No job matches." if values.status else f"There are no jobs.\n  air ray job submit{again} -- COMMAND"
        )
    return EXIT_OK


def _configure_status(parser: Parser) -> None:
    parser.add_argument("id", metavar="JOB", help="a job: its id, the beginning of one, or @last")
    takes_cluster(parser)


def _status(values: Namespace, context: Context) -> int:
    from airlane.api.ray_jobs import open_jobs

    with open_jobs(context.client(), job_target(values, context)) as jobs:
        job = jobs.find(values.id)
        why = jobs.why(job, {}) if job.state is JobState.PENDING else None
        again = jobs.again
    if context.json:
        context.screen.show(data_line(job_facts(job), time.time()))
    else:
        context.screen.show(job_page(job, context.screen.out_look, time.time(), why=why, again=again))
    return EXIT_OK


def _configure_stop(parser: Parser) -> None:
    parser.add_argument("ids", nargs="+", metavar="JOB", help="a job: its id, the beginning of one, or @last")
    takes_cluster(parser)
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it has ended")


def _stop(values: Namespace, context: Context) -> int:
    from airlane.api.ray_jobs import open_jobs

    screen, began = context.screen, time.monotonic()
    ended = []
    with open_jobs(context.client(), job_target(values, context)) as jobs:
        found = [jobs.find(name) for name in values.ids]
        asked = [(job, jobs.stop(job)) for job in found]
        line = LiveLine(screen)
        try:
            for job, running in asked:
                line.update("stopping", job.id)
                ended.append(jobs.wait_until_ended(job) if running and not values.no_wait else job)
        finally:
            line.close()
    took = duration(time.monotonic() - began)
    told = [
        _told(job, running=running, took=took, waited=not values.no_wait, context=context)
        for (_, running), job in zip(asked, ended, strict=True)
    ]
    if context.json:
        screen.show(data_line({"jobs": [job_facts(job) for job in ended]}, time.time()))
    else:
        screen.say("\n".join(told))
    return EXIT_OK


def _told(job: RayJob, *, running: bool, took: str, waited: bool, context: Context) -> str:
    look = context.screen.err_look
    if not running:
        return f"{job.id} has ended: {job.state}"
    if not waited:
        return f"{look.ok} {job.id} was asked to stop"
    if job.state is JobState.PENDING:
        return f"{look.warn} {job.id} was asked to stop. It has not started yet: Ray ends it when it does"
    return f"{look.ok} {job.id} {job.state}  in {took}"


COMMANDS = (
    Command(
        "ray job list",
        "[options]",
        (
            ("air ray job list", "every job and driver, the newest first"),
            ("air ray job list -p ray --status RUNNING", "some of those of a profile's cluster"),
            ("air ray job stop $(air ray job list -q --status RUNNING)", "ids for other commands"),
        ),
        _configure_list,
        _list,
        notes=CLUSTER_NOTES,
    ),
    Command(
        "ray job status",
        "JOB [options]",
        (("air ray job status @last", "its state, why, and how to go on"),),
        _configure_status,
        _status,
        notes=CLUSTER_NOTES,
    ),
    Command(
        "ray job stop",
        "JOB... [options]",
        (
            ("air ray job stop U6KB", "SIGTERM, and SIGKILL for what is there three seconds later"),
            ("air ray job stop @last --no-wait", "and do not wait for its end"),
        ),
        _configure_stop,
        _stop,
        notes=f"Comes back when the job has ended. {CLUSTER_NOTES}",
    ),
)
