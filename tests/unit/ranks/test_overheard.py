"""What a library writes to the process's stderr, past Python."""

from __future__ import annotations

import os
import threading

import pytest

from airlane.ranks.overheard import Overheard


def test_what_is_written_meanwhile_is_kept_from_the_screen_and_what_comes_after_is_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    os.write(2, b"before\n")
    with Overheard("word") as overheard:
        os.write(2, b"a word\n")
    os.write(2, b"after\n")
    assert overheard.text == "a word\n"
    assert overheard.has_word
    assert capfd.readouterr().err == "before\nafter\n"


def test_a_word_is_heard_while_the_library_goes_on() -> None:
    heard = threading.Event()
    with Overheard("InvalidAuthToken", heard.set):
        os.write(2, b"RPC error: InvalidAuthToken: x\n")
        assert heard.wait(10)


def test_other_words_are_not_it() -> None:
    heard = threading.Event()
    with Overheard("InvalidAuthToken", heard.set) as overheard:
        os.write(2, b"something else\n")
    assert not heard.is_set()
    assert not overheard.has_word
