"""Every form that the workload file takes, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airlane.spec.json_schema import json_schema
from airlane.spec.load import Loaded
from airlane.spec.models import CodeSource, GitPin, Permission, SecretRef, Workload
from airlane.spec.ray_section import RaySpec

Read = Callable[..., Loaded]

POOL = "node_pool_id: p"


def compute(inner: str) -> str:
    return f"compute: {{{inner}}}"


def environment(inner: str) -> str:
    return f"environment:\n  {inner}"


# A row is a snippet, the attribute to look at, and its value.
ROWS: list[tuple[str, str, Any]] = [
    (f"experiment_name: {'x' * 100}", "experiment_name", "x" * 100),
    ("experiment_name: 2026-11-30", "experiment_name", "2026-11-30"),
    ("experiment_name: '12'", "experiment_name", "12"),
    ("command: |\n  echo hi\n  exit 3", "command", "echo hi\nexit 3\n"),
    ("command: >-\n  echo\n  hi", "command", "echo hi"),
    ("command: |\n" + "  :\n" * 1000, "command", ":\n" * 1000),
    (
        "command: 'echo ${{x}} ${X:-8} ${a[@]} ${x%.*} ${x//a/b} $(date)'",
        "command",
        "echo ${{x}} ${X:-8} ${a[@]} ${x%.*} ${x//a/b} $(date)",
    ),
    ("network: infiniband", "network", "infiniband"),
    (compute('num_accelerators: "2", accelerator_type: GPU_1xA10'), "compute.num_accelerators", 2),
    (compute("num_accelerators: 16, accelerator_type: GPU_8xH100"), "compute.nodes", 2),
    (compute("num_accelerators: 16, accelerator_type: GPU_8xB300"), "compute.accelerators_per_node", 8),
    (compute("num_accelerators: 3, accelerator_type: GPU_1xH100"), "compute.nodes", 3),
    (compute("num_accelerators: 4, accelerator_type: CPU_2xCORE"), "compute.nodes", 2),
    (compute("num_accelerators: 8, accelerator_type: GPU_4xANY"), "compute.nodes", 2),
    ("ray: {}", "ray", RaySpec()),
    ("ray:", "ray", None),
    (
        "ray: {num_cpus: 0, object_store_gb: 64, ready_timeout_minutes: 20, dashboard: public}",
        "ray",
        RaySpec(num_cpus=0, object_store_gb=64, ready_timeout_minutes=20, dashboard="public"),
    ),
    (compute("num_accelerators: 128, accelerator_type: CPU_64xCORE"), "compute.accelerators_per_node", 64),
    (compute(f"num_accelerators: 2, accelerator_type: a10, {POOL}"), "compute.nodes", 2),
    (compute(f"num_accelerators: 3, accelerator_type: h100_80gb, {POOL}"), "compute.accelerators_per_node", 3),
    (compute(f"num_accelerators: 16, accelerator_type: h100_80gb, {POOL}"), "compute.nodes", 2),
    (compute("num_accelerators: 1, accelerator_type: a10, pool_name: p"), "compute.pool_name", "p"),
    (
        compute("num_accelerators: 1, accelerator_type: GPU_1xA10, provisioned_capacity_id: c"),
        "compute.provisioned_capacity_id",
        "c",
    ),
    (
        compute("num_accelerators: 1, accelerator_type: GPU_1xA10, pool_id: p, priority_class: CRITICAL"),
        "queue_priority",
        100,
    ),
    (
        compute(
            "num_accelerators: 1, accelerator_type: GPU_1xA10, provisioned_capacity_id: c, priority_class: BEST_EFFORT"
        ),
        "queue_priority",
        -100,
    ),
    (compute(f"num_accelerators: 1, accelerator_type: a10, {POOL}") + "\npriority: 7", "queue_priority", 7),
    ("max_retries: 3", "queue_priority", 0),
    ("environment:", "environment.version", "4"),
    ("environment: {}", "environment.dependencies", None),
    ("max_retries: 3", "environment.version", "4"),
    (environment("version: 4"), "environment.version", "4"),
    (environment("version: '5'"), "environment.version", "5"),
    (environment("version: 6"), "environment.version", "6"),
    (environment("version: AI5"), "environment.version", "AI5"),
    (environment("version: ai6"), "environment.version", "AI6"),
    (environment("version: databricks_ai_v5\n  dependencies: []"), "environment.version", "AI5"),
    (environment("version: Databricks_AI_v6"), "environment.version", "AI6"),
    (environment("version: host"), "environment.version", "host"),
    (environment("version:"), "environment.version", "4"),
    (environment("version: 5\n  dependencies: []"), "environment.dependencies", ()),
    (environment("dependencies: [numpy>=2, '', ' torch ']"), "environment.dependencies", ("numpy>=2", "torch")),
    (
        environment("dependencies: [--index-url https://a/b, -r 'x.txt', ./a.whl, $PKG]"),
        "environment.dependencies",
        ("--index-url https://a/b", "-r 'x.txt'", "./a.whl", "$PKG"),
    ),
    (environment("dependencies: needs.yaml"), "environment.version", "AI5"),
    (environment("dependencies: needs.yaml"), "environment.dependencies", ("numpy", "-r more.txt")),
    (environment("dependencies: needs.txt"), "environment.dependencies", ("numpy>=2", "pandas >=2")),
    (environment("dependencies: ./src/../needs.txt"), "environment.version", "4"),
    (environment("dependencies: needs.yaml"), "environment.dependencies_file.name", "needs.yaml"),
    (environment("docker_image: {url: a/b:1}"), "environment.docker_image.tag_policy", "auto"),
    (environment("docker_image: {url: a/b:1, tag_policy: latest}"), "environment.docker_image.tag_policy", "latest"),
    (
        environment("docker_image: {url: a, credentials_scope: s, credentials_key: k}"),
        "environment.docker_image.credentials_key",
        "k",
    ),
    (environment("unity_catalog_image: main.img.train:v1.2"), "environment.unity_catalog_image", "main.img.train:v1.2"),
    (environment("custom_image_tag: custom:x"), "environment.custom_image_tag", "custom:x"),
    ("env_variables:", "env_variables", {}),
    ("secrets: {T: scope/key}", "secrets", {"T": SecretRef("scope", "key")}),
    ("secrets: {T: 's /k'}", "secrets", {"T": SecretRef("s ", "k")}),
    ("code_source:", "code_source", None),
    ("code_source: {root_path: src, include_paths: [deep]}", "code_source.include_paths", ("deep",)),
    (
        "code_source: {root_path: ., include_paths: ['a file', src/deep]}",
        "code_source.include_paths",
        ("a file", "src/deep"),
    ),
    (
        "code_source: {root_path: ., include_paths: [later], git: {branch: main}}",
        "code_source.include_paths",
        ("later",),
    ),
    ("code_source: {root_path: ., git: {branch: main}}", "code_source.git", GitPin(branch="main")),
    (
        "code_source: {root_path: ., git: {branch: a/b, remote: true}}",
        "code_source.git",
        GitPin(branch="a/b", remote=True),
    ),
    ("code_source: {root_path: ., git: {branch: m, remote: my-fork.x/y_z}}", "code_source.git.remote", "my-fork.x/y_z"),
    ("code_source: {root_path: ., git: {commit: 1234567}}", "code_source.git.commit", "1234567"),
    ("code_source: {root_path: ., git: {commit: 12e4567}}", "code_source.git.commit", "12e4567"),
    ("code_source: {root_path: ., git: {commit: HEAD}}", "code_source.git.commit", "HEAD"),
    ("code_source: {root_path: ., remote_volume: /Volumes/a/b}", "code_source.remote_volume", "/Volumes/a/b"),
    ("max_retries:", "max_retries", 3),
    ("max_retries: 0", "max_retries", 0),
    ("max_retries: 2147483647", "max_retries", 2147483647),
    ("timeout_minutes: 1", "timeout_minutes", 1),
    ("timeout_minutes: null", "timeout_minutes", None),
    ("idempotency_token: '  abc  '", "idempotency_token", "abc"),
    (f"idempotency_token: {'t' * 64}", "idempotency_token", "t" * 64),
    ("mlflow_run_name: " + "r" * 300, "mlflow_run_name", "r" * 300),
    ("mlflow_experiment_directory: /Workspace/x", "mlflow_experiment_directory", "/Workspace/x"),
    ("mlflow_artifact_location: s3://b/c", "mlflow_artifact_location", "s3://b/c"),
    ("mlflow_artifact_location: file:///mlflow/artifacts", "mlflow_artifact_location", "file:///mlflow/artifacts"),
    ("mlflow_artifact_location: /Volumes/a/b", "mlflow_artifact_location", "dbfs:/Volumes/a/b"),
    (
        "permissions: [{group_name: g, level: CAN_MANAGE_RUN}]",
        "permissions",
        (Permission(group_name="g", level="CAN_MANAGE_RUN"),),
    ),
    (f"usage_policy_name: {'p' * 127}", "usage_policy_name", "p" * 127),
    (
        "usage_policy_id: 123E4567-e89b-12d3-a456-426614174000",
        "usage_policy_id",
        "123E4567-e89b-12d3-a456-426614174000",
    ),
    ("job_type: standard", "job_type", "standard"),
    ("udp: {a: 1}", "udp", {"a": 1}),
    ("x-anything: {a: [1, *b]}".replace("*b", "2"), "experiment_name", "demo"),
]


@pytest.mark.parametrize(("snippet", "attribute", "expected"), ROWS, ids=[f"{row[0][:60]!r}" for row in ROWS])
def test_a_valid_form_is_read(read: Read, snippet: str, attribute: str, expected: Any) -> None:
    value: Any = read(snippet).workload
    for name in attribute.split("."):
        value = getattr(value, name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("snippet", [row[0] for row in ROWS], ids=[f"{row[0][:60]!r}" for row in ROWS])
def test_the_schema_accepts_every_valid_form(
    plain: Callable[[str], Any], fits_schema: Callable[[Any, dict[str, Any]], bool], snippet: str
) -> None:
    assert fits_schema(plain(snippet), json_schema())


@pytest.mark.parametrize("written", ["010", "yes", "1e-5", "0x1F", "1_000", "2026-11-30", "1:30", "~x", ".5", "${{x}}"])
def test_an_env_variable_is_the_text_as_written(read: Read, written: str) -> None:
    assert read(f"env_variables:\n  A: {written}").workload.env_variables == {"A": written}


def test_an_env_variable_may_be_empty_or_have_lines(read: Read) -> None:
    text = 'env_variables:\n  A: ""\n  B: |\n    one\n    two\n  PYTHONUNBUFFERED: 0\n  RANK: 1'
    expected = {"A": "", "B": "one\ntwo\n", "PYTHONUNBUFFERED": "0", "RANK": "1"}
    assert read(text).workload.env_variables == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1e-3", 0.001), ("1E5", 100000.0), ("010", 8), ("0x1f", 31), ("0b11", 3),
        ("1_000", 1000), ("-7", -7), ("0", 0), ("3.0", 3.0), (".5", 0.5), ("-.inf", float("-inf")),
        ("2026-11-30", "2026-11-30"), ("1:30", "1:30"),
        ("08", "08"), ("1.2.3", "1.2.3"), ("null", None), ("~", None), ("", None), ("yes", True), ("Off", False),
        ("'yes'", "yes"), ("!!str 12", "12"), ("!!float 1", 1.0), ("[1, [a, {b: c}]]", [1, ["a", {"b": "c"}]]),
        ("{}", {}), ("${{a.b}}", "${{a.b}}"), ("9" * 30, int("9" * 30)),
    ],
)  # fmt: skip
def test_a_parameter_has_the_value_that_yaml_gives_it(read: Read, written: str, expected: Any) -> None:
    parameters = read(f"parameters:\n  a: {written}").workload.parameters
    assert parameters == {"a": expected}
    assert type(parameters["a"]) is type(expected)


def test_parameter_keys_stay_text(read: Read) -> None:
    text = "parameters: {on: 1, yes: 2, no: 3, 010: 4, 1e-3: 5, a.b: 6, 'x y': {off: 7}}"
    expected = {"on": 1, "yes": 2, "no": 3, "010": 4, "1e-3": 5, "a.b": 6, "x y": {"off": 7}}
    assert read(text).workload.parameters == expected


def test_anchors_and_merge_keys_are_followed(read: Read) -> None:
    text = (
        "x-a: &a {A: '1', B: '2'}\nx-b: &b {B: '3', C: '4'}\n"
        "env_variables:\n  <<: [*a, *b]\n  C: '5'\nparameters: {one: &p {<<: *a, D: 1}, two: *p}"
    )
    workload = read(text).workload
    assert workload.env_variables == {"A": "1", "B": "2", "C": "5"}
    assert workload.parameters == {"one": {"A": "1", "B": "2", "D": 1}, "two": {"A": "1", "B": "2", "D": 1}}


def test_both_dialects_of_code_source_are_the_same(read: Read, folder: Path) -> None:
    inner = "root_path: src/../., include_paths: [src], git: {commit: abc1234}"
    flat = read(f"code_source: {{{inner}}}").workload
    nested = read(f"code_source: {{type: snapshot, snapshot: {{{inner}}}}}").workload
    assert flat == nested
    assert flat.code_source == CodeSource(root_path=folder, include_paths=("src",), git=GitPin(commit="abc1234"))


def test_root_path_takes_home_and_variables(read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIR_TEST_PART", "src")
    monkeypatch.setenv("HOME", str(folder))
    for written in ("$AIR_TEST_PART/deep", "${AIR_TEST_PART}/deep", "~/src/deep", "src/deep"):
        source = read(f"code_source: {{root_path: '{written}'}}").workload.code_source
        assert source is not None
        assert source.root_path == folder / "src" / "deep"


def test_root_path_follows_symlinks(read: Read, folder: Path) -> None:
    (folder / "link").symlink_to("src")
    source = read("code_source: {root_path: link}").workload.code_source
    assert source is not None
    assert source.root_path == folder / "src"


def test_hosted_only_fields_are_kept_and_named(read: Read) -> None:
    loaded = read(
        "permissions: [{user_name: a, level: IS_OWNER}]\nusage_policy_name: p\n"
        "mlflow_experiment_directory: /Workspace\n"
        "compute: {num_accelerators: 1, accelerator_type: GPU_1xA10, pool_id: 'q', priority_class: NORMAL}\n"
        "code_source: {type: snapshot, snapshot: {root_path: ., remote_volume: /Volumes/v}}\nudp: {a: [1]}"
    )
    assert loaded.hosted_only == {
        "permissions": [{"user_name": "a", "level": "IS_OWNER"}],
        "usage_policy_name": "p",
        "mlflow_experiment_directory": "/Workspace",
        "compute.pool_id": "q",
        "code_source.snapshot.remote_volume": "/Volumes/v",
        "udp": {"a": [1]},
    }
    assert loaded.warnings == (
        (
            "permissions, usage_policy_name, mlflow_experiment_directory, compute.pool_id, "
            "code_source.snapshot.remote_volume, udp: recorded, without effect here (hosted service only)"
        ),
    )


def test_a_workload_without_hosted_fields_warns_of_nothing(read: Read) -> None:
    loaded = read("max_retries: 1")
    assert (loaded.warnings, loaded.hosted_only) == ((), {})


def test_defaults_are_those_of_the_reference(read: Read) -> None:
    workload = read("x-nothing: here").workload
    assert workload == Workload(
        experiment_name="demo", command="echo hi", compute=workload.compute, max_retries=3, timeout_minutes=None
    )
