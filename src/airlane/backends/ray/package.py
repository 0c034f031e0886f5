"""What a run brings to the cluster: one zip, which Ray unpacks where the run's job starts.

Ray's own unpacking loses links and folders' modes, and the cluster has neither our package nor what unpacks our
snapshots. So the zip holds three archives, and a script in plain Python that unpacks them. The one with the run and its
secrets is sealed: what a job brings stays in Ray's cache when it is stopped before it begins.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import airlane
from airlane.backends.ray.boot import sealed
from airlane.cluster.jobs import MOST_PACKAGE_BYTES
from airlane.errors import SnapshotError
from airlane.frozen import frozen
from airlane.store.paths import Home, RunPaths
from airlane.store.records import RunRecord

# Where boot.py finds what. Kept in step with it by a test.
KIT, RUN, CODE = "kit.tar.gz", "run.sealed", "code.tar.gz"
TRACKING_LOGIN = "tracking.json"
_COPY_BYTES = 1 << 20
_PRIVATE = 0o600
_BESIDE = ("start.sh", "boot.py", "after.sh")
_OF_THE_SERVER = ("server.json", "login.json")


@frozen
class Package:
    """What a run brings: its folder, the snapshot of its code, what tells the way to the MLflow server.

    `key` is for this package alone, and not in it.
    """

    record: RunRecord
    paths: RunPaths
    home: Home
    tracking_login: Mapping[str, str]
    key: bytes

    def write(self, target: Path) -> None:
        """Write the zip, for this user alone.

        Raises:
            SnapshotError: the code is gone, or more than Ray takes.
            OSError: the disk refused.
        """
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as whole:
            for name in _BESIDE:
                _add(whole, name, (Path(__file__).with_name(name)).read_bytes())
            _add(whole, KIT, kit())
            _add(whole, RUN, sealed(self._run(), self.key))
            self._add_code(whole)
        size_bytes = target.stat().st_size
        if size_bytes >= MOST_PACKAGE_BYTES:
            raise SnapshotError(
                f"the run's package has {size_bytes / 1e6:.1f} MB, and Ray takes {MOST_PACKAGE_BYTES / 1e6:.1f}",
                hint="leave data out of code_source (.gitignore, include_paths), and read it from shared storage",
            )

    def _run(self) -> bytes:
        """The run folder as the supervisor will find it, below the home that it belongs to."""
        text = io.BytesIO()
        with tarfile.open(fileobj=text, mode="w") as archive:
            paths = self.paths
            for file in (paths.record, paths.command, paths.parameters, paths.secrets, paths.events):
                if file.exists():
                    _add_member(archive, str(file.relative_to(self.home.root)), file.read_bytes())
            if self.record.tracking_uri is None:
                for name in _OF_THE_SERVER:
                    file = self.home.mlflow / name
                    if file.exists():
                        _add_member(archive, f"mlflow/{name}", file.read_bytes())
            if self.tracking_login:
                _add_member(archive, TRACKING_LOGIN, json.dumps(dict(self.tracking_login)).encode())
        return text.getvalue()

    def _add_code(self, whole: zipfile.ZipFile) -> None:
        if self.record.snapshot is None:
            return
        import zstandard

        archive = self.home.snapshot_archive(self.record.snapshot.digest)
        try:
            source = archive.open("rb")
        except FileNotFoundError as error:
            raise SnapshotError(
                f"the code of this run is gone: {archive}", hint=f"air run -f {self.record.workload_file}"
            ) from error
        with (
            source,
            zstandard.ZstdDecompressor().stream_reader(source) as stream,
            whole.open(_entry(CODE), "w", force_zip64=True) as sink,
            gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=1, mtime=0) as packed,
        ):
            shutil.copyfileobj(stream, packed, _COPY_BYTES)


def kit() -> bytes:
    """Our own package, as an archive: the same bytes for the same version."""
    text = io.BytesIO()
    root = Path(airlane.__file__).parent
    with (
        gzip.GzipFile(fileobj=text, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in _sources(root):
            mode = path.stat().st_mode & 0o777
            _add_member(archive, f"airlane/{path.relative_to(root)}", path.read_bytes(), mode)
    return text.getvalue()


def _sources(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _add(whole: zipfile.ZipFile, name: str, content: bytes) -> None:
    whole.writestr(_entry(name), content)


def _entry(name: str) -> zipfile.ZipInfo:
    """Ray gives a file the mode that stands here."""
    info = zipfile.ZipInfo(name)
    info.external_attr = _PRIVATE << 16
    return info


def _add_member(archive: tarfile.TarFile, name: str, content: bytes, mode: int = _PRIVATE) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))
