"""The one way to Ray: which cluster, how to get in, and its nodes. Nothing else of the launcher connects to one."""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
from pathlib import Path

from airlane.errors import AirError, ArgumentError, BackendError, RayDeniedError, RayUnreachableError
from airlane.ranks.hosts import read_hosts
from airlane.ranks.overheard import Overheard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from typing import Any

    from airlane.ranks.hosts import Host

_PROBE_S = 3.0
_CLOSED_S = 10.0
_DENIED = "InvalidAuthToken"  # Ray's library, for a token that is missing or wrong
_SUBMIT = "air ray job submit -- air-ranks ..."


class Cluster:
    """A cluster this process is connected to; `ray` is the module."""

    def __init__(self, ray: Any, *, is_ours: bool) -> None:
        self.ray = ray
        self._is_ours = is_ours

    @property
    def address(self) -> str:
        return str(self.ray.get_runtime_context().gcs_address)

    def hosts(self) -> tuple[Host, ...]:
        """The nodes that are alive, with what is free now."""
        return read_hosts(self.ray.nodes(), self._free())

    def _free(self) -> dict[str, dict[str, float]]:
        from ray._private import state  # type: ignore[import-not-found,unused-ignore]

        found: dict[str, dict[str, float]] = state.available_resources_per_node()
        return found

    def close(self) -> bool:
        """Leave a cluster that we have entered; what is left of us there ends with that. False where it hangs."""
        return not self._is_ours or returns(self.ray.shutdown, within_s=_CLOSED_S)


def connect(
    environ: MutableMapping[str, str],
    *,
    working_dir: str | None = None,
    denied: Callable[[RayDeniedError], None] | None = None,
) -> Cluster:
    """The cluster of RAY_ADDRESS, or the one on this machine; never a new one. A connection there is already is used.

    Ray goes on for 20 seconds where its token is refused: `denied` is called, in a thread, as soon as it is.
    Raises AirError: where Ray is not installed, no cluster answers, or it wants a token.
    """
    use_token(environ)
    address = environ.get("RAY_ADDRESS", "")
    check_address(address)
    try:
        import ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise AirError(f"there is no Ray in {sys.executable}: {error}", hint="pip install ray") from error
    if ray.is_initialized():
        return Cluster(ray, is_ours=False)
    heard = None if denied is None else functools.partial(denied, _denial(environ))
    with Overheard(_DENIED, heard) as overheard:
        try:
            ray.init(
                address=address or "auto",
                log_to_driver=False,
                configure_logging=False,
                logging_level="ERROR",
                runtime_env={"working_dir": working_dir} if working_dir is not None else None,
            )
        except Exception as error:
            if overheard.has_word or type(error).__name__ == "AuthenticationError":
                raise _denial(environ) from error
            raise _refusal(ray, address, error) from error
    return Cluster(ray, is_ours=True)


def returns(call: Callable[[], object], *, within_s: float) -> bool:
    """Whether a call of Ray's returns in time. Without the cluster's head, many wait a minute for it, and end us."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(within_s)
    return not thread.is_alive()


def use_token(environ: MutableMapping[str, str]) -> None:
    """Ray reads a token only where it is told to, besides where it is. Raises ArgumentError for no such file."""
    file = environ.get("RAY_AUTH_TOKEN_PATH")
    if file and not os.access(Path(file).expanduser(), os.R_OK):
        raise ArgumentError(f"RAY_AUTH_TOKEN_PATH={file}: no such file, or not yours to read", hint=f"ls -l {file}")
    has_token = "RAY_AUTH_TOKEN" in environ or "RAY_AUTH_TOKEN_PATH" in environ
    if has_token and not environ.get("RAY_AUTH_MODE"):
        environ["RAY_AUTH_MODE"] = "token"


def check_address(address: str) -> None:
    """Ray itself takes minutes to give up an address where nothing is. Raises ArgumentError or RayUnreachableError."""
    if address.startswith(("http://", "https://")):
        raise ArgumentError(
            f"RAY_ADDRESS={address} is where jobs are sent; ranks need HOST:PORT of the GCS", hint=_SUBMIT
        )
    if address.startswith("ray://"):
        raise ArgumentError(f"RAY_ADDRESS={address} is for Ray clients; ranks need HOST:PORT of the GCS", hint=_SUBMIT)
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_S).close()
    except OSError as error:
        raise RayUnreachableError(
            f"no Ray cluster answers at RAY_ADDRESS={address}: {error}",
            refused=isinstance(error, ConnectionRefusedError),
            hint=f"ray status --address {address}",
        ) from error


def _denial(environ: MutableMapping[str, str]) -> RayDeniedError:
    """In words: whether a token is wanted, or another one."""
    given = next((name for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH") if name in environ), None)
    message = (
        "the Ray cluster wants a token" if given is None else f"the Ray cluster does not accept the token of {given}"
    )
    return RayDeniedError(message, hint="export RAY_AUTH_TOKEN_PATH=FILE")


def _refusal(ray: Any, address: str, error: Exception) -> AirError:
    """Ray's own error, in words that say what to do."""
    said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, ConnectionError) and not address:
        return RayUnreachableError("no Ray cluster runs on this machine", hint="export RAY_ADDRESS=HOST:6379")
    return BackendError(
        f"Ray {ray.__version__} could not connect{f' to {address}' if address else ''}: {said}", hint="ray status"
    )


def raylet_is_gone(host: Host) -> bool:
    """Whether a node's raylet, or the whole machine, does not answer; Ray itself needs 14 seconds to notice."""
    if not host.port:
        return False
    try:
        socket.create_connection((host.address, host.port), _PROBE_S).close()
    except OSError:
        return True
    return False
