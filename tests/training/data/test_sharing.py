"""A corpus in Ray's object store: every process sees the same memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from recipes.engine.data.corpus import Corpus

from .made import corpus_of


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import ray

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=200 * 1024**2, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
@pytest.mark.usefixtures("cluster")
def test_a_corpus_is_shared_through_ray_without_copies() -> None:
    import ray

    def look(corpus: Corpus) -> tuple[int, str, bool, bool]:
        return os.getpid(), corpus.digest, corpus.ids_N.flags.writeable, corpus.ids_N.flags.owndata

    corpus = corpus_of([50] * 100_000)
    shared = ray.put(corpus)
    pid, digest, writeable, owned = ray.get(ray.remote(look).remote(shared))
    assert pid != os.getpid()
    assert (digest, writeable, owned) == (corpus.digest, False, False)
    one, other = ray.get(shared), ray.get(shared)
    assert np.shares_memory(one.ids_N, other.ids_N)
