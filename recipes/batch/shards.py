"""Rows in portions that are answered, and kept, as a whole: a portion that is written is never answered again."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from recipes.batch.prompts import asked
from recipes.batch.settings import Batch, Output
from recipes.engine.data.chat import read_template
from recipes.engine.data.formats import Turn, UnfitRowError
from recipes.engine.data.rows import Corrupt, Row
from recipes.errors import RecipeError

Finish = Literal["stop", "length"]
SHOWN = 10  # problems that are told at once
SUMMARY = "summary.json"  # beside the files of the answers
ANSWERS = re.compile(r"\d{6,}-[0-9a-f]{12}\.(jsonl|parquet)")  # the names of these


@dataclass(frozen=True)
class Asked:
    """A row with what it asks, or with why it asks nothing; `row` counts from 0."""

    row: int
    place: str
    columns: Mapping[str, Any]
    turns: tuple[Turn, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Answered:
    """What came of a row: the response and how it finished, or an error; tokens are counted."""

    response: str | None = None
    prompt_tokens: int = 0
    response_tokens: int = 0
    finish_reason: Finish | None = None  # "length" was cut at generation.max_new_tokens
    error: str | None = None


@dataclass(frozen=True)
class Shard:
    """A portion of the rows; its file's name changes with what is asked, of whom and how."""

    name: str
    rows: tuple[Asked, ...]


def read_rows(source: Iterable[Row | Corrupt], settings: Batch) -> Iterator[Asked]:
    """Every row with what it asks.

    Raises:
        RecipeError: rows ask nothing: all of them, or some where errors are refused.
    """
    problems: list[str] = []
    unfit = count = 0
    for count, row in enumerate(source, start=1):
        made = read_row(count - 1, row, settings.data.system)
        if made.error is not None:
            unfit += 1
            problems += [f"{made.place}: {made.error}"] if unfit <= SHOWN else []
        yield made
        if count == settings.data.limit:
            break
    if unfit and (unfit == count or settings.output.errors == "refuse"):
        more = [f"and {unfit - SHOWN} more"] if unfit > SHOWN else []
        raise RecipeError(problems + more, "output.errors=keep answers the others" if unfit < count else "")
    if not count:
        raise RecipeError([f"data.source={settings.data.source} has no rows"])


def read_row(number: int, row: Row | Corrupt, system: str | None) -> Asked:
    if isinstance(row, Corrupt):
        return Asked(number, str(row.place), {}, error=row.problem)
    try:
        return Asked(number, str(row.place), row.columns, asked(row.columns, system))
    except UnfitRowError as error:
        return Asked(number, str(row.place), row.columns, error=str(error))


def shards(rows: Iterable[Asked], settings: Batch, model: str) -> Iterator[Shard]:
    """The rows in portions of `output.shard_rows`; `model` says which weights answer."""
    template = read_template(settings.data.chat_template) if settings.data.chat_template else None
    how = [model, template, asdict(settings.model), asdict(settings.generation), settings.output.format]
    left = iter(rows)
    portions = iter(lambda: tuple(islice(left, settings.output.shard_rows)), ())
    for number, portion in enumerate(portions):
        what = json.dumps([how, [asdict(row) for row in portion]], default=str, sort_keys=True)
        digest = hashlib.sha256(what.encode()).hexdigest()[:12]
        yield Shard(f"{number:06d}-{digest}.{settings.output.format}", portion)


def rendered(shard: Shard, answers: Sequence[Answered], form: Literal["jsonl", "parquet"]) -> bytes:
    """The content of the shard's file: the columns of each row, and what came of it."""
    results = [merged(row, answer) for row, answer in zip(shard.rows, answers, strict=True)]
    return b"".join(map(line_of, results)) if form == "jsonl" else parquet_of(results)


def line_of(result: Mapping[str, Any]) -> bytes:
    """A line of JSON, which has no word for what is no number: null stands for that."""
    try:
        text = json.dumps(result, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(finite(result), ensure_ascii=False, default=str, allow_nan=False)
    return text.encode() + b"\n"


def finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def merged(row: Asked, answer: Answered) -> dict[str, Any]:
    """Our columns win; one of the row's own with such a name is `given_` that name."""
    ours = {"row": row.row, "place": row.place, **asdict(answer)}
    theirs: dict[str, Any] = {}
    for name, value in row.columns.items():
        free = name
        while free in ours or (free != name and free in row.columns):
            free = f"given_{free}"
        theirs[free] = value
    return {"row": row.row, "place": row.place, **theirs, **asdict(answer)}


def parquet_of(results: Sequence[Mapping[str, Any]]) -> bytes:
    """A table; a column whose values have no type in common, or none that Parquet has, holds them as JSON."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {}
    for name in dict.fromkeys(name for result in results for name in result):
        values = [result.get(name) for result in results]
        try:
            column = pa.array(values)
        except (pa.ArrowException, OverflowError):
            column = None
        if column is None or not can_be_written(column.type):
            column = pa.array([value if value is None else json.dumps(value, default=str) for value in values])
        # a column that is empty in this shard may be text in the others
        columns[name] = column.cast(pa.string()) if pa.types.is_null(column.type) else column
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def can_be_written(kind: Any) -> bool:
    """Whether Parquet has this type of Arrow: it has no objects without anything in them."""
    import pyarrow as pa

    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return all(map(can_be_written, inner)) and not (pa.types.is_struct(kind) and not inner)


class Folder:
    """Where the files of the answers are; one process writes there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def of(output: Output, env: Mapping[str, str]) -> Folder:
        kept = env.get("AIR_CHECKPOINT_DIR")
        return Folder(Path(output.folder or (f"{kept}/responses" if kept else "responses")).expanduser())

    def open(self) -> set[str]:
        """The names of the files of answers there; those that were not finished are removed.

        Raises:
            RecipeError: it cannot be used.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for file in self.path.glob(".*.new"):
                if ANSWERS.fullmatch(file.name[1:].removesuffix(".new")):
                    file.unlink()
            names = {file.name for file in self.path.iterdir()} - {SUMMARY}
            return {name for name in names if not name.startswith(".")}
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, name: str, content: bytes) -> None:
        """The whole file, or nothing.

        Raises:
            RecipeError: it cannot be written; what was written before stays.
        """
        unfinished = self.path / f".{name}.new"
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(self.path / name)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> RecipeError:
        words = (error.strerror or str(error)).lower()
        return RecipeError(
            [f"output.folder={self.path} cannot be written: {words}"],
            "What is written there stays: the same command goes on from it",
        )
