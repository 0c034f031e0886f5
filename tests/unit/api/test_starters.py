"""The folders that `air init` writes."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import airlane
from airlane.api.starters import STARTERS, starter_contents, write_starter
from airlane.errors import AirError, ConflictError
from airlane.spec.load import load

LINK = re.compile(r"\[[^\]]+\]\(([^)\s#]+)")


@pytest.mark.parametrize("kind", STARTERS)
def test_a_folder_has_a_workload_that_loads_and_takes_the_folder_as_its_code(kind: str, tmp_path: Path) -> None:
    written = write_starter(kind, tmp_path / "a 'new' dïr")
    workload = load(written.workload).workload
    assert workload.code_source is not None
    assert (written.folder / workload.code_source.root_path).resolve() == written.folder
    assert "README.md" in written.files


@pytest.mark.parametrize("kind", STARTERS)
def test_the_files_are_those_that_are_told_and_no_bytecode(kind: str, tmp_path: Path) -> None:
    written = write_starter(kind, tmp_path / "new")
    found = sorted(file.relative_to(written.folder).as_posix() for file in written.folder.rglob("*") if file.is_file())
    assert found == list(written.files)
    assert [name for name in found if "__pycache__" in name or "/." in name or name.startswith(".")] == []


@pytest.mark.parametrize("kind", STARTERS)
def test_every_import_of_a_recipe_finds_its_module_in_the_folder(kind: str) -> None:
    contents = starter_contents(kind)
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in contents}
    missing = {
        f"{name}: {module}"
        for name, content in contents.items()
        if name.endswith(".py")
        for module in imported_recipes(content)
        if module not in modules
    }
    assert missing == set()


def imported_recipes(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "recipes")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recipes":
            yield node.module or ""


@pytest.mark.parametrize("kind", STARTERS)
def test_what_a_folder_says_about_places_is_right_in_it(kind: str) -> None:
    contents = starter_contents(kind)
    page, workload = (contents[name].decode() for name in ("README.md", "train.yaml"))
    assert [link for link in LINK.findall(page) if ":" not in link and link not in contents] == []
    assert [text for text in (page, workload) if "recipes/" in text and "train.yaml" in text.split("recipes/")[1]] == []
    assert "root_path: .\n" in workload.replace("  # ", "\n").replace(" #", "\n")
    assert "../" not in workload


def test_links_of_a_page_lead_to_where_the_files_are_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tmp_path / "airlane" / "starters" / "recipes" / "batch"
    (recipe.parent / "engine" / "data").mkdir(parents=True)
    (recipe.parent / "engine" / "data" / "rows.py").touch()
    (recipe / "__pycache__").mkdir(parents=True)
    (recipe / "__pycache__" / "settings.cpython-311.pyc").touch()
    (recipe / "settings.py").touch()
    (recipe / "train.yaml").write_text(
        "# yaml-language-server: $schema=../../x.json\n#\n# air run -f recipes/batch/train.yaml\n"
        "code_source: {root_path: ../..}\n",
        encoding="utf-8",
    )
    (recipe / "README.md").write_text(
        "[this](train.yaml#top) [s](settings.py) [r](../engine/data/rows.py) [guide](../../docs/guides/x.md) "
        "[web](https://example.org) [up](#top)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(airlane, "__file__", str(tmp_path / "airlane" / "__init__.py"))
    contents = starter_contents("batch")
    assert list(contents) == ["README.md", "recipes/batch/settings.py", "recipes/engine/data/rows.py", "train.yaml"]
    assert contents["train.yaml"] == b"# air run -f train.yaml\ncode_source: {root_path: .}\n"
    assert contents["README.md"].decode() == (
        "[this](train.yaml#top) [s](recipes/batch/settings.py) [r](recipes/engine/data/rows.py) guide "
        "[web](https://example.org) [up](#top)\n"
    )


def test_an_empty_folder_is_filled_and_stays_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o700)
    before = empty.stat()
    monkeypatch.chdir(empty)
    assert write_starter("command", Path()).workload == Path("train.yaml")
    assert Path("train.yaml").is_file()
    after = empty.stat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert list(tmp_path.iterdir()) == [empty]


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.yaml").write_text("mine", encoding="utf-8")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConflictError, match="mine is not empty") as refused:
        write_starter("command", tmp_path / "mine")
    assert refused.value.hint == f"air init command {tmp_path / 'mine-command'}"
    for name in ("file", "dangling"):
        with pytest.raises(ConflictError, match="is there already, and is no folder"):
            write_starter("command", tmp_path / name)
    assert (tmp_path / "mine" / "train.yaml").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_another_folder_is_proposed_as_a_shell_reads_it(tmp_path: Path) -> None:
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "mine.txt").touch()
    with pytest.raises(ConflictError) as refused:
        write_starter("command", tmp_path / "my models")
    assert refused.value.hint == f"air init command '{tmp_path}/my models-command'"


@pytest.mark.parametrize("below", ["new", "deep/er/new"])
def test_what_is_above_the_folder_and_is_none_is_named(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("file", "circle"):
        with pytest.raises(
            AirError, match=rf"/{name}/{below} cannot be written: {tmp_path}/{name} is no folder"
        ) as told:
            write_starter("command", tmp_path / name / below)
        assert told.value.hint == "air init command FOLDER   with a folder elsewhere"


def test_a_name_that_no_folder_can_have_is_told_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(AirError, match="n cannot be written: file name too long") as told:
        write_starter("command", tmp_path / ("n" * 300))
    assert told.value.hint == "air init command FOLDER   with a folder elsewhere"


def test_a_folder_that_may_not_be_read_is_told_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)  # root, who may run this, may read everything
    with pytest.raises(AirError, match="cannot be written: permission denied") as told:
        write_starter("command", tmp_path)
    assert told.value.hint == "air init command FOLDER   with a folder elsewhere"


@pytest.mark.parametrize("exists", [False, True])
def test_what_appears_in_a_folder_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exists: bool
) -> None:
    if exists:
        (tmp_path / "new").mkdir()
    write = Path.write_bytes

    def write_and_race(file: Path, content: bytes) -> int:
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / "new" / "train.yaml").write_text("theirs", encoding="utf-8")
        return write(file, content)

    monkeypatch.setattr(Path, "write_bytes", write_and_race)
    with pytest.raises(AirError, match="new cannot be written: directory not empty"):
        write_starter("command", tmp_path / "new")
    assert [file.name for file in tmp_path.rglob("*")] == ["new", "train.yaml"]
    assert (tmp_path / "new" / "train.yaml").read_text(encoding="utf-8") == "theirs"


@pytest.mark.parametrize("exists", [False, True])
def test_nothing_half_written_is_left_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exists: bool
) -> None:
    written: list[Path] = []
    write = Path.write_bytes

    def write_until_full(file: Path, content: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        written.append(file)
        return write(file, content)

    new = tmp_path / "new"
    if exists:
        new.mkdir()
    monkeypatch.setattr(Path, "write_bytes", write_until_full)
    with pytest.raises(AirError, match=r"new cannot be written: no space left on device"):
        write_starter("command", new)
    assert list(tmp_path.rglob("*")) == ([new] if exists else [])


def test_folders_above_are_made(tmp_path: Path) -> None:
    assert write_starter("command", tmp_path / "a" / "b").workload.is_file()
