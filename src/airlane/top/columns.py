"""The lists of `air top`, column by column: for the screens, and for what is printed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airlane.top import words
from airlane.top.lines import Tone
from airlane.top.listing import (
    Cell,
    Column,
    Context,
    Listing,
    number_column,
    share_column,
    text_column,
    time_column,
)
from airlane.top.nodes import (
    disk_share,
    gpu_memory_share,
    gpu_share,
    hottest,
    memory_share,
    node_labels,
    node_state,
    power,
    store_share,
)
from airlane.top.values import (
    Actor,
    ActorClass,
    AirRun,
    Bundle,
    Gpu,
    Group,
    Job,
    Node,
    Process,
    Snapshot,
    TrainRun,
)

Run = AirRun | TrainRun
Work = Job | AirRun | TrainRun

_WAITING = ("PENDING", "PENDING_CREATION", "DEPENDENCIES_UNREADY", "QUEUED", "PREPARED", "SCHEDULING", "INITIALIZING")
_GOING_WRONG = ("RESTARTING", "RESCHEDULING", "STOPPED", "CANCELLED", "ABORTED", "RETRYING")
_BAD = ("FAILED", "DEAD", "ERRORED", "INFEASIBLE")
_GOOD = ("SUCCEEDED", "SUCCESS", "FINISHED")
_HOT_C, _VERY_HOT_C = 80, 90
_SHORT = 8


def state_tone(state: str) -> Tone:
    """How a state is said. The word itself is always there, too."""
    if state in _WAITING or state in _GOING_WRONG:
        return Tone.WARN
    if state in _BAD:
        return Tone.BAD
    if state in _GOOD:
        return Tone.GOOD
    return Tone.ACCENT if state == "RUNNING" else Tone.PLAIN


# Nodes


def node_tone(node: Node) -> Tone:
    if node.alive:
        return Tone.WARN if node.stale else Tone.GOOD
    return Tone.BAD


def _note(node: Node) -> str:
    """Why it is not well."""
    if not node.alive:
        return node.why or ""
    return "its measures stand still" if node.stale else ""


def _temperature_tone(degrees: float) -> Tone:
    if degrees >= _VERY_HOT_C:
        return Tone.BAD
    return Tone.WARN if degrees >= _HOT_C else Tone.PLAIN


def _degrees(value: float) -> str:
    mark = "!!" if value >= _VERY_HOT_C else "!" if value >= _HOT_C else ""
    return f"{value:.0f}C{mark:<2}"


def _watts(value: float) -> str:
    return f"{value:,.0f}W"


def _node_text(node: Node, context: Context) -> str:
    role = "head" if node.head else ""
    where = f"{context.node(node.id)} {node.hostname} {node.address}"
    return f"{where} {node_state(node)} {role} {node.id} {node_labels(node)}"


def _living(get: Callable[[Node], float | None]) -> Callable[[Node], float | None]:
    """What a node measured last, unless it is dead."""
    return lambda node: get(node) if node.alive else None


def _memory_words(node: Node, _: Context) -> str:
    return words.used_of(node.measures.memory_used, node.measures.memory_total) if node.alive else "-"


NODES: Listing[Node] = Listing(
    "nodes",
    (
        text_column("NODE", lambda node, context: context.node(node.id), 12, 32),
        text_column("STATE", lambda node, _: node_state(node), 5, tone=node_tone),
        text_column("ROLE", lambda node, _: "head" if node.head else "", 4, priority=5, tone=Tone.ACCENT),
        share_column("CPU", _living(lambda node: node.measures.cpu), 1),
        share_column("MEM", _living(memory_share), 1),
        text_column("MEMORY", _memory_words, 10, priority=7),
        number_column("GPUS", _living(lambda node: len(node.measures.gpus) or None), words.number, 4, 4),
        share_column("GPU", _living(gpu_share), 1),
        share_column("GPU MEM", _living(gpu_memory_share), 1, least=7),
        number_column("TEMP", _living(hottest), _degrees, 6, 3, tone=_temperature_tone, after=2),
        number_column("POWER", _living(power), _watts, 7, 6),
        share_column("STORE", _living(store_share), 4, most=6),
        share_column("DISK", _living(disk_share), 6, most=6),
        number_column("RECV", _living(lambda node: node.measures.received), words.rate, 7, 8),
        number_column("SENT", _living(lambda node: node.measures.sent), words.rate, 7, 8),
        number_column("READ", _living(lambda node: node.measures.disk_read), words.rate, 7, 9),
        number_column("WRITE", _living(lambda node: node.measures.disk_write), words.rate, 7, 9),
        number_column("LOAD", _living(lambda node: node.measures.load), lambda load: f"{load:.1f}", 5, 9),
        time_column("UP", lambda node, context: _since(node.started_at, node.ended_at, context), words.duration, 7),
        text_column("ADDRESS", lambda node, _: node.address, 15, priority=6),
        text_column("NOTE", lambda node, _: _note(node), 22, 80, 2, tone=node_tone),
        text_column("LABELS", lambda node, _: node_labels(node), 12, 60, 9, tone=Tone.DIM),
        text_column("ID", lambda node, _: node.id, 8, priority=10, tone=Tone.DIM),
    ),
    lambda node: node.id,
    _node_text,
    "No node has been seen yet.",
)


def node_rows(nodes: Sequence[Node]) -> list[Node]:
    """The head first, then who is alive, then the dead, the latest first."""
    return sorted(nodes, key=lambda node: (not node.head, 0.0) if node.alive else (2, -(node.ended_at or 0.0)))


def _since(start: float | None, end: float | None, context: Context) -> float | None:
    """How long it lasted, or lasts."""
    if start is None:
        return None
    return max(0.0, (context.now if end is None else end) - start)


def _age(start: float | None, context: Context) -> float | None:
    return None if start is None else max(0.0, context.now - start)


# Jobs and runs


def _kind(work: Work) -> str:
    if isinstance(work, Job):
        return "job" if work.submitted else "driver"
    return "run" if isinstance(work, AirRun) else "train"


def run_over(run: Run) -> bool:
    return run.ended_at is not None


def _what(work: Work) -> str:
    """What it is, in words."""
    if isinstance(work, Job):
        return work.entrypoint
    if isinstance(work, AirRun):
        parts = (
            work.experiment,
            work.phase if work.phase.casefold() != work.state.casefold() else "",
            work.compute,
            work.where,
            work.slurm,
        )
        return "  ".join(part for part in parts if part)
    workers = words.count(work.workers, "worker") if work.workers is not None else ""
    return "  ".join(part for part in (work.name, workers, work.detail) if part)


def work_key(work: Work) -> str:
    """A job and a run may have the same id."""
    return f"{_kind(work)} {work.id}"


def is_over(work: Work) -> bool:
    return work.over if isinstance(work, Job) else run_over(work)


def work_rows(snapshot: Snapshot) -> list[Work]:
    """Jobs and runs, those that go on first, the latest first."""
    rows: list[Work] = [*snapshot.runs.data, *snapshot.jobs.data, *snapshot.train.data]
    return sorted(rows, key=lambda work: (is_over(work), -(work.started_at or 0.0)))


WORK: Listing[Work] = Listing(
    "jobs and runs",
    (
        text_column("KIND", lambda work, _: _kind(work), 6, priority=3, tone=Tone.DIM),
        text_column("ID", lambda work, _: work.id, 14, 32),
        text_column("STATE", lambda work, _: work.state, 9, 12, tone=lambda work: state_tone(work.state)),
        time_column("STARTED", lambda work, context: _age(work.started_at, context), words.ago, 4),
        time_column("LASTED", lambda work, context: _since(work.started_at, work.ended_at, context), words.duration, 1),
        text_column("WHAT", lambda work, _: _what(work), 16, 120, 1),
    ),
    work_key,
    lambda work, _: f"{_kind(work)} {work.id} {work.state} {_what(work)}",
    "No job runs, and none has run.",
)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _job_text(job: Job, context: Context) -> str:
    facts = " ".join(f"{name}={value}" for name, value in job.metadata.items())
    return f"{job.id} {job.driver_id or ''} {job.state} {job.entrypoint} {context.node(job.node_id)} {facts}"


JOBS: Listing[Job] = Listing(
    "jobs",
    (
        text_column("JOB", lambda job, _: job.id, 16, 32),
        text_column("STATE", lambda job, _: job.state, 9, 12, tone=lambda job: state_tone(job.state)),
        time_column("STARTED", lambda job, context: _age(job.started_at, context), words.ago, 3),
        time_column("LASTED", lambda job, context: _since(job.started_at, job.ended_at, context), words.duration, 1),
        text_column("KIND", lambda job, _: _kind(job), 6, priority=6, tone=Tone.DIM),
        text_column("ENTRYPOINT", lambda job, _: job.entrypoint, 16, 90, 1),
        text_column("NODE", lambda job, context: context.node(job.node_id), 8, 20, 4),
        number_column("PID", lambda job: job.pid, lambda pid: f"{pid:.0f}", 7, 7, falling=False),
        text_column("RAY ID", lambda job, _: job.driver_id or "", 8, priority=8, tone=Tone.DIM),
        text_column("MESSAGE", lambda job, _: _first_line(job.message), 16, 70, 5, tone=Tone.DIM),
    ),
    lambda job: job.id,
    _job_text,
    "No job runs, and none has run. air ray job submit -- COMMAND starts one.",
)


def _air(work: Run, get: Callable[[AirRun], str | None]) -> str:
    return (get(work) or "") if isinstance(work, AirRun) else ""


RUNS: Listing[Run] = Listing(
    "runs",
    (
        text_column("RUN", lambda run, _: run.id, 12, 32),
        text_column("KIND", lambda run, _: "Airlane" if isinstance(run, AirRun) else "Train", 7, priority=4),
        text_column("STATE", lambda run, _: run.state, 9, 12, tone=lambda run: state_tone(run.state)),
        time_column("STARTED", lambda run, context: _age(run.started_at, context), words.ago, 3),
        time_column("LASTED", lambda run, context: _since(run.started_at, run.ended_at, context), words.duration, 1),
        text_column("NAME", lambda run, _: run.experiment if isinstance(run, AirRun) else run.name, 12, 40, 1),
        text_column("PHASE", lambda run, _: run.phase if isinstance(run, AirRun) else run.detail or "", 10, 40, 5),
        text_column("COMPUTE", lambda run, _: run_compute(run), 10, 24, 4),
        text_column("WHERE", lambda run, _: _air(run, lambda air: air.where), 8, 24, 3),
        text_column("SLURM", lambda run, _: _air(run, lambda air: air.slurm), 12, 48, 4),
    ),
    work_key,
    lambda run, _: f"{run.id} {run.state} {_what(run)}",
    "No run is known on this machine.",
)


def run_compute(run: Run) -> str:
    if isinstance(run, AirRun):
        return run.compute
    return words.count(run.workers, "worker") if run.workers is not None else ""


# Actors

PENDING_STATES = ("PENDING_CREATION", "DEPENDENCIES_UNREADY")


def pending(actor: Actor) -> bool:
    return actor.state in PENDING_STATES


def _in_states(*states: str) -> Callable[[ActorClass], float]:
    return lambda row: sum(row.states.get(state, 0) for state in states)


def _count_column(title: str, states: tuple[str, ...], priority: int, tone: Tone) -> Column[ActorClass]:
    return number_column(
        title,
        _in_states(*states),
        lambda amount: f"{amount:,.0f}",
        9,
        priority,
        tone=lambda amount: tone if amount else Tone.DIM,
    )


CLASSES: Listing[ActorClass] = Listing(
    "actor classes",
    (
        text_column("CLASS", lambda row, _: row.name, 16, 60),
        number_column("TOTAL", lambda row: row.total, lambda amount: f"{amount:,.0f}", 9, 2),
        _count_column("ALIVE", ("ALIVE",), 0, Tone.GOOD),
        _count_column("PENDING", PENDING_STATES, 0, Tone.WARN),
        _count_column("RESTART", ("RESTARTING",), 1, Tone.WARN),
        _count_column("DEAD", ("DEAD",), 0, Tone.PLAIN),
    ),
    lambda row: row.name,
    lambda row, _: row.name,
    "No actor has been created.",
)


def _actor_text(actor: Actor, context: Context) -> str:
    why = actor.why or ""
    return f"{actor.class_name} {actor.name} {actor.state} {context.node(actor.node_id)} {actor.pid} {actor.id} {why}"


ACTORS: Listing[Actor] = Listing(
    "actors",
    (
        text_column("CLASS", lambda actor, _: actor.class_name, 12, 32),
        text_column("NAME", lambda actor, _: actor.name, 8, 24, 5),
        text_column("STATE", lambda actor, _: _actor_state(actor), 10, 12, tone=lambda actor: state_tone(actor.state)),
        text_column("NODE", lambda actor, context: context.node(actor.node_id), 8, 20, 1),
        number_column("PID", lambda actor: actor.pid, lambda pid: f"{pid:.0f}", 7, 2, falling=False),
        number_column("RESTARTS", lambda actor: actor.restarts, words.number, 8, 6),
        text_column("HAS", lambda actor, _: words.resources(actor.resources) if actor.resources else "", 12, 28, 4),
        text_column("WHY", lambda actor, _: actor.why or "", 24, 80, 1, tone=Tone.WARN),
        text_column("JOB", lambda actor, _: actor.job_id or "", 8, priority=7, tone=Tone.DIM),
        text_column("ID", lambda actor, _: actor.id, 8, 32, priority=8, tone=Tone.DIM),
    ),
    lambda actor: actor.id,
    _actor_text,
    "No actor is alive, and none waits.",
)


def _actor_state(actor: Actor) -> str:
    """Ray's word, where it is long in a shorter one."""
    return {"PENDING_CREATION": "PENDING", "DEPENDENCIES_UNREADY": "WAITING"}.get(actor.state, actor.state)


