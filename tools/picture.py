"""Run a command in a terminal of 100 columns and keep its screen as an SVG.

    python tools/picture.py docs/images/watch.svg -- air run -f examples/ray-train/train.yaml --watch

What the picture shows is what the program printed; only the middle of a long log is cut (--lines).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys
import termios
from collections.abc import Sequence
from io import StringIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rich import _export_format
from rich.console import Console
from rich.text import Text

COLUMNS = 100
PIECE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", re.DOTALL)
CUT = "  ..."


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the SVG to write")
    parser.add_argument("--lines", type=int, default=40, help="the most lines to show; the middle is cut")
    parser.add_argument("command", nargs="+", help="what to run")
    values = parser.parse_args(arguments)
    screen = run(values.command)
    lines = shorten([f"$ {shlex.join(values.command)}", *screen.splitlines()], values.lines)
    values.file.write_text(svg(lines), encoding="utf-8")
    return 0


def run(command: Sequence[str]) -> str:
    """What a command left on the screen, colours included."""
    theirs, ours = pty.openpty()
    termios.tcsetwinsize(ours, (40, COLUMNS))
    env = os.environ | {"TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=ours, stdout=ours, stderr=ours, env=env)
    os.close(ours)
    written = b""
    with contextlib.suppress(OSError), os.fdopen(theirs, "rb", buffering=0) as screen:
        while chunk := screen.read(4096):
            written += chunk
    process.wait()
    return painted(written.decode(errors="replace"))


def painted(written: str) -> str:
    """The lines of a terminal after all of this was written to it, each with its colours.

    Knows what our screens use: carriage return, cursor up, erasing of lines, colours.
    """
    rows: list[list[tuple[str, str]]] = [[]]
    row = column = 0
    style = ""
    for piece in PIECE.findall(written):
        if piece == "\r":
            column = 0
        elif piece == "\n" or (column == COLUMNS and not piece.startswith("\x1b")):
            row, column = row + 1, 0
            rows += [[]] if row == len(rows) else []
        if piece.startswith("\x1b"):
            if piece.endswith("m"):
                style = "" if piece in ("\x1b[0m", "\x1b[m") else style + piece
            elif piece.endswith("K"):
                del rows[row][0 if piece == "\x1b[2K" else column :]
            elif piece.endswith("A"):
                row = max(0, row - int(piece[2:-1] or 1))
        elif piece >= " ":
            rows[row] += [("", " ")] * (column + 1 - len(rows[row]))
            rows[row][column] = (style, piece)
            column += 1
    return "\n".join(coloured(cells) for cells in rows)


def coloured(cells: Sequence[tuple[str, str]]) -> str:
    """A line of characters with their styles as text, neighbours of one style together."""
    parts = ((style, "".join(character for _, character in part)) for style, part in groupby(cells, key=itemgetter(0)))
    return "".join(f"{indent(text)}{style}{text.lstrip(' ')}\x1b[0m" for style, text in parts)


def indent(text: str) -> str:
    """The spaces that a text begins with, in a style of their own: not every viewer draws them, and so none has to."""
    return f"\x1b[2m{' ' * (len(text) - len(text.lstrip(' ')))}\x1b[0m"


def shorten(lines: Sequence[str], most: int) -> list[str]:
    """The first and the last lines, where there are more than `most`."""
    if len(lines) <= most:
        return list(lines)
    head = most // 2
    return [*lines[:head], CUT, *lines[len(lines) - (most - head - 1) :]]


def svg(lines: Sequence[str]) -> str:
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)
    # Fonts from a server would not be loaded where pictures are shown, and would tell it who looks.
    template = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", _export_format.CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="", code_format=template, unique_id="air")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
