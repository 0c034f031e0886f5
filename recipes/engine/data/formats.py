"""What the columns of a row mean: a conversation, or a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recipes.engine.data.rows import Corrupt, Row, kind_of

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"
ROLES = {role: role for role in (SYSTEM, "developer", USER, ASSISTANT, TOOL)}
SHAREGPT_ROLES = ROLES | {"human": USER, "gpt": ASSISTANT, "chatgpt": ASSISTANT, "model": ASSISTANT, "function": TOOL}

THOUGHTS = ("reasoning_content", "reasoning", "thinking")  # beside what is said
WEIGHTS = ("weight", "train", "loss")  # whether a turn is learned, in other formats


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side says."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns of which the last is the assistant's, and the first is not."""

    turns: tuple[Turn, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(turn.content for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Text:
    """A text, or a part of one: only where it is complete is its end learned."""

    text: str
    complete: bool = True

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)


Document = Conversation | Text


class UnfitRowError(Exception):
    """What a row lacks."""


@dataclass(frozen=True)
class Format:
    """How rows of one kind are recognized and read."""

    columns: str  # for people
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any]], Document]


def document_of(row: Row, form: Format) -> Document | Corrupt:
    """What the row says."""
    try:
        document = form.read(row.columns)
    except UnfitRowError as error:
        return Corrupt(row.place, str(error))
    return replace(document, complete=row.complete) if isinstance(document, Text) else document


def recognized(row: Row) -> str | None:
    """The first format whose columns the row has."""
    return recognized_of(row.columns)


def recognized_of(columns: Mapping[str, Any]) -> str | None:
    """The first format that these columns fit, those with nothing in them left out."""
    present = {name: value for name, value in columns.items() if value is not None}
    return next((name for name, form in FORMATS.items() if form.fits(present)), None)


def read_chat(columns: Mapping[str, Any]) -> Conversation:
    """`messages` with role and content, or ShareGPT's `conversations` with from and value."""
    name = "messages" if columns.get("messages") is not None else "conversations"
    messages = columns.get(name)
    if messages is None:
        raise UnfitRowError(f"needs messages or conversations; it has {names(columns)}")
    if not isinstance(messages, list) or not messages:
        raise UnfitRowError(
            f"{name} has to be a list of turns; it is {'empty' if messages == [] else kind_of(messages)}"
        )
    refuse_tools(columns)
    turns = turns_of(messages, name)
    refuse_what_is_not_learned(messages, name)
    return conversation(turns)


def refuse_tools(columns: Mapping[str, Any]) -> None:
    """Refuse a chat with definitions of tools, which the model would not be shown."""
    if columns.get("tools") not in (None, "", "[]", []):
        raise UnfitRowError("tools: what tools there are has to be written out in a turn of the system")


def refuse_what_is_not_learned(messages: Sequence[Mapping[str, Any]], name: str) -> None:
    """Refuse a chat of which something would be left out, or learned though it says that it should not be."""
    for number, message in enumerate(messages):
        for key in THOUGHTS:
            if isinstance(message.get(key), str) and message[key].strip():
                raise UnfitRowError(f"{name}[{number}].{key}: thoughts have to be written out with what is said")
        for key in WEIGHTS if speaker(message) == ASSISTANT else ():
            if isinstance(message.get(key), int | float) and message[key] != 1:
                told = f"{name}[{number}].{key} is {str(message[key]).lower()}"
                raise UnfitRowError(f"{told}: all turns of the assistant are learned, and alike")


def speaker(message: object) -> str | None:
    """Whose turn a message is, if it says so."""
    if not isinstance(message, Mapping):
        return None
    role = message.get("from", message.get("role"))
    return SHAREGPT_ROLES.get(role) if isinstance(role, str) else None


def turns_of(messages: Sequence[Any], name: str) -> list[Turn]:
    """The turns of a column; those of a system that says nothing are left out."""
    turns = []
    for number, message in enumerate(messages):
        where = f"{name}[{number}]"
        if not isinstance(message, Mapping):
            raise UnfitRowError(f"{where} has to be an object; it is {kind_of(message)}")
        sharegpt = "from" in message
        role_key, content_key, roles = ("from", "value", SHAREGPT_ROLES) if sharegpt else ("role", "content", ROLES)
        role = message.get(role_key)
        if not isinstance(role, str) or role not in roles:
            raise UnfitRowError(f"{where}.{role_key} has to be one of {', '.join(roles)}; it is {shown(role)}")
        content = content_of(message, content_key, where)
        if content.strip() or roles[role] != SYSTEM:
            turns.append(Turn(roles[role], said(content, f"{where}.{content_key}")))
    return turns


