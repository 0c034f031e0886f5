from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

AIR = [sys.executable, "-m", "airlane"]
SPINNER = "[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"
WORKLOAD = """\
experiment_name: terminal
environment: {version: host}
compute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}
max_retries: 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home without tracking, and a workload in it to add a command to."""
    folder = tmp_path / 'it\'s a "home" é'
    folder.mkdir()
    (folder / "config.toml").write_text('[profiles.local]\nbackend = "local"\ntracking_uri = "none"\n')
    (folder / "t.yaml").write_text(f"{WORKLOAD}command: echo\n")
    monkeypatch.setenv("AIR_HOME", str(folder / "home"))
    monkeypatch.setenv("AIR_CONFIG", str(folder / "config.toml"))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield folder
    canceled = subprocess.run(
        [*AIR, "cancel", "--all", "--yes"], check=True, capture_output=True, text=True, timeout=60
    )
    for run_id in canceled.stdout.split():
        subprocess.run([*AIR, "logs", run_id], check=False, capture_output=True, timeout=60)  # until it has ended


class Terminal:
    """The `air` command on a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execv(AIR[0], [*AIR, *words])  # noqa: S606 - that is the point
        self.shown = ""

    def until(self, pattern: str, *, timeout_s: float = 60) -> str:
        """Read until the pattern has been shown (or, for "$", to the end)."""
        deadline = time.monotonic() + timeout_s
        while pattern == "$" or not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, self.shown
            try:
                piece = os.read(self._terminal, 65536)
            except OSError:  # Linux says so when the last process has left the terminal
                piece = b""
            if not piece:
                assert pattern == "$", self.shown
                break
            self.shown += piece.decode()
        return self.shown

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def end(self) -> int:
        """The exit code."""
        self.until("$")
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_the_live_line_is_gone_when_the_log_begins(folder: Path) -> None:
    waits = f"until [ -e {shlex.quote(str(folder / 'go'))} ]; do sleep 0.05; done; echo first; printf last"
    air = Terminal("run", str(folder / "t.yaml"), "--watch", "--override", f"command={waits}")
    air.until(f"{SPINNER}.* running · 0:01")
    (folder / "go").touch()
    assert air.end() == 0
    begun, _, log = air.shown.partition("Ctrl-C stops watching")
    assert "\x1b[32m✓\x1b[0m environment host" in begun
    before, first, after = log.partition("first\r\n")
    assert first
    assert before.endswith("\x1b[1A\x1b[2K")
    assert after.startswith("last\r\n\x1b[32m✓\x1b[0m ")
    assert not re.search(SPINNER, after)


def test_what_a_run_does_not_have_is_told_with_what_it_has(folder: Path) -> None:
    ran = subprocess.run([*AIR, "run", str(folder / "t.yaml"), "--watch"], check=False, capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    copy = folder / "t.yaml" / "logs"
    for words, told in (
        (["--node", "9"], "it has one node: --node 0"),
        (["--retry", "9"], "it has one attempt: --retry 0"),
        (["--download-to", str(copy)], f"could not write {copy}/node_0.log: "),
    ):
        done = subprocess.run([*AIR, "logs", "@last", *words], check=False, capture_output=True, text=True, timeout=60)
        assert (done.returncode, told in done.stderr) == (1, True), done.stderr


def test_ctrl_c_leaves_the_run_alone(folder: Path) -> None:
    air = Terminal("run", str(folder / "t.yaml"), "--watch", "--override", "command=echo begun; sleep 600")
    air.until("begun")
    air.type(b"\x03")
    assert air.end() == 130
    found = re.search("The run goes on: air logs (\\w+)", air.shown)
    assert found, air.shown
    listed = subprocess.run([*AIR, "list", "-q"], check=True, capture_output=True, text=True, timeout=60)
    assert listed.stdout.split() == [found[1]]
    shown = subprocess.run([*AIR, "get", found[1], "--json"], check=True, capture_output=True, text=True, timeout=60)
    assert json.loads(shown.stdout)["data"]["status"] == "RUNNING"
    logs = Terminal("logs", found[1])
    logs.until("begun")
    logs.type(b"\x03")
    assert logs.end() == 130
    assert "Stopped following. The run goes on" in logs.shown


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"n\n", 1, "Nothing was canceled"),
        (b"\x04", 1, "\r\nNothing was canceled"),
        (b"\x03", 130, "\r\nInterrupted."),
        (b"y\n", 0, "No run had to"),
    ],
)
def test_cancelling_everything_asks_first(folder: Path, answer: bytes, code: int, words: str) -> None:
    assert folder.exists()
    air = Terminal("cancel", "--all")
    air.until("y/N")
    air.type(answer)
    assert air.end() == code
    assert words in air.shown


def test_a_prompt_that_is_left_with_ctrl_d_sets_no_secret(folder: Path) -> None:
    air = Terminal("secrets", "set", "hf/token")
    air.until("not shown")
    air.type(b"\x04")
    assert air.end() == 2
    assert "\r\nNo value was given for hf/token.\r\n" in air.shown
    assert not (folder / "home" / "secrets").exists()


def test_a_secret_typed_at_the_prompt_is_not_shown(folder: Path) -> None:
    air = Terminal("secrets", "set", "hf/token")
    air.until("not shown")
    air.type(b"hf_typed\n")
    assert air.end() == 0
    assert "hf_typed" not in air.shown
    assert (folder / "home" / "secrets" / "hf" / "token").read_text() == "hf_typed"
