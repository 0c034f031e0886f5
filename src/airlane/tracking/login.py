"""The login of an embedded server that other machines reach: made once, kept in a file for this user alone.

The file holds the variables that MLflow's client signs in with, so that it serves the nodes' commands as it is.
"""

from __future__ import annotations

import json
import secrets
import stat
from dataclasses import field
from pathlib import Path

from airlane.errors import TrackingError
from airlane.frozen import frozen
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home

USERNAME = "MLFLOW_TRACKING_USERNAME"
PASSWORD = "MLFLOW_TRACKING_PASSWORD"  # noqa: S105 - a variable's name


@frozen
class Login:
    """Who may use the server. `file` is where it stands."""

    username: str
    password: str = field(repr=False)
    file: Path

    @property
    def variables(self) -> dict[str, str]:
        """What MLflow's client reads."""
        return {USERNAME: self.username, PASSWORD: self.password}


def login_file(home: Home) -> Path:
    return home.mlflow / "login.json"


def find_login(home: Home) -> Login | None:
    """The login of the home's server; None where it never needed one.

    Raises:
        TrackingError: the file is damaged, or others can read it.
    """
    path = login_file(home)
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            content = json.load(file)
        login = Login(content[USERNAME], content[PASSWORD], path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrackingError(f"{path} holds no login: {error}", hint=_renew(path)) from error
    if mode & 0o077:
        raise TrackingError(f"others can read {path} (mode {mode:o}; a login needs 600)", hint=_renew(path))
    return login


def make_login(home: Home) -> Login:
    """The login of the home's server, made if there is none.

    Raises:
        TrackingError: as `find_login`.
        OSError: it cannot be written.
    """
    found = find_login(home)
    if found is None:
        from airlane.tracking.serve import OWN_USERS

        # Both are masked in logs: a name that is a word would be masked where it means something else.
        new = {USERNAME: f"{OWN_USERS}{secrets.token_hex(4)}", PASSWORD: secrets.token_urlsafe(24)}
        SystemDisk().create(login_file(home), json.dumps(new).encode())
        found = find_login(home)
    if found is None:
        raise TrackingError(f"{login_file(home)} was written, then not found")
    return found


def variables(home: Home) -> dict[str, str]:
    """What MLflow's client needs to sign in to the home's server; nothing where it has no login."""
    login = find_login(home)
    return {} if login is None else login.variables


def _renew(path: Path) -> str:
    return f"rm '{path}' && air ui --stop   (the next start makes a new login)"
