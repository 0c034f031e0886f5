"""Rows of files: JSON lines, JSON, Parquet, and texts."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from recipes.engine.data.json_text import NoJsonError, from_json, half_character, may_have_half_characters
from recipes.engine.data.rows import Corrupt, Place, Row, row_of
from recipes.errors import RecipeError

ROWS_AT_ONCE = 1024  # of Parquet
TOLD_AT_ONCE = 10


@dataclass(frozen=True)
class Files:
    """Files one after another; a text goes to documents of about `document_characters` at most."""

    paths: tuple[Path, ...]
    document_characters: int

    def rows(self) -> Iterator[Row | Corrupt]:
        for path in self.paths:
            with reading(path):
                if kind_of_file(path) in TEXTS:
                    yield from text_rows(path, self.document_characters)
                else:
                    yield from READERS[kind_of_file(path)](path)

    def digest(self) -> str:
        whole = hashlib.sha256()
        for path in self.paths:
            with reading(path), path.open("rb") as file:
                whole.update(json.dumps([str(path), hashlib.file_digest(file, "sha256").hexdigest()]).encode())
        return whole.hexdigest()


def find_files(source: str, document_characters: int) -> Files | None:
    """The files that a path or pattern means; None where it looks like no path.

    Raises:
        RecipeError: there are none that can be read.
    """
    try:
        path = Path(source).expanduser()
        if path.is_dir():
            return Files(readable(below(path, set()), source), document_characters)
        if path.is_file():
            return Files(readable([path], source), document_characters)
        if has_magic(source):
            found = [Path(name) for name in sorted(glob(str(path), recursive=True)) if not Path(name).is_dir()]  # noqa: PTH207
            return Files(readable(found, source), document_characters)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no such ~user
        raise RecipeError([f"{source}: cannot be looked into: {error}"]) from error
    if is_path(source):
        hint = f"It was looked for from {Path.cwd()}; an absolute path is found from anywhere"
        raise RecipeError([f"{source}: there is no such file or folder"], hint)
    return None


def is_path(source: str) -> bool:
    """Whether it is meant as a path: data sets of the hub are called NAME or NAME/DATASET."""
    path = Path(source)
    parts_of_a_data_set = 2
    return (
        kind_of_file(path) in KNOWN | NOT_READ
        or path.is_absolute()
        or source.startswith((".", "~"))
        or len(path.parts) > parts_of_a_data_set
    )


def below(folder: Path, entered: set[Path]) -> list[Path]:
    """The files with data in a folder and below it, without hidden ones; links are followed, to each folder once.

    Raises:
        RecipeError: something with data in it cannot be read: it would be missing without a word.
        OSError: a folder cannot be looked into.
    """
    entered.add(folder.resolve())
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            found += below(entry, entered) if entry.resolve() not in entered else []
        elif kind_of_file(entry) in KNOWN | NOT_READ:
            if not entry.exists():
                raise RecipeError([f"{entry}: is a link to {entry.readlink()}, which is not there"])
            found += [entry] if entry.is_file() else []
    return found


def kind_of_file(path: Path) -> str:
    return path.suffix.lower()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Says which file it was that could not be read."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RecipeError([f"{path}: cannot be read: {reason}"], "Every file of the source is needed") from error


def readable(paths: Sequence[Path], source: str) -> tuple[Path, ...]:
    """The paths, if each is of a kind that is read here, and all are texts or none is."""
    needed = f"Files end in {', '.join(sorted(KNOWN))}"
    if not paths:
        raise RecipeError([f"{source}: no file there can be read"], needed)
    if unknown := [path for path in paths if kind_of_file(path) not in KNOWN]:
        told = [f"{path}: is of no kind that is known" for path in unknown[:TOLD_AT_ONCE]]
        more = [f"and {len(unknown) - TOLD_AT_ONCE:,} more"] if len(unknown) > TOLD_AT_ONCE else []
        others = {kind_of_file(path) for path in paths} & KNOWN
        pattern = f", or choose with a pattern, such as '{Path(source, '**', '*' + min(others))}'" if others else ""
        raise RecipeError(told + more, f"{needed}: unpack or convert it{pattern}")
    if len({kind_of_file(path) in TEXTS for path in paths}) > 1:
        text = next(path for path in paths if kind_of_file(path) in TEXTS)
        rows = next(path for path in paths if kind_of_file(path) not in TEXTS)
        raise RecipeError(
            [f"{source} holds texts, such as {text}, and rows, such as {rows}"],
            f"Choose with a pattern, such as '{Path(source, '**', '*' + rows.suffix)}'",
        )
    return tuple(paths)


def json_line_rows(path: Path) -> Iterator[Row | Corrupt]:
    """A row a line; empty lines are none."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            place = Place(f"{path}:", number)
            line = decoded(place, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw)
            if isinstance(line, Corrupt):
                yield line
            elif line.strip():
                try:
                    value = from_json(line.rstrip())
                except NoJsonError as error:
                    yield Corrupt(place, str(error))
                else:
                    yield row_of_json(place, value, suspect=may_have_half_characters(line))


