"""What srun starts on each node: it tells what the node has, waits for the word, and becomes the node's agent.

It writes JSON objects to stdout, one a line: first this hello, then the agent's beats. The word comes on stdin.
"""

from __future__ import annotations

import json
import os
import time

from airlane.launch import agent, libc
from airlane.launch.cores import granted_cores
from airlane.launch.interface import reachable_address
from airlane.launch.order_file import WHEN_TOLD
from airlane.launch.ports import free_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LOOPBACK = "127.0.0.1"


def main(arguments: list[str]) -> int:
    """The last argument is the folder of the nodes' orders; returns the agent's exit code."""
    folder = arguments[-1]
    rank = int(os.environ["SLURM_PROCID"])
    # What started us is the one that Slurm watches: without it nobody tells us anything.
    libc.prctl(libc.PR_SET_PDEATHSIG, libc.SIGTERM)
    tell({"hello": hello(os.environ, folder)})
    return agent.main([*arguments[:1], WHEN_TOLD, f"{folder}/{rank}.order.json"])


def tell(words: Mapping[str, Any]) -> None:
    """One line for the supervisor. Raises OSError when it is gone."""
    os.write(1, json.dumps(words).encode() + b"\n")


def hello(environ: Mapping[str, str], folder: str) -> dict[str, Any]:
    """What the supervisor must know of this node before it can give an order."""
    address = _address(environ)
    devices = [name for name in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return {
        "host": environ.get("SLURMD_NODENAME") or os.uname().nodename,
        "address": address,
        "port": free_port(address),
        "devices": devices,
        "cores": granted_cores(environ),
        "step": environ.get("SLURM_STEP_ID"),
        "time": time.time(),
        "shared": os.path.isdir(folder),
    }


def _address(environ: Mapping[str, str]) -> str:
    """The address by which the node that started us, and with it the others, reach this one."""
    try:
        found = reachable_address(environ.get("SLURM_LAUNCH_NODE_IPADDR"))
    except OSError:
        found = reachable_address()
    return found or _LOOPBACK
