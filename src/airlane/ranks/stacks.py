"""What faulthandler wrote when a rank was asked for its stacks, grouped by who is at the same place. Pure."""

from __future__ import annotations

import re

from airlane.ranks.ends import ranks_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
_FRAME = re.compile(r'\s+File "[^"]*", line \d+ in .+$')
_IMPORTS = 'File "<frozen importlib.'
_MOST_FRAMES = 25


def main_stack(lines: Sequence[str]) -> tuple[str, ...]:
    """The frames of a process's first thread, innermost first: faulthandler shows it last. Empty where none is."""
    threads: list[list[str]] = []
    inside = False
    for line in lines:
        if _THREAD.match(line):
            threads.append([])
            inside = True
        elif inside and _FRAME.match(line):
            if _IMPORTS not in line:
                threads[-1].append(line.strip())
        else:
            inside = False
    shown = [tuple(frames) for frames in threads if frames]
    return shown[-1][:_MOST_FRAMES] if shown else ()


def grouped(stacks: Mapping[int, Sequence[str]], states: Mapping[int, str]) -> list[str]:
    """Each stack once, with the ranks that are there, fewest first: who is elsewhere is what the others wait for.

    `stacks` are the lines that each rank wrote; `states` say what the kernel knows of those that wrote none.
    """
    places: dict[tuple[str, ...], list[int]] = {}
    for rank in sorted(stacks):
        frames = main_stack(stacks[rank])
        words = frames or (f"no Python stack: {states.get(rank) or 'its process does not answer'}",)
        places.setdefault(words, []).append(rank)
    lines = []
    for frames, ranks in sorted(places.items(), key=lambda item: (len(item[1]), item[1])):
        lines.append(f"{ranks_in_words(ranks)} {'is' if len(ranks) == 1 else 'are'} at")
        lines += [f"  {frame}" for frame in frames]
    return lines


_STATES = {"D": "waits for a device or file system", "S": "sleeps", "R": "runs", "T": "is stopped", "Z": "has ended"}


def state_in_words(letter: str, waits_in: str) -> str:
    """A process's state, after ps(1)'s letters."""
    words = f"its process {_STATES.get(letter, f'is in state {letter}')}" if letter else ""
    return f"{words} in {waits_in}" if words and waits_in else words
