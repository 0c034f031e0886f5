"""A home on the lab's shared file system, and the real `air` command with profiles of the lab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from airlane.store.paths import RunPaths
from lab.cluster import Lab
from lab.processes import PROC

AIR = Path(sys.executable).with_name("air")
SILENCE_S = 5
GRACE_S = 2
# Says when it is up, saves when it is asked to end, and goes on until then; the next attempt finds what was saved.
SAVES = """\
trap 'echo "attempt $AIR_ATTEMPT, node $NODE_RANK" >>"$AIR_CHECKPOINT_DIR/saved"; echo saved; exit 1' TERM
[ ! -e "$AIR_CHECKPOINT_DIR/saved" ] || sed 's/^/found: /' "$AIR_CHECKPOINT_DIR/saved"
echo up
while [ "$AIR_ATTEMPT" = 0 ]; do touch "$AIR_CHECKPOINT_DIR/$NODE_RANK.alive"; sleep 0.2; done
"""
# The same, but what asks it to end is not heard.
DEAF = SAVES.replace("trap 'echo", "trap '' TERM; : 'echo").replace("exit 1' TERM", "exit 1'")


class SlurmRuns:
    """Runs of one home on one lab. `facts` of a run are what `air get --json` tells."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.home = folder / "a 'home' with ünïcode"
        self._profiles: dict[str, dict[str, Any]] = {}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIR_", "MLFLOW_", "SLURM_"))}
        self.env = {**kept, **lab.env, "AIR_CONFIG": str(folder / "config.toml"), "USER": "tester"}
        self.profile("lab")

    def profile(self, name: str, **keys: Any) -> str:
        """Adds a profile, or changes one; its name."""
        common = {"backend": "slurm", "home": str(self.home), "tracking_uri": "none", "stop_grace_s": GRACE_S}
        self._profiles[name] = {**common, "silence_s": SILENCE_S, **keys}
        lines = []
        for each, values in self._profiles.items():
            lines += [f"[profiles.{each}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
        (self.folder / "config.toml").write_text("\n".join(lines), encoding="utf-8")
        return name

    def workload(self, command: str, *, nodes: int = 2, cores: int = 1, **fields: Any) -> Path:
        content = {
            "experiment_name": "test",
            "command": command,
            "environment": {"version": "host"},
            "max_retries": 0,
            "compute": {"num_accelerators": nodes * cores, "accelerator_type": f"CPU_{cores}xCORE"},
            **fields,
        }
        path = self.folder / f"w{time.monotonic_ns()}.yaml"
        path.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
        return path

    def air(
        self, *words: object, env: Mapping[str, str] | None = None, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end, whatever that is."""
        line = [str(AIR), *map(str, words)]
        whole = {**self.env, **(env or {})}
        return subprocess.run(
            line, env=whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout_s
        )

    def submit(self, command: str, *, profile: str = "lab", env: Mapping[str, str] | None = None, **fields: Any) -> str:
        """Submits a workload; the run's id."""
        done = self.air("run", "-p", profile, "-f", self.workload(command, **fields), "--json", env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout)["data"]["run_id"])

    def cancel(self, run_id: str) -> None:
        done = self.air("cancel", run_id, "-p", "lab")
        assert done.returncode == 0, done.stdout + done.stderr

    def facts(self, run_id: str) -> dict[str, Any]:
        done = self.air("get", run_id, "-p", "lab", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout)["data"])

    def paths(self, run_id: str) -> RunPaths:
        (folder,) = self.home.glob(f"runs/*/{run_id}")
        return RunPaths(folder)

    def jobs(self, run_id: str) -> list[int]:
        """The Slurm jobs that the run became, in order."""
        records = sorted(self.paths(run_id).slurm.glob("[0-9]*.json"), key=lambda record: int(record.stem))
        return [int(json.loads(record.read_text(encoding="utf-8"))["job"]) for record in records]

    def job(self, run_id: str) -> str:
        """The run's latest Slurm job, to be typed."""
        return str(self.jobs(run_id)[-1])

    def told_end(self, run_id: str, *, within_s: float) -> dict[str, Any]:
        """The facts of the run as soon as they tell its end."""
        facts: dict[str, Any] = {}

        def terminal() -> bool:
            facts.clear()
            facts.update(self.facts(run_id))
            return facts["status"] not in ("PENDING", "RUNNING")

        wait_until(terminal, within_s=within_s, what=lambda: f"run {run_id} ends: {facts}")
        return facts

    def ended(self, run_id: str, *, within_s: float) -> dict[str, Any]:
        """The facts of the run when it has ended; nothing of it is left in Slurm or on any machine."""
        facts = self.told_end(run_id, within_s=within_s)
        wait_until(lambda: not self.queue(run_id), within_s=30, what=lambda: f"{self.queue(run_id)} leaves the queue")
        wait_until(lambda: not processes_of(run_id), within_s=10, what=lambda: f"they end: {processes_of(run_id)}")
        return facts

    def queue(self, run_id: str) -> list[str]:
        """The jobs of the run that Slurm has not ended, with their states."""
        comment = f"airlane run {run_id}"
        lines = self.lab.run(["squeue", "-h", "-o", "%A %T|%k"], check=False).stdout.splitlines()
        return [line.partition("|")[0] for line in lines if line.endswith(f"|{comment}")]

    def log(self, run_id: str, *, attempt: int = 0, node: int = 0) -> str:
        log = self.paths(run_id).log(attempt=attempt, node=node)
        return log.read_text(encoding="utf-8") if log.exists() else ""

    def await_log(
        self, run_id: str, words: str = "up\n", *, attempt: int = 0, nodes: int = 2, within_s: float = 40
    ) -> None:
        """Waits until every node of the attempt has logged something."""
        wait_until(
            lambda: all(words in self.log(run_id, attempt=attempt, node=node) for node in range(nodes)),
            within_s=within_s,
            what=lambda: f"{words!r} in the logs of attempt {attempt} of {run_id}",
        )

    def await_phase(self, run_id: str, phase: str, *, within_s: float = 30) -> dict[str, Any]:
        """The facts of the run once it is in that phase."""
        facts: dict[str, Any] = {}

        def there() -> bool:
            facts.clear()
            facts.update(self.facts(run_id))
            return bool(facts["phase"] == phase)

        wait_until(there, within_s=within_s, what=lambda: f"{run_id} is {phase}: {facts}")
        return facts

    def hosts(self, run_id: str, *, attempt: int = -1) -> list[str]:
        return list(self.facts(run_id)["attempts"][attempt]["hosts"])

    def kill(self, run_id: str, host: str, *, what: str) -> None:
        """SIGKILLs one process of a run on a machine: its "supervisor", "keeper", "agent" or "command"."""
        mark = {
            "supervisor": "airlane.supervise.batch",
            "keeper": "airlane-node",
            "agent": "--member",
            "command": "command.sh",
        }[what]
        found = [
            process
            for process in self.lab.processes(host)
            if mark in " ".join(process.argv)
            and f"/{run_id}" in " ".join(process.argv)
            and process.argv[0] not in ("srun", "docker")
            and _is(process.argv, what)
        ]
        # Of several with the same words, the others were forked by the first.
        first = next(process for process in found if process.parent not in {other.pid for other in found})
        os.kill(first.pid, signal.SIGKILL)


