from __future__ import annotations

import gc
import sys

from airlane.top.pace import paced_for_keys


def test_the_process_is_as_it_was_afterwards() -> None:
    before = sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count()
    with paced_for_keys():
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold() > before[1]
        assert gc.get_freeze_count() > 0
    assert (sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count()) == before
