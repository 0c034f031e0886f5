"""A device check for the training recipes: is what they compute right on this GPU, and how fast is it?

python bench/gpu.py                     every part, in less than ten minutes on an H200
python bench/gpu.py attention packed    some of them
python bench/gpu.py --small             what a CPU can check, in seconds

It runs in the environment of a workload (base AI5), without Ray. Each part runs in a process of its own, prints a line
of JSON, and has its time; a part that fails, hangs or kills its process leaves the others alone. A table follows, and
the exit code is 1 where a part has failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ALL_S = 570.0
FOUND_S = 60.0
FORK = multiprocessing.get_context("fork")  # what is imported here need not be imported by each


@dataclass(frozen=True)
class Part:
    """Something to check or to measure: a function of `module`, and the time that it has."""

    module: str
    name: str
    seconds: float
    needs_gpu: bool = False

    def run(self, scale: Any) -> dict[str, Any]:
        facts: dict[str, Any] = getattr(importlib.import_module(f"device.{self.module}"), self.name)(scale)
        return facts


PARTS = (
    Part("checks", "attention", 40, needs_gpu=True),
    Part("checks", "packed", 40),
    Part("checks", "cross_entropy_memory", 30, needs_gpu=True),
    Part("checks", "no_waiting", 40, needs_gpu=True),
    Part("checks", "not_a_number", 40),
    Part("checks", "no_memory", 20),
    Part("checks", "checkpoint", 90),
    Part("speed", "reference", 60),
    Part("speed", "plain", 75),
    Part("speed", "checkpointed", 75),
    Part("speed", "compiled", 180, needs_gpu=True),
)


@dataclass(frozen=True)
class Outcome:
    """What came of a part: "ok", "failed" or "skipped", and what there is to say."""

    part: str
    result: str
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return json.dumps({"part": self.part, "result": self.result, "seconds": round(self.seconds, 1), **self.facts})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(part.name for part in PARTS)}")
    parser.add_argument("--small", action="store_true", help="on a CPU, with a tiny model")
    values = parser.parse_args()
    if unknown := set(values.parts) - {part.name for part in PARTS}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}: {', '.join(part.name for part in PARTS)}")
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]
    given = importlib.import_module("device.given")
    for module in ("checks", "speed"):
        importlib.import_module(f"device.{module}")
    deadline_s = time.monotonic() + ALL_S
    found = of_child("device", lambda: machine(small=values.small), FOUND_S)
    print(found, flush=True)
    if found.result != "ok":
        return 2
    scale = given.small() if values.small else given.full()
    wanted = [part for part in PARTS if not values.parts or part.name in values.parts]
    outcomes = [outcome_of(part, scale, deadline_s) for part in wanted]
    print(table(outcomes))
    return 1 if any(outcome.result == "failed" for outcome in outcomes) else 0


class NoGpuError(Exception):
    """There is nothing to check."""


def machine(*, small: bool) -> dict[str, Any]:
    """What is checked. Asked in a child, since a process that has looked for GPUs cannot be forked."""
    import torch

    if small:
        return {"device": "CPU", "torch": torch.__version__}
    if not torch.cuda.is_available():
        raise NoGpuError(f"torch {torch.__version__} finds no GPU here; --small checks what a CPU can")
    return {
        "device": torch.cuda.get_device_name(0),
        "memory_bytes": torch.cuda.get_device_properties(0).total_memory,
        "capability": ".".join(map(str, torch.cuda.get_device_capability(0))),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }


def outcome_of(part: Part, scale: Any, deadline_s: float) -> Outcome:
    left_s = deadline_s - time.monotonic()
    if part.needs_gpu and not scale.cuda:
        outcome = Outcome(part.name, "skipped", 0.0, {"reason": "skipped: needs a GPU"})
    elif left_s < 1:
        outcome = Outcome(part.name, "failed", 0.0, {"error": f"the {ALL_S:.0f} s for all parts are over"})
    else:
        outcome = of_child(part.name, lambda: part.run(scale), min(part.seconds, left_s))
    print(outcome, flush=True)
    return outcome


def of_child(name: str, call: Callable[[], dict[str, Any]], limit_s: float) -> Outcome:
    """What a call returns, made in a process that may fail in any way."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=report, args=(theirs, call), name=name)
    began_s = time.monotonic()
    child.start()
    theirs.close()
    try:
        result, facts = (
            ours.recv() if ours.poll(limit_s) else ("failed", {"error": f"no result within {limit_s:.0f} s"})
        )
    except EOFError:
        child.join()
        result, facts = "failed", {"error": f"its process ended with {ending(child.exitcode)}"}
    child.kill()
    child.join()
    return Outcome(name, result, time.monotonic() - began_s, facts)


def report(connection: Connection, call: Callable[[], dict[str, Any]]) -> None:
    """Runs in the child."""
    try:
        connection.send(("ok", call()))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        if not isinstance(error, NoGpuError):
            traceback.print_exc()
        first = next(iter(str(error).strip().splitlines()), "")
        connection.send(("failed", {"error": f"{type(error).__name__}: {first}"}))


def ending(exit_code: int | None) -> str:
    return signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"


def table(outcomes: Sequence[Outcome]) -> str:
    """Checks first, then what was measured, with how many times the reference's useful tokens it is."""
    measured = [outcome for outcome in outcomes if "tokens_per_s" in outcome.facts]
    reference = next((one.facts["tokens_per_s"] for one in measured if one.part == "reference"), None)
    lines = ["", f"{'part':22}{'result':10}{'seconds':>8}"]
    lines += [f"{one.part:22}{one.result:10}{one.seconds:8.1f}  {one.facts.get('error', '')}" for one in outcomes]
    if measured:
        heads = ("tokens/s", "with padding", "MFU", "memory GiB", "s/step", "× reference")
        lines += ["", f"{'':22}" + "".join(f"{head:>14}" for head in heads)]
        lines += [f"{one.part:22}" + "".join(f"{cell:>14}" for cell in cells(one.facts, reference)) for one in measured]
    return "\n".join(lines)


def cells(facts: Mapping[str, Any], reference: float | None) -> list[str]:
    return [
        f"{facts['tokens_per_s']:,.0f}",
        f"{facts['padded_tokens_per_s']:,.0f}",
        f"{facts['mfu']:.1%}" if facts["mfu"] is not None else "-",
        f"{facts['peak_memory_bytes'] / (1 << 30):.1f}",
        f"{facts['seconds_per_step']:.3f}",
        f"{facts['tokens_per_s'] / reference:.1f}" if reference else "-",
    ]


if __name__ == "__main__":
    sys.exit(main())
