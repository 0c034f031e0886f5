"""Which source `air top` shows, and what it says where there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airlane.api import Client
from airlane.api.ray_target import JobTarget
from airlane.errors import AirError, ArgumentError, ConfigError, NotFoundError, RayUnreachableError
from airlane.top.opening import Wish, open_source
from airlane.top.recording import Recorder
from airlane.top.seam import Source
from airlane.top.values import Snapshot


@pytest.fixture
def client(tmp_path: Path) -> Client:
    (tmp_path / "config.toml").write_text("")
    return Client(home=tmp_path / "home", env={"AIR_CONFIG": str(tmp_path / "config.toml")})


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three rounds of a cluster, two seconds apart."""
    file = tmp_path / "seen.zst"
    recorder = Recorder(file)
    for number in range(3):
        recorder.write(Snapshot(1_800_000_000.0 + 2 * number, f"round {number}"))
    recorder.close()
    return file


def refused(client: Client, wish: Wish, **variables: str) -> AirError:
    with pytest.raises(AirError) as caught, open_source(client, wish, once=True, env={"HOME": "/none", **variables}):
        pass
    return caught.value


@pytest.mark.parametrize(("once", "shown"), [(False, "round 0"), (True, "round 2")])
def test_a_recording_begins_at_its_beginning_and_one_frame_of_it_is_its_last(
    client: Client, recording: Path, *, once: bool, shown: str
) -> None:
    with open_source(client, Wish(JobTarget(), replay=recording), once=once) as opened:
        snapshot = asyncio.run(opened.source.snapshot())
        assert snapshot.cluster == shown
        assert opened.clock() == pytest.approx(snapshot.at, abs=1)


def test_a_recording_is_no_cluster(client: Client, recording: Path) -> None:
    for wish in (
        Wish(JobTarget(address="http://h:1"), replay=recording),
        Wish(JobTarget(cluster="mine"), replay=recording),
        Wish(JobTarget(), replay=recording, record=Path("again")),
    ):
        error = refused(client, wish)
        assert isinstance(error, ArgumentError)
        assert error.hint == f"air top --replay {recording}"


def test_a_recording_that_is_none_is_told(client: Client, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    assert "holds no round" in refused(client, Wish(JobTarget(), replay=tmp_path / "notes.txt")).message
    assert "no such file" in refused(client, Wish(JobTarget(), replay=tmp_path / "none")).message


def test_without_a_cluster_it_says_how_to_get_one_and_where_runs_are(client: Client) -> None:
    error = refused(client, Wish(JobTarget()))
    assert isinstance(error, NotFoundError)
    assert (error.hint or "").splitlines()[-2:] == ["air ray up starts one", "air list shows runs without one"]


def test_a_cluster_is_named_once(client: Client) -> None:
    error = refused(client, Wish(JobTarget(address="http://h:1", cluster="mine")))
    assert (type(error), error.hint) == (ArgumentError, "air top --cluster NAME")


def test_a_head_that_is_not_there_is_told_before_a_screen_opens(client: Client) -> None:
    error = refused(client, Wish(JobTarget(address="http://127.0.0.1:1")))
    assert isinstance(error, RayUnreachableError)
    assert error.message == "http://127.0.0.1:1 refuses the connection"
    assert isinstance(refused(client, Wish(JobTarget(address="ray://h:10001"))), ConfigError)


def test_a_recording_may_be_asked_twice_at_the_same_time(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "long.zst"
    recorder = Recorder(file)
    for number in range(3000):
        recorder.write(Snapshot(1_800_000_000.0 + number, "made up"))
    recorder.close()

    async def both(source: Source) -> list[Snapshot]:
        return await asyncio.gather(*(source.snapshot() for _ in range(8)))

    with open_source(client, Wish(JobTarget(), replay=file), once=True) as opened:
        assert {snapshot.at for snapshot in asyncio.run(both(opened.source))} == {1_800_002_999.0}
