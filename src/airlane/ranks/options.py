"""The command line of `air-ranks`: torchrun's names, and some of our own."""

from __future__ import annotations

import argparse
import os
import textwrap
from pathlib import Path

from airlane.errors import ArgumentError
from airlane.ranks.hosts import read_topology
from airlane.ranks.inherited import to_send
from airlane.ranks.order import PYTHON
from airlane.ranks.settings import RankCommand, Settings
from airlane.ranks.shape import AUTO, CPU, GPU, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EXAMPLES = """\
air-ranks --nodes 2 --gpus-per-node 8 train.py --lr 3e-4      a rank on every GPU of two nodes
air-ranks --max-restarts 3 -m my.training                     on every GPU of the cluster; again when a rank fails
air-ranks --nodes 2 --nproc-per-node 4 --cpu-only train.py    four ranks on each of two nodes, without GPUs

Starts a program for torch.distributed on a Ray cluster: typed once, where torchrun was typed on every node. The
cluster is that of RAY_ADDRESS, or the one on this machine. Options have torchrun's names, with - or _.
"""
# torchrun's, which have nothing to say here: accepted, and said once to be unused. Those in capitals take a value.
_UNUSED = {
    "--rdzv-backend": "NAME",
    "--rdzv-endpoint": "HOST:PORT",
    "--rdzv-conf": "KEY=VALUE",
    "--node-rank": "N",
    "--master-addr": "HOST",
    "--master-port": "PORT",
    "--local-addr": "HOST",
    "--monitor-interval": "SECONDS",
    "--start-method": "NAME",
    "--event-log-handler": "NAME",
    "--logs-specs": "NAME",
    "--redirects": "STREAMS",
    "--tee": "STREAMS",
    "--duplicate-stdout-filters": "WORDS",
    "--duplicate-stderr-filters": "WORDS",
    "--numa-binding": "NAME",
    "--signals-to-handle": "NAMES",
}
# In a run of Airlane, whose own log has every line, and no secret in any.
_RUN = "AIR_RUN_ID"
_SHORT = {"--redirects": "-r", "--tee": "-t"}


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=110)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """The name with -, once: that with _ is known, and the value is shown once."""
        names = [name for name in action.option_strings if "_" not in name]
        value = f" {action.metavar}" if action.metavar and names else ""
        return ", ".join(names) + value if names else str(action.metavar)


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        return _EXAMPLES + "\n" + super().format_help()

    def error(self, message: str) -> None:  # type: ignore[override]
        raise ArgumentError(message, hint="air-ranks --help")


def parser() -> argparse.ArgumentParser:
    usage = "air-ranks [options] script.py [its arguments]"
    made = _Parser(prog="air-ranks", usage=usage, add_help=False, formatter_class=_Formatter)
    made.add_argument("program", metavar="script.py", nargs="?", help="what every rank runs")
    made.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    _where(made.add_argument_group("where ranks run"))
    _what(made.add_argument_group("what they run"))
    _how_long(made.add_argument_group("failures and deadlines"))
    _seen(made.add_argument_group("output"))
    unused = made.add_argument_group("torchrun's, accepted and not needed here")
    for name, value in _UNUSED.items():
        _add(unused, name, metavar=value, short=_SHORT.get(name), help_text=argparse.SUPPRESS)
    unused.description = textwrap.fill(", ".join(_UNUSED), 110, break_on_hyphens=False)
    return made


def _add(
    group: argparse._ArgumentGroup, name: str, *others: str, metavar: str, help_text: str, short: str | None = None
) -> None:
    """An option with a value, under its names with - and _."""
    names = [name, *others]
    spelled = dict.fromkeys(each for name in names for each in (name, "--" + name[2:].replace("-", "_")))
    group.add_argument(*([short] if short else []), *spelled, dest=_place(name), metavar=metavar, help=help_text)


def _flag(group: argparse._ArgumentGroup, name: str, *, help_text: str, short: str | None = None) -> None:
    spelled = dict.fromkeys((name, "--" + name[2:].replace("-", "_")))
    names = [*([short] if short else []), *spelled]
    group.add_argument(*names, dest=_place(name), action="store_true", help=help_text)


