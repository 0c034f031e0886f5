"""The JSON Schema that editors use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from airlane.spec.help_text import EXAMPLE, walk
from airlane.spec.json_schema import SCHEMA_URI, json_schema
from airlane.spec.models import Workload

Fits = Callable[[Any, dict[str, Any]], bool]


def changed(**fields: Any) -> dict[str, Any]:
    compute = {"num_accelerators": 8, "accelerator_type": "GPU_8xH100"}
    return {"experiment_name": "demo", "command": "echo hi", "compute": compute, **fields}


def test_it_is_json_of_the_2020_draft() -> None:
    schema = json.loads(json.dumps(json_schema()))
    assert schema["$schema"] == SCHEMA_URI == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["experiment_name", "command", "compute"]


def test_the_example_of_the_help_is_valid(fits_schema: Fits) -> None:
    assert fits_schema(yaml.safe_load(EXAMPLE), json_schema())


def test_every_field_has_a_description_and_a_valid_example(fits_schema: Fits) -> None:
    def look(schema: dict[str, Any]) -> None:
        for name, inner in schema["properties"].items():
            assert inner["description"], name
            assert inner["examples"], name
            assert all(fits_schema(example, inner) for example in inner["examples"]), name

    schema = json_schema()
    look(schema)
    for section in ("compute", "environment"):
        look(schema["properties"][section])
    look(schema["properties"]["code_source"]["anyOf"][0])
    look(schema["properties"]["permissions"]["items"])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"compute": {"num_accelerators": "8", "accelerator_type": "GPU_8xH100"}},
        {"compute": {"num_accelerators": 3, "accelerator_type": "CPU_3xCORE", "priority_class": None}},
        {"environment": None},
        {"environment": {"version": 5, "dependencies": []}},
        {"environment": {"version": "databricks_AI_v6", "dependencies": "needs.yaml"}},
        {"environment": {"docker_image": {"url": "a", "tag_policy": "latest"}}},
        {"code_source": {"root_path": "."}},
        {
            "code_source": {
                "type": "snapshot",
                "snapshot": {"root_path": ".", "git": {"branch": "main", "remote": True}},
            }
        },
        {"env_variables": {"A": 1, "B": "x", "C": True, "D": 0.5}},
        {"secrets": {"T": "s/k"}},
        {"parameters": {"a": None, "b": [1, {"c": 2}]}},
        {"x-anything": [1], "max_retries": 0, "timeout_minutes": "90", "idempotency_token": " a "},
    ],
    ids=str,
)
def test_it_accepts_what_is_valid(fits_schema: Fits, fields: dict[str, Any]) -> None:
    assert fits_schema(changed(**fields), json_schema())


@pytest.mark.parametrize(
    "fields",
    [
        {"comand": "x"},
        {"experiment_name": 1},
        {"experiment_name": "a b"},
        {"experiment_name": "x" * 101},
        {"command": ["echo"]},
        {"command": "  "},
        {"compute": {"num_accelerators": 8}},
        {"compute": {"num_accelerators": 0, "accelerator_type": "GPU_8xH100"}},
        {"compute": {"num_accelerators": 1.5, "accelerator_type": "GPU_8xH100"}},
        {"compute": {"num_accelerators": True, "accelerator_type": "GPU_8xH100"}},
        {"compute": {"num_accelerators": 8, "accelerator_type": "gpu_8xh100"}},
        {"environment": {"version": "AI7"}},
        {"environment": {"dependencies": [1]}},
        {"environment": {"docker_image": "a"}},
        {"code_source": {}},
        {"code_source": {"snapshot": {"root_path": "."}}},
        {"code_source": {"type": "snapshot", "root_path": "."}},
        {"env_variables": {"A": None}},
        {"env_variables": {"1A": "x"}},
        {"env_variables": {"PATH": "x"}},
        {"secrets": {"T": "key"}},
        {"parameters": [1]},
        {"max_retries": -1},
        {"timeout_minutes": 0},
        {"permissions": [{"level": "ALL"}]},
    ],
    ids=str,
)
def test_it_rejects_what_is_not(fits_schema: Fits, fields: dict[str, Any]) -> None:
    assert not fits_schema(changed(**fields), json_schema())


def test_no_field_is_left_out() -> None:
    names = {name.rpartition(".")[2] for name, _ in walk(Workload)}
    assert set(re.findall(r'"(\w+)": \{"description"', json.dumps(json_schema()))) == names
