"""Which Ray cluster is meant, and the token that opens it: from a profile, and from the variables of Ray's own tools.

What is looked for is the dashboard, "http://host:8265". A cluster has two more addresses: the GCS ("host:6379"), for
drivers on its nodes, and the client server ("ray://host:10001"). None leads to another, because all three ports can be
chosen: such an address is explained, and nothing is guessed from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import NoReturn
from urllib.parse import SplitResult, urlsplit

from airlane.errors import ConfigError, NotFoundError
from airlane.frozen import frozen

DASHBOARD_PORT = 8265
_OTHER_PORTS = {6379: "the GCS, for programs on the cluster's nodes", 10001: "Ray's client server"}
_SET_ADDRESS = 'address = "http://HEAD:8265" in the profile, or export RAY_API_SERVER_ADDRESS=http://HEAD:8265'

Named = Callable[[str | None], "RayCluster | None"]
"""The cluster of a name among those that Airlane started (with None, the only one); None where there is no such."""


@frozen
class RayCluster:
    """Where a cluster's dashboard is, and what opens it.

    `where` says who named it. `token_from` says where the token comes from; `token_file` is its file, if it is in one.
    """

    url: str
    token: str | None = field(repr=False)
    where: str
    token_from: str | None = None
    token_file: Path | None = None


@frozen
class Token:
    """A cluster's token, and where it comes from."""

    text: str = field(repr=False)
    source: str
    file: Path | None


def find_cluster(
    *, address: str | None, token_file: Path | None, env: Mapping[str, str], named: Named | None = None
) -> RayCluster:
    """The cluster at `address`, else of $RAY_API_SERVER_ADDRESS, else of $RAY_ADDRESS, else the only one of ours.

    `named` knows the clusters that Airlane started: it is asked for an address that is a single word.

    Raises:
        NotFoundError: nothing names a cluster, or there is none of that name.
        ConfigError: the address is not a dashboard's, or the token cannot be read.
    """
    if address is not None:
        if is_name(address):
            return _named(address, named)
        url, where = dashboard_url(address, "address"), "address"
    elif api_server := env.get("RAY_API_SERVER_ADDRESS"):
        url, where = dashboard_url(api_server, "RAY_API_SERVER_ADDRESS"), "RAY_API_SERVER_ADDRESS"
    elif ray_address := env.get("RAY_ADDRESS"):
        url, where = _url_of_ray_address(ray_address), "RAY_ADDRESS"
    elif named is not None and (found := named(None)) is not None:
        return found
    else:
        raise NotFoundError("nothing says which Ray cluster is meant", hint=f"set {_SET_ADDRESS}")
    token = find_token(token_file, env)
    if token is None:
        return RayCluster(url, None, where)
    return RayCluster(url, token.text, where, token.source, token.file)


def is_name(address: str) -> bool:
    """Whether an address is a single word, as the name of a cluster is."""
    return not any(mark in address for mark in ":/.") and address not in ("", "auto", "local", "localhost")


def dashboard_url(address: str, where: str) -> str:
    """The URL of a dashboard from what a person wrote, "http://host:8265" or "host:8265".

    Raises:
        ConfigError: it is none; the message says what it is instead.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "http", address
    if scheme == "ray":
        _refuse(address, where, _OTHER_PORTS[10001], _host_of(rest))
    if address in ("auto", "local") or scheme not in ("http", "https"):
        raise ConfigError(f"{where} is {address!r}, and not the address of a Ray dashboard", hint=f"set {_SET_ADDRESS}")
    parts = urlsplit(f"{scheme}://{rest}")
    port = _check(parts, address, where)
    if port in _OTHER_PORTS:
        _refuse(address, where, _OTHER_PORTS[port], _host_of(parts.netloc))
    if port is None and not separator:
        raise ConfigError(
            f"{where} is {address!r}, without a port",
            hint=f"write http://{address}:{DASHBOARD_PORT} if that is its port",
        )
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def find_token(token_file: Path | None, env: Mapping[str, str]) -> Token | None:
    """The token of a profile's file, else the one that Ray's own tools would use; None where there is none.

    Source: Ray 2.60, the same order: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token.

    Raises:
        ConfigError: a file that was named cannot be read, or holds no token.
    """
    if token_file is not None:
        return _read_token(token_file, f"token_file {token_file}")
    if text := env.get("RAY_AUTH_TOKEN", "").strip():
        return Token(_checked_token(text, "RAY_AUTH_TOKEN"), "RAY_AUTH_TOKEN", None)
    if path := env.get("RAY_AUTH_TOKEN_PATH"):
        return _read_token(Path(path), f"{path} (RAY_AUTH_TOKEN_PATH)")
    usual = Path(env.get("HOME") or os.path.expanduser("~")) / ".ray" / "auth_token"  # noqa: PTH111 (never raises)
    if not usual.is_file() or not usual.stat().st_size:
        return None
    return _read_token(usual, str(usual))


def _named(name: str, named: Named | None) -> RayCluster:
    found = named(name) if named is not None else None
    if found is None:
        raise NotFoundError(
            f"there is no Ray cluster {name!r}", hint=f"air ray list; a cluster that others started: set {_SET_ADDRESS}"
        )
    return found


def _url_of_ray_address(address: str) -> str:
    """RAY_ADDRESS without a scheme is the GCS's, whatever the port; only the dashboard's usual port says otherwise."""
    if "://" not in address and address not in ("auto", "local") and not address.endswith(f":{DASHBOARD_PORT}"):
        _refuse(address, "RAY_ADDRESS", _OTHER_PORTS[6379], _host_of(address))
    return dashboard_url(address, "RAY_ADDRESS")


def _check(parts: SplitResult, address: str, where: str) -> int | None:
    """The port. Raises ConfigError for what is no URL of a dashboard."""
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{where} is {address!r}: {error}", hint=f"set {_SET_ADDRESS}") from error
    if "@" in parts.netloc:
        raise ConfigError(f"{where} holds a user or a password", hint="leave it out; a token goes into token_file")
    if not parts.hostname or parts.query or parts.fragment or any(mark.isspace() for mark in address):
        raise ConfigError(f"{where} is {address!r}, and not the address of a Ray dashboard", hint=f"set {_SET_ADDRESS}")
    return port


def _host_of(netloc: str) -> str:
    """The host of "host:port", with the brackets of an IPv6 address."""
    host = netloc.partition("/")[0].rpartition("@")[2]
    return host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host


def _refuse(address: str, where: str, what: str, host: str) -> NoReturn:
    url = f"http://{host}:{DASHBOARD_PORT}"
    hint = f'set address = "{url}" in the profile, or export RAY_API_SERVER_ADDRESS={url}, if that is its port'
    raise ConfigError(f"{where} is {address}: {what}; Airlane goes to the cluster's dashboard", hint=hint)


def _read_token(file: Path, source: str) -> Token:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source} holds no token: it is not text", hint="ray get-auth-token") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"the cluster's token cannot be read: {source}: {reason}", hint=f"ls -l {file}") from error
    return Token(_checked_token(text, source), source, file)


def _checked_token(text: str, source: str) -> str:
    """Raises ConfigError, which never shows what is there."""
    if not text:
        raise ConfigError(f"{source} is empty", hint="ray get-auth-token, on the cluster's head, prints the token")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(
            f"{source} holds no token: that is one word", hint="ray get-auth-token, on the cluster's head, prints it"
        )
    return text
