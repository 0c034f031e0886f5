"""The user's command: what it will find, and the last steps before bash takes over the process."""

from __future__ import annotations

import os
import stat

from airlane.launch import libc
from airlane.launch.contained import Program
from airlane.launch.mark import put_mark
from airlane.launch.order_file import parse_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from airlane.launch.order import Order

KEPT_DESCRIPTORS = "AIR_KEEP_FDS"
# What an outer run, or a launcher around the supervisor, may have left in the environment: none of it is this run's.
NOT_INHERITED = (
    KEPT_DESCRIPTORS,
    "AIR_ATTEMPT",
    "AIR_CHECKPOINT_DIR",
    "AIR_RUN_ID",
    "AIR_STOPS_LAST",
    "CODE_SOURCE_PATH",
    "GLOBAL_RANK",
    "HYPERPARAMETERS_PATH",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_RUN_ID",
    "NODE_RANK",
    "NUM_NODES",
    "OLDPWD",
    "RANK",
    "RAY_ADDRESS",
    "RAY_TMPDIR",
    "WORLD_SIZE",
)
_OF_A_STEP = (
    "PMI",
    "SLURM_DISTRIBUTION",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_SRUN_",
    "SLURM_STEP",
    "SLURM_TASK",
    "SLURM_TOPOLOGY_",
    "SLURM_UMASK",
)
STRICT_BASH = ("bash", "-euo", "pipefail")
NOT_STARTED = 127
_FIRST_FREE_DESCRIPTOR = 3
_MOST_DESCRIPTORS = 4096


class Command(Program):
    """Everything that bash needs, made ready before the fork; `become` is called in the child."""

    def __init__(self, order: Order) -> None:
        """Raises OSError or ValueError when something the order names is not there."""
        self.secrets = {name: value for path in order.secrets_files for name, value in read_secrets(path).items()}
        self.runtime = None
        self.network = None
        self._order = order
        inherited = dict(os.environ)
        if order.container is not None:
            from airlane.launch.container_image import choose_runtime

            wanted, image = order.container.runtime, order.container.image
            self.runtime = choose_runtime(wanted, image, is_archive=order.container.is_archive)
            inherited = {}
        if order.network is not None:
            from airlane.launch.network import settle

            inherited, self.network = settle(order.network, inherited, towards=order.env["MASTER_ADDR"])
        self.environment = build_environment(inherited, order.env, self.secrets)
        self.log = os.open(order.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.output_end = -1
        self.output = self.log
        if self.secrets:
            self.output_end, self.output = os.pipe()
        self.failure_end, self._failure = os.pipe()
        self._run = order.run_id, order.attempt
        self._command_file = order.command_file
        self._folder = order.working_folder
        self._null = os.open(os.devnull, os.O_RDONLY)

    def become(self) -> NoReturn:
        """Turn this (forked) process into bash running the command; never returns."""
        try:
            os.setsid()
            if self.runtime != "podman":  # whose monitor would take the mark over, and must outlive a sweep to clean up
                put_mark(*self._run)
            os.chdir(self._folder)
            os.dup2(self._null, 0)
            os.dup2(self.output, 1)
            os.dup2(self.output, 2)
            libc.default_signals()
            if self.runtime is not None:
                self._run_container(self.runtime)
            os.execvpe(STRICT_BASH[0], [*STRICT_BASH, self._command_file], self.environment)  # noqa: S606 - it is the shell
        except (OSError, ValueError) as error:
            self.fail(error)
        finally:
            os._exit(NOT_STARTED)

    def _run_container(self, runtime: str) -> None:
        """Stay this process, which runs a container, and end as the command in it did. Raises OSError or ValueError."""
        from airlane.launch.container_runner import Runner, end_like

        # What an exec would close: the agent's locks and pipes.
        os.closerange(_FIRST_FREE_DESCRIPTOR, self._failure)
        os.closerange(self._failure + 1, _MOST_DESCRIPTORS)
        end_like(Runner(runtime, self._order, self.environment, self.secrets).run())

    def fail(self, error: BaseException) -> None:
        """Tell the agent, from a child, why the command could not be started."""
        os.write(self._failure, str(error).encode(errors="replace"))

    def release(self) -> None:
        """Close, in the agent, what only the child needs."""
        os.close(self._null)
        os.close(self._failure)
        if self.output != self.log:
            os.close(self.output)

    def failure(self) -> str | None:
        """Why the command could not be started, or None; asked when its process has ended."""
        os.set_blocking(self.failure_end, False)
        try:
            words = os.read(self.failure_end, 4096)
        except BlockingIOError:
            return None
        return words.decode(errors="replace") or None


def read_secrets(path: str) -> dict[str, str]:
    """Secret values by variable name. Raises OSError, PermissionError when others may read the file, or ValueError."""
    with open(path, encoding="utf-8") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise PermissionError(f"{path} must be readable by its owner alone (mode 0600)")
        return parse_object(file.read())


def build_environment(inherited: dict[str, str], added: dict[str, str], secrets: dict[str, str]) -> dict[str, str]:
    """The command's environment: the node's own, without another run's variables, then this run's, then secrets."""
    kept = {name: value for name, value in inherited.items() if not of_another(name)}
    return {**kept, **added, **secrets}


def of_another(name: str) -> bool:
    """Whether a variable belongs to an outer run, or to the step of Slurm that started the agent.

    Training libraries take SLURM_PROCID for their rank where they find it; what says who holds the nodes is kept.
    """
    return name in NOT_INHERITED or name.startswith(_OF_A_STEP)
