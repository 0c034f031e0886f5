"""A list that is read one object at a time is the same as one that is read at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.top.reading import pieces
from airlane.top.reading.pieces import Pieces, read_pieces, without_array
from airlane.top.reading.summary import SUMMARY, read_summary

from .conftest import answer, body, encoded

PATH = ("data", "rows")
JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(alphabet='a"\\[]{}:, é\ud800', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["now", "rows", "b"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def all_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_WHOLE_BELOW", 0)


def read(content: bytes) -> Pieces[Any]:
    return read_pieces(content, PATH, lambda row: row)


@given(st.lists(st.dictionaries(st.sampled_from(["now", "id", "c"]), JSON, max_size=3), max_size=4), JSON)
def test_pieces_are_the_whole(rows: list[dict[str, Any]], beside: Any) -> None:
    content = {"result": True, "data": {"rows": rows, "beside": beside}}
    assert read(encoded(content)).made == rows
    assert read(json.dumps(content, separators=(",", ":")).encode()).made == rows


def test_what_stands_around_the_list_is_kept() -> None:
    found = read(b'{"data": {"rows": [{"a": 1}, {"a": 2}], "total": 5}, "msg": "x"}')
    assert (found.made, found.around) == ([{"a": 1}, {"a": 2}], {"data": {"rows": [], "total": 5}, "msg": "x"})


@pytest.mark.parametrize("content", [b"", b"{", b'{"data": {"rows": [{"a": 1}, {"a": 2', b'{"data": {"rows": [{"a'])
def test_a_truncated_answer_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(content)


def test_a_recorded_summary_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = read_summary(body("summary"))
    monkeypatch.setattr(pieces, "_WHOLE_BELOW", 1 << 40)
    assert apart == read_summary(body("summary"))
    assert "nocache=1" in SUMMARY


def test_what_is_cut_out_is_cut_out_whole() -> None:
    piece = rb'"cmdline": ["a", "x\"], \"b", "", ""], "n": 1, "cmdline": ["]"], "m": []'
    assert without_array(piece, b'"cmdline": ["', b'"]') == b'"cmdline": [], "n": 1, "cmdline": [], "m": []'


def test_brackets_in_a_command_line_of_a_node_do_no_harm() -> None:
    content = answer("summary")
    entry = content["data"]["summary"][0]
    entry["cmdline"] = ['--resources={"a": ["b"]}', '"]', "\\", '\\"]', ""] * 5
    entry["raylet"]["coreWorkersStats"] *= 3
    entry["raylet"]["coreWorkersStats"][0]["objectRefs"] = [{"a": "}], "}]
    assert read_summary(encoded(content)) == read_summary(body("summary"))


def test_of_what_is_the_same_as_before_nothing_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_WHOLE_BELOW", 0)
    known: dict[int, dict[str, Any]] = {}
    made: list[str] = []

    def make(row: dict[str, Any]) -> dict[str, Any]:
        made.append(row["name"])
        return row

    for names in (("a", "b", "c"), ("a", "x", "c"), ("a", "b", "c")):
        content = encoded({"data": {"rows": [{"name": name, "size": 1} for name in names]}})
        found = read_pieces(content, PATH, make, known=known).made
        assert [row["name"] for row in found] == list(names)
    # The last of a list is made each time: it is found by reading it. What was not there in between is made again.
    assert made == ["a", "b", "c", "x", "c", "b", "c"]
