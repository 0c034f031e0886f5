"""A Slurm cluster of several nodes on this machine, to try things on: the one that tests/lab runs on.

    eval "$(python tools/slurm_lab.py up --nodes 3)"
    air run -p lab -f examples/hello/hello.yaml --watch
    python tools/slurm_lab.py kill lab1n2
    python tools/slurm_lab.py down

Needs root on Linux, and what CONTRIBUTING.md lists.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from lab.cluster import Lab
from lab.docker_engine import DockerEngine
from lab.machine import MachineError
from lab.remains import STATE
from lab.slurm_conf import ClusterShape

TO_A_NODE = {
    "kill": "as when its power fails",
    "start": "bring it up again",
    "hang": "stop everything on it",
    "resume": "let it go on",
    "cut": "pull its network cable",
    "join": "plug it in again",
}
PROFILE = """\
default = "lab"

[profiles.lab]
backend = "slurm"
home = "{home}"
"""


def main(arguments: Sequence[str]) -> int:
    values = _parser().parse_args(arguments)
    try:
        if values.what == "up":
            _up(values)
        else:
            _act(_running(values.lab), values)
    except MachineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=int, help="its number, where several run")
    commands = parser.add_subparsers(dest="what", required=True)
    up = commands.add_parser("up", help="start one; prints what to put into the environment")
    up.add_argument("--nodes", type=int, default=ClusterShape.nodes)
    up.add_argument("--cpus", type=int, default=ClusterShape.cpus, help="of each node")
    up.add_argument("--gpus", type=int, default=ClusterShape.gpus, help="of each node; they are not real")
    up.add_argument("--docker", action="store_true", help="with a Docker engine on each node")
    for name, does in TO_A_NODE.items():
        commands.add_parser(name, help=does).add_argument("node")
    execute = commands.add_parser("exec", help="run a command on a node")
    execute.add_argument("node")
    execute.add_argument("command", nargs=argparse.REMAINDER)
    commands.add_parser("down", help="end all of it")
    return parser


def _up(values: argparse.Namespace) -> None:
    lab = Lab.up(ClusterShape(nodes=values.nodes, cpus=values.cpus, gpus=values.gpus), outlives_starter=True)
    if values.docker:
        for node in lab.nodes:
            DockerEngine(lab, node).start()
    config = lab.folder / "config.toml"
    config.write_text(PROFILE.format(home=lab.folder / "home"), encoding="utf-8")
    for name, value in {**lab.env, "AIR_CONFIG": str(config)}.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"# nodes: {' '.join(lab.nodes)}; end it with: python tools/slurm_lab.py --lab {lab.number} down")


def _running(number: int | None) -> Lab:
    there = sorted(int(folder.name) for folder in STATE.glob("*") if folder.is_dir())
    if number is None and len(there) != 1:
        raise MachineError(f"which lab? There {'are ' + str(there) if there else 'is none'}: name it with --lab NUMBER")
    return Lab.attach(there[0] if number is None else number)


def _act(lab: Lab, values: argparse.Namespace) -> None:
    if values.what == "down":
        lab.down()
    elif values.what == "exec":
        words = lab.command(values.node, values.command)
        os.execvpe(words[0], words, {**os.environ, **lab.env})  # noqa: S606 - the command takes this one's place
    else:
        getattr(lab, values.what)(values.node)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
