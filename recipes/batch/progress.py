"""What is printed while rows are answered, and recorded in MLflow."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from recipes.batch.settings import NEW, Batch
from recipes.batch.shards import SUMMARY, Folder, Shard
from recipes.engine.mlflow_log import recorder_of_run
from recipes.engine.quantities import duration
from recipes.overrides import assignments

LINE_EVERY_S = 5.0
LAST_WORDS_S = 20.0  # for MLflow, when everything is answered


class Progress:
    """Counts rows, tokens and errors; a line when there is something new, every few seconds."""

    def __init__(self, settings: Batch) -> None:
        self._settings = settings
        self._recorder = recorder_of_run(say)
        self._rows = self._kept = self._done = self._errors = self._tokens = 0
        self._told_s = time.monotonic()
        self._began_at = math.inf  # when the first shard was begun: the start of Ray and of the model do not count

    def found(self, shard: Shard, *, answered: bool) -> None:
        """Count the rows of a shard, answered before or still to be."""
        self._rows += len(shard.rows)
        if answered:
            self._kept += len(shard.rows)

    def begin(self, folder: Folder) -> None:
        kept = f", of which {self._kept:,} are answered already" if self._kept else ""
        say(f"{self._rows:,} rows of {self._settings.data.source}{kept}; answers go to {folder.path}")
        if self._settings.model.name == NEW:
            say("the model is new, with random weights: the answers mean nothing. model.name=FOLDER takes a real one")
        if self._recorder:
            named = (setting.partition("=") for setting in assignments(self._settings))
            self._recorder.params({name: value for name, _, value in named})

    def wrote(self, result: Mapping[str, Any]) -> None:
        """Count what came of a shard."""
        self._done += result["rows"]
        self._errors += result["errors"]
        self._tokens += result["response_tokens"]
        self._began_at = min(self._began_at, result["began_at"])
        if self._recorder:
            self._recorder.hear("step", {"step": self._answered, "tokens_per_s": self._tokens_per_s}, time.time())
        if time.monotonic() - self._told_s >= LINE_EVERY_S or self._answered == self._rows:
            self._told_s = time.monotonic()
            self._tell()

    def _tell(self) -> None:
        left = self._rows - self._answered
        errors = f"  {self._errors:,} error{'s' * (self._errors != 1)}" if self._errors else ""
        time_left = f"  eta {duration(self._took_s / self._done * left)}" if left else f"  in {duration(self._took_s)}"
        share = f"{100 * self._answered // self._rows:>3}%"
        say(f"rows {self._answered:>9,}/{self._rows:,}  {share}  {self._tokens_per_s:,.0f} tokens/s{errors}{time_left}")

    def end(self, folder: Folder) -> None:
        """Write the summary, and send it to MLflow."""
        if not self._done:
            say("every row was answered already")
        elif self._errors:
            say(f"no answer for {self._errors:,} of the rows: their column `error` says why")
        facts = {
            "rows": self._rows,
            "answered_before": self._kept,
            "errors": self._errors,  # of the rows that were not answered before, as what follows
            "response_tokens": self._tokens,
            "seconds": round(self._took_s, 1) if self._done else 0.0,
            "settings": dict(setting.split("=", 1) for setting in assignments(self._settings)),
        }
        folder.write(SUMMARY, json.dumps(facts, indent=2, ensure_ascii=False).encode() + b"\n")
        if self._recorder:
            self._recorder.finish([folder.path / SUMMARY], LAST_WORDS_S)

    @property
    def _answered(self) -> int:
        return self._kept + self._done

    @property
    def _took_s(self) -> float:
        return max(time.time() - self._began_at, 1e-3)

    @property
    def _tokens_per_s(self) -> float:
        return self._tokens / self._took_s


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
