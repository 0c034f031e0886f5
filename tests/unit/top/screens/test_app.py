"""The app as a whole: its rounds, its tabs, what is remembered, its end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from airlane.top.settings import read_settings
from airlane.top.themes import NAMES
from airlane.top.values import Panel, Snapshot
from airlane.top.words import ASCII

from .made_clusters import NOW, MadeSource, broken_cluster, made_up_gpu_cluster, plain_cluster, silent_cluster
from .seeing import LARGE, SMALL, after_keys, lines_of, made_app, play, seen, until


def gpus() -> MadeSource:
    return MadeSource(made_up_gpu_cluster())


def test_the_first_round_is_on_the_screen() -> None:
    text = after_keys(made_app(gpus()))
    assert "hpc-ray  Ray 2.60.0" in text
    assert "gpu-b19" in text
    assert "raysubmit_pretrain7b" in text


def test_a_number_shows_its_tab_and_h_the_help() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for key, words in (
            ("2", "ENTRYPOINT"),
            ("3", "GPU MEM"),
            ("4", "actor classes"),
            ("5", "placement groups"),
            ("1", "jobs and runs"),
            ("h", "the screen"),
        ):
            await pilot.press(key)
            await until(pilot, words)
        await pilot.press("escape", "question_mark")
        await until(pilot, "the screen")

    play(made_app(gpus()), scenario, size=(120, 40))


def test_tab_goes_through_all_lists_and_around() -> None:
    app = made_app(gpus())
    visited: list[str] = []

    async def scenario(pilot: Pilot[None]) -> None:
        for _ in range(9):
            visited.append(str(app.focused.id if app.focused else None))
            await pilot.press("tab")
        assert visited == ["work", "all-nodes", "jobs", "runs", "nodes", "classes", "actors", "groups", "bundles"]
        assert app.focused is not None
        assert app.focused.id == "work"
        await pilot.press("shift+tab")
        assert app.focused is not None
        assert app.focused.id == "bundles"

    play(app, scenario)


def test_escape_leads_back() -> None:
    app = made_app(gpus())

    async def scenario(pilot: Pilot[None]) -> None:
        for keys in (("3", "enter"), ("2", "enter"), ("2", "l"), ("4", "tab", "enter"), ("5", "enter"), ("h",)):
            await pilot.press(*keys)
            await pilot.pause()
            assert len(app.screen_stack) == 3
            await pilot.press("escape")
            await pilot.pause()
            assert len(app.screen_stack) == 2
            assert "1 Overview" in seen(pilot)

    play(app, scenario)


def test_a_number_leads_from_a_page_to_its_tab() -> None:
    app = made_app(gpus())

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("3", "enter", "h", "4")
        await pilot.pause()
        assert len(app.screen_stack) == 2
        assert "actor classes" in seen(pilot)
        await pilot.press("2", "l", "5")
        await pilot.pause()
        assert "placement groups" in seen(pilot)

    play(app, scenario)


def test_enter_on_a_class_shows_its_actors() -> None:
    text = after_keys(made_app(gpus()), "4", "down", "enter")
    assert "/Evaluator 1" in text
    assert "needs 512 CPU" in text


def test_enter_on_a_bundle_shows_its_node() -> None:
    assert "gpu-b17  alive" in after_keys(made_app(gpus()), "5", "tab", "down", "enter", size=(100, 40))


def test_bundles_are_those_of_the_chosen_group() -> None:
    assert "not placed" not in after_keys(made_app(gpus()), "5", size=(100, 40))
    assert "not placed" in after_keys(made_app(gpus()), "5", "down", size=(100, 40))


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
@pytest.mark.parametrize("before", [(), ("2", "l")])
def test_q_and_ctrl_c_quit_at_once(before: tuple[str, ...], key: str) -> None:
    app = made_app(gpus())

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press(*before)
        await pilot.press(key)
        assert app._exit

    play(app, scenario)


def test_ctrl_c_quits_while_a_filter_is_typed_and_q_is_a_letter_there() -> None:
    app = made_app(gpus())

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("slash", "q", "j", "1")
        await pilot.pause()
        assert not app._exit
        assert "/qj1" in seen(pilot)
        await pilot.press("ctrl+c")
        assert app._exit

    play(app, scenario)


class SlowSource(MadeSource):
    """Answers once, and then when it is told to."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.may_answer = asyncio.Event()

    async def snapshot(self) -> Snapshot:
        told = await super().snapshot()
        if self.asked > 1:
            await self.may_answer.wait()
        return told


