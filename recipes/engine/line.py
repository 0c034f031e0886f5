"""What the training and the process that started it say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Line(Protocol):
    """A line from rank 0 of the training to whoever shows and records it; neither end ever waits for the other."""

    def tell(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Pass on what has happened, as "step" or "evaluation"; the facts are numbers and texts."""

    def stopping(self) -> bool:
        """Whether the training was asked to save and end."""
