"""A vocabulary made for the texts at hand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from recipes.engine.data.vocabulary import SPECIAL, train_vocabulary, with_short_words
from recipes.errors import RecipeError

TEXTS = ["What does json.loads do?", "It reads JSON, and nothing else.", "The parser reads what the writer wrote."] * 20


def test_any_text_is_written_and_read_back() -> None:
    tokenizer = train_vocabulary(TEXTS, 300)
    for text in ("It reads", " Größe\t東京 🙂\r\n\n  x , y .", "\x00\x7f", "def f( x ):\n    return  'a '"):
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert max(ids) < len(tokenizer) <= 300


def test_words_without_an_end_are_learned_from_in_pieces_and_nothing_of_them_is_lost() -> None:
    text = "one " + "y" * 250 + " " * 101 + "end"
    assert list(with_short_words(text)) == ["one ", "y" * 100, "y" * 100, "y" * 50, "", " " * 100, " ", "end"]
    assert list(with_short_words("one two")) == ["one two"]
    began_s = time.monotonic()
    tokenizer = train_vocabulary(["y" * 3_000_000], 300)  # as one word: hours
    assert time.monotonic() - began_s < 30
    assert tokenizer.decode(tokenizer("y" * 1000)["input_ids"]) == "y" * 1000


def test_frequent_words_are_one_token() -> None:
    tokenizer = train_vocabulary(TEXTS, 400)
    assert len(tokenizer(" reads")["input_ids"]) == 1


def test_the_same_texts_make_the_same_vocabulary() -> None:
    one, other = (train_vocabulary(iter(TEXTS), 350).backend_tokenizer.to_str() for _ in range(2))
    assert one == other


def test_what_is_saved_can_be_talked_to(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    train_vocabulary(TEXTS, 300).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    turns = [{"role": "user", "content": "Hi"}]
    asked = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    assert asked == "<|user|>\nHi\n<|assistant|>\n"
    ids = tokenizer(asked, add_special_tokens=False)["input_ids"]
    assert ids[0] == tokenizer.convert_tokens_to_ids("<|user|>") < len(SPECIAL)
    assert tokenizer.eos_token_id != tokenizer.pad_token_id
    assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == "\nHi\n\n"


def test_a_vocabulary_too_small_for_all_bytes_is_refused() -> None:
    with pytest.raises(RecipeError, match="A vocabulary of 262 tokens is too small: it needs 263 or more"):
        train_vocabulary(TEXTS, 262)
