"""Which image an archive holds, told without loading it, and what is wrong with one that holds none."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from airlane.launch.image_archive import ArchiveError, Unpacked, kind_of, read_facts, stamp

CONFIG = "c" * 64
LAYER = bytes(range(256)) * 8192


def tar_of(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def docker_files(*configs: str) -> dict[str, bytes]:
    entries = [{"Config": f"{config}.json", "RepoTags": ["a:1"], "Layers": ["l/layer.tar"]} for config in configs]
    return {"l/layer.tar": LAYER, f"{configs[0]}.json": b"{}", "manifest.json": json.dumps(entries).encode()}


def oci_files() -> tuple[dict[str, bytes], str]:
    """An image inside an index of its own, as multi-platform tools write it."""
    manifest = json.dumps({"config": {"digest": f"sha256:{CONFIG}"}}).encode()
    digest = hashlib.sha256(manifest).hexdigest()
    inner = json.dumps({"manifests": [{"digest": f"sha256:{digest}"}]}).encode()
    inner_digest = hashlib.sha256(inner).hexdigest()
    index = json.dumps({"manifests": [{"digest": f"sha256:{inner_digest}"}]}).encode()
    files = {
        f"blobs/sha256/{digest}": manifest,
        f"blobs/sha256/{inner_digest}": inner,
        "blobs/sha256/layer": LAYER,
        "index.json": index,
        "oci-layout": b"{}",
    }
    return files, digest


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_configuration_of_a_saved_image_is_found(tmp_path: Path, pack: type[bytes]) -> None:
    path = tmp_path / "image"
    path.write_bytes(pack(tar_of(docker_files(CONFIG))))
    facts = read_facts(str(path))
    assert (facts.config, facts.manifests) == (f"sha256:{CONFIG}", ())


def test_an_oci_layout_names_its_manifests_too(tmp_path: Path) -> None:
    files, digest = oci_files()
    path = tmp_path / "image.tar"
    path.write_bytes(tar_of({f"./{name}": content for name, content in files.items()}))
    facts = read_facts(str(path))
    assert facts.config == f"sha256:{CONFIG}"
    assert facts.manifests[-1] == f"sha256:{digest}"


def test_what_newer_engines_save_is_both(tmp_path: Path) -> None:
    files, digest = oci_files()
    files["manifest.json"] = json.dumps([{"Config": f"blobs/sha256/{CONFIG}", "RepoTags": None, "Layers": []}]).encode()
    path = tmp_path / "image.tar.gz"
    path.write_bytes(gzip.compress(tar_of(files)))
    facts = read_facts(str(path))
    assert facts.config == f"sha256:{CONFIG}"
    assert f"sha256:{digest}" in facts.manifests


def test_reading_tells_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "image.tar.gz"
    path.write_bytes(gzip.compress(tar_of(docker_files(CONFIG))))
    told: list[int] = []
    read_facts(str(path), told.append)
    assert told[-1] == path.stat().st_size
    assert told == sorted(told)


WHOLE = tar_of(docker_files(CONFIG))
DAMAGED = [
    ("is empty", b""),
    ("is neither a tar file (plain or gzip), nor squashfs, nor SIF", b"hello" * 200),
    ("is damaged or cut off", gzip.compress(WHOLE)[:-2000]),
    ("is damaged or cut off", WHOLE[: len(WHOLE) // 2]),
    ("holds no image: there is no manifest.json and no index.json in it", tar_of({"a": b"b"})),
    ("holds 2 images; save the one to run alone", tar_of(docker_files(CONFIG, "d" * 64))),
    ("has a manifest that cannot be read", tar_of({"manifest.json": b"[1]"})),
    ("has a manifest that cannot be read", tar_of({"manifest.json": b"[{]"})),
    ("names its configuration 'x', which is not a digest", tar_of({"manifest.json": b'[{"Config": "x"}]'})),
    ("holds 0 images; save the one to run alone", tar_of({"index.json": b'{"manifests": [{"digest": "sha256:0"}]}'})),
    ("is a sqsh file, not what docker save writes", b"hsqs" + b"\0" * 600),
    ("is a sif file, not what docker save writes", b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0" + b"\0" * 600),
]


@pytest.mark.parametrize(("words", "content"), DAMAGED, ids=[f"{n} {row[0]}" for n, row in enumerate(DAMAGED)])
def test_what_holds_no_image_is_told_by_what_is_wrong(tmp_path: Path, words: str, content: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(content)
    with pytest.raises(ArchiveError) as caught:
        read_facts(str(path))
    assert str(caught.value).startswith(words)


def test_a_folder_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        kind_of(str(tmp_path))


def test_a_gzip_file_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a" * 3_000_000) + gzip.compress(b"") + gzip.compress(b"b"))
    with path.open("rb") as file:
        unpacked = Unpacked(file)
        assert unpacked.read(10) == b"a" * 10
        assert unpacked.read() == b"a" * 2_999_990 + b"b"


def test_an_archive_that_is_written_again_has_another_stamp(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(b"1")
    before = stamp(str(path))
    path.write_bytes(b"12")
    assert stamp(str(path)) != before
