"""The way of the ranks' output: to the screen by lines, to a file per rank as it is, its end into memory."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

from airlane.ranks.lines import Lines
from airlane.ranks.tracebacks import last_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from airlane.ranks.rank_map import Place, RankMap
    from airlane.ranks.screen import Screen

_KEPT_LINES = 400
_KEPT_LINE_BYTES = 2000


class _Stream:
    """One of a rank's two streams."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.kept: deque[str] = deque(maxlen=_KEPT_LINES)

    def keep(self, lines: list[bytes]) -> None:
        self.kept.extend(line[:_KEPT_LINE_BYTES].decode(errors="replace") for line in lines)


class Output:
    """Of one generation. `folder` None keeps no files; a file that cannot be written is given up, and said once."""

    def __init__(
        self, screen: Screen, ranks: RankMap, folder: Path | None, *, shown_local_ranks: frozenset[int] | None = None
    ) -> None:
        self._screen = screen
        self._shown = {place.rank for place in ranks.places if _is_shown(place, shown_local_ranks)}
        self._streams = {place.rank: (_Stream(), _Stream()) for place in ranks.places}
        self._folder = folder
        self._files = self._open(ranks) if folder is not None else {}
        self._stacks: dict[int, list[str]] | None = None

    def _open(self, ranks: RankMap) -> dict[int, BinaryIO]:
        files: dict[int, BinaryIO] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for place in ranks.places:
                files[place.rank] = (self.folder / f"rank-{place.rank}.log").open("ab", buffering=0)
        except OSError as error:
            self._screen.say(f"! ranks are not logged to files: {error}")
        return files

    @property
    def folder(self) -> Path:
        return self._folder or Path()

    def take(self, rank: int, out: bytes, errors: bytes, *, is_last: bool) -> None:
        """Carry over what a rank wrote. Raises ReaderGoneError."""
        self._log(rank, out + errors)
        now = time.monotonic()
        for is_error, (stream, data) in enumerate(((self._streams[rank][0], out), (self._streams[rank][1], errors))):
            lines = stream.lines.feed(data, now)
            lines += stream.lines.flush() if is_last else stream.lines.overdue(now)
            self._show(rank, lines, is_error=bool(is_error))
            stream.keep(lines)

    def _show(self, rank: int, lines: list[bytes], *, is_error: bool) -> None:
        if is_error and self._stacks is not None:
            self._stacks.setdefault(rank, []).extend(line.decode(errors="replace") for line in lines)
        elif rank in self._shown:
            self._screen.rank(rank, lines, is_error=is_error)

    def _log(self, rank: int, data: bytes) -> None:
        file = self._files.get(rank)
        if file is None or not data:
            return
        try:
            file.write(data)
        except OSError as error:
            self._files.pop(rank).close()
            self._screen.say(f"! the log of rank {rank} is not written any more: {error}")

    def collect_stacks(self) -> dict[int, list[str]]:
        """From now on stderr goes there, by rank, and no more to the screen."""
        if self._stacks is None:
            self._stacks = {}
        return self._stacks

    def last_words(self, rank: int) -> list[str]:
        """What a rank said of its end."""
        out, errors = self._streams[rank]
        return last_words(list(errors.kept), list(out.kept))

    def errors(self, rank: int) -> list[str]:
        """The last lines on stderr."""
        return list(self._streams[rank][1].kept)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _is_shown(place: Place, local_ranks: frozenset[int] | None) -> bool:
    return local_ranks is None or place.local_rank in local_ranks
