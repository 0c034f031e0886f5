"""Every screen, small and large, as a picture that is compared whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from textual.pilot import Pilot

from airlane.top.app import TopApp
from airlane.top.themes import NAMES
from airlane.top.values import Snapshot
from airlane.top.words import ASCII
from golden_text import check_golden

from .made_clusters import MadeSource, broken_cluster, made_up_gpu_cluster, plain_cluster, silent_cluster
from .seeing import LARGE, SMALL, made_app, picture, play

SIZES = {"80x24": SMALL, "250x60": LARGE}
# One walk through all screens of the cluster with made-up GPUs: which keys lead from each picture to the next.
WALK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("overview", ()),
    ("jobs", ("2",)),
    ("job", ("enter",)),
    ("log", ("l",)),
    ("stop", ("escape", "escape", "x")),
    ("nodes", ("n", "3")),
    ("nodes_by_cpu", ("s", "s", "s", "down")),
    ("nodes_filter", ("slash", "b", "1", "7")),
    ("node", ("enter", "enter")),
    ("actors", ("escape", "4")),
    ("actor", ("tab", "enter")),
    ("groups", ("escape", "5")),
    ("group", ("enter",)),
    ("help", ("h",)),
)
CLUSTERS: dict[str, Callable[[], Snapshot]] = {
    "plain_overview": plain_cluster,
    "broken_overview": broken_cluster,
    "silent_overview": silent_cluster,
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def check(name: str, pilot: Pilot[None]) -> None:
    await pilot.pause(0.15)
    app = pilot.app
    assert isinstance(app, TopApp)
    check_golden(f"top/{name}.svg", picture(app))


@pytest.mark.parametrize("size", SIZES)
def test_every_screen_looks_as_it_did(size: str) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for name, keys in WALK:
            await pilot.press(*keys)
            await check(f"made_up_gpus_{name}_{size}", pilot)

    play(made_app(MadeSource(made_up_gpu_cluster(), once=True)), scenario, size=SIZES[size])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_looks_as_it_did(name: str, size: str) -> None:
    play(
        made_app(MadeSource(CLUSTERS[name](), once=True)),
        lambda pilot: check(f"{name}_{size}", pilot),
        size=SIZES[size],
    )


def test_a_terminal_without_unicode_looks_as_it_did() -> None:
    play(
        made_app(MadeSource(broken_cluster(), once=True), marks=ASCII), lambda pilot: check("broken_ascii_80x24", pilot)
    )


def test_every_theme_looks_as_it_did() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for theme in NAMES[1:]:
            await pilot.press("t")
            assert pilot.app.theme == theme
            await check(f"theme_{theme.replace(' ', '_').lower()}_80x24", pilot)

    play(made_app(MadeSource(broken_cluster(), once=True)), scenario)
