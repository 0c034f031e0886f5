"""What ended a worker, and whether the training starts again from its last checkpoint."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from recipes.errors import RecipeError

# In the words of an error that another worker, the network or a device has caused. Gloo has no class of its own.
WORDS_OF_MACHINES = ("gloo/transport", "Connection closed by peer", "Connection reset by peer", "NCCL")
CLASSES_OF_MACHINES = ("DistError", "AcceleratorError")
# What Ray says of a dead worker, and what it means.
DEATHS = {
    "low on memory": "its node ran out of memory, and Ray ended it",
    "its node has died": "its node was lost",
    "node was terminated": "its node was lost",
    "is temporarily unavailable": "it cannot be reached any more; its node, or the network to it, may be gone",
    "connection error code 2": "its process was killed or crashed; often for want of memory",
}
MOST_CHARACTERS = 300


@dataclass(frozen=True)
class Failure:
    """What a worker said of its end: settings or data were refused, a machine failed it, or the program is wrong."""

    rank: int
    node: str
    kind: Literal["refused", "machine", "program"]
    text: str


@dataclass(frozen=True)
class Verdict:
    """Why the workers ended, in words, and whether the same may go well another time."""

    text: str
    again: bool
    exit_code: int


def failure_of(error: BaseException, rank: int, node: str) -> Failure:
    """What to say of an error that ended a worker."""
    if isinstance(error, RecipeError):
        return Failure(rank, node, "refused", str(error))
    if is_of_a_machine(error):
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return Failure(rank, node, "machine", first)
    lines = "".join(traceback.format_exception(error)).rstrip()
    return Failure(rank, node, "program", lines)


def is_of_a_machine(error: BaseException) -> bool:
    names = {one.__name__ for one in type(error).__mro__}
    if isinstance(error, OSError) or names & set(CLASSES_OF_MACHINES):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in WORDS_OF_MACHINES)


def judge(told: Sequence[Failure], dead: Mapping[int, str]) -> Verdict:
    """The cause among all that ended: the first that refused or was wrong; else who died; else the first to complain.

    When a worker dies the others lose their connections, and say so: that is no cause.
    """
    for failure in told:
        if failure.kind == "refused":
            return Verdict(failure.text, again=False, exit_code=2)
        if failure.kind == "program" and not dead:
            return Verdict(f"{place(failure)} failed\n{failure.text}", again=False, exit_code=1)
    if dead:
        text = "; ".join(f"worker {rank} {story}" for rank, story in sorted(dead.items()))
        return Verdict(text, again=True, exit_code=1)
    if told:
        return Verdict(f"{place(told[0])} failed: {told[0].text}", again=True, exit_code=1)
    return Verdict("the workers ended without a word", again=True, exit_code=1)


def story_of(problem: BaseException) -> str:
    """Where a worker was that ended without a word, and why, as far as Ray knows; the rest of a sentence."""
    text = str(problem)
    node, pid = re.search(r"\bnode_ip='([^']+)'", text), re.search(r"\bpid=(\d+)", text)
    where = f"on {node[1]} (pid {pid[1]}) " if node and pid else ""
    reason = next((words for mark, words in DEATHS.items() if mark in text), None)
    if reason is None:
        cause = getattr(problem, "health_check_failure", problem)  # in Ray's own words before it there is no cause
        detail = text.partition("Worker exit detail: ")[2] or str(cause).strip()
        reason = detail.partition("\n")[0][:MOST_CHARACTERS]
    return f"{where}died: {reason}"


def place(failure: Failure) -> str:
    return f"worker {failure.rank} on {failure.node}"


@dataclass(frozen=True)
class Patience:
    """How many failures in a row are put up with; one that comes after a newer checkpoint begins a new row."""

    most: int
    failures: int = 0
    saved_step: int = 0

    def after_failure(self, saved_step: int) -> Patience:
        """With one more failure, when the newest checkpoint is of `saved_step`."""
        failures = 1 if saved_step > self.saved_step else self.failures + 1
        return Patience(self.most, failures, saved_step)

    @property
    def exhausted(self) -> bool:
        return self.failures > self.most
