"""Every fragment of the changelog is one that a release will pick up."""

from __future__ import annotations

import subprocess
import sys

from house.repository import ROOT

NO_FRAGMENTS = {"README.md", "template.md.jinja"}
FRAGMENTS = sorted(file for file in (ROOT / "changelog").iterdir() if file.name not in NO_FRAGMENTS)
KINDS = {"feature", "bugfix", "doc", "removal"}


def test_fragments_are_named_after_their_kind() -> None:
    misnamed = [file.name for file in FRAGMENTS if file.suffix != ".md" or file.name.split(".")[-2] not in KINDS]
    assert misnamed == []


def test_fragments_are_a_sentence_or_two() -> None:
    unfit = [
        file.name
        for file in FRAGMENTS
        if not (text := file.read_text(encoding="utf-8").strip()).endswith(".") or len(text) > 500 or "\n\n" in text
    ]
    assert unfit == []


def test_a_release_would_list_every_fragment() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "1.2.3", "--date", "2026-01-02"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    news = " ".join(done.stdout.split())
    left_out = [f.name for f in FRAGMENTS if " ".join(f.read_text(encoding="utf-8").split()) not in news]
    assert left_out == []
