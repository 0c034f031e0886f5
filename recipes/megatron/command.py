"""The command line of a recipe: its settings, printed or trained with."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from recipes.errors import RecipeError
from recipes.megatron.bridge import train
from recipes.megatron.config import Config, contradictions, misfits
from recipes.overrides import UnfitError, assignments, nearest, override, read, settings

RECIPES = {"deepseek_v2_lite": "recipes.megatron.deepseek_v2_lite"}
PROGRAM = "python -m recipes.megatron"
LAUNCHED = "air-ranks -m recipes.megatron"
MORE = "bridge."  # before a setting of Megatron Bridge's that the recipe has no name for
USAGE = f"""\
{LAUNCHED} RECIPE [--FLAG VALUE ...] [SECTION.SETTING=VALUE ...]
{PROGRAM} RECIPE --print-config
{PROGRAM} RECIPE --help

RECIPE is {" or ".join(RECIPES)}, or the dotted name of a module of yours that has a function configure."""

Configure = Callable[..., Config]


def main(words: Sequence[str]) -> int:
    """What one rank does; returns the exit code, 2 for settings that are refused."""
    try:
        run(words, os.environ)
    except RecipeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def run(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Print the configuration on rank 0, or train.

    Raises:
        RecipeError: the recipe, its settings or the ranks are not what is needed.
    """
    name, rest = recipe_name(words)
    config, print_config = configured(name, rest)
    ranks = int(env["WORLD_SIZE"]) if "RANK" in env else None
    if problems := list(contradictions(config)) or list(misfits(config, ranks) if ranks else ()):
        raise RecipeError(problems)
    if print_config:
        if env.get("RANK", "0") == "0":
            sys.stdout.write("\n".join(shlex.quote(line) for line in printed(config)) + "\n")
    elif ranks is None:
        raise RecipeError(
            ["This process is no rank of a training: RANK is not set"], hint=f"Start it with: {LAUNCHED} {name}"
        )
    else:
        train(config)


def recipe_name(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The recipe, which comes first, and what follows it."""
    if words[:1] in (["-h"], ["--help"]):
        sys.stdout.write(f"{USAGE}\n")
        sys.exit(0)
    if not words or words[0].startswith("-"):
        raise RecipeError(["The name of a recipe has to come first"], USAGE)
    return words[0], words[1:]


def configured(name: str, words: Sequence[str]) -> tuple[Config, bool]:
    """What the recipe and the words after it say, and whether it is only to be printed."""
    configure = find(name)
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}", description=inspect.getdoc(configure), allow_abbrev=False
    )
    parser.add_argument("settings", nargs="*", metavar="SECTION.SETTING=VALUE", help="replaces a setting of the recipe")
    parser.add_argument("--print-config", action="store_true", help="print every setting; train nothing")
    flags = inspect.signature(configure).parameters
    for flag, parameter in flags.items():
        required = parameter.default is parameter.empty
        default = None if required else f"default: {parameter.default}".replace("%", "%%")
        parser.add_argument(f"--{flag.replace('_', '-')}", metavar="VALUE", required=required, help=default)
    given = vars(parser.parse_intermixed_args(words))
    config = configure(**arguments(configure, {flag: given[flag] for flag in flags if given[flag] is not None}))
    return overridden(config, given["settings"], name), given["print_config"]


def arguments(configure: Configure, given: Mapping[str, str]) -> dict[str, Any]:
    """The text of each flag, read by the type that the recipe declares."""
    kinds = get_type_hints(configure)
    values, problems = {}, []
    for flag, text in given.items():
        try:
            values[flag] = read(text, kinds.get(flag, str))
        except UnfitError as error:
            problems.append(f"--{flag.replace('_', '-')} {text}: {error}")
    if problems:
        raise RecipeError(problems)
    return values


def find(name: str) -> Configure:
    """The `configure` of a recipe of ours, or of a module of the user's."""
    if name not in RECIPES and "." not in name:
        raise RecipeError([f"{name}: no such recipe{nearest(name, RECIPES)}"], hint=f"Recipes: {', '.join(RECIPES)}")
    module_name = RECIPES.get(name, name)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not error.name or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise RecipeError(
            [f"{name}: there is no module {error.name}"], hint="It is looked for in PYTHONPATH."
        ) from error
    configure: Configure | None = getattr(module, "configure", None)
    if configure is None:
        raise RecipeError([f"{name}: {module.__file__} has no function configure"])
    return configure


def overridden(config: Config, words: Sequence[str], name: str) -> Config:
    """The recipe with the settings that were given, those of Megatron Bridge unread."""
    more = {
        word: word.removeprefix(MORE).partition("=")[::2] for word in words if word.startswith(MORE) and "=" in word
    }
    ours = {key for key, _ in settings(Config)}
    problems = [f"{word}: the recipe has this setting itself: {key}" for word, (key, _) in more.items() if key in ours]
    try:
        config = override(config, [word for word in words if word not in more])
    except RecipeError as error:
        problems += error.problems
    if problems:
        raise RecipeError(
            problems,
            f"Every setting: {PROGRAM} {name} --print-config\n"
            f"Those of Megatron Bridge that are not among them: {MORE}SECTION.SETTING=VALUE",
        )
    return dataclasses.replace(config, bridge=(*config.bridge, *more.values()))


def printed(config: Config) -> list[str]:
    """Every setting, as words that make the same configuration of the recipe again."""
    return [*assignments(config), *(f"{MORE}{name}={text}" for name, text in config.bridge)]
