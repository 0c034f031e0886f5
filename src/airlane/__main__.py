"""`python -m airlane` is `air`."""

from __future__ import annotations

import sys

from airlane.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
