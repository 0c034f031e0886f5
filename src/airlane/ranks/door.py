"""The one way to Ray: which cluster, how to get in, and its nodes. Nothing else of the launcher connects to one."""

from __future__ import annotations

import socket
import sys

from airlane.errors import AirError, ArgumentError, BackendError, RayDeniedError, RayUnreachableError
from airlane.ranks.hosts import read_hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from airlane.ranks.hosts import Host

_PROBE_S = 3.0
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

    def close(self) -> None:
        """Leave a cluster that we have entered; what is left of us there ends with that."""
        if self._is_ours:
            self.ray.shutdown()


def connect(environ: MutableMapping[str, str], *, working_dir: str | None = None) -> Cluster:
    """The cluster of RAY_ADDRESS, or the one on this machine; never a new one. A connection there is already is used.

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
    runtime_env = {"working_dir": working_dir} if working_dir is not None else None
    try:
        ray.init(
            address=address or "auto",
            log_to_driver=False,
            configure_logging=False,
            logging_level="ERROR",
            runtime_env=runtime_env,
        )
    except Exception as error:
        raise _refusal(ray, address, error) from error
    return Cluster(ray, is_ours=True)


def use_token(environ: MutableMapping[str, str]) -> None:
    """Ray reads a token only where it is told to, besides where the token is."""
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


def _refusal(ray: Any, address: str, error: Exception) -> AirError:
    """Ray's own error, in words that say what to do."""
    said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if type(error).__name__ == "AuthenticationError" or "authenticat" in str(error).lower():
        return RayDeniedError(
            f"the Ray cluster{f' at {address}' if address else ''} wants its token: {said}",
            hint="export RAY_AUTH_TOKEN_PATH=~/.ray/auth_token",
        )
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
