from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from airlane.logs.tail import follow

LINES = 4_000_000
LINE = "step 00000000 loss 1.842 lr 3e-04 1,234 tokens per second\n"
# A process of its own writes about 240 MB as fast as it can, in pieces that end inside lines.
WRITER = f"""
import sys
data = {LINE!r}.encode() * 1000
with open(sys.argv[1], "ab", buffering=0) as log:
    for _ in range({LINES // 1000}):
        log.write(data[:30_001]); log.write(data[30_001:])
"""


LATE_WRITER = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as log:
    time.sleep(0.3)
    log.write(b"%.6f\\n" % time.monotonic())
    time.sleep(9)
"""


def test_a_log_that_grows_as_fast_as_the_disk_takes_it_is_followed_without_losing_a_line(tmp_path: Path) -> None:
    log = tmp_path / 'it\'s a "log" é\nnew line'
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(log)])
    try:
        started = time.monotonic()
        lines = sum(chunk.count(b"\n") for chunk in follow(log, ended=lambda: writer.poll() is not None))
        seconds = time.monotonic() - started
    finally:
        writer.kill()
        writer.wait()
    assert lines == LINES
    print(f"followed {LINES * len(LINE) / 1e6 / seconds:.0f} MB/s")
    log.unlink()


def test_the_first_line_is_seen_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    writer = subprocess.Popen([sys.executable, "-c", LATE_WRITER, str(log)])
    try:
        first = next(follow(log, ended=lambda: False))
        late_s = time.monotonic() - float(first)
    finally:
        writer.kill()
        writer.wait()
    assert late_s < 1.0  # about 0.05 on an idle machine
    print(f"seen after {late_s * 1000:.0f} ms")
