"""Having an image: who runs it, how a registry is opened, and what Apptainer and Enroot make of it (never run here)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airlane.launch.container_image import (
    ImageError,
    NodeImages,
    choose_runtime,
    conversion_argv,
    last_words,
    logged_in,
    registry_of,
)
from airlane.launch.order import ContainerOrder

SECRETS = {"registry login": "ada:pass:word"}
PRIVATE = ContainerOrder(image="ghcr.io/me/train:1", credentials="registry login")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes stand-ins for runtimes the only programs in PATH."""

    def install(*names: str) -> None:
        for name in names:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return install


def test_the_first_runtime_that_takes_the_image_is_chosen(installed: Callable[..., None]) -> None:
    installed("podman", "apptainer")
    assert choose_runtime(None, "a/b:1", is_archive=False) == "podman"
    assert choose_runtime(None, "/a/b.tar", is_archive=True) == "podman"
    assert choose_runtime(None, "/a/b.sif", is_archive=True) == "apptainer"
    assert choose_runtime("apptainer", "a/b:1", is_archive=False) == "apptainer"


def test_a_node_without_a_fitting_runtime_says_what_it_looked_for(installed: Callable[..., None]) -> None:
    installed("docker")
    with pytest.raises(ImageError, match=r"no container runtime for /a/b\.sqsh on .*: looked for enroot"):
        choose_runtime(None, "/a/b.sqsh", is_archive=True)
    with pytest.raises(ImageError, match="podman is not installed on"):
        choose_runtime("podman", "a", is_archive=False)


@pytest.mark.parametrize(
    ("reference", "registry"),
    [
        ("ubuntu:24.04", "https://index.docker.io/v1/"),
        ("me/train", "https://index.docker.io/v1/"),
        ("docker.io/me/train", "https://index.docker.io/v1/"),
        ("ghcr.io/me/train:1", "ghcr.io"),
        ("localhost:5000/train", "localhost:5000"),
    ],
)
def test_the_registry_of_a_reference(reference: str, registry: str) -> None:
    assert registry_of(reference) == registry


@pytest.mark.parametrize(("runtime", "variable"), [("docker", "DOCKER_CONFIG"), ("podman", "REGISTRY_AUTH_FILE")])
def test_a_login_is_a_private_file_that_is_removed(runtime: str, variable: str) -> None:
    with logged_in(runtime, PRIVATE, SECRETS) as variables:
        named = Path(variables[variable])
        file = named / "config.json" if named.is_dir() else named
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert json.loads(file.read_text()) == {"auths": {"ghcr.io": {"auth": "YWRhOnBhc3M6d29yZA=="}}}
    assert not file.parent.exists()


def test_dockers_contexts_stay_within_reach_of_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "contexts").mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with logged_in("docker", PRIVATE, SECRETS) as variables:
        assert Path(variables["DOCKER_CONFIG"], "contexts").readlink() == tmp_path / "contexts"


def test_apptainer_and_enroot_log_in_their_own_way() -> None:
    with logged_in("apptainer", PRIVATE, SECRETS) as variables:
        assert variables == {"APPTAINER_DOCKER_USERNAME": "ada", "APPTAINER_DOCKER_PASSWORD": "pass:word"}
    with logged_in("enroot", PRIVATE, SECRETS) as variables:
        file = Path(variables["ENROOT_CONFIG_PATH"], ".credentials")
        assert file.read_text() == "machine ghcr.io login ada password pass:word\n"


def test_a_secret_that_is_no_login_is_refused_without_its_value() -> None:
    with (
        pytest.raises(ImageError, match="must be USER:PASSWORD") as caught,
        logged_in("docker", PRIVATE, {"registry login": "hunter2"}),
    ):
        pass
    assert "hunter2" not in str(caught.value)


def test_without_credentials_a_runtime_uses_the_users_own_login() -> None:
    with logged_in("docker", ContainerOrder(image="a"), {}) as variables:
        assert variables == {}


class StandInForARuntime:
    """Notes the command lines, and writes the file that a conversion is to make."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []

    def __call__(self, argv: list[str], **options: Any) -> str:  # noqa: ARG002 - as the real one is called
        self.lines.append(argv)
        for word in argv:
            if word.endswith(f".{os.getpid()}"):
                Path(word).write_text("made")
        return ""


@pytest.mark.parametrize(
    ("runtime", "source"),
    [("apptainer", "docker://ghcr.io/me/train:1"), ("enroot", "docker://ghcr.io#me/train:1")],
)
def test_a_stand_in_for_apptainer_and_enroot_prepares_a_reference_once(
    runtime: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stand_in = StandInForARuntime()
    images = NodeImages(runtime, stand_in, lambda _words: None)
    order = ContainerOrder(image="ghcr.io/me/train:1")
    made = images.ensure(order, {})
    assert images.ensure(order, {}) == made
    assert Path(made).read_text() == "made"
    assert stand_in.lines == [conversion_argv(runtime, source, f"{made}.{os.getpid()}")]


def test_a_stand_in_for_apptainer_unpacks_what_docker_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stand_in = StandInForARuntime()
    order = ContainerOrder(image="/a/b.tar.gz", is_archive=True, digests=("sha256:1",))
    made = NodeImages("apptainer", stand_in, lambda _words: None).ensure(order, {})
    assert stand_in.lines == [["apptainer", "build", f"{made}.{os.getpid()}", "docker-archive:/a/b.tar.gz"]]


@pytest.mark.parametrize(("runtime", "file"), [("apptainer", "/a/b.sif"), ("enroot", "/a/b.sqsh")])
def test_a_runtimes_own_file_is_run_as_it_is(runtime: str, file: str) -> None:
    order = ContainerOrder(image=file, is_archive=True, digests=("sif:1",))
    assert NodeImages(runtime, StandInForARuntime(), lambda _words: None).ensure(order, {}) == file


def test_the_words_of_a_runtime_are_cut_to_what_matters() -> None:
    assert last_words("a\n\nb\nRun 'docker run --help' for more information\n") == "a\nb"
    assert last_words("") == "it said nothing"
    assert len(last_words("x" * 5000)) == 600
