"""`python -I -S .../ray_exec.py FOLDER ORDER COMMAND...`: become a command on a cluster's head, as its driver.

It finds what the run's own command finds: variables, folder, environment or container. FOLDER holds the
cluster's files, ORDER the order of node 0. Exit codes: the command's; 127 when it, or the cluster, is not there.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from airlane.launch.command import NOT_STARTED, build_environment
from airlane.launch.container_argv import ENGINES, container_name
from airlane.launch.container_image import choose_runtime
from airlane.launch.order import Order
from airlane.launch.ray_cluster_file import read_cluster
from airlane.launch.ray_settings import CLUSTER, TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn


class ExecError(Exception):
    """The command cannot be started; the text says why."""


def cluster_variables(folder: str) -> dict[str, str]:
    """What makes Ray's programs and libraries find the cluster and open it. Raises ExecError."""
    cluster = read_cluster(os.path.join(folder, CLUSTER))
    if not cluster or not cluster.get("address"):
        raise ExecError("the cluster's head has not started yet")
    return {
        "RAY_ADDRESS": str(cluster["address"]),
        "RAY_API_SERVER_ADDRESS": f"http://{cluster['dashboard']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": os.path.join(folder, TOKEN),
    }


def become(folder: str, order: Order, command: Sequence[str], *, terminal: bool) -> NoReturn:
    """Replace this process by the command. Raises ExecError; OSError when there is no such program."""
    added = cluster_variables(folder)
    if order.container is not None:
        _become_in_container(order, added, command, terminal=terminal)
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_TOKEN"}
    environment = {**build_environment(inherited, order.env, {}), **added}
    os.chdir(order.working_folder)
    os.execvpe(command[0], list(command), environment)  # noqa: S606 - the user's own command


def _become_in_container(order: Order, added: Mapping[str, str], command: Sequence[str], *, terminal: bool) -> NoReturn:
    container = order.container
    if container is None:
        raise ExecError("the run has no container")
    runtime = choose_runtime(container.runtime, container.image, is_archive=container.is_archive)
    if runtime not in ENGINES:
        raise ExecError(f"a running container of {runtime} cannot be entered: submit a Ray job to the cluster instead")
    values = {name: value for name, value in order.env.items() if name not in ("PATH", "VIRTUAL_ENV")} | dict(added)
    names = [word for name in values for word in ("--env", name)]
    line = [runtime, "exec", "--interactive", *(["--tty"] if terminal else []), "--workdir", order.working_folder]
    os.execvpe(runtime, [*line, *names, container_name(order), *command], {**os.environ, **values})  # noqa: S606


def main(arguments: list[str]) -> int:
    folder, order_file, *command = arguments[1:]
    try:
        with open(order_file, encoding="utf-8", errors="surrogateescape") as file:
            order = Order.from_json(file.read())
        become(folder, order, command, terminal=os.isatty(0) and os.isatty(1))
    except (ExecError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        print(f"air ray exec: {command[0]}: {reason}", file=sys.stderr)  # noqa: T201 - for the user
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
