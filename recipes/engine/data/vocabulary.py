"""A vocabulary made for the texts at hand, for a model that starts from nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from recipes.engine.data.chat import PLAIN_TEMPLATE
from recipes.engine.data.formats import ROLES
from recipes.errors import RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

END, PADDING = "<|endoftext|>", "<|pad|>"
SPECIAL = (END, PADDING, *(f"<|{role}|>" for role in ROLES))
BYTES = 256
LONGEST_WORD = 100  # characters; the time to learn from one grows with its square
LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}|\s{{{LONGEST_WORD + 1},}}")


def train_vocabulary(texts: Iterable[str], size: int) -> PreTrainedTokenizerBase:
    """A byte-level BPE tokenizer of at most `size` tokens, with the plain chat template: it can write any text.

    Raises:
        RecipeError: the size is too small for that.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if size < BYTES + len(SPECIAL):
        raise RecipeError([f"A vocabulary of {size} tokens is too small: it needs {BYTES + len(SPECIAL)} or more"])
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator((piece for text in texts for piece in with_short_words(text)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=PADDING,
        chat_template=PLAIN_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def with_short_words(text: str) -> Iterator[str]:
    """The text in pieces, where a word, or a gap, is longer than words are: keys, pictures as text, lines drawn."""
    start = 0
    for found in LONG.finditer(text):
        word = found[0]
        yield text[start : found.start()]
        yield from (word[at : at + LONGEST_WORD] for at in range(0, len(word), LONGEST_WORD))
        start = found.end()
    yield text[start:]
