from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import airlane

AIR = [sys.executable, "-m", "airlane"]
HEAVY = {"mlflow", "ray", "torch", "textual", "requests", "httpx", "pydantic", "asyncio", "rich", "docker", "difflib"}
COMMAND_MODULES = ("run", "get", "list", "logs", "cancel", "rerun")


def air(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(env or {})}
    return subprocess.run([*AIR, *words], capture_output=True, text=True, check=False, env=environment, timeout=60)


def imported(code: str) -> set[str]:
    """The top-level modules that a piece of Python imports, in a process whose output is piped."""
    listing = f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True, timeout=60)
    return {name.split(".")[0] for name in done.stderr.split()}


def test_python_m_airlane_is_air() -> None:
    assert air("--version").stdout == f"airlane {airlane.__version__}\n"


@pytest.mark.parametrize("words", [["--version"], ["-h"], ["run", "-h"], ["rnu"]])
def test_help_and_version_import_nothing_heavy(words: list[str]) -> None:
    found = imported(f"from airlane.cli.main import main; main({words!r})")
    assert found & (HEAVY - {"difflib"}) == set()


def test_the_version_imports_next_to_nothing() -> None:
    found = imported("from airlane.cli.main import main; main(['--version'])")
    assert found & {"argparse", "json", "yaml", "dataclasses", "re", "subprocess"} == set()


def test_the_commands_of_runs_import_nothing_heavy() -> None:
    modules = "\n".join(f"import airlane.cli.commands.{name}" for name in COMMAND_MODULES)
    modules += "\nimport airlane.cli.watching, airlane.cli.live, airlane.cli.layout"
    assert imported(f"{modules}\nimport airlane.api\nimport airlane.spec.load") & HEAVY == set()


def test_a_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen([*AIR, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["-h"], ["--version"], ["schema", "--json"]])
def test_output_that_cannot_be_written_is_told_and_is_a_failure(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*AIR, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "the output could not be written: no space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_what_cannot_be_told_keeps_no_command_from_its_work(tmp_path: Path) -> None:
    env = {**os.environ, "AIR_HOME": str(tmp_path)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*AIR, "list", "--json"], stdout=subprocess.PIPE, stderr=full, env=env, check=False)
        failed = subprocess.run([*AIR, "get", "7k2m9q4d"], stdout=full, stderr=full, env=env, check=False)
    assert (done.returncode, failed.returncode) == (0, 1)


def test_marks_are_ascii_in_an_ascii_locale(tmp_path: Path) -> None:
    env = {"AIR_HOME": str(tmp_path), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = air("run", "no such é file.yaml", env=env)
    assert done.returncode == 2
    assert done.stderr.isascii()


def test_a_command_in_json_writes_one_line_of_json(tmp_path: Path) -> None:
    done = air("--json", "list", env={"AIR_HOME": str(tmp_path / "it's\nnew é")})
    assert json.loads(done.stdout)["data"] == {"runs": []}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("air re", "rerun"),
        ("air secrets de", "delete"),
        ("air run --idem", "--idempotency-key"),
        ("air completion z", "zsh"),
    ],
)
def test_bash_completes_commands_and_options(tmp_path: Path, typed: str, expected: str) -> None:
    assert expected in completed(typed, tmp_path)


def completed(typed: str, folder: Path) -> list[str]:
    """What bash offers where the tab key is pressed."""
    script = folder / "air.bash"
    script.write_text(air("completion", "bash").stdout)
    words = typed.split(" ")
    lines = [
        f'air() {{ {shlex.join(AIR)} "$@"; }}',
        f"source '{script}'",
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; COMP_POINT=${{#COMP_LINE}}",
        '_shtab_air air; printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.split()


def test_bash_completes_the_names_of_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIR_HOME", str(tmp_path / "home"))
    subprocess.run([*AIR, "secrets", "set", "hf/token"], input=b"x", check=True, capture_output=True, timeout=60)
    assert completed("air secrets delete h", tmp_path) == ["hf/token"]
    assert completed("air get ", tmp_path) == []
