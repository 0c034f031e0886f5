"""Start the agent: `python -I -S .../airlane/launch/__main__.py ORDER` (the package need not be installed there)."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from airlane.launch.agent import main

if __name__ == "__main__":
    # At once: there is nothing to tidy up, and a metrics thread stuck in a driver must not hold the exit.
    os._exit(main(sys.argv))
