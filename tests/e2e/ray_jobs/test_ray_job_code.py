"""The code that goes with a job, as a real cluster unpacks it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from airlane.cluster.ignore_rules import Rules, left_out, parse

from .conftest import Desk

LISTING = """
import json, os
found = {}
for root, folders, files in os.walk("."):
    for name in folders + files:
        path = os.path.join(root, name)
        found[path[2:]] = [oct(os.lstat(path).st_mode & 0o777), os.path.islink(path)]
print(json.dumps(found))
"""


def write(root: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.mark.slow
def test_what_goes_along_is_what_the_job_finds(desk: Desk, tmp_path: Path) -> None:
    code = tmp_path / "my cödé"
    write(code, "lib/ünï x.py", "run.log", ".git/HEAD", "__pycache__/a.pyc", "big/data.bin", "keep/empty.txt")
    write(code, "tool.sh", text="#!/bin/sh\necho tool\n")
    (code / "tool.sh").chmod(0o755)
    (code / "link.sh").symlink_to("tool.sh")
    (code / "folder").symlink_to("lib")
    (code / "nowhere").symlink_to("nothing")
    (code / "empty").mkdir()
    (code / ".gitignore").write_text("*.log\n")
    (code / ".rayignore").write_text("/big/\n")
    (code / "list.py").write_text(LISTING)
    line = "python list.py && ./tool.sh && ./link.sh"
    done = desk.submit("--working-dir", str(code), "--", "bash", "-c", line)
    assert done.returncode == 0, done.stderr
    listing, *tools = done.stdout.splitlines()
    found = json.loads(listing)
    folders = dict.fromkeys(("lib", "folder", "keep", "empty"), False)
    assert {name: link for name, (_, link) in found.items()} == folders | dict.fromkeys(
        (
            "lib/ünï x.py",
            "folder/ünï x.py",
            "keep/empty.txt",
            "tool.sh",
            "link.sh",
            "list.py",
            ".gitignore",
            ".rayignore",
        ),
        False,  # Ray makes no links: what one leads to stands in its place
    )
    assert (found["tool.sh"][0], found["link.sh"][0], found["list.py"][0]) == ("0o755", "0o755", "0o644")
    assert tools == ["tool", "tool"]
    assert "! left out: nowhere is a link that leads nowhere" in done.stderr


@pytest.mark.slow
def test_code_that_has_changed_is_the_code_that_runs_whatever_is_left_out(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    env = json.dumps({"working_dir": str(tmp_path / "code"), "excludes": [".*"]})
    said = []
    for text in ("old", "new", "new"):
        (tmp_path / "code" / "x.py").write_text(f"print('{text}')")
        done = desk.submit("--runtime-env-json", env, "--", "python", "x.py")
        said.append((done.stdout, done.stderr.splitlines()[0].rpartition("  ")[2]))
    assert said == [("old\n", "sent"), ("new\n", "sent"), ("new\n", "on the cluster already")]


@pytest.mark.slow
def test_modules_and_variables_of_a_runtime_environment_are_there(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, "mylib/__init__.py", text="VALUE = 'from mylib'")
    write(tmp_path, "single.py", text="VALUE = 'from a file'")
    file = tmp_path / "env.yaml"
    content = {
        "py_modules": [str(tmp_path / "mylib"), str(tmp_path / "single.py")],
        "env_vars": {"GREETING": "grüß dich"},
    }
    file.write_text(json.dumps(content))  # JSON is YAML
    line = "import mylib, single, os; print(mylib.VALUE, single.VALUE, os.environ['GREETING'])"
    done = desk.submit("--runtime-env", str(file), "--", "python", "-c", line)
    assert (done.returncode, done.stdout) == (0, "from mylib from a file grüß dich\n"), done.stderr


@pytest.mark.long
@pytest.mark.slow
def test_a_package_that_is_not_there_fails_the_job_with_rays_own_reason(desk: Desk) -> None:
    done = desk.submit("--working-dir", "file:///no/such/code.zip", "--", "echo", "hi")
    assert done.returncode == 1
    assert "FAILED" in done.stderr
    assert "No such file or directory" in done.stderr
    assert desk.status("@last")["exit_code"] is None


@pytest.mark.slow
def test_what_is_too_large_is_refused_before_it_is_sent_naming_the_largest(desk: Desk, tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, "train.py", "data/small.csv")
    with (code / "data" / "images.bin").open("wb") as file:
        for _ in range(110):
            file.write(os.urandom(1 << 20))
    began = time.monotonic()
    done = desk.submit("--working-dir", str(code), "--", "true")
    assert done.returncode == 1
    assert "is too large for the cluster's dashboard: it takes 104.9 MB at most" in done.stderr
    assert done.stderr.splitlines()[1].split() == ["115.3", "MB", "data/images.bin"]
    assert ".rayignore" in done.stderr
    assert time.monotonic() - began < 30


@pytest.mark.long
@pytest.mark.slow
def test_what_is_just_small_enough_arrives(desk: Desk, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    with (code / "weights.bin").open("wb") as file:
        for _ in range(99):
            file.write(os.urandom(1 << 20))
    done = desk.submit("--working-dir", str(code), "--", "stat", "-c", "%s", "weights.bin")
    assert (done.returncode, done.stdout) == (0, f"{99 << 20}\n"), done.stderr


_NAMES = ("a", "b", "ab", "a.py", "b.txt", "foo", "bar.pyc", "x y", "A", "1", "a]", "-", "#c", "!d")
_PARTS = ("a", "b", "*", "**", "?", "/", "[ab]", "[!a]", "[a-c]", "foo", ".py", r"\*", r"\!", r"\#", " ", "[[:digit:]]")


def test_patterns_name_what_git_itself_says_they_name(tmp_path: Path) -> None:
    chance = random.Random(20261130)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for _ in range(60):
        lines = ["".join(chance.choices(_PARTS, k=chance.randint(1, 5))) for _ in range(chance.randint(1, 3))]
        paths = sorted({"/".join(chance.choices(_NAMES, k=chance.randint(1, 4))) for _ in range(25)})
        (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
        asked = subprocess.run(
            ["git", "-C", tmp_path, "check-ignore", "-z", "--stdin", "--no-index"],
            input="\0".join(paths),
            check=False,
            capture_output=True,
            text=True,
        )
        rules = (Rules(parse(lines)),)
        named = {path for path in paths if _left_out(rules, path)}
        assert named == set(asked.stdout.split("\0")) - {""}, lines


def _left_out(rules: tuple[Rules, ...], path: str) -> bool:
    steps = path.split("/")
    return any(left_out(rules, "/".join(steps[: n + 1]), folder=n < len(steps) - 1) for n in range(len(steps)))
