"""Asking a Ray dashboard over HTTP, with the cluster's token and without proxies."""

from __future__ import annotations

import http.client
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OK = 200
MOST_ROWS = 10_000  # more than this, and the dashboard refuses the limit


class RestError(Exception):
    """The dashboard did not answer, or not with what was asked for."""


def read_token(path: str) -> str:
    """Raises OSError."""
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def get(address: str, path: str, token: str, timeout_s: float = 10.0) -> bytes:
    """The body of an answer of the dashboard at "host:port". Raises RestError."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise RestError(f"{address} does not answer: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()
    if answer.status != _OK:
        raise RestError(f"{address}{path.partition('?')[0]} answers {answer.status} {answer.reason}")
    return body


def get_json(address: str, path: str, token: str, timeout_s: float = 10.0) -> Any:
    """The answer, read. Raises RestError."""
    body = get(address, path, token, timeout_s)
    try:
        return json.loads(body)
    except ValueError as error:
        raise RestError(f"{address}{path} does not answer in JSON") from error


def node_rows(address: str, token: str, timeout_s: float = 10.0) -> list[dict[str, Any]]:
    """Every node the cluster has known, dead ones too, as /api/v0/nodes has them. Raises RestError."""
    answer = get_json(address, f"/api/v0/nodes?detail=1&limit={MOST_ROWS}", token, timeout_s)
    try:
        rows = answer["data"]["result"]["result"]
        return [row for row in rows if row["node_id"]]
    except (KeyError, TypeError) as error:
        raise RestError(f"{address} answers with a list of nodes that cannot be read") from error
