"""The nodes of one attempt in a Slurm allocation: one step, whose members become the agents."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from airlane.backends.agents import unwritten, write_order
from airlane.backends.base import Allocation, Interruption, NodePlace, NodeReport, Waiting
from airlane.backends.slurm.options import SlurmOptions
from airlane.backends.slurm.preflight import Preflight
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.step import BEAT_S, Hello, Step, step_command
from airlane.errors import AirError, BackendError, ConfigError, NodeFailedError
from airlane.launch.complaint import EXIT_NO_RECORD
from airlane.launch.ending import CUT_OFF
from airlane.launch.order import Order
from airlane.store.disk import make_private_folder
from airlane.store.paths import RunPaths
from airlane.store.records import CauseKind, NodeRecord, RunRecord
from airlane.store.runs import read_node_record

# srun waits as long as an earlier step of the job still cleans up its nodes.
START_S = 180.0
# A file that another machine wrote may take a while to be seen (NFS caches attributes for up to a minute).
RECORD_PATIENCE_S = 10.0
# Between a step's last word and srun's own about why it was ended.
WHY_PATIENCE_S = 2.0
# Between the signals that Slurm sends to one machine and to another: a rank fails when its peer is ended.
OTHERS_PATIENCE_S = 0.5
# How long Slurm is asked why it ended a step, before that is taken for an end like any other.
TAKEN_BACK_PATIENCE_S = 15.0
# A supervisor that has not looked for so long was not awake: its machine, or its job, was suspended.
LONGEST_NAP_S = 5.0
ASK_AGAIN_S = 1.0
# Machines whose clocks differ more than this break tokens, locks, and the order of what is logged.
MOST_SKEW_S = 30.0
_TAKEN_BACK = "taken back"
# bash's exit codes where a program cannot be run, or is not there.
_NO_PROGRAM = (126, 127)

_WHY: dict[str, tuple[CauseKind, str]] = {
    "TIME LIMIT": (CauseKind.TIMEOUT, "Slurm's time limit was reached"),
    "PREEMPTION": (CauseKind.PREEMPTED, "Slurm gave the nodes to a run that goes first (preemption)"),
    "JOB REQUEUE": (CauseKind.PREEMPTED, "Slurm put the run back into the queue (requeue)"),
    "NODE FAILURE": (CauseKind.NODE_FAILED, "a node of the run failed"),
}


class SlurmAllocation(Allocation):
    """A step of the job that the supervisor runs in, or of an allocation that was the user's before."""

    def __init__(
        self,
        run: RunRecord,
        paths: RunPaths,
        attempt: int,
        *,
        options: SlurmOptions,
        slurm: Slurm,
        job: int,
        held: bool,
        hosts: Sequence[str],
        without: Sequence[str] = (),
        env: Mapping[str, str],
        time_is_up: Callable[[], str | None],
        why: Callable[[], Interruption | None],
        preflight: Preflight | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`time_is_up` says in words that the job's time limit is near; `why` asks Slurm why it takes the nodes back.

        `preflight` is a look at the nodes.
        """
        self._run = run
        self._paths = paths
        self._attempt = attempt
        self._options = options
        self._slurm = slurm
        self._job = job
        self._hosts = [host for host in hosts if host not in without]
        self._clock = clock
        self._folder = paths.nodes(attempt)
        make_private_folder(self._folder)
        command = step_command(
            run,
            options,
            attempt=attempt,
            folder=self._folder,
            held_job=job if held else None,
            without=without,
        )
        self._step = Step(command, env, clock=clock)
        self._deadline = clock() + START_S
        self._started: set[int] = set()
        self._started_at: float | None = None
        self._asked: set[int] = set()
        self._unwritten: dict[int, NodeRecord] = {}
        self._time_is_up = time_is_up
        self._ask_why = why
        self._ends: dict[int, NodeReport] = {}
        self._preflight = preflight
        self._interruption: Interruption | None = None
        self._silent = False
        self._released = False  # from then on, what srun says is what we did
        self._looked_at = clock()
        self._awake_since = self._looked_at
        self._ask_at = self._looked_at
        self._controller_answers = False

    def waiting(self) -> Waiting | None:
        step = self._step
        step.read()
        if len(step.hellos) == self._run.nodes:
            for rank, hello in sorted(step.hellos.items()):
                self._check(rank, hello)
            return self._preflight_waits()
        if step.over or set(step.gone) - set(step.hellos):
            raise self._not_started()
        if self._clock() > self._deadline:
            raise self._too_late()
        return Waiting(f"{len(step.hellos)} of {self._run.nodes} nodes are up")

    def _preflight_waits(self) -> Waiting | None:
        if self._preflight is None:
            return None
        unfit = self._preflight.unfit()
        if unfit is None:
            return Waiting("looking at the nodes (preflight)")
        self._preflight = None
        if unfit:
            words = "; ".join(f"{node.host}: {', '.join(node.problems)}" for node in unfit)
            raise NodeFailedError(f"not fit for a run (preflight): {words}", host=unfit[0].host)
        return None

    def _too_late(self) -> AirError:
        up = {hello.host for hello in self._step.hellos.values()}
        missing = [host for host in self._hosts if host not in up]
        words = f"did not answer in {START_S:g} s"
        if not missing:
            return BackendError(f"{self._run.nodes - len(up)} of {self._run.nodes} nodes {words}")
        return NodeFailedError(f"{', '.join(missing)} {words}", host=missing[0])

    def _not_started(self) -> AirError:
        without = min((rank for rank, code in self._step.gone.items() if code in _NO_PROGRAM), default=None)
        if without is not None:
            host = self._hosts[without] if without < len(self._hosts) else "unknown host"
            return ConfigError(
                f"node {without} ({host}) has no {self._options.interpreter}",
                hint="set python in the profile to an interpreter that all nodes share",
            )
        failed = sorted(self._step.failed_hosts)
        words = f"srun could not start the nodes: {self._step.last_words}"
        return NodeFailedError(words, host=failed[0]) if failed else BackendError(words)

    def _check(self, rank: int, hello: Hello) -> None:
        """Raises what makes a node unfit, with the node named."""
        if not hello.shared:
            raise ConfigError(
                f"node {rank} ({hello.host}) has no {self._folder}",
                hint="set home in the profile to a folder that all nodes share",
            )
        if self._options.preflight and abs(hello.behind_s) > MOST_SKEW_S:
            words = f"its clock is {abs(hello.behind_s):.0f} s {'behind' if hello.behind_s > 0 else 'ahead'}"
            raise NodeFailedError(f"node {rank} ({hello.host}) is not fit for a run: {words}", host=hello.host)
        wanted = self._run.accelerators_per_node
        if self._has_devices and len(hello.devices) != wanted:
            raise NodeFailedError(
                f"node {rank} ({hello.host}) shows {len(hello.devices)} of {wanted} accelerators", host=hello.host
            )

    @property
    def _has_devices(self) -> bool:
        return not self._run.simulate and self._options.gres(self._run.accelerator_type) is not None

    def places(self) -> tuple[NodePlace, ...]:
        return tuple(
            NodePlace(rank, hello.host, hello.address, hello.devices if self._has_devices else ())
            for rank, hello in sorted(self._step.hellos.items())
        )

    def free_port(self) -> int:
        return self._step.hellos[0].port

    def start(self, order: Order) -> None:
        path = self._paths.node_order(attempt=self._attempt, node=order.node_rank)
        write_order(path, replace(order, beat_interval_s=BEAT_S, silence_s=self._options.silence_s))
        self._started.add(order.node_rank)
        if len(self._started) == self._run.nodes:
            self._step.start()
            self._started_at = self._clock()

    def look(self) -> tuple[NodeReport, ...]:
        now = self._clock()
        if now > self._looked_at + LONGEST_NAP_S:
            self._awake_since = now
        self._step.read()
        reports = tuple(self._report(node) for node in sorted(self._started))
        self._looked_at = self._clock()
        return reports

    def _report(self, node: int) -> NodeReport:
        """What was told of a node's end stays told, whatever is done to the step later."""
        report = self._ends.get(node) or self._report_now(node)
        if not report.agent_alive:
            self._ends[node] = report
        return report

    def _report_now(self, node: int) -> NodeReport:
        step = self._step
        if node in step.gone:
            return self._report_gone(node)
        hello = step.hellos[node]
        silent_s = self._clock() - max(step.seen[node], self._started_at or 0.0, self._awake_since)
        lost = None
        if hello.host in step.failed_hosts:
            lost = "Slurm says that the machine failed"
        elif silent_s > self._options.silence_s and self._slurm_answers():
            lost = f"no sign of life for {self._options.silence_s:g} s"
        if lost is not None:
            self._silent = True
            return NodeReport(node, False, None, lost, host_failed=True)
        if step.over:
            return NodeReport(node, False, self._record(node), f"srun ended: {step.last_words}")
        if node in step.ended_at and self._clock() - step.ended_at[node] > WHY_PATIENCE_S:
            return NodeReport(node, False, self._own_end(node), "its agent was killed")
        return NodeReport(node, True, None)

    def _slurm_answers(self) -> bool:
        """Whether this machine reaches the controller: one that reaches nothing must not call the others lost.

        It is the one that is cut off, and Slurm starts the run again elsewhere; or the controller is down, and nothing
        can be done without it.
        """
        if self._clock() >= self._ask_at:
            try:
                self._controller_answers = self._slurm.show(self._job) is not None
            except BackendError:
                self._controller_answers = False
            self._ask_at = self._clock() + ASK_AGAIN_S
        return self._controller_answers

    def _own_end(self, node: int) -> NodeRecord | None:
        """The node's record, where it tells an end that nobody from outside has caused."""
        record = self._record(node)
        return record if record is not None and record.ended_at is not None and not _by_signal(record) else None

    def _report_gone(self, node: int) -> NodeReport:
        code = self._step.gone[node]
        record = self._record(node)
        waited_s = self._clock() - self._step.gone_at[node]
        if record is not None and record.ended_at is not None:
            return self._report_ended(node, record, waited_s)
        if code == EXIT_NO_RECORD:
            record = self._unwritten.setdefault(node, unwritten(node, 0, record))
            return NodeReport(node, False, record)
        if code == 0 and waited_s < RECORD_PATIENCE_S:
            return NodeReport(node, True, None)
        return NodeReport(node, False, record, f"its agent ended with code {code} and without a word")

    def _report_ended(self, node: int, record: NodeRecord, waited_s: float) -> NodeReport:
        """A node that has told its end, once it is known whether that was its own.

        Slurm signals every process of a step, on one machine a moment after the other, and srun says why after that.
        """
        if record.succeeded and record.stop_reason is None:
            return NodeReport(node, False, record)
        if self._step.taken_back:
            known = self._asked or self.interruption() is not None or waited_s > TAKEN_BACK_PATIENCE_S
            taken_back = replace(record, stop_reason=record.stop_reason or _TAKEN_BACK)
            return NodeReport(node, False, taken_back) if known else NodeReport(node, True, None)
        if node in self._asked:
            return NodeReport(node, False, record)
        own_end_s = OTHERS_PATIENCE_S if self._run.nodes > 1 else 0.0
        if waited_s < (WHY_PATIENCE_S if _by_signal(record) else own_end_s):
            return NodeReport(node, True, None)
        return self._report_stopped(node, record)

    def _report_stopped(self, node: int, record: NodeRecord) -> NodeReport:
        """A node that failed, or was ended by a signal which neither we nor Slurm sent."""
        if record.stop_reason == CUT_OFF:
            words = f"it had no word from the supervisor for {self._options.silence_s:g} s"
            return NodeReport(node, False, None, words, host_failed=True)
        if record.stop_reason is not None:
            return NodeReport(node, False, None, "its agent was ended by a signal there")
        return NodeReport(node, False, record)

    def _record(self, node: int) -> NodeRecord | None:
        return read_node_record(self._paths, attempt=self._attempt, node=node)

    def interruption(self) -> Interruption | None:
        if self._interruption is None and not self._asked and not self._released:
            self._interruption = self._taken_back() or self._out_of_time()
        return self._interruption

    def _out_of_time(self) -> Interruption | None:
        words = self._time_is_up()
        return Interruption(CauseKind.TIMEOUT, words) if words is not None else None

    def _taken_back(self) -> Interruption | None:
        step = self._step
        if not step.taken_back:
            return None
        for words, (kind, summary) in _WHY.items():
            if self.said_why.startswith(words):
                host = self._failed_host() if kind is CauseKind.NODE_FAILED else None
                return Interruption(kind, f"{summary}: Slurm job {self._job}", host)
        return self._ask_why()

    def _failed_host(self) -> str | None:
        """The machine that srun names, or, before it does, the one that the controller calls dead or took from the job.

        It calls a machine dead first, then ends the job's steps; when it takes the machine out of the job varies.
        """
        if self._step.failed_hosts:
            return min(self._step.failed_hosts)
        try:
            dead = self._slurm.down(self._hosts)
            job = None if dead else self._slurm.show(self._job)
        except BackendError:
            return None
        left = job.hosts if job is not None and job.hosts else self._hosts
        return next((host for host in self._hosts if host in dead or host not in left), None)

    @property
    def said_why(self) -> str:
        """Why Slurm has ended the step, in srun's words; empty where it has not, or does not say."""
        return self._step.ended_because or ""

    def stop(self, node: int) -> None:
        self._asked.add(node)
        self._step.tell(f"stop {node}")

    def kill(self, node: int) -> None:
        self._asked.add(node)
        self._step.tell(f"kill {node}")

    def wait(self, timeout_s: float) -> None:
        deadline = self._clock() + timeout_s
        # Of a thousand nodes one beats every millisecond, and none of it is a reason to look at them all.
        while not self._step.read(max(0.0, deadline - self._clock())) and self._clock() < deadline:
            continue

    def release(self) -> None:
        """End the step, and with it all that is left of the attempt on the nodes; the job is kept."""
        step = self._step
        if self._preflight is not None:
            self._preflight.close()
        step.read()
        self._released = True
        if step.failed_hosts or self._silent:
            step.kill()  # the agents that live see it; a request to a dead machine would only be waited for
        elif not step.over:
            number = next((hello.step for hello in step.hellos.values() if hello.step is not None), None)
            if number is not None and set(step.gone) != set(range(self._run.nodes)):
                self._end_step(int(number))
            elif number is None:
                step.kill()
        step.close()

    def _end_step(self, number: int) -> None:
        try:
            self._slurm.cancel(self._job, signal="KILL", step=number)
        except BackendError as error:
            os.write(2, f"airlane: the step could not be ended: {error.message}\n".encode())
            self._step.kill()


def _by_signal(record: NodeRecord) -> bool:
    """Whether a node was stopped, or its command ended by what Slurm sends when it takes nodes back."""
    return record.stop_reason is not None or record.signal in ("SIGTERM", "SIGKILL") or record.exit_code in (143, 137)
