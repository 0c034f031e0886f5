from __future__ import annotations

import time
from inspect import signature
from typing import Any

import pytest

import airlane
from airlane import errors
from airlane.cli.command import Context
from airlane.cli.dispatch import error_text, split
from airlane.cli.help_pages import command_page, group_page, overview
from airlane.cli.registry import COMMANDS, FIRST_WORDS, load
from airlane.cli.screen import Look
from airlane.errors import ArgumentError, ConfigError, Problem, SpecError
from golden_text import check_golden

from .conftest import Air

PIPE = Look(columns=None)


def made(kind: type[errors.AirError]) -> errors.AirError:
    """An error, with something for what it cannot be made without."""
    needed = [name for name, place in signature(kind).parameters.items() if place.kind is place.KEYWORD_ONLY]
    return kind("it went wrong", **dict.fromkeys(needed) | {"hint": "do this"})


def failing(error: BaseException) -> Any:
    def client(_context: Context) -> None:
        raise error

    return client


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_air_alone_teaches(air: Air, words: tuple[str, ...]) -> None:
    output = air(*words)
    assert (output.code, output.err) == (0, "")
    check_golden("help.txt", output.out.rstrip("\n"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_page_that_begins_with_an_example_and_fits_80_columns(air: Air, name: str) -> None:
    output = air(*name.split(), "-h")
    assert output.code == 0
    assert output.out.startswith(("air ", "eval "))
    assert max(map(len, output.out.splitlines())) <= 80
    check_golden(f"help_{name.replace(' ', '_')}.txt", output.out.rstrip("\n"))


@pytest.mark.parametrize("words", [("run", "-h"), ("-h", "run"), ("-p", "hpc", "run", "--watch", "-h")])
def test_help_may_stand_anywhere(air: Air, words: tuple[str, ...]) -> None:
    assert air(*words).out == command_page(load("run")) + "\n"


@pytest.mark.parametrize("group", ["env", "secrets", "ray", "ray job"])
def test_words_with_several_actions_list_them(air: Air, group: str) -> None:
    assert air(*group.split()).out == air(*group.split(), "-h").out == group_page(group) + "\n"


@pytest.mark.parametrize("words", [("-h",), ("run", "-h"), ("env", "-h"), ("-h", "config")])
def test_help_in_json_is_an_envelope(air: Air, words: tuple[str, ...]) -> None:
    assert air(*words, "--json").data()["help"] + "\n" == air(*words).out


@pytest.mark.parametrize(
    "words", [("-h", "config.compute"), ("run", "-h", "config.compute"), ("--help", "config.compute")]
)
def test_help_on_fields_comes_from_the_models(air: Air, words: tuple[str, ...]) -> None:
    output = air(*words)
    assert output.code == 0
    assert "num_accelerators" in output.out


def test_help_on_an_unknown_topic_lists_the_topics(air: Air) -> None:
    output = air("-h", "nonsense")
    assert output.code == 0
    assert "config.compute" in output.out or "compute" in output.out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("rnu",), 2, ("air: unknown command 'rnu'", "did you mean air run?")),
        (("qwertz",), 2, ("air: unknown command 'qwertz'", "air -h lists the commands")),
        (("ray", "job", "sumbit"), 2, ("air: unknown command 'ray job sumbit'", "did you mean air ray job submit?")),
        (("secrets", "lst"), 2, ("air: unknown command 'secrets lst'", "did you mean air secrets list?")),
        (("run", "--wtach"), 2, ("air run: unknown option --wtach", "did you mean --watch? (all options: air run -h)")),
        (("list", "--limit", "0"), 2, ("air list: --limit: expected a whole number from 1 on, got '0'", "air list -h")),
        (
            ("logs", "x", "--tail", "0"),
            2,
            ("air logs: --tail: expected a whole number from 1 on, got '0'", "air logs -h"),
        ),
        (("logs",), 2, ("air logs: ID is missing", "for example air logs @last")),
        (
            ("completion", "bsh"),
            2,
            (
                "air completion: SHELL: expected one of bash, zsh, fish, tcsh, got 'bsh'; did you mean bash?",
                "air completion -h",
            ),
        ),
        (("get", "a", "b"), 2, ("air get: one word too many: 'b'", "air get -h")),
        (("run",), 2, ("air run: which workload? A YAML file is missing", "air run -f train.yaml")),
        (("run", "a.yaml", "-f", "b.yaml"), 2, ("air run: the workload is given twice: b.yaml and a.yaml", None)),
        (("list", "--filter", "user"), 2, ("--filter: expected KEY=VALUE, got 'user'", None)),
        (("cancel",), 1, ("air cancel: which run? An id, or --all, is missing", "air list")),
        (("cancel", "x", "--all"), 1, ("air cancel: ids and --all exclude each other", "air list")),
        (("cancel", "--all"), 1, ("air cancel --all needs a yes", "air cancel --all --yes")),
        (("--json",), 2, ("air: a command is missing", "air -h")),
        (("env", "--json"), 2, ("air env: an action is missing", "air env -h")),
        (("ray", "job", "--json"), 2, ("air ray job: an action is missing", "air ray job -h")),
        (("--nonsense",), 2, ("air: unknown option --nonsense", None)),
        (("-p",), 2, ("air: -p/--profile: its value is missing", None)),
        (
            ("env", "prune", "--older-than", "-1"),
            2,
            ("air env prune: --older-than: expected a number of days, got '-1'", None),
        ),
        (
            ("env", "prune", "--older-than", "x"),
            2,
            ("air env prune: --older-than: expected a number of days, got 'x'", None),
        ),
    ],
)
def test_a_wrong_command_line_says_what_to_type(
    air: Air, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, told: tuple[str, str | None]
) -> None:
    monkeypatch.setattr(Context, "client", lambda _context: None)
    output = air(*words)
    assert output.code == code
    message, hint = told
    lines = output.err.splitlines()
    assert lines[0] == message
    assert hint is None or lines[1] == f"  {hint}"
    as_json = air("--json", *words)
    assert as_json.code == code
    assert as_json.error()["message"] == message


