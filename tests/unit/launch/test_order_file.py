from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airlane.launch.order import ContainerOrder, Order
from airlane.launch.order_file import parse_object, read_order

ORDER = Order(
    run_id="7k2m9q4d",
    attempt=0,
    node_rank=1,
    command_file="/a b/command.sh",
    working_folder='it\'s\na "folder" – ü',
    log_file="0.log",
    record_file="0.json",
    env={"A": "1", "B": 'quote " and \\ and \n'},
    secrets_files=("/a b/secrets.json",),
    gpus=("0", "GPU-1"),
    scratch_folders=("/tmp/air-1",),
    stop_grace_s=2.5,
)


def test_the_agents_quick_reader_finds_every_field(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(ORDER.to_json())
    assert vars(read_order(str(path))) == asdict(ORDER)
    assert Order.from_json(ORDER.to_json()) == ORDER


def test_a_container_is_part_of_an_order(tmp_path: Path) -> None:
    container = ContainerOrder("/a.tar", is_archive=True, digests=("sha256:1",), mounts=("/a:/b:ro",))
    order = replace(ORDER, container=container)
    path = tmp_path / "order.json"
    path.write_text(order.to_json())
    assert vars(read_order(str(path)).container) == json.loads(order.to_json())["container"]
    assert Order.from_json(order.to_json()) == order


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=30)
@given(st.dictionaries(st.text(), JSON))
def test_objects_read_as_json_reads_them(value: dict[str, object]) -> None:
    import json

    assert parse_object(json.dumps(value)) == value
    assert parse_object(f" {json.dumps(value, indent=2, ensure_ascii=False)}\n") == value


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '{"a": }', "{} {}", "{'a': 1}", '{"a": 1}x'])
def test_anything_else_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_object(text)
