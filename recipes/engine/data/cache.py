"""Corpora on disk, by the digest of what they were made of, for the next training with the same data."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from recipes.engine.data.corpora import Corpora, Facts
from recipes.engine.data.corpus import Corpus, digest_of

ARRAYS = ("ids_N", "learn_N", "starts_D1", "origin_D", "number_D")
UNFINISHED = ".unfinished-"  # in front of the name of a folder that is being written
# What is raised for files that have other things in them than were written, or cannot be read.
DAMAGE = (OSError, ValueError, EOFError, LookupError, TypeError, AttributeError)
FORGOTTEN_S = 24 * 3600.0  # after so long, whoever wrote it is dead


def cached(folder: Path, key: str, make: Callable[[], Corpora], tell: Callable[[str], None]) -> Corpora:
    """The corpora of this key: from the folder, mapped into memory, or made and put there.

    A damaged folder is made anew. Of two processes that make the same at once, the first to finish is taken. Where the
    disk is full, the cache is missing, and nothing else.
    """
    place = folder / key
    try:
        if place.exists():
            return load(place)
    except DAMAGE as error:
        tell(f"The cache {place} is damaged ({error}); tokenizing again")
    corpora = make()
    try:
        save(corpora, place)
        return load(place)
    except OSError as error:
        tell(f"The tokens are not kept for next time: {error}")
        return corpora


def load(place: Path) -> Corpora:
    """What `save` has put there.

    Raises:
        One of DAMAGE: it is damaged.
    """
    about = json.loads((place / "about.json").read_text(encoding="utf-8"))
    corpora = {name: load_corpus(place / name, **parts) for name, parts in about["corpora"].items()}
    return Corpora(corpora["train"], corpora.get("evaluation"), Facts(**about["facts"]))


def load_corpus(folder: Path, origins: list[str], digest: str) -> Corpus:
    # A view as a plain array: pickle and Ray copy a memmap where they would share an array.
    arrays = {name: open_memmap(folder / f"{name}.npy", mode="r").view(np.ndarray) for name in ARRAYS}
    corpus = Corpus(**arrays, origins=tuple(origins))
    if digest_of(*arrays.values()) != digest:
        raise ValueError(f"{folder.name} has another digest than it was written with")
    return corpus


def save(corpora: Corpora, place: Path) -> None:
    """Write a folder beside the place, and move it there when it is whole."""
    place.parent.mkdir(parents=True, exist_ok=True)
    forget_the_dead(place.parent)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{place.name}-", dir=place.parent))
    try:
        parts = {"train": corpora.train} | ({"evaluation": corpora.evaluation} if corpora.evaluation else {})
        about = {name: save_corpus(corpus, unfinished / name) for name, corpus in parts.items()}
        text = json.dumps({"facts": asdict(corpora.facts), "corpora": about})
        (unfinished / "about.json").write_text(text, encoding="utf-8")
        put(unfinished, place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def save_corpus(corpus: Corpus, folder: Path) -> dict[str, object]:
    folder.mkdir()
    arrays = {name: getattr(corpus, name) for name in ARRAYS}
    for name, values in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            np.save(file, values)
            file.flush()
            os.fsync(file.fileno())
    return {"origins": list(corpus.origins), "digest": digest_of(*arrays.values())}


def put(unfinished: Path, place: Path) -> None:
    """Have the whole folder at its place, unless another process was first with one that is whole too."""
    if place.exists():
        try:
            load(place)
        except DAMAGE:
            damaged = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=place.parent))
            place.rename(damaged / "damaged")
            shutil.rmtree(damaged, ignore_errors=True)
        else:
            return
    try:
        unfinished.rename(place)
    except OSError:
        if not place.exists():
            raise


def forget_the_dead(folder: Path) -> None:
    """Remove what processes left that were killed while they wrote."""
    for unfinished in folder.glob(f"{UNFINISHED}*"):
        try:
            forgotten = time.time() - unfinished.stat().st_mtime > FORGOTTEN_S
        except FileNotFoundError:
            continue
        if forgotten:
            shutil.rmtree(unfinished, ignore_errors=True)
