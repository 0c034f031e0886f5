from __future__ import annotations

from pathlib import Path

import pytest

from airlane.launch import nvml
from airlane.launch.nvml import Gpu
from airlane.launch.system_metrics import Probe

STAT = "cpu  {user} 0 50 {idle} 30 0 0 0 999 0\ncpu0 1 2 3 4\n"
MEMINFO = "MemTotal:       1000000 kB\nMemFree:         100000 kB\nMemAvailable:    400000 kB\n"
NET = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n"
ROW = "  {name}: {received} 5 0 0 0 0 0 0 {sent} 5 0 0 0 0 0 0\n"


def _machine(root: Path, *, user: int, idle: int, received: int, sent: int) -> None:
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    (root / "proc/stat").write_text(STAT.format(user=user, idle=idle))
    (root / "proc/meminfo").write_text(MEMINFO)
    rows = ROW.format(name="lo", received=0, sent=0) + ROW.format(name="eth0", received=received, sent=sent)
    (root / "proc/net/dev").write_text(NET + rows)


def test_loads_and_traffic_are_since_the_sample_before_and_the_start(tmp_path: Path) -> None:
    _machine(tmp_path, user=100, idle=800, received=1_000_000, sent=500_000)
    probe = Probe((), root=str(tmp_path))
    first = probe.read()
    _machine(tmp_path, user=175, idle=825, received=3_500_000, sent=500_000)
    second = probe.read()
    assert "cpu_utilization_percentage" not in first
    assert second["cpu_utilization_percentage"] == 75.0
    assert first["network_receive_megabytes"] == 0.0
    assert second["network_receive_megabytes"] == 2.5
    assert second["network_transmit_megabytes"] == 0.0
    assert second["system_memory_usage_megabytes"] == 614.4
    assert second["system_memory_usage_percentage"] == 60.0
    assert second["disk_usage_megabytes"] > 0
    assert 0 <= second["disk_usage_percentage"] <= 100


def test_where_there_is_no_proc_the_disk_is_still_told(tmp_path: Path) -> None:
    assert set(Probe((), root=str(tmp_path)).read()) == {
        "disk_usage_percentage",
        "disk_usage_megabytes",
        "disk_available_megabytes",
    }


class FakeDriver:
    def gpus(self) -> tuple[Gpu, ...]:
        return (
            Gpu(0, "H100", "GPU-a", 80_000_000_000, 20_000_000_000, 50.0, 350.0, 700.0),
            Gpu(1, "H100", "GPU-b", None, None, None, 100.0, None),
            Gpu(2, "H100", "GPU-c", 80_000_000_000, 0, 0.0, None, None),
        )


def test_gpus_are_numbered_within_the_nodes_share_with_a_fake_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml.Nvml, "open", FakeDriver)
    metrics = Probe(("GPU-b", "0", "GPU-gone"), root=str(tmp_path)).read()
    assert {name: value for name, value in metrics.items() if name.startswith("gpu")} == {
        "gpu_0_power_usage_watts": 100.0,
        "gpu_1_utilization_percentage": 50.0,
        "gpu_1_memory_usage_megabytes": 20_000.0,
        "gpu_1_memory_usage_percentage": 25.0,
        "gpu_1_power_usage_watts": 350.0,
        "gpu_1_power_usage_percentage": 50.0,
    }
