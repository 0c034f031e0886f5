"""The driver: rows to shards, shards to the workers, what comes back to files; it alone writes and prints."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import pyarrow as pa
import ray
import ray.data

from recipes.batch.answering import Answering, Attempts, weights_of
from recipes.batch.progress import Progress
from recipes.batch.settings import NEW, Batch
from recipes.batch.shards import ANSWERS, Folder, Shard, read_rows, shards
from recipes.engine.cluster import Cluster, connect, share
from recipes.engine.data.chat import ChatTemplate, RefusedError
from recipes.engine.data.formats import USER, Turn
from recipes.engine.data.rows import Row, Source
from recipes.engine.data.settings import Data
from recipes.engine.data.sources import open_source
from recipes.engine.data.vocabulary import train_vocabulary
from recipes.engine.model import Architecture, Model, load_tokenizer
from recipes.errors import RecipeError

VOCABULARY_ROWS = 1000  # that the vocabulary of a new model is made of


def answer_all(settings: Batch, env: Mapping[str, str]) -> int:
    """Answer what is not answered yet; the exit code.

    Raises:
        RecipeError: the rows, the model or the folder are not what is needed.
    """
    given = settings.data
    source = open_source(Data(source=given.source, subset=given.subset, split=given.split, limit=given.limit))
    tokenizer = tokenizer_of(settings, source)
    check_template(tokenizer, given.chat_template)
    folder = Folder.of(settings.output, env)
    there = folder.open()
    start_ray(Cluster(workers=settings.cluster.workers))
    missing, left = [], set(there)
    progress = Progress(settings)
    for shard in shards(read_rows(source.rows(), settings), settings, weights_of(settings)):
        left.discard(shard.name)
        progress.found(shard, answered=shard.name in there)
        if shard.name not in there:
            missing.append(ray.put(as_table(shard)))
    refuse_others(left, folder)
    progress.begin(folder)
    for result in answered(missing, settings, tokenizer):
        folder.write(result["name"], result["content"])
        progress.wrote(result)
    progress.end(folder)
    return 0


def tokenizer_of(settings: Batch, source: Source) -> Any:
    """The model's, or one made of the rows for a new model."""
    if settings.model.name != NEW:
        return load_tokenizer(Model(settings.model.name, revision=settings.model.revision))
    rows = islice((row for row in source.rows() if isinstance(row, Row)), VOCABULARY_ROWS)
    texts = (value for row in rows for value in row.columns.values() if isinstance(value, str))
    return train_vocabulary(texts, Architecture().vocabulary)


def check_template(tokenizer: Any, file: str | None) -> None:
    """Have a chat template that is none refused here, before any worker is started."""
    if file or tokenizer.chat_template:
        with suppress(RefusedError):  # it may want other turns than this one
            ChatTemplate(tokenizer, file).render([Turn(USER, "?")], prompt=True)


def refuse_others(names: set[str], folder: Folder) -> None:
    """Answers to other rows, by another model or in another way, must not be taken for these."""
    if names:
        name = min(names)
        what = "which other rows or settings led to" if ANSWERS.fullmatch(name) else "which is no file of answers"
        raise RecipeError(
            [f"output.folder={folder.path} holds {name}, {what}"],
            "Choose another folder, or empty that one",
        )


def start_ray(workers: Cluster) -> None:
    """Enter the cluster, or start one; Ray says little of itself."""
    connect(workers)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def as_table(shard: Shard) -> pa.Table:
    return pa.table({"shard": [pickle.dumps(shard)]})


def answered(missing: list[Any], settings: Batch, tokenizer: Any) -> Iterator[dict[str, Any]]:
    """What the workers make of the shards, each as soon as it is there.

    Raises:
        RecipeError: the cluster has no room for the workers, or they refuse the model or a row.
    """
    if not missing:
        return
    own = share(Cluster(workers=settings.cluster.workers), ray.nodes())
    attempts = ray.remote(num_cpus=0)(Attempts).remote()
    results = ray.data.from_arrow_refs(missing).map(
        Answering,
        fn_constructor_args=(settings, tokenizer, own.cpus, attempts),
        compute=ray.data.ActorPoolStrategy(size=min(own.workers, len(missing)), max_tasks_in_flight_per_actor=2),
        num_cpus=own.cpus,
        num_gpus=1 if own.gpu else 0,
    )
    for table in results.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for result in table.to_pylist():
            if result["refused"]:
                raise RecipeError([result["refused"]])
            yield result
