"""Having a run's image on this node: found by its digest, else pulled or loaded once, by one of us at a time."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from airlane.launch import image_archive
from airlane.launch.container_argv import APPTAINER, ENGINES, ENROOT, PODMAN, RUNTIMES, takers
from airlane.launch.image_archive import ArchiveError, Unpacked
from airlane.launch.scratch import make_scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Optional

    from airlane.launch.order import ContainerOrder

    # Runs a command line to its end with these variables added, fed by a writer where there is one; returns what it
    # said on stdout. Raises ImageError with what it said on stderr.
    Run = Callable[..., str]

_LONGEST_WORDS = 600
_CHUNK_BYTES = 1 << 20
_TELL_EVERY_S = 5.0
_DOCKER_HUB = "https://index.docker.io/v1/"


class ImageError(ValueError):
    """The image cannot be had; the message says why, and what to do."""


def choose_runtime(wanted: Optional[str], image: str, *, is_archive: bool) -> str:
    """The runtime that the profile names, else the first on this node that takes the image. Raises ImageError."""
    if wanted is not None:
        if shutil.which(wanted) is None:
            raise ImageError(f"{wanted} is not installed on {os.uname().nodename} (not found in PATH)")
        return wanted
    fitting = takers(image) if is_archive else RUNTIMES
    for runtime in fitting:
        if shutil.which(runtime) is not None:
            return runtime
    raise ImageError(f"no container runtime for {image} on {os.uname().nodename}: looked for {', '.join(fitting)}")


class NodeImages:
    """The images of one runtime on this node, for this user. `say` gets lines for people."""

    def __init__(self, runtime: str, run: Run, say: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._run = run
        self._say = say
        self._notes = Notes(runtime)

    @property
    def limits_allowed(self) -> bool:
        """Whether this engine was not yet seen to refuse raised limits."""
        return not self._notes.has("no-limits")

    def note_no_limits(self) -> None:
        self._notes.put("no-limits", "")

    def ensure(self, order: ContainerOrder, secrets: Mapping[str, str]) -> str:
        """What to call the image in this runtime, once it is here. Raises ImageError or OSError."""
        if self._runtime in ENGINES:
            return self._archived(order) if order.is_archive else self._pulled(order, secrets)
        if order.is_archive and self._runtime in takers(order.image) and not order.image.endswith((".tar", "gz")):
            return order.image
        return self._converted(order, secrets)

    def _pulled(self, order: ContainerOrder, secrets: Mapping[str, str]) -> str:
        if not order.pull_always and self._id_of(order.image) is not None:
            return order.image
        self._say(f"pulling {order.image}")
        with logged_in(self._runtime, order, secrets) as variables:
            try:
                self._run([self._runtime, "pull", order.image], variables=variables, stdout=2)
            except ImageError as error:
                raise ImageError(
                    f"the image {order.image} could not be pulled: {error}\n"
                    "check its name; for a private registry, set docker_image.credentials_scope and credentials_key"
                ) from error
        return order.image

    def _archived(self, order: ContainerOrder) -> str:
        known = self._known(order)
        if known is not None:
            return known
        with self._notes.lock(order.digests[0], lambda: self._say("another run is loading this image: waiting")):
            return self._known(order) or self._load(order)

    def _known(self, order: ContainerOrder) -> Optional[str]:
        """The image's name in the engine: its digest, or what it was called when it was loaded."""
        noted = self._notes.get(order.digests[0])
        names = (*order.digests, *([noted] if noted else []))
        return next((name for name in names if self._id_of(name) is not None), None)

    def _id_of(self, name: str) -> Optional[str]:
        try:
            return self._run([self._runtime, "image", "inspect", "--format", "{{.Id}}", name]).strip() or None
        except ImageError:
            return None

    def _load(self, order: ContainerOrder) -> str:
        path = order.image
        self._check_unchanged(order)
        self._say(f"loading {path} ({os.path.getsize(path) / 1e6:.0f} MB)")
        began = time.monotonic()
        try:
            said = self._run([self._runtime, "load"], feed=lambda pipe: self._feed(path, pipe))
        except ImageError as error:
            raise ImageError(f"{self._runtime} could not load {path}: {error}") from error
        self._say(f"loaded in {time.monotonic() - began:.0f} s")
        known = self._known(order)
        if known is not None:
            return known
        # An engine that keeps images as containerd does calls an older archive's image by a digest of its own making.
        names = [line.partition(":")[2].strip() for line in said.splitlines() if line.startswith("Loaded image")]
        found = self._id_of(names[0]) if len(names) == 1 else None
        if found is None:
            raise ImageError(f"{self._runtime} loaded {path} and does not know {order.digests[0]} now")
        self._notes.put(order.digests[0], found)
        return found

    def _check_unchanged(self, order: ContainerOrder) -> None:
        try:
            if image_archive.stamp(order.image) == order.stamp:
                return
            facts = image_archive.read_facts(order.image)
        except ArchiveError as error:
            raise ImageError(f"{order.image} {error}") from error
        if facts.config not in order.digests:
            raise ImageError(
                f"{order.image} holds another image than when the run was submitted: {facts.config} now, "
                f"{order.digests[0]} then\nsubmit the run again to use the new one"
            )

    def _feed(self, path: str, pipe: Any) -> None:
        """Give an archive to `load`; podman takes only unpacked ones from a pipe."""
        size = os.path.getsize(path)
        told = time.monotonic()
        with open(path, "rb") as file:
            unpack = self._runtime == PODMAN and image_archive.kind_of(path) == image_archive.GZIP
            source: Any = Unpacked(file) if unpack else file
            while chunk := source.read(_CHUNK_BYTES):
                pipe.write(chunk)
                if time.monotonic() > told + _TELL_EVERY_S:
                    told = time.monotonic()
                    self._say(f"loading: {100 * file.tell() // max(1, size)} % of {size / 1e6:.0f} MB")

    def _converted(self, order: ContainerOrder, secrets: Mapping[str, str]) -> str:
        """A file of Apptainer's or Enroot's own, made once; a reference that is to be looked up again makes it anew."""
        source = _source(self._runtime, order)
        key = order.digests[0] if order.is_archive else order.image
        target = os.path.join(images_folder(), hashlib.sha256(key.encode()).hexdigest()[:20] + _ENDING[self._runtime])
        with self._notes.lock(key, lambda: self._say("another run is preparing this image: waiting")):
            if os.path.exists(target) and not order.pull_always:
                return target
            self._say(f"preparing {source}")
            made = f"{target}.{os.getpid()}"
            with logged_in(self._runtime, order, secrets) as variables:
                try:
                    self._run(conversion_argv(self._runtime, source, made), variables=variables, stdout=2)
                    os.replace(made, target)
                except ImageError as error:
                    raise ImageError(f"{self._runtime} could not prepare {source}: {error}") from error
                finally:
                    with contextlib.suppress(OSError):
                        os.unlink(made)
        return target


