"""The program that a rank is: its words, folder and environment on this node. Used on the nodes."""

from __future__ import annotations

import os
from pathlib import Path

from airlane.launch import libc
from airlane.launch.contained import Program
from airlane.ranks.inherited import CODE, moved, rank_environment
from airlane.ranks.order import KIT, PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from airlane.ranks.order import Order

MARK = "AIR_RANK_MARK"
NOT_STARTED = 127
# Ray unpacks a working folder into one of this name on every node, wherever the node keeps such things.
_SHIPPED_BY_RAY = "_ray_pkg_"


class RankProgram(Program):
    """Made before the fork; `become` is called in the child."""

    def __init__(self, order: Order, *, node: Mapping[str, str], python: str, kit: str, here: str) -> None:
        """`node` is the environment of the seat, `python` its interpreter, `here` its working folder.

        Raises FileNotFoundError where the script is not on this node.
        """
        moves = folders_moved(order, node, here)
        same = os.access(order.python, os.X_OK)
        stands_for = {KIT: kit, PYTHON: order.python if same else python}
        words = (moved(word, moves) for word in order.argv)
        self.argv = [_filled(word, stands_for) for word in words]
        self.environment = rank_environment(node, order.sent, order.own, moves, path=same)
        self.environment[MARK] = order.mark
        folder = moved(order.folder, moves)
        self.folder = folder if Path(folder).is_dir() else here
        self.script = None if order.script is None else Path(self.folder, moved(order.script, moves))
        if self.script is not None and not self.script.exists():
            raise FileNotFoundError(f"{self.script} is not there")
        self._failed, self._failure = os.pipe()
        self._null = os.open(os.devnull, os.O_RDONLY)

    def become(self) -> NoReturn:
        """Turn this (forked) process into the rank; never returns."""
        try:
            os.setsid()
            os.dup2(self._null, 0)
            os.chdir(self.folder)
            libc.default_signals()
            os.execvpe(self.argv[0], self.argv, self.environment)  # noqa: S606 - the user's own program
        except (OSError, ValueError) as error:
            os.write(self._failure, f"{self.argv[0]}: {error}".encode(errors="replace"))
        finally:
            os._exit(NOT_STARTED)

    def failure(self) -> str | None:
        """Wait until the child has become the rank; returns why it could not, or None."""
        os.close(self._failure)
        os.close(self._null)
        with os.fdopen(self._failed, "rb") as words:
            return words.read().decode(errors="replace") or None


def folders_moved(order: Order, node: Mapping[str, str], here: str) -> dict[str, str]:
    """From folders of the launcher's machine to those that hold the same on this node."""
    moves = {}
    if order.shipped is not None:
        moves[order.shipped] = here
    elif Path(order.folder).name.startswith(_SHIPPED_BY_RAY) and Path(order.folder).name == Path(here).name:
        moves[order.folder] = here
    if order.sent.get(CODE) and node.get(CODE):
        moves[order.sent[CODE]] = node[CODE]
    return moves


def _filled(word: str, stands_for: Mapping[str, str]) -> str:
    for sign, meaning in stands_for.items():
        word = word.replace(sign, meaning)
    return word
