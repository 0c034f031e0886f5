"""The few calls of MLflow's REST API that Airlane makes, typed (importing mlflow itself costs seconds).

Source: "REST API", mlflow.org.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlencode

from airlane.errors import TrackingError, TrackingRejectedError
from airlane.frozen import frozen
from airlane.tracking.address import parse
from airlane.tracking.connection import Answer, Connection, Request
from airlane.tracking.fields import fit_param, fit_tag

API = "/api/2.0/mlflow"
PROXY = "/api/2.0/mlflow-artifacts/artifacts"
METRICS_PER_BATCH = 1000
PARAMS_PER_BATCH = 100
TAGS_PER_BATCH = 100
UPLOAD_BYTES_PER_S = 200_000  # slower than this is taken for a hang

T = TypeVar("T")


@frozen
class Metric:
    key: str
    value: float
    timestamp_ms: int
    step: int


@frozen
class Experiment:
    id: str
    name: str
    artifact_location: str
    active: bool


@frozen
class Run:
    """A run as the server knows it; `status` is RUNNING, FINISHED, FAILED, KILLED or SCHEDULED.

    `metrics` are the last value of each.
    """

    id: str
    experiment_id: str
    status: str
    artifact_uri: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: tuple[Metric, ...]


@frozen
class Artifact:
    """A file or folder of a run; a folder has no size."""

    path: str
    size_bytes: int | None


class Mlflow:
    """One tracking server. For one thread at a time.

    Every call raises TrackingError when the server does not answer, TrackingRejectedError when it says no.
    """

    def __init__(self, uri: str, env: Mapping[str, str], *, timeout_s: float = 10.0) -> None:
        self.uri = uri
        self.address = parse(uri, env)
        self._connection = Connection(self.address, env)
        self._timeout_s = timeout_s

    def close(self) -> None:
        self._connection.close()

    def check(self) -> None:
        """Ask something small, signed in as for everything else."""
        self._get("/experiments/search", {"max_results": "1"})

    def experiment(self, name: str, artifact_location: str | None = None) -> Experiment:
        """The experiment of this name: created if there is none, restored if it was deleted."""
        found = self.find_experiment(name)
        if found is None:
            found = self._create_experiment(name, artifact_location)
        if not found.active:
            self._post("/experiments/restore", {"experiment_id": found.id})
        return found

    def find_experiment(self, name: str) -> Experiment | None:
        """The experiment of this name, which may be deleted."""
        request = self._get_request("/experiments/get-by-name", {"experiment_name": name})
        answer = self._connection.exchange(request)
        if _error_code(answer) == "RESOURCE_DOES_NOT_EXIST":
            return None
        return _experiment(self._body(request, answer)["experiment"])

    def create_run(self, experiment_id: str, name: str, *, start_time_ms: int, tags: Mapping[str, str]) -> Run:
        """A new run, RUNNING. Not repeated when the connection drops: it may exist already, see `find_run`."""
        body = {
            "experiment_id": experiment_id,
            "run_name": name,
            "start_time": start_time_ms,
            "tags": [{"key": key, "value": value} for key, value in map(fit_tag, tags.items())],
        }
        return _run(self._post("/runs/create", body, repeat=False))

    def find_run(self, experiment_id: str, tags: Mapping[str, str]) -> Run | None:
        """The newest run that carries all these tags."""
        clauses = [f"tags.`{key}` = '{value}'" for key, value in tags.items()]
        body = {"experiment_ids": [experiment_id], "filter": " and ".join(clauses), "max_results": 1}
        runs = self._post("/runs/search", body).get("runs", [])
        return _run({"run": runs[0]}) if runs else None

    def get_run(self, run_id: str) -> Run:
        return _run(self._get("/runs/get", {"run_id": run_id}))

    def update_run(self, run_id: str, status: str, *, end_time_ms: int | None) -> None:
        body: dict[str, Any] = {"run_id": run_id, "status": status}
        if end_time_ms is not None:
            body["end_time"] = end_time_ms
        self._post("/runs/update", body)

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        key, value = fit_tag((key, value))
        self._post("/runs/set-tag", {"run_id": run_id, "key": key, "value": value})

    def log_metrics(self, run_id: str, metrics: Sequence[Metric]) -> None:
        """Repeating a metric with the same step, time and value changes nothing on the server."""
        for some in _batches(metrics, METRICS_PER_BATCH):
            rows = [
                {"key": m.key, "value": _number(m.value), "timestamp": m.timestamp_ms, "step": m.step} for m in some
            ]
            self._post("/runs/log-batch", {"run_id": run_id, "metrics": rows})

    def log_params(self, run_id: str, params: Mapping[str, str]) -> None:
        for some in _batches([fit_param(item) for item in params.items()], PARAMS_PER_BATCH):
            rows = [{"key": key, "value": value} for key, value in some]
            self._post("/runs/log-batch", {"run_id": run_id, "params": rows})

    def log_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        for some in _batches([fit_tag(item) for item in tags.items()], TAGS_PER_BATCH):
            rows = [{"key": key, "value": value} for key, value in some]
            self._post("/runs/log-batch", {"run_id": run_id, "tags": rows})

    def log_inputs(self, run_id: str, datasets: Sequence[Mapping[str, Any]]) -> None:
        """Note the datasets that a run read; each is a DatasetInput of the API."""
        if datasets:
            self._post("/runs/log-inputs", {"run_id": run_id, "datasets": list(datasets)})

    def list_artifacts(self, run_id: str, folder: str = "") -> tuple[Artifact, ...]:
        files: list[Artifact] = []
        query = {"run_id": run_id} | ({"path": folder} if folder else {})
        while True:
            page = self._get("/artifacts/list", query)
            for file in page.get("files", []):
                size = None if file.get("is_dir") else int(file.get("file_size") or 0)
                files.append(Artifact(str(file["path"]), size))
            if not (token := page.get("next_page_token")):
                return tuple(files)
            query["page_token"] = token

    def upload(self, root: str, name: str, content: BinaryIO, length_bytes: int) -> None:
        """Store a file under `root` (a path within the server's artifact proxy, see artifacts.destination)."""
        path = "/".join(quote(part, safe="") for part in f"{root}/{name}".split("/") if part)
        request = Request(
            "PUT",
            f"{PROXY}/{path}",
            body=content,
            length_bytes=length_bytes,
            content_type="application/octet-stream",
            timeout_s=self._timeout_s + length_bytes / UPLOAD_BYTES_PER_S,
        )
        self._checked(request)

    def _create_experiment(self, name: str, artifact_location: str | None) -> Experiment:
        body = {"name": name} | ({"artifact_location": artifact_location} if artifact_location else {})
        request = self._post_request("/experiments/create", body)
        answer = self._connection.exchange(request)
        # Another run may have created it at the same moment.
        if _error_code(answer) != "RESOURCE_ALREADY_EXISTS":
            self._body(request, answer)
        found = self.find_experiment(name)
        if found is None:
            raise TrackingError(f"tracking server {self.address.base}: experiment {name} was created, then not found")
        return found

    def _get_request(self, path: str, query: Mapping[str, str]) -> Request:
        return Request("GET", f"{API}{path}?{urlencode(query)}", timeout_s=self._timeout_s)

    def _post_request(self, path: str, body: Mapping[str, Any], *, repeat: bool = True) -> Request:
        data = json.dumps(body).encode()
        return Request(
            "POST", f"{API}{path}", body=data, length_bytes=len(data), timeout_s=self._timeout_s, repeat=repeat
        )

    def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        return self._checked(self._get_request(path, query))

    def _post(self, path: str, body: Mapping[str, Any], *, repeat: bool = True) -> dict[str, Any]:
        return self._checked(self._post_request(path, body, repeat=repeat))

    def _checked(self, request: Request) -> dict[str, Any]:
        return self._body(request, self._connection.exchange(request))

    def _body(self, request: Request, answer: Answer) -> dict[str, Any]:
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - the class of HTTP statuses that mean success
            raise self._refusal(request, answer)
        content = _json(answer.body) if answer.body.strip() else {}
        if content is None:
            what = request.path.partition("?")[0]
            raise TrackingRejectedError(
                f"{self.address.base}{what}: needed JSON, got {answer.body[:80]!r}",
                hint="is this the address of an MLflow server?",
            )
        return content

    def _refusal(self, request: Request, answer: Answer) -> TrackingError:
        content = _json(answer.body) or {}
        said = str(content.get("message") or answer.body[:200].decode("utf-8", "replace")).strip().partition("\n")[0]
        what = f"{self.address.base}{request.path.partition('?')[0]}: HTTP {answer.status} {said}".rstrip()
        match answer.status:
            case 401 | 403:
                hint = "sign in with MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
                return TrackingRejectedError(what, hint=hint)
            case 301 | 302 | 303 | 307 | 308:
                return TrackingRejectedError(
                    f"{what} -> {answer.location}", hint="use the address that it redirects to"
                )
            case 408 | 425 | 429:
                return TrackingError(what)
            case 400 if content.get("error_code") == "BAD_REQUEST":
                return TrackingError(what)  # trouble of the server with its database; wrong input has other codes
            case status if status >= 500:  # noqa: PLR2004 - the class of HTTP statuses that mean trouble there
                return TrackingError(what)
        return TrackingRejectedError(what)


def _number(value: float) -> float | str:
    """A number as JSON in protobuf's mapping has it, which names what JSON cannot say."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _batches(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(body)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _error_code(answer: Answer) -> str | None:
    if answer.status < 400:  # noqa: PLR2004 - from here on HTTP statuses mean an error
        return None
    return str((_json(answer.body) or {}).get("error_code"))


def _experiment(data: Mapping[str, Any]) -> Experiment:
    return Experiment(
        id=str(data["experiment_id"]),
        name=str(data["name"]),
        artifact_location=str(data.get("artifact_location", "")),
        active=data.get("lifecycle_stage", "active") == "active",
    )


def _run(data: Mapping[str, Any]) -> Run:
    info = data["run"]["info"]
    content = data["run"].get("data", {})
    return Run(
        id=str(info.get("run_id") or info["run_uuid"]),
        experiment_id=str(info["experiment_id"]),
        status=str(info["status"]),
        artifact_uri=str(info.get("artifact_uri", "")),
        tags={str(tag["key"]): str(tag["value"]) for tag in content.get("tags", [])},
        params={str(param["key"]): str(param["value"]) for param in content.get("params", [])},
        metrics=tuple(
            Metric(str(last["key"]), float(last["value"]), int(last.get("timestamp", 0)), int(last.get("step", 0)))
            for last in content.get("metrics", [])
        ),
    )
