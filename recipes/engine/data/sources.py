"""What `data.source` means."""

from __future__ import annotations

from pathlib import Path

from recipes.engine.data.docstrings import Docstrings
from recipes.engine.data.files import find_files
from recipes.engine.data.hub import HubDataset
from recipes.engine.data.rows import Source
from recipes.engine.data.saved import SavedDataset, is_saved
from recipes.engine.data.settings import Data

DOCSTRINGS = "docstrings"
CHARACTERS_PER_TOKEN = 3  # fewer than in most texts: a document of so many is seldom over data.max_tokens


def open_source(data: Data) -> Source:
    """The source to learn from.

    Raises:
        RecipeError: there is none.
    """
    if data.source == DOCSTRINGS:
        return Docstrings()
    if is_saved(data.source):
        return SavedDataset(Path(data.source).expanduser(), data.split)
    files = find_files(data.source, CHARACTERS_PER_TOKEN * data.max_tokens)
    return files or HubDataset(data.source, data.subset, data.split)
