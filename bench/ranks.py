"""From `air-ranks` to the first rank's first line, beside torchrun with the same script and number of ranks.

torchrun starts its ranks on the machine where it is typed, with no cluster to look at and nothing to place. air-ranks
enters a Ray cluster, checks what it has, places the ranks and starts a Ray worker for each before the script starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from peers import ROOT
from ray_jobs import cluster
from timing import Row, environment, first_line_s, interleaved

REPETITIONS = 5
_BIN = ROOT / "src" / "airlane" / "ranks" / "bin"
_SCRIPT = "print('hi', flush=True)\n"
_NOTE = "torchrun has no cluster to enter, and places nothing; most of its time is the import of torch"


def rows(folder: Path) -> Iterator[Row]:
    """Two ranks on one node, without GPUs."""
    script = folder / "hi.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    env = environment(folder / "home")
    with cluster(env) as (ray, variables):
        path = os.pathsep.join([str(_BIN), str(ray.parent), env["PATH"]])
        settings = {**env, **variables, "PATH": path}
        options: list[str | Path] = ["--nproc-per-node", "2"]
        ours = ["air-ranks", "--nodes", "1", *options, "--log-dir", folder / "logs", script]
        theirs = ["torchrun", "--standalone", *options, script]
        medians = interleaved(
            REPETITIONS,
            {
                "air-ranks": lambda: first_line_s(ours, settings, line="hi"),
                "torchrun": lambda: first_line_s(theirs, settings, line="hi"),
            },
        )
    yield Row("air-ranks, first line", medians["air-ranks"], "torchrun, one node", medians["torchrun"], note=_NOTE)
