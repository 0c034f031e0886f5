from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airlane.launch.ending import SETTLE_S, Ending


def ending() -> Ending:
    return Ending(stop_grace_s=30.0, orphan_grace_s=3.0)


def test_a_stop_sends_sigterm_once_and_sigkill_after_the_grace() -> None:
    rule = ending()
    assert rule.ask("stop", 100.0) is True
    assert rule.ask("stop", 110.0) is False
    assert (rule.reason, rule.kill_at) == ("stop", 130.0)


def test_a_kill_is_due_at_once() -> None:
    rule = ending()
    assert rule.ask("kill", 100.0) is False
    assert (rule.reason, rule.kill_at) == ("kill", 100.0)


def test_a_kill_overrides_a_stop_and_a_lost_supervisor_shortens_it() -> None:
    rule = ending()
    rule.ask("stop", 100.0)
    assert rule.ask("orphaned", 101.0) is False
    assert (rule.reason, rule.kill_at) == ("stop", 104.0)
    rule.ask("kill", 102.0)
    assert (rule.reason, rule.kill_at) == ("kill", 102.0)


def test_what_the_command_leaves_may_settle_shortly() -> None:
    rule = ending()
    rule.command_over(100.0)
    assert (rule.reason, rule.kill_at) == (None, 100.0 + SETTLE_S)


def test_what_a_stopped_command_leaves_keeps_its_grace() -> None:
    rule = ending()
    rule.ask("stop", 100.0)
    rule.command_over(101.0)
    assert (rule.reason, rule.kill_at) == ("stop", 130.0)


def test_a_request_after_the_commands_own_end_changes_nothing() -> None:
    rule = ending()
    rule.command_over(100.0)
    assert rule.ask("stop", 100.1) is False
    assert (rule.reason, rule.kill_at) == (None, 100.0 + SETTLE_S)


@given(st.lists(st.tuples(st.sampled_from(["stop", "orphaned", "kill", "over"]), st.floats(0, 50)), min_size=1))
def test_a_deadline_never_moves_later(events: list[tuple[str, float]]) -> None:
    rule = ending()
    now = 0.0
    terms = 0
    for event, after in events:
        now += after
        before = rule.kill_at
        if event == "over":
            rule.command_over(now)
        else:
            terms += rule.ask(event, now)
        assert rule.kill_at is not None
        assert before is None or rule.kill_at <= before
    assert terms <= 1
