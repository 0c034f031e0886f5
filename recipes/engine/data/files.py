"""Rows of files: JSON lines, JSON, Parquet, and texts."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from recipes.engine.data.rows import Corrupt, Place, Row, row_of
from recipes.errors import RecipeError

ROWS_AT_ONCE = 1024  # of Parquet


@dataclass(frozen=True)
class Files:
    """Files one after another; a text goes to documents of about `document_characters` at most."""

    paths: tuple[Path, ...]
    document_characters: int

    def rows(self) -> Iterator[Row | Corrupt]:
        for path in self.paths:
            if path.suffix in TEXTS:
                yield from text_rows(path, self.document_characters)
            else:
                yield from READERS[path.suffix](path)

    def digest(self) -> str:
        whole = hashlib.sha256()
        for path in self.paths:
            with path.open("rb") as file:
                whole.update(json.dumps([str(path), hashlib.file_digest(file, "sha256").hexdigest()]).encode())
        return whole.hexdigest()


def find_files(source: str, document_characters: int) -> Files | None:
    """The files that a path or pattern means; None where it looks like no path.

    Raises:
        RecipeError: there are none that can be read.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        found = [file for file in sorted(path.rglob("*")) if file.suffix in KNOWN and not is_hidden(file, path)]
        return Files(readable(found, source), document_characters)
    if path.is_file():
        return Files(readable([path], source), document_characters)
    if has_magic(source):
        found = [Path(name) for name in sorted(glob(str(path), recursive=True)) if Path(name).is_file()]  # noqa: PTH207
        return Files(readable(found, source), document_characters)
    if path.suffix in KNOWN or path.is_absolute() or source.startswith((".", "~")) or len(path.parts) > 2:  # noqa: PLR2004
        hint = f"It was looked for from {Path.cwd()}; an absolute path is found from anywhere"
        raise RecipeError([f"{source}: there is no such file or folder"], hint)
    return None


def is_hidden(file: Path, folder: Path) -> bool:
    """Whether it is no file to show, as those of version control and editors."""
    return not file.is_file() or any(part.startswith(".") for part in file.relative_to(folder).parts)


def readable(paths: Sequence[Path], source: str) -> tuple[Path, ...]:
    """The paths, if each is of a kind that is read here, and all are texts or none is."""
    needed = f"Files end in {', '.join(sorted(KNOWN))}"
    if not paths:
        raise RecipeError([f"{source}: no file there can be read"], needed)
    if unknown := [str(path) for path in paths if path.suffix not in KNOWN]:
        raise RecipeError([f"{name}: is of no kind that is known" for name in unknown], needed)
    if len({path.suffix in TEXTS for path in paths}) > 1:
        text = next(path for path in paths if path.suffix in TEXTS)
        rows = next(path for path in paths if path.suffix not in TEXTS)
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
                    yield row_of(place, json.loads(line.rstrip()))
                except ValueError as error:
                    yield Corrupt(place, f"is no JSON: {why_no_json(error)}")


def json_rows(path: Path) -> Iterator[Row | Corrupt]:
    """The items of a list, counted from 0."""
    try:
        items = json.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecipeError([f"{path}: is no UTF-8 from byte {error.start} on"]) from error
    except json.JSONDecodeError as error:
        hint = "A file with an object on each line has to end in .jsonl"
        raise RecipeError([f"{path}:{error.lineno}: is no JSON: {why_no_json(error)}"], hint) from error
    if not isinstance(items, list):
        raise RecipeError(
            [f"{path}: needs a list of objects"], "A file with an object on each line has to end in .jsonl"
        )
    for number, item in enumerate(items):
        yield row_of(Place(f"{path}, item ", number), item)


def parquet_rows(path: Path) -> Iterator[Row | Corrupt]:
    """The rows of all columns, counted from 0."""
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=ROWS_AT_ONCE):
            for columns in batch.to_pylist():
                yield Row(Place(f"{path}, row ", number), columns)
                number += 1
    except (pa.ArrowException, OSError) as error:
        raise RecipeError([f"{path}, row {number}: cannot be read: {first_line(error)}"]) from error


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


def why_no_json(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[0].lower()}{error.msg[1:]} at column {error.colno}"
    return str(error)


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
