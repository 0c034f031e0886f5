"""What a workload may contain.

Each field's metadata holds its help, its kind (what is allowed) and an example; reading, `air -h config`, the JSON
Schema and the reference page are all made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from airlane.frozen import frozen
from airlane.launch.network import PRESETS
from airlane.spec import checks
from airlane.spec.accelerators import COUNTED_PATTERN, CPU_EXAMPLES, NAMES, AcceleratorType, parse_accelerator_type
from airlane.spec.bases import DEFAULT_BASE
from airlane.spec.containers import Anything, Items, Named, Section, WrappedSection
from airlane.spec.fields import entry
from airlane.spec.files import Dependencies, Folder, Image, InnerPath
from airlane.spec.kinds import LONGEST_VARIABLE_BYTES, Base, Choice, Command, Remote, Text, Whole
from airlane.spec.ray_section import RaySpec

_NAME = Text(rule="[A-Za-z0-9_-]+", rule_words="letters, digits, - and _")
_ANY_TEXT = Text(not_blank=True)
_PERMISSION_LEVELS = (
    "CAN_VIEW",
    "CAN_MANAGE_RUN",
    "CAN_MANAGE",
    "IS_OWNER",
    "CAN_ATTACH_TO",
    "CAN_BIND",
    "CAN_CREATE",
    "CAN_EDIT",
    "CAN_EDIT_METADATA",
    "CAN_MANAGE_PRODUCTION_VERSIONS",
    "CAN_MANAGE_STAGING_VERSIONS",
    "CAN_MONITOR",
    "CAN_MONITOR_ONLY",
    "CAN_QUERY",
    "CAN_READ",
    "CAN_RESTART",
    "CAN_RUN",
    "CAN_USE",
    "CAN_VIEW_METADATA",
)
_QUEUE_PRIORITY = {"BEST_EFFORT": -100, "NORMAL": 0, "CRITICAL": 100}


@frozen(kw_only=True)
class ComputeSpec:
    """The accelerators to run on. Their number and type say how many nodes there are."""

    num_accelerators: int = field(
        metadata=entry(
            "How many accelerators in all; a whole number of nodes.", Whole(minimum=1), example="8", required=True
        ),
    )
    accelerator_type: str = field(
        metadata=entry(
            "Which accelerators, and how many are on a node: GPU_<n>x<model>, GPU_<n>xANY for GPUs of any model, or "
            "CPU_<n>xCORE for n CPU cores a node.",
            Choice(NAMES, pattern=COUNTED_PATTERN, pattern_words="GPU_<n>xANY, CPU_<n>xCORE", near=CPU_EXAMPLES),
            example="GPU_8xH100",
            required=True,
        ),
    )
    priority_class: str | None = field(
        default=None,
        metadata=entry(
            "Place in the queue: CRITICAL goes before NORMAL, BEST_EFFORT after.",
            Choice(tuple(_QUEUE_PRIORITY)),
            example="NORMAL",
        ),
    )
    pool_id: str | None = field(
        default=None,
        metadata=entry("The pool of reserved capacity to use.", _ANY_TEXT, example="pool-7f3a", hosted_only=True),
    )
    provisioned_capacity_id: str | None = field(
        default=None,
        metadata=entry("The older name of pool_id.", _ANY_TEXT, example="cap-7f3a", hosted_only=True),
    )
    node_pool_id: str | None = field(
        default=None,
        metadata=entry("The pool of nodes for a10 and h100_80gb.", _ANY_TEXT, example="np-7f3a", hosted_only=True),
    )
    pool_name: str | None = field(
        default=None,
        metadata=entry(
            "The pool of nodes for a10 and h100_80gb, by name.", _ANY_TEXT, example="research", hosted_only=True
        ),
    )

    @property
    def accelerator(self) -> AcceleratorType:
        """The accelerator type, read."""
        found = parse_accelerator_type(self.accelerator_type)
        if found is None:
            raise ValueError(self.accelerator_type)
        return found

    @property
    def nodes(self) -> int:
        """How many nodes the accelerators fill."""
        nodes = self.accelerator.nodes(self.num_accelerators)
        if nodes is None:
            raise ValueError(self.num_accelerators)
        return nodes

    @property
    def accelerators_per_node(self) -> int:
        return self.num_accelerators // self.nodes


@frozen(kw_only=True)
class DockerImage:
    """A container image to run in."""

    url: str = field(
        metadata=entry(
            "The image: its reference in a registry, or an archive beside this file (.tar or .tar.gz as docker save "
            "writes it, .sif, .sqsh).",
            Image(),
            example="ghcr.io/me/train:1.2",
            required=True,
        ),
    )
    tag_policy: str = field(
        default="auto",
        metadata=entry(
            "Whether the tag is looked up again when the image is here already: latest does, auto does not.",
            Choice(("auto", "latest")),
            example="auto",
        ),
    )
    credentials_scope: str | None = field(
        default=None,
        metadata=entry("The scope of the secret that opens the registry.", _ANY_TEXT, example="registry"),
    )
    credentials_key: str | None = field(
        default=None,
        metadata=entry(
            "The key of the secret that opens the registry; it holds USER:PASSWORD.", _ANY_TEXT, example="token"
        ),
    )


@frozen(kw_only=True)
class EnvironmentSpec:
    """The Python environment, or the container image, that the command runs in."""

    version: str = field(
        default=DEFAULT_BASE,
        metadata=entry(
            "The package set to build on: 4, 5 and 6 are small, AI5 and AI6 bring ray, torch and transformers, "
            "and host is the Python that runs air.",
            Base(),
            example="AI5",
        ),
    )
    dependencies: tuple[str, ...] | None = field(
        default=None,
        metadata=entry(
            "Packages to add: a list of what pip takes (names, wheels, URLs, --index-url ..., -r file), or the path of "
            "a requirements file (a requirements.txt, or a YAML map of version and dependencies).",
            Dependencies(),
            example="[fsspec>=2024.6.1]",
        ),
    )
    dependencies_file: Path | None = None
    docker_image: DockerImage | None = field(
        default=None,
        metadata=entry(
            "A container image to run in, in place of version and dependencies.",
            Section(DockerImage, checks.check_docker_image),
            example="\n  url: ghcr.io/me/train:1.2",
        ),
    )
    unity_catalog_image: str | None = field(
        default=None,
        metadata=entry(
            "A container image registered in a catalog, in place of version and dependencies.",
            Text(rule=r"[^\s.:/]+\.[^\s.:/]+\.[^\s.:/]+:[^\s:/]+", rule_words="<catalog>.<schema>.<image>:<tag>"),
            example="main.images.train:1.2",
            hosted_only=True,
        ),
    )
    custom_image_tag: str | None = field(
        default=None,
        metadata=entry(
            "The tag of a custom image.",
            Text(rule=r"custom:\S+", rule_words="custom:<tag>"),
            example="custom:train",
            hosted_only=True,
        ),
    )


@frozen(kw_only=True)
class GitPin:
    """The commit to take the code from, in place of the working tree."""

    branch: str | None = field(
        default=None,
        metadata=entry(
            "The branch whose tip to take.", Text(any_scalar=True, rule=r"\S+", rule_words="a branch"), example="main"
        ),
    )
    commit: str | None = field(
        default=None,
        metadata=entry(
            "The commit to take; it is resolved to its full SHA first.",
            Text(any_scalar=True, rule=r"\S+", rule_words="a commit"),
            example="4be2d10",
        ),
    )
    remote: str | bool | None = field(
        default=None,
        metadata=entry(
            "With branch: take its tip at a remote (true is origin) and not here.", Remote(), example="true"
        ),
    )


@frozen(kw_only=True)
class CodeSource:
    """The code that is frozen at submission; the command starts in its copy ($CODE_SOURCE_PATH)."""

    root_path: Path = field(
        metadata=entry("The folder of the code, relative to this file.", Folder(), example=".", required=True),
    )
    include_paths: tuple[str, ...] | None = field(
        default=None,
        metadata=entry(
            "Take only these files and folders below root_path, even where they are ignored by default.",
            Items(InnerPath(), hint="write it as a list: [src, conf]"),
            example="[src, conf/train.yaml]",
        ),
    )
    git: GitPin | None = field(
        default=None,
        metadata=entry(
            "Take the code from a branch or a commit, not from the working tree.",
            Section(GitPin, checks.check_git),
            example="\n  branch: main",
        ),
    )
    remote_volume: str | None = field(
        default=None,
        metadata=entry(
            "The volume that keeps the code.",
            Text(rule=r"/Volumes/[\s\S]+", rule_words="a path that starts with /Volumes/"),
            example="/Volumes/main/ml/code",
            hosted_only=True,
        ),
    )


@frozen
class SecretRef:
    """Where a secret is kept: `air secrets set scope/key`."""

    scope: str
    key: str

    def __str__(self) -> str:
        return f"{self.scope}/{self.key}"


@frozen(kw_only=True)
class Permission:
    """Who may do what with the run on the hosted service."""

    level: str = field(
        metadata=entry("What they may do.", Choice(_PERMISSION_LEVELS), example="CAN_VIEW", required=True),
    )
    user_name: str | None = field(
        default=None,
        metadata=entry("A user.", _ANY_TEXT, example="ada@example.com"),
    )
    group_name: str | None = field(default=None, metadata=entry("A group.", _ANY_TEXT, example="research"))
    service_principal_name: str | None = field(
        default=None,
        metadata=entry("A service principal.", _ANY_TEXT, example="ci"),
    )


def _dbfs(location: str) -> str:
    return f"dbfs:{location}" if location.startswith("/Volumes/") else location


def _secret_ref(text: str) -> Any:
    scope, _, key = text.partition("/")
    return SecretRef(scope, key)


@frozen(kw_only=True)
class Workload:
    """What to run: one YAML file. Only experiment_name, command and compute have to be there."""

    experiment_name: str = field(
        metadata=entry(
            "The MLflow experiment that the run belongs to.",
            Text(rule="[A-Za-z0-9_-]+", rule_words="letters, digits, - and _", max_length=100),
            example="sft-qwen",
            required=True,
        ),
    )
    command: str = field(
        metadata=entry(
            "The shell script to run, once on every node, by bash with `set -euo pipefail`. It is taken as it stands: "
            "${...} and $(...) mean what they mean in bash.",
            Command(),
            example="python train.py",
            required=True,
        ),
    )
    compute: ComputeSpec = field(
        metadata=entry(
            "The accelerators to run on.",
            Section(ComputeSpec, checks.check_compute),
            example="\n  num_accelerators: 8\n  accelerator_type: GPU_8xH100",
            required=True,
        ),
    )
    environment: EnvironmentSpec = field(
        default_factory=EnvironmentSpec,
        metadata=entry(
            "The Python environment, or the container image, that the command runs in.",
            Section(EnvironmentSpec, checks.check_environment),
            example="\n  version: AI5\n  dependencies: [fsspec>=2024.6.1]",
        ),
    )
    code_source: CodeSource | None = field(
        default=None,
        metadata=entry(
            "The code to freeze. Without it the command starts in an empty folder.",
            WrappedSection(CodeSource, checks.check_code_source),
            example="\n  root_path: .",
        ),
    )
    env_variables: Mapping[str, str] = field(
        default_factory=dict,
        metadata=entry(
            "Environment variables for the command. A value is the text as written: 010, yes and 1e-5 stay so.",
            Named(
                Text(
                    any_scalar=True,
                    null_is_text=True,
                    max_bytes=LONGEST_VARIABLE_BYTES,
                    hint='write "" for an empty value',
                ),
                shell_names=True,
            ),
            example="\n  NCCL_DEBUG: INFO",
        ),
    )
    network: str | None = field(
        default=None,
        metadata=entry(
            "The network between the nodes: sets the usual variables of NCCL, libfabric and gloo on each node of "
            "several. auto takes what the node has; what env_variables sets wins.",
            Choice(PRESETS),
            example="efa",
        ),
    )
    ray: RaySpec | None = field(
        default=None,
        metadata=entry(
            "A Ray cluster around the command: the head on node 0, workers on the others. The command then runs once, "
            "on node 0, when all have joined; it finds the cluster by itself.",
            Section(RaySpec),
            example="{}",
        ),
    )
    secrets: Mapping[str, SecretRef] = field(
        default_factory=dict,
        metadata=entry(
            "Environment variables whose values come from the secret store: name to scope/key.",
            Named(
                Text(rule=r"[^/]+/[^/]+", rule_words="scope/key", change=_secret_ref, null_is_text=True),
                shell_names=True,
            ),
            example="\n  HF_TOKEN: hub/token",
        ),
    )
    parameters: Mapping[str, Any] | None = field(
        default=None,
        metadata=entry(
            "Values for the program: logged to MLflow, and written to the YAML file that $HYPERPARAMETERS_PATH names.",
            Named(Anything()),
            example="\n  learning_rate: 1e-3\n  model:\n    layers: 12",
        ),
    )
    max_retries: int = field(
        default=3,
        metadata=entry("How often to try again after a failure or a timeout.", Whole(), example="0"),
    )
    timeout_minutes: int | None = field(
        default=None,
        metadata=entry("How long each attempt may take, in minutes.", Whole(minimum=1), example="90"),
    )
    idempotency_token: str | None = field(
        default=None,
        metadata=entry(
            "Submitting again with the same token gives the same run.",
            Text(rule=r"\S(?:.*\S)?", rule_words="text on one line", trimmed=True, max_length=64),
            example="nightly-2026-11-30",
        ),
    )
    mlflow_run_name: str | None = field(
        default=None,
        metadata=entry("The name of the run in MLflow; experiment_name, if not given.", _NAME, example="qwen-lr-1e-3"),
    )
    mlflow_artifact_location: str | None = field(
        default=None,
        metadata=entry(
            "Where MLflow keeps the artifacts of a new experiment.",
            Text(
                rule=r"[A-Za-z][A-Za-z0-9+.-]*:\S+|/Volumes/\S+",
                rule_words="a URI with a scheme, or a path that starts with /Volumes/",
                change=_dbfs,
            ),
            example="s3://bucket/mlflow",
        ),
    )
    mlflow_experiment_directory: str | None = field(
        default=None,
        metadata=entry(
            "The workspace folder that holds the experiment.",
            Text(rule=r"/Workspace[\s\S]*", rule_words="a path that starts with /Workspace"),
            example="/Workspace/Shared/experiments",
            hosted_only=True,
        ),
    )
    priority: int | None = field(
        default=None,
        metadata=entry("Place in the queue of a legacy pool; higher goes first.", Whole(), example="10"),
    )
    permissions: tuple[Permission, ...] | None = field(
        default=None,
        metadata=entry(
            "Who may see and manage the run.",
            Items(Section(Permission, checks.check_permission)),
            example="\n  - group_name: research\n    level: CAN_VIEW",
            hosted_only=True,
        ),
    )
    usage_policy_name: str | None = field(
        default=None,
        metadata=entry(
            "The usage policy to bill to, by name.",
            Text(not_blank=True, max_length=127),
            example="research",
            hosted_only=True,
        ),
    )
    usage_policy_id: str | None = field(
        default=None,
        metadata=entry(
            "The usage policy to bill to, by id.",
            Text(rule="[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", rule_words="a UUID"),
            example="123e4567-e89b-12d3-a456-426614174000",
            hosted_only=True,
        ),
    )
    job_type: str = field(
        default="standard",
        metadata=entry(
            "standard; udp workloads run on the hosted service only.", Choice(("standard", "udp")), example="standard"
        ),
    )
    udp: Mapping[str, Any] | None = field(
        default=None,
        metadata=entry("The settings of a udp workload.", Named(Anything()), example="{}", hosted_only=True),
    )

    @property
    def queue_priority(self) -> int:
        """Place in a queue: higher goes first, 0 is normal."""
        if self.priority is not None:
            return self.priority
        return _QUEUE_PRIORITY[self.compute.priority_class or "NORMAL"]


WORKLOAD = Section(Workload, checks.check_workload, extensions=True)
"""How a whole file is read."""
