"""Whether an MLflow server is reached from this node, as a program: `python reachable.py URI [LOGIN_FILE]`.

Prints tracking=ok, or tracking= and what is in the way. LOGIN_FILE holds the variables that sign MLflow's client in.
"""

from __future__ import annotations

import http.client
import json
import sys
from base64 import b64encode
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional

TIMEOUT_S = 3.0
_QUESTION = "/api/2.0/mlflow/experiments/search?max_results=1"
_OK = 200
_NO_LOGIN = (401, 403)


def main() -> None:
    login_file = sys.argv[2] if len(sys.argv) > 2 else None  # noqa: PLR2004 - the second argument may be left out
    sys.stdout.write(f"tracking={obstacle(sys.argv[1], login_file) or 'ok'}\n")


def obstacle(uri: str, login_file: Optional[str] = None) -> Optional[str]:
    """What keeps this machine from using the server, in words; None where nothing does.

    Without a login, a server that asks for one is reached all the same.
    """
    try:
        headers = _signed(login_file) if login_file else {}
        status = _status(uri, headers)
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        return str(error) or error.__class__.__name__
    if status == _OK or (status in _NO_LOGIN and login_file is None):
        return None
    if status in _NO_LOGIN:
        return f"the login in {login_file} was refused"
    return f"HTTP {status} from something that is no MLflow server"


def _signed(login_file: str) -> Dict[str, str]:
    with open(login_file, encoding="utf-8") as file:
        login = json.load(file)
    pair = f"{login['MLFLOW_TRACKING_USERNAME']}:{login['MLFLOW_TRACKING_PASSWORD']}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _status(uri: str, headers: Dict[str, str]) -> int:
    parts = urlsplit(uri)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", parts.path.rstrip("/") + _QUESTION, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


if __name__ == "__main__":
    main()
