"""Running uv: where it is, what it is told, what it says."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from airlane.environment.dependencies import without_credentials
from airlane.environment.folders import stopped_error
from airlane.errors import EnvironmentBuildError
from airlane.frozen import frozen

# These would point uv at another environment or project than the one it is to fill.
_MISLEADING = (
    "CONDA_PREFIX",
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_WORKING_DIR",
    "VIRTUAL_ENV",
)
_DOWNLOADING = re.compile(r"Downloading (?P<name>\S+) \((?P<count>[\d.]+)(?P<unit>[KMGT])iB\)")
_BUILDING = re.compile(r"\s*Building (?P<name>\S+)")
_RESOLVED = re.compile(r"Resolved (?P<count>\d+) packages?")
_PREPARED = re.compile(r"Prepared \d+ packages?")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_EXPLANATION_LINES = 40
_POLL_S = 0.2


@frozen
class Outcome:
    """How one uv command ended, and everything it said, secrets masked."""

    succeeded: bool
    output: str

    @property
    def unsatisfiable(self) -> bool:
        """Whether uv understood every requirement and found that they cannot hold together."""
        return "No solution found" in self.output

    @property
    def unknown_package(self) -> bool:
        """Whether an index has never heard of a package: then no other version of the rest can help."""
        return "not found in the package registry" in self.output

    @property
    def no_space(self) -> bool:
        return "No space left on device" in self.output or "quota exceeded" in self.output.lower()

    def explanation(self) -> str:
        """The part of the output that says why it failed: the last lines, from uv's first word of error on."""
        lines = self.output.rstrip().splitlines()
        start = next((i for i, line in enumerate(lines) if re.match(r"error\b|\s*[×x] ", line)), 0)
        return "\n".join(lines[start:][-_EXPLANATION_LINES:])


class Uv:
    """uv, set up for one build: its environment, its log, and whom to tell of progress."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        folder: Path,
        log: Sequence[BinaryIO],
        secrets: Sequence[str],
        progress: Callable[[str], None],
        cancelled: Callable[[], bool],
        inherit: Sequence[int] = (),
    ) -> None:
        """`folder` is where uv runs. `inherit` are descriptors (the build's lock) that must live as long as uv does."""
        self._command = find_uv()
        self._environ = {name: value for name, value in environ.items() if name not in _MISLEADING}
        self._environ |= {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
        self._folder = folder
        self._log = log
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)
        self._progress = progress
        self._cancelled = cancelled
        self._inherit = tuple(inherit)

    def run(self, *arguments: str | Path) -> Outcome:
        """Run one command to its end.

        Raises EnvironmentBuildError if it cannot be started, or when the build is cancelled.
        """
        words = [self._command, *map(str, arguments)]
        self._write("$ " + shlex.join(["uv", *words[1:]]))
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=self._environ,
                pass_fds=self._inherit,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentBuildError(f"uv cannot be started: {error}") from error
        said = []
        told: dict[str, str] = {}
        try:
            for line in self._lines(process):
                masked = self.mask(line)
                said.append(masked)
                self._write(masked)
                message = progress_message(masked, told)
                if message is not None:
                    self._progress(message)
            return Outcome(process.wait() == 0, "\n".join(said))
        finally:
            _end(process)

    def mask(self, text: str) -> str:
        """The text without the values of variables and without the credentials of URLs."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return without_credentials(text)

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[str]:
        import selectors

        if process.stderr is None:
            raise RuntimeError("uv was started without a pipe")
        descriptor, pending = process.stderr.fileno(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while True:
                if self._cancelled():
                    raise stopped_error()
                if not selector.select(_POLL_S):
                    continue
                block = os.read(descriptor, 65536)
                if not block:
                    break
                *whole, pending = (pending + block).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
        if pending:
            yield pending.decode("utf-8", "replace")

    def _write(self, line: str) -> None:
        for file in self._log:
            file.write(self.mask(line).encode("utf-8", "replace") + b"\n")
            file.flush()


# It asks sysconfig, which in a second thread answers None while the first one is still filling its table: the run's
# environment and that of the MLflow server are built at the same time.
_ONE_AT_A_TIME = threading.Lock()


def find_uv() -> str:
    """The uv that came with Airlane, or the one on PATH.

    Raises EnvironmentBuildError where there is none.
    """
    from uv import find_uv_bin

    try:
        with _ONE_AT_A_TIME:
            return os.fsdecode(find_uv_bin())
    except FileNotFoundError:
        found = shutil.which("uv")
    if found is None:
        raise EnvironmentBuildError("uv is not installed.", hint="pip install uv")
    return found


def progress_message(line: str, told: dict[str, str]) -> str | None:
    """A line of uv's in words for people, or None; `told` remembers the number of packages in between."""
    if match := _DOWNLOADING.search(line):
        size = float(match["count"]) * _UNITS[match["unit"]]
        return f"downloading {match['name']} {human_size(size)}"
    if match := _BUILDING.match(line):
        return f"building {match['name']} from source"
    if match := _RESOLVED.match(line):
        told["count"] = match["count"]
        return None
    if _PREPARED.match(line) and "count" in told:
        return f"installing {told['count']} packages"
    return None


def human_size(size_bytes: float) -> str:
    """A size for people, in powers of ten."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size_bytes >= scale:
            value = size_bytes / scale
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"  # noqa: PLR2004 - two digits
    return f"{size_bytes / 1e3:.0f} kB"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no uv behind, nor what it started (git, a build backend); harmless when it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stderr is not None:
        process.stderr.close()
