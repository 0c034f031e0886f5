"""The rules that look at several fields of a section at once."""

from __future__ import annotations

import os

from yaml.nodes import MappingNode, Node

from airlane.spec import nodes
from airlane.spec.accelerators import AcceleratorKind, AcceleratorType, parse_accelerator_type
from airlane.spec.containers import Found
from airlane.spec.files import RequirementsFile
from airlane.spec.ray_section import OWNED_VARIABLES


def check_compute(found: Found) -> None:
    """Counts fill their nodes, and pools go with the types they hold."""
    name = found.get("accelerator_type")
    kind = parse_accelerator_type(name) if name else None
    if kind:
        count = found.get("num_accelerators")
        if count:
            _check_count(found, count, kind)
        _check_pools(found, kind)
    if found.given("pool_id") and found.given("provisioned_capacity_id"):
        found.report("provisioned_capacity_id", "the same thing as pool_id", hint="keep pool_id")
    pooled = found.given("pool_id") or found.given("provisioned_capacity_id")
    cores = kind is not None and kind.kind is AcceleratorKind.CPU  # these run where no pool is: in our own queue
    if found.given("priority_class") and not pooled and not cores:
        found.report("priority_class", "needs pool_id or provisioned_capacity_id beside it")


def _check_count(found: Found, count: int, kind: AcceleratorType) -> None:
    if kind.nodes(count) is not None:
        return
    fits = " or ".join(str(fit) for fit in kind.fitting_counts(count))
    found.report(
        "num_accelerators", f"{count} does not fill nodes of {kind.per_node} ({kind.name})", hint=f"use {fits}"
    )


def _check_pools(found: Found, kind: AcceleratorType) -> None:
    has_pool = found.given("node_pool_id") or found.given("pool_name")
    if kind.kind is AcceleratorKind.POOL and not has_pool:
        found.report(
            "accelerator_type",
            f"{kind.name} needs node_pool_id or pool_name beside it",
            hint=f"without a pool, write GPU_{kind.per_node}x{kind.model}",
        )
    for name in ("node_pool_id", "pool_name"):
        if found.given(name) and kind.kind is not AcceleratorKind.POOL:
            found.report(name, f"goes with a10 and h100_80gb only, not with {kind.name}")
    for name in ("provisioned_capacity_id", "pool_id"):
        if found.given(name) and kind.kind is not AcceleratorKind.GPU:
            found.report(name, f"goes with GPU_* types only, not with {kind.name}")


def check_environment(found: Found) -> None:
    """An image stands alone; a requirements file brings its own version."""
    for image in ("docker_image", "unity_catalog_image"):
        for other in ("version", "dependencies"):
            if found.given(image) and found.given(other):
                found.report(other, f"has no meaning beside {image}", hint="an image brings its own packages")
    if found.given("docker_image") and found.given("unity_catalog_image"):
        found.report("unity_catalog_image", "stands beside docker_image", hint="keep one of the two")
    listed = found.get("dependencies")
    if not isinstance(listed, RequirementsFile):
        return
    if found.given("version"):
        found.report(
            "version",
            "has no meaning beside a requirements file",
            hint=f"move it into {listed.path.name} as `version:`",
        )
    found.values["dependencies"] = listed.dependencies
    found.values["dependencies_file"] = listed.path
    if listed.version:
        found.values["version"] = listed.version


def check_docker_image(found: Found) -> None:
    """Registry credentials come in pairs."""
    for name, other in (("credentials_scope", "credentials_key"), ("credentials_key", "credentials_scope")):
        if found.given(name) and not found.given(other):
            found.report(name, f"needs {other} beside it")


def check_code_source(found: Found) -> None:
    """Everything to include exists, where the code is the working tree and not a commit."""
    root, included = found.get("root_path"), found.get("include_paths")
    if included == ():
        found.report("include_paths", "empty: expected at least one path", hint="remove it to take the whole folder")
    if not root or not included or found.given("git") or not found.place.reading.check_files:
        return
    items = found.pairs["include_paths"].value.value
    for index, path in enumerate(included):
        if not os.path.lexists(root / path):
            found.at("include_paths").item(index, items[index]).report(
                f"there is no {path} in {root}", hint="a path is taken as it stands: * has no meaning"
            )


def check_git(found: Found) -> None:
    """A branch or a commit, and a remote for branches only."""
    branch, commit = found.given("branch"), found.given("commit")
    if branch and commit:
        found.report("commit", "stands beside branch", hint="keep one of the two")
    elif not branch and not commit:
        found.place.report("expected branch or commit", hint="for example branch: main")
    if found.given("remote") and not branch:
        found.report("remote", "goes with branch only: a commit is the same everywhere")


PRINCIPALS = ("user_name", "group_name", "service_principal_name")


def check_permission(found: Found) -> None:
    """Exactly one principal."""
    given = [name for name in PRINCIPALS if found.given(name)]
    if len(given) != 1:
        came = " and ".join(given) or "none"
        found.place.report(f"expected exactly one of {', '.join(PRINCIPALS)}, got {came}")


def check_workload(found: Found) -> None:
    """What the sections must agree on."""
    if found.get("job_type") == "udp":
        found.report(
            "job_type",
            "udp workloads get their command from the hosted service and cannot run here",
            hint="write a command and remove job_type",
        )
    _check_ray_variables(found)
    for name in found.get("secrets") or {}:
        if name in (found.get("env_variables") or {}):
            place = found.at("secrets")
            place.child(name, _key_node(found, "secrets", name)).report(
                "stands in env_variables, too", hint="keep it in secrets"
            )
    if found.given("usage_policy_name") and found.given("usage_policy_id"):
        found.report("usage_policy_id", "stands beside usage_policy_name", hint="keep one of the two")
    compute = found.get("compute")
    if found.get("priority") is not None and compute and not (compute.node_pool_id or compute.pool_name):
        found.report("priority", "goes with compute.node_pool_id or pool_name only", hint="see compute.priority_class")


def _check_ray_variables(found: Found) -> None:
    for section in ("env_variables", "secrets"):
        for name in found.get(section) or {}:
            if found.given("ray") and name in OWNED_VARIABLES:
                place = found.at(section).child(name, _key_node(found, section, name))
                place.report("`ray` sets this variable itself", hint="remove it, or remove `ray`")


def _key_node(found: Found, section: str, name: str) -> Node:
    value = found.pairs[section].value
    keys = [key for key, _ in nodes.pairs(value) if key.value == name] if isinstance(value, MappingNode) else []
    return keys[-1] if keys else found.pairs[section].key_node
