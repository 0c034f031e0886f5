from __future__ import annotations

from airlane.cli.layout import hanging, table
from airlane.cli.screen import Look

HEADINGS = ("RUN", "NAME", "STATUS")
ROWS = (("7k2m", "short", "FAILED"), ("7k2n", "a-name-of-thirty-characters-or-so", "OK"))
PIPE = Look(columns=None)
TERMINAL = Look(columns=30)


def test_a_table_in_a_pipe_is_not_cut() -> None:
    assert table(HEADINGS, ROWS, PIPE, shrinks=1).splitlines() == [
        "RUN   NAME                               STATUS",
        "7k2m  short                              FAILED",
        "7k2n  a-name-of-thirty-characters-or-so  OK",
    ]


def test_a_table_on_a_terminal_is_cut_in_one_column_alone() -> None:
    assert table(HEADINGS, ROWS, TERMINAL, shrinks=1).splitlines() == [
        "RUN   NAME              STATUS",
        "7k2m  short             FAILED",
        "7k2n  a-name-of-thirt…  OK",
    ]


def test_a_table_counts_columns_of_the_terminal_not_characters() -> None:
    wide = table(("A", "B"), (("日本", "x"), ("abcd", "y")), TERMINAL, shrinks=0).splitlines()
    assert wide == ["A     B", "日本  x", "abcd  y"]


def test_a_coloured_table_takes_the_same_columns_on_a_terminal_and_in_a_pipe() -> None:
    rows = (("\x1b[1;32mOK\x1b[0m", "x"), ("FAILED", "y"))
    for look in (Look(colour=True), Look(colour=True, columns=None)):
        lines = table(("S", "N"), rows, look, shrinks=1).splitlines()
        assert lines[1] == "\x1b[1;32mOK\x1b[0m      x"
        assert lines[2] == "FAILED  y"


def test_brackets_and_colons_in_a_cell_are_text() -> None:
    assert table(("A",), (("[red]x[/] :smile:",),), TERMINAL, shrinks=0).splitlines()[1] == "[red]x[/] :smile:"


def test_a_long_text_is_wrapped_below_itself_on_a_terminal_alone() -> None:
    text = "node 1 exited with code 1 (CUDA out of memory)"
    assert hanging("status  ", text, PIPE, indent=8) == [f"status  {text}"]
    assert hanging("status  ", text, TERMINAL, indent=8) == [
        "status  node 1 exited with",
        "        code 1 (CUDA out of",
        "        memory)",
    ]


def test_an_address_stays_whole_whatever_the_width() -> None:
    text = "see http://127.0.0.1:5000/#/experiments/3/runs/9f2ab31c"
    assert hanging("metrics  ", text, TERMINAL, indent=9) == ["metrics  see", f"         {text.removeprefix('see ')}"]


def test_colour_is_kept_where_a_text_is_wrapped() -> None:
    look = Look(colour=True, columns=20)
    assert hanging("status  ", "\x1b[1;31mFAILED\x1b[0m  out of time", look, indent=8) == [
        "status  \x1b[1;31mFAILED\x1b[0m  out",
        "        of time",
    ]
