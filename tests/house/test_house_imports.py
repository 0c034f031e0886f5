"""What the commands of every day import: nothing that takes longer to load than the command takes to answer."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TOO_HEAVY = {"asyncio", "httpx", "mlflow", "pydantic", "ray", "requests", "textual", "torch"}
# The process that waits for a run is alive for hours, a thousand times over: it stays out of these too.
FOR_THE_SUPERVISOR_ALONE = {"http.client", "ssl", "uv", "zstandard"}
# With a clean end, like the entry point's; a forked supervisor ends in its own way and writes no list.
PROGRAM = """
import sys
from airlane.cli.main import main
code = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    file.write("\\n".join(sys.modules))
sys.exit(code)
"""
WORKLOAD = """
experiment_name: imports
command: echo hi
compute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}
environment: {version: host}
"""


class Shell:
    """A home of its own, a workload, and what a command imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "hi.yaml").write_text(WORKLOAD, encoding="utf-8")
        (folder / "config.toml").write_text('[profiles.local]\ntracking_uri = "none"\n', encoding="utf-8")
        self.env = os.environ | {"AIR_HOME": str(folder / "home"), "AIR_CONFIG": str(folder / "config.toml")}

    def imported(self, *words: str, terminal: bool = False) -> set[str]:
        """The modules in the process of a command that succeeded, their packages included."""
        listing = self.folder / "modules"
        command = [sys.executable, "-c", PROGRAM, str(listing), *words]
        code, said = self.in_terminal(command) if terminal else self.in_pipe(command)
        assert code == 0, said
        modules = set(listing.read_text(encoding="utf-8").split("\n"))
        return modules | {module.split(".")[0] for module in modules}

    def in_pipe(self, command: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def in_terminal(self, command: Sequence[str]) -> tuple[int, str]:
        theirs, ours = pty.openpty()
        process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdin=ours, stdout=ours, stderr=ours)
        os.close(ours)
        said = b""
        with contextlib.suppress(OSError), os.fdopen(theirs, "rb", buffering=0) as screen:
            while chunk := screen.read(4096):
                said += chunk
        return process.wait(), said.decode()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    shell.imported("run", "hi.yaml", "--watch")
    return shell


@pytest.mark.parametrize("terminal", [False, True], ids=["in a pipe", "in a terminal"])
def test_the_commands_of_every_day_import_nothing_heavy(shell: Shell, *, terminal: bool) -> None:
    commands = (
        ["--help"],
        ["--version"],
        ["run", "-h"],
        ["run", "hi.yaml", "--watch"],
        ["get", "@last"],
        ["list"],
        ["logs", "@last"],
    )
    heavy = {" ".join(words): shell.imported(*words, terminal=terminal) & TOO_HEAVY for words in commands}
    assert heavy == {" ".join(words): set() for words in commands}


def test_watching_a_run_loads_nothing_that_only_its_supervisor_needs(shell: Shell) -> None:
    assert shell.imported("run", "hi.yaml", "--watch") & FOR_THE_SUPERVISOR_ALONE == set()


def test_the_version_costs_no_more_than_python_itself(shell: Shell) -> None:
    own = {module for module in shell.imported("--version") if module.startswith("airlane")}
    assert own == {"airlane", "airlane.cli", "airlane.cli.main"}


def test_a_pipe_does_not_load_what_draws_on_terminals(shell: Shell) -> None:
    assert "rich" not in shell.imported("run", "hi.yaml", "--watch") | shell.imported("list")
