"""Rows of files, with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes.engine.data.files import Files, find_files, text_rows
from recipes.engine.data.rows import Corrupt, Row
from recipes.errors import RecipeError


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(source: Path | str, document_characters: int = 1000) -> list[Row | Corrupt]:
    files = find_files(str(source), document_characters)
    assert files is not None
    return list(files.rows())


def refused(source: Path | str) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        read(source)
    return caught.value


def test_a_row_of_json_lines_has_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "rows ü.jsonl", '\ufeff{"text": "é"}\n\n  {"text": "b"}')
    assert [(str(row.place), row.columns) for row in read(path) if isinstance(row, Row)] == [
        (f"{path}:1", {"text": "é"}),
        (f"{path}:3", {"text": "b"}),
    ]


def test_a_corrupt_line_is_named_and_does_not_hide_the_others(tmp_path: Path) -> None:
    lines = [b'{"text": "a"}', b'{"text": "b"', b'{"text": "\xff"}', b"[1]", b"null", b'{"text": "z"}']
    path = written(tmp_path / "rows.jsonl", b"\n".join(lines))
    rows = read(path)
    assert [str(row) for row in rows if isinstance(row, Corrupt)] == [
        f"{path}:2: is no JSON: expecting ',' delimiter at column 13",
        f"{path}:3: is no UTF-8: byte 0xff at column 11",
        f'{path}:4: needs an object, such as {{"text": "..."}}; this is a list',
        f'{path}:5: needs an object, such as {{"text": "..."}}; this is null',
    ]
    assert [row.columns["text"] for row in rows if isinstance(row, Row)] == ["a", "z"]


def test_json_that_cannot_be_relied_on_is_corrupt(tmp_path: Path) -> None:
    lines = [
        '{"text": "a"}',
        '{"text": "a\\ud83d b"}',
        '{"text": "a", "more": {"\\uDE00": 1}}',
        '{"text": "whole \\ud83d\\ude00"}',
        '{"text": "a", "text": "b"}',
        '{"text": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"text": ' + "9" * 5000 + "}",
    ]
    path = written(tmp_path / "rows.jsonl", "\n".join(lines))
    rows = read(path)
    assert [str(row) for row in rows if isinstance(row, Corrupt)] == [
        f"{path}:2: has half of a character, \\ud83d, without its other half",
        f"{path}:3: has half of a character, \\ude00, without its other half",
        f'{path}:5: has "text" twice in one object',
        f"{path}:6: is nested too deeply",
        f"{path}:7: is no JSON: exceeds the limit (4300 digits) for integer string conversion",
    ]
    assert [row.columns["text"] for row in rows if isinstance(row, Row)] == ["a", "whole 😀"]


def test_half_a_character_in_a_json_list_costs_its_row_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.json", '[{"text": "\\udead"}, {"text": "b"}]')
    first, second = read(path)
    assert str(first) == f"{path}, item 0: has half of a character, \\udead, without its other half"
    assert isinstance(second, Row)


def test_the_items_of_a_json_list_are_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.json", '[{"text": "a"},\n 3]')
    first, second = read(path)
    assert isinstance(first, Row)
    assert (str(first.place), first.columns) == (f"{path}, item 0", {"text": "a"})
    assert str(second) == f'{path}, item 1: needs an object, such as {{"text": "..."}}; this is a number'


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[{"a": 1},\n{]', ":2: is no JSON: expecting property name enclosed in double quotes at column 2"),
        ('{"a": 1}\n{"a": 2}', ":2: is no JSON: extra data at column 1"),
        ('{"a": 1}', ": needs a list of objects"),
        (b"[\xff]", ": is no UTF-8 from byte 1 on"),
        ('[{"a": 1, "a": 2}]', ': has "a" twice in one object'),
    ],
)
def test_a_json_file_that_is_no_list_is_refused(tmp_path: Path, content: str | bytes, told: str) -> None:
    path = written(tmp_path / "rows.json", content)
    assert refused(path).problems == (f"{path}{told}",)


def test_a_folder_is_all_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    written(tmp_path / "b.jsonl", '{"text": "b"}')
    written(tmp_path / "a" / "z.json", '[{"text": "a"}]')
    written(tmp_path / "licence", "not read")
    written(tmp_path / ".cache" / "c.jsonl", "not read")
    assert [row.columns["text"] for row in read(tmp_path) if isinstance(row, Row)] == ["a", "b"]


def test_links_in_a_folder_are_followed_to_each_folder_once(tmp_path: Path) -> None:
    written(tmp_path / "elsewhere" / "b.jsonl", '{"text": "b"}')
    written(tmp_path / "elsewhere" / "c.jsonl", '{"text": "c"}')
    written(tmp_path / "rows" / "a.jsonl", '{"text": "a"}')
    (tmp_path / "rows" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "rows" / "again").symlink_to(".")
    (tmp_path / "rows" / "z.jsonl").symlink_to("../elsewhere/c.jsonl")
    texts = [row.columns["text"] for row in read(tmp_path / "rows") if isinstance(row, Row)]
    assert texts == ["a", "b", "c", "c"]


def test_a_link_to_nothing_is_refused_and_not_left_out(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", '{"text": "a"}')
    (tmp_path / "b.jsonl").symlink_to("gone.jsonl")
    assert refused(tmp_path).problems == (f"{tmp_path}/b.jsonl: is a link to gone.jsonl, which is not there",)
    told = refused(f"{tmp_path}/*.jsonl").problems
    assert told == (f"{tmp_path}/b.jsonl: cannot be read: no such file or directory",)


def test_data_of_other_kinds_in_a_folder_is_refused_and_not_left_out(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", '{"text": "a"}')
    written(tmp_path / "b.jsonl.gz", "")
    for number in range(11):
        written(tmp_path / f"more{number:02}.csv", "")
    error = refused(tmp_path)
    assert error.problems[0] == f"{tmp_path}/b.jsonl.gz: is of no kind that is known"
    assert error.problems[-1] == "and 2 more"
    assert error.hint.endswith(f": unpack or convert it, or choose with a pattern, such as '{tmp_path}/**/*.jsonl'")


def test_kinds_may_be_in_capitals(tmp_path: Path) -> None:
    written(tmp_path / "a.JSONL", '{"text": "a"}')
    written(tmp_path / "b.Json", '[{"text": "b"}]')
    assert [row.columns["text"] for row in read(tmp_path) if isinstance(row, Row)] == ["a", "b"]


def test_what_the_machine_does_not_let_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "a"}')
    files = find_files(str(path), 1000)
    assert files is not None
    path.unlink()
    for use in (files.digest, lambda: list(files.rows())):
        with pytest.raises(RecipeError, match=rf"^{path}: cannot be read: no such file or directory"):
            use()

    def locked(folder: Path) -> object:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", locked)
    assert refused(tmp_path).problems == (
        f"{tmp_path}: cannot be looked into: [Errno 13] Permission denied: '{tmp_path}'",
    )
    assert "home directory" in refused("~nobody-of-this-name/rows").problems[0]


def test_a_pattern_is_the_files_that_it_fits(tmp_path: Path) -> None:
    written(tmp_path / "b.jsonl", '{"text": "b"}')
    written(tmp_path / "deep" / "er" / "a.jsonl", '{"text": "a"}')
    written(tmp_path / "a.txt", "not meant")
    assert len(read(f"{tmp_path}/*.jsonl")) == 1
    assert len(read(f"{tmp_path}/**/*.jsonl")) == 2


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    assert len(read(written(tmp_path / "rows[1]*.jsonl", '{"text": "b"}'))) == 1


def test_texts_and_rows_are_not_mixed(tmp_path: Path) -> None:
    written(tmp_path / "b.jsonl", '{"text": "b"}')
    written(tmp_path / "README.md", "hello")
    error = refused(tmp_path)
    assert error.problems == (
        f"{tmp_path} holds texts, such as {tmp_path}/README.md, and rows, such as {tmp_path}/b.jsonl",
    )
    assert error.hint == f"Choose with a pattern, such as '{tmp_path}/**/*.jsonl'"


def test_what_is_not_there_or_not_known_is_told(tmp_path: Path) -> None:
    assert refused(tmp_path / "x.jsonl").problems == (f"{tmp_path}/x.jsonl: there is no such file or folder",)
    assert refused("rows.csv").problems == ("rows.csv: there is no such file or folder",)
    assert refused("rows.jsonl").hint == f"It was looked for from {Path.cwd()}; an absolute path is found from anywhere"
    assert refused(tmp_path).problems == (f"{tmp_path}: no file there can be read",)
    assert refused(f"{tmp_path}/*.jsonl").problems == (f"{tmp_path}/*.jsonl: no file there can be read",)
    path = written(tmp_path / "rows.csv", "a,b")
    assert refused(path).problems == (f"{path}: is of no kind that is known",)
    assert refused(path).hint.startswith("Files end in .json, .jsonl, .md,")


def test_what_looks_like_no_path_may_be_a_data_set() -> None:
    assert find_files("tatsu-lab/alpaca", 1000) is None
    assert find_files("squad", 1000) is None


def test_a_text_goes_to_documents_of_whole_paragraphs(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one\none\n\ntwo two\n\nthree\nthree\n")
    rows = [row for row in read(path, document_characters=20) if isinstance(row, Row)]
    assert [(row.place.number, row.columns["text"], row.complete) for row in rows] == [
        (1, "one\none\n\ntwo two", False),
        (6, "three\nthree", True),
    ]


def test_the_last_document_of_a_text_is_complete_whatever_the_file_ends_with(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "11111\n22222\n\n\n\n")
    assert [row.complete for row in read(path, 6) if isinstance(row, Row)] == [False, True]


def test_a_paragraph_that_fits_in_no_document_is_parted_between_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "11111\n22222\n33333\n")
    assert [row.columns["text"] for row in read(path, 12) if isinstance(row, Row)] == ["11111\n22222", "33333"]


def test_a_corrupt_line_of_a_text_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"fine\n\xc3\n")
    assert [str(row) for row in read(path) if isinstance(row, Corrupt)] == [
        f"{path}:2: is no UTF-8: byte 0xc3 at column 1"
    ]


@given(lines=st.lists(st.text("ab ", max_size=9), max_size=40), document_characters=st.integers(1, 60))
def test_no_line_of_a_text_is_lost_and_places_are_right(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], document_characters: int
) -> None:
    path = written(tmp_path_factory.mktemp("texts") / "a.txt", "\n".join(lines))
    rows = [row for row in text_rows(path, document_characters) if isinstance(row, Row)]
    read_lines = [line for row in rows for line in row.columns["text"].split("\n") if line.strip()]
    assert read_lines == [line for line in lines if line.strip()]
    longest_line = max(map(len, lines), default=0) + 1
    for row in rows:
        assert len(row.columns["text"]) <= max(document_characters, longest_line) + longest_line
        assert lines[row.place.number - 1] == row.columns["text"].split("\n")[0]


def test_the_digest_is_of_content_and_names(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one")
    before = Files((path,), 10).digest()
    assert Files((path,), 10).digest() == before
    written(path, "two")
    assert Files((path,), 10).digest() != before
    other = written(tmp_path / "b.txt", "two")
    assert Files((other,), 10).digest() != Files((path,), 10).digest()