def json_rows(path: Path) -> Iterator[Row | Corrupt]:
    """The items of a list, counted from 0."""
    hint = "A file with an object on each line has to end in .jsonl"
    try:
        text = path.read_text(encoding="utf-8-sig")
        items = from_json(text)
    except UnicodeDecodeError as error:
        raise RecipeError([f"{path}: is no UTF-8 from byte {error.start} on"]) from error
    except NoJsonError as error:
        raise RecipeError([f"{path}:{error.line}: {error}"] if error.line else [f"{path}: {error}"], hint) from error
    if not isinstance(items, list):
        raise RecipeError([f"{path}: needs a list of objects"], hint)
    suspect = may_have_half_characters(text)
    for number, item in enumerate(items):
        yield row_of_json(Place(f"{path}, item ", number), item, suspect=suspect)


def row_of_json(place: Place, value: object, *, suspect: bool) -> Row | Corrupt:
    """A row, if the value has columns; where it is `suspect`, all of its texts have to be whole characters."""
    half = half_character(value) if suspect else None
    return Corrupt(place, f"has half of a character, {half}, without its other half") if half else row_of(place, value)


def parquet_rows(path: Path) -> Iterator[Row | Corrupt]:
    """The rows of all columns, counted from 0."""
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=ROWS_AT_ONCE):
            for columns in columns_of(batch):
                place = Place(f"{path}, row ", number)
                yield Corrupt(place, columns) if isinstance(columns, str) else Row(place, columns)
                number += 1
    except (pa.ArrowException, OSError) as error:
        raise RecipeError([f"{path}, row {number}: cannot be read: {first_line(error)}"]) from error


def columns_of(batch: Any) -> list[dict[str, Any] | str]:
    """Each row of a batch of Arrow; in place of one that Python has no value for, which column that is and why."""
    try:
        whole: list[dict[str, Any] | str] = batch.to_pylist()
    except (ValueError, OverflowError):  # a text that is no UTF-8, a date beyond the year 9999
        return [columns_of_row(batch, row) for row in range(batch.num_rows)]
    return whole


def columns_of_row(batch: Any, row: int) -> dict[str, Any] | str:
    columns: dict[str, Any] = {}
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns[name] = values[row].as_py()
        except (ValueError, OverflowError) as error:
            return f"{name} cannot be read: {first_line(error)}"
    return columns


def text_rows(path: Path, document_characters: int) -> Iterator[Row | Corrupt]:
    """Documents of whole paragraphs, as many as fit; a paragraph that fits in none is parted between lines."""
    start, lines, room = 1, list[str](), document_characters
    paragraph = 0  # lines of the last, unfinished paragraph
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            line = decoded(Place(f"{path}:", number), raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw)
            if isinstance(line, Corrupt):
                yield line
                continue
            if line.strip() and len(line) > room and lines:
                kept = len(lines) - paragraph if 0 < paragraph < len(lines) else len(lines)
                yield from document(path, start, lines[:kept], complete=False)
                start, lines = start + kept, lines[kept:]
                room = document_characters - sum(map(len, lines))
            lines.append(line)
            room -= len(line)
            paragraph = paragraph + 1 if line.strip() else 0
    yield from document(path, start, lines, complete=True)


def document(path: Path, start: int, lines: Sequence[str], *, complete: bool) -> Iterator[Row]:
    """A row of these lines without the empty ones around them; `complete` where the file ends with them."""
    whole = "".join(lines)
    text = whole.lstrip("\r\n")
    line = start + whole[: len(whole) - len(text)].count("\n")
    if text.strip():
        yield Row(Place(f"{path}:", line), {"text": text.rstrip("\r\n")}, complete)


def decoded(place: Place, raw: bytes) -> str | Corrupt:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Corrupt(place, f"is no UTF-8: byte 0x{raw[error.start]:02x} at column {error.start + 1}")


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


READERS: dict[str, Callable[[Path], Iterator[Row | Corrupt]]] = {
    ".jsonl": json_line_rows,
    ".ndjson": json_line_rows,
    ".json": json_rows,
    ".parquet": parquet_rows,
}
TEXTS = {".txt", ".md", ".rst", ".py"}
KNOWN = READERS.keys() | TEXTS
# Kinds that hold data, too: among other files, these are not there by chance.
NOT_READ = {".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".csv", ".tsv", ".arrow", ".feather", ".orc", ".avro"}
