"""The `ray` section of a workload."""

from __future__ import annotations

from dataclasses import field

from airlane.frozen import frozen
from airlane.spec.fields import entry
from airlane.spec.kinds import Choice, Whole

READY_TIMEOUT_MINUTES = 10
PRIVATE, PUBLIC = "private", "public"
OWNED_VARIABLES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""What the runtime sets for a command with `ray`: it may not stand in env_variables beside it."""


@frozen(kw_only=True)
class RaySpec:
    """A Ray cluster around the command; `ray: {}` is enough."""

    num_cpus: int | None = field(
        default=None,
        metadata=entry(
            "How many CPUs each node offers to Ray: the accelerators, where they are cores, else all that the run may "
            "use there.",
            Whole(),
            example="32",
        ),
    )
    object_store_gb: int | None = field(
        default=None,
        metadata=entry(
            "How much memory each node gives to Ray's object store, in GB; 30 % of it, if not given.",
            Whole(minimum=1),
            example="64",
        ),
    )
    ready_timeout_minutes: int = field(
        default=READY_TIMEOUT_MINUTES,
        metadata=entry(
            "How long to wait until every node and accelerator has joined; then the attempt fails and names what is "
            "missing.",
            Whole(minimum=1),
            example="20",
        ),
    )
    dashboard: str = field(
        default=PRIVATE,
        metadata=entry(
            "Where the dashboard listens: private is the head's loopback address, public every address of the head. "
            "It asks for the cluster's token either way.",
            Choice((PRIVATE, PUBLIC)),
            example="public",
        ),
    )
