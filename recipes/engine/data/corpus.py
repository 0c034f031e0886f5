"""All documents as token ids in a few flat arrays, and a few of them put together for the model.

Shapes: N tokens of the corpus, D documents, T tokens of a pack.
"""
# ruff: noqa: N802, N806, N815 - the shapes are in capitals

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Pack:
    """Documents one after another, T tokens in all, for the model to see as one row.

    Attention stays inside each document, and positions start again with each.
    """

    ids_T: np.ndarray  # int64
    learn_T: np.ndarray  # bool: this token is a target of the loss
    lengths_D: np.ndarray  # int64, tokens of each document in order
    documents: tuple[int, ...]

    @classmethod
    def empty(cls) -> Pack:
        """One token, of which nothing is learned: what a rank computes that has no pack while others have."""
        return cls(np.zeros(1, np.int64), np.zeros(1, np.bool_), np.ones(1, np.int64), ())


@dataclass(frozen=True, eq=False)
class Corpus:
    """D documents, N tokens in all; plain arrays, so that Ray shares them between processes without copies.

    The first token of a document is never learned: nothing before it could predict it.
    """

    ids_N: np.ndarray  # int32
    learn_N: np.ndarray  # bool: this token is a target of the loss
    starts_D1: np.ndarray  # int64: document d has the tokens from starts_D1[d] to starts_D1[d + 1]
    origins: tuple[str, ...]  # "rows.jsonl:"
    origin_D: np.ndarray  # int32, index in `origins`
    number_D: np.ndarray  # int64, line or row there

    def __len__(self) -> int:
        return len(self.starts_D1) - 1

    @cached_property
    def lengths_D(self) -> np.ndarray:
        """Tokens of each document."""
        return np.diff(self.starts_D1)

    @cached_property
    def learned_D(self) -> np.ndarray:
        """Learned tokens of each document."""
        before_N1 = np.concatenate([[0], np.cumsum(self.learn_N, dtype=np.int64)])
        return np.diff(before_N1[self.starts_D1])

    @cached_property
    def digest(self) -> str:
        """The same for the same documents in the same order, wherever they come from, and for no others."""
        return digest_of(self.ids_N, self.learn_N, self.starts_D1)

    def place(self, document: int) -> str:
        """Where a document comes from, as "rows.jsonl:12"."""
        return f"{self.origins[self.origin_D[document]]}{self.number_D[document]}"

    def pack(self, documents: Sequence[int] | np.ndarray) -> Pack:
        """These documents in one row."""
        parts = [slice(self.starts_D1[document], self.starts_D1[document + 1]) for document in documents]
        if not parts:
            return Pack.empty()
        return Pack(
            ids_T=np.concatenate([self.ids_N[part] for part in parts]).astype(np.int64),
            learn_T=np.concatenate([self.learn_N[part] for part in parts]),
            lengths_D=np.array([part.stop - part.start for part in parts], np.int64),
            documents=tuple(int(document) for document in documents),
        )


class CorpusBuilder:
    """A corpus that grows by a document at a time."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._learn = bytearray()
        self._starts = array("q", [0])
        self._origins: dict[str, int] = {}
        self._origin = array("i")
        self._number = array("q")

    def __len__(self) -> int:
        return len(self._number)

    @property
    def tokens(self) -> int:
        return len(self._ids)

    def add(self, origin: str, number: int, ids: Sequence[int], learn: np.ndarray) -> None:
        """A document from a place, as "rows.jsonl:" and 12; which of its tokens are learned is an array of bool."""
        self._ids.extend(ids)
        self._learn += learn.tobytes()
        self._starts.append(len(self._ids))
        self._origin.append(self._origins.setdefault(origin, len(self._origins)))
        self._number.append(number)

    def build(self) -> Corpus:
        """The corpus of all that was added; nothing can be added any more."""
        return Corpus(
            ids_N=np.frombuffer(self._ids, np.int32),
            learn_N=np.frombuffer(self._learn, np.bool_),
            starts_D1=np.frombuffer(self._starts, np.int64),
            origins=tuple(self._origins),
            origin_D=np.frombuffer(self._origin, np.int32),
            number_D=np.frombuffer(self._number, np.int64),
        )


def digest_of(*arrays: np.ndarray) -> str:
    whole = hashlib.sha256()
    for values in arrays:
        whole.update(np.ascontiguousarray(values).view(np.uint8).data)
    return whole.hexdigest()
