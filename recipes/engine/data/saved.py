"""Rows of a folder that `datasets` has saved with save_to_disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recipes.engine.data.files import reading
from recipes.engine.data.rows import Place, Row
from recipes.errors import RecipeError

ONE = ("state.json", "dataset_info.json")  # what the folder of one split has
SPLITS = "dataset_dict.json"  # and that of several


def is_saved(source: str) -> bool:
    try:
        folder = Path(source).expanduser()
        return (folder / SPLITS).is_file() or all((folder / name).is_file() for name in ONE)
    except (OSError, RuntimeError):  # told by who looks for files
        return False


@dataclass(frozen=True)
class SavedDataset:
    """The rows of the folder; where it holds several splits, those of `split`."""

    folder: Path
    split: str

    def rows(self) -> Iterator[Row]:
        for number, columns in enumerate(self.loaded):
            yield Row(Place(f"{self._home}, row ", number), columns)

    def digest(self) -> str:
        whole = hashlib.sha256(os.fsencode(self._home))
        for path in sorted(self._home.iterdir()):
            if path.is_file():
                with reading(path), path.open("rb") as file:
                    whole.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
        return whole.hexdigest()

    @property
    def _home(self) -> Path:
        """The folder of the one split.

        Raises:
            RecipeError: there is no such split.
        """
        if not (self.folder / SPLITS).is_file():
            return self.folder
        home = self.folder / self.split
        if not home.is_dir():
            splits = sorted(path.name for path in self.folder.iterdir() if path.is_dir())
            raise RecipeError(
                [f"{self.folder}: has no split {self.split}; it has {', '.join(splits) or 'none'}"],
                "data.split says which one, and data.eval_split that of data.eval_source",
            )
        return home

    @cached_property
    def loaded(self) -> Any:
        import datasets
        import pyarrow as pa

        try:
            return datasets.load_from_disk(str(self._home))
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise RecipeError(
                [f"{self._home}: cannot be read as what datasets has saved: {reason}"],
                "Save it again: save_to_disk, or to_parquet",
            ) from error
