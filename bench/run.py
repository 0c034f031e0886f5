"""`make bench`: what has to be quick, measured beside what it is compared with, in one run.

python bench/run.py                     every group
python bench/run.py startup listing     some of them
python bench/run.py --json              for programs: one object a line
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from timing import Row

GROUPS = (
    "startup",
    "first_line",
    "slurm",
    "ray_jobs",
    "ranks",
    "listing",
    "snapshot",
    "following",
    "top",
    "fine_tuning",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--json", action="store_true", help="one object a line")
    values = parser.parse_args()
    if unknown := set(values.groups) - set(GROUPS):
        parser.error(f"there is no group {', '.join(sorted(unknown))}: {', '.join(GROUPS)}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = f"Python {platform.python_version()} on {platform.system()}"
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {python}"
    print(json.dumps({"machine": machine}) if values.json else f"{machine}; medians")
    for group in values.groups or GROUPS:
        with tempfile.TemporaryDirectory(prefix="air-bench-") as folder:
            for row in importlib.import_module(group).rows(Path(folder)):
                print(as_json(row) if values.json else as_text(row), flush=True)
    return 0


def as_text(row: Row) -> str:
    unit, places = row.unit, 3 if row.unit == "s" else 0
    held = "within" if row.most_s is None or row.median_s <= row.most_s else "OVER"
    limit = "" if row.most_s is None else f"  {held} {row.most_s:g} {unit}"
    beside = f"{row.beside} {row.beside_s:.{places}f} {unit}"
    note = f"\n    {row.note}" if row.note else ""
    return f"{row.name:36} {row.median_s:7.{places}f} {unit}  {row.ratio:6.2f} × {beside:36}{limit}{note}"


def as_json(row: Row) -> str:
    return json.dumps(dataclasses.asdict(row) | {"ratio": round(row.ratio, 3)}, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
