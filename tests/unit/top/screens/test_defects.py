"""What the terminal monitor in use before did wrong on its screen, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from airlane.top import columns
from airlane.top.lines import width
from airlane.top.listing import Context, Listing
from airlane.top.listing import lines_of as lines_of_list
from airlane.top.nodes import node_names
from airlane.top.values import Actor, ActorClass, Actors, Job, Measures, Panel, Snapshot

from .made_clusters import GB, HARD_WORDS, NOW, MadeSource, broken_cluster, made_up_gpu_cluster, plain_cluster
from .seeing import after_keys, lines_of, made_app, play, seen, until


def shown(snapshot: Snapshot, *keys: str, size: tuple[int, int] = (120, 40)) -> str:
    return after_keys(made_app(MadeSource(snapshot, once=True)), *keys, size=size)


def test_a_submitted_job_without_an_end_empties_nothing() -> None:
    text = shown(made_up_gpu_cluster(), "2")
    assert "raysubmit_pretrain7b  RUNNING" in text
    assert "raysubmit_evaluate" in text


def test_a_pending_actor_leaves_the_counts_of_all_others() -> None:
    lines = shown(made_up_gpu_cluster(), "4").splitlines()
    counts = {
        line.split()[0]: line.split()[1:6] for line in lines if line.startswith((" RayTrain", " Evaluator", " JobSup"))
    }
    assert "needs 512 CPU: no node has more than 96" in "\n".join(lines)
    assert counts["JobSupervisor"] == ["2", "1", "0", "1", "0"]
    by_class = next(line for line in lines if line.startswith(" RayTrainWorker"))
    assert by_class.split() == ["RayTrainWorker", "150", "32", "0", "0", "118"]


def test_lists_are_not_cut_at_a_hundred() -> None:
    living = tuple(Actor(id=f"{number:032x}", class_name="Many", state="ALIVE", pid=number) for number in range(450))
    actors = Actors((ActorClass("Many", {"ALIVE": 450}),), living)
    text = shown(replace(plain_cluster(), actors=Panel(actors, at=NOW)), "4", "tab", "G")
    assert "actors 450" in text
    assert f" {449} " in text


def test_a_cluster_without_gpus_shows_its_cpus() -> None:
    text = shown(plain_cluster())
    assert "2 cores" in text
    assert "4.0/25GB" in text
    cpu = next(line for line in text.splitlines() if line.startswith(" CPU "))
    assert "4%" in cpu


def test_two_nodes_of_one_address_stay_two() -> None:
    first, *others = made_up_gpu_cluster().nodes.data
    twin = replace(others[0], address=first.address, name="twin", measures=replace(others[0].measures, memory_used=GB))
    snapshot = replace(made_up_gpu_cluster(), nodes=Panel((first, twin), at=NOW))
    text = shown(snapshot, "3", size=(200, 40))
    assert "nodes 2" in text
    assert "0.0/1.0TB" in text
    assert "0.3/1.0TB" in text


def test_a_node_that_joins_later_has_its_measures() -> None:
    first, later = made_up_gpu_cluster().nodes.data[:2]
    app = made_app(MadeSource(replace(made_up_gpu_cluster(), nodes=Panel((first,), at=NOW)), once=True))

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        assert later.name not in seen(pilot)
        app.take(replace(made_up_gpu_cluster(), nodes=Panel((first, replace(later, measures=Measures())), at=NOW + 1)))
        app.take(replace(made_up_gpu_cluster(), nodes=Panel((first, later), at=NOW + 2)))
        await pilot.pause()
        line = next(line for line in lines_of(app) if later.name in line)
        assert "46%" in line
        assert "87C!" in line

    play(app, scenario)


def test_an_error_is_named_and_old_data_is_marked() -> None:
    text = shown(broken_cluster(), "3")
    assert "HTTP 500 (12s old)" in next(line for line in text.splitlines() if "nodes 5" in line)
    assert "! nodes HTTP 500 (12s old)" in text


def test_words_of_many_bytes_are_cut_between_letters_at_any_width() -> None:
    """Every line is as wide as the screen: nothing was cut in two, nothing wraps."""
    app = made_app(MadeSource(broken_cluster(), once=True))

    async def scenario(pilot: Pilot[None]) -> None:
        for cells in (20, 33, 47, 60, 61, 62, 63, 64, 79, 80, 81, 103, 140):
            await pilot.resize_terminal(cells, 24)
            await pilot.pause()
            assert {cell_len(line) for line in lines_of(app)} == {cells}

    play(app, scenario)


@pytest.mark.parametrize("listing", [columns.NODES, columns.WORK, columns.JOBS], ids=lambda listing: listing.name)
def test_no_line_of_a_list_is_wider_than_it_may_be(listing: Listing[Any]) -> None:
    snapshot = broken_cluster()
    context = Context(NOW, nodes=node_names(snapshot.nodes.data))
    rows = {"nodes": snapshot.nodes.data, "jobs": snapshot.jobs.data}.get(listing.name, columns.work_rows(snapshot))
    for cells in range(10, 260):
        lines = lines_of_list(listing, rows, context, cells)
        assert len({width(line) for line in lines}) == 1
        assert width(lines[0]) <= cells


def test_the_whole_entrypoint_of_many_bytes_is_on_its_page() -> None:
    text = shown(broken_cluster(), "2", "enter")
    first, second = HARD_WORDS.replace("\u200d", "").split("\n")
    assert first in text
    assert second in text


def test_markup_in_what_a_cluster_tells_is_text() -> None:
    assert "[red]preempted[/red]" in shown(broken_cluster(), "3", size=(200, 40))


def test_words_of_any_kind_and_length_are_shown() -> None:
    odd = (
        "\x1b[2J\x00\x07",
        "\ud83d\ud83d",
        "\u202e backwards",
        "x" * 100_000,
        "a\u0301" * 5_000,
        "\n\r\t",
        "\U0010ffff",
    )
    jobs = tuple(Job(id=f"odd-{number}", state="RUNNING", entrypoint=words) for number, words in enumerate(odd))
    broken = replace(
        broken_cluster(),
        jobs=Panel(jobs, at=NOW),
        cluster="\x1b]0;title\x07cluster\n\ud83d",
        ray_version="2\n60",
        trouble="\x1b[31m",
        answers=False,
    )
    app = made_app(MadeSource(broken, once=True))

    async def scenario(pilot: Pilot[None]) -> None:
        for keys in (("1",), ("2",), ("end", "enter"), ("escape", "home", "enter"), ("G",), ("escape", "j", "x")):
            await pilot.press(*keys)
            text = seen(pilot)
            assert "odd-" in text
            assert all(sign.isprintable() or sign == "\n" for sign in text)
            text.encode()

    play(app, scenario)


MISSED: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("2",),
        (
            "raysubmit_waiting     PENDING",
            "raysubmit_evaluate    FAILED",
        ),
    ),
    (("j", "enter"), ("KeyError: 'answer'",)),
    (
        ("escape", "3"),
        (
            "86C!",
            "4,432W",
        ),
    ),
    (
        ("enter",),
        (
            "ray::RayTrainWorker",
            "4107 72GB",
            "how busy they were",
        ),
    ),
    (
        ("5",),
        (
            "STRICT_PACK",
            "no node has 512 CPU",
            "3 × 8 GPU, 64 CPU, 1 × 512 CPU (placement group)",
        ),
    ),
    (("1",), ("48211, partition gpu, 3h 12m left",)),
)


def test_what_was_missing_is_there() -> None:
    """Pending and failed jobs, processes, temperature, power, history, placement groups, what waits, Slurm's words."""

    async def scenario(pilot: Pilot[None]) -> None:
        for keys, told in MISSED:
            await pilot.press(*keys)
            await pilot.pause(0.05)
            for words in told:
                assert words in seen(pilot)

    play(made_app(MadeSource(made_up_gpu_cluster(), once=True)), scenario, size=(160, 60))


