"""A tracking URI, understood: where the server is and how to sign in."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from airlane.errors import TrackingRejectedError
from airlane.frozen import frozen

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@frozen
class Address:
    """An MLflow server; `authorization` is a header's value, `prefix` is "" or "/path". Only `base` is for people."""

    scheme: str
    host: str
    port: int
    prefix: str
    authorization: str | None

    @property
    def base(self) -> str:
        """The URI without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.prefix}"

    @property
    def loopback(self) -> bool:
        return self.host in _LOOPBACK

    def page(self, experiment_id: str, run_id: str) -> str:
        """The page of a run, for people."""
        return f"{self.base}/#/experiments/{experiment_id}/runs/{run_id}"


def parse(uri: str, env: Mapping[str, str]) -> Address:
    """Understand a tracking URI.

    Credentials come from the URI itself, MLFLOW_TRACKING_* or ~/.mlflow/credentials, in this order.

    Raises:
        TrackingRejectedError: it does not name an HTTP server.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise TrackingRejectedError(f"tracking URI is not a valid URI: {error}", hint=_EXAMPLE) from error
    if parts.scheme not in _DEFAULT_PORTS:
        raise _unsupported(parts, uri)
    if not parts.hostname:
        raise TrackingRejectedError(f"tracking URI {parts.scheme}:// names no host", hint=_EXAMPLE)
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[parts.scheme],
        prefix=parts.path.rstrip("/"),
        authorization=_authorization(parts, env),
    )


_EXAMPLE = "set tracking_uri in the profile, or MLFLOW_TRACKING_URI, to an address such as http://mlflow.example:5000"


def _unsupported(parts: SplitResult, uri: str) -> TrackingRejectedError:
    if parts.scheme.startswith("databricks") or uri == "databricks":
        return TrackingRejectedError(
            "tracking URI databricks: a Databricks workspace is not supported, an MLflow server over http(s) is",
            hint="unset MLFLOW_TRACKING_URI and tracking_uri to use the embedded server",
        )
    kind = f"{parts.scheme}: store" if parts.scheme else "folder"
    return TrackingRejectedError(
        f"tracking URI: needed an http:// or https:// address of an MLflow server, got a {kind}",
        hint="serve it with: mlflow server --backend-store-uri <that URI>   or unset it to use the embedded server",
    )


def _authorization(parts: SplitResult, env: Mapping[str, str]) -> str | None:
    if parts.username is not None:
        return _basic(unquote(parts.username), unquote(parts.password or ""))
    username, password = env.get("MLFLOW_TRACKING_USERNAME"), env.get("MLFLOW_TRACKING_PASSWORD")
    if username and password:
        return _basic(username, password)
    if token := env.get("MLFLOW_TRACKING_TOKEN"):
        return f"Bearer {token}"
    return _credentials_file(env)


def _credentials_file(env: Mapping[str, str]) -> str | None:
    """MLflow's own ~/.mlflow/credentials. Source: "MLflow authentication", mlflow.org."""
    path = Path(env.get("HOME") or "~").expanduser() / ".mlflow" / "credentials"
    if not path.is_file():
        return None
    from configparser import ConfigParser
    from configparser import Error as ConfigParserError

    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, ValueError, ConfigParserError) as error:
        raise TrackingRejectedError(f"{path}: not readable as an ini file ({error.__class__.__name__})") from error
    username = parser.get("mlflow", "mlflow_tracking_username", fallback=None)
    password = parser.get("mlflow", "mlflow_tracking_password", fallback=None)
    return _basic(username, password) if username and password else None


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
