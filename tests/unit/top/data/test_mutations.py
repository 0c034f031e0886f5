"""Whatever a head answers, there is a snapshot: 500 recorded answers with something wrong in each."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from airlane.cluster.rest import Dashboard
from airlane.top.fields import read_json
from airlane.top.head import Head
from airlane.top.reading import pieces
from airlane.top.recording_codec import decode, encode
from airlane.top.values import Snapshot

from .conftest import ACTORS, BODIES, MADE_UP_GPUS, WORKER_NODE, answer, body, encoded

ROUNDS, MUTATIONS = 50, 10
ODD: list[Any] = [
    None,
    True,
    -1,
    10**30,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    "🚀ü\u0301\ud83d",
    "x" * 100_000,
    "\x1b[31m",
    [],
    [[]],
    [None, 1, "a", {}],
    {},
    {"": {"": None}},
]


class MadeUpDashboard(Dashboard):
    """Answers from memory."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        super().__init__("http://head:8265")
        self._bodies = bodies

    def get(self, path: str, *, within_s: float | None = None) -> bytes:
        del within_s
        name, _, query = path.partition("?")
        if name == "/api/v0/actors":
            name += query.rpartition("=")[2]
        return self._bodies.get(name, b"{}")


def recorded() -> dict[str, bytes]:
    bodies = {path: body(name) for path, name in BODIES.items()}
    bodies |= {f"/api/v0/actors{state}": body(name) for state, name in ACTORS.items()}
    with_gpus = answer("summary")
    with_gpus["data"]["summary"][0]["gpus"] = copy.deepcopy(MADE_UP_GPUS)
    return {**bodies, "/nodes": encoded(with_gpus), "/api/train/v2/runs/v1": encoded({"train_runs": [{"id": "r"}]})}


def places(content: Any) -> list[tuple[Any, Any]]:
    """Every place in an answer: a container and a key of it."""
    found = []
    inside = [content]
    while inside:
        one = inside.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            inside.append(one[key])
    return found


def drop(content: Any, chance: random.Random) -> bytes:
    container, key = chance.choice(places(content))
    del container[key]
    return encoded(content)


def replace(content: Any, chance: random.Random) -> bytes:
    container, key = chance.choice(places(content))
    container[key] = copy.deepcopy(chance.choice(ODD))
    return encoded(content)


def rename(content: Any, chance: random.Random) -> bytes:
    container, key = chance.choice([place for place in places(content) if isinstance(place[0], dict)])
    container[chance.choice(("ü", "x" * 5000, "\x1b", ""))] = container.pop(key)
    return encoded(content)


def cut(content: Any, chance: random.Random) -> bytes:
    """Anywhere, also inside a character."""
    text = encoded(content).replace(b"host-a", "hösт🚀".encode())
    return text[: chance.randrange(len(text))]


def damage(content: Any, chance: random.Random) -> bytes:
    text = bytearray(encoded(content))
    for _ in range(chance.randint(1, 5)):
        text[chance.randrange(len(text))] = chance.randrange(256)
    return bytes(text)


KINDS: tuple[Callable[[Any, random.Random], bytes], ...] = (drop, replace, replace, rename, cut, damage)


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "in pieces"])
def test_500_mutations_of_recorded_answers_always_leave_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    if apart:
        monkeypatch.setattr(pieces, "_WHOLE_BELOW", 0)
    chance = random.Random(20261201)
    whole = recorded()

    async def look() -> None:
        for number in range(ROUNDS):
            bodies = dict(whole)
            for name in chance.sample(sorted(bodies), MUTATIONS):
                content = fields_of(bodies[name])
                for _ in range(chance.randint(0, 3)):
                    content = (
                        fields_of(chance.choice((drop, replace, rename))(copy.deepcopy(content), chance)) or content
                    )
                bodies[name] = chance.choice(KINDS)(content, chance)
            head = Head(MadeUpDashboard(bodies), patience_s=20.0)
            snapshot = await head.snapshot()
            panel = await head.node(WORKER_NODE)
            assert isinstance(snapshot, Snapshot), number
            assert not any("cannot be read" in (one.trouble or "") for one in (*snapshot.panels.values(), panel)), (
                number,
                snapshot.panels,
            )
            assert snapshot.answers, number
            assert decode(encode(snapshot)).at == snapshot.at

    asyncio.run(look())


def fields_of(text: bytes) -> Any:
    try:
        content = read_json(text)
    except ValueError:
        return None
    return content if places(content) else None
