"""The health check of the images. No Ray is here: /proc is made of files like those of a raylet."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def add_process(proc: Path, pid: int, *words: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes("\0".join(words).encode() + b"\0")


def test_a_container_without_ray_is_healthy_on_a_made_proc(ray_alive: ModuleType, tmp_path: Path) -> None:
    add_process(tmp_path, 7, "bash", "train.sh", "--gcs-address=127.0.0.1:1")
    (tmp_path / "8").mkdir()  # one that ends meanwhile
    assert ray_alive.main(tmp_path) == 0


def test_a_raylet_of_a_made_proc_is_healthy_while_its_control_store_answers(
    ray_alive: ModuleType, tmp_path: Path, listening: int
) -> None:
    add_process(tmp_path, 7, "/venv/ray/core/raylet", "--node_id=1", f"--gcs-address=127.0.0.1:{listening}")
    assert ray_alive.main(tmp_path) == 0


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "no address"])
def test_a_raylet_of_a_made_proc_whose_control_store_is_gone_is_not(
    ray_alive: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = address.format(server.getsockname()[1])
    add_process(tmp_path, 7, "/venv/ray/core/raylet", f"--gcs-address={gone}")
    assert ray_alive.main(tmp_path) == 1
    assert f"no answer from the control store of Ray at {gone}" in capsys.readouterr().err
