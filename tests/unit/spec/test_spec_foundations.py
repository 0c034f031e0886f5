"""What the package promises to the rest: light imports, one list of bases, and current reference pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airlane.spec.bases import BASES, DEFAULT_BASE, PATTERN, find_base
from airlane.spec.runtime_variables import INSTEAD, RUNTIME_VARIABLES

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("asyncio", "difflib", "http", "json", "mlflow", "pydantic", "ray", "requests", "rich", "socket", "torch", "uv")


def test_reading_a_workload_imports_nothing_heavy() -> None:
    names = ", ".join(repr(name) for name in HEAVY)
    code = f"import sys, airlane.spec.load; print([name for name in ({names}) if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_reference_pages_are_current() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_page_is_named(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import generate_reference as reference\n"
        "from pathlib import Path; folder = Path(sys.argv[1])\n"
        "print(reference.main(['--check'], folder), reference.main([], folder), reference.main(['--check'], folder))\n"
        "(folder / 'workload.md').write_text('old'); print(reference.stale_pages(folder))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["1 0 0", "['workload.md']"]
    assert "docs/reference/workload.md is stale: run `make docs`" in done.stderr


@pytest.mark.parametrize("base", BASES)
def test_every_base_is_its_own_name_in_any_case(base: str) -> None:
    import re

    for name in (base, base.lower(), base.upper()):
        assert find_base(name) == base
        assert re.search(PATTERN, name)
    assert DEFAULT_BASE in BASES


def test_the_names_of_bases_are_those_that_environments_are_built_from() -> None:
    from airlane.environment import bases

    assert {name for name, base in bases.BASES.items() if not base.internal} == set(BASES)
    assert all(find_base(alias) == name for alias, name in bases.ALIASES.items())


def test_hints_are_for_variables_that_are_owned() -> None:
    assert set(INSTEAD) <= RUNTIME_VARIABLES
    assert "PYTHONUNBUFFERED" not in RUNTIME_VARIABLES
    assert "RANK" not in RUNTIME_VARIABLES
