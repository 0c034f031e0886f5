"""argparse, with errors that are raised, guesses for mistyped options, and the options that every command has."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from airlane.errors import ArgumentError


class Parser(argparse.ArgumentParser):
    """The words of one command. Nothing is printed and nothing exits: what is wrong is an ArgumentError."""

    def __init__(self, name: str, *, example: str | None = None) -> None:
        super().__init__(prog=f"air {name}".strip(), add_help=False, allow_abbrev=False)
        self._example = example
        self.common = self.add_argument_group("everywhere")
        self.common.add_argument("-p", "--profile", metavar="NAME", help="where to run: a profile of the configuration")
        self.common.add_argument("--json", action="store_true", help="answer in JSON, one envelope on stdout")
        self.common.add_argument("-v", "--verbose", action="store_true", help="say more")
        self.common.add_argument("-h", "--help", action="store_true", help="this page")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The values of the words of a command line.

        Raises:
            ArgumentError: a word is unknown or missing, or a value is of the wrong kind.
        """
        values, unknown = self.parse_known_args(words)
        if unknown:
            self._refuse(unknown[0])
        return values

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            example = f"for example {self._example}\n" if self._example else ""
            raise ArgumentError(f"{self.prog}: {missing} is missing", hint=f"{example}{self.prog} -h")
        words = message.removeprefix("argument ").replace("expected one argument", "its value is missing")
        raise ArgumentError(f"{self.prog}: {words}", hint=f"{self.prog} -h")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # As argparse does it, in words that are the same on every Python.
        if action.choices is not None and value not in action.choices:
            guess = closest(str(value), [str(choice) for choice in action.choices])
            meant = f"; did you mean {guess}?" if guess else ""
            raise argparse.ArgumentError(action, f"expected one of {', '.join(action.choices)}, got {value!r}{meant}")

    def options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings]

    def _refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            raise ArgumentError(f"{self.prog}: one word too many: {word!r}", hint=f"{self.prog} -h")
        option = word.split("=", 1)[0]
        guess = closest(option, self.options())
        hint = f"did you mean {guess}? (all options: {self.prog} -h)" if guess else f"{self.prog} -h"
        raise ArgumentError(f"{self.prog}: unknown option {option}", hint=hint)


def closest(word: str, known: Sequence[str]) -> str | None:
    """The known word that a mistyped one most likely meant."""
    import difflib

    return next(iter(difflib.get_close_matches(word, known, n=1)), None)


def whole_number(least: int) -> Callable[[str], int]:
    """A reader for whole numbers from `least` on."""

    def read(text: str) -> int:
        if not text.lstrip("-").isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} on, got {text!r}")
        return int(text)

    return read


def pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    """K=V words as a mapping.

    Raises:
        ArgumentError: a word has no "=", or no key.
    """
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            raise ArgumentError(f"{option}: expected KEY=VALUE, got {word!r}", hint=f"{option} experiment=sft-*")
        found[key] = value
    return found


def flatten(lists: Sequence[Sequence[Any]] | None) -> tuple[Any, ...]:
    """What a repeated option that takes several values collected."""
    return tuple(value for values in lists or () for value in values)
