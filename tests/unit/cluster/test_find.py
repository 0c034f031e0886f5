"""Which cluster is meant, and with which token: what people and programs set, in every form."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.cluster.find import RayCluster, dashboard_url, find_cluster, find_token
from airlane.errors import AirError, ConfigError, NotFoundError

URL = "http://10.0.0.1:8265"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment whose home has no token."""
    return {"HOME": str(tmp_path)}


def found(env: dict[str, str], address: str | None = None, token_file: Path | None = None) -> RayCluster:
    return find_cluster(address=address, token_file=token_file, env=env)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://10.0.0.1:8265", URL),
        ("http://10.0.0.1:8265/", URL),
        ("10.0.0.1:8265", URL),
        ("head:31473", "http://head:31473"),
        ("https://ray.lab.example", "https://ray.lab.example"),
        ("https://lab.example/ray/", "https://lab.example/ray"),
        ("[fd00::1]:8265", "http://[fd00::1]:8265"),
        ("http://[fd00::1]:8265", "http://[fd00::1]:8265"),
    ],
)
def test_the_address_of_a_dashboard_becomes_a_url(address: str, url: str, env: dict[str, str]) -> None:
    assert found(env, address) == RayCluster(url, None, "address")


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("10.0.0.1:6379", "the GCS"),
        ("http://10.0.0.1:6379", "the GCS"),
        ("10.0.0.1:10001", "client server"),
        ("ray://10.0.0.1:10001", "client server"),
        ("ray://10.0.0.1", "client server"),
        ("ray://[fd00::1]:10001", "client server"),
    ],
)
def test_another_address_of_a_cluster_is_explained_with_the_one_to_try(address: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dashboard_url(address, "address")
    host = "[fd00::1]" if "fd00" in address else "10.0.0.1"
    assert caught.value.message.startswith(f"address is {address}: ")
    assert what in caught.value.message
    assert f'"http://{host}:8265"' in str(caught.value.hint)


@pytest.mark.parametrize(
    "address",
    [
        "auto",
        "local",
        "",
        "http://",
        "ftp://head:8265",
        "http://head:port",
        "head:99999",
        "a b:8265",
        "http://h:8265?x=1",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dashboard_url(address, "address")
    assert repr(address) in caught.value.message
    assert "http://" in str(caught.value.hint)


def test_a_host_without_a_port_is_not_taken_for_one_with_the_usual_port() -> None:
    with pytest.raises(ConfigError, match="without a port") as caught:
        dashboard_url("10.0.0.1", "address")
    assert "http://10.0.0.1:8265" in str(caught.value.hint)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        dashboard_url("https://ada:s3cret@ray.lab.example", "address")
    assert "s3cret" not in f"{caught.value.message} {caught.value.hint}"


def test_the_profile_goes_before_the_variables_and_the_api_servers_before_rays(env: dict[str, str]) -> None:
    env |= {"RAY_API_SERVER_ADDRESS": "http://api:8265", "RAY_ADDRESS": "http://ray:8265"}
    assert found(env, "http://profile:8265").where == "address"
    assert found(env) == RayCluster("http://api:8265", None, "RAY_API_SERVER_ADDRESS")
    del env["RAY_API_SERVER_ADDRESS"]
    assert found(env) == RayCluster("http://ray:8265", None, "RAY_ADDRESS")


@pytest.mark.parametrize("address", ["10.0.0.1:31472", "10.0.0.1:6379", "10.0.0.1"])
def test_ray_address_without_a_scheme_is_the_gcs_whatever_its_port(address: str, env: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"RAY_ADDRESS is .*the GCS") as caught:
        found({**env, "RAY_ADDRESS": address})
    assert "export RAY_API_SERVER_ADDRESS=http://10.0.0.1:8265" in str(caught.value.hint)


def test_ray_address_with_the_dashboards_usual_port_is_taken(env: dict[str, str]) -> None:
    assert found({**env, "RAY_ADDRESS": "10.0.0.1:8265"}).url == URL


def test_ray_address_auto_is_no_address_for_a_program_elsewhere(env: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="RAY_ADDRESS is 'auto'"):
        found({**env, "RAY_ADDRESS": "auto"})


def test_an_empty_variable_counts_as_unset(env: dict[str, str]) -> None:
    with pytest.raises(NotFoundError, match="nothing says which"):
        found({**env, "RAY_API_SERVER_ADDRESS": "", "RAY_ADDRESS": "", "RAY_AUTH_TOKEN": ""})


def test_a_single_word_is_the_name_of_a_cluster_of_ours(env: dict[str, str]) -> None:
    ours = RayCluster(URL, "token", "air ray up")
    names = {"research": ours, None: ours}
    assert find_cluster(address="research", token_file=None, env=env, named=names.get) is ours
    assert find_cluster(address=None, token_file=None, env=env, named=names.get) is ours
    with pytest.raises(NotFoundError, match="'head'") as caught:
        find_cluster(address="head", token_file=None, env=env, named=names.get)
    assert "air ray list" in str(caught.value.hint)
    with pytest.raises(NotFoundError, match="'head'"):
        found(env, "head")


def test_a_variable_goes_before_the_only_cluster_of_ours(env: dict[str, str]) -> None:
    env["RAY_API_SERVER_ADDRESS"] = "http://api:8265"
    ours = RayCluster(URL, "token", "air ray up")
    assert find_cluster(address=None, token_file=None, env=env, named=lambda _: ours).url == "http://api:8265"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_tokens_are_looked_for_where_the_profile_says_and_then_where_ray_looks(tmp_path: Path) -> None:
    own = write(tmp_path / "own token", "from-profile\n")
    named = write(tmp_path / "named", " from-path ")
    usual = write(tmp_path / ".ray" / "auth_token", "from-home\n")
    env = {"HOME": str(tmp_path), "RAY_AUTH_TOKEN": "from-variable", "RAY_AUTH_TOKEN_PATH": str(named)}
    cluster = found(env, "h:8265", own)
    assert (cluster.token, cluster.token_file) == ("from-profile", own)
    cluster = found(env, "h:8265")
    assert (cluster.token, cluster.token_file, cluster.token_from) == ("from-variable", None, "RAY_AUTH_TOKEN")
    del env["RAY_AUTH_TOKEN"]
    cluster = found(env, "h:8265")
    assert (cluster.token, cluster.token_file) == ("from-path", named)
    del env["RAY_AUTH_TOKEN_PATH"]
    cluster = found(env, "h:8265")
    assert (cluster.token, cluster.token_file, cluster.token_from) == ("from-home", usual, str(usual))


def test_a_cluster_without_a_token_needs_none(env: dict[str, str], tmp_path: Path) -> None:
    assert find_token(None, env) is None
    write(tmp_path / ".ray" / "auth_token", "")
    assert find_token(None, env) is None


def test_a_token_file_that_was_named_must_be_there(env: dict[str, str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(ConfigError, match=r"token_file .*gone: no such file or directory"):
        found(env, "h:8265", gone)
    with pytest.raises(ConfigError, match=r"gone \(RAY_AUTH_TOKEN_PATH\): no such file"):
        found({**env, "RAY_AUTH_TOKEN_PATH": str(gone)}, "h:8265")
    with pytest.raises(ConfigError, match="is empty"):
        found(env, "h:8265", write(gone, "\n"))


@pytest.mark.parametrize("content", ["one two", "first\nHost: evil", "tökén", "a\x1bb"])
def test_what_cannot_stand_in_a_header_is_no_token_and_is_not_shown(
    content: str, env: dict[str, str], tmp_path: Path
) -> None:
    for arguments in ({"token_file": write(tmp_path / "token", content)}, {}):
        with pytest.raises(ConfigError, match="holds no token") as caught:
            found({**env, "RAY_AUTH_TOKEN": content}, "h:8265", **arguments)
        assert content not in f"{caught.value.message} {caught.value.hint}"


def test_a_token_of_bytes_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not text"):
        found(env, "h:8265", tmp_path / "token")


def test_no_repr_shows_a_token(env: dict[str, str]) -> None:
    env |= {"RAY_AUTH_TOKEN": "s3cret"}
    cluster, token = found(env, "h:8265"), find_token(None, env)
    assert cluster.token == env["RAY_AUTH_TOKEN"]
    assert "s3cret" not in f"{cluster!r} {token!r}"


def test_every_refusal_says_what_to_do_next(env: dict[str, str], tmp_path: Path) -> None:
    refused: list[tuple[str | None, dict[str, str]]] = [
        ("auto", {}),
        ("h:6379", {}),
        ("name", {}),
        (None, {}),
        (None, {"RAY_ADDRESS": "h:6379"}),
        ("h:8265", {"RAY_AUTH_TOKEN_PATH": str(tmp_path)}),
    ]
    for address, variables in refused:
        with pytest.raises(AirError) as caught:
            found({**env, **variables}, address)
        assert caught.value.hint, address
