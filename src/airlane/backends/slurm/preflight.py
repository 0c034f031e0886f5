"""A look at every node before the first attempt: the ones that are not fit are named, and the run goes on without."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airlane import launch
from airlane.frozen import frozen

PREFLIGHT_MAIN = Path(launch.__file__).with_name("preflight.py")
# torch takes a minute to import where the file system is busy.
PREFLIGHT_S = 180.0
_ANSWER = re.compile(r"\s*\d+: (\{.*\})")


@frozen
class Unfit:
    """A node that a run should not get, and why."""

    host: str
    problems: tuple[str, ...]


def preflight_command(step: Sequence[str], *, python: Path, home: Path, gpus: int) -> list[str]:
    """The srun that looks at the nodes; `step` is one of the attempt's up to its program."""
    return [*step, str(python), "-I", str(PREFLIGHT_MAIN), str(home), str(gpus)]


class Preflight:
    """A running look at `hosts`."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        hosts: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._deadline = clock() + PREFLIGHT_S
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the look)
        self._srun = subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._out, start_new_session=True
        )

    def unfit(self) -> tuple[Unfit, ...] | None:
        """The nodes that are not fit; None while it is not known."""
        if self._srun.poll() is None and self._clock() < self._deadline:
            return None
        self.close()
        self._out.seek(0)
        return read_answers(self._out.read().decode(errors="replace"), self._hosts)

    def close(self) -> None:
        """End the look. Harmless when repeated."""
        if self._srun.poll() is None:
            self._srun.terminate()
            try:
                self._srun.wait(5.0)
            except subprocess.TimeoutExpired:
                self._srun.kill()
                self._srun.wait()


def read_answers(text: str, hosts: Sequence[str]) -> tuple[Unfit, ...]:
    """The nodes that are not fit, by what they wrote; one that did not answer is one of them."""
    problems = {}
    for line in text.splitlines():
        match = _ANSWER.fullmatch(line)
        if match is not None:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a line of torch's, say
                told = json.loads(match[1])
                problems[told["host"]] = tuple(told["problems"])
    looks = ((host, problems.get(host, (_last_words(text, host),))) for host in hosts)
    return tuple(Unfit(host, found) for host, found in looks if found)


def _last_words(text: str, host: str) -> str:
    """What srun said of a node that did not answer."""
    said = [line for line in text.splitlines() if "error: " in line]
    of_it = [line for line in said if host in line] or [line for line in said if line.startswith("srun: ")]
    return of_it[-1].partition("error: ")[2] if of_it else "it did not answer"
