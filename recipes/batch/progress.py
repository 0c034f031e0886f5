"""What is printed while rows are answered, and recorded in MLflow."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recipes.batch.settings import NEW, Batch
from recipes.batch.shards import Shard
from recipes.engine.quantities import duration

LINE_EVERY_S = 5.0


class Progress:
    """Counts rows, tokens and errors; a line when there is something new, every few seconds."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._rows = self._kept = self._done = self._errors = self._tokens = 0
        self._told_s = time.monotonic()
        self._began_at = math.inf  # when the first shard was begun: the start of Ray and of the model do not count

    def found(self, shard: Shard, *, answered: bool) -> None:
        """Count the rows of a shard, answered in an earlier run or still to be."""
        self._rows += len(shard.rows)
        if answered:
            self._kept += len(shard.rows)

    def begin(self, settings: Batch, folder: Path) -> None:
        kept = f", of which {self._kept:,} are answered already" if self._kept else ""
        say(f"{self._rows:,} rows of {settings.data.source}{kept}; answers go to {folder}")
        if settings.model.name == NEW:
            say("the model is new, with random weights: the answers mean nothing. model.name=FOLDER takes a real one")

    def wrote(self, result: Mapping[str, Any]) -> None:
        """Count what came of a shard."""
        self._done += result["rows"]
        self._errors += result["errors"]
        self._tokens += result["response_tokens"]
        self._began_at = min(self._began_at, result["began_at"])
        now_s = time.monotonic()
        if now_s - self._told_s >= LINE_EVERY_S or self._kept + self._done == self._rows:
            self._told_s = now_s
            self._line(max(time.time() - self._began_at, 1e-3))

    def _line(self, took_s: float) -> None:
        answered = self._kept + self._done
        left_s = took_s / self._done * (self._rows - answered)
        errors = f"  {self._errors:,} errors" if self._errors else ""
        eta = f"  eta {duration(left_s)}" if answered < self._rows else f"  in {duration(took_s)}"
        share = 100 * answered // self._rows
        say(f"rows {answered:>9,}/{self._rows:,}  {share:>3}%  {self._tokens / took_s:,.0f} tokens/s{errors}{eta}")

    def end(self) -> None:
        if not self._done:
            say("every row was answered already")
        if self._errors:
            say(f"{self._errors:,} rows have no answer: their column `error` says why")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
