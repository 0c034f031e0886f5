"""Python tracebacks in a log, also where the lines of several ranks are mixed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airlane.frozen import frozen
from airlane.logs.lines import Line

_HEADER = re.compile(r"Traceback \(most recent call last\):$")
_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*(?:\([\w.]+\))?)(?::(?: (?P<message>.*))?)?$")
_FRAME = re.compile(r'\s*File "(?P<path>[^"]+)", line \d+')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<frozen |^<string>")
_BECAUSE = "The above exception was the direct cause of the following exception:"
_MEANWHILE = "During handling of the above exception, another exception occurred:"
_MESSAGE_LINES = 4
# Exceptions that a program catches to raise one that says more.
_LOOKUPS = frozenset({"KeyError", "IndexError", "AttributeError", "StopIteration", "queue.Empty", "_queue.Empty"})


@frozen
class Raised:
    """One exception: where its last line stands, what it said, and the innermost frame of the user's own code.

    `consequence`: it was raised because of another one that stands in the same chain.
    """

    index: int
    name: str
    exception: Line
    message: tuple[str, ...]
    frame: tuple[str, ...]
    consequence: bool


@dataclass(slots=True)
class _Block:
    """One traceback being read: the column of its header, its frames so far, and how it hangs on the one before."""

    column: int
    frames: list[tuple[str, ...]]
    link: str | None


def find_raised(lines: Sequence[Line]) -> tuple[list[Raised], set[int]]:
    """The exceptions in order of their last lines, and the indexes of all lines that belong to tracebacks."""
    streams: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        streams.setdefault(line.prefix, []).append(index)
    raised: list[Raised] = []
    used: set[int] = set()
    for indexes in streams.values():
        reader = _Stream(lines, indexes)
        reader.read()
        raised += reader.raised
        used |= reader.used
    return sorted(raised, key=lambda one: one.index), used


class _Stream:
    """The lines of one rank, read from top to bottom."""

    def __init__(self, lines: Sequence[Line], indexes: list[int]) -> None:
        self.lines = lines
        self.indexes = indexes
        self.raised: list[Raised] = []
        self.used: set[int] = set()
        self._chain: list[Raised] = []

    def read(self) -> None:
        link: str | None = None
        position = 0
        while position < len(self.indexes):
            text = self._text(position)
            if text.strip() in (_BECAUSE, _MEANWHILE):
                link = text.strip()
                self.used.add(self.indexes[position])
                position += 1
            elif _HEADER.search(text):
                position = self._block(position, link)
                link = None
            else:
                position += 1
        self._end_chain()

    def _text(self, position: int) -> str:
        return self.lines[self.indexes[position]].text

    def _block(self, position: int, link: str | None) -> int:
        """Read the traceback whose header stands at `position`; the position after it."""
        if link is None:
            self._end_chain()
        header = self._text(position)
        self.used.add(self.indexes[position])
        column = len(header) - len(header.lstrip()) if header.lstrip().startswith("Traceback") else 0
        block = _Block(column, [], link)
        position += 1
        while position < len(self.indexes):
            text = self._text(position)
            if not text or text[: column + 1].isspace():
                if not text and not block.frames:
                    return position
                self._add_frame(block, position)
                position += 1
                continue
            match = _EXCEPTION.match(text.strip())
            if not match or not block.frames:
                return position
            position = self._exception(block, position, match)
            if not self._goes_on(position):
                return position
        return position

    def _add_frame(self, block: _Block, position: int) -> None:
        self.used.add(self.indexes[position])
        text = self._text(position)
        if _FRAME.match(text):
            block.frames.append((text.strip(),))
        elif block.frames and len(block.frames[-1]) == 1 and text.strip():
            block.frames[-1] = (block.frames[-1][0], f"  {text.strip()}")

    def _goes_on(self, position: int) -> bool:
        """Ray shows the frames of the remote side, and then the exception there, below the local exception."""
        return position < len(self.indexes) and bool(_FRAME.match(self._text(position)))

    def _exception(self, block: _Block, position: int, match: re.Match[str]) -> int:
        index = self.indexes[position]
        self.used.add(index)
        message = [match["message"] or ""]
        position += 1
        for _ in range(_MESSAGE_LINES):
            if position >= len(self.indexes) or self._goes_on(position):
                break
            text = self._text(position)
            if not text or _HEADER.search(text) or text.strip() in (_BECAUSE, _MEANWHILE):
                break
            message.append(text)
            if text[0].isspace():
                self.used.add(self.indexes[position])
                position += 1
            else:
                position = self._peek(position, message)
                break
        self._chain.append(
            Raised(
                index=index,
                name=match["name"],
                exception=self.lines[index],
                message=tuple(message),
                frame=_user_frame(block.frames),
                consequence=block.link == _BECAUSE and bool(self._chain),
            )
        )
        if block.link == _MEANWHILE and len(self._chain) > 1:
            self._choose_of_two()
        block.frames.clear()
        return position

    def _peek(self, position: int, message: list[str]) -> int:
        """A message may go on in lines that are not indented: look at them, but leave them to the other rules too."""
        for ahead in range(position + 1, min(position + _MESSAGE_LINES, len(self.indexes))):
            text = self._text(ahead)
            if not text or _HEADER.search(text):
                break
            message.append(text)
        return position

    def _choose_of_two(self) -> None:
        """Of two exceptions, one raised while the other was handled, the first is the cause unless it was a look-up."""
        before, after = self._chain[-2:]
        first_is_cause = before.name not in _LOOKUPS
        self._chain[-2:] = [
            _as_consequence(before, consequence=before.consequence or not first_is_cause),
            _as_consequence(after, consequence=first_is_cause),
        ]

    def _end_chain(self) -> None:
        self.raised += self._chain
        self._chain = []


def _as_consequence(raised: Raised, *, consequence: bool) -> Raised:
    return Raised(raised.index, raised.name, raised.exception, raised.message, raised.frame, consequence)


def _user_frame(frames: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The innermost frame outside of libraries, else the innermost one: its file line and its code line."""
    for frame in reversed(frames):
        match = _FRAME.match(frame[0])
        if match and not _LIBRARY.search(match["path"]):
            return frame
    return frames[-1] if frames else ()