def test_a_slow_answer_never_holds_up_keys() -> None:
    source = SlowSource(made_up_gpu_cluster())
    app = made_app(source)

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("plus", "plus")
        while source.asked < 2:
            await pilot.pause(0.05)
        await pilot.press("4")
        assert "actor classes" in seen(pilot)
        await pilot.press("q")
        assert app._exit

    play(app, scenario)


def test_a_source_that_never_answered_says_so_and_takes_keys() -> None:
    source = SlowSource(made_up_gpu_cluster())
    source.asked = 1
    app = made_app(source)

    async def scenario(pilot: Pilot[None]) -> None:
        assert "no answer yet" in seen(pilot)
        for key in "12345":
            await pilot.press(key)
        await pilot.press("enter", "s", "l", "x", "slash", "a", "escape", "h")
        assert "the screen" in "\n".join(lines_of(app)) or "where" in seen(pilot)

    play(app, scenario)


def test_a_pause_asks_no_more_and_says_so() -> None:
    source = gpus()
    app = made_app(source)

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("plus", "plus", "p")
        await until(pilot, "paused")
        asked = source.asked
        await pilot.pause(1.2)
        assert source.asked == asked
        await pilot.press("p")
        await pilot.pause(0.7)
        assert source.asked > asked
        assert "paused" not in seen(pilot)

    play(app, scenario)


def test_plus_and_minus_change_how_often_it_asks() -> None:
    app = made_app(gpus())

    async def scenario(pilot: Pilot[None]) -> None:
        assert "asked every 2s" in seen(pilot)
        await pilot.press("plus")
        await until(pilot, "asked every 1s")
        await pilot.press("minus", "minus")
        await until(pilot, "asked every 5s")

    play(app, scenario)


def test_a_theme_is_remembered(tmp_path: Path) -> None:
    settings = tmp_path / "sub" / "top.json"

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("t", "t")

    first = made_app(gpus(), settings=settings)
    play(first, scenario)
    assert first.theme == NAMES[2]
    assert read_settings(settings).theme == NAMES[2]
    assert [file.name for file in settings.parent.iterdir()] == ["top.json"]
    assert made_app(gpus(), settings=settings).theme == NAMES[2]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"theme": 3}', b'{"theme": "no such"}', b"\xff\xfe", b"[" * 100_000]
)
def test_damaged_settings_are_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    settings = tmp_path / "top.json"
    settings.write_bytes(content)
    assert made_app(gpus(), settings=settings).theme == NAMES[0]


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    app = made_app(gpus(), settings=blocked / "top.json")
    after_keys(app, "t")
    assert app.theme == NAMES[1]


def test_the_head_that_is_away_is_told_of_and_what_was_there_stays() -> None:
    later = MadeSource(silent_cluster())
    app = made_app(later)
    app._clock = lambda: NOW + 12
    text = after_keys(app)
    assert "The head does not answer since 12s" in text
    assert "gpu-b19" in text


def test_what_failed_is_named_and_blanks_nothing() -> None:
    text = after_keys(made_app(MadeSource(broken_cluster())), size=(120, 30))
    status = text.splitlines()[-2]
    assert "nodes HTTP 500 (12s old)" in status
    assert "placement groups no answer within 5s (40s old)" in status
    assert "raysubmit_unicode" in text
    assert "gpu-b17" in text


def test_a_list_that_was_cut_says_how_much_is_missing() -> None:
    snapshot = replace(plain_cluster(), actors=Panel(made_up_gpu_cluster().actors.data, at=NOW, cut=10_204))
    assert "10,204 more actors" in after_keys(made_app(MadeSource(snapshot)))


