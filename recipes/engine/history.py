"""What a training has told so far, kept beside its checkpoints: a resumed training has all of its past."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "history.jsonl"
KEPT = {"start", "step", "evaluation", "saved", "not_saved", "resumed", "sample", "end"}


@dataclass(frozen=True)
class Entry:
    """Something that was told; `at` counts seconds since 1970."""

    kind: str
    at: float
    facts: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.facts.get("step", 0))


class History:
    """The entries of one training. Steps that a resumed training takes again are in it once."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._file = folder / FILE
        self._say = say
        self._storage_failed = False
        self.entries = list(read(self._file))

    def hear(self, kind: str, facts: dict[str, Any], at: float) -> None:
        """Add an entry; a start drops those of steps that are still to come."""
        if kind not in KEPT:
            return
        entry = Entry(kind, at, facts)
        if kind == "start":
            past = [one for one in self.entries if one.step <= entry.step and one.kind != "sample"]
            self.entries = [*past, entry] if entry.step else [entry]
            self._storage_failed = False
            self._write("w", self.entries)
        else:
            self.entries.append(entry)
            self._write("a", [entry])

    def of(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind == kind]

    def saved_step(self) -> int:
        """The step of the newest checkpoint that was told of; 0 without one."""
        return max((entry.step for entry in self.of("saved")), default=0)

    def _write(self, mode: str, entries: Sequence[Entry]) -> None:
        """To the file; where that is full or broken the entries are in memory alone, until the next start."""
        if self._storage_failed:
            return
        text = "".join(json.dumps(vars(entry)) + "\n" for entry in entries)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            self._storage_failed = True
            self._say(f"the history of the training is no longer written: {error}")


def read(file: Path) -> Iterator[Entry]:
    """The entries of a file; a line that was cut by a kill is left out."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return
    for line in lines:
        try:
            yield Entry(**json.loads(line))
        except (ValueError, TypeError):
            continue
