"""The documentation runs: its workloads load, its commands parse, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from airlane.backends.registry import make_backend
from airlane.cli.dispatch import split
from airlane.cli.registry import COMMANDS, load
from airlane.spec.load import load as load_workload
from airlane.spec.load import load_text
from airlane.spec.profiles import load_profiles
from airlane.store.paths import Home
from house.repository import DOCS, ROOT, name_of, pages, project_files

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!`)\[[^\]]+\]\(([^)\s]+)\)")
# What a part of a workload lacks to be a whole one.
REST: dict[str, object] = {
    "experiment_name": "part",
    "command": "true",
    "compute": {"num_accelerators": 1, "accelerator_type": "CPU_1xCORE"},
}
SHELL = {"bash", "console", "sh"}
OPERATORS = {"|", "<", ">", "&&", ";", "&"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [block for page in pages() for block in blocks_of(page) if block.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield Block(page, text[: match.start()].count("\n") + 1, match[1], match[2])


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each `air` command of a block: after "$ " in a session, at the start of a line in a script."""
    prompt = "$ " if "$ " in block.text else ""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith(f"{prompt}air "):
            text = re.sub(r"\$\([^)]*\)", "substituted", line.removeprefix(prompt))
            words = shlex.split(text, comments=True)
            yield words[1 : next((i for i, word in enumerate(words) if word in OPERATORS), None)]


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_a_workload_in_the_docs_loads(block: Block) -> None:
    whole = REST | dict(yaml.safe_load(block.text))
    missing = [key for key in REST if key not in yaml.safe_load(block.text)]
    text = block.text + yaml.safe_dump({key: whole[key] for key in missing}) if missing else block.text
    load_text(text, file=str(block), base_dir=ROOT, check_files=False)


@pytest.mark.parametrize("file", [f for f in project_files(".yaml") if ROOT / "examples" in f.parents], ids=name_of)
def test_an_example_loads(file: Path) -> None:
    load_workload(file)


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_a_configuration_in_the_docs_loads(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(block.text, encoding="utf-8")
    profiles, default = load_profiles({"AIR_CONFIG": str(file)})
    assert default in profiles
    for profile in profiles.values():
        make_backend(profile.backend, Home(tmp_path), profile.options)


@pytest.mark.parametrize("block", [block for block in blocks(*SHELL) if "air " in block.text], ids=str)
def test_a_command_in_the_docs_parses(block: Block) -> None:
    for line in commands(block):
        words = split(line)
        if words.first is None or {"-h", "--help"} & set(words.options):
            continue
        typed = (words.first, *words.after)
        length = next(length for length in (3, 2, 1) if " ".join(typed[:length]) in COMMANDS)
        name, rest = " ".join(typed[:length]), typed[length:]
        command = load(name)
        rest = rest[1:] if command.noun and rest[:1] == (command.noun,) else rest
        command.parser().read([*words.before, *rest])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_guide(name: str) -> None:
    guides = [page for page in pages() if DOCS / "guides" in page.parents]
    assert any(re.search(rf"\bair {name}\b", page.read_text(encoding="utf-8")) for page in guides)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = [
        target for target in LINK.findall(text) if not re.match("[a-z]+:", target) and not leads_somewhere(page, target)
    ]
    assert broken == []


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    if not file.exists():
        return False
    return not anchor or anchor in anchors(file)


def anchors(page: Path) -> set[str]:
    """What a heading can be linked by."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
        waiting += [page.parent / target.partition("#")[0] for target in targets if not re.match("[a-z]+:|#", target)]
    assert [name_of(page) for page in pages() if page.resolve() not in seen] == []


def test_the_generated_reference_is_current() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
