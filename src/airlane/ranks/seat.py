"""A rank's seat: the Ray actor that holds the rank's place and resources, and speaks for the process on its node.

Its nodes may have no Airlane: this class travels to them by value, and so uses the standard library and Ray alone; the
rest comes as an archive (kit.py) that is unpacked beside the rank. Nothing is kept in memory: output is read when the
launcher asks for it, and a rank that writes faster than that waits, as it does at any pipe.
"""

from __future__ import annotations

import io
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Below what Ray sends without its object store.
MOST_BYTES = 45_000
_PIPE_BYTES = 1 << 18
_F_SETPIPE_SZ = 1031
_LINGER_S = 0.004
_SMALL_BYTES = 2_000


class Seat:
    """Made once for each rank of a placement; `start` once for each generation."""

    def __init__(self) -> None:
        self._port: socket.socket | None = None
        self._folder = ""
        self._mark = ""
        self._control = self._result = -1
        self._pipes: dict[int, str] = {}
        self._events = b""
        self._saw_empty = False

    def facts(self) -> dict[str, Any]:
        """Where this is, and which GPUs were granted."""
        import ray  # type: ignore[import-not-found,unused-ignore]

        context = ray.get_runtime_context()
        return {
            "node_id": context.get_node_id(),
            "gpus": [str(gpu) for gpu in context.get_accelerator_ids().get("GPU", [])],
            "gpu_order": self._raylet_gpus(),
        }

    def _raylet_gpus(self) -> list[str]:
        """The GPUs that the node's raylet was started with, in their order; none where it was not told."""
        try:
            variables = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
        except OSError:
            return []
        found = [each.partition(b"=")[2].decode() for each in variables if each.startswith(b"CUDA_VISIBLE_DEVICES=")]
        return [name for name in ",".join(found).split(",") if name]

    def clock(self) -> float:
        return time.time()

    def hold_port(self) -> int:
        """A port of this node that nobody else is given, until the next is asked for.

        It is bound and does not listen: rank 0's store, which says SO_REUSEADDR as servers do, can listen on it all the
        same. The kernel hands it to nobody, and whoever does not say so is refused.
        """
        if self._port is not None:
            self._port.close()
        held = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if held.family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        held.bind(("", 0))
        self._port = held
        port: int = held.getsockname()[1]
        return port

    def start(self, kit: bytes, order: bytes, mark: str, call: bytes | None) -> None:
        """Start the rank of an order; what happens to it is told by `follow`."""
        scratch = os.environ.get("RAY_TMPDIR")  # in a run of Airlane, who removes it even after a SIGKILL of all
        self._folder = tempfile.mkdtemp(prefix="air-rank-", dir=scratch if scratch and Path(scratch).is_dir() else None)
        self._mark = mark
        with zipfile.ZipFile(io.BytesIO(kit)) as archive:
            archive.extractall(self._folder)
        if call is not None:
            Path(self._folder, "call.pickle").write_bytes(call)
            result = Path(self._folder, "result.pickle")
            self._result = os.open(result, os.O_RDWR | os.O_CREAT, 0o600)  # still ours when the keeper has removed all
        given = {name: os.pipe() for name in ("control", "status", "out", "err")}
        keeper = f"{self._folder}/airlane/ranks/keeper.py"
        subprocess.run(  # it goes on without us: this is only its first step
            [sys.executable, "-I", "-S", keeper, str(given["status"][1])],
            stdin=given["control"][0],
            stdout=given["out"][1],
            stderr=given["err"][1],
            pass_fds=[given["status"][1]],
            check=True,
        )
        for descriptor in (given["control"][0], given["status"][1], given["out"][1], given["err"][1]):
            os.close(descriptor)
        self._control, self._events, self._saw_empty = given["control"][1], b"", False
        self._pipes = {given[name][0]: name for name in ("status", "out", "err")}
        for descriptor in self._pipes:
            self._widen(descriptor)
        self._say(order + b"\n")

    def _widen(self, descriptor: int) -> None:
        import fcntl

        os.set_blocking(descriptor, False)
        try:
            fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            return  # the default size does, with more waiting

    def follow(self, wait_s: float) -> tuple[list[dict[str, Any]], bytes, bytes, bool]:
        """Events, stdout and stderr since the last call, and whether all is over; waits for news so long."""
        poller = select.poll()
        for descriptor in self._pipes:
            poller.register(descriptor, select.POLLIN)
        if self._pipes:
            poller.poll(1000 * wait_s)
        told = {"status": self._events, "out": b"", "err": b""}
        self._read_all(told)
        if 0 < len(told["out"]) + len(told["err"]) < _SMALL_BYTES:
            time.sleep(_LINGER_S)  # a chatty rank's next lines come along
            self._read_all(told)
        *lines, self._events = told["status"].split(b"\n")
        events = [json.loads(line) for line in lines]
        self._saw_empty = self._saw_empty or any(event["event"] in ("empty", "failed") for event in events)
        over = not self._pipes or (self._saw_empty and not told["out"] and not told["err"])
        if "status" not in self._pipes.values() and not self._saw_empty:
            self._saw_empty = True
            events.append({"event": "lost", "at": time.time()})
            self._sweep()
        if over:
            self._close()
        return events, told["out"], told["err"], over

    def _read_all(self, told: dict[str, bytes]) -> None:
        """Carry over what is there, and forget the pipes whose other end is closed."""
        for descriptor, name in list(self._pipes.items()):
            try:
                data = os.read(descriptor, MOST_BYTES - (len(told[name]) if name != "status" else 0))
            except BlockingIOError:
                continue
            if data:
                told[name] += data
            elif len(told[name]) < MOST_BYTES or name == "status":
                del self._pipes[descriptor]
                os.close(descriptor)

    def _sweep(self) -> None:
        """The keeper was killed, and told nothing: end what is left of its rank."""
        keeper = f"{self._folder}/airlane/ranks/keeper.py"
        subprocess.run([sys.executable, "-I", "-S", keeper, "--sweep", self._mark], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def result(self) -> bytes:
        """What the rank's function returned, as it was written down."""
        with os.fdopen(self._result, "rb") as file:
            self._result = -1
            return file.read()

    def tell(self, request: str) -> None:
        """Ask the keeper for something."""
        self._say(request.encode() + b"\n")

    def _say(self, words: bytes) -> None:
        try:
            while words:
                words = words[os.write(self._control, words) :]
        except OSError:
            return  # it has ended; `follow` tells how

    def _close(self) -> None:
        for descriptor in (*self._pipes, self._control):
            if descriptor >= 0:
                os.close(descriptor)
        self._pipes, self._control = {}, -1
