"""One srun: a member on every node of the attempt, heard over its output and told over its input."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airlane.backends.agents import AGENT_MAIN
from airlane.backends.slurm.options import SlurmOptions
from airlane.frozen import frozen
from airlane.store.records import RunRecord

# Runs the agent; where that was killed, ends what it left; and says that it is over, which a dead agent cannot.
_KEEPER = """\
trap : TERM INT HUP USR1 USR2 CONT
"$1" -I -S "$2" --member "$3"; code=$?
[ "$code" = 0 ] || "$1" -I -S "$2" --sweep "$4" "$5"
echo "{\\"gone\\": $code}"
"""
BESIDE = ("--overlap", "--mem=0")
"""What lets a step run beside the attempt's, which holds all of the job: by itself, --overlap shares no memory."""
_LABELED = re.compile(rb"\s*(\d+): (.*)")
_STEP_ENDED = re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT \S+?(?: DUE TO (?P<why>[^*]*?))? \*\*\*")
_NODE_FAILED = re.compile(r"Node failure on ([\w.-]+)")
_MEMBER_ENDED = re.compile(r"error: [\w.-]+: tasks? ([\d,-]+): ")
_KEPT_WORDS = 20
_BLOCK_BYTES = 1 << 16
_ENDING_S = 10.0
# How often each side says that it is there.
BEAT_S = 1.0


@frozen
class Hello:
    """What a node said of itself (see launch/member.py). `behind_s` is how far its clock is behind ours."""

    host: str
    address: str
    port: int
    devices: tuple[str, ...]
    cores: int
    step: str | None
    shared: bool
    behind_s: float


def step_name(run_id: str) -> str:
    """What Slurm calls the step of a run's attempt."""
    return f"air-{run_id}"


def look_options(run: RunRecord, *, held_job: int | None, without: Sequence[str] = ()) -> list[str]:
    """A short srun on the nodes of an attempt, beside its step."""
    return [
        "srun",
        *([f"--jobid={held_job}"] if held_job is not None else []),
        f"--job-name=air-{run.id}-preflight",
        f"--nodes={run.nodes}",
        f"--ntasks={run.nodes}",
        "--ntasks-per-node=1",
        *([f"--exclude={','.join(without)}"] if without else []),
        *BESIDE,
        "--kill-on-bad-exit=0",
        "--label",
        "--mpi=none",
        "--export=ALL",
    ]


def step_command(
    run: RunRecord,
    options: SlurmOptions,
    *,
    attempt: int,
    folder: Path,
    held_job: int | None,
    without: Sequence[str] = (),
) -> list[str]:
    """The srun of an attempt. `held_job` is an allocation that was there before, `without` hosts to leave out of it.

    What srun could take from the environment (--ntasks-per-node, --cpus-per-task) or from the site (--wait,
    --kill-on-bad-exit) is said here, each time.
    """
    cpus = options.cpus(run.accelerator_type, run.accelerators_per_node)
    gres = options.gres(run.accelerator_type)
    return [
        "srun",
        *([f"--jobid={held_job}"] if held_job is not None else []),
        f"--job-name={step_name(run.id)}",
        f"--nodes={run.nodes}",
        f"--ntasks={run.nodes}",
        "--ntasks-per-node=1",
        *([f"--cpus-per-task={cpus}"] if cpus is not None else []),
        *([f"--gres={gres}:{run.accelerators_per_node}"] if gres is not None and not run.simulate else []),
        # Slurm keeps the step that lost a machine for as long as the job lasts, with what it holds elsewhere.
        *([f"--exclude={','.join(without)}", *BESIDE] if without else []),
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--label",
        "--mpi=none",
        *(["--cpu-bind=none"] if cpus is None else []),  # or the step's one task would get one of the node's CPUs
        "--export=ALL",
        "bash",
        "-c",
        _KEEPER,
        "airlane-node",
        options.interpreter,
        str(AGENT_MAIN),
        str(folder),
        run.id,
        str(attempt),
    ]


