"""A container image made of what is on this machine: bash, the usual commands and Python's standard library.

Nothing is downloaded, no container engine is needed to make it, and it takes seconds. The archive has the form that
`docker save` writes: a manifest that names a configuration and one layer.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

TAG = "airlane-small:1"
COMMANDS = (
    "bash cat chmod cp cut date df dirname du echo env false find free getent grep head hostname id kill ln ls "
    "md5sum mkdir mktemp mv nproc printenv ps pwd readlink realpath rm rmdir sed seq setsid sh sha256sum sleep sort "
    "stat stty tail tar tee test timeout touch tr true uname wc whoami"
)
# Of the standard library, what no test runs.
_LEFT_OUT = re.compile(
    "__pycache__|.*-packages|config-.*|ensurepip|idlelib|lib2to3|pydoc_data|test|tests|tkinter|turtledemo"
)
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
# What packages written in C or C++ (Ray) do not bring themselves: they can be mounted into a container.
_BELOW_PACKAGES = ("libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1")
_CACHE = Path("~/.cache/airlane-tests")


def small_image_archive() -> Path:
    """The archive, from the cache where an earlier session left it."""
    key = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()[:12]
    archive = _CACHE.expanduser() / f"small-image-{key}.tar.gz"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        being_made = archive.with_suffix(f".{os.getpid()}")
        write_image(being_made, tag=TAG)
        being_made.replace(archive)
    return archive


def write_image(archive: Path, *, tag: str) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, content in _root_files():
            _add(tar, name, content)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    configuration = _configuration(digest)
    name = hashlib.sha256(configuration).hexdigest()
    manifest = [{"Config": f"{name}.json", "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]
    with gzip.open(archive, "wb", compresslevel=1) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        _add(tar, f"{name}.json", configuration)
        _add(tar, f"{digest}/layer.tar", layer.getvalue())
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def write_relabeled(archive: Path, label: str, *, source: Path) -> None:
    """Writes an image with the layer and the tag of another one, and with another digest; not compressed."""
    with tarfile.open(source) as saved, tarfile.open(archive, "w") as tar:
        files = {entry.name: content.read() for entry in saved if (content := saved.extractfile(entry)) is not None}
        (manifest,) = json.loads(files.pop("manifest.json"))
        configuration = json.loads(files.pop(manifest["Config"]))
        configuration["config"]["Labels"] = {"airlane.test": label}
        written = json.dumps(configuration).encode()
        manifest["Config"] = f"{hashlib.sha256(written).hexdigest()}.json"
        files |= {manifest["Config"]: written, "manifest.json": json.dumps([manifest]).encode()}
        for name, kept in files.items():
            _add(tar, name, kept)


def _configuration(layer_digest: str) -> bytes:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin", "LANG=C.UTF-8"], "Cmd": ["bash"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": "1970-01-01T00:00:00Z"}],
    }
    return json.dumps(configuration).encode()


def _root_files() -> Iterator[tuple[str, Path | bytes | str]]:
    """What the layer holds, by name: a file of this machine, a text, a link's target, or "" for a folder."""
    for folder in ("etc", "root", "run", "usr", "usr/bin", "usr/lib", "usr/lib64", "var", "proc", "sys", "dev", "home"):
        yield folder, ""
    for folder in ("bin", "lib", "lib64"):
        yield folder, f"usr/{folder}"
    yield "sbin", "usr/bin"
    yield "tmp", ""
    yield "etc/passwd", b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    yield "etc/group", b"root:x:0:\nnogroup:x:65534:\n"
    yield "etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n"
    programs = {name: Path(found).resolve() for name in COMMANDS.split() if (found := shutil.which(name))}
    yield from ((f"usr/bin/{name}", program) for name, program in programs.items())
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    interpreter = Path(sys.executable).resolve()
    yield f"usr/bin/{python}", interpreter
    yield "usr/bin/python3", python
    yield "usr/bin/python", python
    extensions = []
    for file in _standard_library():
        extensions += [file] if file.suffix == ".so" else []
        yield f"usr/lib/{python}/{file.relative_to(sysconfig.get_path('stdlib'))}", file
    yield from _libraries([*programs.values(), interpreter, *extensions])


def _standard_library() -> Iterator[Path]:
    top = Path(sysconfig.get_path("stdlib"))
    for root, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not _LEFT_OUT.fullmatch(name))
        yield from (Path(root) / name for name in sorted(files) if not name.startswith("_tkinter"))


def _libraries(programs: list[Path]) -> Iterator[tuple[str, Path]]:
    """The shared libraries that programs load, in the C library's folder; the loader, where programs look for it."""
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = set(_LIBRARY.findall(listed))
    c_library = next(path for path in found if Path(path).name == "libc.so.6")
    paths = sorted({*found, *(str(Path(c_library).with_name(name)) for name in _BELOW_PACKAGES)})
    usual = Path("usr") / Path(c_library).resolve().parent.relative_to("/usr")
    for path in paths:
        loader = Path(path).name.startswith("ld-linux")
        yield (
            str(Path("usr") / path.removeprefix("/usr").lstrip("/") if loader else usual / Path(path).name),
            Path(path),
        )


def _add(tar: tarfile.TarFile, name: str, content: Path | bytes | str) -> None:
    """Owned by root and dated 1970, so that the same files make the same image."""
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755
    if isinstance(content, str):
        entry.type = tarfile.SYMTYPE if content else tarfile.DIRTYPE
        entry.linkname = content
        entry.mode = 0o1777 if name == "tmp" else 0o755
        tar.addfile(entry)
        return
    data = content if isinstance(content, bytes) else content.read_bytes()
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
