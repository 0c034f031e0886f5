"""What srun starts on each node before the first attempt, where the profile asks for it: is the machine fit for a run?

One JSON object on stdout: its host, and its problems in words. It is run by the Python of the run's
environment, so that torch, where it is there, can multiply on every accelerator.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

LEAST_FREE_BYTES = 1 << 30
_SIZE = 512
_TOLERANCE = 1e-2


def main(arguments: list[str]) -> int:
    """The arguments are the run's home and the number of GPUs that the node should show."""
    home, gpus = arguments[-2], int(arguments[-1])
    found = [*space_problems(home, "/tmp"), *gpu_problems(gpus), *torch_problems(gpus)]  # noqa: S108 - Ray's folder
    print(json.dumps({"host": host_name(), "problems": found}), flush=True)  # noqa: T201
    return 0


def host_name() -> str:
    """The node's name in Slurm."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def space_problems(*folders: str) -> Iterator[str]:
    """A full disk ends a run late and in odd words."""
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            yield f"{folder}: {(error.strerror or str(error)).lower()}"
            continue
        if free < LEAST_FREE_BYTES:
            yield f"{free / 1e9:.1f} GB are free in {folder} (needed: {LEAST_FREE_BYTES / 1e9:.1f} GB)"


def gpu_problems(expected: int) -> Iterator[str]:
    """GPUs that the driver does not show, which is how many of them break."""
    from airlane.launch.nvml import Nvml

    session = Nvml.open() if expected else None
    if session is None:
        return  # no driver of NVIDIA's here: nothing that can be counted
    try:
        shown = len(session.gpus())
    finally:
        session.close()
    if shown < expected:
        yield f"the driver shows {shown} GPUs (granted: {expected})"


def torch_problems(expected: int) -> Iterator[str]:
    """A multiplication on each accelerator, compared with one on the CPU."""
    try:
        torch = importlib.import_module("torch")
    except Exception:  # noqa: BLE001 - not installed, or not for this machine: the run may not need it
        return
    devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if expected else ["cpu"]
    if expected and len(devices) < expected:
        yield f"torch sees {len(devices)} GPUs (granted: {expected})"
    factor = torch.randn(_SIZE, _SIZE, generator=torch.Generator().manual_seed(0))
    wanted = factor @ factor
    for device in devices:
        try:
            product = (factor.to(device) @ factor.to(device)).to("cpu")
        except RuntimeError as error:
            yield f"{device} cannot multiply: {str(error).splitlines()[0]}"
            continue
        if not torch.allclose(product, wanted, rtol=_TOLERANCE, atol=_TOLERANCE * _SIZE):
            yield f"{device} multiplies wrongly"


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    sys.exit(main(sys.argv))
