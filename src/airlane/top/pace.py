"""What lets keys be answered at once while answers of twenty megabytes are read in other threads."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

# A thread that reads holds the interpreter for so long until another one may; a key needs it several times.
_SWITCH_S = 0.0005
# A round replaces tens of thousands of values, none of which is part of a cycle: looking for cycles among them all, as
# often as Python does by itself, takes as long as reading them.
_THRESHOLDS = (100_000, 50, 1000)


@contextlib.contextmanager
def paced_for_keys() -> Iterator[None]:
    """For the whole process, until this is left."""
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    gc.collect()
    gc.freeze()  # what was imported stays for good
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
