"""What a node hands to a container: its network devices, and no more memory than the agent has itself."""

from __future__ import annotations

from pathlib import Path

from airlane.launch.container_runner import network_devices
from airlane.launch.memory_limit import memory_limit_bytes


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_smallest_limit_above_us_counts_in_version_2(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/slurm/job_1/step_0\n")
    write(tmp_path, "proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n")
    write(tmp_path, "sys/fs/cgroup/slurm/job_1/step_0/memory.max", "max\n")
    assert memory_limit_bytes(str(tmp_path)) is None
    write(tmp_path, "sys/fs/cgroup/slurm/job_1/memory.max", "1000\n")
    write(tmp_path, "sys/fs/cgroup/slurm/memory.max", "2000\n")
    assert memory_limit_bytes(str(tmp_path)) == 1000


def test_the_number_that_stands_for_no_limit_in_version_1_is_none(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "5:memory:/slurm/job_1\n")
    mount = "30 20 0:26 / /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory\n"
    write(tmp_path, "proc/self/mountinfo", mount)
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit_bytes(str(tmp_path)) is None
    write(tmp_path, "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "3000\n")
    assert memory_limit_bytes(str(tmp_path)) == 3000


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(str(tmp_path)) is None


def test_the_devices_of_fast_networks_are_handed_through(tmp_path: Path) -> None:
    assert network_devices(str(tmp_path)) == []
    for name in ("dev/infiniband/uverbs1", "dev/infiniband/uverbs0", "dev/infiniband/by-path/x", "dev/gdrdrv"):
        write(tmp_path, name, "")
    found = network_devices(str(tmp_path))
    assert found == ["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/gdrdrv"]