@pytest.mark.parametrize("words", [("--version",), ("-v", "--version")])
def test_the_version_is_told(air: Air, words: tuple[str, ...]) -> None:
    assert air(*words).out == f"airlane {airlane.__version__}\n"


def test_the_version_is_told_in_json(air: Air) -> None:
    assert air("--version", "--json").data() == {"version": airlane.__version__}


@pytest.mark.parametrize(
    "error",
    [
        made(kind)
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.AirError) and kind is not SpecError
    ],
)
def test_every_error_has_its_exit_code_and_its_envelope(
    air: Air, monkeypatch: pytest.MonkeyPatch, error: errors.AirError
) -> None:
    monkeypatch.setattr(Context, "client", failing(error))
    output = air("list")
    assert (output.code, output.out, output.err) == (error.exit_code, "", "it went wrong\n  do this\n")
    output = air("list", "--json")
    (facts,) = output.lines()
    assert facts["v"] == 1
    time.strptime(facts["ts"], "%Y-%m-%dT%H:%M:%SZ")
    assert facts["error"] == {
        "code": error.code,
        "kind": error.kind,
        "message": "it went wrong",
        "retryable": error.retryable,
        "hint": "do this",
    }
    assert error.retryable == (error.kind == "TRANSIENT")


def test_problems_of_a_workload_are_all_in_the_envelope(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("unknown field", "comand", "train.yaml", 21, 1, "Did you mean `command`?", ((21, "comand: x"),))
    error = SpecError((problem, problem))
    monkeypatch.setattr(Context, "client", failing(error))
    output = air("list", "--json")
    assert output.code == 2
    problems = output.error()["problems"]
    assert [(p["field"], p["line"], p["column"]) for p in problems] == [("comand", 21, 1)] * 2
    assert error_text(error, PIPE) in output.err


def test_a_long_message_is_wrapped_between_words_on_a_terminal_and_its_hint_is_not() -> None:
    error = ConfigError("no profile 'gpu' in /home/ada/.config/air/config.toml", hint="air run -f train.yaml -p hpc")
    assert error_text(error, Look(columns=30)).splitlines() == [
        "no profile 'gpu' in",
        "/home/ada/.config/air/config.toml",
        "  air run -f train.yaml -p hpc",
    ]


def test_a_file_that_cannot_be_used_is_named_without_talk_of_exceptions(
    air: Air, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "client", failing(PermissionError(13, "Permission denied", "/fsx/x")))
    output = air("list")
    assert (output.code, output.err) == (1, "cannot use /fsx/x: permission denied\n  again with -v shows where\n")


def test_ctrl_c_has_its_exit_code_and_closes_the_json(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "client", failing(KeyboardInterrupt()))
    assert air("list").code == 130
    output = air("list", "--json")
    assert output.code == 130
    assert output.error()["code"] == "INTERRUPTED"


def test_a_defect_is_told_without_a_traceback_unless_asked_for(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "client", failing(ZeroDivisionError("oops")))
    output = air("list")
    assert (output.code, output.err.splitlines()[0]) == (1, "Airlane itself failed: ZeroDivisionError: oops")
    with pytest.raises(ZeroDivisionError):
        air("list", "-v")


@pytest.mark.parametrize(
    ("argv", "first", "after"),
    [
        (["-p", "run", "list"], "list", ()),
        (["--profile=x", "get", "run", "7k"], "get", ("run", "7k")),
        (["--json"], None, ()),
        (["-h", "config"], None, ()),
        (["-h", "run"], "run", ()),
    ],
)
def test_the_command_is_the_first_word_that_is_no_option(
    argv: list[str], first: str | None, after: tuple[str, ...]
) -> None:
    words = split(argv)
    assert (words.first, words.after) == (first, after)


@pytest.mark.parametrize("words", [("-p", "hpc", "--json", "list"), ("list", "--json", "-p", "hpc")])
def test_global_options_may_stand_before_or_after_the_command(
    air: Air, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    seen: list[Context] = []

    def client(context: Context) -> None:
        seen.append(context)
        raise ArgumentError("enough")

    monkeypatch.setattr(Context, "client", client)
    air(*words)
    assert [(context.profile, context.json) for context in seen] == [("hpc", True)]


def test_the_table_of_commands_loads_and_is_complete() -> None:
    for name in COMMANDS:
        assert load(name).name == name
    assert all(first in overview() for first in FIRST_WORDS)
