"""What `air top` remembers from one time to the next: how it looks."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

DEFAULT_THEME = "dark"


@dataclass(frozen=True, slots=True)
class Settings:
    """What was chosen with keys."""

    theme: str = DEFAULT_THEME


def read_settings(file: Path | None) -> Settings:
    """What the file says. One that is missing, damaged or of another kind is as good as none."""
    if file is None:
        return Settings()
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return Settings()
    theme = told.get("theme") if isinstance(told, dict) else None
    return Settings(theme=theme) if isinstance(theme, str) else Settings()


def write_settings(file: Path | None, settings: Settings) -> None:
    """Whole or not at all. Where it cannot be written, the choice holds for this time."""
    if file is None:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as scratch:
                json.dump(asdict(settings), scratch)
            Path(name).replace(file)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
