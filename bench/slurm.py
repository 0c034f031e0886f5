"""From submission to the first line through Slurm, beside a plain sbatch of the same, on the tests' own cluster.

Needs root on Linux with Slurm installed; elsewhere the group says so and measures nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from timing import AIR, Row, environment, first_line_s, interleaved

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

REPETITIONS = 9
MOST_OVER_S = 0.5
_SCRIPT = "#!/bin/bash\necho hi\n"
_WORKLOAD = """\
experiment_name: first-line
command: echo hi
compute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}
environment: {version: host}
"""
_PROFILE = """\
[profiles.lab]
backend = "slurm"
home = "{home}"
tracking_uri = "none"
"""
_PATIENCE_S = 60.0


def rows(folder: Path) -> Iterator[Row]:
    if os.geteuid() != 0 or shutil.which("slurmctld") is None:
        print("slurm: not measured: it needs root on Linux with Slurm installed", file=sys.stderr)
        return
    from lab.cluster import Lab

    lab = Lab.up()
    try:
        yield from _measure(folder, environment(folder / "config") | lab.env)
    finally:
        lab.down()


def _measure(folder: Path, env: dict[str, str]) -> Iterator[Row]:
    workload, script = folder / "hi.yaml", folder / "hi.sh"
    workload.write_text(_WORKLOAD, encoding="utf-8")
    script.write_text(_SCRIPT, encoding="utf-8")
    Path(env["AIR_CONFIG"]).write_text(_PROFILE.format(home=folder / "home"), encoding="utf-8")
    command: list[str | Path] = [AIR, "run", "-p", "lab", "-f", workload, "--watch"]
    measures: dict[str, Callable[[], float]] = {
        "sbatch": lambda: _sbatch_s(script, folder / "out", env),
        "air": lambda: first_line_s(command, env, line="hi"),
    }
    medians = interleaved(REPETITIONS, measures)
    note = f"{medians['air'] - medians['sbatch']:.3f} s more than sbatch, of {MOST_OVER_S:g} s"
    most_s = medians["sbatch"] + MOST_OVER_S
    yield Row("echo hi through Slurm, --watch", medians["air"], "sbatch", medians["sbatch"], most_s=most_s, note=note)


def _sbatch_s(script: Path, out: Path, env: Mapping[str, str]) -> float:
    """From the start of sbatch until the job's line is in its file."""
    out.unlink(missing_ok=True)
    began_s = time.perf_counter()
    subprocess.run(["sbatch", f"--output={out}", script], env=env, check=True, stdout=subprocess.DEVNULL)
    while not (out.exists() and out.read_text() == "hi\n"):
        if time.perf_counter() - began_s > _PATIENCE_S:
            raise RuntimeError("sbatch's line did not come")
        time.sleep(0.001)
    return time.perf_counter() - began_s
