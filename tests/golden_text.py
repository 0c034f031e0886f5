"""Screens compared whole with files in tests/golden; AIR_WRITE_GOLDEN=1 writes them anew, to be read in the diff."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Fail unless `text` is exactly what tests/golden/<name> holds."""
    file = FOLDER / name
    if os.environ.get("AIR_WRITE_GOLDEN"):
        file.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == file.read_text(encoding="utf-8")
