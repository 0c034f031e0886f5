"""Questions and answers to learn from: a data set of the hub, or the docstrings of Python's own standard library."""

from __future__ import annotations

import ast
import inspect
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

END = "<|endoftext|>"
VOCABULARY_SIZE = 4096
NOT_FOR_USERS = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "turtledemo", "ensurepip"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and the answer that the model learns to give."""

    question: str
    answer: str

    @property
    def text(self) -> str:
        return f"{prompt(self.question)} {self.answer}"


def prompt(question: str) -> str:
    """What the trained model is given to get an answer."""
    return f"Question: {question}\nAnswer:"


def load_pairs(dataset: str) -> list[Pair]:
    """Every pair of "docstrings", or of a data set on the hub."""
    return list(docstring_pairs() if dataset == "docstrings" else hub_pairs(dataset))


def docstring_pairs() -> Iterator[Pair]:
    """What each public module, class and function of the standard library is for, in its authors' words."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if any(part in NOT_FOR_USERS or part.startswith("_") for part in parts[:-1]) or parts[-1].startswith("_"):
            continue
        module = ".".join(parts)
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        if summary := first_paragraph(tree):
            yield Pair(f"What is the module {module} for?", summary)
        yield from definition_pairs(tree, module)


def definition_pairs(parent: ast.Module | ast.ClassDef, name: str) -> Iterator[Pair]:
    """The public classes and functions defined directly in a module or class, and what is inside those classes."""
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        summary = first_paragraph(node)
        if isinstance(node, ast.ClassDef):
            if summary:
                yield Pair(f"What is the class {name}.{node.name}?", summary)
            yield from definition_pairs(node, f"{name}.{node.name}")
        elif summary:
            yield Pair(f"What does {name}.{node.name}({ast.unparse(node.args)}) do?", summary)


def first_paragraph(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The start of a docstring on one line; empty where it says too little to learn from."""
    paragraph = inspect.cleandoc(ast.get_docstring(node) or "").partition("\n\n")[0]
    line = " ".join(paragraph.split())
    return line if len(line.split()) > 3 else ""  # noqa: PLR2004 - "Helper for parse()." teaches nothing


def hub_pairs(name: str) -> Iterator[Pair]:
    """A data set with the columns instruction, output and, where it has one, input."""
    from datasets import load_dataset

    for row in load_dataset(name, split="train"):
        question = f"{row['instruction']}\n{row['input']}" if row.get("input") else row["instruction"]
        yield Pair(question, row["output"])


def train_tokenizer(pairs: list[Pair]) -> PreTrainedTokenizerBase:
    """A byte-level BPE vocabulary made for these pairs: any text can be written in it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator((pair.text for pair in pairs), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, pad_token=END)


def encode(pairs: list[Pair], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> list[list[int]]:
    """Every pair as token ids, closed by the end token and cut to `max_tokens`."""
    rows = tokenizer([pair.text for pair in pairs], add_special_tokens=False)["input_ids"]
    return [[*row, tokenizer.eos_token_id][:max_tokens] for row in rows]
