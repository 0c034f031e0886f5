"""One machine of the lab: its own network, host name, processes and mounts, on the kernel and the files of all."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab.processes import Process, namespace_of, processes_of, wait_until_ended

BOOT = Path(__file__).with_name("boot.sh")
_END_S = 10
NAMESPACES = ("--net", "--uts", "--pid", "--mount", "--ipc")


class MachineError(Exception):
    """A machine did not do what it was told to."""


@dataclass(frozen=True)
class Machine:
    """A place on the lab's bridge, whether something runs there or not."""

    name: str
    address: str
    cable: str  # the interface on this side; the other side is the machine's eth0
    folder: Path  # of the lab
    daemon: tuple[str, ...]

    @property
    def log(self) -> Path:
        return self.folder / "log" / f"{self.name}.log"

    @property
    def hardware(self) -> str:
        """The address of its network card; were it another after a restart, others would use the old one a while."""
        return "02:00:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))

    @property
    def own(self) -> Path:
        """What this machine does not share with the others."""
        return self.folder / "machines" / self.name

    @property
    def _identity(self) -> Path:
        return self.own / "pid"

    @property
    def running(self) -> bool:
        return self._init() is not None

    @property
    def pid(self) -> int:
        """Of the machine's first process; MachineError where the machine is down."""
        init = self._init()
        if init is None:
            raise MachineError(f"{self.name} is down")
        return init

    def _init(self) -> int | None:
        """The recorded pid, if it is still the process that was recorded."""
        with suppress(FileNotFoundError):
            pid, namespace = self._identity.read_text(encoding="utf-8").split()
            return int(pid) if namespace_of(int(pid)) == namespace else None
        return None

    def record(self, pid: int) -> None:
        self._identity.write_text(f"{pid} {namespace_of(pid)}", encoding="utf-8")

    def processes(self) -> list[Process]:
        """Everything that runs on it, containers included; none where it is down."""
        namespace = namespace_of(self.pid) if self.running else None
        return processes_of(namespace) if namespace else []

    def kill(self) -> None:
        """As when the power fails: no process gets to say anything, and its network goes with it."""
        if (pid := self._init()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            if not wait_until_ended(pid, timeout_s=_END_S):
                raise MachineError(f"{self.name} did not end within {_END_S} s of SIGKILL")
            # The kernel takes its time to end a network, and with it the cable.
            subprocess.run(["ip", "link", "delete", self.cable], check=False, capture_output=True)
        self._identity.unlink(missing_ok=True)

    def hang(self) -> None:
        """Stops everything on it, itself included, as when a kernel hangs; the network stays up and nothing answers."""
        while moving := [process for process in self.processes() if not process.stopped]:
            for process in moving:
                _send(process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        for process in self.processes():
            _send(process.pid, signal.SIGCONT)

    def command(self, argv: Sequence[str]) -> list[str]:
        """The words that run a command on this machine, from outside, in the folder where they are typed.

        The command's parent is a shell that stays outside: nsenter would stop itself when the machine is hung.
        """
        outside = ["nsenter", f"--target={self.pid}", *NAMESPACES, f"--wdns={Path.cwd()}", "--no-fork"]
        return [*outside, "sh", "-c", '"$@"; exit $?', "sh", *argv]


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def boot(machines: Sequence[Machine], *, keeper: int, gateway: str, bridge: str) -> list[subprocess.Popen[str]]:
    """Starts machines, all at once; the processes that come back end with them."""
    booting = [(machine, _first_process(machine, keeper=keeper, gateway=gateway)) for machine in machines]
    links = []
    for machine, process in booting:
        said = _line(machine, process)
        machine.record(int(said))
        links.append(f"link add {machine.cable} type veth peer name eth0 address {machine.hardware} netns {said}")
        links.append(f"link set {machine.cable} master {bridge} up")
    subprocess.run(["ip", "-batch", "-"], input="\n".join(links), text=True, check=True)
    for _, process in booting:
        with stream(process.stdin) as told:
            told.write("plugged in\n")
    for machine, process in booting:
        _line(machine, process)
        stream(process.stdout).close()
    return [process for _, process in booting]


def _line(machine: Machine, process: subprocess.Popen[str]) -> str:
    """The next that a booting machine says: its pid, then that it is up."""
    if said := stream(process.stdout).readline().strip():
        return said
    raise MachineError(f"{machine.name} did not start: see {machine.log}")


def _first_process(machine: Machine, *, keeper: int, gateway: str) -> subprocess.Popen[str]:
    machine.own.mkdir(parents=True, exist_ok=True)
    hosts = machine.folder / "hosts"
    words = ["nsenter", f"--target={keeper}", "--pid", "unshare", *NAMESPACES, "--fork", "--kill-child"]
    words += ["bash", str(BOOT), machine.name, machine.address, gateway, str(hosts), str(machine.own), *machine.daemon]
    with machine.log.open("a", encoding="utf-8") as log:
        return subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )


def stream(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise MachineError("a program was started without a pipe")
    return stream