_ENDING = {APPTAINER: ".sif", ENROOT: ".sqsh"}


def conversion_argv(runtime: str, source: str, target: str) -> list[str]:
    """Make the file that Apptainer or Enroot starts from."""
    if runtime == APPTAINER:
        return [APPTAINER, "build", target, source]
    return [ENROOT, "import", "--output", target, source]


def _source(runtime: str, order: ContainerOrder) -> str:
    if order.is_archive:
        return f"docker-archive:{order.image}"
    if runtime == APPTAINER:
        return f"docker://{order.image}"
    registry, rest = _split_reference(order.image)
    return f"docker://{registry}#{rest}" if registry is not None else f"docker://{rest}"


def images_folder() -> str:
    """Where this user's converted images are kept on this node, made if need be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "airlane", "images")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


class Notes:
    """Small private files about one engine on this node, which live as long as /tmp does."""

    def __init__(self, runtime: str) -> None:
        # Nodes may share /tmp, and a user may have several engines.
        engine = [runtime, os.uname().nodename]
        engine += [os.environ.get(name, "") for name in ("DOCKER_HOST", "CONTAINER_HOST", "CONTAINERS_STORAGE_CONF")]
        self._prefix = hashlib.sha256("\0".join(engine).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self._folder = f"/tmp/airlane-containers-{os.geteuid()}"  # noqa: S108 - another user's is refused

    def _path(self, name: str) -> str:
        make_scratch([self._folder])
        return os.path.join(self._folder, f"{self._prefix}-{hashlib.sha256(name.encode()).hexdigest()[:20]}")

    def has(self, name: str) -> bool:
        return os.path.exists(self._path(name))

    def get(self, name: str) -> Optional[str]:
        try:
            with open(self._path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def put(self, name: str, text: str) -> None:
        path = self._path(name)
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.{os.getpid()}", path)

    @contextlib.contextmanager
    def lock(self, name: str, on_wait: Callable[[], None]) -> Iterator[None]:
        """Held by one process of this user on this node; the kernel frees it when that ends."""
        with open(self._path(f"{name}.lock"), "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def logged_in(runtime: str, order: ContainerOrder, secrets: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The variables that let `runtime` into the registry, valid for as long as this lasts."""
    if order.credentials is None:
        yield {}
        return
    user, colon, password = secrets[order.credentials].partition(":")
    if not colon:
        raise ImageError("the secret that opens the registry must be USER:PASSWORD, and there is no colon in it")
    if runtime == APPTAINER:
        yield {"APPTAINER_DOCKER_USERNAME": user, "APPTAINER_DOCKER_PASSWORD": password}
        return
    folder = tempfile.mkdtemp(prefix="airlane-registry-")
    try:
        yield _write_login(runtime, folder, registry_of(order.image), f"{user}:{password}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_login(runtime: str, folder: str, registry: str, login: str) -> dict[str, str]:
    path = os.path.join(folder, "config.json")
    if runtime == ENROOT:
        user, _, password = login.partition(":")
        machine = "auth.docker.io" if registry == _DOCKER_HUB else registry
        _write_private(os.path.join(folder, ".credentials"), f"machine {machine} login {user} password {password}\n")
        return {"ENROOT_CONFIG_PATH": folder}
    encoded = base64.b64encode(login.encode()).decode()
    _write_private(path, json.dumps({"auths": {registry: {"auth": encoded}}}))
    if runtime == PODMAN:
        return {"REGISTRY_AUTH_FILE": path}
    users = os.environ.get("DOCKER_CONFIG") or os.path.join(os.path.expanduser("~"), ".docker")
    if os.path.isdir(os.path.join(users, "contexts")):
        os.symlink(os.path.join(users, "contexts"), os.path.join(folder, "contexts"))
    return {"DOCKER_CONFIG": folder}


def _write_private(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def registry_of(reference: str) -> str:
    """The registry of a reference, as docker's configuration names it."""
    registry, _ = _split_reference(reference)
    return _DOCKER_HUB if registry in (None, "docker.io") else str(registry)


def _split_reference(reference: str) -> tuple[Optional[str], str]:
    first, slash, rest = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return None, reference


def last_words(text: str) -> str:
    """What a runtime said, short enough for a cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("Run 'docker", "See 'docker"))]
    words = "\n".join(kept[-4:])
    return words[-_LONGEST_WORDS:] or "it said nothing"


def run_and_capture(
    argv: list[str],
    *,
    variables: Optional[Mapping[str, str]] = None,
    stdout: int = subprocess.PIPE,
    feed: Optional[Callable[[Any], None]] = None,
    on_start: Callable[[Optional[subprocess.Popen[bytes]]], None],
) -> str:
    """A `Run`; `on_start` gets the process while there is one. `stdout` may be a descriptor that gets it instead."""
    with tempfile.TemporaryFile() as words, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if feed is not None else subprocess.DEVNULL,
            stdout=said if stdout == subprocess.PIPE else stdout,
            stderr=words,
            env={**os.environ, **(variables or {})},
        )
        on_start(process)
        try:
            if feed is not None and process.stdin is not None:
                with contextlib.suppress(BrokenPipeError), process.stdin:  # its own words say more
                    feed(process.stdin)
            code = process.wait()
        finally:
            on_start(None)
        words.seek(0)
        if code != 0:
            raise ImageError(last_words(words.read().decode(errors="replace")))
        said.seek(0)
        return said.read().decode(errors="replace")
