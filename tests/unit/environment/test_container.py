"""What an image's run is planned to be: by whom, of which digest, and that an archive is read only once."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from airlane.environment import container
from airlane.environment.container import container_order, plan_image, runtime_words, with_digests
from airlane.errors import ConfigError, EnvironmentBuildError
from airlane.launch import image_archive
from airlane.spec.models import DockerImage
from airlane.spec.profiles import Profile
from airlane.store.paths import Home, RunPaths
from airlane.store.records import REGISTRY_LOGIN, ImageRecord

DIGEST = "c" * 64
LOCAL = Profile("local")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def archive(folder: Path, name: str = "image.tar.gz", digest: str = DIGEST) -> Path:
    manifest = json.dumps([{"Config": f"{digest}.json", "RepoTags": ["a:1"], "Layers": []}]).encode()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(manifest)
        tar.addfile(entry, io.BytesIO(manifest))
    path = folder / name
    path.write_bytes(gzip.compress(made.getvalue()) if name.endswith("gz") else made.getvalue())
    return path


def planned(url: str | Path, home: Home, profile: Profile = LOCAL, *, touch: bool = True) -> ImageRecord:
    return plan_image(DockerImage(url=str(url)), profile, home, touch=touch)


def test_a_reference_is_settled_without_a_look_at_anything(home: Home) -> None:
    profile = Profile("a", container="podman", mounts=("/a:/a",), container_args=("--privileged",))
    image = DockerImage(url="a/b:1", tag_policy="latest", credentials_scope="registry", credentials_key="login")
    record = plan_image(image, profile, home, touch=True)
    assert record == ImageRecord(
        "a/b:1",
        is_archive=False,
        runtime="podman",
        pull_always=True,
        credentials="registry/login",
        mounts=("/a:/a",),
        arguments=("--privileged",),
    )
    assert record.settled
    assert record.secrets == {REGISTRY_LOGIN: "registry/login"}
    assert not home.root.exists()


def test_an_archive_is_known_by_its_digest(home: Home, tmp_path: Path) -> None:
    path = archive(tmp_path)
    record = planned(path, home)
    assert record.digests == (f"sha256:{DIGEST}",)
    assert record.stamp == image_archive.stamp(str(path))
    assert record.settled


def test_an_archive_is_read_once_for_as_long_as_it_stays(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path)
    first = planned(path, home)
    monkeypatch.setattr(image_archive, "read_facts", lambda *_: pytest.fail("it was read again"))
    assert planned(path, home) == first
    monkeypatch.undo()
    archive(tmp_path, digest="d" * 64)
    assert planned(path, home).digests == (f"sha256:{'d' * 64}",)


def test_a_dry_run_keeps_nothing(home: Home, tmp_path: Path) -> None:
    planned(archive(tmp_path), home, touch=False)
    assert not home.root.exists()


def test_a_note_that_is_damaged_is_made_anew(home: Home, tmp_path: Path) -> None:
    path = archive(tmp_path)
    first = planned(path, home)
    (note,) = home.images.iterdir()
    note.write_text("{")
    assert planned(path, home) == first


def test_a_large_compressed_archive_is_read_after_the_submission(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_READ_AT_ONCE_BYTES", 10)
    path = archive(tmp_path)
    record = planned(path, home)
    assert not record.settled
    told: list[str] = []
    assert with_digests(record, home, progress=told.append).digests == (f"sha256:{DIGEST}",)
    assert told[-1].startswith("reading image.tar.gz: 100 % of ")
    assert planned(path, home).settled
    assert planned(archive(tmp_path, "image.tar"), home).settled, "a plain one costs a few seeks"


def test_a_damaged_archive_is_refused_with_how_to_make_it(home: Home, tmp_path: Path) -> None:
    path = archive(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(EnvironmentBuildError, match="is damaged or cut off") as caught:
        planned(path, home)
    assert caught.value.hint == "write it again: docker save IMAGE | gzip > image.tar.gz"
    path.unlink()
    with pytest.raises(EnvironmentBuildError, match="cannot be read: No such file"):
        planned(path, home)


def test_a_profile_without_containers_says_so(home: Home) -> None:
    with pytest.raises(ConfigError, match="the profile hpc runs no containers"):
        planned("a/b:1", home, Profile("hpc", container="none"))


@pytest.mark.parametrize(
    ("runtime", "name", "fitting"),
    [
        ("docker", "a.sif", "apptainer"),
        ("podman", "a.sqsh", "enroot"),
        ("enroot", "a.tar", "docker or podman or apptainer"),
    ],
)
def test_a_runtime_that_does_not_take_the_archive_is_refused(
    home: Home, tmp_path: Path, runtime: str, name: str, fitting: str
) -> None:
    with pytest.raises(ConfigError, match=f"{runtime} .* cannot run {tmp_path / name}") as caught:
        planned(tmp_path / name, home, Profile("hpc", container=runtime))
    assert caught.value.hint == f"set container in the profile to {fitting}, or name another image"


def test_a_runtimes_own_file_needs_no_manifest(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "a.sqsh"
    path.write_bytes(b"hsqs" + bytes(600))
    assert planned(path, home).digests == (f"sqsh:{image_archive.stamp(str(path))}",)


def test_the_order_names_the_runs_folder_and_the_login_by_name(home: Home) -> None:
    image = DockerImage(url="a/b:1", credentials_scope="registry", credentials_key="login")
    record = plan_image(image, Profile("a", mounts=("/a:/b:ro",)), home, touch=True)
    order = container_order(record, RunPaths(Path("/runs/7k2m9q4d")))
    assert order.folders == ("/runs/7k2m9q4d",)
    assert order.mounts == ("/a:/b:ro",)
    assert order.credentials == REGISTRY_LOGIN


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (ImageRecord("a", is_archive=False, runtime="podman"), "podman"),
        (
            ImageRecord("a", is_archive=False, runtime=None),
            "the first of docker, podman, apptainer, enroot on the node",
        ),
        (ImageRecord("/a.tar", is_archive=True, runtime=None), "the first of docker, podman, apptainer on the node"),
        (ImageRecord("/a.sif", is_archive=True, runtime=None), "apptainer"),
    ],
)
def test_what_runs_an_image_in_words(record: ImageRecord, words: str) -> None:
    assert runtime_words(record) == words
