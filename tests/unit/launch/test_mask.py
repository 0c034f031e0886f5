from __future__ import annotations

import base64
import json
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.launch.mask import Masker, forms_of

# Few letters, so that values overlap each other and themselves.
VALUES = st.lists(st.text(alphabet="ab-\n", min_size=0, max_size=9), max_size=4)
TEXTS = st.text(alphabet="ab-\nYW", max_size=120)


def masked(values: list[str], *pieces: str | bytes) -> str:
    masker = Masker(values)
    given_out = [masker.feed(piece.encode() if isinstance(piece, str) else piece) for piece in pieces]
    return b"".join([*given_out, masker.flush()]).decode()


def masked_naively(values: list[str], text: str) -> str:
    """The definition: every occurrence of every form, overlaps together, as three stars."""
    forms = {form.decode() for value in values for form in forms_of(value)}
    stars = [False] * len(text)
    starts = set()
    spans = sorted(
        (start, start + len(form)) for form in forms for start in range(len(text)) if text.startswith(form, start)
    )
    reach = 0
    for start, stop in spans:
        if start >= reach:
            starts.add(start)
        reach = max(reach, stop)
        stars[start:stop] = [True] * (stop - start)
    return "".join("***" if i in starts else "" if stars[i] else letter for i, letter in enumerate(text))


@given(VALUES, TEXTS, st.lists(st.integers(min_value=0, max_value=120)))
def test_any_cut_gives_the_same_as_masking_the_whole(values: list[str], text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:stop] for start, stop in pairwise(edges)]
    assert masked(values, *pieces) == masked_naively(values, text)


@given(VALUES, TEXTS)
def test_no_value_survives(values: list[str], text: str) -> None:
    hidden = masked(values, *text)
    assert not [value for value in values if len(value.strip()) >= 4 and value in hidden]


@given(st.text(min_size=4, max_size=30), st.text(max_size=5), st.text(max_size=5))
def test_base64_hides_a_value_wherever_it_stands(value: str, before: str, after: str) -> None:
    if len(value.strip()) < 4:
        return
    raw = value.encode(errors="replace")
    whole = base64.b64encode(before.encode(errors="replace") + raw + after.encode(errors="replace")).decode()
    assert "***" in masked([raw.decode()], f"Authorization: Basic {whole}\n")


@pytest.mark.parametrize("value", ["p@ss/w rd", "ü&é=%", "plain-value", 'say "it"\\now'])
def test_quoted_values_are_hidden_too(value: str) -> None:
    for text in (
        value,
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        quote(value, safe="").lower(),
        json.dumps(value, ensure_ascii=False)[1:-1],
        base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    ):
        assert masked([value], f"<{text}>").startswith("<***"), text


def test_short_values_are_left_alone() -> None:
    assert masked(["abc", "", "  x "], "abc x abc") == "abc x abc"


def test_lines_of_a_long_value_are_hidden_one_by_one() -> None:
    key = "-----BEGIN-----\r\n  first line\r\nab\r\nlast line\r\n"
    assert masked([key], "1: first line 2: ab 3: last line\n") == "1: *** 2: ab 3: ***\n"
    assert masked([key], f"<{key}>") == "<***>"


def test_overlapping_values_leave_nothing_of_either() -> None:
    assert masked(["abcdef", "defghi"], "-abcdefghi-") == "-***-"
    assert masked(["aaaa"], "b" + "a" * 11 + "b") == "b***b"


def test_neighbours_are_two() -> None:
    assert masked(["abcd"], "abcdabcd") == "******"


def test_only_a_possible_beginning_is_held_back() -> None:
    masker = Masker(["secret-value"])
    assert masker.feed(b"progress 10%\rsec") == b"progress 10%\r"
    assert masker.feed(b"ond") == b"second"
    assert masker.feed(b"secret-valu") == b""
    assert masker.feed(b"e") == b"***"
    assert masker.flush() == b""


def test_an_endless_match_takes_no_memory() -> None:
    masker = Masker(["aaaa"])
    given_out = [masker.feed(b"a" * 10_000) for _ in range(100)]
    assert b"".join(given_out) == b"***"
    assert len(masker._tail) < 100


def test_bytes_that_are_no_text_pass_unharmed() -> None:
    masker = Masker(["wörd"])
    data = bytes(range(256)) * 3
    assert masker.feed(data) + masker.flush() == data
    assert masker.feed("a wörd".encode()) + masker.flush() == b"a ***"
