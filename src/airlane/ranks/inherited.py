"""A rank's environment: its node's own, the launcher's over it, and what the launcher sets. Pure; used on the nodes.

torchrun runs on every node, and its ranks find what that node's shell has. Here one program starts the ranks of all
nodes: what the user exported where it was started must reach them, and what belongs to one machine must not.
"""

from __future__ import annotations

import re

from airlane.launch.processes import STOPS_LAST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# The place of this node's copy of the code, where every node has its own (Airlane's runs on several machines).
CODE = "CODE_SOURCE_PATH"
# What belongs to the machine, session or process that has it: a rank takes its own node's, never the launcher's.
_OF_A_MACHINE = (
    CODE,
    "CUDA_DEVICE_ORDER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "HOST",
    "HOSTNAME",
    "LOGNAME",
    "OLDPWD",
    "PATH",
    "PWD",
    "SHELL",
    "SHLVL",
    "SPT_NOENV",
    "TMPDIR",
    "USER",
    "_",
)
_OF_A_MACHINE_PREFIXES = ("RAY_", "SSH_", "XDG_")
# Devices and interfaces differ between nodes: a node's own setting goes before the launcher's.
_NODE_FIRST_PREFIXES = ("FI_", "GLOO_", "NCCL_", "UCX_")
_NODE_FIRST = ("LD_LIBRARY_PATH", "LD_PRELOAD")
# What Ray or an outer launcher left for its own processes: libraries would take it for the rank's.
_OF_ANOTHER = (
    "CUDA_VISIBLE_DEVICES",
    "GLOBAL_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "RANK",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "WORLD_SIZE",
)
_OF_ANOTHER_PREFIXES = ("OMPI_", "PMI", "PMIX_", "TORCHELASTIC_")
_RAYS_BREAKPOINT = "ray.util.rpdb.set_trace"


def to_send(driver: Mapping[str, str]) -> dict[str, str]:
    """What of the launcher's environment ranks on other machines may take; CODE is kept to tell where it pointed."""
    return {
        name: value
        for name, value in driver.items()
        if name in (CODE, "PATH")
        or not (name in (*_OF_A_MACHINE, STOPS_LAST) or name.startswith(_OF_A_MACHINE_PREFIXES) or _of_another(name))
    }


def rank_environment(
    node: Mapping[str, str], sent: Mapping[str, str], own: Mapping[str, str], moves: Mapping[str, str], *, path: bool
) -> dict[str, str]:
    """`moves` leads from folders of the launcher's machine to this node's; `path` takes the launcher's PATH, too."""
    kept = {name: value for name, value in node.items() if not _rays(name, value) and not _of_another(name)}
    left = {
        name: moved(value, moves)
        for name, value in sent.items()
        if name not in (CODE, "PATH") and not (name in kept and _node_first(name))
    }
    paths = {"PATH": sent["PATH"]} if path and "PATH" in sent else {}
    code = {} if CODE in kept else {CODE: moved(sent[CODE], moves)} if CODE in sent else {}
    return {**kept, **left, **paths, **code, **own}


def _rays(name: str, value: str) -> bool:
    """What is for the Ray worker that the rank's seat is in, not for the rank. How the cluster is opened is kept."""
    if name == "PYTHONBREAKPOINT":
        return value == _RAYS_BREAKPOINT
    return name in ("OMP_NUM_THREADS", STOPS_LAST) or (
        name.startswith("RAY_") and not name.startswith(("RAY_AUTH_", "RAY_USAGE_"))
    )


def _of_another(name: str) -> bool:
    return name in _OF_ANOTHER or name.startswith(_OF_ANOTHER_PREFIXES)


def _node_first(name: str) -> bool:
    return name in _NODE_FIRST or name.startswith(_NODE_FIRST_PREFIXES)


def moved(text: str, moves: Mapping[str, str]) -> str:
    """The text with every path below a folder that moved, also as one of several in it: "--config=/a/x", "/a:/b"."""
    for before, after in moves.items():
        if before and before != after:
            text = re.sub(rf"(?<![\w./~-]){re.escape(before)}(?=$|[/:,;\s])", lambda _: after, text)  # noqa: B023 - used at once
    return text
