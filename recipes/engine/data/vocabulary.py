"""A vocabulary made for the texts at hand, for a model that starts from nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from recipes.engine.data.chat import PLAIN_TEMPLATE
from recipes.engine.data.formats import ROLES
from recipes.errors import RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

END, PADDING = "<|endoftext|>", "<|pad|>"
SPECIAL = (END, PADDING, *(f"<|{role}|>" for role in ROLES))
BYTES = 256


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
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=PADDING,
        chat_template=PLAIN_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
