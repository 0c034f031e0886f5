"""The images' Dockerfiles: every version pinned and explained, no root, a health check, and nothing a linter minds."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from house.repository import ROOT, SOURCE, name_of

IMAGES = ROOT / "images"
DOCKERFILES = sorted(IMAGES.glob("*/Dockerfile"))
INSTRUCTION = re.compile(r"([A-Z]+)\s+(.*)", re.DOTALL)
PIN = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.+!]+")
# Not versions: where to look, what to build for, how fast.
SETTINGS = {"TORCH_INDEX", "TORCH_CUDA_ARCH_LIST", "MAX_JOBS"}
FULL_VERSION = re.compile(r"\d+\.\d+\.\d+|[0-9a-f]{40}|[0-9a-f]{64}|[\w./-]+:\d+\.\d+\.\d+[\w.-]*")
# The tests of the house run where nothing but the development tools is installed: it is one of them, from the index.
HADOLINT = Path(sys.executable).with_name("hadolint")


@dataclass(frozen=True)
class Instruction:
    """One instruction, continuation lines joined; `comment` are the lines just above it."""

    name: str
    value: str
    comment: str


def instructions(file: Path) -> list[Instruction]:
    found, comment, pending = [], "", ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#"):
            comment += line if pending else f"{line}\n"
            continue
        pending += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        if match := INSTRUCTION.fullmatch(pending.strip()):
            found.append(Instruction(match[1], match[2], comment))
        comment = pending = ""
    return found


def lines_of(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("file", DOCKERFILES, ids=name_of)
def test_a_version_is_an_argument_with_a_pinned_value_and_a_source(file: Path) -> None:
    given = [item for item in instructions(file) if item.name == "ARG" and "=" in item.value]
    unexplained = [
        item.value for item in given if not re.search(r"^# Source: https://\S+$", item.comment, re.MULTILINE)
    ]
    loose = [
        item.value
        for item in given
        if item.value.partition("=")[0] not in SETTINGS and not FULL_VERSION.fullmatch(item.value.partition("=")[2])
    ]
    assert (unexplained, loose) == ([], [])
    assert given


@pytest.mark.parametrize("file", DOCKERFILES, ids=name_of)
def test_an_image_stands_on_a_named_version(file: Path) -> None:
    stages = [item.value.split()[0] for item in instructions(file) if item.name == "FROM"]
    assert [stage for stage in stages if "latest" in stage or not re.search(r"\$\{[A-Z_]+\}", stage)] == []
    assert "latest" not in re.sub(r"^#.*$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("file", DOCKERFILES, ids=name_of)
def test_an_image_runs_as_an_ordinary_user_and_has_a_health_check(file: Path) -> None:
    found = instructions(file)
    last_stage = found[max(index for index, item in enumerate(found) if item.name == "FROM") :]
    users = [item.value for item in last_stage if item.name == "USER"]
    assert users[-1:] == ["1000"]
    assert [item.value.split("CMD")[-1].strip() for item in last_stage if item.name == "HEALTHCHECK"] == [
        '["python3", "/usr/local/lib/ray_alive.py"]'
    ]


@pytest.mark.parametrize("file", DOCKERFILES, ids=name_of)
def test_what_is_downloaded_is_checked_against_a_digest(file: Path) -> None:
    for item in instructions(file):
        if item.name == "RUN" and "curl" in item.value and "https://" in item.value:
            assert "sha256sum --check" in item.value
        if item.name == "RUN" and "git clone" in item.value:
            assert re.search(r'checkout --quiet "\$\{\w+_COMMIT\}"', item.value)
        assert item.name != "ADD"


@pytest.mark.parametrize("file", sorted(IMAGES.glob("*/requirements.txt")), ids=name_of)
def test_every_package_of_an_image_is_pinned(file: Path) -> None:
    assert [line for line in lines_of(file) if not PIN.fullmatch(line)] == []
    wanted = {re.split(r"[\[=<>~]", line)[0] for line in lines_of(file.with_suffix(".in"))}
    assert wanted - {re.split(r"[\[=]", line)[0] for line in lines_of(file)} == set()


def test_the_packages_of_ray_cpu_are_those_of_its_base() -> None:
    base = (SOURCE / "environment" / "bases" / "AI5.lock").read_text(encoding="utf-8")
    locked = {line.partition(" ;")[0].strip() for line in base.splitlines()}
    image = lines_of(IMAGES / "ray-cpu" / "requirements.txt")
    assert [line for line in image if line.removesuffix("+cpu") not in locked] == []


@pytest.mark.parametrize("file", DOCKERFILES, ids=name_of)
@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint is not installed")
def test_a_linter_finds_nothing(file: Path) -> None:
    done = subprocess.run([HADOLINT, "--no-color", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
