"""From the words of a command line to a command and its exit code; errors are told here, and nowhere else."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Sequence

from airlane import __version__
from airlane.cli.registry import COMMANDS, FIRST_WORDS, load
from airlane.cli.screen import Look, OutputError, Screen
from airlane.errors import EXIT_OK, EXIT_PIPE_CLOSED, AirError, ArgumentError, InterruptedCommandError, SpecError
from airlane.frozen import frozen

_TAKES_VALUE = ("-p", "--profile")


@frozen
class Words:
    """A command line taken apart: options before the command, the command's first word, and what follows it."""

    before: tuple[str, ...]
    first: str | None
    after: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """Everything but the command, up to a "--"."""
        words = (*self.before, *self.after)
        return words[: words.index("--")] if "--" in words else words


def dispatch(argv: Sequence[str]) -> int:
    """Run a command line; the exit code. Whatever goes wrong is told on stderr, or in the envelope with --json."""
    screen = Screen.of_process()
    words = split(argv)
    try:
        return _run(words, screen)
    except OutputError as error:
        _give_up_stdout()
        return _tell(error, screen, as_json=False)
    except AirError as error:
        return _tell(error, screen, as_json="--json" in words.options)
    except KeyboardInterrupt:
        if screen.live:
            screen.say()  # what was asked, or the ^C that the terminal shows, stands on a line of its own
        return _tell(InterruptedCommandError("Interrupted."), screen, as_json="--json" in words.options)
    except BrokenPipeError:
        _give_up_stdout()
        return EXIT_PIPE_CLOSED
    except Exception as error:
        if "-v" in words.options or "--verbose" in words.options:
            raise
        return _tell(_unexpected(error), screen, as_json="--json" in words.options)


def _give_up_stdout() -> None:
    """Python would complain once more, when it exits, about what is left to be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unexpected(error: Exception) -> AirError:
    """What nobody wrapped: a file that cannot be used is the machine's doing, anything else is ours."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        words = f"cannot use {error.filename}: {error.strerror.lower()}"
    else:
        words = f"Airlane itself failed: {type(error).__name__}: {error}"
    return AirError(words, hint="again with -v shows where")


def split(argv: Sequence[str]) -> Words:
    """The first word that is no option (nor the value of one, nor a help topic) is the command."""
    skip = False
    for position, word in enumerate(argv):
        if skip:
            skip = False
        elif word in _TAKES_VALUE:
            skip = True
        elif not word.startswith("-") and not (position and _asks_help(argv[position - 1]) and word not in FIRST_WORDS):
            return Words(tuple(argv[:position]), word, tuple(argv[position + 1 :]))
    return Words(tuple(argv), None, ())


def _run(words: Words, screen: Screen) -> int:
    if any(_asks_help(word) for word in words.options):
        return _help(words, screen)
    if words.first is None:
        return _no_command(words, screen)
    name, rest = _name(words.first, words.after)
    if name is None:
        if "--json" in words.options:
            group = _group(words.first, words.after)
            raise ArgumentError(f"air {group}: an action is missing", hint=f"air {group} -h")
        return _help(words, screen)
    from airlane.cli.command import Context

    command = load(name)
    if command.noun and rest[:1] == (command.noun,):
        rest = rest[1:]
    values = command.parser().read([*words.before, *rest])
    context = Context(screen, profile=values.profile, json=values.json, verbose=values.verbose)
    return command.execute(values, context)


def _no_command(words: Words, screen: Screen) -> int:
    if "--version" in words.before:
        if "--json" in words.before:
            from airlane.cli.envelope import data_line

            screen.show(data_line({"version": __version__}, time.time()))
        else:
            screen.show(f"airlane {__version__}")
        return EXIT_OK
    if words.before:
        from airlane.cli.parser import Parser

        Parser("").read(words.before)  # an unknown option is told first
        raise ArgumentError("air: a command is missing", hint="air -h")
    from airlane.cli.help_pages import overview

    screen.show(overview())
    return EXIT_OK


def _name(first: str, after: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The command's name and the words left; no name where the words before the options name several commands.

    Raises:
        ArgumentError: there is no such command.
    """
    leading = (first, *itertools.takewhile(lambda word: not word.startswith("-"), after))
    for length in range(len(leading), 0, -1):
        name = " ".join(leading[:length])
        if name in COMMANDS:
            return name, (first, *after)[length:]
    group = _group(first, after)
    if group == " ".join(leading):
        return None, after
    from airlane.cli.parser import closest

    typed = " ".join(leading[: len(group.split()) + 1])
    known = [name for name in COMMANDS if name.startswith(f"{group} ")] if group else FIRST_WORDS
    guess = closest(typed, known)
    raise ArgumentError(
        f"air: unknown command {typed!r}", hint=f"did you mean air {guess}?" if guess else "air -h lists the commands"
    )


def _group(first: str, after: tuple[str, ...]) -> str:
    """As many of the first words as begin the name of a command: "ray", "ray job"."""
    group = ""
    for word in (first, *after):
        longer = f"{group} {word}".strip()
        if not any(name.startswith(f"{longer} ") for name in COMMANDS):
            return group
        group = longer
    return group


def _help(words: Words, screen: Screen) -> int:
    from airlane.cli.help_pages import command_page, group_page, overview

    topic = _topic(words)
    if topic is not None:
        from airlane.spec.help_text import describe

        page = describe(topic).rstrip("\n")
    elif words.first is None:
        page = overview()
    else:
        name, _ = _name(words.first, words.after)
        page = command_page(load(name)) if name else group_page(_group(words.first, words.after))
    if "--json" in words.options:
        from airlane.cli.envelope import data_line

        page = data_line({"help": page}, time.time())
    screen.show(page)
    return EXIT_OK


def _topic(words: Words) -> str | None:
    """The word after -h, where it is not an option: `air -h config.compute`."""
    from itertools import pairwise

    for one, following in pairwise((*words.before, *words.after)):
        about_fields = following.split(".")[0] == "config" or (words.first is None and not following.startswith("-"))
        if _asks_help(one) and about_fields:
            return following
    return None


def _asks_help(word: str) -> bool:
    return word in ("-h", "--help")


def _tell(error: AirError, screen: Screen, *, as_json: bool) -> int:
    if as_json:
        from airlane.cli.envelope import error_line

        try:
            screen.show(error_line(error, time.time()))
        except (OutputError, BrokenPipeError):
            _give_up_stdout()
    screen.say(error_text(error, screen.err_look))
    return error.exit_code


def error_text(error: AirError, look: Look) -> str:
    """What is told on stderr: the message, then what to type, indented. Only the message is wrapped on a terminal."""
    from airlane.cli.layout import hanging

    if isinstance(error, SpecError):
        from airlane.spec.problems import render_problems

        told = render_problems(error)
    else:
        told = error.message + "".join(f"\n  {line}" for line in (error.hint or "").splitlines())
    lines = (
        line if line.startswith(" ") else "\n".join(hanging("", line, look, indent=0)) for line in told.split("\n")
    )
    return "\n".join(lines)
