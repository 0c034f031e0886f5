"""Which cluster a command means: what was named, a profile's, that of Ray's variables, or the only one of ours."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from airlane.api import tunnel
from airlane.api.client import Client
from airlane.api.clusters import Dashboard
from airlane.api.ray_target import JobTarget, Reached, reach
from airlane.errors import ArgumentError, BackendError, ConfigError, NotFoundError
from airlane.spec.profiles import Profile
from airlane.store.states import State

URL = "http://127.0.0.1:28265"


@dataclass
class MadeCluster:
    id: str
    token_file: Path
    relay: tuple[str, ...] = ()
    state: State = State.RUNNING

    @property
    def run(self) -> MadeCluster:
        return self

    def view(self) -> MadeCluster:
        return self

    def dashboard(self) -> Dashboard:
        return Dashboard("gpu-b16", URL.removeprefix("http://"), self.token_file, self.relay)


@dataclass
class MadeClient:
    profile: Profile = field(default_factory=lambda: Profile("local"))
    running: list[MadeCluster] = field(default_factory=list)

    @property
    def clusters(self) -> MadeClient:
        return self

    def list(self) -> list[MadeCluster]:
        return self.running

    def find(self, name: str | None) -> MadeCluster:
        for cluster in self.running:
            if name in (None, cluster.id):
                return cluster
        raise NotFoundError(f"there is no run {name}")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("t0k3n\n")
    return file


def reached(client: MadeClient, target: JobTarget, **env: str) -> Reached:
    with contextlib.ExitStack() as ways:
        return reach(cast("Client", client), target, {"HOME": "/nonexistent", **env}, ways)


def header(found: Reached) -> Any:
    return found.dashboard._headers.get("Authorization")


def ray_profile(**options: Any) -> Profile:
    return Profile("ray", backend="ray", options=options)


def test_an_address_needs_nothing_else(token_file: Path) -> None:
    client = MadeClient(running=[MadeCluster("7k2m", token_file)])
    found = reached(client, JobTarget(address="http://h:1"), RAY_API_SERVER_ADDRESS="http://other:2")
    assert (found.dashboard.url, found.again, header(found)) == ("http://h:1", " --address http://h:1", None)


def test_a_token_of_rays_own_variables_goes_with_an_address(token_file: Path) -> None:
    found = reached(MadeClient(), JobTarget(address="h:1"), RAY_AUTH_TOKEN_PATH=str(token_file))
    assert header(found) == "Bearer t0k3n"


def test_a_profile_has_the_address_and_the_token(token_file: Path) -> None:
    client = MadeClient(ray_profile(address="http://h:1", token_file=str(token_file), autoscales=True))
    found = reached(client, JobTarget(profile="ray"), RAY_API_SERVER_ADDRESS="http://other:2")
    assert (found.dashboard.url, header(found), found.again, found.grows) == (
        "http://h:1",
        "Bearer t0k3n",
        " -p ray",
        True,
    )


def test_the_default_profile_counts_when_it_is_a_ray_cluster(token_file: Path) -> None:
    client = MadeClient(ray_profile(address="http://h:1", token_file=str(token_file)))
    found = reached(client, JobTarget(), RAY_ADDRESS="http://other:2")
    assert (found.dashboard.url, found.again) == ("http://h:1", "")


def test_the_token_of_a_profile_that_was_not_asked_for_goes_nowhere_else(token_file: Path) -> None:
    client = MadeClient(ray_profile(address="http://h:1", token_file=str(token_file)))
    assert header(reached(client, JobTarget(address="http://elsewhere:1"))) is None
    assert header(reached(client, JobTarget(address="http://moved:1", profile="ray"))) == "Bearer t0k3n"


def test_rays_variables_come_before_a_cluster_of_ours(token_file: Path) -> None:
    client = MadeClient(running=[MadeCluster("7k2m", token_file)])
    assert reached(client, JobTarget(), RAY_API_SERVER_ADDRESS="http://h:1").dashboard.url == "http://h:1"
    assert reached(client, JobTarget(), RAY_ADDRESS="http://h:2").dashboard.url == "http://h:2"
    with pytest.raises(ConfigError, match="GCS"):
        reached(client, JobTarget(), RAY_ADDRESS="h:6379")


def test_the_only_cluster_of_ours_needs_no_name(token_file: Path) -> None:
    found = reached(MadeClient(running=[MadeCluster("7k2m", token_file)]), JobTarget())
    assert (found.dashboard.url, header(found)) == (URL, "Bearer t0k3n")


def test_a_cluster_of_ours_is_found_by_its_name_whatever_rays_variables_say(token_file: Path) -> None:
    client = MadeClient(running=[MadeCluster("a", token_file), MadeCluster("b", token_file)])
    found = reached(client, JobTarget(cluster="b"), RAY_API_SERVER_ADDRESS="http://h:1")
    assert (found.dashboard.url, header(found), found.again) == (URL, "Bearer t0k3n", " --cluster b")
    with pytest.raises(NotFoundError):
        reached(client, JobTarget(cluster="c"))


def test_of_a_cluster_of_ours_it_is_known_whether_it_has_ended(token_file: Path) -> None:
    cluster = MadeCluster("7k2m", token_file)
    found = reached(MadeClient(running=[cluster]), JobTarget())
    assert found.ended is not None
    assert found.ended() is None
    cluster.state = State.CANCELED
    assert str(found.ended()) == "the cluster of run 7k2m has ended (CANCELED)"
    assert reached(MadeClient(), JobTarget(address="http://h:1")).ended is None


def test_a_profile_of_another_backend_means_the_cluster_there(token_file: Path) -> None:
    client = MadeClient(Profile("hpc", backend="slurm"), [MadeCluster("7k2m", token_file)])
    found = reached(client, JobTarget(profile="hpc"), RAY_API_SERVER_ADDRESS="http://h:1")
    assert (found.dashboard.url, found.again) == (URL, " -p hpc")
    client.running.clear()
    with pytest.raises(NotFoundError, match="there is no Ray cluster"):
        reached(client, JobTarget(profile="hpc"))


def test_where_nothing_names_a_cluster_it_is_said_how_to() -> None:
    with pytest.raises(NotFoundError, match="nothing says which Ray cluster") as caught:
        reached(MadeClient(), JobTarget())
    assert "--address http://HEAD:8265" in str(caught.value.hint)
    assert "air ray up" in str(caught.value.hint)


def test_a_cluster_is_not_named_twice() -> None:
    with pytest.raises(ArgumentError, match="exclude each other"):
        reached(MadeClient(), JobTarget(address="http://h:1", cluster="b"))


def test_a_cluster_whose_token_is_gone_has_ended(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="the token of cluster 7k2m is gone") as caught:
        reached(MadeClient(running=[MadeCluster("7k2m", tmp_path / "none")]), JobTarget())
    assert caught.value.hint == "air ray status 7k2m"


def test_a_cluster_on_another_machine_is_reached_by_a_tunnel_that_is_closed_again(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    class MadeTunnel:
        def close(self) -> None:
            closed.append(True)

    asked: list[dict[str, Any]] = []

    def opened(port: int, **way: Any) -> MadeTunnel:
        asked.append({"port": port, **way})
        return MadeTunnel()

    monkeypatch.setattr(tunnel, "open_tunnel", opened)
    client = MadeClient(running=[MadeCluster("7k2m", token_file, relay=("srun", "relay"))])
    found = reached(client, JobTarget())
    (way,) = asked
    assert (way["host"], way["dashboard"], way["relay"]) == ("gpu-b16", "127.0.0.1:28265", ("srun", "relay"))
    assert found.dashboard.url == f"http://127.0.0.1:{way['port']}"
    assert closed == [True]
    with pytest.raises(BackendError, match=r"^the dashboard of cluster 7k2m on gpu-b16 "):
        found.dashboard.get("/")
