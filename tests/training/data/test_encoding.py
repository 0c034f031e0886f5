"""Which tokens a document has, and which of them are learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from recipes.engine.data.chat import ChatTemplate
from recipes.engine.data.encoding import Encoded, Encoder, Sample
from recipes.engine.data.formats import Conversation, Text, Turn
from recipes.engine.data.rows import Corrupt, Place
from recipes.engine.data.vocabulary import train_vocabulary
from recipes.errors import RecipeError

from .tokenizers_made import BRACKETS, CHATML, HEADERS, MARKED, THINKING, byte_level, metaspace

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLACE = Place("rows.jsonl:", 3)
ONE = Conversation((Turn("user", "What does json.loads do?"), Turn("assistant", "It reads JSON.")))
MORE = Conversation(
    (
        Turn("user", "Hello"),
        Turn("assistant", "Hello, you 東京!"),
        Turn("user", "Good morning"),
        Turn("assistant", "Größe  "),
    )
)
WITH_SYSTEM = Conversation((Turn("system", "system"), *MORE.turns))


def encode(
    tokenizer: PreTrainedTokenizerBase,
    *documents: Conversation | Text,
    learn_all: bool = False,
    file: str | None = None,
) -> list[Encoded | Corrupt]:
    encoder = Encoder(tokenizer, ChatTemplate(tokenizer, file), learn_all=learn_all)
    return list(encoder.encode([Sample(PLACE, document) for document in documents]))


def encoded(tokenizer: PreTrainedTokenizerBase, document: Conversation | Text, *, learn_all: bool = False) -> Encoded:
    [one] = encode(tokenizer, document, learn_all=learn_all)
    assert isinstance(one, Encoded), one
    return one


def learned(tokenizer: PreTrainedTokenizerBase, document: Conversation | Text) -> list[str]:
    """The text of each stretch of learned tokens."""
    one = encoded(tokenizer, document)
    stretches: list[list[int]] = [[]]
    for token, learn in zip(one.ids, one.learn_T.tolist(), strict=True):
        if learn:
            stretches[-1].append(token)
        elif stretches[-1]:
            stretches.append([])
    return [tokenizer.decode(stretch) for stretch in stretches if stretch]


def messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


KINDS = {
    "plain": byte_level(None),
    "chatml": byte_level(CHATML),
    "chatml, offsets not trimmed": byte_level(CHATML, trimmed=False),
    "marked": byte_level(MARKED),
    "headers": byte_level(HEADERS),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("document", [ONE, MORE, WITH_SYSTEM])
def test_the_assistants_words_and_their_end_are_learned_in_every_turn(kind: str, document: Conversation) -> None:
    end = "<|eos|>" if kind == "plain" else "<|im_end|>"
    answers = [turn.content for turn in document.turns if turn.role == "assistant"]
    if kind == "headers":
        answers = [answer.strip() for answer in answers]
    assert learned(KINDS[kind], document) == [answer + end for answer in answers]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("document", [ONE, MORE, WITH_SYSTEM])
def test_tokens_are_those_that_the_model_gets_when_it_is_asked(kind: str, document: Conversation) -> None:
    tokenizer = KINDS[kind]
    template = ChatTemplate(tokenizer, None).text
    one = encoded(tokenizer, document)
    whole = tokenizer.apply_chat_template(messages(document.turns), chat_template=template, return_dict=False)
    assert list(one.ids) == whole
    prompt = tokenizer.apply_chat_template(
        messages(document.turns[:-1]), chat_template=template, add_generation_prompt=True, return_dict=False
    )
    assert list(one.ids[: len(prompt)]) == prompt
    assert one.learn_T[len(prompt)]
    assert not one.learn_T[len(prompt) - 1]


def test_a_template_without_special_tokens_is_learned_to_its_end_token() -> None:
    tokenizer = metaspace(BRACKETS)
    assert [text.strip() for text in learned(tokenizer, ONE)] == ["It reads JSON. <|eos|>"]
    assert len(learned(tokenizer, MORE)) == 2


def test_a_text_begins_and_ends_once_and_all_of_it_is_learned_but_the_first_token() -> None:
    tokenizer = byte_level(None)
    for text in ("Hello", "<|bos|>Hello"):
        one = encoded(tokenizer, Text(text))
        assert one.ids[0] == tokenizer.bos_token_id
        assert one.ids[-1] == tokenizer.eos_token_id
        assert list(one.ids).count(tokenizer.eos_token_id) == 1
        assert one.learn_T.tolist() == [False] + [True] * (len(one.ids) - 1)
    assert list(encoded(tokenizer, Text("Hello")).ids).count(tokenizer.bos_token_id) == 1
    assert list(encoded(tokenizer, Text("Hello<|eos|>")).ids).count(tokenizer.eos_token_id) == 1


def test_a_part_of_a_text_has_no_end() -> None:
    tokenizer = byte_level(None)
    assert tokenizer.eos_token_id not in encoded(tokenizer, Text("Hello", complete=False)).ids


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_a_conversation_can_be_learned(kind: str) -> None:
    one = encoded(KINDS[kind], MORE, learn_all=True)
    assert one.learn_T.tolist() == [False] + [True] * (len(one.ids) - 1)
    assert list(one.ids) == list(encoded(KINDS[kind], MORE).ids)


def test_the_plain_template_begins_as_the_tokenizer_begins_texts() -> None:
    begins, does_not = byte_level(None), train_vocabulary(["Hello"], 300)
    assert list(encoded(begins, ONE).ids[:1]) == [begins.bos_token_id]
    assert does_not.decode(encoded(does_not, ONE).ids).startswith("<|user|>\n")


def test_a_conversation_begins_once_where_template_and_tokenizer_both_begin_it() -> None:
    tokenizer = byte_level(HEADERS)
    assert list(encoded(tokenizer, ONE).ids).count(tokenizer.bos_token_id) == 1


def test_earlier_turns_are_learned_as_a_template_for_thinking_writes_them() -> None:
    tokenizer = byte_level(THINKING)
    assert learned(tokenizer, ONE) == ["<think>\n\n</think>\n\nIt reads JSON.<|im_end|>"]
    assert learned(tokenizer, MORE) == ["Hello, you 東京!<|im_end|>", "<think>\n\n</think>\n\nGröße  <|im_end|>"]


def test_a_template_that_rewrites_what_was_said_is_refused() -> None:
    tokenizer = byte_level(THINKING)
    thought = Turn("assistant", "<think>\nSo\n</think>\n\nHello")
    rewritten = Conversation((MORE.turns[0], thought, *MORE.turns[2:]))
    [refused] = encode(tokenizer, rewritten)
    assert str(refused) == (
        "rows.jsonl:3: the tokenizer's chat template writes turn 2 in another way once others follow it"
    )
    assert isinstance(refused, Corrupt)
    assert refused.hint.startswith("Mark what the assistant says with {% generation %}")
    assert encoded(tokenizer, rewritten, learn_all=True).learn_T.sum() > 0


def test_what_a_template_refuses_does_not_keep_the_others_from_being_encoded() -> None:
    doubled = Conversation((Turn("user", "a"), Turn("user", "b"), Turn("assistant", "c")))
    refused, sound = encode(byte_level(BRACKETS), doubled, ONE)
    assert str(refused) == (
        "rows.jsonl:3: the tokenizer's chat template refuses it: Conversation roles must alternate user/assistant"
    )
    assert isinstance(sound, Encoded)
    assert sound.sample.document == ONE


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("messages[0]['content'].index('~')", "substring not found"),
        ("1 / 0", "division by zero"),
        ("messages[7]['content'] + ''", "list object has no element 7"),
        ("messages[0]['content'] + 1", 'can only concatenate str (not "int") to str'),
    ],
)
def test_code_of_a_template_that_fails_refuses_the_row(tmp_path: Path, code: str, told: str) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(f"{{{{ {code} }}}}", encoding="utf-8")
    [refused] = encode(byte_level(None), ONE, file=str(file))
    assert str(refused) == f"rows.jsonl:3: {file} refuses it: {told}"


def test_a_template_can_be_given_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(CHATML, encoding="utf-8")
    tokenizer = byte_level(BRACKETS)
    [one] = encode(tokenizer, ONE, file=str(file))
    assert isinstance(one, Encoded)
    assert tokenizer.decode(one.ids).startswith("<|im_start|>user\n")


def test_a_file_that_is_no_template_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("hello\n{% for %}", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"mine\.jinja:2: is no template: "):
        encode(byte_level(None), ONE, file=str(file))
    with pytest.raises(RecipeError, match=r"data\.chat_template=nowhere\.jinja: cannot be read: "):
        encode(byte_level(None), ONE, file="nowhere.jinja")


def test_the_plain_template_needs_an_end_token() -> None:
    from transformers import PreTrainedTokenizerFast

    endless = PreTrainedTokenizerFast(tokenizer_object=byte_level(None).backend_tokenizer)
    with pytest.raises(RecipeError, match="no end token"):
        ChatTemplate(endless, None)


def random_conversation(random: np.random.Generator) -> Conversation:
    """Of awkward words: white space around them, line ends, other scripts, parts of what templates write."""
    words = ["Hello", " ", "\n", "\n\n", "  you", "東京", "é", "user", "assistant", "<|im", "end|>", "\t", "🙂", "x"]
    turns = []
    for number in range(2 * int(random.integers(1, 4))):
        content = "".join(random.choice(words, int(random.integers(1, 6))).tolist())
        turns.append(Turn("assistant" if number % 2 else "user", content))
    return Conversation(tuple(turns))


@pytest.mark.parametrize("trimmed", [True, False])
def test_what_is_found_is_what_a_template_with_marks_would_mark(trimmed: bool) -> None:
    random = np.random.default_rng(0)
    conversations = [random_conversation(random) for _ in range(300)]
    found = encode(byte_level(CHATML, trimmed=trimmed), *conversations)
    marked = encode(byte_level(MARKED, trimmed=False), *conversations)
    for one, other in zip(found, marked, strict=True):
        assert isinstance(one, Encoded)
        assert isinstance(other, Encoded)
        assert list(one.ids) == list(other.ids)
        assert one.learn_T.tolist() == other.learn_T.tolist(), one.sample
