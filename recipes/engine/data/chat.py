"""Conversations as the text that a model sees, and which characters of it the assistant said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recipes.engine.data.formats import ASSISTANT, Turn
from recipes.engine.data.rows import Corrupt, Place
from recipes.errors import RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# For tokenizers without one of their own: each turn has its role above it, the assistant's the end token behind it.
PLAIN_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\\n' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
    "{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)
GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
MARK_IT = "Mark what the assistant says with {% generation %} in a template: data.chat_template=FILE; or data.learn=all"
# What Python code in a template raises, such as messages[0]['content'].index('x'), beside the errors of templates.
REFUSALS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError)


class RefusedError(Exception):
    """Why the template does not take a conversation, and what can be done about it."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.hint = problem, hint
        super().__init__(problem)

    def at(self, place: Place) -> Corrupt:
        """The row at this place, as corrupt."""
        return Corrupt(place, self.problem, self.hint) if self.hint else Corrupt(place, self.problem)


class ChatTemplate:
    """The template that `file` holds, or the tokenizer's own, or a plain one."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, file: str | None) -> None:
        self.tokenizer = tokenizer
        if file:
            self.name, self.text = file, read_template(file)
        elif tokenizer.chat_template:
            self.name, self.text = "the tokenizer's chat template", tokenizer.get_chat_template()
        elif tokenizer.eos_token is not None:
            self.name, self.text = "the plain chat template", plain_template(tokenizer)
        else:
            raise RecipeError(
                ["The tokenizer has no chat template, and no end token (eos_token) for a plain one"],
                "Give a template: data.chat_template=FILE",
            )

    @property
    def marks_generation(self) -> bool:
        """Whether the template says itself what the assistant has said, by {% generation %}."""
        return bool(GENERATION.search(self.text))

    def render(self, turns: Sequence[Turn], *, prompt: bool = False) -> str:
        """The text of the turns; with `prompt`, as far as the assistant's next turn.

        Raises:
            RefusedError: the template does not take these turns.
        """
        return str(self.apply(turns, tokenize=False, add_generation_prompt=prompt))

    def apply(self, turns: Sequence[Turn], **options: Any) -> Any:
        """What the tokenizer makes of the turns.

        Raises:
            RefusedError: the template does not take these turns.
            RecipeError: it is no template.
        """
        from jinja2 import TemplateError, TemplateSyntaxError

        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        try:
            return self.tokenizer.apply_chat_template(messages, chat_template=self.text, **options)
        except TemplateSyntaxError as error:
            raise RecipeError([f"{self.name}:{error.lineno}: is no template: {error.message}"]) from error
        except (*REFUSALS, TemplateError) as error:
            raise RefusedError(f"{self.name} refuses it: {error}") from error

    def said(self, turns: Sequence[Turn], whole: str) -> list[tuple[int, int]]:
        """Where in the text of all turns the assistant's are: from the prompt that asks for one to its end.

        Raises:
            RefusedError: a turn is written in another way when it is the last, and its end is not plain to see.
        """
        spans = []
        for number, turn in enumerate(turns, start=1):
            if turn.role != ASSISTANT:
                continue
            prompt = self.render(turns[: number - 1], prompt=True)
            answered = whole if number == len(turns) else self.render(turns[:number])
            end = len(answered) if whole.startswith(answered) and answered.startswith(prompt) else None
            if end is None and whole.startswith(prompt):  # models that think are not shown what they thought earlier
                end = self._end(turn, whole, len(prompt))
            if end is None:
                problem = f"{self.name} writes turn {number} in another way once others follow it"
                raise RefusedError(problem, MARK_IT)
            spans.append((len(prompt), end))
        return spans

    def _end(self, turn: Turn, whole: str, start: int) -> int | None:
        """Where a turn ends that has its words just after `start`, and a special token just after them."""
        words = re.compile(rf"\s*{re.escape(turn.content.strip())}\s*(?:{self._special})")
        found = words.match(whole, start)
        return found.end() if found else None

    @cached_property
    def _special(self) -> str:
        """A pattern of the special tokens."""
        tokens = [token.content for token in self.tokenizer.added_tokens_decoder.values() if token.special]
        return "|".join(map(re.escape, tokens)) or r"(?!)"


def plain_template(tokenizer: PreTrainedTokenizerBase) -> str:
    """A template that begins as the tokenizer begins texts."""
    begins = tokenizer.bos_token is not None and tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    return ("{{ bos_token }}" if begins else "") + PLAIN_TEMPLATE


def read_template(file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError([f"data.chat_template={file}: cannot be read: {error}"]) from error
