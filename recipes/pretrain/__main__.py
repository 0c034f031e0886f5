"""Train a model from scratch on text, on every worker of a Ray cluster."""

from __future__ import annotations

import os
import sys
from functools import partial

from recipes import command
from recipes.engine.settings import contradictions
from recipes.engine.start import start
from recipes.pretrain.settings import DEFAULTS

PROGRAM = "python -m recipes.pretrain"

if __name__ == "__main__":
    run = partial(start, recipe="pretrain")
    sys.exit(command.main(PROGRAM, DEFAULTS, run, sys.argv[1:], os.environ, contradictions=contradictions))
