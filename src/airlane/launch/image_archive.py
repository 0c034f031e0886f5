"""Which image an archive holds, without loading it: the digest of its configuration, read from the archive's manifest.

Known are what `docker save`, `podman save` and OCI tools write, plain or compressed by gzip, and the files of
Apptainer (SIF) and Enroot (squashfs), which are told by their first bytes.
Source: the OCI image layout, index.json; moby's image/tarexport, manifest.json.
"""

from __future__ import annotations

import io
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable
    from typing import Any, BinaryIO, Optional

TAR, GZIP, SQUASHFS, SIF = "tar", "tar.gz", "sqsh", "sif"
ENDINGS = (".tar", ".tar.gz", ".tgz", ".sqsh", ".sif")
_MAGIC = ((0, b"\x1f\x8b", GZIP), (257, b"ustar", TAR), (0, b"hsqs", SQUASHFS), (32, b"SIF_MAGIC", SIF))
_HEAD_BYTES = 512
_CHUNK_BYTES = 1 << 20
# Manifests are small; layers are not looked into.
_LARGEST_MANIFEST_BYTES = 1 << 20
_HEX_DIGEST = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")


class ArchiveError(ValueError):
    """The file is not an archive of one image; the message says what it is, to follow the file's name."""


class ImageFacts:
    """An image in an archive. Engines name it by `config` or, since containerd keeps images, by one of `manifests`."""

    def __init__(self, config: str, manifests: tuple[str, ...] = ()) -> None:
        self.config = config
        self.manifests = manifests


def kind_of(path: str) -> str:
    """What kind of archive a file is, by its first bytes. Raises OSError, or ArchiveError when it is none."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    for start, magic, kind in _MAGIC:
        if head[start : start + len(magic)] == magic:
            return kind
    if not head:
        raise ArchiveError("is empty")
    raise ArchiveError("is neither a tar file (plain or gzip), nor squashfs, nor SIF")


def stamp(path: str) -> str:
    """What changes when a file is written: its size and time. Raises OSError."""
    found = os.stat(path)
    return f"{found.st_size}:{found.st_mtime_ns}"


def read_facts(path: str, progress: Optional[Callable[[int], None]] = None) -> ImageFacts:
    """The image in a tar archive; `progress` gets the bytes read so far.

    A plain archive costs a few seeks; a compressed one is read up to its manifest, which often stands at the end.
    Raises OSError, or ArchiveError.
    """
    import tarfile
    import zlib

    kind = kind_of(path)
    if kind not in (TAR, GZIP):
        raise ArchiveError(f"is a {kind} file, not what docker save writes")
    try:
        with open(path, "rb") as file:
            if kind == TAR:
                return _facts(_small_files(tarfile.open(fileobj=file, mode="r:")))
            unpacked: Any = Unpacked(file, progress)
            return _facts(_small_files(tarfile.open(fileobj=unpacked, mode="r|", bufsize=_CHUNK_BYTES)))
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise ArchiveError(f"is damaged or cut off ({error})") from error


class Unpacked(io.RawIOBase):
    """The content of a gzip file of one or several members, to be read once. Raises EOFError where it is cut off."""

    def __init__(self, file: BinaryIO, progress: Optional[Callable[[int], None]] = None) -> None:
        super().__init__()
        self._file = file
        self._progress = progress
        self._zlib: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts = []
        missing = size if size >= 0 else 1 << 62
        while missing > 0:
            if not self._ready and not self._fill():
                break
            part, self._ready = self._ready[:missing], self._ready[missing:]
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _fill(self) -> bool:
        """Unpack some more; False at the end."""
        import zlib

        while not self._ready:
            packed = self._zlib.unconsumed_tail if self._zlib is not None else b""
            if not packed:
                packed = self._next_packed()
            if not packed:
                if self._zlib is not None:
                    raise EOFError("it ends in the middle")
                return False
            if self._zlib is None:
                self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
            self._ready = self._zlib.decompress(packed, _CHUNK_BYTES)
            if self._zlib.eof:
                self._file.seek(-len(self._zlib.unused_data), os.SEEK_CUR)
                self._zlib = None
        return True

    def _next_packed(self) -> bytes:
        packed = self._file.read(_CHUNK_BYTES)
        if self._progress is not None:
            self._progress(self._file.tell())
        return packed


def _small_files(archive: tarfile.TarFile) -> dict[str, bytes]:
    """The small JSON files up to manifest.json, by name."""
    found: dict[str, bytes] = {}
    with archive:
        for entry in archive:
            name = entry.name.removeprefix("./")
            if not entry.isfile() or entry.size > _LARGEST_MANIFEST_BYTES:
                continue
            file = archive.extractfile(entry)
            content = file.read() if file is not None else b""
            if content[:1] in (b"{", b"["):
                found[name] = content
            if name == "manifest.json":
                break
    return found


def _parsed(content: bytes) -> Any:
    import json  # here, because whoever reads a workload only asks for an archive's kind

    return json.loads(content)


def _facts(files: dict[str, bytes]) -> ImageFacts:
    try:
        manifests = _index(files)
        if "manifest.json" in files:
            return _docker_facts(files, manifests)
        if manifests:
            return _oci_facts(files, manifests)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError(f"has a manifest that cannot be read ({type(error).__name__}: {error})") from error
    raise ArchiveError("holds no image: there is no manifest.json and no index.json in it")


def _index(files: dict[str, bytes]) -> tuple[str, ...]:
    """The digests in an OCI index, those of the indexes in it included."""
    if "index.json" not in files:
        return ()
    digests = [str(entry["digest"]) for entry in _parsed(files["index.json"])["manifests"]]
    for digest in digests:
        blob = files.get(_blob(digest))
        inner = _parsed(blob).get("manifests", ()) if blob is not None else ()
        digests.extend(str(entry["digest"]) for entry in inner)
    return tuple(digests)


def _docker_facts(files: dict[str, bytes], manifests: tuple[str, ...]) -> ImageFacts:
    entries = _parsed(files["manifest.json"])
    configs = {str(entry["Config"]) for entry in entries}
    if len(configs) != 1:
        raise ArchiveError(f"holds {len(configs)} images; save the one to run alone")
    name = configs.pop()
    found = _HEX_DIGEST.fullmatch(name)
    if found is None:
        raise ArchiveError(f"names its configuration {name!r}, which is not a digest")
    return ImageFacts(f"sha256:{found[1]}", manifests)


def _oci_facts(files: dict[str, bytes], manifests: tuple[str, ...]) -> ImageFacts:
    configs = set()
    for digest in manifests:
        blob = files.get(_blob(digest))
        manifest = _parsed(blob) if blob is not None else {}
        if "config" in manifest:
            configs.add(str(manifest["config"]["digest"]))
    if len(configs) != 1:
        raise ArchiveError(f"holds {len(configs)} images; save the one to run alone")
    return ImageFacts(configs.pop(), manifests)


def _blob(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/", 1)
