"""Getting at a real cluster: tokens, profiles, and what is said where it does not answer."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ray_lab import RayLab

from .conftest import Desk

pytestmark = pytest.mark.slow


def test_without_the_token_it_is_said_how_to_give_it(desk: Desk) -> None:
    done = desk.with_variables(RAY_AUTH_TOKEN_PATH="").submit("--", "echo", "hi")
    assert done.returncode == 1
    assert "wants a token\n  export RAY_AUTH_TOKEN_PATH=FILE" in done.stderr


def test_a_wrong_token_is_refused_and_none_is_ever_told(desk: Desk, ray_lab: RayLab) -> None:
    for words in (("list",), ("submit", "--", "x"), ("logs", "x"), ("stop", "x"), ("status", "x")):
        done = desk.with_variables(RAY_AUTH_TOKEN="wrong-t0k3n").air("ray", "job", *words, "-v")  # noqa: S106
        assert done.returncode == 1
        assert "does not accept this token" in done.stderr
        assert "wrong-t0k3n" not in done.stderr + done.stdout
    assert ray_lab.token not in desk.air("ray", "job", "list", "-v").stdout


def test_a_profile_has_the_address_and_the_token(desk: Desk, ray_lab: RayLab) -> None:
    desk.config.write_text(
        f'[profiles.lab]\nbackend = "ray"\naddress = "{ray_lab.url}"\ntoken_file = "{ray_lab.token_file}"\n'
    )
    bare = Desk(desk.folder, {"HOME": str(desk.folder)})
    done = bare.submit("-p", "lab", "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr
    assert bare.air("ray", "job", "list", "-p", "lab").returncode == 0


def test_an_address_is_enough_where_the_token_is_where_ray_keeps_it(desk: Desk, ray_lab: RayLab) -> None:
    (desk.folder / ".ray").mkdir()
    (desk.folder / ".ray" / "auth_token").write_text(ray_lab.token)
    bare = Desk(desk.folder, {"HOME": str(desk.folder)})
    assert bare.air("ray", "job", "list", "--address", ray_lab.url).returncode == 0


def test_the_address_of_the_gcs_is_explained(desk: Desk, ray_lab: RayLab) -> None:
    bare = Desk(desk.folder, {"HOME": str(desk.folder), "RAY_ADDRESS": ray_lab.address})
    done = bare.air("ray", "job", "list")
    assert done.returncode == 1
    assert "the GCS" in done.stderr
    assert "8265" in done.stderr


def test_where_nothing_names_a_cluster_it_is_said_how_to(desk: Desk) -> None:
    done = Desk(desk.folder, {"HOME": str(desk.folder)}).air("ray", "job", "list")
    assert done.returncode == 1
    assert "--address http://HEAD:8265" in done.stderr


def test_a_cluster_that_is_not_there_is_told_at_once(desk: Desk) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        done = desk.with_variables(RAY_API_SERVER_ADDRESS=url).submit("--", "echo", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{url} refuses the connection\n")


def test_the_python_of_the_command_line_has_no_ray(desk: Desk) -> None:
    """What is tested here is not Ray's own client in disguise."""
    assert desk.air("ray", "job", "list").returncode == 0
    assert not any(Path(path, "ray").exists() for path in __import__("sys").path)
