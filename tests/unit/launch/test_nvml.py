"""NVML without a GPU: a stand-in libnvidia-ml.so.1, compiled here, answers as NVIDIA's reference says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from airlane import launch
from airlane.launch import nvml

SOURCE = r"""
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
static int devices[2] = {0, 1};
int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  if (index > 1) return 15; /* the GPU has fallen off the bus */
  *handle = &devices[index];
  return 0;
}
int nvmlDeviceGetName(int *device, char *name, unsigned length) {
  strncpy(name, *device ? "NVIDIA A10" : "NVIDIA H100 80GB HBM3", length);
  return 0;
}
int nvmlDeviceGetUUID(int *device, char *uuid, unsigned length) {
  strncpy(uuid, *device ? "GPU-bbbb" : "GPU-aaaa", length);
  return 0;
}
int nvmlDeviceGetMemoryInfo(int *device, memory_t *memory) {
  memory->total = 80000000000ULL; memory->free = 60000000000ULL; memory->used = 20000000000ULL;
  return 0;
}
int nvmlDeviceGetUtilizationRates(int *device, utilization_t *rates) {
  rates->gpu = 97; rates->memory = 40;
  return *device ? 3 : 0; /* not supported on the second */
}
int nvmlDeviceGetPowerUsage(int *device, unsigned *milliwatts) { *milliwatts = 350500; return 0; }
/* nvmlDeviceGetEnforcedPowerLimit is missing: an old driver */
"""


def _gpus_with(folder: Path, source: str) -> str:
    """What `gpus()` gives in a process that finds this library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    (folder / "fake.c").write_text(source)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, folder / "fake.c"], check=True)
    root = Path(launch.__file__).parent.parent.parent
    program = f"import sys; sys.path.insert(0, {str(root)!r})\nfrom airlane.launch.nvml import gpus; print(gpus())"
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    ended = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return ended.stdout.strip()


def test_gpus_of_a_fake_driver_are_read_and_a_lost_one_is_left_out(tmp_path: Path) -> None:
    h100 = nvml.Gpu(0, "NVIDIA H100 80GB HBM3", "GPU-aaaa", 80_000_000_000, 20_000_000_000, 97.0, 350.5, None)
    a10 = nvml.Gpu(1, "NVIDIA A10", "GPU-bbbb", 80_000_000_000, 20_000_000_000, None, 350.5, None)
    assert _gpus_with(tmp_path, SOURCE.replace("INIT", "0")) == str((h100, a10))


def test_a_fake_library_without_a_driver_gives_no_gpu(tmp_path: Path) -> None:
    assert _gpus_with(tmp_path, SOURCE.replace("INIT", "9")) == "()"


def test_a_fake_library_without_any_function_gives_no_gpu(tmp_path: Path) -> None:
    assert _gpus_with(tmp_path, "int nothing;") == "()"


def test_no_library_gives_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_LIBRARY", "libairlane-there-is-no-such.so.1")
    assert nvml.gpus() == ()
