"""Every error Airlane raises, with its exit code and its JSON code and kind.

Exit codes:
    0    done; with --watch or logs: the run ended in SUCCESS
    1    the request failed, or the run that was followed ended otherwise
    2    the input was wrong: arguments, the workload file
    130  Ctrl-C; a run that was followed goes on
    141  nobody reads the output any more (`air list | head -1`); what a shell reports for SIGPIPE

A user's command that fails is data (a `Cause`), never an exception.

This file is imported on the nodes too: Python >= 3.9, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional, Tuple

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141


class AirError(Exception):
    """An error with a message (where, what was needed, what came) and a hint (the next thing to type)."""

    exit_code: ClassVar[int] = EXIT_FAILED
    code: ClassVar[str] = "INTERNAL_ERROR"
    kind: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ArgumentError(AirError):
    """The command line was wrong."""

    exit_code = EXIT_USAGE
    code = "INVALID_ARGS"
    kind = "USER"


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a workload file; line and column count from 1, and are None for --override values."""

    message: str
    field: str
    file: Optional[str] = None
    line: Optional[int] = None
    column: Optional[int] = None
    hint: Optional[str] = None
    source_lines: Tuple[Tuple[int, str], ...] = ()


class SpecError(AirError):
    """A workload file has problems; all of them are in `problems`."""

    exit_code = EXIT_USAGE
    code = "INVALID_REQUEST"
    kind = "USER"

    def __init__(self, problems: Tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


class ConfigError(AirError):
    """A profile or the configuration file is wrong."""

    code = "INVALID_REQUEST"
    kind = "USER"


class CapacityError(AirError):
    """The backend can never hold this run; the message says what it has."""

    code = "INVALID_REQUEST"
    kind = "USER"


class InterruptedCommandError(AirError):
    """Ctrl-C, where no run was being followed."""

    exit_code = EXIT_INTERRUPTED
    code = "INTERRUPTED"
    kind = "USER"


class NotFoundError(AirError):
    """There is no such run, node, attempt, secret or environment."""

    code = "NOT_FOUND"
    kind = "NOT_FOUND"


class ConflictError(AirError):
    """Something is in the way: it exists already, or is in use."""

    code = "CONFLICT"
    kind = "CONFLICT"


class SnapshotError(AirError):
    """The user's code could not be frozen."""

    code = "INVALID_REQUEST"
    kind = "USER"


class EnvironmentBuildError(AirError):
    """The environment could not be resolved or built; the message carries uv's own explanation."""

    code = "INVALID_REQUEST"
    kind = "USER"


class SecretError(AirError):
    """A secret is missing or its store is not private."""

    code = "INVALID_REQUEST"
    kind = "USER"


class StoreError(AirError):
    """A run folder could not be read or written."""


class BackendError(AirError):
    """The place where runs happen answered something unexpected."""


class NodeFailedError(BackendError):
    """A machine of an allocation does not answer, or is not fit for the run; another try must do without it."""

    def __init__(self, message: str, *, host: str, hint: Optional[str] = None) -> None:
        super().__init__(message, hint=hint)
        self.host = host


class SlurmUnavailableError(BackendError):
    """Slurm gave no answer. That is evidence of nothing: the same question may be answered later."""

    code = "NETWORK_ERROR"
    kind = "TRANSIENT"
    retryable = True


class TrackingError(AirError):
    """The MLflow server could not be started or reached; never fails a run."""

    code = "NETWORK_ERROR"
    kind = "TRANSIENT"
    retryable = True


class TrackingRejectedError(TrackingError):
    """The MLflow server answered and refused: asking again would not help."""

    code = "INVALID_REQUEST"
    kind = "USER"
    retryable = False


class RayUnreachableError(BackendError):
    """A Ray cluster's dashboard gave no answer: evidence of nothing, unless the connection was `refused`."""

    code = "NETWORK_ERROR"
    kind = "TRANSIENT"
    retryable = True

    def __init__(self, message: str, *, refused: bool = False, hint: Optional[str] = None) -> None:
        super().__init__(message, hint=hint)
        self.refused = refused


class RayDeniedError(BackendError):
    """A Ray cluster wants a token, or another one."""

    code = "UNAUTHENTICATED"
    kind = "USER"


class RayAnswerError(BackendError):
    """A Ray cluster's dashboard answered with an error, or not as it should. `status` is HTTP's, `words` its own."""

    def __init__(self, message: str, *, status: int, words: str = "", hint: Optional[str] = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.words = words


class RankFailedError(AirError):
    """The first rank of a launch that failed; the message ends with its traceback."""

    code = "RANK_FAILED"
    kind = "USER"

    def __init__(self, message: str, *, rank: int, exit_code: int, hint: Optional[str] = None) -> None:
        super().__init__(message, hint=hint)
        self.rank = rank
        self.rank_exit_code = exit_code
