"""Files on disk: what is read at all, where paths start, and what the text of a loaded workload is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import Problem, SpecError
from airlane.spec.load import Loaded, load, load_text

Read = Callable[..., Loaded]

TEXT = """\
# A comment that stays.
experiment_name: demo
command: |
  echo "it's ${{x}}"   # not a comment
compute: {num_accelerators: "2", accelerator_type: CPU_2xCORE}
code_source: {root_path: .}
"""


def refused(path: Path) -> Problem:
    with pytest.raises(SpecError) as caught:
        load(path)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def test_paths_are_relative_to_the_file_and_not_to_the_caller(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "train.yaml").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(folder / "src")
    loaded = load(Path("../train.yaml"))
    assert loaded.workload.code_source is not None
    assert loaded.workload.code_source.root_path == folder
    assert loaded.file == "../train.yaml"


def test_the_text_is_kept_to_the_letter(folder: Path) -> None:
    path = folder / "train.YML"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    loaded = load(path)
    assert loaded.text == TEXT.replace("\n", "\r\n")
    assert loaded.workload.command == 'echo "it\'s ${{x}}"   # not a comment\n'
    assert load_text(loaded.text, file="x", base_dir=loaded.base_dir).workload == loaded.workload


def test_other_endings_are_refused(folder: Path) -> None:
    path = folder / "train.json"
    path.write_text(TEXT, encoding="utf-8")
    problem = refused(path)
    assert problem.message == "expected a file that ends in .yaml or .yml"
    assert problem.file == str(path)


def test_a_missing_file_suggests_its_neighbour(folder: Path) -> None:
    (folder / "train.yaml").write_text(TEXT, encoding="utf-8")
    problem = refused(folder / "trian.yaml")
    assert (problem.message, problem.hint) == ("there is no such file", f"Did you mean {folder}/train.yaml?")
    assert refused(folder / "nowhere" / "train.yaml").hint == f"There is no folder {folder}/nowhere."
    assert refused(folder / "qqqq.yaml").hint is None


def test_the_ending_of_a_name_alone_suggests_no_file(folder: Path) -> None:
    assert refused(folder / "nosuch.yaml").hint is None


def test_what_is_no_readable_text_is_refused(folder: Path) -> None:
    (folder / "folder.yaml").mkdir()
    (folder / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (folder / "large.yaml").write_bytes(b"# " + b"x" * 1024 * 1024)
    (folder / "loop.yaml").symlink_to("loop.yaml")
    assert refused(folder / "folder.yaml").message == "cannot be read: it is a folder"
    assert refused(folder / "latin.yaml").message == "cannot be read: it is not UTF-8 text (line 2)"
    assert refused(folder / "large.yaml").message == "cannot be read: it is larger than 1 MB"
    assert refused(folder / "loop.yaml").message == "cannot be read: too many levels of symbolic links"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_read_permission_is_refused(folder: Path) -> None:
    path = folder / "secret.yaml"
    path.write_text(TEXT, encoding="utf-8")
    path.chmod(stat.S_IWUSR)
    assert refused(path).message == "cannot be read: permission denied"


def test_a_file_of_just_under_one_megabyte_is_read(folder: Path) -> None:
    path = folder / "train.yaml"
    path.write_text(TEXT + "# " + "x" * (1024 * 1024 - len(TEXT) - 2), encoding="utf-8")
    assert load(path).workload.experiment_name == "demo"


def test_paths_are_taken_on_trust_where_asked(folder: Path) -> None:
    text = TEXT.replace("root_path: .", "root_path: gone, include_paths: [gone]")
    text += "environment: {dependencies: gone.txt}\n"
    workload = load_text(text, file="run", base_dir=folder, check_files=False).workload
    assert workload.code_source is not None
    assert workload.code_source.root_path == folder / "gone"
    assert workload.environment.dependencies == ()


def test_two_readings_do_not_share_anything(read: Read) -> None:
    first, second = read("env_variables: {A: 1}"), read("env_variables: {A: 1}")
    assert first.workload == second.workload
    assert first.workload.env_variables is not second.workload.env_variables
