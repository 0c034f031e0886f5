"""The process on the node that stands for a container: it gets the image, starts the container, and ends as it did.

It runs in place of bash, forked from the agent, so that what stops a bare command stops this too: at any moment, also
while an image is loaded. While it lives, it holds the container's stdin open; the container ends with it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import threading
import time

from airlane.launch.container_argv import (
    ENDED,
    ENGINES,
    STARTED,
    Node,
    box_of,
    container_argv,
    inside_variables,
    passwd_text,
    removal_argv,
    variables_text,
)
from airlane.launch.container_image import ImageError, NodeImages, last_words, run_and_capture
from airlane.launch.memory_limit import memory_limit_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

    from airlane.launch.order import ContainerOrder, Order

REMOVAL_PATIENCE_S = 10.0
_REMOVAL_LOOK_S = 0.05
_SIGNALLED = 128
_DEVICES = ("/dev/infiniband", "/dev/gdrdrv")


class Runner:
    """One container of one order. `added` are the variables that the run adds, the secrets among them."""

    def __init__(self, runtime: str, order: Order, added: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        if order.container is None:
            raise ValueError("the order names no container")
        self._runtime = runtime
        self._order = order
        self._container: ContainerOrder = order.container
        self._added = {name: value for name, value in added.items() if name != order.container.credentials}
        self._secrets = secrets
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._stopped = False
        self._stop_told = threading.Event()
        self._box = box_of(order)

    def run(self) -> int:
        """Returns the wait status of the command. Raises ImageError or OSError when it could not be started."""
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a client that is gone tells it by its exit code
        images = NodeImages(self._runtime, self._run_to_end, _say)
        try:
            image = images.ensure(self._container, self._secrets)
        except ImageError:
            if not self._stopped:
                raise
        if self._stopped:
            return signal.SIGTERM
        node = this_node()
        text = self._variables_text(node)
        limits = images.limits_allowed
        status = self._client(container_argv(self._runtime, self._order, image, node, limits=limits), text)
        if self._has(STARTED) or self._stopped:
            return status
        words = self._why_not(container_argv(self._runtime, self._order, image, node, limits=limits))
        if not (limits and "rlimit" in words):
            raise ImageError(f"{self._runtime} could not start a container of {self._container.image}: {words}")
        images.note_no_limits()
        _say("this engine may not raise limits: locked memory and stack stay as they are")
        return self._client(container_argv(self._runtime, self._order, image, node, limits=False), text)

    def _on_term(self, number: int, frame: object) -> None:  # noqa: ARG002 - the form of a handler
        """Tell it to the container's first process, which tells all others, or end what gets the image."""
        self._stopped = True
        self._stop_told.set()
        if self._child is not None and self._runtime in ENGINES:  # else the agent has told it already
            self._child.send_signal(signal.SIGTERM)

    def _run_to_end(self, argv: list[str], **options: Any) -> str:
        if self._stopped:
            raise ImageError("stopped before it began")
        return run_and_capture(argv, on_start=self._note_child, **options)

    def _note_child(self, process: Optional[subprocess.Popen[bytes]]) -> None:
        self._child = process
        if process is not None and self._stopped:
            process.send_signal(signal.SIGTERM)

    def _variables_text(self, node: Node) -> bytes:
        user = user_name(node.uid)
        home = None if node.uid == 0 else self._home(node.uid)
        if home is not None:
            with open(os.path.join(self._box, "passwd"), "w", encoding="utf-8") as file:
                file.write(passwd_text(user, node.uid, node.gid, home))
        variables = inside_variables(self._runtime, self._order, self._added, user=user, home=home)
        return variables_text(variables)

    def _home(self, uid: int) -> str:
        """The user's home folder where the profile mounts it, else an empty one that ends with the attempt."""
        with contextlib.suppress(KeyError):
            home = pwd.getpwuid(uid).pw_dir
            inside = [mount.split(":")[1].rstrip("/") for mount in self._container.mounts]
            if any(home == folder or home.startswith(f"{folder}/") for folder in inside):
                return home
        home = os.path.join(self._box, "home")
        os.makedirs(home, mode=0o700, exist_ok=True)
        return home

    def _client(self, argv: list[str], text: bytes) -> int:
        """Run the container to its end; the command's wait status."""
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as client:
            pipe = client.stdin
            if pipe is None:
                raise AssertionError("the client has a pipe")
            # A thread, because a client that does not read must not keep this from hearing of its end.
            threading.Thread(target=self._feed, args=(pipe.fileno(), text), daemon=True).start()
            code = client.wait()
        return self._status(code)

    def _feed(self, pipe: int, text: bytes) -> None:
        _write(pipe, text)
        self._stop_told.wait()
        _write(pipe, b"stop\n")

    def _status(self, code: int) -> int:
        ended = read_ended(self._box)
        if ended is not None:
            return (ended[0] & 0xFF) << 8
        if not self._has(STARTED):
            return code << 8 if code >= 0 else -code
        if self._runtime in ENGINES:
            remove(self._runtime, self._order)
        if code > _SIGNALLED:
            return code - _SIGNALLED
        how = f"exited with code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
        _say(f"{self._runtime} {how}, and the command never told its end")
        return signal.SIGKILL

    def _why_not(self, argv: list[str]) -> str:
        """Ask the runtime once more, for its words: the log has them between others. What starts now ends at once."""
        asked = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return last_words((asked.stderr or asked.stdout).decode(errors="replace"))

    def _has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self._box, name))


