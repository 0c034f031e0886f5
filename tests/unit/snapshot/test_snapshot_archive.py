"""Packing and unpacking: the same tree comes out, under the same name, or nothing does."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from airlane.errors import SnapshotError
from airlane.snapshot import CodeRequest, pack, plan, unpack
from airlane.snapshot.model import Kind
from airlane.snapshot.tarstream import END, TarReader, header, padding

Git = Callable[..., str]
Write = Callable[[Path, dict[str, str | bytes]], None]
Tree = dict[bytes, tuple[str, int, bytes]]


def tree_of(root: Path) -> Tree:
    """Every path below a folder: kind, permission bits, and content or target."""
    base = os.fsencode(root)
    found: Tree = {}
    for folder, folders, files in os.walk(base):
        for name in folders + files:
            path = folder + b"/" + name
            mode = os.lstat(path).st_mode & 0o777
            if os.path.islink(path):  # noqa: PTH114 - paths are bytes here
                found[path[len(base) :]] = ("link", mode, os.readlink(path))  # noqa: PTH115
            elif name in folders:
                found[path[len(base) :]] = ("folder", mode, b"")
            else:
                found[path[len(base) :]] = ("file", mode, Path(os.fsdecode(path)).read_bytes())
    return found


def round_trip(root: Path, place: Path) -> Path:
    frozen = plan(CodeRequest(root))
    pack(frozen, place / "a.tar.zst")
    return unpack(place / "a.tar.zst", place / "out")


@pytest.fixture
def rich(project: Path, write: Write) -> Path:
    """A folder with a bit of everything that a snapshot can hold."""
    write(
        project,
        {
            "run.sh": "#!/bin/sh\n",
            "secret.txt": "x",
            "empty": "",
            "no/files/here/": "",
            "read-only/a": "1",
            "block": b"x" * 512,
            "chunk": b"y" * (1 << 20),
            "large": os.urandom((1 << 20) * 2 + 7),
            "/".join(["a rather long name"] * 10): "deep",
            os.fsdecode(b"b\xff\nytes"): "strange",
        },
    )
    (project / "run.sh").chmod(0o755)
    (project / "secret.txt").chmod(0o640)
    (project / "read-only/a").chmod(0o444)
    (project / "read-only").chmod(0o555)
    (project / "link").symlink_to("no//files/./here")
    (project / "dangling").symlink_to("x" * 150)
    (project / "to folder").symlink_to("read-only")
    return project


def test_what_comes_out_is_what_went_in(rich: Path, tmp_path: Path) -> None:
    root = round_trip(rich, tmp_path)
    assert root == tmp_path / "out" / rich.name
    assert tree_of(root) == tree_of(rich)


def test_modes_are_kept_whatever_the_umask(rich: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert tree_of(round_trip(rich, tmp_path)) == tree_of(rich)
    finally:
        os.umask(before)


_names = (
    some.binary(min_size=1, max_size=12)
    .filter(lambda name: not {0, ord("/")} & set(name))
    .map(
        lambda name: b"n" + name  # never ".", ".." or ".gitignore"
    )
)
_leaves = some.tuples(
    some.just("file"), some.sampled_from([0o644, 0o755, 0o600, 0o444]), some.binary(max_size=2000)
) | (some.tuples(some.just("link"), some.just(0o777), _names))
_trees = some.recursive(
    some.dictionaries(_names, _leaves, max_size=4), lambda below: some.dictionaries(_names, _leaves | below, max_size=4)
)


def grow(folder: bytes, tree: dict[bytes, object]) -> None:
    for name, what in tree.items():
        path = folder + b"/" + name
        if isinstance(what, dict):
            os.mkdir(path)  # noqa: PTH102 - paths are bytes here
            grow(path, what)
        else:
            assert isinstance(what, tuple)
            kind, mode, content = what
            if kind == "link":
                os.symlink(content, path)  # noqa: PTH211
            else:
                Path(os.fsdecode(path)).write_bytes(content)
                Path(os.fsdecode(path)).chmod(mode)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=_trees)
def test_any_tree_survives_and_is_named_by_its_content(tmp_path: Path, tree: dict[bytes, object]) -> None:
    place = tmp_path / os.urandom(8).hex()
    root = place / "root"
    root.mkdir(parents=True)
    grow(os.fsencode(root), tree)
    out = round_trip(root, place)
    assert tree_of(out) == tree_of(root)
    assert plan(CodeRequest(out)).digest == plan(CodeRequest(root)).digest


def test_copies_have_the_same_digest_and_the_same_archive_whatever_their_times(rich: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / rich.name
    shutil.copytree(rich, copy, symlinks=True)
    for path in copy.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    one, other = plan(CodeRequest(rich)), plan(CodeRequest(copy))
    assert one.digest == other.digest
    pack(one, tmp_path / "one")
    pack(other, tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("change", ["content", "mode", "name", "link", "folder", "root"])
def test_any_difference_gives_another_digest(rich: Path, change: str) -> None:
    before = plan(CodeRequest(rich)).digest
    root = rich
    match change:
        case "content":
            (rich / "secret.txt").write_text("y")
        case "mode":
            (rich / "secret.txt").chmod(0o644)
        case "name":
            (rich / "secret.txt").rename(rich / "secret2.txt")
        case "link":
            (rich / "link").unlink()
            (rich / "link").symlink_to("no")
        case "folder":
            (rich / "another").mkdir()
        case _:
            root = rich.rename(rich.parent / "renamed")
    assert plan(CodeRequest(root)).digest != before


def test_archive_is_an_ordinary_tar_with_one_time_and_no_owner(rich: Path, tmp_path: Path) -> None:
    frozen = plan(CodeRequest(rich))
    pack(frozen, tmp_path / "a.tar.zst")
    with zstandard.open(tmp_path / "a.tar.zst") as plain, tarfile.open(fileobj=io.BytesIO(plain.read())) as archive:
        members = archive.getmembers()
        content = archive.extractfile(f"{rich.name}/large")
        assert content is not None
        assert content.read() == (rich / "large").read_bytes()
    assert {os.fsencode(member.name) for member in members} == {
        os.fsencode(rich.name),
        *(os.fsencode(rich.name) + b"/" + entry.path for entry in frozen.entries),
    }
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "", 315532800)}
    assert (tmp_path / "a.tar.zst").stat().st_mode & 0o777 == 0o600


def test_archive_that_exists_is_left_alone(rich: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("there already")
    pack(plan(CodeRequest(rich)), tmp_path / "a")
    assert (tmp_path / "a").read_text() == "there already"


@pytest.mark.parametrize("change", ["other content", "longer", "shorter", "gone", "a link", "a folder", "emptied"])
def test_file_that_changed_since_the_plan_is_named_and_nothing_is_left(rich: Path, tmp_path: Path, change: str) -> None:
    frozen = plan(CodeRequest(rich))
    file = rich / "large"
    size = file.stat().st_size
    if change == "other content":
        file.write_bytes(b"z" * size)
    elif change == "longer":
        with file.open("ab") as handle:
            handle.write(b"z")
    elif change == "shorter":
        os.truncate(file, size - 1)
    elif change == "emptied":
        os.truncate(file, 0)
    else:
        file.unlink()
    if change == "a link":
        file.symlink_to("chunk")
    if change == "a folder":
        file.mkdir()
    before = set(tmp_path.iterdir())
    with pytest.raises(SnapshotError, match="large changed while the code was being frozen") as caught:
        pack(frozen, tmp_path / "a.tar.zst")
    assert "run it again" in (caught.value.hint or "")
    assert set(tmp_path.iterdir()) == before


def test_file_that_grew_by_exactly_one_chunk_is_noticed(project: Path, write: Write, tmp_path: Path) -> None:
    write(project, {"a": b"1" * (1 << 20)})
    frozen = plan(CodeRequest(project))
    write(project, {"a": b"1" * (2 << 20)})
    with pytest.raises(SnapshotError, match="a changed"):
        pack(frozen, tmp_path / "a.tar.zst")


def test_archive_that_cannot_be_written_says_why(rich: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match=r"could not be written: (Not a directory|File exists)"):
        pack(plan(CodeRequest(rich)), tmp_path / "file" / "a.tar.zst")


def test_full_disk_leaves_nothing_behind_simulated_at_fsync(
    rich: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    frozen = plan(CodeRequest(rich))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SnapshotError, match="No space left on device"):
        pack(frozen, tmp_path / "store" / "a.tar.zst")
    assert list((tmp_path / "store").iterdir()) == []


def test_progress_is_told_up_to_the_end(rich: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    frozen = plan(CodeRequest(rich))
    pack(frozen, tmp_path / "a", lambda done, total: steps.append((done, total)))
    assert len(steps) >= 3
    assert steps == sorted(steps)
    assert steps[-1] == (frozen.size_bytes, frozen.size_bytes)
    assert {total for _, total in steps} == {frozen.size_bytes}


def test_folder_that_exists_is_not_written_into(rich: Path, tmp_path: Path) -> None:
    round_trip(rich, tmp_path)
    before = tree_of(tmp_path / "out")
    with pytest.raises(SnapshotError, match="File exists"):
        unpack(tmp_path / "a.tar.zst", tmp_path / "out")
    assert tree_of(tmp_path / "out") == before


def test_missing_archive_says_so(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"gone.tar.zst does not exist"):
        unpack(tmp_path / "gone.tar.zst", tmp_path / "out")


@pytest.mark.parametrize("damage", ["cut", "flipped", "no archive", "empty"])
def test_damaged_archive_is_refused_and_leaves_nothing(rich: Path, tmp_path: Path, damage: str) -> None:
    pack(plan(CodeRequest(rich)), tmp_path / "a")
    data = bytearray((tmp_path / "a").read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
    else:
        data = bytearray(b"no archive" if damage == "no archive" else b"")
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(SnapshotError, match="damaged"):
        unpack(tmp_path / "a", tmp_path / "out")
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def archive_of(place: Path, *members: tuple[bytes, Kind, bytes]) -> Path:
    """An archive with these members: path, kind, and content or target."""
    data = b""
    for path, kind, content in members:
        if kind is Kind.FILE:
            data += header(path, kind, 0o644, len(content), b"") + content + padding(len(content))
        else:
            data += header(path, kind, 0o755, 0, content)
    archive = place / "evil.tar.zst"
    archive.write_bytes(zstandard.compress(data + END))
    return archive


ROOT = (b"root", Kind.FOLDER, b"")


@pytest.mark.parametrize(
    "members",
    [
        [(b"..", Kind.FOLDER, b"")],
        [(b"a/b", Kind.FOLDER, b"")],
        [(b"/root", Kind.FOLDER, b"")],
        [(b"root", Kind.FILE, b"")],
        [ROOT, (b"root/../../evil", Kind.FILE, b"x")],
        [ROOT, (b"root/..", Kind.FOLDER, b"")],
        [ROOT, (b"/tmp/evil", Kind.FILE, b"x")],
        [ROOT, (b"other/evil", Kind.FILE, b"x")],
        [ROOT, (b"evil", Kind.FILE, b"x")],
        [ROOT, (b"root/no parent/evil", Kind.FILE, b"x")],
        [ROOT, (b"root/a", Kind.LINK, b"/etc")],
        [ROOT, (b"root/a", Kind.LINK, b"../..")],
        [ROOT, (b"root/a", Kind.LINK, b".."), (b"root/a/evil", Kind.FILE, b"x")],
        [ROOT, (b"root/a", Kind.LINK, b"."), (b"root/a/evil", Kind.FILE, b"x")],
        [ROOT, (b"root/a", Kind.FILE, b"1"), (b"root/a", Kind.FILE, b"2")],
        [ROOT, (b"root/a", Kind.FILE, b"1"), (b"root/a", Kind.LINK, b"b")],
        [ROOT, (b"root/d", Kind.FOLDER, b""), (b"root/d/", Kind.FILE, b"1")],
    ],
)
def test_archive_that_reaches_outside_is_refused_and_leaves_nothing(
    tmp_path: Path, members: list[tuple[bytes, Kind, bytes]]
) -> None:
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    archive = archive_of(tmp_path, *members)
    with pytest.raises(SnapshotError):
        unpack(archive, place)
    assert list((tmp_path / "a").rglob("*")) == [place]
    assert not Path("/tmp/evil").exists()


def test_sizes_beyond_eight_gigabytes_are_written_as_tar_reads_them() -> None:
    size = 20_000_000_000
    info = tarfile.TarInfo.frombuf(header(b"big", Kind.FILE, 0o644, size, b""), "utf-8", "strict")
    assert info.size == size


@pytest.mark.parametrize("junk", [b"\xff" * 512, b"x" * 511, b"a" * 1024])
def test_what_is_no_tar_is_refused(junk: bytes) -> None:
    with pytest.raises(SnapshotError, match="it is damaged"):
        list(TarReader(io.BytesIO(junk), "it"))


@pytest.mark.parametrize("pax", [b"nonsense\n", b"99 path=x\n", b"0 a=b\n", b"-5 path=x\n", b"12 size=abc\n"])
def test_pax_header_that_makes_no_sense_is_refused(pax: bytes) -> None:
    block = bytearray(header(b"x", Kind.FILE, 0o644, len(pax), b""))
    block[156:157] = b"x"
    block[148:156] = b" " * 8
    block[148:155] = b"%06o\0" % sum(block)
    data = bytes(block) + pax + padding(len(pax)) + header(b"file", Kind.FILE, 0o644, 0, b"") + END
    with pytest.raises(SnapshotError, match="it is damaged"):
        list(TarReader(io.BytesIO(data), "it"))
