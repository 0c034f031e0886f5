"""Every constraint of the workload file: the input that breaks it, where, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import Problem, SpecError
from airlane.spec.load import load_text

Refuse = Callable[..., tuple[Problem, ...]]

TYPES = "one of GPU_1xA10, GPU_1xH100, GPU_8xH100, GPU_8xB300, a10, h100_80gb, GPU_<n>xANY, CPU_<n>xCORE"
VERSIONS = "one of 4, 5, 6, AI5, AI6, host (databricks_ai_v5 is AI5)"
LONG = "x" * 101

# A row is a snippet, and its problem with the place in front.
EXPERIMENT = [
    ("experiment_name: 12", "1:1 experiment_name: expected text, got the number 12"),
    ("experiment_name: yes", "1:1 experiment_name: expected text, got the boolean yes"),
    ("experiment_name: [a]", "1:1 experiment_name: expected text, got a list"),
    ("experiment_name: {a: b}", "1:1 experiment_name: expected text, got a map"),
    ("experiment_name: team/demo", "1:1 experiment_name: expected letters, digits, - and _, got 'team/demo'"),
    ("experiment_name: 'a b'", "1:1 experiment_name: expected letters, digits, - and _, got 'a b'"),
    ("experiment_name: 'demo\n\n  '", "1:1 experiment_name: expected letters, digits, - and _, got 'demo'"),
    ("experiment_name: ''", "1:1 experiment_name: empty: expected letters, digits, - and _, at most 100 characters"),
    (f"experiment_name: {LONG}", "1:1 experiment_name: 101 characters; at most 100 are allowed"),
    (
        "experiment_name:",
        "1:1 experiment_name: missing: expected letters, digits, - and _, at most 100 characters",
    ),
]
COMMAND = [
    ("command: ' '", "1:1 command: empty: expected a shell script"),
    ("command: [echo, hi]", "1:1 command: expected text, got a list"),
    ("command: 5", "1:1 command: expected text, got the number 5"),
    ("command: |\n" + "  :\n" * 1001, "1:1 command: 1,001 lines; at most 1,000 are allowed"),
    ('command: "a\\0b"', "1:1 command: text cannot hold the character \\0"),
    ("command:", "1:1 command: missing: expected a shell script of at most 1000 lines"),
]


def compute(inner: str) -> str:
    return f"compute:\n  {inner}"


GPU = "num_accelerators: 8\n  accelerator_type: GPU_8xH100\n  "
COMPUTE = [
    ("compute: 8", "1:1 compute: expected a map (name: value), got the number 8"),
    (
        "compute:",
        (
            "1:1 compute: missing: expected a map with num_accelerators, accelerator_type, priority_class, "
            "pool_id, provisioned_capacity_id, node_pool_id, pool_name"
        ),
    ),
    (
        compute("accelerator_type: GPU_8xH100"),
        "1:1 compute.num_accelerators: missing: expected a whole number, 1 or more",
    ),
    (compute("num_accelerators: 8"), f"1:1 compute.accelerator_type: missing: expected {TYPES}"),
    (
        compute("accelerator_type: GPU_1xH100\n  num_accelerators: 0"),
        "3:3 compute.num_accelerators: expected a whole number, 1 or more, got 0",
    ),
    (
        compute("accelerator_type: GPU_1xH100\n  num_accelerators: -8"),
        "3:3 compute.num_accelerators: expected a whole number, 1 or more, got -8",
    ),
    (
        compute("accelerator_type: GPU_1xH100\n  num_accelerators: 1.5"),
        "3:3 compute.num_accelerators: expected a whole number, 1 or more, got the number 1.5",
    ),
    (
        compute("accelerator_type: GPU_1xH100\n  num_accelerators: true"),
        "3:3 compute.num_accelerators: expected a whole number, 1 or more, got the boolean true",
    ),
    (
        compute("accelerator_type: GPU_1xH100\n  num_accelerators: eight"),
        "3:3 compute.num_accelerators: expected a whole number, 1 or more, got the text 'eight'",
    ),
    (
        compute("accelerator_type: GPU_1xH100\n  num_accelerators: [8]"),
        "3:3 compute.num_accelerators: expected a whole number, 1 or more, got a list",
    ),
    (
        compute("accelerator_type: GPU_1xH100\n  num_accelerators: 9999999999"),
        "3:3 compute.num_accelerators: expected a whole number, 1 or more and at most 2,147,483,647, got 9999999999",
    ),
    (
        compute("num_accelerators: 12\n  accelerator_type: GPU_8xH100"),
        "2:3 compute.num_accelerators: 12 does not fill nodes of 8 (GPU_8xH100)",
    ),
    (
        compute("num_accelerators: 3\n  accelerator_type: CPU_2xCORE"),
        "2:3 compute.num_accelerators: 3 does not fill nodes of 2 (CPU_2xCORE)",
    ),
    (
        compute("num_accelerators: 12\n  accelerator_type: h100_80gb\n  pool_name: p"),
        "2:3 compute.num_accelerators: 12 does not fill nodes of 8 (h100_80gb)",
    ),
    (
        compute("num_accelerators: 8\n  accelerator_type: gpu_8xh100"),
        f"3:3 compute.accelerator_type: expected {TYPES}, got 'gpu_8xh100'",
    ),
    (
        compute("num_accelerators: 4\n  accelerator_type: GPU_4xH100"),
        f"3:3 compute.accelerator_type: expected {TYPES}, got 'GPU_4xH100'",
    ),
    (
        compute("num_accelerators: 1\n  accelerator_type: CPU_0xCORE"),
        f"3:3 compute.accelerator_type: expected {TYPES}, got 'CPU_0xCORE'",
    ),
    (
        compute("num_accelerators: 1\n  accelerator_type: a10"),
        "3:3 compute.accelerator_type: a10 needs node_pool_id or pool_name beside it",
    ),
    (
        compute("num_accelerators: 8\n  accelerator_type: h100_80gb"),
        "3:3 compute.accelerator_type: h100_80gb needs node_pool_id or pool_name beside it",
    ),
    (
        compute(GPU + "node_pool_id: p"),
        "4:3 compute.node_pool_id: goes with a10 and h100_80gb only, not with GPU_8xH100",
    ),
    (compute(GPU + "pool_name: p"), "4:3 compute.pool_name: goes with a10 and h100_80gb only, not with GPU_8xH100"),
    (
        compute("num_accelerators: 1\n  accelerator_type: CPU_1xCORE\n  pool_id: p"),
        "4:3 compute.pool_id: goes with GPU_* types only, not with CPU_1xCORE",
    ),
    (
        compute("num_accelerators: 1\n  accelerator_type: a10\n  pool_name: p\n  provisioned_capacity_id: c"),
        "5:3 compute.provisioned_capacity_id: goes with GPU_* types only, not with a10",
    ),
    (
        compute(GPU + "pool_id: a\n  provisioned_capacity_id: b"),
        "5:3 compute.provisioned_capacity_id: the same thing as pool_id",
    ),
    (
        compute(GPU + "priority_class: NORMAL"),
        "4:3 compute.priority_class: needs pool_id or provisioned_capacity_id beside it",
    ),
    (
        compute(GPU + "pool_id: p\n  priority_class: normal"),
        "5:3 compute.priority_class: expected one of BEST_EFFORT, NORMAL, CRITICAL, got 'normal'",
    ),
    (compute(GPU + "pool_id: ' '"), "4:3 compute.pool_id: empty: expected text"),
    (compute(GPU + "gpus: 8"), "4:3 compute.gpus: unknown field"),
]


def environment(inner: str) -> str:
    return f"environment:\n  {inner}"


ENVIRONMENT = [
    ("environment: AI5", "1:1 environment: expected a map (name: value), got the text 'AI5'"),
    (environment("version: abc"), f"2:3 environment.version: expected {VERSIONS}, got 'abc'"),
    (environment("version: 3"), f"2:3 environment.version: expected {VERSIONS}, got '3'"),
    (environment("version: 99"), f"2:3 environment.version: expected {VERSIONS}, got '99'"),
    (environment("version: 5.0"), f"2:3 environment.version: expected {VERSIONS}, got '5.0'"),
    (environment("version: AI7"), f"2:3 environment.version: expected {VERSIONS}, got 'AI7'"),
    (environment("version: databricks_ai_v4"), f"2:3 environment.version: expected {VERSIONS}, got 'databricks_ai_v4'"),
    (environment("version: true"), f"2:3 environment.version: expected {VERSIONS}, got 'true'"),
    (environment("version: [5]"), "2:3 environment.version: expected text, got a list"),
    (environment("dependencies: [numpy, 1]"), "2:25 environment.dependencies[1]: expected text, got the number 1"),
    (environment("dependencies:\n    - numpy\n    -\n"), "4:6 environment.dependencies[1]: expected text, got nothing"),
    (environment("dependencies: [[numpy]]"), "2:18 environment.dependencies[0]: expected text, got a list"),
    (
        environment("dependencies: {numpy: 2}"),
        "2:3 environment.dependencies: expected a list of packages, or the path of a requirements file, got a map",
    ),
    (environment("dependencies: 2"), "2:3 environment.dependencies: expected text, got the number 2"),
    (
        environment("dependencies: ''"),
        "2:3 environment.dependencies: empty: expected a list of packages, or the path of a requirements file",
    ),
    (environment("dependencies: $AIR_NOT_SET/needs.txt"), "2:3 environment.dependencies: $AIR_NOT_SET is not set"),
    (
        environment("version: 5\n  dependencies: needs.txt"),
        "2:3 environment.version: has no meaning beside a requirements file",
    ),
    (
        environment("docker_image: me/train:1"),
        "2:3 environment.docker_image: expected a map (name: value), got the text 'me/train:1'",
    ),
    (
        environment("docker_image: {tag_policy: auto}"),
        (
            "2:3 environment.docker_image.url: missing: expected an image's reference, or an archive "
            "(.tar, .tar.gz, .tgz, .sqsh, .sif)"
        ),
    ),
    (
        environment("docker_image: {url: train image}"),
        (
            "2:18 environment.docker_image.url: expected an image's reference, or an archive "
            "(.tar, .tar.gz, .tgz, .sqsh, .sif), got 'train image'"
        ),
    ),
    (
        environment("docker_image: {url: a, tag_policy: never}"),
        "2:26 environment.docker_image.tag_policy: expected one of auto, latest, got 'never'",
    ),
    (
        environment("docker_image: {url: a, credentials_scope: s}"),
        "2:26 environment.docker_image.credentials_scope: needs credentials_key beside it",
    ),
    (
        environment("docker_image: {url: a, credentials_key: k}"),
        "2:26 environment.docker_image.credentials_key: needs credentials_scope beside it",
    ),
    (
        environment("docker_image: {url: a}\n  version: 5"),
        "3:3 environment.version: has no meaning beside docker_image",
    ),
    (
        environment("docker_image: {url: a}\n  dependencies: []"),
        "3:3 environment.dependencies: has no meaning beside docker_image",
    ),
    (
        environment("unity_catalog_image: train"),
        "2:3 environment.unity_catalog_image: expected <catalog>.<schema>.<image>:<tag>, got 'train'",
    ),
    (
        environment("unity_catalog_image: a.b.c:1\n  version: 5"),
        "3:3 environment.version: has no meaning beside unity_catalog_image",
    ),
    (
        environment("unity_catalog_image: a.b.c:1\n  dependencies: [numpy]"),
        "3:3 environment.dependencies: has no meaning beside unity_catalog_image",
    ),
    (
        environment("unity_catalog_image: a.b.c:1\n  docker_image: {url: a}"),
        "2:3 environment.unity_catalog_image: stands beside docker_image",
    ),
    (environment("custom_image_tag: train"), "2:3 environment.custom_image_tag: expected custom:<tag>, got 'train'"),
    (environment("verzion: 5"), "2:3 environment.verzion: unknown field"),
]


def variable(inner: str) -> str:
    return f"env_variables:\n  {inner}"


NAME_RULE = "not a name for an environment variable: letters, digits and _, not starting with a digit"
VARIABLES = [
    ("env_variables: [A=1]", "1:1 env_variables: expected a map (name: value), got a list"),
    (variable("A:"), "2:3 env_variables.A: expected text, got nothing"),
    (variable("A: ~"), "2:3 env_variables.A: expected text, got nothing"),
    (variable("A: [1]"), "2:3 env_variables.A: expected text, got a list"),
    (variable("A: {b: c}"), "2:3 env_variables.A: expected text, got a map"),
    (
        "ray: {}\n" + variable("RAY_ADDRESS: head:6379"),
        "3:3 env_variables.RAY_ADDRESS: `ray` sets this variable itself",
    ),
    (
        "ray: {}\nsecrets:\n  RAY_AUTH_TOKEN: ray/token",
        "3:3 secrets.RAY_AUTH_TOKEN: `ray` sets this variable itself",
    ),
    ("ray: true", "1:1 ray: expected a map (name: value), got the boolean true"),
    (
        "ray: {dashboard: everybody}",
        "1:7 ray.dashboard: expected one of private, public, got 'everybody'",
    ),
    (variable("1A: x"), f"2:3 env_variables.1A: {NAME_RULE}"),
    (variable("A-b: x"), f"2:3 env_variables.A-b: {NAME_RULE}"),
    (variable("'': x"), f"2:3 env_variables.: {NAME_RULE}"),
    (variable("Ä: x"), f"2:3 env_variables.Ä: {NAME_RULE}"),
    (variable("PATH: /bin"), "2:3 env_variables.PATH: the runtime sets this variable itself"),
    (variable("MASTER_ADDR: x"), "2:3 env_variables.MASTER_ADDR: the runtime sets this variable itself"),
    (variable("CODE_SOURCE_PATH: x"), "2:3 env_variables.CODE_SOURCE_PATH: the runtime sets this variable itself"),
    (
        variable(f"A: {'é' * 70000}"),
        "2:3 env_variables.A: 140,000 bytes; at most 131,071 fit in an environment variable",
    ),
    (variable('A: "\\0"'), "2:3 env_variables.A: text cannot hold the character \\0"),
]
SECRETS = [
    ("secrets: [a/b]", "1:1 secrets: expected a map (name: value), got a list"),
    ("secrets:\n  T: token", "2:3 secrets.T: expected scope/key, got 'token'"),
    ("secrets:\n  T: a/b/c", "2:3 secrets.T: expected scope/key, got 'a/b/c'"),
    ("secrets:\n  T: /key", "2:3 secrets.T: expected scope/key, got '/key'"),
    ("secrets:\n  T: scope/", "2:3 secrets.T: expected scope/key, got 'scope/'"),
    ("secrets:\n  T: ''", "2:3 secrets.T: empty: expected scope/key"),
    ("secrets:\n  T:", "2:3 secrets.T: expected text, got nothing"),
    ("secrets:\n  T: 7", "2:3 secrets.T: expected text, got the number 7"),
    ("secrets:\n  a b: s/k", f"2:3 secrets.a b: {NAME_RULE}"),
    ("secrets:\n  WORLD_SIZE: s/k", "2:3 secrets.WORLD_SIZE: the runtime sets this variable itself"),
    ("secrets:\n  T: s/k\nenv_variables:\n  T: x", "2:3 secrets.T: stands in env_variables, too"),
]


def nested(inner: str) -> str:
    return f"code_source:\n  type: snapshot\n  snapshot:\n    {inner}"


def flat(inner: str) -> str:
    return f"code_source:\n  {inner}"


REMOTE = "true, false, or a remote's name (letters, digits, - . / _, not starting with -)"
FIELDS = "a map with root_path, include_paths, git, remote_volume"
CODE = [
    ("code_source: .", "1:1 code_source: expected a map (name: value), got the text '.'"),
    (
        "code_source: {}",
        "1:1 code_source.root_path: missing: expected a folder, relative to this file (~ and $VAR are expanded)",
    ),
    ("code_source:\n  snapshot:\n    root_path: .", "1:1 code_source.type: missing beside `snapshot`"),
    ("code_source:\n  type: snapshot", f"1:1 code_source.snapshot: missing: expected {FIELDS}"),
    ("code_source:\n  type: snapshot\n  snapshot:", f"3:3 code_source.snapshot: missing: expected {FIELDS}"),
    (
        "code_source:\n  type: git\n  snapshot:\n    root_path: .",
        "2:3 code_source.type: expected snapshot, got the text 'git'",
    ),
    (
        "code_source:\n  type: snapshot\n  root_path: .\n  snapshot:\n    root_path: .",
        "3:3 code_source.root_path: stands beside `type` and `snapshot`",
    ),
    ("code_source:\n  type: snapshot\n  snapshot:\n    root_path: .\n  snap: 1", "5:3 code_source.snap: unknown field"),
    (nested("root: ."), "4:5 code_source.snapshot.root: unknown field"),
    (
        nested("include_paths: [src]"),
        (
            "3:3 code_source.snapshot.root_path: missing: expected a folder, relative to this file "
            "(~ and $VAR are expanded)"
        ),
    ),
    (flat("root_path: 1"), "2:3 code_source.root_path: expected text, got the number 1"),
    (flat("root_path: ''"), "2:3 code_source.root_path: empty: expected a folder"),
    (flat("root_path: $AIR_NOT_SET/x"), "2:3 code_source.root_path: $AIR_NOT_SET is not set"),
    (flat("root_path: $AIR_NOT_SETé/x"), "2:3 code_source.root_path: $AIR_NOT_SET is not set"),
    (flat("root_path: .\n  include_paths: []"), "3:3 code_source.include_paths: empty: expected at least one path"),
    (flat("root_path: .\n  include_paths: src"), "3:3 code_source.include_paths: expected a list, got the text 'src'"),
    (
        flat("root_path: .\n  include_paths: [src, /etc]"),
        "3:24 code_source.include_paths[1]: expected a relative path without `..`, got '/etc'",
    ),
    (
        flat("root_path: .\n  include_paths: [src/../..]"),
        "3:19 code_source.include_paths[0]: expected a relative path without `..`, got 'src/../..'",
    ),
    (
        flat("root_path: .\n  include_paths: ['']"),
        "3:19 code_source.include_paths[0]: expected a relative path without `..`, got ''",
    ),
    (flat("root_path: .\n  include_paths: [3]"), "3:19 code_source.include_paths[0]: expected text, got the number 3"),
    (flat("root_path: .\n  git: main"), "3:3 code_source.git: expected a map (name: value), got the text 'main'"),
    (flat("root_path: .\n  git: {}"), "3:3 code_source.git: expected branch or commit"),
    (flat("root_path: .\n  git: {branch: a, commit: b}"), "3:20 code_source.git.commit: stands beside branch"),
    (
        flat("root_path: .\n  git: {commit: b, remote: true}"),
        "3:20 code_source.git.remote: goes with branch only: a commit is the same everywhere",
    ),
    (flat("root_path: .\n  git: {branch: a, remote: -x}"), f"3:20 code_source.git.remote: expected {REMOTE}, got '-x'"),
    (
        flat("root_path: .\n  git: {branch: a, remote: 'a b'}"),
        f"3:20 code_source.git.remote: expected {REMOTE}, got 'a b'",
    ),
    (flat("root_path: .\n  git: {branch: a, remote: [o]}"), "3:20 code_source.git.remote: expected text, got a list"),
    (flat("root_path: .\n  git: {branch: ''}"), "3:9 code_source.git.branch: empty: expected a branch"),
    (flat("root_path: .\n  git: {commit: a b}"), "3:9 code_source.git.commit: expected a commit, got 'a b'"),
    (flat("root_path: .\n  git: {branch: a, tag: v1}"), "3:20 code_source.git.tag: unknown field"),
    (
        flat("root_path: .\n  remote_volume: /tmp"),
        "3:3 code_source.remote_volume: expected a path that starts with /Volumes/, got '/tmp'",
    ),
]
OTHERS = [
    ("max_retries: -1", "1:1 max_retries: expected a whole number, 0 or more, got -1"),
    ("max_retries: 1.5", "1:1 max_retries: expected a whole number, 0 or more, got the number 1.5"),
    ("max_retries: false", "1:1 max_retries: expected a whole number, 0 or more, got the boolean false"),
    ("timeout_minutes: 0", "1:1 timeout_minutes: expected a whole number, 1 or more, got 0"),
    ("timeout_minutes: 1h", "1:1 timeout_minutes: expected a whole number, 1 or more, got the text '1h'"),
    ("timeout_minutes: 1:30", "1:1 timeout_minutes: expected a whole number, 1 or more, got the text '1:30'"),
    (
        f"timeout_minutes: 1{'0' * 5000}",
        "1:1 timeout_minutes: expected a whole number, 1 or more, got the number 1" + "0" * 56 + "...",
    ),
    ("idempotency_token: '  '", "1:1 idempotency_token: empty: expected text on one line, at most 64 characters"),
    (f"idempotency_token: {'t' * 65}", "1:1 idempotency_token: 65 characters; at most 64 are allowed"),
    ("idempotency_token: 5", "1:1 idempotency_token: expected text, got the number 5"),
    ('idempotency_token: "a\\nb"', "1:1 idempotency_token: expected text on one line, got 'a b'"),
    ("parameters: [1]", "1:1 parameters: expected a map (name: value), got a list"),
    ("parameters: 1", "1:1 parameters: expected a map (name: value), got the number 1"),
    ("parameters:\n  ? [a]\n  : 1", "2:5 parameters: expected a name as key, got a list"),
    ("parameters:\n  ~: 1", "2:3 parameters: a key is empty"),
    ("parameters:\n  a: 1\n  a: 2", "3:3 parameters.a: duplicate key, first on line 2"),
    ("parameters:\n  a:\n    b: !thing 1", "3:5 parameters.a.b: the tag !thing is not supported"),
    ("parameters:\n  a: !!int one", "2:3 parameters.a: 'one' is not the number or boolean that it should be"),
    ("mlflow_run_name: a b", "1:1 mlflow_run_name: expected letters, digits, - and _, got 'a b'"),
    ("mlflow_run_name: ''", "1:1 mlflow_run_name: empty: expected letters, digits, - and _"),
    (
        "mlflow_experiment_directory: /Users/me",
        "1:1 mlflow_experiment_directory: expected a path that starts with /Workspace, got '/Users/me'",
    ),
    (
        "mlflow_artifact_location: /mnt",
        "1:1 mlflow_artifact_location: expected a URI with a scheme, or a path that starts with /Volumes/, got '/mnt'",
    ),
    ("permissions: {level: CAN_VIEW}", "1:1 permissions: expected a list, got a map"),
    (
        "permissions:\n  - level: CAN_VIEW",
        "2:5 permissions[0]: expected exactly one of user_name, group_name, service_principal_name, got none",
    ),
    (
        "permissions:\n  - level: CAN_VIEW\n    user_name: a\n    group_name: b",
        (
            "2:5 permissions[0]: expected exactly one of user_name, group_name, service_principal_name, "
            "got user_name and group_name"
        ),
    ),
    (
        "permissions:\n  - group_name: b",
        (
            "2:5 permissions[0].level: missing: expected one of CAN_VIEW, CAN_MANAGE_RUN, "
            "CAN_MANAGE, IS_OWNER, CAN_ATTACH_TO, CAN_BIND, CAN_CREATE, CAN_EDIT, CAN_EDIT_METADATA, "
            "CAN_MANAGE_PRODUCTION_VERSIONS, CAN_MANAGE_STAGING_VERSIONS, CAN_MONITOR, CAN_MONITOR_ONLY, CAN_QUERY, "
            "CAN_READ, CAN_RESTART, CAN_RUN, CAN_USE, CAN_VIEW_METADATA"
        ),
    ),
    (
        "usage_policy_name: a\nusage_policy_id: 123e4567-e89b-12d3-a456-426614174000",
        "2:1 usage_policy_id: stands beside usage_policy_name",
    ),
    (f"usage_policy_name: {'p' * 128}", "1:1 usage_policy_name: 128 characters; at most 127 are allowed"),
    ("usage_policy_id: abc", "1:1 usage_policy_id: expected a UUID, got 'abc'"),
    ("job_type: batch", "1:1 job_type: expected one of standard, udp, got 'batch'"),
    ("job_type: udp", "1:1 job_type: udp workloads get their command from the hosted service and cannot run here"),
    ("priority: 5", "1:1 priority: goes with compute.node_pool_id or pool_name only"),
    ("priority: high", "1:1 priority: expected a whole number, 0 or more, got the text 'high'"),
    ("comand: echo", "1:1 comand: unknown field"),
    ("schedule: daily", "1:1 schedule: unknown field"),
    ("X-anchor: 1", "1:1 X-anchor: unknown field"),
    ("max_retries: 1\nmax_retries: 2", "2:1 max_retries: duplicate key, first on line 1"),
]
ROWS = [*EXPERIMENT, *COMMAND, *COMPUTE, *ENVIRONMENT, *VARIABLES, *SECRETS, *CODE, *OTHERS]


def shown(problem: Problem) -> str:
    return f"{problem.line}:{problem.column} {problem.field}: {problem.message}"


@pytest.mark.parametrize(("snippet", "expected"), ROWS, ids=[f"{row[0][:60]!r}" for row in ROWS])
def test_what_breaks_a_rule_is_refused_at_its_place(refuse: Refuse, snippet: str, expected: str) -> None:
    assert [shown(problem) for problem in refuse(snippet)] == [expected]


def test_missing_files_are_named_with_their_full_path(refuse: Refuse, folder: Path) -> None:
    for snippet, expected in (
        (flat("root_path: nowhere"), f"2:3 code_source.root_path: there is no folder {folder}/nowhere"),
        (flat("root_path: ~no-such-user/x"), f"2:3 code_source.root_path: there is no folder {folder}/~no-such-user/x"),
        (flat("root_path: ${AIR"), f"2:3 code_source.root_path: there is no folder {folder}/${{AIR"),
        (flat("root_path: a file"), f"2:3 code_source.root_path: {folder}/a file is not a folder"),
        (flat(f"root_path: {'n' * 300}"), f"2:3 code_source.root_path: there is no folder {folder}/{'n' * 300}"),
        (
            flat("root_path: .\n  include_paths: [src, 'src/*.py']"),
            f"3:24 code_source.include_paths[1]: there is no src/*.py in {folder}",
        ),
        (
            environment("dependencies: missing.txt"),
            f"2:3 environment.dependencies: cannot read {folder}/missing.txt: no such file or directory",
        ),
        (environment("dependencies: src"), f"2:3 environment.dependencies: cannot read {folder}/src: it is a folder"),
    ):
        assert [shown(problem) for problem in refuse(snippet)] == [expected]


def test_problems_in_a_requirements_file_point_into_that_file(refuse: Refuse, folder: Path) -> None:
    problems = refuse(environment("dependencies: bad.yaml"))
    assert {problem.file for problem in problems} == {str(folder / "bad.yaml")}
    assert [shown(problem) for problem in problems] == [
        "2:1 dependancies: unknown field",
        "3:1 version: duplicate key, first on line 1",
    ]
    (folder / "list.yaml").write_text("- numpy\n", encoding="utf-8")
    (folder / "syntax.yaml").write_text("dependencies: [numpy\n", encoding="utf-8")
    assert shown(refuse(environment("dependencies: list.yaml"))[0]) == "1:1 : expected a map (name: value), got a list"
    assert (
        shown(refuse(environment("dependencies: syntax.yaml"))[0])
        == "1:15 : not valid YAML: a `[` that is never closed"
    )


def test_hints_say_what_to_write(refuse: Refuse) -> None:
    for snippet, hint in (
        ("comand: echo", "Did you mean `command`?"),
        ("schedule: daily", None),
        (compute("num_accelerators: 12\n  accelerator_type: GPU_8xH100"), "use 8 or 16"),
        (compute("num_accelerators: 3\n  accelerator_type: GPU_8xH100"), "use 8"),
        (compute("num_accelerators: 8\n  accelerator_type: gpu_8xh100"), "Did you mean `GPU_8xH100`?"),
        (compute("num_accelerators: 2\n  accelerator_type: CPU_2xCORES"), "Did you mean `CPU_2xCORE`?"),
        (compute("num_accelerators: 1\n  accelerator_type: a10"), "without a pool, write GPU_1xA10"),
        (compute(GPU + "pool_id: p\n  priority_class: CRITICLE"), "Did you mean `CRITICAL`?"),
        (environment("version: AI7"), "Did you mean `AI6`?"),
        ("experiment_name: 12", 'put it in quotes: "12"'),
        (variable("A:"), 'write "" for empty text'),
        (variable("PATH: x"), 'extend it inside the command: export PATH="/my/bin:$PATH"'),
    ):
        hints = [problem.hint for problem in refuse(snippet)]
        assert (
            hints == [hint] if hint else hints[0] is not None and hints[0].startswith("The fields here are code_source")
        )


def test_a_misspelt_required_field_is_one_problem(refuse: Refuse) -> None:
    text = "comand: echo\nexperiment_name: a\ncompute: {num_acelerators: 1, accelerator_type: CPU_1xCORE}\ncommand_: x"
    assert [shown(problem) for problem in refuse(text.replace("comand: echo\n", ""))] == [
        "2:11 compute.num_acelerators: unknown field",
        "3:1 command_: unknown field",
    ]


def test_all_problems_come_at_once_in_the_order_of_the_file(refuse: Refuse) -> None:
    problems = refuse("max_retries: x\nexperiment_name: 1\ncompute: {num_accelerators: 0}\nenv_variables: {1: 2, A: }")
    places = [(problem.line, problem.column) for problem in problems]
    assert len(places) == 6
    assert places == sorted(places, key=lambda place: (place[0] or 0, place[1] or 0))


def test_an_empty_file_lacks_its_required_fields(folder: Path) -> None:
    for text in ("", "# nothing here\n", "---\n", "\n\n"):
        with pytest.raises(SpecError) as caught:
            load_text(text, file="train.yaml", base_dir=folder)
        assert [(problem.field, problem.line, problem.column) for problem in caught.value.problems] == [
            ("experiment_name", 1, 1),
            ("command", 1, 1),
            ("compute", 1, 1),
        ]
