"""Give uv pip's index, find-links, certificate and proxy settings.

    python tools/uv_settings.py uv sync --frozen       runs the command with them
    env $(python tools/uv_settings.py) uv sync ...     the same, from a shell

The second form prints KEY=VALUE words, and nothing where pip is not configured; a value with a space in it (several
extra indexes) cannot be a word, and is left out there. pip's constraints are never passed on: a frozen lock must not
be disturbed. Needs Python >= 3.11 and nothing else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src" / "airlane" / "environment"))

import pip_settings


def main() -> None:
    settings = pip_settings.read(os.environ, prefix=Path(sys.prefix))
    variables = pip_settings.uv_variables(settings, os.environ)
    command = sys.argv[1:]
    if command:
        os.execvpe(command[0], command, {**os.environ, **variables})  # noqa: S606 - becomes the command the caller named
    for name, value in variables.items():
        if not any(character.isspace() for character in value):
            print(f"{name}={value}")


if __name__ == "__main__":
    main()
