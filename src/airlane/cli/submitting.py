"""Submitting a plan and watching a run: what `air run`, `air rerun` and their --watch share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from airlane.cli.command import Context
from airlane.cli.envelope import event_line
from airlane.cli.live import StillLine
from airlane.cli.screen import OutputError
from airlane.errors import EXIT_FAILED, EXIT_OK, InterruptedCommandError
from airlane.store.states import State

if TYPE_CHECKING:
    from airlane.api import Run


def submitted(submit: Callable[[Callable[[str, str], None]], Run], context: Context, *, watch: bool) -> Run:
    """Submit, showing the steps on the way, and tell the run's id. `submit` is given a listener for its progress."""
    line = StillLine(context.screen)
    try:
        run = submit(line.update)
    except KeyboardInterrupt as error:
        raise InterruptedCommandError(
            "Interrupted while submitting.", hint="air list   shows whether there is a run"
        ) from error
    finally:
        line.close()
    _announce(run, context, watch=watch)
    return run


def watched(run: Run, context: Context) -> int:
    """Follow a run to its end; the exit code is its outcome. Ctrl-C stops watching, not the run."""
    # While the run starts: nothing before its submission needs this.
    from airlane.cli.watching import JsonWatch, TextWatch

    watch = JsonWatch(context.screen) if context.json else TextWatch(run, context.screen)
    try:
        for update in run.watch():
            watch.take(update)
    except KeyboardInterrupt:
        return watch.interrupted(run.view())
    except OutputError as error:
        raise OutputError(error.message, hint=f"the run goes on: air logs {run.id}") from error
    finally:
        watch.close()
    view = run.view()
    watch.ended(view)
    return EXIT_OK if view.state is State.SUCCESS else EXIT_FAILED


def _announce(run: Run, context: Context, *, watch: bool) -> None:
    screen, now = context.screen, time.time()
    if context.json:
        _announce_json(run, context, watch=watch, now=now)
        return
    again = "" if run.created else "  (submitted before with the same key)"
    if watch:
        screen.say(f"run {run.id}{again} · logs follow · Ctrl-C stops watching, not the run")
        return
    screen.say(f"run {run.id}{again}\n  follow   air logs {run.id}\n  status   air get {run.id}")
    if not screen.out_is_terminal:
        screen.show(run.id)  # for scripts: id=$(air run train.yaml)


def _announce_json(run: Run, context: Context, *, watch: bool, now: float) -> None:
    from airlane.cli.envelope import data_line
    from airlane.cli.run_json import run_facts

    view = run.view()
    url = run_facts(view, now)["dashboard_url"]
    if watch:
        context.screen.show(event_line("SUBMITTED", now, run_id=run.id, dashboard_url=url))
    else:
        facts = {"run_id": run.id, "status": view.state, "dashboard_url": url, "created": run.created}
        context.screen.show(data_line(facts, now))
