"""The app as a whole: rounds, tabs, themes, its end."""

from __future__ import annotations

import asyncio

from airlane.top.app import TopApp

from .made_clusters import NOW, MadeSource, made_up_gpu_cluster


def seen(app: TopApp) -> str:
    """The text on the screen."""
    return "\n".join("".join(piece.text for piece in strip) for strip in app.screen._compositor.render_strips())


def test_the_first_round_is_on_the_screen() -> None:
    async def scenario() -> str:
        app = TopApp(MadeSource(made_up_gpu_cluster()), clock=lambda: NOW)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            return seen(app)

    text = asyncio.run(scenario())
    assert "hpc-ray  Ray 2.60.0" in text
    assert "gpu-b19" in text
    assert "raysubmit_pretrain7b" in text
