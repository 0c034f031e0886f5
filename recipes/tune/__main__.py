"""Try settings of a fine-tuning, several at a time on a Ray cluster, and give the best model."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence

from recipes.errors import RecipeError
from recipes.overrides import assignments
from recipes.tune.search import start
from recipes.tune.settings import Wanted, wanted

PRINT = "--print-config"


def main(words: Sequence[str], env: Mapping[str, str]) -> int:
    """Its exit code: 2 for what is refused."""
    try:
        asked = wanted([word for word in words if word != PRINT], env)
        if PRINT in words:
            print_config(asked)
            return 0
        return start(asked)
    except RecipeError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def print_config(asked: Wanted) -> None:
    words = [*assignments(asked.settings), *(f"search.{name}={values}" for name, values in asked.space.items())]
    sys.stdout.write("\n".join(map(shlex.quote, words)) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
