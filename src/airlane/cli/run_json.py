"""A run as `--json` gives it."""

from __future__ import annotations

from typing import Any

from airlane.cli.run_words import cause_words
from airlane.cli.words import iso
from airlane.store.records import Attempt, Cause, ImageRecord, RunRecord
from airlane.store.runs import RunView
from airlane.store.states import State


def run_facts(view: RunView, now: float) -> dict[str, Any]:
    """Everything about one run; the start, duration, number and MLflow page at the top are the latest attempt's."""
    record = view.record
    last = view.attempts[-1] if view.attempts else None
    url = last.mlflow_url if last else None
    return {
        "run_id": record.id,
        "status": view.state,
        "phase": view.phase,
        "detail": view.status.detail if view.status and not view.state.terminal else None,
        "started_at": iso(last.started_at) if last else None,
        "duration_seconds": _seconds(last, now),
        "attempt_number": last.number if last else 0,
        "experiment_name": record.experiment_name,
        "dashboard_url": url,
        "mlflow_url": url,
        "termination_reason": _reason(view),
        "last_metric": _metric_facts(view),
        "cause": cause_facts(view.cause),
        "submitted_at": iso(record.submitted_at),
        "ended_at": iso(view.ended_at),
        "user": record.user,
        "backend": record.backend,
        "profile": record.profile,
        "nodes": record.nodes,
        "num_accelerators": record.accelerators,
        "accelerator_type": record.accelerator_type,
        "simulated": record.simulate,
        "network": record.network,
        "environment": _environment_facts(record),
        "image": image_facts(record.image),
        "code_digest": record.snapshot.digest if record.snapshot else None,
        "rerun_of": record.rerun_of,
        "attempts": [_attempt_facts(attempt, now) for attempt in view.attempts],
        "folder": str(view.paths.root),
        "warnings": list(record.warnings),
        "tracking_error": view.status.tracking_error if view.status else None,
    }


def _environment_facts(record: RunRecord) -> dict[str, Any] | None:
    if record.image is not None:
        return None
    environment = record.environment
    return {"base": environment.base, "dependencies": list(environment.dependencies), "key": environment.key}


def image_facts(image: ImageRecord | None) -> dict[str, Any] | None:
    """A run's container image."""
    if image is None:
        return None
    return {
        "url": image.url,
        "digest": image.digests[0] if image.digests else None,
        "runtime": image.runtime,
        "mounts": list(image.mounts),
        "options": list(image.arguments),
    }


def list_facts(view: RunView, now: float) -> dict[str, Any]:
    """A row of `air list`."""
    record = view.record
    last = view.attempts[-1] if view.attempts else None
    return {
        "run_id": record.id,
        "run_name": record.mlflow_run_name or record.experiment_name,
        "user": record.user,
        "status": view.state,
        "started_at": iso(last.started_at) if last else None,
        "submitted_at": iso(record.submitted_at),
        "experiment_name": record.experiment_name,
        "duration_seconds": _seconds(last, now),
        "num_accelerators": record.accelerators,
        "accelerator_type": record.accelerator_type,
        "nodes": record.nodes,
        "profile": record.profile,
        "mlflow_url": last.mlflow_url if last else None,
    }


def cause_facts(cause: Cause | None) -> dict[str, Any] | None:
    """Why something ended, as JSON."""
    if cause is None:
        return None
    return {
        "kind": cause.kind,
        "summary": cause.summary,
        "node": cause.node,
        "host": cause.host,
        "exit_code": cause.exit_code,
        "signal": cause.signal,
        "after_seconds": cause.after_s,
        "finding": cause.finding,
        "log_lines": list(cause.log_lines),
        "hint": cause.hint,
        "stopped_nodes": list(cause.collateral_nodes),
    }


def _attempt_facts(attempt: Attempt, now: float) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "status": attempt.state or State.RUNNING,
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "duration_seconds": _seconds(attempt, now),
        "hosts": list(attempt.hosts),
        "mlflow_url": attempt.mlflow_url,
        "cause": cause_facts(attempt.cause),
    }


def _seconds(attempt: Attempt | None, now: float) -> float | None:
    if attempt is None:
        return None
    return round(max(0.0, (attempt.ended_at or now) - attempt.started_at), 3)


def _reason(view: RunView) -> str | None:
    """Only failures and timeouts have one."""
    return cause_words(view.cause) if view.state in (State.FAILED, State.TIMEDOUT) else None


def _metric_facts(view: RunView) -> dict[str, Any] | None:
    last = view.status.last_metric if view.status is not None else None
    return None if last is None else {"name": last.name, "value": last.value, "step": last.step}
