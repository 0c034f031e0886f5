"""One rank of a training; a launcher of ranks starts it on every GPU."""

from __future__ import annotations

import sys

from recipes.megatron.command import main

sys.exit(main(sys.argv[1:]))
