"""What a row asks, and the tokens that ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recipes.engine.data.chat import ChatTemplate, RefusedError
from recipes.engine.data.formats import (
    ASSISTANT,
    SYSTEM,
    USER,
    Turn,
    UnfitRowError,
    instructed,
    names,
    recognized_of,
    refuse_tools,
    speaker,
    text_of,
    turns_of,
)
from recipes.engine.data.rows import kind_of

CHATS = ("messages", "conversations", "prompt")  # columns that may hold a list of turns
QUESTIONS = ("prompt", "question", "instruction", "text")


def asked(columns: Mapping[str, Any], system: str | None) -> tuple[Turn, ...]:
    """The turns that an answer has to follow; what the row itself ends with as an answer is left out.

    Raises:
        UnfitRowError: it asks nothing.
    """
    chat = next((name for name in CHATS if isinstance(columns.get(name), list)), None)
    turns = turns_of(before_answer(columns[chat]), chat) if chat else [Turn(USER, question(columns))]
    if chat:
        refuse_tools(columns)
    if not turns or turns[-1].role == SYSTEM:
        raise UnfitRowError(f"{chat} asks nothing: it needs a turn that is not the assistant's or the system's")
    if system is not None and turns[0].role != SYSTEM:
        turns.insert(0, Turn(SYSTEM, system))
    return tuple(turns)


def before_answer(messages: Sequence[Any]) -> Sequence[Any]:
    """The messages but for the assistant's at their end, whatever is in those."""
    end = len(messages)
    while end and speaker(messages[end - 1]) == ASSISTANT:
        end -= 1
    return messages[:end]


def question(columns: Mapping[str, Any]) -> str:
    """What a row without turns asks; of one that could be learned from, what would be learned to be asked."""
    asking = next((name for name in QUESTIONS if columns.get(name) is not None), None)
    if asking is None and (chat := next((name for name in CHATS if columns.get(name) is not None), None)):
        raise UnfitRowError(f"{chat} has to be a list of turns; it is {kind_of(columns[chat])}")
    if asking is None:
        raise UnfitRowError(f"needs prompt, question, instruction, text or messages; it has {names(columns)}")
    if asking == "instruction" or recognized_of(columns) == "instruction":
        return instructed(columns)
    return text_of(columns, asking)


class Prompts:
    """The tokens that ask: in the chat template of the file or of the model; where there is neither, the text alone."""

    def __init__(self, tokenizer: Any, template: str | None, most_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._template = ChatTemplate(tokenizer, template) if template or tokenizer.chat_template else None
        self._most_tokens = most_tokens

    def ids(self, turns: Sequence[Turn]) -> list[int]:
        """The tokens of a prompt that ends with these turns.

        Raises:
            UnfitRowError: they are too many, or the template refuses the turns.
        """
        if self._template is not None:
            try:
                text = self._template.render(turns, prompt=True)
            except RefusedError as error:
                raise UnfitRowError(str(error)) from error
            ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        elif len(turns) == 1:
            ids = self._tokenizer(turns[0].content)["input_ids"]
        else:
            raise UnfitRowError(f"has {len(turns)} turns, and the model has no chat template to put them together")
        if not ids:
            raise UnfitRowError("has no tokens: the tokenizer makes nothing of it")
        if len(ids) > self._most_tokens:
            raise UnfitRowError(f"has {len(ids)} tokens, and generation.max_prompt_tokens={self._most_tokens}")
        return list(ids)
