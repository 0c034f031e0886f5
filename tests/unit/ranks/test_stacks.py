"""Who is where when nobody goes on."""

from __future__ import annotations

from airlane.ranks.stacks import grouped, main_stack, state_in_words


def dump(*frames: str, thread: str = "0x00007f5a") -> list[str]:
    """As faulthandler writes it: another thread first, then the main one, which took the signal."""
    return [
        "Fatal Python error: Aborted",
        "",
        "Thread 0x00007f5b [loader] (most recent call first):",
        '  File "loader.py", line 9 in wait',
        "",
        f"Current thread {thread} (most recent call first):",
        *[f'  File "train.py", line {frame}' for frame in frames],
        '  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed',
        "",
        "Extension modules: torch._C (total: 1)",
    ]


def test_the_main_threads_frames_are_read_from_what_faulthandler_wrote() -> None:
    assert main_stack(["[rank 0] noise", *dump("3 in f", "1 in <module>")]) == (
        'File "train.py", line 3 in f',
        'File "train.py", line 1 in <module>',
    )
    assert main_stack(["nothing"]) == ()


def test_ranks_at_the_same_place_are_shown_once_and_who_is_elsewhere_comes_first() -> None:
    stacks = {rank: dump("8 in all_reduce", thread=f"0x{rank:x}a") for rank in (0, 1, 3)}
    assert grouped({**stacks, 2: dump("5 in save")}, {}) == [
        "rank 2 is at",
        '  File "train.py", line 5 in save',
        "ranks 0-1, 3 are at",
        '  File "train.py", line 8 in all_reduce',
    ]


def test_a_rank_without_a_python_stack_is_shown_with_what_the_kernel_knows() -> None:
    assert grouped({0: [], 1: []}, {1: state_in_words("D", "nfs_wait_bit_killable")}) == [
        "rank 0 is at",
        "  no Python stack: its process does not answer",
        "rank 1 is at",
        "  no Python stack: its process waits for a device or file system in nfs_wait_bit_killable",
    ]


def test_a_state_nobody_knows_is_told_by_its_letter() -> None:
    assert state_in_words("X", "") == "its process is in state X"
    assert state_in_words("", "") == ""
