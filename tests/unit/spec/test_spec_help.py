"""`air -h config[.a.b]`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from airlane.spec.help_text import EXAMPLE, describe, find_entry, topics
from airlane.spec.load import load_text

COMPUTE_NUM = """\
compute.num_accelerators, for example:

  compute:
    num_accelerators: 8

How many accelerators in all; a whole number of nodes.

Takes: a whole number, 1 or more
Has to be there.
"""


def test_a_field_is_shown_whole() -> None:
    assert describe("config.compute.num_accelerators") == COMPUTE_NUM


def test_the_overview_begins_with_an_example_and_names_every_field() -> None:
    text = describe()
    assert text == describe("config")
    assert text.startswith("A workload file, for example:\n\n  experiment_name: sft-qwen\n")
    for topic in topics():
        if topic.count(".") == 1:
            assert f"\n  {topic.removeprefix('config.')} " in f"{text} ".replace("\n", " \n")


@pytest.mark.parametrize("topic", topics())
def test_every_topic_fits_80_columns_and_begins_with_an_example(topic: str) -> None:
    lines = describe(topic).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("There is no"))
    assert lines[0].endswith("for example:")
    assert lines[2].startswith("  ")


@pytest.mark.parametrize("topic", topics()[1:])
def test_every_example_is_yaml_of_that_field(topic: str) -> None:
    name = topic.removeprefix("config.")
    block = describe(topic).split("\n\n")[1]
    value = yaml.safe_load(block)
    for step in name.split("."):
        value = value[step]


def test_the_nested_dialect_and_list_items_are_topics_too() -> None:
    assert find_entry("code_source.snapshot.git.branch") is find_entry("code_source.git.branch")
    assert find_entry("permissions[].level") is find_entry("permissions.level")
    assert describe("config.code_source.snapshot.root_path").startswith("code_source.snapshot.root_path, for example:")


def test_defaults_and_owned_names_are_told() -> None:
    assert "Default: 3" in describe("config.max_retries")
    assert "MASTER_ADDR" in describe("config.env_variables")
    assert "hosted service only" in describe("config.permissions")


def test_an_unknown_topic_prints_the_topics() -> None:
    text = describe("config.compute.num_acelerators")
    assert text.endswith(
        "\n\nThere is no field compute.num_acelerators. Did you mean `config.compute.num_accelerators`?\n"
    )
    assert all(f"\n  {topic}\n" in text for topic in topics())


def test_a_mistyped_config_is_guessed() -> None:
    assert describe("confg").endswith("There is no field confg. Did you mean `config`?\n")


def test_the_example_is_a_valid_workload(tmp_path: Path) -> None:
    loaded = load_text(EXAMPLE, file="example.yaml", base_dir=tmp_path)
    assert loaded.workload.compute.num_accelerators == 8
