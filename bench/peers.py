"""Other tools, each in an environment of its own under the user's cache folder; never a dependency of Airlane."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TORCHX = "torchx==0.7.0"
ROOT = Path(__file__).resolve().parent.parent


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airlane-bench"


def torchx() -> Path | None:
    """The torchx command, installed when first needed; None where it cannot be."""
    folder = cache_folder() / TORCHX
    command = folder / "bin" / "torchx"
    if command.exists():
        return command
    uv = Path(sys.executable).parent / "uv"
    settings: list[str | Path] = [sys.executable, ROOT / "tools" / "uv_settings.py"]
    install = [*settings, uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", folder, TORCHX]
    try:
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        subprocess.run(install, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{TORCHX} cannot be installed, and is left out: {error}", file=sys.stderr)
        return None
    return command
