"""Jobs from the screen: their logs as they grow, and their end after a question."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from airlane.top.screens.log import KEPT_LINES, LogPage, LogText
from airlane.top.values import Job, Panel

from .made_clusters import NOW, MadeSource, made_up_gpu_cluster
from .seeing import made_app, play, seen, until


def source() -> MadeSource:
    return MadeSource(made_up_gpu_cluster(), once=True)


@pytest.mark.parametrize("keys", [("2", "enter", "x"), ("1", "j", "j", "j", "x")])
def test_a_job_is_stopped_after_a_question(keys: tuple[str, ...]) -> None:
    made = source()

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await until(pilot, "Stop raysubmit_pretrain7b?")
        assert made.stopped == []
        await pilot.press("y")
        await until(pilot, "raysubmit_pretrain7b is stopping")
        assert made.stopped == ["raysubmit_pretrain7b"]

    play(made_app(made), scenario)


def test_no_stops_nothing_and_leads_back() -> None:
    made = source()
    app = made_app(made)

    async def scenario(pilot: Pilot[None]) -> None:
        for key in ("n", "escape", "q"):
            await pilot.press("2", "x")
            await until(pilot, "let it run")
            await pilot.press("enter", "x", "j", "2", "h", key)
            await pilot.pause()
            assert made.stopped == []
            assert len(app.screen_stack) == 2
            assert not app._exit

    play(app, scenario)


def test_a_refusal_is_told_in_its_own_words() -> None:
    made = source()
    made.refuses = "the head denies it: 403"

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "x")
        await until(pilot, "let it run")
        await pilot.press("y")
        await until(pilot, "! the head denies it: 403")

    play(made_app(made), scenario)


def test_what_is_over_or_no_job_is_not_stopped() -> None:
    made = source()

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "j", "x")
        await until(pilot, "raysubmit_evaluate is over already: FAILED")
        await pilot.press("tab", "x")
        await until(pilot, "air cancel run 7m0c2x1a stops a run")
        await pilot.press("3", "x")
        await until(pilot, "Choose a job first")
        assert made.stopped == []

    play(made_app(made), scenario)


def test_a_driver_without_a_job_is_not_stopped_and_says_how_it_ends() -> None:
    whole = made_up_gpu_cluster()
    driver = Job(id="05000000", driver_id="05000000", state="RUNNING", entrypoint="python notebook.py", submitted=False)
    made = MadeSource(replace(whole, jobs=Panel((driver,), at=NOW)), once=True)

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "x")
        await until(pilot, "05000000 is a driver that was started without a job")

    play(made_app(made), scenario, size=(120, 30))


def test_a_log_grows_on_the_screen_and_says_when_the_job_is_over() -> None:
    made = source()

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "l")
        await until(pilot, "log of raysubmit_pretrain7b")
        made.log.put_nowait("step 1  loss 4.2\nstep 2")
        await until(pilot, "step 2")
        made.log.put_nowait("  loss 3.9\n")
        await until(pilot, "step 2  loss 3.9")
        made.log.put_nowait(None)
        await until(pilot, "the job is over")

    play(made_app(made), scenario)


def test_a_log_that_cannot_be_read_says_why() -> None:
    made = source()
    made.log_ends_with = "its node is gone"

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "l")
        made.log.put_nowait(None)
        await until(pilot, "its node is gone")

    play(made_app(made), scenario)


def test_a_log_follows_its_end_until_somebody_looks_up() -> None:
    made = source()

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "l")
        made.log.put_nowait("".join(f"line {number}\n" for number in range(1, 101)))
        await until(pilot, "line 100")
        await pilot.press("g")
        await until(pilot, "line 1 ")
        made.log.put_nowait("line 101\n")
        await until(pilot, "102 lines")
        assert "line 101" not in seen(pilot)
        await pilot.press("G")
        await until(pilot, "line 101")
        made.log.put_nowait("line 102\n")
        await until(pilot, "line 102")

    play(made_app(made), scenario)


def test_a_long_line_is_looked_at_aside() -> None:
    made = source()

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "l")
        made.log.put_nowait("日本" * 30 + "its tail\n")
        await until(pilot, "…")
        assert "its tail" not in seen(pilot)
        await pilot.press("right", "right", "right")
        await until(pilot, "its tail")
        await pilot.press("left", "left", "left")
        assert pilot.app.screen.query_one(LogPage)._aside == 0

    play(made_app(made), scenario)


def test_a_log_shows_text_and_obeys_no_controls() -> None:
    made = source()

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("2", "l")
        made.log.put_nowait(
            "\x1b[31mred\x1b[0m \x1b]0;title\x07[bold]not markup[/] \x1b[2J\x07bell\ttab\n 1%\r50%\r99%\r\n"
        )
        await until(pilot, "red [bold]not markup[/]")
        assert "99%" in seen(pilot)
        assert "50%" not in seen(pilot)

    play(made_app(made), scenario)


def test_lines_come_whole_from_pieces_of_another_thread() -> None:
    text = LogText()
    pieces = [f"{number},\n" if number % 3 == 0 else f"{number}," for number in range(30_000)]

    def tell() -> None:
        for piece in pieces:
            text.take(piece)

    thread = threading.Thread(target=tell)
    thread.start()
    while thread.is_alive():
        text.read()
    thread.join()
    text.read()
    assert "".join(text.all()) == "".join(pieces).replace("\n", "")


def test_a_log_without_end_keeps_its_latest_lines() -> None:
    text = LogText()
    for number in range(3):
        text.take("".join(f"{number} {line}\n" for line in range(KEPT_LINES)))
        text.read()
    assert len(text.lines) == KEPT_LINES
    assert text.lines[-1] == f"2 {KEPT_LINES - 1}"
    assert text.dropped == 2 * KEPT_LINES


def test_a_line_without_end_is_cut() -> None:
    text = LogText()
    for _ in range(100):
        text.take("x" * 10_000)
        text.read()
    assert len(text.all()[0]) <= 10_000
