"""What a training has to learn from and to evaluate on, and what there is to say about it."""

from __future__ import annotations

from dataclasses import dataclass

from recipes.engine.data.corpus import Corpus


@dataclass(frozen=True)
class Facts:
    """What was found in a source, and what has become of it; counts of documents but for those of tokens."""

    source: str
    format: str
    documents: int  # to learn from
    tokens: int  # of these
    learned_tokens: int  # of these
    longest_tokens: int
    evaluation_documents: int
    cut: int = 0  # to the most tokens that a document may have
    parted: int = 0  # texts that go on in documents of their own
    too_long: int = 0  # left out
    nothing_learned: int = 0  # left out: what there is to learn was cut off
    corrupt: int = 0  # left out

    def __str__(self) -> str:
        learned = round(100 * self.learned_tokens / self.tokens)
        counts = {
            "to evaluate on": self.evaluation_documents,
            "cut": self.cut,
            "texts that became several documents": self.parted,
            "too long and left out": self.too_long,
            "left out with nothing to learn": self.nothing_learned,
            "corrupt and left out": self.corrupt,
        }
        told = [f"{count:,} {words}" for words, count in counts.items() if count]
        return ", ".join(
            [
                f"{self.source}: {self.documents:,} document{'s' * (self.documents != 1)} ({self.format})",
                f"{self.tokens:,} tokens, {learned} % of them learned",
                f"the longest {self.longest_tokens:,}",
                *told,
            ]
        )


@dataclass(frozen=True, eq=False)
class Corpora:
    """What is learned from, what is evaluated on, and what there is to say about them."""

    train: Corpus
    evaluation: Corpus | None
    facts: Facts
