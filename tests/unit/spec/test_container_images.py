"""What `docker_image.url` may name: a reference, or an archive that its first bytes confirm."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from airlane.errors import Problem
from airlane.spec.profiles import load_profile

from .conftest import Read, Refuse

REFERENCES = (
    "ubuntu",
    "ghcr.io/me/train:1.2",
    "localhost:5000/a/b/c:latest",
    "nvcr.io/nvidia/pytorch@sha256:" + "a" * 64,
)


def image(url: str) -> str:
    return f"environment:\n  docker_image:\n    url: {url}"


def only(problems: tuple[Problem, ...]) -> Problem:
    (problem,) = problems
    return problem


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_is_taken_as_it_is(read: Read, reference: str) -> None:
    docker_image = read(image(reference)).workload.environment.docker_image
    assert docker_image is not None
    assert docker_image.url == reference


@pytest.mark.parametrize(
    "reference", ["train image", "Me/Train", "https://registry.example/me/train", "./train", "a:b:c"]
)
def test_what_is_no_reference_is_refused(refuse: Refuse, reference: str) -> None:
    assert "expected an image's reference, or an archive" in only(refuse(image(reference))).message


def test_an_archive_is_looked_for_beside_the_file(read: Read, folder: Path) -> None:
    with tarfile.open(folder / "image.tar", "w"):
        pass
    with tarfile.open(folder / "image.tar", "w") as tar:
        tar.add(folder / "a file", "a file")
    docker_image = read(image("image.tar")).workload.environment.docker_image
    assert docker_image is not None
    assert docker_image.url == str(folder / "image.tar")


def test_an_archive_that_is_not_there_is_refused_at_its_line(refuse: Refuse, folder: Path) -> None:
    problem = only(refuse(image("none.tar.gz")))
    assert (problem.field, problem.message) == (
        "environment.docker_image.url",
        f"there is no file {folder / 'none.tar.gz'}",
    )
    assert problem.line is not None


def test_a_file_that_only_has_the_name_of_an_archive_is_refused(refuse: Refuse, folder: Path) -> None:
    (folder / "image.tar").write_text("no tar")
    assert "is neither a tar file (plain or gzip), nor squashfs, nor SIF" in only(refuse(image("image.tar"))).message
    (folder / "image.tar").write_bytes(b"")
    assert only(refuse(image("image.tar"))).message.endswith("is empty")


def test_an_archive_of_another_kind_than_its_name_says_is_refused(refuse: Refuse, folder: Path) -> None:
    (folder / "image.sif").write_bytes(b"hsqs" + b"\0" * 100)
    problem = only(refuse(image("image.sif")))
    assert (problem.message, problem.hint) == (
        f"{folder / 'image.sif'} is a sqsh file, whatever its name says",
        "call it NAME.sqsh",
    )


def test_a_profile_says_how_containers_run(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[profiles.a]\ncontainer = "podman"\nmounts = ["/fsx", "/data:ro", "/a:/b", "/c:/d:ro"]\n'
        'container_args = ["--privileged"]\n'
    )
    profile = load_profile("a", {"AIR_CONFIG": str(file)})
    assert profile.container == "podman"
    assert profile.mounts == ("/fsx:/fsx", "/data:/data:ro", "/a:/b", "/c:/d:ro")
    assert profile.container_args == ("--privileged",)
