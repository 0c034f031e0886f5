"""`air top` on a cluster of 1,000 nodes, 8,000 GPUs and 20,000 actors, beside one curl of the same bodies.

The cluster is made up: a process of its own serves bodies in the size and shape of Ray's. `air top` is a real process
on a terminal of its own, and what is measured is what that terminal shows.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from timing import AIR, Row, environment

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from made_cluster import Shape
from made_head import MadeHead
from terminal_screen import Terminal

SHAPE = Shape(nodes=1000, gpus_per_node=8, actors=20_000, pending=12, jobs=40)
STARTS = 3
EVERY_S = 2.0
ROUNDS = 10
KEYS = 100
PATHS = (
    "/api/version",
    "/nodes?view=summary&nocache=1",
    "/api/v0/nodes?detail=1&limit=10000",
    "/api/cluster_status",
    "/api/jobs/",
    "/api/v0/actors/summarize",
    *(
        f"/api/v0/actors?detail=1&limit=10000&filter_keys=state&filter_predicates=%3D&filter_values={state}"
        for state in ("ALIVE", "PENDING_CREATION", "RESTARTING", "DEPENDENCIES_UNREADY")
    ),
    "/api/v0/placement_groups?limit=10000&detail=1",
)
_NOTED = {"states": "/api/v0/nodes", "measures": "/nodes", "jobs": "/api/jobs"}
_NODES = re.compile(r"gpu-\d{4}")
_TICKS = os.sysconf("SC_CLK_TCK")
_MB = 1_000_000


def rows(folder: Path) -> Iterator[Row]:
    env = {**environment(folder / "home"), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with MadeHead(SHAPE) as head:
        curls = [curl(head) for _ in range(STARTS + 1)][1:]
        curl_s, curl_cpu_s = (statistics.median(one[place] for one in curls) for place in (0, 1))
        size_bytes = curls[0][2]
        firsts = [first_frame_s(head, env) for _ in range(STARTS + 1)][1:]
        bodies = f"curl of {size_bytes / _MB:.0f} MB"
        yield Row("air top, first frame", statistics.median(firsts), bodies, curl_s, most_s=2.0)
        with terminal(head, env) as shown:
            shown.until(_shows_nodes)
            cpu_s, note = refresh_cpu_s(shown, head)
            yield Row("air top, CPU of a refresh", cpu_s, bodies, curl_cpu_s, most_s=0.2, note=note)
            seconds = sorted(itertools.islice(key_seconds(shown), KEYS))
            note = f"95 of 100; 50 within {1000 * seconds[KEYS // 2]:.0f} ms, all within {1000 * seconds[-1]:.0f} ms"
            beside_s = key_of_few_s(env)
            yield Row("air top, a key", seconds[KEYS * 95 // 100], "with 100 nodes", beside_s, most_s=0.05, note=note)
            memory_mb = most_memory_bytes(shown.pid) / _MB
            beside = "the bodies themselves"
            yield Row("air top, memory", memory_mb, beside, size_bytes / _MB, most_s=300, unit="MB")


def terminal(head: MadeHead, env: dict[str, str]) -> Terminal:
    line = [str(AIR), "top", "--address", head.url, "--every", f"{EVERY_S:g}"]
    return Terminal(line, columns=120, lines=40, env=env)


def first_frame_s(head: MadeHead, env: dict[str, str]) -> float:
    """From the start of the process until its nodes are on the screen."""
    began_s = time.perf_counter()
    with terminal(head, env) as shown:
        shown.until(_shows_nodes, within_s=120)
        took_s = time.perf_counter() - began_s
        shown.type("q")
        shown.end()
    return took_s


def refresh_cpu_s(shown: Terminal, head: MadeHead) -> tuple[float, str]:
    """What the process takes of a core from one refresh to the next, on the screen of the overview.

    What takes long to read is asked less often than that: how often is in the note.
    """
    shown.watch(3 * EVERY_S)  # imports, first rounds
    before, cpu_s, began_s = head.asked(), cpu_seconds(shown.pid), time.monotonic()
    shown.watch(ROUNDS * EVERY_S)
    took_s, after = time.monotonic() - began_s, head.asked()
    asked = {name: after[path]["times"] - before[path]["times"] for name, path in _NOTED.items()}
    note = f"in {took_s:.0f} s asked for " + ", ".join(f"{name} {times} times" for name, times in asked.items())
    return (cpu_seconds(shown.pid) - cpu_s) * EVERY_S / took_s, note


def key_seconds(shown: Terminal) -> Iterator[float]:
    """From a key to the lines that it brings, on the list of nodes, while rounds go on."""
    shown.type("3")
    shown.watch(1)
    for number in itertools.count():
        before = _settled(shown, number)
        began_s = time.perf_counter()
        shown.type("\x1b[6~" if number % 4 < 2 else "\x1b[5~")  # page down, page up
        shown.until(_changed(before))
        yield time.perf_counter() - began_s


def key_of_few_s(env: dict[str, str]) -> float:
    """The same on a cluster that is no work: what is left is the machine's."""
    with MadeHead(Shape(nodes=100, gpus_per_node=0)) as head, terminal(head, env) as shown:
        shown.until(_shows_nodes)
        return sorted(itertools.islice(key_seconds(shown), KEYS))[KEYS * 95 // 100]


def _settled(shown: Terminal, number: int) -> list[str]:
    """What it shows when nothing changes any more: two keys must not become one picture."""
    seen, before = _NODES.findall(shown.text), None
    while seen != before:
        shown.watch(0.1 + number % 7 / 50)
        seen, before = _NODES.findall(shown.text), seen
    return seen


def _changed(before: list[str]) -> Callable[[str], bool]:
    return lambda text: _NODES.findall(text) != before


def _shows_nodes(text: str) -> bool:
    return len(set(_NODES.findall(text))) > 5


def curl(head: MadeHead) -> tuple[float, float, int]:
    """How long one curl takes for all bodies, what of it is CPU, and how large they are."""
    urls = [word for path in PATHS for word in (f"{head.url}{path}", "-o", "/dev/null")]
    line = ["curl", "-sS", "-w", "%{size_download}\n", *urls]
    began_s, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    took_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took_s, cpu_s, sum(map(int, done.stdout.split()))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def most_memory_bytes(pid: int) -> int:
    """The most that it ever had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
