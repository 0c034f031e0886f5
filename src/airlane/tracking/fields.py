"""Tags and parameters of an MLflow run, made from a run's record and within MLflow's limits."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from airlane.store.records import Cause, RunRecord
from airlane.store.states import State

KEY_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 5000  # servers before MLflow 2.10 take no more; later ones take 8000
_NOT_IN_KEYS = re.compile(r"[^\w\-. :/]")  # Source: "log_param", mlflow.org

STATUSES: Mapping[State, str] = {
    State.SUCCESS: "FINISHED",
    State.FAILED: "FAILED",
    State.TIMEDOUT: "FAILED",
    State.CANCELED: "KILLED",
}


def attempt_tags(run: RunRecord, attempt: int) -> dict[str, str]:
    """What links the attempts of a run, and what MLflow's own pages show about user, source and commit."""
    tags: dict[str, str | int | None] = {
        "mlflow.user": run.user,
        "mlflow.source.name": run.workload_file,
        "mlflow.source.type": "LOCAL",
        "airlane.run_id": run.id,
        "airlane.attempt": attempt,
        "airlane.backend": run.backend,
        "airlane.profile": run.profile,
        "airlane.nodes": run.nodes,
        "airlane.accelerators": run.accelerators,
        "airlane.accelerator_type": run.accelerator_type,
        "airlane.environment": run.environment.base,
        "airlane.environment.key": run.environment.key,
        "airlane.rerun_of": run.rerun_of,
    }
    if run.snapshot is not None:
        tags["airlane.snapshot"] = run.snapshot.digest
        if (git := run.snapshot.git) is not None:
            tags["mlflow.source.git.commit"] = git.commit
            tags["mlflow.source.git.branch"] = git.branch
            tags["mlflow.source.git.repoURL"] = git.remote_url
            tags["airlane.git.dirty"] = str(git.dirty).lower()
            tags["airlane.git.changed_files"] = git.changed_files
    return {key: str(value) for key, value in tags.items() if value is not None}


def outcome_tags(state: State, cause: Cause) -> dict[str, str]:
    """How an attempt ended."""
    tags: dict[str, str | int | None] = {
        "airlane.state": state,
        "airlane.cause": cause.summary,
        "airlane.cause.kind": cause.kind,
        "airlane.cause.node": cause.node,
        "airlane.cause.host": cause.host,
        "airlane.cause.exit_code": cause.exit_code,
        "airlane.cause.signal": cause.signal,
        "airlane.cause.finding": cause.finding,
    }
    return {key: str(value) for key, value in tags.items() if value is not None}


def flatten_parameters(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The workload's `parameters` by dotted name: `{"optim": {"lr": 0.1}}` gives `{"optim.lr": "0.1"}`.

    Lists stay whole, as JSON.
    """
    flat: dict[str, str] = {}
    for name, value in _leaves(parameters, ""):
        key = fit_param((name, ""))[0]
        while key in flat:
            key = f"{key[: KEY_LENGTH - 1]}_"
        flat[key] = value
    return flat


def fit_param(item: tuple[str, str]) -> tuple[str, str]:
    """A parameter that MLflow takes: other characters in the key become "_", what is too long is cut."""
    key, value = item
    return _fit_key(key), _cut(value, PARAM_LENGTH)


def fit_tag(item: tuple[str, str]) -> tuple[str, str]:
    """A tag that MLflow takes: other characters in the key become "_", what is too long is cut."""
    key, value = item
    return _fit_key(key), _cut(value, TAG_LENGTH)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False, default=str)


def _fit_key(key: str) -> str:
    key = _NOT_IN_KEYS.sub("_", key)[:KEY_LENGTH]
    # MLflow may keep a key as a file: it refuses those that would be another path when normalised.
    if key == "." or key.startswith(("/", "..")) or posixpath.normpath(key) != key:
        key = key.replace("/", "_")
        key = f"_{key[1:]}" if not key or key.startswith(".") else key
    return key


def _cut(value: str, most: int) -> str:
    return value if len(value) <= most else f"{value[: most - 3]}..."
