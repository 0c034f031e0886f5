"""What a rank said of its end."""

from __future__ import annotations

from airlane.ranks.tracebacks import last_words

CHAINED = """\
before
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    g()
    ^^^
ValueError: no y
  a note that belongs to it
terminate called
""".splitlines()


def test_a_traceback_is_shown_whole_with_those_that_led_to_it_and_nothing_else() -> None:
    assert last_words(CHAINED) == CHAINED[1:-1]


def test_of_two_tracebacks_that_do_not_belong_together_the_last_one_is_shown() -> None:
    earlier = [
        "Traceback (most recent call last):",
        '  File "w.py", line 1, in f',
        "    x",
        "OSError: passed over",
        "on",
    ]
    assert last_words([*earlier, *CHAINED[8:]])[0] == CHAINED[8]
    assert "OSError: passed over" not in last_words([*earlier, *CHAINED[8:]])


def test_without_a_traceback_the_last_lines_are_shown() -> None:
    assert last_words([*map(str, range(30)), ""]) == list(map(str, range(20, 30)))
    assert last_words(["", " "], ["said on stdout"]) == ["said on stdout"]
    assert last_words([], []) == []


def test_a_very_long_traceback_shows_its_beginning_and_its_end() -> None:
    deep = ["Traceback (most recent call last):", *[f"  line {n}" for n in range(500)], "RecursionError: too deep"]
    shown = last_words(deep)
    assert len(shown) == 41
    assert (shown[0], shown[-1]) == (deep[0], deep[-1])
    assert shown[20] == "  ... 462 lines ..."


def test_a_traceback_that_is_cut_off_is_shown_as_far_as_it_goes() -> None:
    assert last_words(CHAINED[8:11]) == CHAINED[8:11]
