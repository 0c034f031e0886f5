"""Build an image of this folder; `--archive` also writes it as a .tar.gz that any engine can load.

    python images/build.py ray-cpu
    python images/build.py ray-cpu --base debootstrap --archive ray-cpu.tar.gz

Packages of ray-cpu are downloaded here, by your own pip with its own configuration, and installed in a stage that is
thrown away; for ray-cuda your pip.conf is a secret of the build. No index, password or path of yours is in any layer.
Needs Docker (for ray-cuda with BuildKit), and nothing beyond Python's standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from engine import docker_engine, is_private

IMAGES = Path(__file__).resolve().parent
DEBOOTSTRAP = "debootstrap"
DEBIAN = "bookworm"
DEBIAN_BASE = f"airlane/base:{DEBIAN}"
DEBIAN_PACKAGES = ("ca-certificates", "python3", "python3-venv")
DEBIAN_SOURCES = f"""\
deb http://deb.debian.org/debian {DEBIAN} main
deb http://deb.debian.org/debian {DEBIAN}-updates main
deb http://deb.debian.org/debian-security {DEBIAN}-security main
"""
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
PYTHON = {"ray-cpu": "3.11"}  # the images whose packages are downloaded here, and the Python they are for
LINES_SHOWN = 30
OLDEST_GLIBC, NEWEST_GLIBC = 5, 36  # 2.36 is Debian 12's


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", choices=sorted(file.parent.name for file in IMAGES.glob("*/Dockerfile")))
    parser.add_argument("--base", metavar="IMAGE", help=f"build on this image; {DEBOOTSTRAP} makes one (as root)")
    parser.add_argument("--tag", help="the name of the image (airlane/<image>)")
    parser.add_argument("--archive", type=Path, help="write the image to this file, as docker save does, compressed")
    parser.add_argument(
        "--digest", action="store_true", help="print what names this image's content, and build nothing"
    )
    given = parser.parse_args(arguments)
    if given.digest:
        print(digest(given.image, given.base))
        return
    if given.base and given.image not in PYTHON:
        parser.error(f"{given.image} stands on an image of its own: --base is for {', '.join(PYTHON)}")
    tag = given.tag or f"airlane/{given.image}"
    with docker_engine() as env, tempfile.TemporaryDirectory(prefix="airlane-image-") as folder:
        if is_private(env) and given.archive is None:
            parser.error("the engine started for this build ends with it: give --archive")
        base = debian_base(env) if given.base == DEBOOTSTRAP else given.base
        context = make_context(given.image, Path(folder))
        build(given.image, context, tag=tag, base=base, env=env)
        if given.archive is not None:
            save(tag, given.archive, env)


def digest(image: str, base: str | None) -> str:
    """Twelve characters that change when anything does that decides what is in the image."""
    found = hashlib.sha256(repr((base, DEBIAN_PACKAGES, DEBIAN_SOURCES)).encode())
    for file in inputs(image):
        found.update(f"{file.relative_to(IMAGES)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return found.hexdigest()[:12]


def inputs(image: str) -> list[Path]:
    return [IMAGES / ".dockerignore", IMAGES / "ray_alive.py", *sorted((IMAGES / image).iterdir())]


def make_context(image: str, folder: Path) -> Path:
    """What the engine is sent: this folder's files for the image, and the wheels of its requirements."""
    for file in inputs(image):
        copy = folder / file.relative_to(IMAGES)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
    if image in PYTHON:
        step("packages", lambda: download(folder / image / "requirements.txt", PYTHON[image], folder / "wheels"))
    return folder


def download(requirements: Path, python: str, wheels: Path) -> None:
    """Wheels for the image's Python, whichever runs this."""
    machine = platform.machine()
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)]
    tags += [f"manylinux2014_{machine}", f"manylinux1_{machine}"]
    platforms = [word for tag in tags for word in ("--platform", tag)]
    kind = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *platforms]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    run([*pip, *kind, f"--dest={wheels}", f"--requirement={requirements}"])