def actor_rows(actors: tuple[Actor, ...]) -> list[Actor]:
    """Those that wait first."""
    waiting = [actor for actor in actors if actor.state != "ALIVE"]
    return [*waiting, *(actor for actor in actors if actor.state == "ALIVE")] if waiting else list(actors)


# Placement groups


def _placed(group: Group) -> str:
    return f"{sum(bundle.node_id is not None for bundle in group.bundles)}/{len(group.bundles)}"


def group_resources(group: Group) -> dict[str, float]:
    """What it sets aside in all."""
    total: dict[str, float] = {}
    for bundle in group.bundles:
        for name, amount in bundle.resources.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _group_nodes(group: Group, context: Context) -> str:
    return ", ".join(dict.fromkeys(context.node(bundle.node_id) for bundle in group.bundles if bundle.node_id))


GROUPS: Listing[Group] = Listing(
    "placement groups",
    (
        text_column("GROUP", lambda group, _: group.name or group.id[:12], 12, 32),
        text_column("STATE", lambda group, _: group.state, 9, 12, tone=lambda group: state_tone(group.state)),
        text_column("STRATEGY", lambda group, _: group.strategy or "", 8, 13, 4),
        text_column("PLACED", lambda group, _: _placed(group), 6, priority=1),
        text_column("ASKS FOR", lambda group, _: words.resources(group_resources(group)), 12, 36, 2),
        time_column("SINCE", lambda group, context: _age(group.asked_at, context), words.ago, 5),
        text_column("NODES", _group_nodes, 10, 40, 3),
        text_column("WHY", lambda group, _: group.why or "", 24, 80, 1, tone=Tone.WARN),
        text_column("JOB", lambda group, _: group.job_id or "", 8, priority=6, tone=Tone.DIM),
        text_column("ID", lambda group, _: group.id, 8, 36, priority=7, tone=Tone.DIM),
    ),
    lambda group: group.id,
    lambda group, context: f"{group.name} {group.id} {group.state} {group.strategy} {_group_nodes(group, context)}",
    "There is no placement group.",
)

