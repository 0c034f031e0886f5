"""The screens, driven by keys, and what is seen on them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from airlane.top.app import TopApp
from airlane.top.words import UNICODE, Marks

from .made_clusters import NOW, MadeSource

SMALL = (80, 24)
LARGE = (250, 60)
Play = Callable[[Pilot[None]], Awaitable[None]]


def lines_of(app: TopApp) -> list[str]:
    """The text on the screen."""
    return ["".join(piece.text for piece in strip) for strip in app.screen._compositor.render_strips()]


def seen(pilot: Pilot[None]) -> str:
    app = pilot.app
    assert isinstance(app, TopApp)
    return "\n".join(lines_of(app))


def made_app(source: MadeSource, *, marks: Marks = UNICODE, settings: Path | None = None) -> TopApp:
    """An app whose clock stands."""
    return TopApp(source, settings_file=settings, clock=lambda: NOW, marks=marks)


def play(app: TopApp, scenario: Play, *, size: tuple[int, int] = SMALL) -> None:
    """Start the app, wait for the first round, and do what the scenario says."""

    async def whole() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await scenario(pilot)

    asyncio.run(whole())


def after_keys(app: TopApp, *keys: str, size: tuple[int, int] = SMALL) -> str:
    """What is seen after some keys."""
    told = ""

    async def scenario(pilot: Pilot[None]) -> None:
        nonlocal told
        await pilot.press(*keys)
        await pilot.pause()
        told = seen(pilot)

    play(app, scenario, size=size)
    return told


async def until(pilot: Pilot[None], words: str) -> None:
    """Wait for words on the screen. Raises AssertionError if they do not come."""
    for _ in range(200):
        if words in seen(pilot):
            return
        await pilot.pause(0.02)
    raise AssertionError(f"{words!r} is not on the screen:\n{seen(pilot)}")


def picture(app: TopApp) -> str:
    """The screen as an SVG without what differs from one time to the next, and without fonts from elsewhere."""
    svg = app.export_screenshot(title=" ")
    svg = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL)
    return re.sub(r"terminal-\d+-", "t-", svg).strip()
