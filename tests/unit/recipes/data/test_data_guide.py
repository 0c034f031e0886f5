"""The guide's rows are rows, and its settings are settings."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from recipes.engine.data.files import KNOWN
from recipes.engine.data.formats import FORMATS, document_of, recognized
from recipes.engine.data.rows import Corrupt, Place, Row
from recipes.engine.data.settings import Data

GUIDE = (Path(__file__).resolve().parents[4] / "docs" / "guides" / "training-data.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^\*\*(\w+)\*\*:.*?^```json\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def test_the_guide_shows_every_format() -> None:
    assert [kind for kind, _ in SECTIONS] == list(FORMATS)


@pytest.mark.parametrize(("kind", "block"), SECTIONS)
def test_rows_of_the_guide_are_of_the_format_that_it_says(kind: str, block: str) -> None:
    for number, line in enumerate(block.splitlines()):
        row = Row(Place("guide:", number), json.loads(line))
        assert recognized(row) == kind
        assert not isinstance(document_of(row, FORMATS[kind]), Corrupt)


def test_the_guide_names_settings_and_files_that_there_are() -> None:
    named = set(re.findall(r"`'?data\.(\w+)", GUIDE))
    assert named - {field.name for field in fields(Data)} == set()
    assert [suffix for suffix in KNOWN if suffix not in GUIDE] == []
