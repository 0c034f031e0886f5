"""The lines above every screen: the cluster in all; and the line that says what is not as it should be."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from airlane.top import words
from airlane.top.history import Shares
from airlane.top.lines import LEVELS, Line, Tone, fitted, spread, width
from airlane.top.values import Demand, Load, Panel, Snapshot
from airlane.top.view import View
from airlane.top.words import Marks

LINES = 6
_LABEL = 8
_FACTS = 12
_LONGEST_BAR = 48
_SHARE = 6
_BETWEEN = 2
_TAKEN = ("CPU", "GPU")


def header_lines(view: View, cells: int) -> list[Line]:
    """Who it is, what it does, what waits: always six lines."""
    snapshot = view.snapshot
    if snapshot is None:
        return [[("The first answer is awaited.", Tone.DIM)], *([] for _ in range(LINES - 1))]
    sums, past = view.totals, view.history
    half = (cells - _BETWEEN) // 2
    memory, gpu_memory = (sums.memory_used, sums.memory_total), (sums.gpu_memory_used, sums.gpu_memory_total)
    store = (sums.store_used, sums.store_total)
    cores = words.count(sums.cores, "core") if sums.cores else ""
    gpus = words.count(sums.gpus, "GPU") if sums.gpus else "none"
    meter = functools.partial(_meter, cells=half, marks=view.marks)
    pairs = (
        (
            meter("CPU", sums.cpu, cores, past.cpu),
            meter("Memory", words.share(*memory), words.used_of(*memory), past.memory),
        ),
        (
            meter("GPU", sums.gpu, gpus, past.gpu),
            meter("GPU mem", words.share(*gpu_memory), words.used_of(*gpu_memory), past.gpu_memory),
        ),
        (
            meter("Store", words.share(*store), words.used_of(*store), past.store),
            _network(view, half),
        ),
        (_taken(snapshot.load.data, half, view.marks), _disk(view, half)),
    )
    return [
        _who(view, snapshot, cells),
        *([*left, (" " * (cells - width(left) - width(right)), Tone.PLAIN), *right] for left, right in pairs),
        _waiting(snapshot.load.data.demands, cells, view.marks),
    ]


def _who(view: View, snapshot: Snapshot, cells: int) -> Line:
    sums, marks = view.totals, view.marks
    line: Line = [(words.clean(snapshot.cluster, marks), Tone.TITLE)]
    if snapshot.ray_version:
        line.append((f"  Ray {words.clean(snapshot.ray_version, marks)}", Tone.DIM))
    facts: Line = [(words.count(sums.alive, "node"), Tone.STRONG)]
    if sums.dead:
        facts += [(f" {marks.dot} ", Tone.DIM), (f"{sums.dead:,} dead", Tone.BAD)]
    if sums.stale:
        facts += [(f" {marks.dot} ", Tone.DIM), (f"{sums.stale:,} stale", Tone.WARN)]
    if sums.up_since is not None:
        facts += [(f"  up {words.duration(view.now - sums.up_since)}", Tone.DIM)]
    return spread(line, facts, cells, marks)


def _label(text: str) -> Line:
    return [(f"{text:<{_LABEL}}", Tone.DIM)]


def _meter(label: str, percent: float | None, facts: str, past: Shares, *, cells: int, marks: Marks) -> Line:
    """A bar, its number, what it is of, and how it was."""
    said = words.percent_words(percent)
    tone = LEVELS[words.level(percent)]
    number_tone = Tone.DIM if percent is None else tone if words.level(percent) else Tone.STRONG
    room = cells - _LABEL - _SHARE - _FACTS - 2
    if room < _SHARE:
        return fitted(
            [*_label(label), (said, number_tone), (words.fit(facts, _FACTS, marks), Tone.PLAIN)], cells, marks
        )
    bar_cells = min(_LONGEST_BAR, (room + 1) // 2)
    filled, rest = words.bar(percent, bar_cells, marks)
    line = _label(label) if percent is not None or facts else [(f"{label:<{_LABEL}}", Tone.TRACK)]
    line += [(filled, tone), (rest, Tone.TRACK), (said, number_tone), (" ", Tone.PLAIN)]
    line += [(words.fit(facts, _FACTS, marks), Tone.PLAIN), (" ", Tone.PLAIN)]
    return [*line, (words.spark(past.values(), room - bar_cells, marks), Tone.PAST)]


def _network(view: View, cells: int) -> Line:
    """What comes in and goes out, and both together in the last minutes."""
    line: Line = [*_label("Network")]
    for word, rate in (("in", view.totals.received), ("out", view.totals.sent)):
        line += [(f"{word} ", Tone.DIM), (f"{words.rate(rate):<{_FACTS - len(word) - 1}}", Tone.PLAIN)]
    room = cells - width(line) - 1
    if room <= 0:
        return fitted(line, cells, view.marks)
    past = list(view.history.traffic)[-room:]
    most = max((rate for rate in past if rate is not None), default=0.0)
    return [*line, (" ", Tone.PLAIN), (words.spark(past, room, view.marks, most * 1.01), Tone.PAST)]


def _disk(view: View, cells: int) -> Line:
    sums = view.totals
    line: Line = [
        *_label("Disk"),
        ("read ", Tone.DIM),
        (f"{words.rate(sums.disk_read)}  ", Tone.PLAIN),
        ("write ", Tone.DIM),
        (words.rate(sums.disk_write), Tone.PLAIN),
    ]
    line = fitted(line, cells, view.marks)
    return [*line, (" " * (cells - width(line)), Tone.PLAIN)]


def _taken(load: Load, cells: int, marks: Marks) -> Line:
    """What the scheduler has given away: not what is really used."""
    line = _label("Taken")
    uses = sorted(load.use, key=lambda use: (use.resource not in _TAKEN, use.resource))
    for use in uses:
        if "memory" in use.resource.lower():
            continue
        separator = "  " if len(line) > 1 else ""
        amounts = f"{separator}{words.number(use.used)}/{words.number(use.total)} "
        line += [(amounts, Tone.PLAIN), (words.clean(use.resource, marks), Tone.DIM)]
    return fitted(line if len(line) > 1 else [*line, ("-", Tone.DIM)], cells, marks)


def _waiting(demands: Sequence[Demand], cells: int, marks: Marks) -> Line:
    """What the scheduler could not give yet."""
    if not demands:
        return fitted([*_label("Waiting"), ("nothing waits for resources", Tone.DIM)], cells, marks)
    times = "x" if marks.ascii else "×"
    line: Line = [*_label("Waiting")]
    for index, demand in enumerate(sorted(demands, key=lambda one: -one.count)):
        line.append((", " if index else "", Tone.DIM))
        line.append((f"{demand.count:,} {times} {words.clean(words.resources(demand.shape), marks)}", Tone.WARN))
        if demand.group:
            line.append((" (placement group)", Tone.DIM))
    return fitted(line, cells, marks)


def status_line(view: View, cells: int) -> Line:
    """What is asked how often; and first whatever keeps the screen from being true."""
    snapshot, marks = view.snapshot, view.marks
    if view.notice is not None:
        return fitted([(words.clean(view.notice, marks), Tone.ACCENT)], cells, marks)
    line: Line = [("paused  ", Tone.WARN)] if view.paused else []
    if snapshot is None:
        waited = words.duration(view.now - view.asked_at) if view.asked_at is not None else "0s"
        return [*line, (f"asked {waited} ago, no answer yet", Tone.DIM)]
    if not snapshot.answers:
        return fitted([*line, *_silence(view, snapshot)], cells, marks)
    troubles = _troubles(view, snapshot)
    if troubles:
        told: Line = [*line, ("! ", Tone.BAD), *troubles]
        return told if width(told) <= cells else fitted([*line, *_names(view, snapshot)], cells, marks)
    return fitted([*line, (f"asked every {words.number(view.interval_s)}s", Tone.DIM), *_cuts(snapshot)], cells, marks)


def _silence(view: View, snapshot: Snapshot) -> Line:
    """The head itself is away."""
    last = max((panel.at for panel in snapshot.panels.values() if panel.at is not None), default=None)
    why = f": {words.clean(snapshot.trouble, view.marks)}" if snapshot.trouble else ""
    if last is None:
        return [("! The head does not answer", Tone.BAD), (why, Tone.PLAIN)]
    since = words.duration(view.now - last)
    return [(f"! The head does not answer since {since}, this is what was there", Tone.BAD), (why, Tone.PLAIN)]


def _troubles(view: View, snapshot: Snapshot) -> Line:
    line: Line = []
    for name, panel in snapshot.panels.items():
        words_of = trouble_words(view, panel)
        if words_of is not None:
            line += [(f" {view.marks.dot} " if line else "", Tone.DIM), (name, Tone.BAD), (f" {words_of}", Tone.PLAIN)]
    return line


def _names(view: View, snapshot: Snapshot) -> Line:
    """Only what fails, where there is no room for how; that stands above each list."""
    names = [name for name, panel in snapshot.panels.items() if trouble_words(view, panel) is not None]
    return [("! no new ", Tone.BAD), (", ".join(names), Tone.BAD)]


def trouble_words(view: View, panel: Panel[object]) -> str | None:
    """What is wrong with what is shown of it: it was not answered, or is old."""
    old = view.old_s(panel)
    age = f"{words.duration(old)} old" if old is not None else ""
    if panel.trouble is None:
        return age or None
    return words.clean(panel.trouble, view.marks) + (f" ({age})" if age else "")


def _cuts(snapshot: Snapshot) -> Line:
    """Lists that are longer than Ray tells."""
    cuts = [f"{panel.cut:,} more {name}" for name, panel in snapshot.panels.items() if panel.cut]
    return [(f"  Ray told only a part: {', '.join(cuts)}", Tone.WARN)] if cuts else []
