"""The part that travels to the nodes: whole, old enough, and light."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import airlane.ranks
from airlane.ranks.kit import FILES, build_kit

RANKS = Path(airlane.ranks.__file__).parent
PACKAGE = RANKS.parent
ALLOWED = {"airlane", "ray", "torch"}


@pytest.mark.parametrize("file", sorted(RANKS.rglob("*.py")), ids=lambda file: file.name)
def test_ranks_are_written_for_the_oldest_python_that_a_workload_may_have(file: Path) -> None:
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("file", sorted(RANKS.rglob("*.py")), ids=lambda file: file.name)
def test_ranks_need_ray_and_torch_and_nothing_else_that_is_installed(file: Path) -> None:
    modules = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or ".")
    own = ("airlane.errors", "airlane.launch", "airlane.ranks")
    foreign = [name for name in modules if name.split(".")[0] not in sys.stdlib_module_names | ALLOWED]
    assert foreign == []
    assert [name for name in modules if name.startswith("airlane") and not name.startswith(own)] == []


def test_what_travels_to_the_nodes_is_whole(tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(build_kit())).extractall(tmp_path)
    modules = [name.removesuffix(".py").replace("/", ".") for name in FILES if not name.endswith("__init__.py")]
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import " + ", ".join(f"airlane.{m}" for m in modules)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_travels_to_the_nodes_is_small() -> None:
    assert len(build_kit()) < 40_000


def test_the_seat_is_one_file_that_needs_nothing_of_airlane() -> None:
    tree = ast.parse((RANKS / "seat.py").read_text(encoding="utf-8"))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [module for module in modules if module.startswith("airlane")] == []


@pytest.mark.parametrize("words", [["-I", "-S", str(RANKS / "bin" / "start.py"), "--help"]])
def test_help_is_shown_by_a_bare_python_without_ray(words: list[str]) -> None:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("air-ranks --nodes 2 --gpus-per-node 8 train.py")


def test_the_script_finds_its_package_from_any_folder_and_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "with space"
    link.mkdir()
    (link / "air-ranks").symlink_to(RANKS / "bin" / "air-ranks")
    env = {"PATH": f"{link}:{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(["air-ranks", "--nodes"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected one argument" in done.stderr


def test_ray_is_not_imported_before_a_command_line_is_right() -> None:
    program = (
        "import sys; from airlane.ranks.main import main; main(['--nodes', 'x', 'y.py']); print('ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
