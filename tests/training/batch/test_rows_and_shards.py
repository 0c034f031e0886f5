"""From rows to shards, and from answers to files."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet
import pytest
from recipes.batch.prompts import asked
from recipes.batch.run import refuse_others
from recipes.batch.settings import Batch, Data, Generation, Output, contradictions
from recipes.batch.shards import Answered, Asked, Folder, Shard, read_rows, rendered, shards
from recipes.engine.data.formats import UnfitRowError
from recipes.engine.data.rows import Corrupt, Place, Row
from recipes.errors import RecipeError


def row(number: int, **columns: Any) -> Row:
    return Row(Place("rows.jsonl:", number), columns)


GOOD = [row(number, prompt=f"question {number}") for number in range(1, 8)]
BROKEN = Corrupt(Place("rows.jsonl:", 8), "is no JSON")


@pytest.mark.parametrize(
    ("columns", "turns"),
    [
        ({"prompt": "p", "completion": "c", "text": "t"}, [("user", "p")]),
        ({"question": "q", "answer": "a"}, [("user", "q")]),
        ({"instruction": "i", "input": "about", "output": "o"}, [("user", "i\n\nabout")]),
        ({"instruction": "i", "input": "", "output": "o"}, [("user", "i")]),
        ({"instruction": "i", "output": "o", "prompt": "as it was written out"}, [("user", "i")]),
        ({"instruction": "i", "question": "q", "answer": "a"}, [("user", "q")]),
        ({"text": "t"}, [("user", "t")]),
        ({"messages": [{"role": "user", "content": "u"}]}, [("user", "u")]),
        (
            {
                "messages": [
                    {"role": "system", "content": "s"},
                    *({"role": r, "content": r} for r in ("user", "assistant")),
                ]
            },
            [("system", "s"), ("user", "user")],
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": v} if v != "b" else {"from": "gpt", "value": v} for v in "abc"
                ]
            },
            [("user", "a"), ("assistant", "b"), ("user", "c")],
        ),
        (
            {"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": None, "tool_calls": [1]}]},
            [("user", "u")],
        ),
        ({"prompt": [{"role": "user", "content": [{"type": "text", "text": "u"}]}]}, [("user", "u")]),
    ],
)
def test_what_a_row_asks_is_found_and_its_own_answer_left_out(
    columns: Mapping[str, Any], turns: list[tuple[str, str]]
) -> None:
    assert [(turn.role, turn.content) for turn in asked(columns, None)] == turns
    first = asked(columns, "be brief")[0]
    assert (first.role, first.content) == ("system", "s" if turns[0][0] == "system" else "be brief")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"answer": "a"}, "needs prompt, question, instruction, text or messages; it has answer"),
        ({"prompt": " "}, "prompt is empty"),
        ({"prompt": 3}, "prompt has to be text; it is a number"),
        ({"messages": []}, "messages asks nothing"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages asks nothing"),
        ({"messages": [{"role": "robot", "content": "a"}]}, r"messages\[0\].role has to be one of .* it is 'robot'"),
        ({"messages": "[]"}, "messages has to be a list of turns; it is text"),
        ({"instruction": "i", "input": ["a"]}, "input has to be text; it is a list"),
        ({"messages": [{"role": "user", "content": "u"}], "tools": [{}]}, "tools: what tools there are has to be"),
        ({"messages": [{"role": ["user"], "content": "u"}]}, r"messages\[0\].role has to be one of .* it is a list"),
        ({"messages": ["hello"]}, r"messages\[0\] has to be an object"),
    ],
)
def test_a_row_that_asks_nothing_says_what_it_lacks(columns: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(UnfitRowError, match=reason):
        asked(columns, None)


def test_a_row_that_cannot_be_read_is_kept_with_its_place_or_refused() -> None:
    kept = list(read_rows([*GOOD, BROKEN], Batch()))
    assert [made.row for made in kept] == list(range(8))
    assert (kept[-1].place, kept[-1].error) == ("rows.jsonl:8", "is no JSON")
    with pytest.raises(RecipeError) as refused:
        list(read_rows([*GOOD, BROKEN], Batch(output=Output(errors="refuse"))))
    assert str(refused.value) == "rows.jsonl:8: is no JSON\noutput.errors=keep answers the others"


def test_a_source_of_which_no_row_asks_anything_is_refused_whatever_is_kept() -> None:
    with pytest.raises(RecipeError) as refused:
        list(read_rows([row(number, answer="a") for number in range(12)], Batch()))
    assert refused.value.problems[0].startswith("rows.jsonl:0: needs prompt")
    assert refused.value.problems[-1] == "and 2 more"
    with pytest.raises(RecipeError, match="has no rows"):
        list(read_rows([], Batch()))


def test_a_limit_ends_reading() -> None:
    endless = (row(number, prompt="p") for number in iter(int, 1))
    assert len(list(read_rows(endless, Batch(data=Data(limit=3))))) == 3


def names(settings: Batch, rows: list[Row | Corrupt], model: str = "m") -> list[str]:
    return [shard.name for shard in shards(read_rows(rows, settings), settings, model)]


def test_the_name_of_a_shard_changes_with_everything_that_its_answers_depend_on() -> None:
    settings = Batch(output=Output(shard_rows=3))
    before = names(settings, [*GOOD])
    assert [name.partition("-")[0] for name in before] == ["000000", "000001", "000002"]
    assert names(settings, [*GOOD]) == before
    assert names(replace(settings, data=Data(source="elsewhere.jsonl")), [*GOOD]) == before
    others = [
        names(settings, [*GOOD], model="another"),
        names(replace(settings, generation=Generation(seed=1)), [*GOOD]),
        names(replace(settings, data=Data(system="be brief")), [*GOOD]),
        names(replace(settings, output=Output(shard_rows=3, format="parquet")), [*GOOD]),
    ]
    assert all(set(other).isdisjoint(before) for other in others)
    changed = names(settings, [*GOOD[:4], row(5, prompt="another"), *GOOD[5:]])
    assert [one == other for one, other in zip(before, changed, strict=True)] == [True, False, True]


SHARD = Shard(
    "000000-0.jsonl",
    (
        Asked(0, "rows.jsonl:1", {"prompt": "één", "response": "theirs", "mixed": 1}),
        Asked(1, "rows.jsonl:2", {"prompt": "two", "mixed": "x", "nothing": None}, error="because"),
    ),
)
ANSWERS = [Answered("ja\n", 3, 2, "stop"), Answered(error="because")]


def test_lines_hold_the_columns_of_the_row_and_what_came_of_it() -> None:
    lines = [json.loads(line) for line in rendered(SHARD, ANSWERS, "jsonl").splitlines()]
    assert lines[0] == {
        "row": 0,
        "place": "rows.jsonl:1",
        "prompt": "één",
        "given_response": "theirs",
        "mixed": 1,
        "response": "ja\n",
        "prompt_tokens": 3,
        "response_tokens": 2,
        "finish_reason": "stop",
        "error": None,
    }
    assert (lines[1]["response"], lines[1]["error"]) == (None, "because")


def test_a_table_has_a_type_for_each_column_even_where_nothing_is_in_it() -> None:
    table = pyarrow.parquet.read_table(io.BytesIO(rendered(SHARD, ANSWERS, "parquet")))
    assert table.column("mixed").to_pylist() == ["1", '"x"']
    assert table.column("given_response").to_pylist() == ["theirs", None]
    assert {str(table.schema.field(name).type) for name in ("nothing", "error", "finish_reason")} == {"string"}
    assert table.column("response").to_pylist() == ["ja\n", None]


def rendered_alone(form: Literal["jsonl", "parquet"], **columns: Any) -> bytes:
    return rendered(Shard("s", (Asked(0, "rows.jsonl:1", columns),)), [Answered("a")], form)


def test_lines_are_json_whatever_the_columns_hold() -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    columns = {"a": float("nan"), "b": [{"c": float("-inf"), "d": 0.5}], "e": float("inf")}
    line = json.loads(rendered_alone("jsonl", **columns), parse_constant=refuse)
    assert (line["a"], line["b"], line["e"]) == (None, [{"c": None, "d": 0.5}], None)


def test_no_column_of_a_row_hides_another() -> None:
    line = json.loads(rendered_alone("jsonl", row=7, given_row=8, given_place=9))
    assert line | {"row": 0, "given_given_row": 7, "given_row": 8, "given_place": 9} == line


def test_objects_with_nothing_in_them_can_be_in_a_table() -> None:
    content = rendered_alone("parquet", empty={}, deep=[{"more": {}}], fine={"a": [1]})
    table = pyarrow.parquet.read_table(io.BytesIO(content))
    assert [table.column(name).to_pylist() for name in ("empty", "deep", "fine")] == [
        ["{}"],
        ['[{"more": {}}]'],
        [{"a": [1]}],
    ]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path / "a" / "b")
    assert folder.open() == set()
    one, two = "000000-0123456789ab.jsonl", "000001-0123456789ab.jsonl"
    folder.write(one, b"1\n")
    (folder.path / f".{two}.new").write_bytes(b"hal")  # of a run that was killed
    assert folder.open() == {one}
    assert [file.name for file in folder.path.iterdir()] == [one]

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecipeError, match="cannot be written: no space left on device"):
        folder.write(two, b"2\n")
    assert [file.name for file in folder.path.iterdir()] == [one]


def test_what_is_no_file_of_answers_is_neither_removed_nor_taken_for_one(tmp_path: Path) -> None:
    for name in (".mine.new", ".DS_Store", "notes.txt"):
        (tmp_path / name).write_text("mine")
    folder = Folder(tmp_path)
    assert folder.open() == {"notes.txt"}
    assert (tmp_path / ".mine.new").read_text() == "mine"
    with pytest.raises(RecipeError, match=rf"^output.folder={tmp_path} holds notes.txt, which is no file of answers"):
        refuse_others({"notes.txt"}, folder)
    with pytest.raises(RecipeError, match=r"holds 000000-0123456789ab\.jsonl, which other rows or settings led to"):
        refuse_others({"000000-0123456789ab.jsonl"}, folder)
    refuse_others(set(), folder)


def test_a_folder_that_is_taken_away_while_rows_are_answered_is_told(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "answers")
    folder.open()
    folder.path.rmdir()
    folder.path.write_text("a file")
    with pytest.raises(RecipeError, match="cannot be written: not a directory"):
        folder.write("000000-0123456789ab.jsonl", b"1\n")


def test_the_folder_is_the_one_of_all_attempts_of_a_run(tmp_path: Path) -> None:
    assert Folder.of(Output(), {}).path == Path("responses")
    assert Folder.of(Output(), {"AIR_CHECKPOINT_DIR": str(tmp_path)}).path == tmp_path / "responses"
    assert Folder.of(Output(folder="mine"), {"AIR_CHECKPOINT_DIR": str(tmp_path)}).path == Path("mine")


def test_settings_that_contradict_one_another_are_named() -> None:
    assert list(contradictions(Batch())) == []
    assert list(contradictions(Batch(data=Data(source="")))) == [
        "data.source is empty: it takes a file, a folder, a pattern, or the name of a data set"
    ]
    wrong = Batch(
        data=Data(limit=0), generation=Generation(max_prompt_tokens=9, max_new_tokens=9, batch_tokens=17, top_k=3)
    )
    assert [problem.partition(" ")[0] for problem in contradictions(wrong)] == [
        "data.limit=0",
        "generation.batch_tokens=17",
        "generation.top_p",
    ]
