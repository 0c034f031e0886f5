"""Which cluster it is, and what is said where there is none."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from airlane.errors import ArgumentError, RayUnreachableError
from airlane.ranks.door import check_address, raylet_is_gone, use_token

from .made import host


@pytest.mark.parametrize("address", ["http://head:8265", "https://head", "ray://head:10001"])
def test_an_address_for_jobs_or_clients_is_refused_with_the_way_that_works(address: str) -> None:
    with pytest.raises(ArgumentError, match="HOST:PORT of the GCS") as refused:
        check_address(address)
    assert refused.value.hint == "air ray job submit -- air-ranks ..."


def test_an_address_where_nothing_listens_is_refused_at_once() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(RayUnreachableError, match=address) as refused:
            check_address(address)
    assert refused.value.refused


def test_an_address_where_something_listens_and_ones_of_rays_own_words_are_left_to_ray() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_address(f"127.0.0.1:{server.getsockname()[1]}")
    check_address("auto")
    check_address("")


@pytest.mark.parametrize("name", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_a_token_alone_is_enough_to_have_it_used(name: str, tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    environ = {name: str(tmp_path / "token")}
    use_token(environ)
    assert environ["RAY_AUTH_MODE"] == "token"


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"RAY_AUTH_TOKEN_PATH=.*gone: no such file"):
        use_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "gone")})


def test_who_says_how_to_get_in_is_obeyed() -> None:
    environ = {"RAY_AUTH_TOKEN": "x", "RAY_AUTH_MODE": "disabled"}
    use_token(environ)
    assert environ["RAY_AUTH_MODE"] == "disabled"
    without: dict[str, str] = {}
    use_token(without)
    assert without == {}


def test_a_raylet_that_refuses_connections_is_gone_and_one_that_takes_them_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not raylet_is_gone(host("127.0.0.1", port=port))
    assert raylet_is_gone(host("127.0.0.1", port=port))
    assert not raylet_is_gone(host("127.0.0.1", port=0))