BUNDLES: Listing[Bundle] = Listing(
    "bundles",
    (
        number_column("BUNDLE", lambda bundle: bundle.index, words.number, 6, falling=False),
        text_column("NODE", lambda bundle, context: context.node(bundle.node_id) or "not placed", 12, 40),
        text_column("ASKS FOR", lambda bundle, _: words.resources(bundle.resources), 16, 80, 1),
    ),
    lambda bundle: str(bundle.index),
    lambda bundle, context: f"{bundle.index} {context.node(bundle.node_id)} {words.resources(bundle.resources)}",
    "It has no bundles.",
)

# Inside a node


def _core_percent(value: float) -> str:
    return f"{value:.0f}%"


PROCESSES: Listing[Process] = Listing(
    "processes",
    (
        number_column("PID", lambda process: process.pid, lambda pid: f"{pid:.0f}", 7, falling=False),
        text_column("WHAT", lambda process, _: process.what, 16, 48),
        number_column("CPU", lambda process: process.cpu, _core_percent, 6),
        number_column("MEM", lambda process: process.memory, words.size, 6, 1),
        number_column("GPU MEM", lambda process: process.gpu_memory, words.size, 7, 2),
        text_column("JOB", lambda process, _: process.job_id or "", 8, priority=3, tone=Tone.DIM),
        text_column("ACTOR", lambda process, _: process.actor_id or "", 8, 32, 4, tone=Tone.DIM),
    ),
    lambda process: str(process.pid),
    lambda process, _: f"{process.pid} {process.what} {process.job_id} {process.actor_id}",
    "No worker runs on it.",
)