def _is(argv: tuple[str, ...], what: str) -> bool:
    """A keeper's words hold the agent's command line."""
    is_keeper = "airlane-node" in argv
    return is_keeper == (what == "keeper")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    return json.dumps(value)


def cause_of(facts: Mapping[str, Any], attempt: int | None = None) -> tuple[str, str | None]:
    """The kind of the cause of a run, or of one of its attempts, and the machine that it names."""
    cause = (facts if attempt is None else facts["attempts"][attempt])["cause"]
    return cause["kind"], cause["host"]


def ends_of(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How each attempt of a run ended: its state, and the kind of its cause."""
    return [(attempt["status"], attempt["cause"]["kind"]) for attempt in facts["attempts"]]


def seconds_from(since: float, moment: str) -> float:
    """From a time, in seconds since the epoch, to a moment of the facts."""
    return datetime.fromisoformat(moment).timestamp() - since


def wait_until(true: Callable[[], bool], *, within_s: float, what: str | Callable[[], str]) -> None:
    """Fails if it does not come true in time, and says what did not."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.05)


def processes_of(run_id: str, *, attempt: int | None = None) -> list[str]:
    """Everything alive of a run, on any machine of the lab: by its environment, or by its id in argv.

    Of one attempt, only what the command started can be told.
    """
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environ, line = (entry / "environ").read_bytes().split(b"\0"), (entry / "cmdline").read_bytes()
            zombie = ") Z " in (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        of_run = f"AIR_RUN_ID={run_id}".encode() in environ
        if attempt is not None:
            of_run = of_run and f"AIR_ATTEMPT={attempt}".encode() in environ
        elif f"/{run_id}".encode() in line:
            of_run = True
        if of_run and not zombie:
            found.append(f"{entry.name} {line.replace(bytes(1), b' ').decode(errors='replace')}")
    return found
