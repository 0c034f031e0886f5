"""What a launch was asked to do, read from the command line or from `launch(...)`."""

from __future__ import annotations

from dataclasses import dataclass, field

from airlane.ranks.shape import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RankCommand:
    """What every rank runs. `script` is the file that every node must have; `call` is a pickled function."""

    argv: tuple[str, ...]
    script: str | None = None
    call: bytes | None = None


@dataclass(frozen=True)
class Settings:
    """Durations are seconds. `watchdog_s` None: silence is never taken for a hang. `log_dir` None: no files.

    `shown_local_ranks` None shows all. `sent` is the environment that ranks get from where they are launched.
    """

    request: Request
    command: RankCommand
    folder: str
    sent: Mapping[str, str]
    env: Mapping[str, str] = field(default_factory=dict)
    max_restarts: int = 0
    timeout_s: float = 600.0
    watchdog_s: float | None = None
    stop_grace_s: float = 25.0
    log_dir: str | None = None
    topology: tuple[str, ...] = ()
    preflight: bool = False
    working_dir: str | None = None
    role: str = "default"
    run_id: str | None = None
    shown_local_ranks: frozenset[int] | None = None
    virtual_local_rank: bool = False
