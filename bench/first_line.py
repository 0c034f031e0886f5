"""From submission to the first line of the command, beside torchx's local scheduler and beside bare bash."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from peers import TORCHX, cache_folder, torchx
from timing import AIR, Row, environment, first_line_s, interleaved

REPETITIONS = 9
# The line stays on for a moment: torchx looks at logs now and then, and loses those of a command that is too quick.
COMMAND = "echo hi; sleep 0.7"
WORKLOAD = f"""\
experiment_name: first-line
command: {COMMAND}
compute: {{num_accelerators: 1, accelerator_type: CPU_1xCORE}}
environment: {{version: host}}
"""


def rows(folder: Path) -> Iterator[Row]:
    workload = folder / "hi.yaml"
    workload.write_text(WORKLOAD, encoding="utf-8")
    command: list[str | Path] = [AIR, "run", workload, "--watch"]
    env = environment(folder / "home")
    measures: dict[str, Callable[[], float]] = {
        "bash": lambda: first_line_s(["bash", "-c", COMMAND], env, line="hi"),
        "air": lambda: first_line_s(command, env, line="hi"),
    }
    scheduler = torchx()
    if scheduler is not None:
        theirs: list[str | Path] = [scheduler, "run", "-s", "local_cwd", "--log", "utils.sh", "sh", "-c", COMMAND]
        measures["torchx"] = lambda: first_line_s(theirs, env, line=" hi")
    tracked = _tracked()
    try:
        measures["air, tracked"] = lambda: first_line_s(command, tracked, line="hi")
        medians = interleaved(REPETITIONS, measures)
    finally:
        subprocess.run([AIR, "ui", "--stop"], env=tracked, check=True, capture_output=True)
    for name in ("air", "air, tracked"):
        label = "echo hi, run --watch" + (", MLflow warm" if name != "air" else "")
        yield Row(label, medians[name], "bash -c", medians["bash"], most_s=0.3)
        if "torchx" in medians:
            yield Row(label, medians[name], f"{TORCHX} local_cwd", medians["torchx"])


def _tracked() -> dict[str, str]:
    """A home whose MLflow server runs already; it is kept, so that its environment is built once."""
    env = environment(cache_folder() / "tracked-home", tracked=True)
    subprocess.run([AIR, "ui"], env=env, check=True, capture_output=True)
    return env
