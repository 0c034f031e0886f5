"""What a job brings along: which files, packed how, and a name that is that of their content."""

from __future__ import annotations

import os
import socket
import stat
import zipfile
from pathlib import Path

import pytest

from airlane.cluster import job_package
from airlane.cluster.job_package import Content, JobPackage, PackedFile, find_content, largest, pack
from airlane.errors import SnapshotError


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "my cödé"
    root.mkdir()
    return root


def write(root: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def names(content: Content) -> list[str]:
    return [file.name for file in content.files]


def packed(root: Path, into: Path, *, top: str = "") -> JobPackage:
    return pack(find_content(root), into, top=top)


def test_everything_goes_along_but_what_ray_and_ignore_files_leave_out(code: Path) -> None:
    write(code, "train.py", "a/b/c.txt", "ünï/x y", ".hidden", "run.log", "notes.md", "data/big", "data/small")
    write(code, ".git/config", ".venv/x", "venv/x", "a/__pycache__/c.pyc", "a/.git")
    (code / ".gitignore").write_text("*.log\n")
    (code / ".rayignore").write_text("notes.md\n")
    (code / "data" / ".rayignore").write_text("/big\n")
    content = find_content(code)
    assert names(content) == [
        ".gitignore",
        ".hidden",
        ".rayignore",
        "a/b/c.txt",
        "data/.rayignore",
        "data/small",
        "train.py",
        "ünï/x y",
    ]
    assert content.skipped == ()


def test_excludes_of_the_runtime_environment_are_patterns_too(code: Path) -> None:
    write(code, "train.py", "docs/x", "a.bin", "deep/a.bin")
    assert names(find_content(code, excludes=["docs/", "/a.bin"])) == ["deep/a.bin", "train.py"]


def test_what_one_file_leaves_out_no_other_brings_back(code: Path) -> None:
    write(code, "a.log")
    (code / ".gitignore").write_text("*.log\n")
    (code / ".rayignore").write_text("!a.log\n")
    assert "a.log" not in names(find_content(code))


def test_gitignore_files_need_not_count(code: Path) -> None:
    write(code, "a.log")
    (code / ".gitignore").write_text("*.log\n")
    assert "a.log" in names(find_content(code, git=False))


def test_links_are_followed_but_for_those_that_lead_nowhere_or_back(code: Path) -> None:
    write(code, "real/file.txt", text="content")
    (code / "link.txt").symlink_to("real/file.txt")
    (code / "folder").symlink_to("real")
    (code / "dangling").symlink_to("nowhere")
    (code / "real" / "loop").symlink_to("..")
    (code / "self").symlink_to("self")
    content = find_content(code)
    assert names(content) == ["folder/file.txt", "link.txt", "real/file.txt"]
    assert content.skipped == (
        "dangling is a link that leads nowhere",
        "folder/loop/ leads back to a folder above it",
        "real/loop/ leads back to a folder above it",
        "self is a link that leads nowhere",
    )


def test_what_is_no_file_or_has_a_name_that_ray_leaves_out_is_told(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(code, "good.py")
    (code / "back\\slash").write_text("x")
    (code / os.fsdecode(b"not-utf8-\xff")).write_text("x")
    os.mkfifo(code / "pipe")
    monkeypatch.chdir(code)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("socket")
    content = find_content(code)
    assert names(content) == ["good.py"]
    assert content.skipped == (
        r"'back\\slash' has a name that Ray leaves out",
        r"'not-utf8-\udcff' has a name that Ray leaves out",
        "pipe is no file",
        "socket is no file",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every folder: needs an ordinary user")
def test_a_folder_that_cannot_be_read_is_an_error_and_named(code: Path) -> None:
    (code / "locked").mkdir(mode=0o000)
    with pytest.raises(SnapshotError, match=r"locked cannot be read: Permission denied"):
        find_content(code)


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(SnapshotError, match=r"^/no/such/folder cannot be read: No such file or directory$"):
        find_content(Path("/no/such/folder"))


def test_modes_links_and_empty_folders_are_packed_as_ray_unpacks_them(code: Path, tmp_path: Path) -> None:
    write(code, "tool.sh", "data.txt", text="content")
    (code / "tool.sh").chmod(0o755)
    (code / "data.txt").chmod(0o640)
    (code / "link").symlink_to("tool.sh")
    (code / "empty" / "inner").mkdir(parents=True)
    package = packed(code, tmp_path / "p.zip")
    with zipfile.ZipFile(package.path) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert archive.read("link") == b"content"
    assert modes == {
        "empty/inner/": stat.S_IFDIR | 0o755,
        "data.txt": stat.S_IFREG | 0o640,
        "link": stat.S_IFREG | 0o755,
        "tool.sh": stat.S_IFREG | 0o755,
    }
    assert (package.files, package.size_bytes) == (3, 21)


def test_the_name_is_that_of_the_content_and_of_nothing_else(code: Path, tmp_path: Path) -> None:
    write(code, "train.py", "lib/x.py")
    first = packed(code, tmp_path / "1.zip").uri
    os.utime(code / "train.py", (1, 1))
    write(code, ".git/objects/new", "lib/__pycache__/x.pyc")
    assert packed(code, tmp_path / "2.zip").uri == first
    other = tmp_path / "elsewhere"
    write(other, "train.py", "lib/x.py")
    assert packed(other, tmp_path / "3.zip").uri == first
    assert first.startswith("gcs://_ray_pkg_")
    assert first.endswith(".zip")


def test_whatever_changes_in_the_content_changes_the_name(code: Path, tmp_path: Path) -> None:
    write(code, "train.py", "lib/x.py")
    (code / ".rayignore").write_text(".*\n")  # with this, Ray's own name is the same for every content
    uris: list[str] = []

    def name_it() -> None:
        uris.append(packed(code, tmp_path / f"{len(uris)}.zip").uri)

    name_it()
    (code / "train.py").write_text("y")
    name_it()
    (code / "lib" / "x.py").rename(code / "lib" / "y.py")
    name_it()
    (code / "train.py").chmod(0o755)
    name_it()
    (code / "new").mkdir()
    name_it()
    (code / "lib" / "y.py").unlink()
    name_it()
    assert len(set(uris)) == len(uris)


def test_a_module_is_packed_with_its_folder(code: Path, tmp_path: Path) -> None:
    write(code, "__init__.py", "x/y.py")
    (code / "empty").mkdir()
    package = packed(code, tmp_path / "p.zip", top="mylib")
    assert zipfile.ZipFile(package.path).namelist() == ["mylib/empty/", "mylib/__init__.py", "mylib/x/y.py"]


def test_packing_tells_how_far_it_is(code: Path, tmp_path: Path) -> None:
    write(code, "a", "b", text="x" * 1_500_000)
    told: list[tuple[int, int]] = []
    pack(find_content(code), tmp_path / "p.zip", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (3_000_000, 3_000_000)
    assert told == sorted(told)


def test_what_is_too_large_is_refused_while_it_is_packed_naming_the_largest(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_package, "MOST_PACKAGE_BYTES", 2_000_000)
    noise = os.urandom(3_000_000)
    write(code, "train.py", "a/small.txt")
    (code / "data" / "train" / "images").mkdir(parents=True)
    (code / "data" / "train" / "images" / "1.bin").write_bytes(noise)
    (code / "z.bin").write_bytes(noise[:500_000])
    with pytest.raises(SnapshotError) as caught:
        packed(code, tmp_path / "p.zip")
    assert caught.value.message.splitlines()[1:] == [
        "        3.0 MB  data/train/images/1.bin",
        "        0.5 MB  z.bin",
        "        0.0 MB  a/small.txt",
        "        0.0 MB  train.py",
    ]
    assert "it takes 2.0 MB at most, and this is 3.5 MB before" in caught.value.message
    assert (tmp_path / "p.zip").stat().st_size < 3_000_000
    assert ".rayignore" in str(caught.value.hint)


def test_what_compresses_well_may_be_larger_than_the_limit(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_package, "MOST_PACKAGE_BYTES", 2_000_000)
    write(code, "zeros", text="0" * 5_000_000)
    assert packed(code, tmp_path / "p.zip").size_bytes == 5_000_000


def test_many_small_files_are_named_by_the_folder_that_holds_them() -> None:
    files = [PackedFile(f"objects/{n:02x}/{n}", "", 0, 1000) for n in range(200)]
    files += [PackedFile("train.py", "", 0, 10), PackedFile("lib/a.py", "", 0, 600), PackedFile("lib/b.py", "", 0, 500)]
    assert largest(files) == [("objects/", 200_000), ("lib/", 1100), ("train.py", 10)]


def test_a_file_that_is_gone_before_it_is_packed_is_named(code: Path, tmp_path: Path) -> None:
    write(code, "train.py")
    content = find_content(code)
    (code / "train.py").unlink()
    with pytest.raises(SnapshotError, match=r"train\.py cannot be packed: No such file or directory"):
        pack(content, tmp_path / "p.zip")