def test_the_last_minutes_are_seen() -> None:
    first = made_up_gpu_cluster()
    app = made_app(MadeSource(first, once=True))

    async def scenario(pilot: Pilot[None]) -> None:
        for number, load in enumerate((5.0, 30.0, 55.0, 80.0, 99.0)):
            nodes = tuple(replace(node, measures=replace(node.measures, cpu=load)) for node in first.nodes.data)
            app.take(replace(first, nodes=Panel(nodes, at=NOW + 1 + number)))
        await until(pilot, "▁▃▅▇█")
        await pilot.press("3", "enter")
        await until(pilot, "▁▃▅▇█")

    play(app, scenario, size=(120, 40))


def test_a_dead_node_says_why_and_claims_no_load() -> None:
    line = next(line for line in shown(broken_cluster(), "3", size=(160, 40)).splitlines() if "gpu-b18" in line)
    assert "DEAD" in line
    assert "health check failed" in line
    assert "%" not in line


def test_a_hung_node_is_marked_and_left_out_of_the_sums() -> None:
    text = shown(broken_cluster(), "3", size=(160, 40))
    assert "3 nodes · 2 dead · 1 stale" in text
    assert "stale" in next(line for line in text.splitlines() if "gpu-b17" in line)
    assert "96 cores" in text
