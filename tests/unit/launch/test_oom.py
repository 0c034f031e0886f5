from __future__ import annotations

from pathlib import Path

import pytest

from airlane.launch.oom import OomCount, oom_count, oom_killed

SIGKILLED = {"exit_code": None, "signal": "SIGKILL"}


def _files(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_control_groups_version_2_count_in_memory_events(tmp_path: Path) -> None:
    root = _files(tmp_path, {
        "proc/self/cgroup": "0::/user.slice/run-1.scope\n",
        "proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        "proc/vmstat": "nr_free_pages 12\noom_kill 7\n",
        "sys/fs/cgroup/user.slice/run-1.scope/memory.events": "low 0\nmax 4\noom 3\noom_kill 2\noom_group_kill 0\n",
    })  # fmt: skip
    count = oom_count(root)
    assert (count.group, count.machine) == (2, 7)


def test_control_groups_version_1_count_in_oom_control(tmp_path: Path) -> None:
    root = _files(tmp_path, {
        "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/slurm/uid_1/job_7\n0::/\n",
        "proc/self/mountinfo": (
            "30 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            "31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
            "35 23 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,cpu,memory\n"
        ),
        "sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    })  # fmt: skip
    count = oom_count(root)
    assert (count.group, count.machine) == (1, None)


def test_a_mount_of_a_part_of_the_hierarchy_is_followed(tmp_path: Path) -> None:
    """In a container, the group's own path is what is mounted."""
    root = _files(tmp_path, {
        "proc/self/cgroup": "0::/docker/abc/inner\n",
        "proc/self/mountinfo": "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
        "sys/fs/cgroup/inner/memory.events": "oom_kill 5\n",
    })  # fmt: skip
    assert oom_count(root).group == 5


def test_a_machine_that_counts_nothing_is_no_error(tmp_path: Path) -> None:
    count = oom_count(str(tmp_path))
    assert (count.group, count.machine) == (None, None)


@pytest.mark.parametrize(
    ("before", "after", "ended", "expected"),
    [
        (OomCount(0, 0), OomCount(1, 1), SIGKILLED, True),
        (OomCount(0, 0), OomCount(1, 1), {"exit_code": 1, "signal": None}, True),
        (OomCount(0, 0), OomCount(1, 1), {"exit_code": 0, "signal": None}, False),
        (OomCount(3, 3), OomCount(3, 3), SIGKILLED, False),
        (OomCount(None, 3), OomCount(None, 4), SIGKILLED, True),
        (OomCount(None, 3), OomCount(None, 4), {"exit_code": 137, "signal": None}, True),
        (OomCount(None, 3), OomCount(None, 4), {"exit_code": 1, "signal": None}, False),
        (OomCount(None, None), OomCount(None, None), SIGKILLED, False),
    ],
)
def test_a_kill_is_blamed_on_memory_only_where_the_counts_say_so(
    before: OomCount, after: OomCount, ended: dict[str, str | int | None], expected: bool
) -> None:
    assert oom_killed(before, after, exit_code=ended["exit_code"], signal=ended["signal"]) is expected  # type: ignore[arg-type]
