"""`python -m airlane.ranks`: the same as `air-ranks`."""

from __future__ import annotations

import sys

from airlane.ranks.main import main

sys.exit(main())
