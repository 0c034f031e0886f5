"""What rows say, and what is wrong with those that say nothing."""

from __future__ import annotations

from typing import Any

import pytest
from recipes.engine.data.formats import FORMATS, Conversation, Text, document_of, recognized
from recipes.engine.data.rows import Corrupt, Place, Row

PLACE = Place("rows.jsonl:", 7)


def turn(role: object, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


ANSWER = turn("assistant", "4")


def read(**columns: Any) -> Conversation | Text | Corrupt:
    row = Row(PLACE, columns)
    kind = recognized(row)
    assert kind is not None
    return document_of(row, FORMATS[kind])


def said(**columns: Any) -> list[tuple[str, str]]:
    document = read(**columns)
    assert isinstance(document, Conversation), document
    return [(turn.role, turn.content) for turn in document.turns]


def problem(kind: str, **columns: Any) -> str:
    document = document_of(Row(PLACE, columns), FORMATS[kind])
    assert isinstance(document, Corrupt), document
    assert str(document).startswith("rows.jsonl:7: ")
    return document.problem


@pytest.mark.parametrize(
    "columns",
    [
        {"messages": [turn("user", "2 + 2?"), turn("assistant", "4")]},
        {"messages": [turn("user", [{"type": "text", "text": part} for part in ("2 + ", "2?")]), ANSWER]},
        {"messages": [turn("system", " "), turn("user", "2 + 2?"), turn("assistant", "4"), turn("user", "Thanks")]},
        {"conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]},
        {"messages": None, "conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]},
        {"instruction": "2 + 2?", "output": "4"},
        {"instruction": "2 + 2?", "input": "", "response": "4"},
        {"prompt": "2 + 2?", "completion": "4", "text": "2 + 2? 4"},
        {"question": "2 + 2?", "answer": "4"},
        {"prompt": "2 + 2?", "response": "4", "id": 3},
    ],
)  # fmt: skip
def test_a_question_and_its_answer_come_in_many_columns(columns: dict[str, Any]) -> None:
    assert said(**columns) == [("user", "2 + 2?"), ("assistant", "4")]


def test_an_instruction_may_have_something_that_it_is_about() -> None:
    assert said(instruction="Translate", input="Haus", output="house")[0] == ("user", "Translate\n\nHaus")


def test_a_conversation_has_all_turns_up_to_the_last_of_the_assistant() -> None:
    roles = ["system", "user", "assistant", "tool", "assistant", "user"]
    assert [role for role, _ in said(messages=[turn(role, "x") for role in roles])] == roles[:-1]


def test_what_messages_say_beside_their_words_may_be_empty_or_change_nothing() -> None:
    beside = {"tool_calls": None, "reasoning_content": "", "thinking": True, "weight": 1, "name": "Ada", "id": 7}
    learned = turn("assistant", "y") | beside
    assert said(messages=[turn("user", "x") | {"weight": 0}, learned], tools=[])[-1] == ("assistant", "y")


def test_a_text_is_a_text() -> None:
    assert read(text="once\n") == Text("once\n")
    part = document_of(Row(PLACE, {"text": "once"}, complete=False), FORMATS["text"])
    assert part == Text("once", complete=False)


def test_columns_that_fit_nothing_are_not_recognized() -> None:
    assert recognized(Row(PLACE, {"title": "x", "prompt": "y", "text": None})) is None


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"text": "x"}, "needs messages or conversations; it has text"),
        ({}, "needs messages or conversations; it has nothing"),
        ({"messages": "hi"}, "messages has to be a list of turns; it is text"),
        ({"messages": []}, "messages has to be a list of turns; it is empty"),
        ({"messages": ["hi"]}, "messages[0] has to be an object; it is text"),
        (
            {"messages": [turn("bot", "x")]},
            "messages[0].role has to be one of system, developer, user, assistant, tool; it is 'bot'",
        ),
        (
            {"messages": [{"content": "x"}]},
            "messages[0].role has to be one of system, developer, user, assistant, tool; it is null",
        ),
        ({"messages": [turn("user", None)]}, "messages[0].content has to be text; it is null"),
        ({"messages": [turn("user", " \n")]}, "messages[0].content is empty"),
        (
            {"messages": [turn("user", [{"type": "image"}])]},
            'messages[0].content has a part that is no text: each has to be {"type": "text", "text": ...}',
        ),
        (
            {"messages": [turn("user", "x"), turn("assistant", "") | {"tool_calls": [{"name": "f"}]}]},
            "messages[1].tool_calls: calls of tools have to be written out in content",
        ),
        (
            {"messages": [turn("user", "x"), turn("assistant", "") | {"function_call": {"name": "f"}}]},
            "messages[1].function_call: calls of tools have to be written out in content",
        ),
        (
            {"messages": [turn("user", "x"), turn("assistant", "y") | {"reasoning_content": "So"}]},
            "messages[1].reasoning_content: thoughts have to be written out with what is said",
        ),
        (
            {"messages": [turn("user", "x"), turn("assistant", "y") | {"weight": 0}, turn("assistant", "z")]},
            "messages[1].weight is 0: all turns of the assistant are learned, and alike",
        ),
        (
            {"messages": [turn("user", "x"), turn("assistant", "y") | {"train": False}]},
            "messages[1].train is false: all turns of the assistant are learned, and alike",
        ),
        (
            {"messages": [turn("user", "x"), turn("assistant", "y")], "tools": [{"name": "f"}]},
            "tools: what tools there are has to be written out in a turn of the system",
        ),
        ({"messages": [turn("user", "x")]}, "has no assistant's turn to learn"),
        (
            {"conversations": [{"from": "gpt", "value": "x"}]},
            "begins with the assistant; it needs a turn before, to answer to",
        ),
    ],
)
def test_what_is_wrong_with_a_chat_is_told(columns: dict[str, Any], told: str) -> None:
    assert problem("chat", **columns) == told


@pytest.mark.parametrize(
    ("kind", "columns", "told"),
    [
        ("instruction", {"output": "x"}, "needs instruction; it has output"),
        ("instruction", {"instruction": "x", "input": None}, "needs output or response; it has instruction"),
        ("instruction", {"instruction": "x", "input": 3, "output": "y"}, "input has to be text; it is a number"),
        ("prompt", {"prompt": "x", "completion": ""}, "completion is empty"),
        ("prompt", {"prompt": ["x"], "completion": "y"}, "prompt has to be text; it is a list"),
        ("text", {"text": b"x"}, "text has to be text; it is bytes"),
        ("text", {"text": True}, "text has to be text; it is true or false"),
        ("text", {str(n): 0 for n in range(12)}, "needs text; it has 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."),
    ],
)
def test_what_is_wrong_with_a_row_is_told(kind: str, columns: dict[str, Any], told: str) -> None:
    assert problem(kind, **columns) == told
