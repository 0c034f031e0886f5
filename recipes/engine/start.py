"""From settings to a training: its tokenizer and its documents, and then all workers."""

from __future__ import annotations

from typing import Any

from recipes.engine import driver
from recipes.engine.data.chat import ChatTemplate
from recipes.engine.data.loading import load_corpora, texts_of
from recipes.engine.data.vocabulary import train_vocabulary
from recipes.engine.loop import train
from recipes.engine.model import NEW, load_tokenizer
from recipes.engine.settings import Settings


def start(settings: Settings, recipe: str) -> int:
    """Prepare the data here, once, and train on all workers; returns the exit code.

    Raises:
        RecipeError: the model, the data or the cluster is not what the settings say.
    """
    tokenizer = tokenizer_of(settings)
    corpora = load_corpora(settings.data, tokenizer, say)
    if corpora.facts.format != "text":
        # The model is used with the template that it has learned.
        tokenizer.chat_template = ChatTemplate(tokenizer, settings.data.chat_template).text
    elif settings.model.name == NEW:
        tokenizer.chat_template = None
    return driver.run(settings, (corpora, tokenizer), train, recipe=recipe)


def tokenizer_of(settings: Settings) -> Any:
    """The model's own; for a new model, one that is made of the data, the same whenever it is made."""
    if settings.model.name == NEW:
        return train_vocabulary(texts_of(settings.data), settings.architecture.vocabulary)
    return load_tokenizer(settings.model)


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what a user sees
