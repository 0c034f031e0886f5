"""The question before a job is stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from airlane.top import words
from airlane.top.lines import Line, Tone, fitted
from airlane.top.widgets.pane import Drawn, Pane

if TYPE_CHECKING:
    from airlane.top.app import TopApp


class Question(Pane):
    """Some lines in the middle of the screen."""

    DEFAULT_CSS = """
    Question { width: 72; max-width: 96%; height: 7; background: $surface; padding: 1 2; }
    """

    def __init__(self, question: str, facts: str) -> None:
        super().__init__()
        self._question, self._facts = question, facts

    def look(self, drawn: Drawn) -> Callable[[Tone], Style]:
        del drawn
        return self.palette.boxed

    def drawn(self, cells: int, lines: int) -> list[Drawn]:
        marks = cast("TopApp", self.app).marks
        answers: Line = [
            ("y", Tone.ACCENT),
            ("  stop it      ", Tone.PLAIN),
            ("n", Tone.ACCENT),
            ("  let it run", Tone.PLAIN),
        ]
        asked: list[Line] = [
            [(words.clean(self._question, marks), Tone.STRONG)],
            [(words.clean(self._facts, marks), Tone.PLAIN)],
            [],
            answers,
        ]
        return [Drawn(fitted(line, cells, marks)) for line in asked[:lines]]


class ConfirmScreen(ModalScreen[bool]):
    """Yes or no; every other key waits."""

    CSS = "ConfirmScreen { align: center middle; background: $background 60%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
    ]

    def __init__(self, question: str, facts: str) -> None:
        super().__init__()
        self._question, self._facts = question, facts

    def compose(self) -> ComposeResult:
        yield Question(self._question, self._facts)

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)
