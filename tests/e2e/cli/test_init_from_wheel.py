"""`air init` where Airlane was installed from a wheel, far from any repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airlane.api.starters import starter_contents

ROOT = Path(__file__).parents[3]
UV: list[str | Path] = [sys.executable, ROOT / "tools" / "uv_settings.py", Path(sys.executable).with_name("uv")]


def run(*words: str | Path, folder: Path, home: Path | None = None) -> str:
    env = {**os.environ, **({"AIR_HOME": str(home), "AIR_CONFIG": str(home / "config.toml")} if home else {})}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_installed_air_writes_the_same_folders_and_they_run(tmp_path: Path) -> None:
    run(*UV, "build", "--wheel", "--quiet", "--out-dir", tmp_path / "dist", ROOT, folder=tmp_path)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    run(*UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", folder=tmp_path)
    python, air = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "air"
    run(*UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, wheel, folder=tmp_path)

    for kind in [kind["kind"] for kind in json.loads(run(air, "init", "--json", folder=tmp_path))["data"]["kinds"]]:
        run(air, "init", kind, kind, folder=tmp_path)
        found = {
            file.relative_to(tmp_path / kind).as_posix() for file in (tmp_path / kind).rglob("*") if file.is_file()
        }
        assert found == set(starter_contents(kind))

    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('[profiles.local]\ntracking_uri = "none"\n', encoding="utf-8")
    said = run(air, "run", "-f", "command/train.yaml", "--watch", folder=tmp_path, home=home)
    assert said.splitlines()[-1].startswith("step  200  loss 0.000000")
