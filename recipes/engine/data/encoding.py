"""Documents as token ids, each marked as learned or not.

Shapes: T tokens of a document.
"""
# ruff: noqa: N806, N815 - the shapes are in capitals

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recipes.engine.data.chat import ChatTemplate, RefusedError
from recipes.engine.data.formats import Conversation, Document, Text, Turn
from recipes.engine.data.rows import Corrupt, Place
from recipes.errors import RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Sample:
    """A document and where it comes from."""

    place: Place
    document: Document


@dataclass(frozen=True, slots=True)
class Encoded:
    """A sample as tokens; what is learned never includes the first."""

    sample: Sample
    ids: Sequence[int]
    learn_T: np.ndarray  # bool


Chat = tuple[Sample, tuple[Turn, ...]]


class Encoder:
    """Tokenizes many samples at once, on all the threads that the tokenizer takes."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, template: ChatTemplate | None, *, learn_all: bool) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.learn_all = learn_all
        if template and not learn_all and not tokenizer.is_fast:
            raise RecipeError(
                ["The tokenizer cannot say which characters its tokens stand for, so that responses cannot be told"],
                "Use data.learn=all, or a model with a fast tokenizer (tokenizer.json)",
            )
        added = getattr(tokenizer, "added_tokens_decoder", {})
        self.special = {number for number, token in added.items() if token.special} | set(tokenizer.all_special_ids)

    def encode(self, samples: Sequence[Sample]) -> Iterator[Encoded | Corrupt]:
        """Each sample as tokens, or why the template refuses it."""
        texts = [(sample, sample.document) for sample in samples if isinstance(sample.document, Text)]
        chats = [(sample, sample.document.turns) for sample in samples if isinstance(sample.document, Conversation)]
        if texts:
            yield from self._texts(texts)
        if chats and self.template and self.template.marks_generation and not self.learn_all:
            yield from self._marked(chats, self.template)
        elif chats and self.template:
            yield from self._conversations(chats, self.template)

    def _texts(self, texts: Sequence[tuple[Sample, Text]]) -> Iterator[Encoded]:
        """As the tokenizer begins texts, and with its end token where a text ends."""
        rows = self.tokenizer([text.text for _, text in texts], verbose=False)["input_ids"]
        end = self.tokenizer.eos_token_id
        for (sample, text), ids in zip(texts, rows, strict=True):
            if text.complete and end is not None and ids[-1:] != [end]:
                ids.append(end)
            yield Encoded(sample, ids, everything(len(ids)))

    def _marked(self, chats: Sequence[Chat], template: ChatTemplate) -> Iterator[Encoded | Corrupt]:
        """What the template marks as the assistant's."""
        for sample, turns in chats:
            try:
                row = template.apply(turns, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            except RefusedError as error:
                yield error.at(sample.place)
                continue
            learn_T = np.array(row["assistant_masks"], np.bool_)
            learn_T[:1] = False
            yield Encoded(sample, row["input_ids"], learn_T)

    def _conversations(self, chats: Sequence[Chat], template: ChatTemplate) -> Iterator[Encoded | Corrupt]:
        """What lies between a prompt for the assistant and the end of its turn."""
        rendered: list[tuple[Sample, str, list[tuple[int, int]]]] = []
        for sample, turns in chats:
            try:
                whole = template.render(turns)
                rendered.append((sample, whole, [] if self.learn_all else template.said(turns, whole)))
            except RefusedError as error:
                yield error.at(sample.place)
        if not rendered:
            return
        # Special tokens are in the template's text: the tokenizer must not add a second beginning or end.
        rows = self.tokenizer(
            [whole for _, whole, _ in rendered],
            add_special_tokens=False,
            return_offsets_mapping=not self.learn_all,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        for place, (sample, whole, spans) in enumerate(rendered):
            ids = rows["input_ids"][place]
            if self.learn_all:
                yield Encoded(sample, ids, everything(len(ids)))
            else:
                offsets = rows["offset_mapping"][place]
                yield Encoded(sample, ids, self._learned(whole, ids, offsets, spans))

    def _learned(
        self, whole: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        """The tokens that lie in one of the spans as a whole, up to the special token that ends the turn.

        White space that a template puts after that token is no part of what the assistant has to say.
        """
        learn_T = np.zeros(len(ids), np.bool_)
        begins_T, ends_T = np.array(offsets, np.int64).reshape(-1, 2).T
        for start, end in spans:
            # Offsets of a lone space may be trimmed to nothing at its end: it lies in no span that begins there.
            inside = np.flatnonzero((begins_T >= start) & (ends_T > start) & (ends_T <= end)).tolist()
            special = next((place for place in reversed(inside) if ids[place] in self.special), None)
            if special is not None and not whole[ends_T[special] : end].strip():
                inside = [place for place in inside if place <= special]
            learn_T[inside] = True
        learn_T[:1] = False
        return learn_T


def everything(tokens: int) -> np.ndarray:
    """All but the first token: nothing before it could predict it."""
    learn_T = np.ones(tokens, np.bool_)
    learn_T[:1] = False
    return learn_T