def content_of(message: Mapping[str, Any], key: str, where: str) -> str:
    """The text of a message, which may come in parts."""
    called = next((name for name in ("tool_calls", "function_call") if message.get(name)), None)
    if called:
        raise UnfitRowError(f"{where}.{called}: calls of tools have to be written out in {key}")
    content = message.get(key)
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
        if not all(isinstance(part, str) for part in parts):
            raise UnfitRowError(
                f'{where}.{key} has a part that is no text: each has to be {{"type": "text", "text": ...}}'
            )
        return "".join(str(part) for part in parts)
    if not isinstance(content, str):
        raise UnfitRowError(f"{where}.{key} has to be text; it is {kind_of(content)}")
    return content


def conversation(turns: list[Turn]) -> Conversation:
    """Up to the assistant's last turn: nothing is learned of what follows."""
    last = max((place for place, turn in enumerate(turns) if turn.role == ASSISTANT), default=None)
    if last is None:
        raise UnfitRowError("has no assistant's turn to learn")
    if turns[0].role == ASSISTANT:
        raise UnfitRowError("begins with the assistant; it needs a turn before, to answer to")
    return Conversation(tuple(turns[: last + 1]))


def read_instruction(columns: Mapping[str, Any]) -> Conversation:
    """`instruction` and `output`; `input` is what the instruction is about, where there is something."""
    return conversation([Turn(USER, instructed(columns)), Turn(ASSISTANT, text_of(columns, "output", "response"))])


def instructed(columns: Mapping[str, Any]) -> str:
    """The instruction, and what it is about."""
    instruction = text_of(columns, "instruction")
    about = columns.get("input")
    if about is not None and not isinstance(about, str):
        raise UnfitRowError(f"input has to be text; it is {kind_of(about)}")
    return f"{instruction}\n\n{about}" if about and about.strip() else instruction


def read_prompt(columns: Mapping[str, Any]) -> Conversation:
    question = text_of(columns, "prompt", "question")
    answer = text_of(columns, "completion", "response", "answer")
    return conversation([Turn(USER, question), Turn(ASSISTANT, answer)])


def read_text(columns: Mapping[str, Any]) -> Text:
    return Text(text_of(columns, "text"))


def text_of(columns: Mapping[str, Any], *choices: str) -> str:
    """The first of these columns that is there, which has to be text with something in it."""
    name = next((choice for choice in choices if columns.get(choice) is not None), None)
    if name is None:
        raise UnfitRowError(f"needs {' or '.join(choices)}; it has {names(columns)}")
    if not isinstance(columns[name], str):
        raise UnfitRowError(f"{name} has to be text; it is {kind_of(columns[name])}")
    return said(columns[name], name)


def said(text: str, name: str) -> str:
    if not text.strip():
        raise UnfitRowError(f"{name} is empty")
    return text


def names(columns: Mapping[str, Any]) -> str:
    """The columns that hold something."""
    present = [name for name, value in columns.items() if value is not None]
    return ", ".join(present[:10]) + (", ..." if len(present) > 10 else "") if present else "nothing"  # noqa: PLR2004


def shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else kind_of(value)


def has(*columns: tuple[str, ...]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a row has one of each of these."""
    return lambda row: all(any(name in row for name in choices) for choices in columns)


FORMATS = {
    "chat": Format(
        columns="messages (role, content) or conversations (from, value)",
        fits=has(("messages", "conversations")),
        read=read_chat,
    ),
    "instruction": Format(
        columns="instruction, output or response, and perhaps input",
        fits=has(("instruction",), ("output", "response")),
        read=read_instruction,
    ),
    "prompt": Format(
        columns="prompt or question, and completion, response or answer",
        fits=has(("prompt", "question"), ("completion", "response", "answer")),
        read=read_prompt,
    ),
    "text": Format(columns="text", fits=has(("text",)), read=read_text),
}
