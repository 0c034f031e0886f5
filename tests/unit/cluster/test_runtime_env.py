"""Reading a runtime environment, with what it names on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airlane.cluster.runtime_env import check, from_json, from_yaml, is_address, with_files
from airlane.errors import ArgumentError


def test_json_is_read_as_it_stands() -> None:
    assert from_json('{"env_vars": {"A": "ü"}, "pip": ["x"]}', "--runtime-env-json") == {
        "env_vars": {"A": "ü"},
        "pip": ["x"],
    }


def test_a_mistake_in_json_is_shown_where_it_is() -> None:
    with pytest.raises(ArgumentError) as caught:
        from_json('{"env_vars": {A: "1"}}', "--runtime-env-json")
    assert caught.value.message == (
        "--runtime-env-json is not JSON: expecting property name enclosed in double quotes, at line 1, column 15\n"
        '  {"env_vars": {A: "1"}}\n'
        "                ^"
    )


@pytest.mark.parametrize(("text", "column"), [("", 1), ("{", 2), ('{"a": 1}\n}', 1)])
def test_a_mistake_at_the_end_is_shown_there(text: str, column: int) -> None:
    with pytest.raises(ArgumentError, match=f"column {column}"):
        from_json(text, "--metadata")


@pytest.mark.parametrize("text", ["[]", '"x"', "3", "null"])
def test_json_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--metadata: expected fields with values, got"):
        from_json(text, "--metadata")


def test_yaml_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "env.yaml"
    file.write_text("working_dir: .\nenv_vars: {A: ünï}\n")
    assert from_yaml(file) == {"working_dir": ".", "env_vars": {"A": "ünï"}}
    file.write_text("# nothing\n")
    assert from_yaml(file) == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [", "is not YAML"),
        (b"- a\n", "expected fields with values"),
        (b"\xff", "is not UTF-8"),
        (b"1: 2", "fields"),
    ],
)
def test_yaml_of_another_form_is_refused_and_its_file_named(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "env.yaml"
    file.write_bytes(content)
    with pytest.raises(ArgumentError, match=words) as caught:
        from_yaml(file)
    assert str(file) in caught.value.message
    with pytest.raises(ArgumentError, match="cannot be read: no such file"):
        from_yaml(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"env_vars": {"A": 1}}, "env_vars.A: expected text, got 1"),
        ({"env_vars": ["A"]}, "env_vars: expected fields"),
        ({"excludes": "*.log"}, "excludes: expected a list of texts"),
        ({"py_modules": [1]}, "py_modules: expected a list of texts"),
        ({"working_dir": 3}, "working_dir: expected a folder"),
    ],
)
def test_what_the_cluster_would_refuse_only_at_the_start_is_refused_at_once(env: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        check(env)


def test_what_is_empty_is_no_mistake() -> None:
    check({"env_vars": None, "excludes": None, "py_modules": [], "working_dir": None})
    check({})


def test_requirements_are_read_here_because_the_cluster_has_no_such_file(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("# what is needed\neinops==0.8.1\n\nfsspec>=2024\n")
    packages = ["einops==0.8.1", "fsspec>=2024"]
    assert with_files({"pip": str(file)}) == {"pip": packages}
    assert with_files({"uv": str(file), "env_vars": {}}) == {"uv": packages, "env_vars": {}}
    assert with_files({"pip": {"packages": str(file), "pip_check": True}}) == {
        "pip": {"packages": packages, "pip_check": True}
    }
    assert with_files({"pip": ["x"], "uv": {"packages": ["y"]}}) == {"pip": ["x"], "uv": {"packages": ["y"]}}


def test_requirements_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"pip: .*none\.txt cannot be read: no such file") as caught:
        with_files({"pip": str(tmp_path / "none.txt")})
    assert caught.value.hint == 'a list of packages is written pip: ["einops==0.8.1"]'


def test_a_conda_environment_in_a_file_is_read_and_a_name_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "conda.yml"
    file.write_text("dependencies: [python=3.11]\n")
    assert with_files({"conda": str(file)}) == {"conda": {"dependencies": ["python=3.11"]}}
    assert with_files({"conda": "my-env"}) == {"conda": "my-env"}


@pytest.mark.parametrize(
    ("code", "expected"), [("s3://b/c.zip", True), ("local:///code", True), (".", False), ("/a:b", False)]
)
def test_an_address_is_told_from_a_path(code: str, expected: bool) -> None:
    assert is_address(code) is expected
