"""One node, job, run, actor or placement group, with everything that is known of it: lines of any number."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence

from airlane.top import columns, words
from airlane.top.header import trouble_words
from airlane.top.history import NodeHistory
from airlane.top.lines import LEVELS, Line, Tone, fitted, width
from airlane.top.listing import Listing, Row, lines_of
from airlane.top.nodes import (
    disk_share,
    gpu_memory,
    gpu_share,
    hottest,
    memory_share,
    node_labels,
    node_state,
    power,
    store_share,
)
from airlane.top.values import Actor, AirRun, Gpu, Group, Job, Node, NodeDetail, Panel, Process, Snapshot, TrainRun
from airlane.top.view import View

_LABEL = 12
_BAR = 24
_MOST_WORDS = 40
_FACTS_CELLS = 11


def _fact(label: str, text: str | None, cells: int, view: View, tone: Tone = Tone.PLAIN) -> list[Line]:
    """A label and what it says, on as many lines as that takes; nothing where it says nothing."""
    if not text:
        return []
    said = [
        piece for part in text.splitlines() for piece in words.wrapped(words.clean(part, view.marks), cells - _LABEL)
    ]
    lines: list[Line] = [[(f"{label:<{_LABEL}}", Tone.DIM), (said[0] if said else "", tone)]]
    return [*lines, *([(" " * _LABEL, Tone.PLAIN), (piece, tone)] for piece in said[1:_MOST_WORDS])]


def _when(at: float | None, view: View) -> str | None:
    """A time of day, and how long ago that was."""
    if at is None:
        return None
    try:
        day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):  # no time that a calendar has
        return None
    return f"{day} ({words.ago(max(0.0, view.now - at))})"


def _section(name: str, amount: int | None, cells: int, view: View, said: str | None = None) -> Line:
    line: Line = [(f"{view.marks.rule} ", Tone.TRACK), (f"{name} ", Tone.STRONG)]
    if amount is not None:
        line.append((f"{amount:,} ", Tone.DIM))
    if said:
        line.append((f"{words.clean(said, view.marks)} ", Tone.WARN))
    return _ruled(line, cells, view)


def _ruled(line: Line, cells: int, view: View) -> Line:
    line = fitted(line, cells, view.marks)
    return [*line, (view.marks.rule * (cells - width(line)), Tone.TRACK)]


def _rows(
    listing: Listing[Row], rows: Sequence[Row], cells: int, view: View, *, said: str | None = None
) -> Iterable[Line]:
    yield []
    yield _section(listing.name, len(rows), cells, view, said)
    yield from lines_of(listing, rows, view.context, cells)


def gone(what: str) -> list[Line]:
    return [[(f"{what} is not among those that Ray tells of any more. Esc goes back.", Tone.WARN)]]


# A node


def node_page(view: View, node_id: str, detail: Panel[NodeDetail] | None, cells: int) -> list[Line]:
    """What it is, what it does and did, its GPUs and what runs on it."""
    snapshot = view.snapshot
    node = None if snapshot is None else next((one for one in snapshot.nodes.data if one.id == node_id), None)
    if node is None:
        return gone(f"Node {node_id[:8]}")
    past = view.history.nodes.get(node_id) or NodeHistory()
    lines = [*_node_facts(view, node, cells), [], *_node_meters(view, node, past, cells)]
    if node.measures.gpus:
        lines += _rows(columns.GPUS, node.measures.gpus, cells, view)
        lines += _gpu_past(node.measures.gpus, past, cells, view)
    if detail is None:
        return [*lines, [], [("Its processes are asked for.", Tone.DIM)]]
    said = trouble_words(view, detail)
    lines += _rows(columns.PROCESSES, _busiest(detail.data.processes), cells, view, said=said)
    if detail.data.actors:
        lines += _rows(columns.ACTORS, columns.actor_rows(detail.data.actors), cells, view, said=said)
    return lines


def _busiest(processes: Sequence[Process]) -> list[Process]:
    return sorted(processes, key=lambda process: (-(process.gpu_memory or 0), -(process.cpu or 0.0)))


def _node_facts(view: View, node: Node, cells: int) -> list[Line]:
    role = "head  " if node.head else ""
    where = "  ".join(dict.fromkeys(part for part in (node.hostname, node.address) if part))
    stale = "alive to the head, but its measures stand still: it hangs, or is cut off" if node.stale else None
    up = words.duration((node.ended_at or view.now) - node.started_at) if node.started_at else None
    title: Line = [
        (f"{view.marks.rule} ", Tone.TRACK),
        (words.clean(view.context.node(node.id), view.marks), Tone.TITLE),
        (f"  {role}", Tone.ACCENT),
        (words.clean(node_state(node), view.marks), columns.node_tone(node)),
        (f"  {words.clean(where, view.marks)} ", Tone.PLAIN),
        (f" up {up} " if up and node.alive else "", Tone.DIM),
    ]
    return [
        _ruled(title, cells, view),
        *_fact("why", node.why if not node.alive else stale, cells, view, columns.node_tone(node)),
        *_fact("ended", _when(node.ended_at, view), cells, view),
        *_fact("has", words.resources(node.resources) if node.resources else None, cells, view),
        *_fact("labels", node_labels(node), cells, view),
        *_fact("node id", node.id, cells, view, Tone.DIM),
    ]


def _node_meters(view: View, node: Node, past: NodeHistory, cells: int) -> Iterable[Line]:
    measures = node.measures
    meter = functools.partial(_meter, cells=cells, view=view)
    cores = words.count(measures.cores, "core") if measures.cores else ""
    memory = words.used_of(measures.memory_used, measures.memory_total)
    yield meter("CPU", measures.cpu, cores, past.cpu)
    yield meter("memory", memory_share(node), memory, past.memory)
    if measures.gpus:
        on_gpus = gpu_memory(node) or (None, None)
        heat, watts = hottest(node), power(node)
        facts = "".join((f"{heat:.0f}C " if heat is not None else "", f"{watts:,.0f}W" if watts is not None else ""))
        yield meter("GPUs", gpu_share(node), facts, past.gpu)
        yield meter("GPU memory", words.share(*on_gpus), words.used_of(*on_gpus), past.gpu_memory)
    yield meter("store", store_share(node), words.used_of(measures.store_used, measures.store_total), None)
    yield meter("disk", disk_share(node), words.used_of(measures.disk_used, measures.disk_total), None)
    yield [
        (f"{'traffic':<{_LABEL}}", Tone.DIM),
        (f"load {measures.load:.1f}  " if measures.load is not None else "", Tone.PLAIN),
        (f"in {words.rate(measures.received)}  out {words.rate(measures.sent)}", Tone.PLAIN),
        (f"  disk read {words.rate(measures.disk_read)}  write {words.rate(measures.disk_write)}", Tone.PLAIN),
    ]


def _meter(
    label: str, percent: float | None, facts: str, past: list[float | None] | None, *, cells: int, view: View
) -> Line:
    """A bar, its number, what it is of, and how it was in the last minutes."""
    tone = LEVELS[words.level(percent)]
    filled, rest = words.bar(percent, _BAR, view.marks)
    line: Line = [(f"{label:<{_LABEL}}", Tone.DIM), (filled, tone), (rest, Tone.TRACK)]
    line.append((words.percent_words(percent), tone if words.level(percent) else Tone.STRONG))
    line.append((f" {words.fit(facts, _FACTS_CELLS, view.marks)} ", Tone.PLAIN))
    room = min(cells - width(line), 120)
    if past is not None and room > 0:
        line.append((words.spark(past, room, view.marks).lstrip(), Tone.PAST))
    return fitted(line, cells, view.marks)


def _gpu_past(gpus: Sequence[Gpu], past: NodeHistory, cells: int, view: View) -> Iterable[Line]:
    """How busy each GPU was: as many beside each other as there is room for."""
    each = max(20, min(60, (cells - 2) // max(1, min(4, len(past.gpus)))))
    lines: list[Line] = []
    for number, shares in enumerate(past.gpus):
        if number % max(1, cells // each) == 0:
            lines.append([])
        label = f"{gpus[number].index if number < len(gpus) else number:>3} "
        lines[-1] += [
            (label, Tone.DIM),
            (words.spark(shares, each - 6, view.marks), Tone.PAST),
            ("  ", Tone.PLAIN),
        ]
    if lines:
        yield [("how busy they were", Tone.DIM)]
        yield from lines


# Jobs and runs


def work_page(view: View, key: str, cells: int) -> list[Line]:
    """A job or a run, by the key of its row."""
    snapshot = view.snapshot
    rows = [] if snapshot is None else columns.work_rows(snapshot)
    work = next((row for row in rows if columns.work_key(row) == key), None)
    if work is None or snapshot is None:
        return gone(key.capitalize())
    if isinstance(work, Job):
        return _job_page(view, snapshot, work, cells)
    return _air_page(view, work, cells) if isinstance(work, AirRun) else _train_page(view, work, cells)


def _lasted(view: View, start: float | None, end: float | None) -> str | None:
    return None if start is None else words.duration((view.now if end is None else end) - start)


def _title(view: View, cells: int, name: str, state: str, what: str) -> Line:
    line: Line = [
        (f"{view.marks.rule} ", Tone.TRACK),
        (words.clean(name, view.marks), Tone.TITLE),
        ("  ", Tone.PLAIN),
        (f"{words.clean(state, view.marks)} ", columns.state_tone(state)),
        (f" {words.clean(what, view.marks)} " if what else "", Tone.DIM),
    ]
    return _ruled(line, cells, view)


def _job_page(view: View, snapshot: Snapshot, job: Job, cells: int) -> list[Line]:
    facts = "\n".join(f"{name}={value}" for name, value in job.metadata.items())
    driver = "  ".join(
        part for part in (view.context.node(job.node_id), f"pid {job.pid}" if job.pid is not None else "") if part
    )
    lines = [
        _title(view, cells, job.id, job.state, "" if job.submitted else "a driver that was started without a job"),
        *_fact("command", job.entrypoint, cells, view),
        *_fact("started", _when(job.started_at, view), cells, view),
        *_fact("ended", _when(job.ended_at, view), cells, view),
        *_fact("lasted", _lasted(view, job.started_at, job.ended_at), cells, view),
        *_fact("driver", driver, cells, view),
        *_fact("Ray's id", job.driver_id, cells, view, Tone.DIM),
        *_fact("metadata", facts, cells, view),
        *_fact("message", job.message, cells, view, Tone.WARN if job.state == "FAILED" else Tone.PLAIN),
    ]
    actors = [actor for actor in snapshot.actors.data.living if job.driver_id and actor.job_id == job.driver_id]
    groups = [group for group in snapshot.groups.data if job.driver_id and group.job_id == job.driver_id]
    if groups:
        lines += _rows(columns.GROUPS, groups, cells, view, said=trouble_words(view, snapshot.groups))
    if actors:
        lines += _rows(columns.ACTORS, columns.actor_rows(tuple(actors)), cells, view)
    return lines


def _air_page(view: View, run: AirRun, cells: int) -> list[Line]:
    return [
        _title(view, cells, run.id, run.state, "a run of Airlane's" + (" on this cluster" if run.here else "")),
        *_fact("experiment", run.experiment, cells, view),
        *_fact("phase", run.phase, cells, view),
        *_fact("started", _when(run.started_at, view), cells, view),
        *_fact("ended", _when(run.ended_at, view), cells, view),
        *_fact("lasted", _lasted(view, run.started_at, run.ended_at), cells, view),
        *_fact("compute", run.compute, cells, view),
        *_fact("where", run.where, cells, view),
        *_fact("Slurm", run.slurm, cells, view),
        *_fact("more", f"air get run {run.id}\nair logs {run.id}", cells, view, Tone.ACCENT),
    ]


def _train_page(view: View, run: TrainRun, cells: int) -> list[Line]:
    return [
        _title(view, cells, run.name or run.id, run.state, "a run of Ray Train"),
        *_fact("detail", run.detail, cells, view),
        *_fact("started", _when(run.started_at, view), cells, view),
        *_fact("ended", _when(run.ended_at, view), cells, view),
        *_fact("lasted", _lasted(view, run.started_at, run.ended_at), cells, view),
        *_fact("workers", None if run.workers is None else f"{run.workers:,}", cells, view),
        *_fact("job", run.job_id, cells, view),
        *_fact("id", run.id, cells, view, Tone.DIM),
    ]


# Actors and placement groups


def actor_page(view: View, actor_id: str, cells: int) -> list[Line]:
    snapshot = view.snapshot
    living: Sequence[Actor] = () if snapshot is None else snapshot.actors.data.living
    actor = next((one for one in living if one.id == actor_id), None)
    if actor is None:
        return gone(f"Actor {actor_id[:8]}")
    return [
        _title(view, cells, actor.class_name, actor.state, actor.name),
        *_fact("why", actor.why, cells, view, Tone.WARN),
        *_fact("node", view.context.node(actor.node_id), cells, view),
        *_fact("pid", None if actor.pid is None else str(actor.pid), cells, view),
        *_fact("has", words.resources(actor.resources) if actor.resources else None, cells, view),
        *_fact("restarts", f"{actor.restarts:,}", cells, view),
        *_fact("job", actor.job_id, cells, view),
        *_fact("group", actor.group_id, cells, view),
        *_fact("actor id", actor.id, cells, view, Tone.DIM),
    ]


def group_page(view: View, group_id: str, cells: int) -> list[Line]:
    snapshot = view.snapshot
    groups: Sequence[Group] = () if snapshot is None else snapshot.groups.data
    group = next((one for one in groups if one.id == group_id), None)
    if group is None:
        return gone(f"Placement group {group_id[:8]}")
    return [
        _title(view, cells, group.name or "placement group", group.state, group.strategy or ""),
        *_fact("why", group.why, cells, view, Tone.WARN),
        *_fact("asked", _when(group.asked_at, view), cells, view),
        *_fact("asks for", words.resources(columns.group_resources(group)), cells, view),
        *_fact("job", group.job_id, cells, view),
        *_fact("group id", group.id, cells, view, Tone.DIM),
        *_rows(columns.BUNDLES, group.bundles, cells, view),
    ]


HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "where",
        (
            ("1 to 5", "overview, jobs, nodes, actors, placement groups"),
            ("Tab, Shift-Tab", "the next list, and the one before"),
            ("Enter", "everything about a row; on a class: its actors"),
            ("Esc", "back; in a list: show all rows again"),
        ),
    ),
    (
        "in a list",
        (
            ("j k, arrows", "one row down, up"),
            ("PgDn PgUp, Space", "one screen"),
            ("g G, Home End", "first row, last row"),
            ("/", "only rows with these words, as you type"),
            ("s, S", "sort by the next column; the other way round"),
            ("mouse", "a row, twice to open it; a heading to sort; the wheel"),
        ),
    ),
    ("a job", (("l", "its log, as it grows"), ("x", "stop it, after a question"))),
    (
        "the screen",
        (
            ("t", "colours: dark, light, Dracula, Nord, high contrast"),
            ("+ -", "ask more often, less often"),
            ("p", "hold it as it is; again to go on"),
            ("h ?", "this page"),
            ("q, Ctrl-C", "quit"),
        ),
    ),
    (
        "signs",
        (
            ("75%!  95%!!", "70 % and more; 90 % and more"),
            ("stale", "a node that is alive to the head, but whose measures stand still"),
            ("12s old", "the last answer, because there is no newer one"),
            ("Taken, Waiting", "what Ray's scheduler gave away, and what it could not give yet"),
        ),
    ),
)


def help_page(view: View, cells: int) -> list[Line]:
    """What the keys do, and what the signs mean."""
    lines: list[Line] = []
    label = 18
    for name, keys in HELP:
        lines += [_section(name, None, cells, view)]
        for key, what in keys:
            said = words.wrapped(what, cells - label)
            lines.append([(f"{key:<{label}}", Tone.ACCENT), (said[0], Tone.PLAIN)])
            lines += [[(" " * label, Tone.PLAIN), (piece, Tone.PLAIN)] for piece in said[1:]]
    return lines