def end_like(status: int) -> None:
    """End this process as a wait status says: by the signal, or with the exit code."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def this_node() -> Node:
    """The user, the network devices, the cores and the memory of this process."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    limited = bool(cores) and len(cores) < (os.cpu_count() or 1)
    return Node(
        uid=os.geteuid(),
        gid=os.getegid(),
        groups=os.getgroups(),
        devices=network_devices(),
        cpus=",".join(map(str, cores)) if limited else None,
        memory_bytes=memory_limit_bytes(),
    )


def network_devices(root: str = "/") -> list[str]:
    """The device files of InfiniBand, EFA and GDRCopy that this node has; `root` is where /dev stands."""
    found = []
    for path in _DEVICES:
        place = os.path.join(root, path.lstrip("/"))
        if os.path.isdir(place):
            found += [f"{path}/{name}" for name in sorted(os.listdir(place)) if not os.path.isdir(f"{place}/{name}")]
        elif os.path.exists(place):
            found.append(path)
    return found


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user{uid}"


def read_ended(box: str) -> Optional[tuple[int, int]]:
    """The command's exit code, and how many processes of its container the kernel killed for memory."""
    try:
        with open(os.path.join(box, ENDED), encoding="utf-8") as file:
            code, kills = file.read().split()
        return int(code), int(kills)
    except (OSError, ValueError):
        return None


def remove(runtime: str, order: Order) -> Optional[str]:
    """End and forget the container; why that failed, or None. There being none is no failure."""
    deadline = time.monotonic() + REMOVAL_PATIENCE_S
    while True:
        refused = _try_to_remove(removal_argv(runtime, order), deadline)
        # With --rm the engine may be about it already; it is over when there is no such container.
        if refused is None or "in progress" not in refused or time.monotonic() > deadline:
            return refused
        time.sleep(_REMOVAL_LOOK_S)


def _try_to_remove(argv: list[str], deadline: float) -> Optional[str]:
    left_s = max(0.0, deadline - time.monotonic())
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=left_s, check=False)
    except subprocess.TimeoutExpired:
        return f"{argv[0]} did not answer within {REMOVAL_PATIENCE_S:.0f} s"
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    words = done.stderr.decode(errors="replace")
    return None if done.returncode == 0 or "no such container" in words.lower() else last_words(words)


def _write(descriptor: int, text: bytes) -> None:
    done = 0
    with contextlib.suppress(OSError):  # the client is gone, and its end tells more
        while done < len(text):
            done += os.write(descriptor, text[done:])


def _say(words: str) -> None:
    sys.stderr.write(f"[airlane] {words}\n")
    sys.stderr.flush()