def _place(name: str) -> str:
    return name[2:].replace("-", "_")


def _where(group: argparse._ArgumentGroup) -> None:
    _add(group, "--nodes", "--nnodes", metavar="N", help_text="distinct nodes; MIN:MAX takes what is there (all)")
    _add(group, "--gpus-per-node", metavar="N", help_text="ranks on each node, with a GPU each (all GPUs)")
    per_node = "the same; with GPUs where the cluster has them; or gpu, cpu, auto"
    _add(group, "--nproc-per-node", metavar="N", help_text=per_node)
    _flag(group, "--cpu-only", help_text="ranks get no GPU and see none")
    _add(group, "--cpus-per-rank", metavar="N", help_text="CPUs that are reserved for each rank (1)")
    topology = "the order of nodes: a file, or addresses with commas (by address)"
    _add(group, "--topology", metavar="ORDER", help_text=topology)
    _flag(group, "--standalone", help_text="one node")
    _flag(group, "--virtual-local-rank", help_text="each rank sees its own GPU alone, as GPU 0")


def _what(group: argparse._ArgumentGroup) -> None:
    _flag(group, "--module", short="-m", help_text="script.py is the name of a module, as for python -m")
    _flag(group, "--no-python", help_text="script.py is a program, and not run with Python")
    _flag(group, "--run-path", help_text="run script.py with runpy.run_path")
    group.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of every rank")
    _add(group, "--working-dir", metavar="DIR", help_text="send this folder to every node that does not have it")
    _add(group, "--rdzv-id", metavar="ID", help_text="TORCHELASTIC_RUN_ID")
    _add(group, "--role", metavar="NAME", help_text="ROLE_NAME")


def _how_long(group: argparse._ArgumentGroup) -> None:
    _add(group, "--max-restarts", metavar="N", help_text="start all ranks again so often when one fails (0)")
    _add(group, "--timeout", metavar="SECONDS", help_text="how long to wait for nodes that are busy (600)")
    _add(group, "--watchdog", metavar="SECONDS", help_text="no output for so long is a hang: show every stack (never)")
    grace = "between SIGTERM and SIGKILL when you stop it (25)"
    _add(group, "--shutdown-timeout", metavar="SECONDS", help_text=grace)
    _flag(group, "--preflight", help_text="first measure an all-reduce, between nodes and as a whole")


def _seen(group: argparse._ArgumentGroup) -> None:
    _add(group, "--log-dir", metavar="DIR", help_text="a file for each rank below it (ranks-logs)")
    _add(group, "--local-ranks-filter", metavar="0,1", help_text="show the output of these local ranks alone")
    group.add_argument("-h", "--help", action="help", help="show this")


def read(words: Sequence[str], environ: Mapping[str, str]) -> tuple[Settings, tuple[str, ...]]:
    """Settings, and the names of the options that are not used. Raises ArgumentError."""
    values = parser().parse_args(list(words))
    if values.program == "--":
        values.program, values.arguments = (values.arguments or [None])[0], values.arguments[1:]
    if values.program is None:
        raise ArgumentError("there is nothing to run", hint="air-ranks script.py")
    unused = tuple(name for name in _UNUSED if getattr(values, _place(name)) is not None)
    settings = Settings(
        request=_request(values),
        command=_command(values),
        folder=str(Path.cwd()),
        sent=to_send(environ),
        env=dict(_variable(text) for text in values.env),
        max_restarts=_whole(values.max_restarts, "--max-restarts", least=0, default=0),
        timeout_s=_seconds(values.timeout, "--timeout", default=600.0),
        watchdog_s=None if values.watchdog is None else _seconds(values.watchdog, "--watchdog", default=0.0),
        stop_grace_s=_seconds(values.shutdown_timeout, "--shutdown-timeout", default=25.0),
        log_dir=values.log_dir or (None if _RUN in environ else "ranks-logs"),
        topology=_topology(values.topology),
        preflight=values.preflight,
        working_dir=None if values.working_dir is None else _folder(values.working_dir),
        role=values.role or "default",
        run_id=values.rdzv_id,
        shown_local_ranks=_local_ranks(values.local_ranks_filter),
        virtual_local_rank=values.virtual_local_rank,
    )
    return settings, unused