def _gpu_processes(gpu: Gpu) -> Cell:
    if not gpu.processes:
        return Cell("-", Tone.DIM)
    each = (f"{one.pid}" + (f" {words.size(one.memory)}" if one.memory else "") for one in gpu.processes)
    return Cell(", ".join(each))


GPUS: Listing[Gpu] = Listing(
    "GPUs",
    (
        number_column("GPU", lambda gpu: gpu.index, words.number, 3, falling=False),
        text_column("NAME", lambda gpu, _: gpu.name.removeprefix("NVIDIA "), 10, 28, 3),
        share_column("USED", lambda gpu: gpu.utilization, most=26),
        share_column("MEM", lambda gpu: words.share(gpu.memory_used, gpu.memory_total), most=26),
        text_column("MEMORY", lambda gpu, _: words.used_of(gpu.memory_used, gpu.memory_total), 10, priority=2),
        number_column("TEMP", lambda gpu: gpu.temperature_c, _degrees, 6, 1, tone=_temperature_tone, after=2),
        number_column("POWER", lambda gpu: gpu.power_w, _watts, 6, 1),
        Column("PROCESSES", lambda gpu, _: _gpu_processes(gpu), lambda gpu, _: len(gpu.processes), 14, 60, 1),
    ),
    lambda gpu: str(gpu.index),
    lambda gpu, _: f"{gpu.index} {gpu.name} {gpu.uuid}",
    "It has no GPU that tells anything.",
)
