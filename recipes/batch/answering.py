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
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from recipes.batch.decoding import batches, decode
from recipes.batch.prompts import Prompts
from recipes.batch.settings import NEW, Batch
from recipes.batch.shards import Answered, Shard, rendered
from recipes.engine.data.formats import UnfitRowError
from recipes.engine.model import Architecture, new_config
from recipes.errors import RecipeError


class Attempts:
    """How often each shard was begun: Ray gives one to another worker, again and again, when its worker dies."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()

    def begin(self, name: str) -> int:
        """Count an attempt; how many this makes."""
        self._begun[name] += 1
        return self._begun[name]


class Answering:
    """What Ray starts on each accelerator; a call takes a shard to the content of its file, or says what is refused."""

    def __init__(self, settings: Batch, tokenizer: Any, threads: int, attempts: Any) -> None:
        torch.set_num_threads(threads)
        self._settings = settings
        self._attempts = attempts
        self._tokenizer = tokenizer
        self._prompts = Prompts(tokenizer, settings.data.chat_template, settings.generation.max_prompt_tokens)
        self._refused = ""
        try:
            self._network = load_network(settings, tokenizer)
        except RecipeError as error:  # raised here, Ray would take the worker for dead, and start others
            self._refused = str(error)
        else:
            self._stop = stop_tokens(self._network, tokenizer)

    def __call__(self, given: Mapping[str, Any]) -> dict[str, Any]:
        shard: Shard = pickle.loads(given["shard"])  # noqa: S301 - the driver has pickled it
        began_at = time.time()
        answers, refused = [], self._refused
        if not refused:
            answers = self._given_up(shard) or self.answers(shard)
            if self._settings.output.errors == "refuse":
                errors = (
                    f"{row.place}: {one.error}" for row, one in zip(shard.rows, answers, strict=True) if one.error
                )
                refused = next(errors, "")
        return {
            "name": shard.name,
            "content": b"" if refused else rendered(shard, answers, self._settings.output.format),
            "refused": refused,
            "began_at": began_at,
            "rows": len(answers),
            "errors": sum(answer.error is not None for answer in answers),
            "prompt_tokens": sum(answer.prompt_tokens for answer in answers),
            "response_tokens": sum(answer.response_tokens for answer in answers),
        }

    def _given_up(self, shard: Shard) -> list[Answered]:
        """The error of every row, when the shard was begun too often; else nothing."""
        most = self._settings.cluster.attempts
        if ray.get(self._attempts.begin.remote(shard.name)) <= most:
            return []
        return [Answered(error=f"the worker died {most} times while it answered these rows") for _ in shard.rows]

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
    """The model of the settings, on this worker's accelerator.

    Raises:
        RecipeError: its weights cannot be loaded.
    """
    disable_progress_bar()  # one for each worker, of the files of the weights
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    named = settings.model
    half = named.precision == "bfloat16" or (named.precision == "auto" and device.type == "cuda")
    dtype = torch.bfloat16 if half else torch.float32
    if named.name == NEW:
        torch.manual_seed(0)  # every worker makes the same one
        network = AutoModelForCausalLM.from_config(new_config(Architecture(), tokenizer), dtype=dtype)
        return network.to(device).eval()
    try:
        network = AutoModelForCausalLM.from_pretrained(named.name, revision=named.revision, dtype=dtype)
        return network.to(device).eval()
    except torch.OutOfMemoryError as error:
        raise RecipeError(
            [f"model.name={named.name} does not fit into the memory of a GPU"], "Take a smaller model, or larger GPUs"
        ) from error
    except (OSError, ValueError, SafetensorError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise RecipeError(
            [f"model.name={named.name}: {lines[0]}"],
            "It takes a folder that transformers has saved, or a model of the hub",
        ) from error


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
