"""The agent on every Python >= 3.9 of this machine, and as if on macOS."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from e2e.launch.conftest import AgentHost

VERSIONS = ("3.9", "3.10", "3.12", "3.13", "3.14")
MACOS = """
import sys
sys.path.insert(0, {lib!r})
from airlane.launch import agent, libc
sys.platform = "darwin"
sys.exit(agent.main(sys.argv))
"""


def _find_python(host: AgentHost, version: str) -> str:
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, versions.glob(f"{version}.*/bin/python{version}"))]
    for candidate in filter(None, candidates):
        tried = subprocess.run([*host.wrapper, candidate, "-I", "-S", "-c", ""], capture_output=True, check=False)
        if tried.returncode == 0:
            return candidate
    pytest.skip(f"no Python {version} here that user {host.user} may run")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_agent_runs_on_other_pythons(host: AgentHost, version: str) -> None:
    host.python = _find_python(host, version)
    metrics = host.folder / "m.jsonl"
    secrets = host.secrets({"TOKEN": "tell-no-one"})
    command = "setsid ./sleeper & until [ -e up ]; do sleep 0.01; done; echo $TOKEN; trap 'exit 3' TERM; touch 2; wait"
    agent = host.start(command, secrets_files=(secrets,), metrics_file=str(metrics), gpus=("0",))
    agent.said("***\n")
    agent.ask("stop")
    record = agent.end()
    assert record["exit_code"] == 3
    assert record["stop_reason"] == "stop"
    assert record["error"] is None
    assert len(metrics.read_text().splitlines()) == 2
    assert host.left_over() == []


@pytest.fixture
def macos_host(user_host: AgentHost) -> AgentHost:
    main = user_host.folder / "lib/airlane/launch/__main__.py"
    main.write_text(MACOS.format(lib=str(user_host.folder / "lib")))
    return user_host


def test_a_process_group_holds_the_command_as_if_on_macos(macos_host: AgentHost) -> None:
    agent = macos_host.start("./sleeper & until [ -e up ]; do sleep 0.01; done; echo ready; exit 4")
    record = agent.end()
    assert (record["containment"], record["exit_code"], record["leftovers_killed"]) == ("process_group", 4, 1)
    assert macos_host.left_over() == []


def test_a_process_group_is_stopped_and_killed_as_if_on_macos(macos_host: AgentHost) -> None:
    agent = macos_host.start("trap '' TERM; ./sleeper & touch x; echo ready; wait; wait", stop_grace_s=0.2)
    agent.said("ready")
    agent.ask("stop")
    record = agent.end()
    assert (record["signal"], record["stop_reason"]) == ("SIGKILL", "stop")
    assert macos_host.left_over() == []
