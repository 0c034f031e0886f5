"""The code that a Ray job brings along: packed, looked for on the cluster, and sent where it is not there."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airlane.cluster import runtime_env
from airlane.cluster.ignore_rules import ALWAYS
from airlane.cluster.job_package import Content, JobPackage, PackedFile, find_content, pack, too_large, uri_of
from airlane.cluster.jobs import MOST_PACKAGE_BYTES, Jobs
from airlane.errors import ArgumentError, SnapshotError
from airlane.frozen import frozen
from airlane.snapshot.wording import size_text

Progress = Callable[[str, str], None]
# By what Ray unpacks it, which goes by the name.
_ARCHIVES = {".zip": ".zip", ".tar.gz": ".tar.gz", ".tgz": ".tar.gz", ".tar.xz": ".tar.xz"}
_DIGEST_LETTERS = 12
_PLAIN_FILE_MODE = 0o644


@frozen
class CodeSent:
    """A folder or file that a job brings along; `uploaded` is False where the cluster had it already."""

    source: str
    uri: str
    files: int
    size_bytes: int
    packed_bytes: int
    uploaded: bool
    skipped: tuple[str, ...]


def send_code(
    jobs: Jobs, env: Mapping[str, Any], variables: Mapping[str, str], progress: Progress
) -> tuple[dict[str, Any], tuple[CodeSent, ...]]:
    """A runtime environment whose folders and files of this machine are on the cluster, under their addresses there.

    Raises:
        ArgumentError: one is not there, or of a kind that Ray does not take.
        SnapshotError: one cannot be packed, or is too large.
    """
    made = dict(env)
    with tempfile.TemporaryDirectory(prefix="air-job-") as folder:
        sender = _Sender(jobs, Path(folder), tuple(env.get(runtime_env.EXCLUDES) or ()), variables, progress)
        if env.get(runtime_env.WORKING_DIR):
            made[runtime_env.WORKING_DIR] = sender.working_dir(env[runtime_env.WORKING_DIR])
        if env.get(runtime_env.PY_MODULES):
            made[runtime_env.PY_MODULES] = [sender.module(code) for code in env[runtime_env.PY_MODULES]]
    return made, tuple(sender.sent)


class _Sender:
    """Packs into a folder, and sends from there."""

    def __init__(
        self, jobs: Jobs, folder: Path, excludes: tuple[str, ...], variables: Mapping[str, str], progress: Progress
    ) -> None:
        self._jobs, self._folder, self._progress = jobs, folder, progress
        self._excludes = excludes
        # Ray's own settings for its own client.
        always = variables.get("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES")
        self._always = ALWAYS if always is None else tuple(name.strip() for name in always.split(",") if name.strip())
        self._git = variables.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE") != "1"
        self.sent: list[CodeSent] = []

    def working_dir(self, code: str) -> str:
        if runtime_env.is_address(code):
            return code
        path = _there(code, runtime_env.WORKING_DIR)
        if path.is_dir():
            return self._send(code, self._packed(path))
        suffix = next((kept for end, kept in _ARCHIVES.items() if path.name.endswith(end)), None)
        if suffix is None:
            raise ArgumentError(
                f"{runtime_env.WORKING_DIR} {code} is neither a folder nor a package",
                hint=f"packages end in {', '.join(_ARCHIVES)}",
            )
        return self._send(code, _as_it_is(path, uri_of(path, suffix)))

    def module(self, code: str) -> str:
        if runtime_env.is_address(code):
            return code
        path = _there(code, runtime_env.PY_MODULES)
        if path.is_dir():
            return self._send(code, self._packed(path, top=path.resolve().name))
        if path.suffix == ".whl":
            return self._send(code, _as_it_is(path, f"gcs://{_wheel_name(path)}"))
        if path.suffix != ".py":
            raise ArgumentError(f"{runtime_env.PY_MODULES}: {code} is no folder, no .py file and no .whl file")
        file = PackedFile(path.name, str(path), _PLAIN_FILE_MODE, path.stat().st_size)
        return self._send(code, pack(Content(path, (file,)), self._scratch()))

    def _packed(self, folder: Path, *, top: str = "") -> JobPackage:
        content = find_content(folder, excludes=self._excludes, always=self._always, git=self._git)
        total = size_text(content.size_bytes)
        return pack(
            content,
            self._scratch(),
            top=top,
            progress=lambda done, _: self._progress("packing", f"{size_text(done)} of {total}"),
        )

    def _scratch(self) -> Path:
        return self._folder / f"{len(self.sent)}.zip"

    def _send(self, source: str, package: JobPackage) -> str:
        packed_bytes = package.packed_bytes
        there = self._jobs.has(package.uri)
        if not there:
            total = size_text(packed_bytes)
            self._jobs.upload(
                package.uri,
                package.path,
                lambda done, _: self._progress("uploading", f"{size_text(done)} of {total}"),
            )
        self.sent.append(
            CodeSent(source, package.uri, package.files, package.size_bytes, packed_bytes, not there, package.skipped)
        )
        return package.uri


def _there(code: str, name: str) -> Path:
    """Raises ArgumentError."""
    path = Path(code).expanduser()
    if not path.exists():
        raise ArgumentError(
            f"{name} {code} does not exist", hint="a folder here, or the address of a package: s3://BUCKET/CODE.zip"
        )
    return path


def _as_it_is(file: Path, uri: str) -> JobPackage:
    """A file that is a package already. Raises SnapshotError."""
    size_bytes = file.stat().st_size
    if size_bytes >= MOST_PACKAGE_BYTES:
        raise too_large(Content(file, (PackedFile(file.name, str(file), _PLAIN_FILE_MODE, size_bytes),)))
    return JobPackage(uri, file, 1, size_bytes)


def _wheel_name(wheel: Path) -> str:
    """A wheel's name with its content in the build tag: one that is built anew need not have another version.

    Source: the binary distribution format, "File name convention": a build tag begins with a digit.
    """
    name, *parts = wheel.stem.split("-")
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:_DIGEST_LETTERS]
    match parts:
        case [version, python, abi, platform]:
            return f"{name}-{version}-0.{digest}-{python}-{abi}-{platform}.whl"
        case [version, build, python, abi, platform]:
            return f"{name}-{version}-{build}.{digest}-{python}-{abi}-{platform}.whl"
    raise SnapshotError(f"{wheel} is not named as a wheel is", hint="NAME-VERSION-PYTHON-ABI-PLATFORM.whl")
