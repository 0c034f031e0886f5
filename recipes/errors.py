"""What can be wrong before training starts, or end it."""

from __future__ import annotations

from collections.abc import Sequence


class RecipeError(Exception):
    """Everything that is wrong, a line each, and what to type next."""

    def __init__(self, problems: Sequence[str], hint: str = "") -> None:
        self.problems = tuple(problems)
        self.hint = hint
        super().__init__(self.problems, hint)  # what another process makes the same error of

    def __str__(self) -> str:
        return "\n".join([*self.problems, *([self.hint] if self.hint else [])])
