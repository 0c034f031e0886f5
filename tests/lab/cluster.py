"""A real Slurm cluster of several machines on one Linux machine, as root.

Each machine has its own network, host name, PID, IPC and mount namespace and its own slurmd; all share one kernel and
one file system. This machine is the one people submit from; the controller and a login machine are machines too.
"""

from __future__ import annotations

import ipaddress
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path

from lab.machine import Machine, MachineError, boot, stream
from lab.processes import Process, wait_until_ended
from lab.remains import add_host_lines, bridge_of, folder_of, state_lock, sweep
from lab.slurm_conf import SLURMD_PORT, SLURMDBD_PORT, ClusterShape, write_configuration

KEEPER = Path(__file__).with_name("keeper.py")
ACCOUNTING = Path(__file__).with_name("accounting.sh")
_NUMBERS = range(1, 200)
_POLL_S = 0.05
_END_S = 40
_RUN_S = 120


class Lab:
    """A running lab; `down` removes it, and so does the end of the process that started it."""

    def __init__(self, number: int, shape: ClusterShape) -> None:
        self.number = number
        self.shape = shape
        self.folder = folder_of(number)
        self._children: list[subprocess.Popen[str]] = []
        self._kept: int | None = None

    @classmethod
    def up(cls, shape: ClusterShape | None = None, *, outlives_starter: bool = False) -> Lab:
        """Starts a cluster and waits until all its nodes are idle."""
        with state_lock():
            sweep()
            lab = cls(_claim_number(), shape or ClusterShape())
            lab._start_keeper(outlives_starter=outlives_starter)
        try:
            lab._prepare()
            lab._start_munge()
            if lab.shape.accounting:
                lab._boot([lab._accounting])
                lab.wait_until(partial(_listens, lab._accounting.address, SLURMDBD_PORT), timeout_s=30)
            lab.start_controller()
            lab._boot_nodes([lab._machines[name] for name in lab.nodes])
            lab.wait_until(lambda: set(lab.states().values()) == {"idle"}, timeout_s=30)
        except BaseException:
            lab.down()
            raise
        return lab

    @classmethod
    def attach(cls, number: int) -> Lab:
        """A lab that another process started."""
        try:
            shape = json.loads((folder_of(number) / "shape.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MachineError(f"there is no lab {number}") from None
        return cls(number, ClusterShape(**shape))

    # What it consists of.

    @cached_property
    def _network(self) -> str:
        return f"10.77.{self.number}"

    @property
    def gateway(self) -> str:
        """The address at which the machines reach this one."""
        return f"{self._network}.1"

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"lab{self.number}n{i}" for i in range(1, self.shape.nodes + 1))

    @property
    def login(self) -> str:
        """A machine to submit from that can be killed; `start` it first."""
        return f"lab{self.number}login"

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """What a command needs in its environment to speak to this cluster."""
        return {"SLURM_CONF": str(self.conf)}

    @cached_property
    def _machines(self) -> dict[str, Machine]:
        slurmctld = ("slurmctld", "-D", "-f", str(self.conf))
        accounting = ("bash", str(ACCOUNTING), str(self.conf), str(self.folder / "database"))
        machines = [
            self._machine(f"lab{self.number}ctl", 2, slurmctld),
            self._machine(self.login, 3, ()),
            self._machine(f"lab{self.number}dbd", 4, accounting),
            *(
                self._machine(name, 10 + i, ("slurmd", "-D", "-N", name, "-f", str(self.conf)))
                for i, name in enumerate(self.nodes, 1)
            ),
        ]
        return {machine.name: machine for machine in machines}

    @property
    def _accounting(self) -> Machine:
        return self._machines[f"lab{self.number}dbd"]

    def _machine(self, name: str, host: int, daemon: tuple[str, ...]) -> Machine:
        return Machine(name, f"{self._network}.{host}", f"{bridge_of(self.number)}v{host}", self.folder, daemon)

    @property
    def controller(self) -> Machine:
        return self._machines[f"lab{self.number}ctl"]

    def address(self, name: str) -> str:
        return self._machines[name].address

    def own_folder(self, name: str) -> Path:
        """Where a machine keeps what it does not share."""
        return self._machines[name].own

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """The words that run a command on a machine, typed on this one."""
        return self._machines[name].command(argv)

    # What can be done to a machine.

    def kill(self, name: str) -> None:
        """As when the power fails."""
        self._machines[name].kill()
        self._reap()

    def start(self, name: str) -> None:
        """Brings a machine up that was killed, or was never started."""
        if name in self.nodes:
            self._boot_nodes([self._machines[name]])
        else:
            self._boot([self._machines[name]])

    def hang(self, name: str) -> None:
        """Everything on it stands still; the network stays up and nothing answers."""
        self._machines[name].hang()

    def resume(self, name: str) -> None:
        self._machines[name].resume()

    def cut(self, name: str) -> None:
        """Pulls its network cable; it goes on."""
        self._cable(name, "down")

    def join(self, name: str) -> None:
        self._cable(name, "up")

    def _cable(self, name: str, state: str) -> None:
        subprocess.run(["ip", "link", "set", self._machines[name].cable, state], check=True)

    def processes(self, name: str) -> list[Process]:
        """Everything on a machine, containers included, with the pids that this machine knows."""
        return self._machines[name].processes()

    def stop_controller(self) -> None:
        """Ends slurmctld in good order: it has written its state."""
        for process in self.controller.processes():
            if process.argv[0].endswith("slurmctld"):
                os.kill(process.pid, signal.SIGTERM)
                if not wait_until_ended(process.pid, timeout_s=_END_S):
                    raise MachineError(f"slurmctld did not end within {_END_S} s of SIGTERM")
        self.kill(self.controller.name)

    def start_controller(self) -> None:
        self._boot([self.controller])
        self.wait_until(self._controller_listens, timeout_s=15)

    def restart_controller(self) -> None:
        self.stop_controller()
        self.start_controller()

    @contextmanager
    def unshared(self, folder: Path, *names: str) -> Iterator[None]:
        """A folder is another, empty one on these nodes (all of them, if none is named)."""
        machines = names or self.nodes
        for name in machines:
            self.exec(name, ["mount", "-t", "tmpfs", "unshared", str(folder)])
        try:
            yield
        finally:
            for name in machines:
                if self._machines[name].running:
                    self.exec(name, ["umount", "--lazy", str(folder)])

    # Running commands.

    def exec(
        self, name: str, argv: Sequence[str], *, check: bool = True, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on a machine to its end."""
        return self._run(self.command(name, argv), check=check, env=env)

    def run(
        self, argv: Sequence[str], *, check: bool = True, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on this machine to its end."""
        return self._run(list(argv), check=check, env=env)

    def _run(self, words: list[str], *, check: bool, env: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
        whole = {**os.environ, **self.env, **(env or {})}
        try:
            done = subprocess.run(
                words, env=whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_RUN_S
            )
        except subprocess.TimeoutExpired:
            raise MachineError(f"{' '.join(words)} did not end within {_RUN_S} s") from None
        if check and done.returncode != 0:
            raise MachineError(f"{' '.join(words)} exited with {done.returncode}: {done.stderr.strip()}")
        return done

    def popen(self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts a command on a machine, where it ends with the machine; its output goes to the machine's log."""
        return self._popen(self.command(name, argv), self._machines[name].log, env=env)

    def _popen(self, words: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        with log.open("a", encoding="utf-8") as file:
            process = subprocess.Popen(
                words,
                env={**os.environ, **self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        self._children.append(process)
        return process

    # What Slurm says, and is told.

    def states(self) -> dict[str, str]:
        """Slurm's word for each node, as sinfo tells it; none where the controller does not answer."""
        lines = self.run(["sinfo", "-h", "-p", "main", "-N", "-o", "%N %T"], check=False).stdout.splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    def wait_for_state(self, name: str, *states: str, timeout_s: float = 60) -> None:
        """Waits until Slurm uses one of these words for a node; "*" (does not answer) is not looked at."""
        self.wait_until(lambda: self.states().get(name, "").rstrip("*") in states, timeout_s=timeout_s)

    def mend(self) -> None:
        """Undoes what was done to the machines, ends every job, and waits until all nodes are idle."""
        if not self._daemon_runs(self.controller):
            self.kill(self.controller.name)
            self.start_controller()
        self.kill(self.login)
        for machine in (self.controller, *(self._machines[name] for name in self.nodes)):
            machine.resume()
            if self._daemon_runs(machine):
                self.join(machine.name)
        dead = [self._machines[name] for name in self.nodes if not self._daemon_runs(self._machines[name])]
        for machine in dead:
            self.kill(machine.name)
        self._boot_nodes(dead)
        self.wait_until(self._quiet, timeout_s=60)

    def _daemon_runs(self, machine: Machine) -> bool:
        return any(process.argv[: len(machine.daemon)] == machine.daemon for process in machine.processes())

    def _quiet(self) -> bool:
        """Whether no job is left and all nodes are idle; what is in the way is told to go."""
        if jobs := self.run(["squeue", "-h", "-o", "%A"], check=False).stdout.split():
            self.run(["scancel", "--full", "--signal=KILL", *jobs], check=False)
            self.run(["scancel", *jobs], check=False)
            return False
        states = self.states()
        for name, state in states.items():
            if state.startswith(("down", "drain")):
                self.run(["scontrol", "update", f"nodename={name}", "state=resume"], check=False)
        return set(states.values()) == {"idle"}

    def wait_until(self, condition: Callable[[], bool], *, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise MachineError(f"not within {timeout_s:g} s: {self.states()}; logs are in {self.folder / 'log'}")
            time.sleep(_POLL_S)

    def _controller_listens(self) -> bool:
        return self.run(["scontrol", "ping"], check=False).returncode == 0

    # Its beginning and its end.

    def _start_keeper(self, *, outlives_starter: bool) -> None:
        words = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-I", str(KEEPER), str(self.number)]
        watched, kept = os.pipe()
        with (self.folder / "keeper.log").open("w", encoding="utf-8") as log:
            keeper = subprocess.Popen(
                words,
                stdin=watched,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                # Whoever holds this end open keeps the lab alive: the keeper itself, or this process.
                pass_fds=[kept] if outlives_starter else [],
            )
        os.close(watched)
        if outlives_starter:
            os.close(kept)
        else:
            self._kept = kept
        self._children.append(keeper)
        with stream(keeper.stdout) as told:
            said = told.readline().strip()
        if not said:
            raise MachineError(f"the keeper did not start: {(self.folder / 'keeper.log').read_text(encoding='utf-8')}")
        (self.folder / "keeper.pid").write_text(said, encoding="utf-8")

    @cached_property
    def _keeper(self) -> int:
        return int((self.folder / "keeper.pid").read_text(encoding="utf-8"))

    def _prepare(self) -> None:
        for name in ("log", "state", "dev", "machines"):
            (self.folder / name).mkdir()
        for node in self.nodes:
            (self.folder / "spool" / node).mkdir(parents=True)
        for i in range(self.shape.gpus):
            # The same as /dev/null: Slurm wants a device that is there.
            os.mknod(self.folder / "dev" / f"gpu{i}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (self.folder / "shape.json").write_text(json.dumps(asdict(self.shape)), encoding="utf-8")
        addresses = [(machine.address, machine.name) for machine in self._machines.values()]
        add_host_lines(self.number, addresses)
        lines = [("127.0.0.1", "localhost"), (self.gateway, os.uname().nodename), *addresses]
        (self.folder / "hosts").write_text("".join(f"{a} {n}\n" for a, n in lines), encoding="utf-8")
        write_configuration(
            self.folder,
            self.shape,
            cluster=f"lab{self.number}",
            controller=(self.controller.name, self.controller.address),
            accounting=self._accounting.name,
            nodes=[(name, self.address(name)) for name in self.nodes],
        )

    def _start_munge(self) -> None:
        """One for all machines, because its socket is a file."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = [f"--{what}-file={self.folder / f'munge.{what}'}" for what in ("key", "pid", "log", "seed")]
        words = ["munged", "--foreground", "--force", f"--socket={self.folder / 'munge.socket'}", *files]
        self._popen(["nsenter", f"--target={self._keeper}", "--pid", *words], self.folder / "log" / "munged.out")
        self.wait_until((self.folder / "munge.socket").exists, timeout_s=10)

    def _boot(self, machines: Sequence[Machine]) -> None:
        self._children += boot(machines, keeper=self._keeper, gateway=self.gateway, bridge=bridge_of(self.number))

    def _boot_nodes(self, nodes: Sequence[Machine]) -> None:
        self._boot(nodes)
        for node in nodes:
            self.wait_until(partial(_listens, node.address, SLURMD_PORT), timeout_s=15)

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]

    def down(self) -> None:
        """Ends everything of the lab and removes what it left on the machine."""
        with suppress(FileNotFoundError, ProcessLookupError):
            keeper = self._keeper
            opened = os.pidfd_open(keeper)
            os.kill(keeper, signal.SIGTERM)
            # The keeper waits for what this process has to reap.
            deadline = time.monotonic() + _END_S
            while not select.select([opened], [], [], _POLL_S)[0] and time.monotonic() < deadline:
                self._reap()
            os.close(opened)
        for child in self._children:
            child.wait(timeout=_END_S)
        self._children.clear()
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None


def _listens(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def _claim_number() -> int:
    """A number whose network nobody on this machine uses, with its bridge; to be called under the state lock."""
    routes = subprocess.run(["ip", "-4", "-o", "route"], capture_output=True, text=True, check=True).stdout
    taken = [ipaddress.ip_network(line.split()[0]) for line in routes.splitlines() if line[0].isdecimal()]
    for number in _NUMBERS:
        network = ipaddress.ip_network(f"10.77.{number}.0/24")
        if folder_of(number).exists() or any(network.overlaps(other) for other in taken):
            continue
        folder_of(number).mkdir()
        bridge = bridge_of(number)
        subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
        subprocess.run(["ip", "address", "add", f"10.77.{number}.1/24", "dev", bridge], check=True)
        subprocess.run(["ip", "link", "set", bridge, "up"], check=True)
        return number
    raise MachineError("every 10.77.x.0/24 is in use on this machine")
