"""What `air doctor` looks at on a Slurm cluster; one small allocation proves what nodes can do."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from airlane import __version__
from airlane.backends.base import Finding
from airlane.backends.slurm.capacity import chosen
from airlane.backends.slurm.durations import write_duration
from airlane.backends.slurm.options import SlurmOptions
from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.script import placement
from airlane.errors import AirError, SlurmUnavailableError
from airlane.store.paths import Home

# How long a node gets to be granted, to start, and to see a file that was written here.
PROBE_S = 30.0
SEE_FILE_S = 10
_CONTAINER_RUNTIMES = ("docker", "podman", "apptainer", "enroot")

# Runs on a node with nothing but sh. $1 is the folder that should be shared, $2 how long to look for what was written
# into it here, $3 the interpreter; the rest are container runtimes.
_PROBE = """
echo "host=$(uname -n)"
waited=0
while [ ! -f "$1/from-here" ] && [ "$waited" -lt "$2" ]; do sleep 1; waited=$((waited + 1)); done
if [ -f "$1/from-here" ]; then cat "$1/from-here"; cp "$1/from-here" "$1/from-node" && echo written=yes; fi
"$3" -I -c 'import airlane; print("airlane=" + airlane.__version__)' 2>&1 | tail -n 1
shift 3
for name in "$@"; do command -v "$name" >/dev/null 2>&1 && echo "runtime=$name"; done
true
"""


def doctor(options: SlurmOptions, slurm: Slurm, home: Home) -> Iterator[Finding]:
    """Every check, in the order in which a run would need them; stops at what the rest depends on."""
    try:
        yield Finding("sbatch, srun, scontrol", True, f"Slurm {slurm.version()}")
        before = time.monotonic()
        partitions = slurm.partitions()
        yield Finding("slurmctld", True, f"answered in {time.monotonic() - before:.2f} s")
        if slurm.has_accounting():
            yield Finding("sacct", True, "answers")
        else:
            yield Finding("sacct", None, "no accounting: how runs ended is told by their own files")
        wanted = chosen(options, partitions)
        for partition in wanted:
            limit = (
                "no time limit" if partition.max_time_s is None else f"at most {write_duration(partition.max_time_s)}"
            )
            if partition.up:
                preempting = "" if partition.preempt_mode == "OFF" else f", PreemptMode={partition.preempt_mode}"
                words = f"{partition.name}, {partition.total_nodes} nodes, {limit}{preempting}"
                yield Finding("partition", True, words)
            else:
                yield Finding("partition", False, f"{partition.name} is closed", "sinfo shows those that are up")
    except AirError as error:
        name = "slurmctld" if isinstance(error, SlurmUnavailableError) else "Slurm"
        yield Finding(name, False, error.message, error.hint)
        return
    if any(partition.up for partition in wanted):
        yield from _look_from_a_node(options, slurm, home)


def _look_from_a_node(options: SlurmOptions, slurm: Slurm, home: Home) -> Iterator[Finding]:
    folder = home.root / f".doctor-{secrets.token_hex(4)}"
    try:
        folder.mkdir(mode=0o700, parents=True)
        yield from _probe(options, slurm, home, folder)
    except OSError as error:
        yield Finding("home on a node", False, f"{home.root} cannot be written here: {error.strerror}")
    finally:
        for name in ("from-here", "from-node"):
            (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _probe(options: SlurmOptions, slurm: Slurm, home: Home, folder: Path) -> Iterator[Finding]:
    before = time.monotonic()
    (folder / "from-here").write_text("seen=yes\n", encoding="utf-8")
    where = [f"{name}={value}" for name, value in placement(options)]
    command = ["/bin/sh", "-c", _PROBE, "sh", str(folder), str(SEE_FILE_S), options.interpreter, *_CONTAINER_RUNTIMES]
    try:
        done = slurm.run_on_node(["--job-name=air-doctor", *where, "--chdir=/"], command, PROBE_S)
    except AirError as error:
        yield Finding("a node", None, error.message, "all nodes may be busy: try again later")
        return
    answers = _answers(done.stdout)
    if "host" not in answers:
        yield _no_node(done)
        return
    host = answers["host"][0]
    came_back = "written" in answers and _appears(folder / "from-node", SEE_FILE_S)
    yield _home_finding(home, host, answers, came_back=came_back, took_s=time.monotonic() - before)
    yield _python_finding(options, host, answers, done.stdout)
    runtimes = answers.get("runtime", [])
    if runtimes:
        yield Finding("containers", True, f"{', '.join(runtimes)} on {host}")
    else:
        yield Finding("containers", None, f"no container runtime on {host}", "docker_image needs one on the nodes")


def _no_node(done: Completed) -> Finding:
    said = next(iter(reversed(done.stderr.strip().splitlines())), f"exit code {done.exit_code}")
    if "Requested nodes are busy" in done.stderr:
        return Finding("a node", None, "none is free now", "try again later")
    return Finding("a node", False, f"srun: {said.removeprefix('srun: error: ')}", "correct the profile; srun hostname")


def _home_finding(
    home: Home, host: str, answers: Mapping[str, list[str]], *, came_back: bool, took_s: float
) -> Finding:
    shared = "set home in the profile to a folder that all nodes share"
    if "seen" not in answers:
        return Finding("home on a node", False, f"{home.root} is not shared with {host}", shared)
    if not came_back:
        return Finding("home on a node", False, f"{home.root} cannot be written from {host}", shared)
    return Finding(
        "home on a node", True, f"{home.root} is shared with {host} (write seen from a node in {took_s:.2f} s)"
    )


def _python_finding(options: SlurmOptions, host: str, answers: Mapping[str, list[str]], said: str) -> Finding:
    version = answers.get("airlane", [""])[0]
    if version == __version__:
        return Finding("Python on a node", True, f"{options.interpreter} on {host} has airlane {version}")
    hint = "set python in the profile to an interpreter on the nodes in which this airlane is installed"
    if version:
        return Finding("Python on a node", False, f"airlane {version} on {host}, {__version__} here", hint)
    lines = [line for line in said.splitlines() if line.strip() and not re.match(r"\w+=", line)]
    detail = f"{options.interpreter} on {host}: {lines[-1] if lines else 'did not run'}"
    return Finding("Python on a node", False, detail, hint)


def _answers(text: str) -> dict[str, list[str]]:
    answers: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            answers.setdefault(name, []).append(value)
    return answers


def _appears(file: Path, patience_s: float) -> bool:
    """Whether a file that a node has written is seen here; a network file system may take seconds."""
    deadline = time.monotonic() + patience_s
    while not file.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
