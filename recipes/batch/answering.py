"""One worker: a model on one accelerator that answers a shard at a time."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM

from recipes.batch.decoding import batches, decode
from recipes.batch.prompts import Prompts
from recipes.batch.settings import NEW, Batch
from recipes.batch.shards import Answered, Shard, rendered
from recipes.engine.data.formats import UnfitRowError
from recipes.engine.model import Architecture, new_config


class Attempts:
    """How often each shard was begun: Ray gives one to another worker, again and again, when its worker dies."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()

    def begin(self, name: str) -> int:
        """Count an attempt; how many this makes."""
        self._begun[name] += 1
        return self._begun[name]


class Answering:
    """What Ray starts on each accelerator; a call takes a shard to the content of its file."""

    def __init__(self, settings: Batch, tokenizer: Any, threads: int, attempts: Any) -> None:
        torch.set_num_threads(threads)
        self._settings = settings
        self._attempts = attempts
        self._tokenizer = tokenizer
        self._prompts = Prompts(tokenizer, settings.data.chat_template, settings.generation.max_prompt_tokens)
        self._network = load_network(settings, tokenizer)
        self._stop = stop_tokens(self._network, tokenizer)

    def __call__(self, given: Mapping[str, Any]) -> dict[str, Any]:
        shard: Shard = pickle.loads(given["shard"])  # noqa: S301 - the driver has pickled it
        began_at = time.time()
        most = self._settings.cluster.attempts
        if ray.get(self._attempts.begin.remote(shard.name)) > most:
            answers = [Answered(error=f"the worker died {most} times while it answered these rows") for _ in shard.rows]
        else:
            answers = self.answers(shard)
        return {
            "name": shard.name,
            "content": rendered(shard, answers, self._settings.output.format),
            "began_at": began_at,
            "rows": len(answers),
            "errors": sum(answer.error is not None for answer in answers),
            "prompt_tokens": sum(answer.prompt_tokens for answer in answers),
            "response_tokens": sum(answer.response_tokens for answer in answers),
        }

    def answers(self, shard: Shard) -> list[Answered]:
        """What comes of each row, in their order."""
        made: dict[int, Answered] = {}
        prompts: dict[int, list[int]] = {}
        for place, row in enumerate(shard.rows):
            if row.error is not None:
                made[place] = Answered(error=row.error)
                continue
            try:
                prompts[place] = self._prompts.ids(row.turns)
            except UnfitRowError as error:
                made[place] = Answered(error=str(error))
        places = list(prompts)
        for batch in batches([len(prompts[place]) for place in places], self._settings.generation):
            chosen = [places[number] for number in batch]
            numbers = [shard.rows[place].row for place in chosen]
            answers = self._batch([prompts[place] for place in chosen], numbers)
            made |= dict(zip(chosen, answers, strict=True))
        return [made[place] for place in range(len(shard.rows))]

    def _batch(self, prompts: Sequence[list[int]], rows: Sequence[int]) -> list[Answered]:
        """The answers of a batch; one that does not fit into memory is halved."""
        generation = self._settings.generation
        try:
            made = decode(self._network, prompts, rows, generation, stop=self._stop, pad=self._pad)
        except torch.OutOfMemoryError:
            made = None  # outside of this block, where the error no longer holds what was allocated
        if made is None:
            torch.cuda.empty_cache()
            if len(prompts) == 1:
                return [Answered(error=f"out of memory: a prompt of {len(prompts[0])} tokens")]
            half = len(prompts) // 2
            return [*self._batch(prompts[:half], rows[:half]), *self._batch(prompts[half:], rows[half:])]
        texts = self._tokenizer.batch_decode(made, skip_special_tokens=True)
        return [
            Answered(
                response=text,
                prompt_tokens=len(prompt),
                response_tokens=len(ids),
                finish_reason="length" if len(ids) == generation.max_new_tokens else "stop",
            )
            for prompt, ids, text in zip(prompts, made, texts, strict=True)
        ]

    @property
    def _pad(self) -> int:
        padding = self._tokenizer.pad_token_id
        return 0 if padding is None else int(padding)


def load_network(settings: Batch, tokenizer: Any) -> Any:
    """The model of the settings, on this worker's accelerator."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = settings.model.precision
    if precision == "auto":
        precision = "bfloat16" if device.type == "cuda" else "float32"
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    if settings.model.name == NEW:
        torch.manual_seed(0)  # every worker makes the same one
        network = AutoModelForCausalLM.from_config(new_config(Architecture(), tokenizer), dtype=dtype)
    else:
        network = AutoModelForCausalLM.from_pretrained(
            settings.model.name, revision=settings.model.revision, dtype=dtype
        )
    return network.to(device).eval()


def stop_tokens(network: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends an answer: those that the model was saved with, and the tokenizer's."""
    saved = network.generation_config.eos_token_id
    listed = saved if isinstance(saved, list) else [saved]
    return frozenset(int(token) for token in [*listed, tokenizer.eos_token_id] if token is not None)


def weights_of(settings: Batch) -> str:
    """Changes when the model of that name does: its files with their sizes and times, where it is a folder."""
    folder = Path(settings.model.name)
    if settings.model.name == NEW or not folder.is_dir():
        return settings.model.name
    files = sorted(file for file in folder.iterdir() if file.is_file())
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()
