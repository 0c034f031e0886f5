"""How long a node goes on without a word of its supervisor; the clock is the test's."""

from __future__ import annotations

from airlane.launch.lease import Lease


def passed(lease: Lease, start: float, seconds: float) -> float:
    """Let it pass as a watch that wakes up every second sees it."""
    for second in range(1, int(seconds) + 1):
        lease.look(start + second)
    return start + int(seconds)


def test_one_without_a_limit_never_ends() -> None:
    lease = Lease(None, 0.0)
    passed(lease, 0.0, 10_000)
    lease.look(1e9)
    assert not lease.over
    assert not lease.overslept


def test_silence_ends_it() -> None:
    lease = Lease(60.0, 0.0)
    now = passed(lease, 0.0, 60)
    assert not lease.over
    passed(lease, now, 1)
    assert lease.over


def test_a_word_renews_it() -> None:
    lease = Lease(60.0, 0.0)
    now = passed(lease, 0.0, 60)
    lease.heard()
    now = passed(lease, now, 60)
    assert not lease.over


def test_a_node_that_slept_has_not_listened() -> None:
    lease = Lease(60.0, 0.0)
    lease.look(3600.0)
    assert not lease.over, "what was said meanwhile is read first"
    assert lease.overslept
    lease.heard()
    assert not lease.overslept


def test_a_short_nap_is_none() -> None:
    lease = Lease(60.0, 0.0)
    lease.look(50.0)
    assert not lease.overslept
