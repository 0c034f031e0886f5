"""A cluster that lives, over its head's dashboard port alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from airlane.cluster.rest import Dashboard
from airlane.errors import ConfigError, RayAnswerError, RayDeniedError, RayUnreachableError
from airlane.top import head_jobs
from airlane.top.fields import dig, read_json, text
from airlane.top.head_question import Flight, Question, trouble_words, wait_for_all
from airlane.top.reading import actors, detail, groups, jobs, load, nodes, summary, train
from airlane.top.values import Actor, ActorClass, Actors, AirRun, Load, Node, NodeDetail, Panel, Snapshot, TrainRun

__all__ = ["Head"]

T = TypeVar("T")
D = TypeVar("D")

VERSION = "/api/version"
_WITHIN_S = 30.0  # a whole answer; a large one may be slow, and one that trickles is given up
_PATIENCE_S = 2.0
_VERSION_EVERY_S = 60.0
_RUNS_EVERY_S = 10.0  # Slurm may be asked about those that wait
_SLOW_S = 5.0
_MOST_DETAILS = 32
_NOT_THERE = 404
_AWAY = (RayUnreachableError, RayDeniedError, ConfigError)


class Head:
    """Asks everything at once, each question by itself, so that none holds up another, or makes it forget anything.

    A round waits `patience_s` for what was asked in it; what comes later is in a later one. `runs` tells of Airlane's
    own runs.
    """

    def __init__(
        self,
        dashboard: Dashboard,
        *,
        cluster: str | None = None,
        runs: Callable[[], tuple[AirRun, ...]] | None = None,
        patience_s: float = _PATIENCE_S,
        within_s: float = _WITHIN_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dashboard, self._patience_s, self._within_s = dashboard, patience_s, within_s
        self._cluster = cluster or dashboard.called
        self._pulses = nodes.Pulses(now)
        self._version = Question("version", self._ask_version, every_s=_VERSION_EVERY_S)
        self._nodes = Question("nodes", self._asking(nodes.NODES, nodes.read_nodes))
        self._summary = Question("measures", self._ask_summary)
        self._load = Question("load", self._ask_load)
        self._jobs = Question("jobs", self._asking(jobs.JOBS, jobs.read_jobs))
        self._living = Question("actors", self._ask_living)
        self._classes = Question("actor classes", self._asking(actors.CLASSES, actors.read_classes))
        self._groups = Question("placement groups", self._asking(groups.GROUPS, groups.read_groups))
        self._train = Question("Train runs", self._ask_train)
        self._runs = Question("Airlane runs", runs, every_s=_RUNS_EVERY_S) if runs is not None else None
        self._of_head: tuple[Question[Any], ...] = (
            self._version,
            self._nodes,
            self._summary,
            self._load,
            self._jobs,
            self._living,
            self._classes,
            self._groups,
            self._train,
        )
        self._each_living = tuple((path, Unchanged(partial(actors.read_actors, known={}))) for path in actors.LIVING)
        self._all_living = Kept(_together)
        self._round_before = -1.0
        self._trouble: str | None = None
        self._details: dict[str, Question[NodeDetail]] = {}
        self._joined = Kept(self._join)
        self._counted = Kept(_count)

    async def snapshot(self) -> Snapshot:
        began = time.monotonic()
        asked = [*self._of_head, *([self._runs] if self._runs is not None else [])]
        flights = [flight for question in asked if (flight := question.ask()) is not None]
        await wait_for_all(flights, self._patience_s)
        # A large cluster takes a while to put together, in which keys are to be answered.
        snapshot = await Flight("air top: round", self._shown).result()
        self._round_before = began
        return snapshot

    async def node(self, node_id: str) -> Panel[NodeDetail]:
        question = self._details.get(node_id)
        if question is None:
            while len(self._details) >= _MOST_DETAILS:
                self._details.pop(next(iter(self._details)))
            path = detail.detail_path(node_id)
            question = Question("node", self._asking(path, lambda body: detail.read_detail(body, node_id)))
            self._details[node_id] = question
        flight = question.ask()
        await wait_for_all([flight] if flight is not None else [], self._patience_s)
        return self._panel(question, NodeDetail(node_id))

    async def follow_job_log(self, job_id: str, take: Callable[[str], None]) -> str | None:
        return await head_jobs.follow_log(self._dashboard, job_id, take)

    async def stop_job(self, job_id: str) -> str:
        return await Flight("air top: stop", lambda: head_jobs.stop(self._dashboard, job_id)).result()

    def close(self) -> None:
        """Let go of the connections. What is still being asked ends by itself, and holds up nobody."""
        self._dashboard.close()

    def _get(self, path: str) -> bytes:
        return self._dashboard.get(path, within_s=self._within_s)

    def _asking(self, path: str, read: Callable[[bytes], T]) -> Callable[[], T]:
        unchanged = Unchanged(read)
        return lambda: unchanged(self._get(path))

    def _ask_version(self) -> str:
        return text(dig(read_json(self._get(VERSION)), "ray_version"))

    def _ask_summary(self) -> summary.Summary:
        told = summary.read_summary(self._get(summary.SUMMARY))
        self._pulses.see(told.nodes)
        return told

    def _ask_load(self) -> Load:
        known = self._nodes.answer
        names = {name for node in known.data[0] for name in node.resources} if known is not None else ()
        return load.read_load(self._get(load.USAGE), names)

    def _ask_living(self) -> tuple[tuple[Actor, ...], int]:
        return self._all_living(*[read(self._get(path)) for path, read in self._each_living])

    def _ask_train(self) -> tuple[TrainRun, ...]:
        try:
            return train.read_train(self._get(train.TRAIN))
        except RayAnswerError as error:
            if error.status == _NOT_THERE or any(words in error.words for words in train.NONE_WORDS):
                return ()
            raise

    def _shown(self) -> Snapshot:
        nodes_now, load_now = self._nodes_panel(), self._load_panel()
        version = self._version.answer
        trouble = self._away()
        runs = self._runs
        return Snapshot(
            at=time.time(),
            cluster=self._cluster,
            ray_version=version.data or None if version is not None else None,
            answers=trouble is None,
            trouble=trouble,
            nodes=nodes_now,
            load=load_now,
            jobs=self._panel(self._jobs, ()),
            actors=self._actors_panel(nodes_now.data, load_now.data),
            groups=self._cut_panel(self._groups),
            train=self._panel(self._train, ()),
            runs=Panel(()) if runs is None else self._panel(runs, ()),
        )

    def _away(self) -> str | None:
        """Why the head is not there; None where it is. One that answers with an error is there."""
        landed = [question for question in self._of_head if question.landed_at >= self._round_before]
        errors = [question.error for question in landed if isinstance(question.error, _AWAY)]
        if len(errors) < len(landed):
            self._trouble = None
        elif errors:
            errors.sort(key=lambda error: not isinstance(error, RayDeniedError))
            self._trouble = self._words(errors[0])
        else:
            waited_s = max(question.asked_since_s or 0.0 for question in self._of_head)
            if waited_s >= _SLOW_S or self._round_before < 0:
                self._trouble = f"has not answered for {waited_s:.0f} s"
        return self._trouble

    def _words(self, error: Exception | None) -> str | None:
        return trouble_words(error, self._dashboard.called, self._dashboard.url)

    def _panel(self, question: Question[D], none: D) -> Panel[D]:
        answer = question.answer
        return Panel(
            none if answer is None else answer.data,
            None if answer is None else answer.at,
            self._words(question.error),
        )

    def _cut_panel(self, question: Question[tuple[tuple[T, ...], int]]) -> Panel[tuple[T, ...]]:
        panel = self._panel(question, ((), 0))
        return Panel(panel.data[0], panel.at, panel.trouble, panel.data[1])

    def _nodes_panel(self) -> Panel[tuple[Node, ...]]:
        panel = self._cut_panel(self._nodes)
        measures = self._words(self._summary.error)
        trouble = panel.trouble or (f"measures: {measures}" if measures is not None else None)
        return Panel(self._joined(_data(self._nodes), _data(self._summary)), panel.at, trouble, panel.cut)

    def _load_panel(self) -> Panel[Load]:
        """Some autoscalers report nothing: then what is in use is known from the nodes, and not what waits."""
        panel, told = self._panel(self._load, Load()), _data(self._summary)
        if panel.data.use or panel.trouble is not None or told is None:
            return panel
        return replace(panel, data=replace(panel.data, use=told.use))

    def _join(self, known: tuple[tuple[Node, ...], int] | None, told: summary.Summary | None) -> tuple[Node, ...]:
        if known is None:
            return ()
        return nodes.joined(known[0], told.nodes if told is not None else {}, self._pulses.still)

    def _actors_panel(self, nodes_now: tuple[Node, ...], load_now: Load) -> Panel[Actors]:
        living, classes = self._panel(self._living, ((), 0)), self._panel(self._classes, ({}, 0))
        at = classes.at if living.at is None else living.at
        found = Actors(
            self._counted(_data(self._living), _data(self._classes)),
            actors.explained(living.data[0], nodes_now, load_now),
        )
        return Panel(found, at, living.trouble or classes.trouble, living.data[1] + classes.data[1])


def _data(question: Question[T]) -> T | None:
    return question.answer.data if question.answer is not None else None


def _together(*parts: tuple[list[Actor], int]) -> tuple[tuple[Actor, ...], int]:
    return tuple(actor for some, _ in parts for actor in some), sum(cut for _, cut in parts)


def _count(
    living: tuple[tuple[Actor, ...], int] | None, classes: tuple[dict[str, dict[str, int]], int] | None
) -> tuple[ActorClass, ...]:
    return actors.counted(
        classes[0] if classes is not None else None,
        living[0] if living is not None else None,
        all_living=living is not None and not living[1],
    )


class Unchanged(Generic[T]):
    """Reads an answer, unless it is the same as the last one was."""

    def __init__(self, read: Callable[[bytes], T]) -> None:
        self._read = read
        self._last: tuple[int, int, T] | None = None

    def __call__(self, body: bytes) -> T:
        key = (hash(body), len(body))
        last = self._last
        if last is None or last[:2] != key:
            self._last = last = (*key, self._read(body))
        return last[2]


class Kept(Generic[T]):
    """What was made of some values, until one of them is another."""

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self._last: tuple[tuple[Any, ...], T] | None = None

    def __call__(self, *values: Any) -> T:
        last = self._last
        if last is None or any(one is not other for one, other in zip(last[0], values, strict=True)):
            self._last = last = (values, self._make(*values))
        return last[1]
