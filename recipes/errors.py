"""What can be wrong before training starts."""

from __future__ import annotations

from collections.abc import Sequence


class RecipeError(Exception):
    """Everything that is wrong, a line each, and what to type next."""

    def __init__(self, problems: Sequence[str], hint: str = "") -> None:
        self.problems = tuple(problems)
        self.hint = hint
        super().__init__("\n".join([*self.problems, *([hint] if hint else [])]))
