"""What a node's machine does while the command runs, sampled under MLflow's own metric names.

Meaning and units are those of MLflow's system metrics: megabytes are 10**6 bytes, network counts from the first sample,
memory in use is what is not available, disk is the root file system. GPUs are numbered within the node's share.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airlane.launch.nvml import Gpu, Nvml

_MEGABYTE = 1e6
_KIBIBYTE = 1024
_IDLE, _IOWAIT, _GUEST = 3, 4, 8  # columns of the first line of /proc/stat, after its name; proc(5)
_STOP_PATIENCE_S = 1.0


class Sampler:
    """A thread that appends {"t": seconds since the epoch, "m": {name: number}} lines to a file.

    A thread, because a driver that hangs must not keep the agent from stopping the command. A line that cannot be
    written is left out.
    """

    def __init__(self, path: str, *, interval_s: float, gpus: Sequence[str]) -> None:
        self._path = path
        self._interval_s = interval_s
        self._gpus = gpus
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="system-metrics", daemon=True)

    def start(self) -> None:
        """Begin; where the user may start no further thread (ulimit -u), nothing is sampled."""
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def stop(self) -> None:
        """Take the last sample; a thread that hangs in a driver is left behind."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_PATIENCE_S)

    def _sample(self) -> None:
        probe = Probe(self._gpus)
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return
        last = False
        while True:
            _append(file, probe.read())
            if last:
                break
            last = self._over.wait(self._interval_s)
        os.close(file)
        probe.close()


class Probe:
    """Reads the machine's counters; rates are since the read before, so the first one has no processor load."""

    def __init__(self, gpus: Sequence[str], root: str = "/") -> None:
        self._root = root
        self._gpus = gpus
        self._nvml: Nvml | None = None
        if gpus:
            from airlane.launch.nvml import Nvml

            self._nvml = Nvml.open()
        self._processor: tuple[int, int] | None = None
        self._network_start = self._network()

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.close()

    def read(self) -> dict[str, float]:
        """Every metric that this machine offers now."""
        return {**self._processor_load(), **self._memory(), **self._disk(), **self._traffic(), **self._gpu_load()}

    def _lines(self, name: str) -> list[str]:
        try:
            with open(os.path.join(self._root, "proc", name), encoding="utf-8", errors="replace") as file:
                return file.readlines()
        except OSError:
            return []  # not Linux

    def _processor_load(self) -> dict[str, float]:
        lines = self._lines("stat")
        if not lines:
            return {}
        ticks = [int(word) for word in lines[0].split()[1:]]
        total = sum(ticks[:_GUEST])  # guest time is already in user time
        now = (total, total - ticks[_IDLE] - ticks[_IOWAIT])
        before, self._processor = self._processor, now
        if before is None or now[0] <= before[0]:
            return {}
        load = 100 * (now[1] - before[1]) / (now[0] - before[0])
        return {"cpu_utilization_percentage": round(max(0.0, load), 1)}

    def _memory(self) -> dict[str, float]:
        values = dict(line.split()[:2] for line in self._lines("meminfo"))
        if "MemAvailable:" not in values:
            return {}
        total = int(values["MemTotal:"]) * _KIBIBYTE
        used = total - int(values["MemAvailable:"]) * _KIBIBYTE
        return {
            "system_memory_usage_megabytes": round(used / _MEGABYTE, 1),
            "system_memory_usage_percentage": round(100 * used / total, 1),
        }

    def _disk(self) -> dict[str, float]:
        disk = os.statvfs(self._root)
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        free = disk.f_bavail * disk.f_frsize
        return {
            "disk_usage_percentage": round(100 * used / max(1, used + free), 1),
            "disk_usage_megabytes": round(used / _MEGABYTE, 1),
            "disk_available_megabytes": round(free / _MEGABYTE, 1),
        }

    def _network(self) -> tuple[int, int] | None:
        """Bytes received and sent since boot, all interfaces together."""
        rows = [line.partition(":")[2].split() for line in self._lines("net/dev")[2:]]
        return (sum(int(row[0]) for row in rows), sum(int(row[8]) for row in rows)) if rows else None

    def _traffic(self) -> dict[str, float]:
        now, start = self._network(), self._network_start
        if now is None or start is None:
            return {}
        return {
            "network_receive_megabytes": (now[0] - start[0]) / _MEGABYTE,
            "network_transmit_megabytes": (now[1] - start[1]) / _MEGABYTE,
        }

    def _gpu_load(self) -> dict[str, float]:
        if self._nvml is None:
            return {}
        metrics: dict[str, float] = {}
        for number, gpu in enumerate(_share(self._nvml.gpus(), self._gpus)):
            metrics.update({f"gpu_{number}_{name}": round(value, 1) for name, value in _gpu_metrics(gpu)})
        return metrics


def _share(found: Iterable[Gpu], wanted: Sequence[str]) -> list[Gpu]:
    """The GPUs that `wanted` names, by index or UUID, in its order."""
    by_name = {name: gpu for gpu in found for name in (str(gpu.index), gpu.uuid)}
    return [by_name[name] for name in wanted if name in by_name]


def _gpu_metrics(gpu: Gpu) -> Iterable[tuple[str, float]]:
    if gpu.utilization_percentage is not None:
        yield "utilization_percentage", gpu.utilization_percentage
    if gpu.memory_used_bytes is not None and gpu.memory_total_bytes:
        yield "memory_usage_megabytes", gpu.memory_used_bytes / _MEGABYTE
        yield "memory_usage_percentage", 100 * gpu.memory_used_bytes / gpu.memory_total_bytes
    if gpu.power_watts is not None:
        yield "power_usage_watts", gpu.power_watts
        if gpu.power_limit_watts:
            yield "power_usage_percentage", 100 * gpu.power_watts / gpu.power_limit_watts


def _append(file: int, metrics: dict[str, float]) -> None:
    line = json.dumps({"t": round(time.time(), 3), "m": metrics}) + "\n"
    try:
        os.write(file, line.encode())
    except OSError:
        return