def _request(values: argparse.Namespace) -> Request:
    least, most = _nodes(values.nodes, standalone=values.standalone)
    if values.gpus_per_node is not None and values.nproc_per_node is not None:
        raise ArgumentError("--gpus-per-node and --nproc-per-node say the same", hint="air-ranks --gpus-per-node N ...")
    if values.cpu_only and values.gpus_per_node is not None:
        raise ArgumentError("--gpus-per-node and --cpu-only contradict each other", hint="air-ranks --cpu-only ...")
    takes_gpus = False if values.cpu_only else True if values.gpus_per_node is not None else None
    return Request(
        least_nodes=least,
        most_nodes=most,
        per_node=_per_node(values.gpus_per_node, values.nproc_per_node),
        takes_gpus=takes_gpus,
        cpus_per_rank=_number(values.cpus_per_rank, "--cpus-per-rank", default=1.0),
    )


def _nodes(text: str | None, *, standalone: bool) -> tuple[int, int | None]:
    if text is None:
        return (1, 1) if standalone else (1, None)
    least, colon, most = text.partition(":")
    first = _whole(least, "--nodes", least=1)
    last = _whole(most, "--nodes", least=1) if colon else first
    if last < first:
        raise ArgumentError(f"--nodes {text}: the second number is the larger one", hint=f"--nodes {last}:{first}")
    return first, last


def _per_node(gpus: str | None, processes: str | None) -> int | str | None:
    if gpus is not None:
        return None if gpus in (GPU, AUTO) else _whole(gpus, "--gpus-per-node", least=1)
    if processes in (GPU, CPU, AUTO):
        return processes
    return None if processes is None else _whole(processes, "--nproc-per-node", least=1)


def _command(values: argparse.Namespace) -> RankCommand:
    program, rest = str(values.program), tuple(values.arguments)
    if values.run_path:
        code = f"import runpy, sys; sys.argv[:] = sys.argv[1:]; runpy.run_path({program!r}, run_name='__main__')"
        return RankCommand((PYTHON, "-c", code, program, *rest), script=program)
    if values.no_python:
        if values.module:
            raise ArgumentError("-m and --no-python contradict each other", hint="air-ranks -m my.module")
        return RankCommand((program, *rest), script=program if os.sep in program else None)
    if values.module:
        return RankCommand((PYTHON, "-m", program, *rest))
    return RankCommand((PYTHON, program, *rest), script=program)


def _variable(text: str) -> tuple[str, str]:
    name, sign, content = text.partition("=")
    if not sign or not name:
        raise ArgumentError(f"--env {text}: NAME=VALUE is wanted", hint="air-ranks --env NCCL_DEBUG=INFO ...")
    return name, content


def _topology(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    if not Path(text).is_file():
        return read_topology(text)
    return read_topology(Path(text).read_text(encoding="utf-8"))


def _folder(text: str) -> str:
    folder = Path(text).resolve()
    if not folder.is_dir():
        raise ArgumentError(f"--working-dir {text}: there is no such folder", hint="air-ranks --working-dir . ...")
    return str(folder)


def _local_ranks(text: str | None) -> frozenset[int] | None:
    if not text:
        return None
    return frozenset(_whole(part, "--local-ranks-filter", least=0) for part in text.split(","))


def _whole(text: str | None, name: str, *, least: int, default: int = 0) -> int:
    if text is None:
        return default
    if not text.isdigit() or int(text) < least:
        raise ArgumentError(f"{name} {text}: a whole number from {least} on is wanted", hint="air-ranks --help")
    return int(text)


def _seconds(text: str | None, name: str, *, default: float) -> float:
    seconds = _number(text, name, default=default)
    if text is not None and seconds <= 0:
        raise ArgumentError(f"{name} {text}: a number of seconds above 0 is wanted", hint=f"air-ranks {name} 60 ...")
    return seconds


def _number(text: str | None, name: str, *, default: float) -> float:
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ArgumentError(f"{name} {text}: a number is wanted", hint="air-ranks --help")
    return found