def test_it_follows_the_size_of_the_terminal() -> None:
    app = made_app(gpus())

    async def scenario(pilot: Pilot[None]) -> None:
        for width, height in (LARGE, (40, 10), SMALL, (10, 5), (1, 1), (120, 30)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            lines = lines_of(app)
            assert len(lines) == height
        assert "gpu-b19" in seen(pilot)
        await pilot.press("enter")
        for width, height in ((20, 8), LARGE, SMALL):
            await pilot.resize_terminal(width, height)
            await pilot.pause()

    play(app, scenario)


def test_it_is_drawn_on_stdout() -> None:
    """Where everything else of a command is, so that stderr may go elsewhere."""
    app = made_app(gpus())

    async def scenario(_: Pilot[None]) -> None:
        before = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
        driver = app.driver_class(app, size=SMALL)
        for number, reaction in before.items():
            signal.signal(number, reaction)
        assert driver._file is sys.__stdout__  # type: ignore[attr-defined]

    play(app, scenario)


def test_without_colours_nothing_is_coloured_and_the_cursor_is_reversed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = made_app(gpus())

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.pause()
        styles = [piece.style for strip in app.screen._compositor.render_strips() for piece in strip if piece.style]
        assert all(style.color is None or style.color.is_default for style in styles)
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in styles)
        assert any(style.reverse for style in styles)

    play(app, scenario)


def test_a_terminal_without_unicode_gets_ascii_alone() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for keys in (
            ("1",),
            ("2", "enter"),
            ("l",),
            ("escape", "escape", "x"),
            ("n", "3", "enter"),
            ("escape", "4"),
            ("h",),
        ):
            await pilot.press(*keys)
            await pilot.pause(0.05)
            assert [sign for sign in seen(pilot) if not sign.isascii()] == []

    play(made_app(MadeSource(broken_cluster()), marks=ASCII), scenario, size=(120, 40))


class BreakingSource(MadeSource):
    """Has a defect of our own."""

    async def snapshot(self) -> Snapshot:
        raise RuntimeError("a made-up defect")


def test_an_error_of_our_own_ends_the_app_and_is_kept() -> None:
    app = made_app(BreakingSource(plain_cluster()))

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.pause(0.2)

    with pytest.raises(Exception, match="made-up defect"):
        play(app, scenario)
    assert str(app.failure) == "a made-up defect"


def test_only_lines_that_changed_are_drawn_again() -> None:
    first = made_up_gpu_cluster()
    nodes = first.nodes.data
    busier = replace(nodes[1], measures=replace(nodes[1].measures, memory_used=10**9))
    second = replace(first, nodes=replace(first.nodes, data=(nodes[0], busier, *nodes[2:]), at=NOW + 1))
    app = made_app(MadeSource(first))

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await pilot.pause()
        table = app.screen.query_one("#nodes")
        asked: list[int] = []
        table.refresh = lambda *regions, **_: asked.extend(region.y for region in regions)  # type: ignore[method-assign, assignment]
        app.take(second)
        assert asked == [3]

    play(app, scenario)


def test_a_round_of_a_thousand_nodes_costs_little() -> None:
    """A bound for a busy machine; what it really takes is measured by the benchmark."""
    nodes = made_up_gpu_cluster().nodes.data
    many = tuple(replace(nodes[number % 4], id=f"{number:056x}", name=f"gpu-{number}") for number in range(1000))
    rounds = [
        replace(made_up_gpu_cluster(), at=NOW + number, nodes=Panel(many, at=NOW + number)) for number in range(4)
    ]
    app = made_app(MadeSource(rounds[0]))

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("3", "p")
        took = []
        for snapshot in rounds:
            started = time.process_time()
            app.take(snapshot)
            await pilot.pause()
            took.append(time.process_time() - started)
        assert min(took) < 0.3

    play(app, scenario, size=(200, 50))
