"""Slurm through its own programs: each call has a deadline, and no answer is told apart from an answer."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from airlane.backends.slurm.cluster import NodeGroup, Partition, SlurmNode, read_groups, read_node, read_partitions
from airlane.backends.slurm.jobs import (
    ACCOUNT_FIELDS,
    QUEUE_FIELDS,
    SEPARATOR,
    SlurmJob,
    read_account,
    read_queue,
    read_shown,
)
from airlane.backends.slurm.programs import Completed, Run, run_program
from airlane.backends.slurm.refusals import refusal, unreachable
from airlane.errors import BackendError

# A controller that answers does so in milliseconds; squeue itself gives up on a dead one after 9 s (seen).
QUERY_S = 10.0
# sbatch gives up on a dead controller after 19 s (seen); killed earlier, it might have submitted.
SUBMIT_S = 60.0
_SUBMISSION_S = 5.0
_NO_SUCH_JOB = re.compile("Invalid job id specified")
_OVER = re.compile("Invalid job id specified|already complet|Job/step already|not currently running", re.IGNORECASE)
_NO_ACCOUNTING = re.compile("accounting storage is disabled|not running a supported accounting_storage", re.IGNORECASE)
# Variables that filter or reshape the answers of squeue, sinfo and sacct.
_RESHAPING = re.compile("(SQUEUE|SINFO|SACCT)_.*|SLURM_(TIME_FORMAT|CLUSTERS|JSON|YAML|BITSTR_LEN)|SCONTROL_.*")
# Variables that win over the lines of a batch script: a profile says all of it (sbatch(1), "INPUT ENVIRONMENT").
_OVERRIDING = re.compile("SBATCH_.*")


class Slurm:
    """One cluster. `run` runs programs, `env` is the environment that they get."""

    def __init__(self, run: Run = run_program, env: Mapping[str, str] | None = None) -> None:
        self._run = run
        environ = os.environ if env is None else env
        asking = {name: value for name, value in environ.items() if not _RESHAPING.fullmatch(name)}
        self._asking = asking | {"SLURM_TIME_FORMAT": "%s"}
        self._submitting = {name: value for name, value in environ.items() if not _OVERRIDING.fullmatch(name)}
        self._accounting = True
        self._partitions: tuple[Partition, ...] | None = None
        self._partitions_until = 0.0

    def submit(self, script: Path, cwd: Path, *, after: int | None = None) -> int:
        """Submit a batch script that starts in `cwd`, when the job `after` has ended; the job's id.

        Raises:
            ConfigError: the profile asks for something that the cluster does not have.
            CapacityError: no node can ever be what the run needs.
            SlurmUnavailableError: Slurm did not answer.
        """
        order = [f"--dependency=afterany:{after}"] if after is not None else []
        command = ["sbatch", "--parsable", f"--chdir={cwd}", *order, str(script)]
        done = self._run(command, SUBMIT_S, self._submitting)
        if done.exit_code == 0 and (match := re.match(r"(\d+)", done.stdout.strip())):
            return int(match[1])
        raise refusal(done, self._partition_names)

    def jobs(self, ids: Iterable[int]) -> dict[int, SlurmJob]:
        """What squeue knows of these jobs: one question. One that it does not name may have ended long ago.

        Raises:
            SlurmUnavailableError: Slurm did not answer.
        """
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        fields = ",".join(f"{field}:{SEPARATOR}" for field in QUEUE_FIELDS)
        listed = ",".join(map(str, wanted))
        done = self._ask("squeue", "--noheader", "--states=all", f"--jobs={listed}", f"--Format={fields}")
        if done.exit_code and not _NO_SUCH_JOB.search(done.stderr):
            raise _unexpected("squeue", done)
        return read_queue(done.stdout)

    def show(self, job: int) -> SlurmJob | None:
        """All that the controller knows of a job; None if it says that there is none (any more).

        Raises:
            SlurmUnavailableError: Slurm did not answer.
        """
        done = self._ask("scontrol", "--oneliner", "show", "job", str(job))
        if done.exit_code == 0:
            return read_shown(done.stdout)
        if _NO_SUCH_JOB.search(done.stderr):
            return None
        raise _unexpected("scontrol", done)

    def account(self, ids: Iterable[int]) -> dict[int, SlurmJob]:
        """What the accounting knows of these jobs; nothing where there is none, or where it does not answer."""
        wanted = sorted(set(ids))
        if not wanted or not self._accounting:
            return {}
        fields = ",".join(ACCOUNT_FIELDS)
        listed = ",".join(map(str, wanted))
        try:
            done = self._ask(
                "sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={listed}", f"--format={fields}"
            )
        except BackendError:
            return {}
        if _NO_ACCOUNTING.search(done.stderr):
            self._accounting = False
        return read_account(done.stdout) if done.exit_code == 0 else {}

    def has_accounting(self) -> bool:
        """Whether sacct answers."""
        try:
            done = self._ask("sacct", "--noheader", "--allocations", "--jobs=1", "--format=JobIDRaw")
        except BackendError:
            return False
        return done.exit_code == 0

    def steps(self, job: int, name: str) -> tuple[int, ...]:
        """The numbers of the job's steps of that name that have not ended.

        Raises:
            SlurmUnavailableError: Slurm did not answer.
        """
        done = self._ask("squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i|%j")
        if done.exit_code and not _NO_SUCH_JOB.search(done.stderr):
            raise _unexpected("squeue", done)
        found = (re.fullmatch(r"\d+\.(\d+)\|(.*)", line.strip()) for line in done.stdout.splitlines())
        return tuple(int(step[1]) for step in found if step is not None and step[2] == name)

    def cancel(
        self,
        job: int,
        *,
        pending_only: bool = False,
        signal: str | None = None,
        batch: bool = False,
        step: int | None = None,
    ) -> None:
        """End a job, or send it, its batch script or a step of it a signal ("TERM"). One that has ended is no error.

        Raises:
            SlurmUnavailableError: Slurm did not answer.
            BackendError: it refused.
        """
        command = ["scancel"]
        if pending_only:
            command.append("--state=PENDING")
        if signal is not None:
            command.append(f"--signal={signal}")
        if batch:
            command.append("--batch")
        done = self._ask(*command, str(job) if step is None else f"{job}.{step}")
        if done.exit_code and not _OVER.search(done.stderr):
            raise _unexpected("scancel", done)

    def node(self, host: str) -> SlurmNode | None:
        """A node as the controller sees it; None if it has none of that name."""
        done = self._ask("scontrol", "--oneliner", "show", "node", host)
        if done.exit_code == 0:
            return read_node(done.stdout)
        if "not found" in done.stdout + done.stderr:
            return None
        raise _unexpected("scontrol", done)

    def down(self, hosts: Iterable[str]) -> frozenset[str]:
        """Those of the machines that the controller calls dead: one question.

        Raises:
            SlurmUnavailableError: Slurm did not answer.
        """
        listed = f"--nodes={','.join(hosts)}"
        done = self._ask("sinfo", "--noheader", "--Node", listed, "--states=down,fail,no_respond", "--format=%N")
        if done.exit_code:
            raise _unexpected("sinfo", done)
        return frozenset(done.stdout.split())

    def partitions(self) -> tuple[Partition, ...]:
        """Every partition that this user may see; asked for once in a submission.

        Raises:
            SlurmUnavailableError: Slurm did not answer.
        """
        if self._partitions is None or time.monotonic() > self._partitions_until:
            done = self._ask("scontrol", "--oneliner", "show", "partition")
            if done.exit_code:
                raise _unexpected("scontrol", done)
            self._partitions = read_partitions(done.stdout)
            self._partitions_until = time.monotonic() + _SUBMISSION_S
        return self._partitions

    def _partition_names(self) -> tuple[str, ...]:
        try:
            return tuple(partition.name for partition in self.partitions())
        except BackendError:
            return ()

    def groups(self, partition: str) -> tuple[NodeGroup, ...]:
        """The nodes of a partition, those that are alike together."""
        done = self._ask("sinfo", "--noheader", "--exact", f"--partition={partition}", "--format=%D|%c|%m|%T|%G|%N")
        if done.exit_code:
            raise _unexpected("sinfo", done)
        return read_groups(done.stdout)

    def version(self) -> str:
        """The version of Slurm's programs here, as "22.05.8"; asks no controller.

        Raises:
            BackendError: they are not installed.
        """
        done = self._ask("sbatch", "--version")
        if done.exit_code or not done.stdout.strip():
            raise _unexpected("sbatch", done)
        return done.stdout.split()[-1]

    def run_on_node(self, options: Sequence[str], command: Sequence[str], timeout_s: float) -> Completed:
        """Run a command on one node in an allocation of its own, and give it back.

        Raises:
            SlurmUnavailableError: it was not over in time.
        """
        limit = f"--time={int(timeout_s // 60) + 1}"
        allocation = ["srun", "--nodes=1", "--ntasks=1", f"--immediate={max(1, int(timeout_s / 2))}", limit, *options]
        return self._run([*allocation, *command], timeout_s, self._submitting)

    def _ask(self, *command: str) -> Completed:
        done = self._run(command, QUERY_S, self._asking)
        if done.exit_code < 0:  # Slurm signals all that runs in a job which it takes back, our question too
            done = self._run(command, QUERY_S, self._asking)
        if done.exit_code and (error := unreachable(done)) is not None:
            raise error
        return done


def _unexpected(program: str, done: Completed) -> BackendError:
    said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.exit_code}").splitlines()[-1]
    return BackendError(f"{program}: {said}")