def debian_base(env: Mapping[str, str]) -> str:
    """A minimal Debian with Python, made from Debian's packages and imported under DEBIAN_BASE."""
    if not shutil.which(DEBOOTSTRAP) or os.geteuid() != 0:
        raise SystemExit(f"--base {DEBOOTSTRAP} needs root, and the Debian package {DEBOOTSTRAP}")

    def make() -> None:
        with tempfile.TemporaryDirectory(prefix="airlane-base-") as folder:
            include = f"--include={','.join(DEBIAN_PACKAGES)}"
            run([DEBOOTSTRAP, "--variant=minbase", include, DEBIAN, folder], quiet=True)
            Path(folder, "etc/apt/sources.list").write_text(DEBIAN_SOURCES, encoding="utf-8")
            left_out = ["--exclude=./var/cache/apt/archives/*", "--exclude=./var/lib/apt/lists/*"]
            tar = subprocess.Popen(["tar", "--directory", folder, *left_out, "--create", "."], stdout=subprocess.PIPE)
            run(["docker", "import", "-", DEBIAN_BASE], env=env, stdin=tar.stdout, quiet=True)
            if tar.wait() != 0:
                raise SystemExit(f"tar ended with {tar.returncode}")

    step("base", make)
    return DEBIAN_BASE


def build(image: str, context: Path, *, tag: str, base: str | None, env: Mapping[str, str]) -> None:
    values = [f"--build-arg=BASE_IMAGE={base}"] if base else []
    if image not in PYTHON:
        values += pip_secret()
    # Docker knows these and keeps them out of the image's history.
    values += [f"--build-arg={name}" for name in (*PROXIES, *map(str.upper, PROXIES)) if name in env]
    command = ["docker", "build", "--network=host", f"--file={context / image / 'Dockerfile'}", f"--tag={tag}"]
    step("build", lambda: run([*command, *values, str(context)], env=env, quiet=True))


def pip_secret() -> list[str]:
    """Your pip's configuration, for an image that downloads packages itself."""
    file = Path(os.environ.get("PIP_CONFIG_FILE") or "~/.config/pip/pip.conf").expanduser()
    return [f"--secret=id=pip_conf,src={file}"] if file.is_file() else []


def save(tag: str, archive: Path, env: Mapping[str, str]) -> None:
    """Write the archive beside its place first: a file of that name is always a whole one."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_name(f".{archive.name}.{os.getpid()}")
    compress = ["pigz" if shutil.which("pigz") else "gzip", "--stdout"]

    def write() -> None:
        with unfinished.open("wb") as file:
            saved = subprocess.Popen(["docker", "save", tag], env=env, stdout=subprocess.PIPE)
            run(compress, stdin=saved.stdout, stdout=file)
            if saved.wait() != 0:
                raise SystemExit(f"docker save ended with {saved.returncode}")
        unfinished.replace(archive)

    try:
        step("archive", write)
    finally:
        unfinished.unlink(missing_ok=True)
    print(f"{archive}  {archive.stat().st_size / 1e6:,.0f} MB")


def step(name: str, work: Callable[[], None]) -> None:
    began = time.monotonic()
    work()
    print(f"{name:<10}{time.monotonic() - began:6.1f} s", flush=True)


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
    quiet: bool = False,
) -> None:
    """Run to a good end; the last of what a quiet command says is shown if it fails."""
    output, errors = (subprocess.PIPE, subprocess.STDOUT) if quiet else (stdout, None)
    ended = subprocess.run(command, env=env, stdin=stdin, stdout=output, stderr=errors, check=False)
    if ended.returncode != 0:
        said = (ended.stdout or b"").decode(errors="replace").splitlines()[-LINES_SHOWN:]
        raise SystemExit("\n".join([*said, f"{' '.join(command[:3])} ... ended with {ended.returncode}"]))


if __name__ == "__main__":
    main(sys.argv[1:])
