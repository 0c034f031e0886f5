"""Fine-tune a model on conversations, questions and answers, or text, on every worker of a Ray cluster."""

from __future__ import annotations

import os
import sys

from recipes import command
from recipes.engine.driver import run
from recipes.engine.settings import contradictions
from recipes.sft.settings import DEFAULTS

PROGRAM = "python -m recipes.sft"

if __name__ == "__main__":
    sys.exit(command.main(PROGRAM, DEFAULTS, run, sys.argv[1:], os.environ, contradictions=contradictions))
