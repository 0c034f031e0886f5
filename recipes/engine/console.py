"""What people see of a training while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TextIO

from recipes.engine.quantities import amount, duration, size

Facts = Mapping[str, Any]


class Console:
    """Prints what rank 0 tells, a line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._steps = 0
        self._shown: dict[str, Callable[[Facts], str]] = {
            "start": self.start,
            "step": self.step,
            "evaluation": self.evaluation,
            "saved": self.saved,
            "not_saved": self.not_saved,
            "resumed": lambda facts: f"continuing after step {facts['step']}",
            "notice": lambda facts: str(facts["text"]),
            "sample": lambda facts: f"\n{facts['prompt']}\n{facts['text']}\n",
            "end": self.end,
        }

    def hear(self, kind: str, facts: Facts) -> None:
        if show := self._shown.get(kind):
            self.say(show(facts))

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def start(self, facts: Facts) -> str:
        self._steps = facts["steps"]
        trained, parameters = facts["trained_parameters"], facts["parameters"]
        of_them = "" if trained == parameters else f", {amount(trained)} of them trained"
        workers = "1 worker" if facts["workers"] == 1 else f"{facts['workers']} workers"
        steps = "1 step" if self._steps == 1 else f"{self._steps:,} steps"
        return f"{amount(parameters)} parameters{of_them}, {steps}, {workers} ({facts['device']})"

    def numbered(self, step: int) -> str:
        width = len(str(self._steps))
        return f"step {step:>{width}}/{self._steps}"

    def step(self, facts: Facts) -> str:
        left_s = (self._steps - facts["step"]) * facts["seconds_per_step"]
        columns = [
            self.numbered(facts["step"]),
            f"loss {facts['loss']:.3f}",
            f"lr {facts['learning_rate']:.1e}",
            f"grad {facts['grad_norm']:.2f}",
            f"{facts['tokens_per_s']:,.0f} tokens/s",
            *([f"mfu {facts['mfu']:.0%}"] if facts["mfu"] is not None else []),
            *([f"eta {duration(left_s)}"] if left_s > 0 else []),
        ]
        return "  ".join(columns)

    def evaluation(self, facts: Facts) -> str:
        best = "  best so far" if facts["best"] else ""
        numbers = f"evaluation loss {facts['loss']:.3f}  perplexity {facts['perplexity']:,.1f}"
        return f"{self.numbered(facts['step'])}  {numbers}{best}"

    def saved(self, facts: Facts) -> str:
        return f"{self.numbered(facts['step'])}  saved {size(facts['bytes'])} in {duration(facts['seconds'])}"

    def not_saved(self, facts: Facts) -> str:
        return (
            f"{self.numbered(facts['step'])}  NOT saved: {facts['reason']}; "
            "training goes on, the checkpoint before is kept"
        )

    def end(self, facts: Facts) -> str:
        ends = {
            "completed": "completed",
            "early_stop": "stopped early, for evaluation no longer gains,",
            "stopped": "stopped as asked",
        }
        model = f"; the model is in {facts['model_path']}" if facts["model_path"] else ""
        return f"{ends[facts['reason']]} after step {facts['step']}{model}"
