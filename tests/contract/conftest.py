"""What the contract needs around a backend: for Slurm an allocation that somebody holds, for Ray a cluster."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from contract.on_ray import PYTHON
from lab.cluster import Lab
from lab.slurm_conf import ClusterShape
from ray_lab import RayLab


@pytest.fixture(scope="session")
def held_allocation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The variables of an allocation of two nodes with one CPU each: there is room for one step, and no other.

    Its srun runs on the first node, as in a shell that salloc has opened there: the lab's controller cannot call one on
    this machine when a step that waits may start.
    """
    lab = Lab.up(ClusterShape(nodes=2))
    try:
        wanted = ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1"]
        said = lab.run(["salloc", "--no-shell", "--job-name=contract", *wanted]).stderr
        found = re.search(r"Granted job allocation (\d+)", said)
        assert found is not None, said
        folder = tmp_path_factory.mktemp("bin")
        srun, program = folder / "srun", shutil.which("srun") or "srun"
        # Who kills it means srun, and not only the shell before it.
        there = lab.command(lab.nodes[0], ["setpriv", "--pdeathsig=KILL", program])
        srun.write_text(f'#!/bin/sh\nexec {shlex.join(there)} "$@"\n', encoding="utf-8")
        srun.chmod(0o755)
        yield {
            **lab.env,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "SLURM_JOB_ID": found[1],
            "SLURM_JOB_NODELIST": ",".join(lab.nodes),
            "SLURM_JOB_CPUS_PER_NODE": "1(x2)",
        }
    finally:
        lab.down()


@pytest.fixture(scope="session")
def ray_cluster(ray_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The variables that lead to a cluster of two nodes with one CPU each, and the Python that it runs on."""
    with RayLab(tmp_path_factory.mktemp("ray-lab"), ray_python, nodes=2, cpus=1, gpus=0) as lab:
        yield {
            "RAY_API_SERVER_ADDRESS": lab.url,
            "RAY_AUTH_TOKEN_PATH": str(lab.token_file),
            PYTHON: str(ray_python),
        }
