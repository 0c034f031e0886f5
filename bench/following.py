"""Following a command that prints as fast as it can, beside the same command into `cat`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from timing import AIR, Row, environment, interleaved, whole_s

MEGABYTES = 500
REPETITIONS = 3
LINE = "step 120  loss 1.8423  learning rate 0.0003  tokens/s 18423.1"
COMMAND = f"set +o pipefail; yes '{LINE}' | head -c {MEGABYTES}000000"
WORKLOAD = f"""\
experiment_name: following
command: |
  {COMMAND}
compute: {{num_accelerators: 1, accelerator_type: CPU_1xCORE}}
environment: {{version: host}}
"""


def rows(folder: Path) -> Iterator[Row]:
    workload = folder / "print.yaml"
    workload.write_text(WORKLOAD, encoding="utf-8")
    env = environment(folder / "home")
    medians = interleaved(
        REPETITIONS,
        {
            "air": lambda: whole_s([AIR, "run", workload, "--watch"], env),
            "cat": lambda: whole_s(["bash", "-c", f"({COMMAND}) | tee log | cat"], env, folder=folder),
        },
    )
    note = f"{MEGABYTES / medians['air']:.0f} MB/s, all of it also on disk"
    most_s = MEGABYTES / 100
    yield Row(
        f"following {MEGABYTES} MB", medians["air"], "bash | tee log | cat", medians["cat"], most_s=most_s, note=note
    )
