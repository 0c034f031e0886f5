"""Rows of a data set on the Hugging Face hub."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from recipes.engine.data.rows import Place, Row
from recipes.errors import RecipeError


@dataclass(frozen=True)
class HubDataset:
    """One split of a data set, downloaded once and kept where `datasets` keeps it."""

    name: str
    subset: str | None
    split: str

    def rows(self) -> Iterator[Row]:
        for number, columns in enumerate(self.loaded):
            yield Row(Place(f"{self.name} {self.split}, row ", number), columns)

    def digest(self) -> str:
        # The fingerprint is of the files and how they were read; two splits of the same files may share it.
        return hashlib.sha256(repr((self, self.loaded._fingerprint)).encode()).hexdigest()  # noqa: SLF001

    @cached_property
    def loaded(self) -> Any:
        import datasets

        try:
            return datasets.load_dataset(self.name, self.subset, split=self.split)
        except (datasets.exceptions.DatasetsError, OSError, RuntimeError, ValueError) as error:
            wanted = f"subset {self.subset}, split {self.split}" if self.subset else f"split {self.split}"
            raise RecipeError(
                [f"{self.name}: no file or folder, and not to be had from the hub ({wanted}): {error}"],
                "A file or folder is given by its path; a data set as NAME/DATASET, with data.subset and data.split",
            ) from error
