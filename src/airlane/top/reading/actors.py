"""Actors: how many of each class are in which state, and one by one those that are not dead.

Source: Ray 2.60, util/state: a list takes 10,000 actors from where they are kept, dead ones among them, and leaves out
the others, unless it asks for one state alone. So the living are asked for state by state, and counted exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airlane.top.fields import dig, mapping, read_json, text, texts, whole
from airlane.top.reading.resources import amount_words, asked, in_order
from airlane.top.reading.state_api import MOST, read_rows, refusal
from airlane.top.values import Actor, ActorClass, Load, Node

CLASSES = "/api/v0/actors/summarize"
DEAD = "DEAD"
_LIVING = "/api/v0/actors?detail=1&limit={most}&filter_keys=state&filter_predicates=%3D&filter_values={state}"
LIVING = tuple(
    _LIVING.format(most=MOST, state=state)
    for state in ("ALIVE", "PENDING_CREATION", "RESTARTING", "DEPENDENCIES_UNREADY")
)
_WAITS = ("PENDING_CREATION", "RESTARTING")
_READING = {
    "DEPENDENCIES_UNREADY": "waits for what it is given: other tasks have to end first",
    "PENDING_CREATION": "is being started",
    "RESTARTING": "is being started again",
}


def read_actors(body: bytes, known: dict[int, Actor] | None = None) -> tuple[list[Actor], int]:
    """Actors, and how many there are beyond those. `known` as in `read_pieces`.

    Raises:
        ValueError: this is no such answer.
    """
    found, cut = read_rows(body, _actor, known)
    return [actor for actor in found if actor.id], cut


def _actor(row: dict[str, Any]) -> Actor:
    get = row.get
    state = text(get("state"))
    return Actor(
        text(get("actor_id")),
        text(get("class_name")),
        text(get("name")),
        state,
        text(get("job_id")) or None,
        text(get("node_id")) or None,
        whole(get("pid")) or None,
        whole(get("num_restarts")) or 0,
        asked(get("required_resources")),
        text(get("placement_group_id")) or None,
        _why(state, get("label_selector")) if state != "ALIVE" else None,
    )


def _why(state: str, selector: Any) -> str | None:
    labels = texts(selector)
    if state == "PENDING_CREATION" and labels:
        return "waits for a node with " + ", ".join(f"{name} {wanted}" for name, wanted in labels.items())
    return _READING.get(state)


def read_classes(body: bytes) -> tuple[dict[str, dict[str, int]], int]:
    """How many actors of a class are in which state, and how many were not counted.

    Raises:
        ValueError: this is no such answer.
    """
    answer = read_json(body)
    counts = dig(answer, "data", "result")
    summary = dig(counts, "result", "node_id_to_summary", "cluster", "summary")
    if type(summary) is not dict:
        raise ValueError(refusal(answer) or "it has no classes")
    found = {}
    for name, row in summary.items():
        states = mapping(dig(row, "state_counts"))
        found[text(name)] = {text(state): count for state, told in states.items() if (count := whole(told))}
    left = (whole(counts.get("total")) or 0) - (whole(counts.get("num_after_truncation")) or 0)
    return found, max(0, left)


def counted(
    summary: Mapping[str, Mapping[str, int]] | None, living: Sequence[Actor] | None, *, all_living: bool
) -> tuple[ActorClass, ...]:
    """The classes, those with the most actors first. The living are counted where all of them are known."""
    found: dict[str, dict[str, int]] = {}
    for name, states in (summary or {}).items():
        kept = {state: count for state, count in states.items() if state == DEAD or living is None or not all_living}
        if kept:
            found[name] = kept
    if living is not None and (all_living or not summary):
        for actor in living:
            states_of = found.setdefault(actor.class_name, {})
            states_of[actor.state] = states_of.get(actor.state, 0) + 1
    classes = (ActorClass(name, states) for name, states in found.items())
    return tuple(sorted(classes, key=lambda one: (-one.total, one.name)))


def explained(actors: Iterable[Actor], nodes: Sequence[Node], load: Load) -> tuple[Actor, ...]:
    """The actors; where one waits for resources, it says for which."""
    alive = [node.resources for node in nodes if node.alive]
    use = {one.resource: (one.used, one.total) for one in load.use}
    told: dict[tuple[tuple[str, float], ...], str | None] = {}

    def why(actor: Actor) -> str | None:
        shape = tuple(sorted(actor.resources.items()))
        if shape not in told:
            told[shape] = shortage(actor.resources, alive, use)
        return told[shape] or actor.why

    return tuple(replace(actor, why=why(actor)) if actor.state in _WAITS and alive else actor for actor in actors)


def shortage(
    wanted: Mapping[str, float], nodes: Sequence[Mapping[str, float]], use: Mapping[str, tuple[float, float]]
) -> str | None:
    """What there is not enough of for such a request; None where nothing is known to be missing."""
    for name in in_order(wanted):
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if most < wanted[name]:
            has = f"more than {most:g}" if most else "any"
            return f"needs {amount_words(name, wanted[name])}: no node has {has}"
    if wanted and not any(all(node.get(name, 0.0) >= amount for name, amount in wanted.items()) for node in nodes):
        return f"needs {_words(wanted)} on one node: no node has all of it"
    for name in in_order(wanted):
        used, total = use.get(name, (0.0, 0.0))
        if total and total - used < wanted[name]:
            return f"waits for {amount_words(name, wanted[name])}: {max(0.0, total - used):.3g} of {total:g} free"
    return None


def _words(wanted: Mapping[str, float]) -> str:
    return " and ".join(amount_words(name, wanted[name]) for name in in_order(wanted))
