"""Tables and long lines: as wide as they are in a pipe; on a terminal rich makes them fit."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airlane.cli.screen import Look

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2
_NARROWEST = 12
_LINES = 25
_UNCUT = 10_000


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], look: Look, *, shrinks: int) -> str:
    """Columns below headings. On a terminal the texts of the column `shrinks` are cut until the table fits."""
    if look.columns is None and not look.colour:
        return _plain_table(headings, rows)
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for number, heading in enumerate(headings):
        if number == shrinks:
            widest = max(len(line[number]) for line in (headings, *rows))
            made.add_column(heading, overflow="ellipsis", min_width=min(_NARROWEST, widest))
        else:
            made.add_column(heading, no_wrap=True, overflow="ellipsis")
    for row in rows:
        made.add_row(*(Text.from_ansi(cell) if "\x1b" in cell else cell for cell in row))
    console = _console(look, look.columns or _UNCUT)
    console.print(made)
    return _printed(console)


def hanging(head: str, text: str, look: Look, *, indent: int) -> list[str]:
    """`head`, which takes `indent` columns, and the text beside it, wrapped below itself on a terminal.

    A word that is wider than what is left stays whole, so that an address or a path can be clicked and copied: then
    the lines are as long as that word, and the terminal breaks them.
    """
    # Most lines fit, and then nothing has to wait for rich.
    if look.columns is None or len(head) + len(text) <= look.columns:
        return [head + text]
    from rich.cells import cell_len
    from rich.text import Text

    console, words = _console(look, look.columns), Text.from_ansi(text)
    longest = max(cell_len(word) for word in words.plain.split() or [text])
    for line in words.wrap(console, max(look.columns - indent, longest)):
        console.print(line, soft_wrap=True)
    first, *rest = _printed(console).split("\n")
    return [head + first, *(" " * indent + line for line in rest)]


def _plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (headings, *rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    cells = ([cell.ljust(columns) for cell, columns in zip(line, widths, strict=True)] for line in lines)
    return "\n".join((" " * _GAP).join(line).rstrip() for line in cells)


def _console(look: Look, columns: int) -> Console:
    from rich.console import Console

    return Console(
        file=io.StringIO(),
        width=columns,
        height=_LINES,  # without one, rich takes a dumb terminal for 80 columns wide
        force_terminal=look.colour,
        color_system="standard" if look.colour else None,
        no_color=not look.colour,
        markup=False,
        emoji=False,
        highlight=False,
    )


def _printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)  # noqa: S101 - for mypy: _console made it
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip("\n").split("\n"))
