"""How much memory, how fast: the sizes that a run may have."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airlane.store.states import State

from .conftest import AIR, Lane, ended, supervisor_pid, wait_until
from .test_sudden_deaths import agents_of

MB = 1 << 20
# Runs a command, and tells on stderr what it needed at most. Measured from here, the tests' own memory would count too:
# a process inherits the most that the one had which it was forked from.
MOST_MEMORY = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"{pid} has no memory")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: memory is read from /proc")
def test_a_supervisor_stays_under_80_mb_and_an_agent_under_30(lane: Lane) -> None:
    run = lane.submit(lane.workload("sleep 600", nodes=2))
    wait_until(lambda: run.view().state is State.RUNNING and len(agents_of(run)) >= 2, within_s=20, what="two agents")
    time.sleep(1.0)
    supervisor, agents = rss_bytes(supervisor_pid(run.view().paths)), [rss_bytes(pid) for pid in agents_of(run)]
    print(f"supervisor {supervisor / MB:.0f} MB, agents {[round(agent / MB) for agent in agents]} MB")
    assert supervisor < 80 * MB
    assert max(agents) < 30 * MB
    lane.air("cancel", run.id)
    ended(run)


@pytest.mark.slow
def test_the_tail_of_a_log_of_1_gb_shows_at_once_in_constant_memory(lane: Lane) -> None:
    run = lane.submit(lane.workload("echo x"))
    view = ended(run)
    log = view.paths.log(attempt=0, node=0)
    block = b"".join(b"line %07d of a very long log that nobody will ever read to its end\n" % n for n in range(16_000))
    with log.open("wb") as file:
        while file.tell() < 1 << 30:
            file.write(block)
    begun = time.monotonic()
    shown = lane.air("logs", run.id, "--tail", "3")
    took_s = time.monotonic() - begun
    assert shown.stdout == "".join(
        f"line {n:07d} of a very long log that nobody will ever read to its end\n" for n in range(15_997, 16_000)
    )
    words = [sys.executable, "-c", MOST_MEMORY, str(AIR), "logs", run.id, "--tail", "100000000"]
    size = 0
    with subprocess.Popen(words, env=lane.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as whole:
        assert whole.stdout is not None
        assert whole.stderr is not None
        while chunk := whole.stdout.read(MB):
            size += len(chunk)
        most = int(whole.stderr.read())
    print(f"tail of 1 GB in {took_s:.2f} s; all of it with {most / 1024:.0f} MB")
    assert size == log.stat().st_size
    assert most * 1024 < 80 * MB
    assert took_s < 3.0


@pytest.mark.slow
def test_a_flood_of_output_is_followed_live_without_loss(lane: Lane) -> None:
    # 100 MB a second for three seconds, from a command that does not wait for anybody.
    lines, line = 3_000_000, "x" * 91
    script = f"import sys\nw = sys.stdout.write\nfor n in range({lines}):\n    w(f'{{n:08d}} {line}\\n')\n"
    command = f"python3 - <<'END'\n{script}END"
    words = [str(AIR), "run", "-f", str(lane.workload(command)), "--watch"]
    begun = time.monotonic()
    count, digest = 0, hashlib.sha256()
    with subprocess.Popen(words, env=lane.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as following:
        assert following.stdout is not None
        while chunk := following.stdout.read(MB):
            count += chunk.count(b"\n")
            digest.update(chunk)
    took_s = time.monotonic() - begun
    assert following.returncode == 0
    view = lane.client.get("@last").view()
    log = view.paths.log(attempt=0, node=0)
    size = log.stat().st_size
    duration_s = view.duration_s(0) or 1.0
    print(f"{size / 1e6:.0f} MB written in {duration_s:.1f} s, all of it seen {took_s:.1f} s after the submission")
    assert count == lines
    with log.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest.hexdigest()
