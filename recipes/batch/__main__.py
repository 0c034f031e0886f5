"""`python -m recipes.batch`: answer every row of a file."""

from __future__ import annotations

import os
import sys

from recipes.batch.settings import Batch, contradictions
from recipes.command import main


def run(settings: Batch) -> int:
    from recipes.batch.run import answer_all  # after the settings: what they get wrong is told without waiting for Ray

    return answer_all(settings, os.environ)


if __name__ == "__main__":  # Ray's workers import the main module
    sys.exit(main("python -m recipes.batch", Batch(), run, sys.argv[1:], os.environ, contradictions=contradictions))
