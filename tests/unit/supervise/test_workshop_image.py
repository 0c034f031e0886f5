"""What nodes are told about a run's image, and an archive that is read while the run prepares."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from airlane import environment
from airlane.backends.base import NodePlace
from airlane.environment import container
from airlane.errors import EnvironmentBuildError
from airlane.launch.container_argv import box_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.records import EnvironmentRecord, ImageRecord, RunRecord
from airlane.supervise.workshop import RunWorkshop

from .made_nodes import LIMITS

PLACES = (NodePlace(0, "gpu-b0", "10.0.0.7", ("GPU-aa",)),)
SETTLED = ImageRecord("/a/b.tar", is_archive=True, runtime="docker", digests=("sha256:1",), credentials="r/login")
UNREAD = replace(SETTLED, digests=())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def paths(home: Home) -> RunPaths:
    made = RunPaths(home.runs / "2026-11" / "7k2m9q4d")
    made.attempts.mkdir(parents=True)
    return made


def workshop_for(image: ImageRecord, paths: RunPaths, home: Home) -> RunWorkshop:
    record = RunRecord(
        "7k2m9q4d", "sft", "me", 1.0, "train.yaml", "local", None, 1, 1, 1, "GPU_1xH100", simulate=False,
        limits=LIMITS, environment=EnvironmentRecord("host", (), "3.11", None), image=image,
    )  # fmt: skip
    return RunWorkshop(record, paths, home, environment.plan("host", (), base_dir=home.root, home=home))


def test_a_node_is_told_its_image_and_no_path_of_ours(home: Home, paths: RunPaths) -> None:
    workshop = workshop_for(SETTLED, paths, home)
    workshop.begin()
    assert workshop.ready()
    (order,) = workshop.orders(1, PLACES, 20_123, None)
    assert order.container is not None
    assert (order.container.image, order.container.digests) == ("/a/b.tar", ("sha256:1",))
    assert order.container.folders == (str(paths.root),)
    assert order.scratch_folders[-1] == box_folder("7k2m9q4d", attempt=1, node=0)
    assert order.secrets_files == (str(paths.secrets),), "they hold what opens the registry"
    assert (order.env["PATH"], "VIRTUAL_ENV" in order.env) == ("", False)


def test_a_large_archive_is_read_beside_the_queue(home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    told, go_on = threading.Event(), threading.Event()

    def read(image: ImageRecord, *_: object, progress: object) -> ImageRecord:
        assert callable(progress)
        progress("reading b.tar: 50 % of 9 MB")
        told.set()
        assert go_on.wait(10)
        return replace(image, digests=("sha256:2",))

    monkeypatch.setattr(container, "with_digests", read)
    workshop = workshop_for(UNREAD, paths, home)
    workshop.begin()
    assert told.wait(10)
    assert not workshop.ready()
    assert workshop.progress == "reading b.tar: 50 % of 9 MB"
    go_on.set()
    workshop.close(run_ends=True)
    assert workshop.ready()
    (order,) = workshop.orders(0, PLACES, 20_123, None)
    assert order.container is not None
    assert order.container.digests == ("sha256:2",)


def test_a_canceled_run_does_not_read_its_archive_to_the_end(
    home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, closing = threading.Event(), threading.Event()

    def read(*_: object, progress: object) -> ImageRecord:
        assert callable(progress)
        begun.set()
        while True:
            progress("reading")
            assert closing.wait(10)

    monkeypatch.setattr(container, "with_digests", read)
    workshop = workshop_for(UNREAD, paths, home)
    workshop.begin()
    assert begun.wait(10)
    closing.set()
    workshop.close(run_ends=True)
    with pytest.raises(EnvironmentBuildError, match="not read to its end"):
        workshop.ready()