class Step:
    """A running srun. `read` takes in what was said; everything else is what is known by then.

    `hellos`, `seen` (when a node was last heard of, on the clock), `gone` (an agent's exit code) and `ended_at` (when
    srun said that a member was killed, which cannot say `gone` any more) are by rank.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._srun = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C in a terminal that holds the allocation is not for the run
        )
        if self._srun.stdout is None or self._srun.stderr is None:
            raise AssertionError("srun was started with pipes")
        self._out, self._err = self._srun.stdout.fileno(), self._srun.stderr.fileno()
        self._open = {self._out: b"", self._err: b""}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)
        self._words: list[str] = []
        self.hellos: dict[int, Hello] = {}
        self.seen: dict[int, float] = {}
        self.gone: dict[int, int] = {}
        self.gone_at: dict[int, float] = {}
        self.ended_at: dict[int, float] = {}
        self.failed_hosts: set[str] = set()
        self.ended_because: str | None = None
        self.taken_back = False
        self._news = False
        self._closed = threading.Event()
        self._pulse: threading.Thread | None = None

    @property
    def over(self) -> bool:
        """Whether srun has ended and all that it said is read."""
        return not self._open and self._srun.poll() is not None

    @property
    def last_words(self) -> str:
        """The last thing srun said that tells why, for people."""
        plain = [word for word in self._words if "error:" in word] or self._words
        return plain[-1].removeprefix("srun: ").removeprefix("error: ") if plain else "srun ended without a word"

    def start(self) -> None:
        """Tell the nodes to begin, and from then on that we are here."""
        self.tell("start")
        self._pulse = threading.Thread(target=self._beat, name="beats", daemon=True)
        self._pulse.start()

    def _beat(self) -> None:
        """In a thread of its own, for the supervisor may have to wait: a slow disk must not end the run."""
        while not self._closed.wait(BEAT_S):
            self.tell("beat")

    def tell(self, words: str) -> None:
        """One line to every node."""
        if self._srun.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it has just ended, and the next look shows it
                self._srun.stdin.write(words.encode() + b"\n")

    def read(self, timeout_s: float = 0.0) -> bool:
        """Take in what has been said; wait for something no longer than this. False if it was but signs of life."""
        if not self._open:
            if self._srun.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._srun.wait(timeout_s)
            return self.over
        self._news = False
        for descriptor in select.select(list(self._open), [], [], timeout_s)[0]:
            self._take(descriptor)
        return self._news

    def _take(self, descriptor: int) -> None:
        while True:
            try:
                block = os.read(descriptor, _BLOCK_BYTES)
            except BlockingIOError:
                return
            *lines, rest = (self._open[descriptor] + block).split(b"\n")
            self._open[descriptor] = rest
            if not block:
                self._news = True
                del self._open[descriptor]
                lines += [rest] if rest else []
            for line in lines:
                self._hear(line, from_node=descriptor == self._out)
            if not block:
                return

    def _hear(self, line: bytes, *, from_node: bool) -> None:
        match = _LABELED.fullmatch(line)
        if from_node and match is not None and match[2].startswith(b"{"):
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a line of another: it says nothing of the node
                self._hear_node(int(match[1]), json.loads(match[2]))
                return
        self._hear_srun(line.decode(errors="replace").strip())

    def _hear_node(self, rank: int, told: Mapping[str, Any]) -> None:
        self.seen[rank] = self._clock()
        self._news = self._news or "beat" not in told
        if "hello" in told:
            hello = told["hello"]
            self.hellos[rank] = Hello(
                host=str(hello["host"]),
                address=str(hello["address"]),
                port=int(hello["port"]),
                devices=tuple(hello["devices"]),
                cores=int(hello["cores"]),
                step=hello["step"],
                shared=bool(hello["shared"]),
                behind_s=time.time() - float(hello["time"]),
            )
        elif "gone" in told:
            self.gone[rank] = int(told["gone"])
            self.gone_at[rank] = self._clock()

    def _hear_srun(self, line: str) -> None:
        if not line:
            return
        self._news = True
        print(line, file=sys.stderr, flush=True)  # the supervisor's log  # noqa: T201
        self._words = [*self._words[1 - _KEPT_WORDS :], line]
        self.failed_hosts.update(_NODE_FAILED.findall(line))
        for ranks in _MEMBER_ENDED.findall(line):
            self._members_ended(ranks)
        ended = _STEP_ENDED.search(line)
        if ended is not None:
            self.taken_back = True
            self.ended_because = ended["why"] or self.ended_because

    def _members_ended(self, ranks: str) -> None:
        """`ranks` as srun writes them: "0,2-4"."""
        for part in filter(None, ranks.split(",")):
            first, _, last = part.partition("-")
            for rank in range(int(first), int(last or first) + 1):
                self.ended_at.setdefault(rank, self._clock())

    def kill(self) -> None:
        """End srun, which ends nothing on the nodes by itself."""
        if self._srun.poll() is None:
            self._srun.kill()

    def close(self) -> None:
        """Wait for srun, no longer than it takes; its pipes are closed."""
        self._closed.set()
        if self._pulse is not None:
            self._pulse.join(BEAT_S)
        if self._srun.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._srun.stdin.close()
        deadline = self._clock() + _ENDING_S
        while not self.over and self._clock() < deadline:
            self.read(deadline - self._clock())
        self.kill()
        self._srun.wait()
        for stream in (self._srun.stdout, self._srun.stderr):
            if stream is not None:
                stream.close()
        self._open = {}
