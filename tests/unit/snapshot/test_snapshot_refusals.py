"""What cannot be frozen is refused, all of it at once, by name."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import SnapshotError
from airlane.snapshot import CodeRequest, plan
from airlane.snapshot.links import escaping_links

Git = Callable[..., str]
Write = Callable[[Path, dict[str, str | bytes]], None]


def test_all_offenders_are_named_at_once(project: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"ok.py": "", "sub/": ""})
    (project / "absolute").symlink_to("/etc/passwd")
    (project / "sub/up").symlink_to("../../outside")
    os.mkfifo(project / "sub/pipe\n2")
    monkeypatch.chdir(project)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        with pytest.raises(SnapshotError) as caught:
            plan(CodeRequest(project))
    assert caught.value.message.splitlines() == [
        "4 paths cannot be packaged:",
        "  absolute is a symbolic link that leads outside, to /etc/passwd",
        "  sock is a socket",
        r"  'sub/pipe\n2' is a named pipe",
        "  sub/up is a symbolic link that leads outside, to ../../outside",
    ]
    assert "include_paths" in (caught.value.hint or "")


@pytest.mark.parametrize("in_repository", [True, False])
def test_offender_that_is_ignored_is_no_offender(project: Path, git: Git, write: Write, in_repository: bool) -> None:
    if in_repository:
        git(project, "init", "-q")
    write(project, {".gitignore": "*.pipe\nlink\n", "sub/deep/a.py": ""})
    os.mkfifo(project / "a.pipe")
    os.mkfifo(project / "sub/deep/b\n.pipe")
    (project / "link").symlink_to("/etc")
    plan(CodeRequest(project))
    os.mkfifo(project / "sub/deep/pipe")
    with pytest.raises(SnapshotError, match="1 path cannot be packaged:\n  sub/deep/pipe is a named pipe"):
        plan(CodeRequest(project))
    with pytest.raises(SnapshotError, match=r"a\.pipe is a named pipe"):
        plan(CodeRequest(project, ("a.pipe",)))


def test_links_that_stay_inside_are_kept_even_if_they_dangle(project: Path, write: Write) -> None:
    write(project, {"a/b/c.py": ""})
    (project / "a/b/up").symlink_to("../../a")
    (project / "dangling").symlink_to("not/there//yet")
    (project / "loop").symlink_to("loop")
    targets = {entry.path: entry.target for entry in plan(CodeRequest(project)).entries if entry.target}
    assert targets == {b"a/b/up": b"../../a", b"dangling": b"not/there//yet", b"loop": b"loop"}


def test_escaping_link_in_a_commit_is_refused(repository: Path, git: Git) -> None:
    (repository / "out").symlink_to("../elsewhere")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "link")
    with pytest.raises(SnapshotError, match="out is a symbolic link that leads outside"):
        plan(CodeRequest(repository, commit="HEAD"))


def test_link_out_of_the_root_is_refused_although_inside_the_repository(repository: Path) -> None:
    (repository / "src/train.py").symlink_to("../train.py")
    plan(CodeRequest(repository))
    with pytest.raises(SnapshotError, match="leads outside"):
        plan(CodeRequest(repository / "src"))


def test_files_that_cannot_be_read_are_all_named_with_permission_simulated_for_root(
    project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"a locked": "1", "b locked": "2", "open": "3"})
    real_open = os.open

    def guarded_open(path: bytes | str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if os.fsencode(path).endswith(b"locked"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", guarded_open)
    with pytest.raises(SnapshotError) as caught:
        plan(CodeRequest(project))
    assert "2 paths cannot be packaged" in caught.value.message
    assert "a locked cannot be read" in caught.value.message
    assert "b locked cannot be read" in caught.value.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_folder_that_cannot_be_read_is_named(project: Path, write: Write) -> None:
    write(project, {"locked/a": "1"})
    (project / "locked").chmod(0)
    try:
        with pytest.raises(SnapshotError, match="locked cannot be read"):
            plan(CodeRequest(project))
    finally:
        (project / "locked").chmod(0o700)


@pytest.mark.parametrize(
    ("links", "escaping"),
    [
        ({b"a": b"/etc"}, [b"a"]),
        ({b"a": b".."}, [b"a"]),
        ({b"d/a": b".."}, []),
        ({b"d/a": b"../.."}, [b"d/a"]),
        ({b"a": b"x/../../y"}, [b"a"]),
        ({b"a": b"."}, []),
        ({b"a": b"b", b"b": b"a"}, []),
        ({b"d/e/top": b"../..", b"sly": b"d/e/top/.."}, [b"sly"]),
        ({b"deep": b"d/e/f", b"fine": b"deep/../../x"}, []),
        ({b"d/here": b".", b"x": b"d/here/here/../../y"}, [b"x"]),
        ({b"out": b"/etc", b"via": b"out/passwd"}, [b"out", b"via"]),
    ],
)
def test_links_are_followed_as_the_kernel_would(links: dict[bytes, bytes], escaping: list[bytes]) -> None:
    assert escaping_links(links) == escaping
