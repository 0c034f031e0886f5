"""What runs on each node of a run: a Ray actor, through which the supervisor has the node's agent started and watched.

Ray carries this class there by value, and our package comes as an archive: the node need not have it. Until that is
unpacked only the standard library is to be had.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airlane.backends.ray.replica import Source

_KIT = "kit"
_AFTER = "airlane/backends/ray/after.sh"
_PRIVATE = "private"
_LOOK_EVERY_S = 0.05
_END_S = 8.0
_MOST_BYTES = 1 << 20
# The shell leaves as soon as it has told the agent's pid: what Ray does to an actor's children does not reach it then.
# Ray makes its workers nice, and what trains is not; only root may undo it.
_APART = 'renice -n 0 -p $$ >/dev/null 2>&1; exec 3<&0; "$@" <&3 3<&- >/dev/null 2>&1 & echo $!'
# Ray sets these for its own workers; the command is none.
_NOT_INHERITED = ("RAY_", "OMP_NUM_THREADS", "PYTHONBREAKPOINT", "PYTHONPATH", "CUDA_VISIBLE_DEVICES")


class Agent:
    """One node of one attempt."""

    def __init__(self, run_id: str, attempt: int, kit: bytes) -> None:
        import ray

        self._run_id = run_id
        self._attempt = attempt
        self._node_id = ray.get_runtime_context().get_node_id()
        self._base = session_folder() / f"air-{run_id}" / self._node_id[:12]
        self._own = self._base / str(attempt)  # another attempt may begin before this one's last process has ended
        self._root = self._own / run_id
        self._rank = 0
        self._pid: int | None = None
        self._ticks: int | None = None
        self._stdin: int | None = None
        self._source: Source | None = None
        with tarfile.open(fileobj=io.BytesIO(kit), mode="r:gz") as archive:
            self._life = self._leave_nothing(archive)  # before there is anything
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._base.parent).chmod(0o700)
            self._unpack_kit(archive)

    def _leave_nothing(self, kit: tarfile.TarFile) -> int:
        """Have everything removed when this actor is gone, whatever ends it: when what is returned is closed."""
        script = kit.extractfile(_AFTER)
        if script is None:
            raise FileNotFoundError(_AFTER)
        reading, writing = os.pipe()
        line = ["/bin/sh", "-c", script.read().decode(), "after.sh", str(self._own)]
        subprocess.run(line, check=True, stdin=reading, start_new_session=True)
        os.close(reading)
        return writing

    def _unpack_kit(self, kit: tarfile.TarFile) -> None:
        folder = self._own / _KIT
        shutil.rmtree(folder, ignore_errors=True)
        kit.extractall(folder, filter="data")
        sys.path.insert(0, str(folder))

    def hello(self) -> dict[str, Any]:
        """What the supervisor must know of this node before it can give an order."""
        import ray

        from airlane.launch.ports import free_port

        address = ray.util.get_node_ip_address()
        bin_folder = os.path.dirname(sys.executable)  # noqa: PTH120 - as it is, links not followed
        return {
            "node_id": self._node_id,
            "host": os.uname().nodename,
            "address": address,
            "port": free_port(address),
            "devices": _devices(),
            "root": str(self._root),
            "checkpoints": str(self._base),
            "launch": str(self._own / _KIT / "airlane" / "launch"),
            "path": f"{bin_folder}{os.pathsep}{os.environ.get('PATH') or os.defpath}",
            "virtual_env": sys.prefix if sys.prefix != sys.base_prefix else None,
        }

    def start(self, rank: int, order: str, sent: Mapping[str, bytes], secrets: Sequence[bytes], code: bytes) -> None:
        """Put the run's files in place and start the agent. `order` is JSON; its files of secrets are replaced here."""
        import json

        from airlane.backends.ray.replica import Source
        from airlane.store.disk import make_private_folder
        from airlane.store.paths import RunPaths

        self._rank = rank
        paths = RunPaths(self._root)
        make_private_folder(paths.nodes(self._attempt))
        for name, content in sent.items():
            _write(self._root / name, content)
        private = self._root / _PRIVATE
        files = [private / f"{number}.json" for number in range(len(secrets))]
        for file, content in zip(files, secrets, strict=True):
            _write(file, content)
        fields = json.loads(order)
        fields["secrets_files"] = [str(file) for file in files]
        # The agent removes it with the end of the command, also when nobody is left to ask it to.
        fields["scratch_folders"] = [*fields["scratch_folders"], str(private)]
        self._lay_out_code(Path(fields["working_folder"]), code)
        if checkpoints := fields["env"].get("AIR_CHECKPOINT_DIR"):
            make_private_folder(Path(checkpoints))
        file = paths.node_order(attempt=self._attempt, node=rank)
        _write(file, json.dumps(fields).encode("utf-8", "surrogateescape"))
        self._source = Source(self._root, travels(self._attempt, rank))
        self._spawn(file)

    def _lay_out_code(self, folder: Path, code: bytes) -> None:
        from airlane import snapshot
        from airlane.store.disk import make_private_folder

        if not code:
            make_private_folder(folder)
            return
        archive = self._own / "code.tar.gz"
        _write(archive, code)
        try:
            snapshot.unpack(archive, folder.parent)
        finally:
            archive.unlink()

    def _spawn(self, order: Path) -> None:
        from airlane.launch.processes import start_ticks

        main = self._own / _KIT / "airlane" / "launch" / "__main__.py"
        reading, self._stdin = os.pipe()
        env = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_INHERITED)}
        mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray blocks SIGINT in its workers
        try:
            shell = ["/bin/sh", "-c", _APART, "sh", sys.executable, "-I", "-S", str(main), str(order)]
            done = subprocess.run(
                shell,
                check=True,
                stdin=reading,
                stdout=subprocess.PIPE,
                env=env,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(reading)
        self._pid = int(done.stdout)
        os.write(self._life, b"%d\n" % self._pid)  # it ends what it has started before anything is removed
        self._ticks = start_ticks(self._pid)

    def news(self, patience_s: float) -> tuple[list[tuple[str, int | None, bytes]], bool]:
        """What the node's files have gained, waiting for something; and whether the agent lives, or may have more."""
        self._say(b"\n")
        deadline = time.monotonic() + patience_s
        while True:
            alive = self._lives()  # asked first: what it wrote before its end is found after this
            frames = self._source.changes(_MOST_BYTES) if self._source is not None else ()
            if frames or not alive or time.monotonic() > deadline:
                return [(frame.path, frame.offset, frame.data) for frame in frames], alive or bool(frames)
            time.sleep(_LOOK_EVERY_S)

    def put(self, name: str, content: bytes) -> None:
        """A file that another node of the run has written for all."""
        _write(self._root / name, content)

    def tell(self, word: bytes) -> None:
        """A word for the agent. Harmless when it is gone."""
        self._say(word)

    def _say(self, word: bytes) -> None:
        if self._stdin is not None:
            with contextlib.suppress(OSError):
                os.write(self._stdin, word)

    def _lives(self) -> bool:
        from airlane.launch.processes import lives, start_ticks

        return self._pid is not None and start_ticks(self._pid) == self._ticks and lives(self._pid)

    def kill(self) -> None:
        """End the agent, and everything of the run on this node. Harmless when repeated."""
        from airlane.launch.scratch import remove_left_scratch
        from airlane.launch.sweep import sweep

        if self._pid is not None and self._ticks is not None:
            from airlane.launch.processes import send

            send((self._pid, self._ticks), signal.SIGKILL)
            deadline = time.monotonic() + _END_S
            while self._lives() and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
        sweep(self._run_id, attempt=self._attempt, node=self._rank)
        remove_left_scratch(self._run_id, attempt=self._attempt, node=self._rank)

    def close(self) -> None:
        """Leave nothing on this node but what the command saved."""
        self.kill()
        shutil.rmtree(self._own, ignore_errors=True)
        for folder in (self._base / "checkpoints", self._base, self._base.parent):
            with contextlib.suppress(OSError):  # something was saved
                folder.rmdir()


def travels(attempt: int, rank: int) -> Callable[[str], bool]:
    """Which of a node's files go to the supervisor: its own, and not those that others have written for all."""
    own = f"attempts/{attempt}/nodes/{rank}."
    shared = [f"attempts/{attempt}/ray/start-{rank}.log"]
    if rank == 0:
        shared.append(f"attempts/{attempt}/ray/cluster.json")

    def chosen(name: str) -> bool:
        if name.startswith(own):
            return name.endswith((".log", ".jsonl", ".json")) and not name.endswith(".order.json")
        return name in shared

    return chosen


def session_folder() -> Path:
    """The folder of this node's Ray session; the system's temporary one where Ray does not tell."""
    from ray._private import worker

    node = getattr(worker, "_global_node", None)
    return Path(node.get_session_dir_path()) if node is not None else Path(tempfile.gettempdir())


def _devices() -> list[str]:
    """The GPUs that Ray has granted: indexes as the node counts them, or UUIDs."""
    import ray

    granted = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    return [str(device) for device in granted]


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.next")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    scratch.replace(path)
