"""What would be run: the check marks above a submission, the page and the JSON of `--dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airlane.cli.run_json import image_facts
from airlane.cli.run_words import (
    compute_words,
    git_words,
    image_words,
    place_words,
    short_digest,
    short_image_digest,
)
from airlane.cli.screen import Look
from airlane.cli.words import count, size
from airlane.spec.profiles import BUILT_IN

if TYPE_CHECKING:
    from airlane.api import RunPlan
    from airlane.store.records import ImageRecord

_LABEL = 11
_NAME = 8
_SECTION = 14


def check_marks(plan: RunPlan, look: Look) -> list[str]:
    """One line for each thing that is settled, and one for each warning."""
    compute = plan.workload.compute
    words = compute_words(compute.num_accelerators, compute.accelerator_type)
    lines = [_mark(look, Path(plan.loaded.file).name, "", f"{words} on {count(plan.nodes, 'node')}")]
    if plan.snapshot is not None:
        code = f"{count(plan.snapshot.files, 'file')}, {size(plan.snapshot.size_bytes)}"
        git = git_words(plan.snapshot.git)
        lines.append(_mark(look, "code", short_digest(plan.snapshot.digest), code + (f"  ({git})" if git else "")))
    lines.append(_environment_mark(plan, look) if plan.record.image is None else _image_mark(plan.record.image, look))
    if not _is_here(plan) and plan.refusal is None:
        lines += _where(plan, look)
    return [*lines, *(f"{look.warn} {warning}" for warning in plan.warnings)]


def dry_run_page(plan: RunPlan, look: Look) -> str:
    """The whole plan, for people."""
    lines = check_marks(plan, look)
    if _is_here(plan) or plan.refusal is not None:
        lines += _where(plan, look)
    if plan.record.network is not None:
        lines.append(_mark(look, "network", plan.record.network, "set on each node, from the devices it has"))
    if plan.record.image is not None:
        lines += _container_lines(plan.record.image, look)
    if plan.record.ray is not None:
        lines.append(_mark(look, "ray", "", "a cluster around the command: its head on node 0, which runs the command"))
    lines += _section("each node", _wrapped(joined_variables(plan.variables), look.columns or 80))
    lines += _section("command", plan.command.rstrip("\n").split("\n"))
    lines += plan.backend_lines[1:]
    if plan.script is not None:
        lines += _section("script", plan.script.rstrip("\n").split("\n"))
    return "\n".join([*lines, "", "Nothing was submitted."])


def plan_facts(plan: RunPlan) -> dict[str, Any]:
    """The whole plan, as JSON."""
    compute = plan.workload.compute
    snapshot = plan.snapshot
    return {
        "status": "DRY_RUN_OK",
        "dry_run": True,
        "experiment_name": plan.workload.experiment_name,
        "num_accelerators": compute.num_accelerators,
        "accelerator_type": compute.accelerator_type,
        "nodes": plan.nodes,
        "accelerators_per_node": plan.accelerators_per_node,
        "environment": _environment_facts(plan) if plan.record.image is None else None,
        "image": image_facts(plan.record.image),
        "code": None
        if snapshot is None
        else {
            "digest": snapshot.digest,
            "files": snapshot.files,
            "size_bytes": snapshot.size_bytes,
            "commit": snapshot.git.commit if snapshot.git else None,
            "dirty": snapshot.git.dirty if snapshot.git else None,
        },
        "network": plan.record.network,
        "variables": [dict(variables) for variables in plan.variables],
        "command": plan.command,
        "script": plan.script,
        "where": list(plan.backend_lines),
        "fits": plan.refusal is None,
        "warnings": list(plan.warnings),
    }


def _environment_facts(plan: RunPlan) -> dict[str, Any]:
    environment = plan.environment
    return {
        "base": environment.base,
        "dependencies": list(environment.dependencies),
        "key": environment.key,
        "cached": environment.cached,
        "there": plan.environment_there,
    }


def joined_variables(nodes: Sequence[Mapping[str, str]]) -> list[str]:
    """The variables of all nodes in one list: "NUM_NODES=2", "NODE_RANK=0..1", "AIR_X=a|b"."""
    words: list[str] = []
    for name in dict.fromkeys(name for variables in nodes for name in variables):
        values = [variables[name] for variables in nodes if name in variables]
        words.append(f"{name}={_joined(values)}")
    return words


def _joined(values: list[str]) -> str:
    different = list(dict.fromkeys(values))
    if len(different) == 1:
        return different[0]
    if all(value.isdigit() for value in different):
        numbers = [int(value) for value in different]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{numbers[0]}..{numbers[-1]}"
    return "|".join(different)


def _is_here(plan: RunPlan) -> bool:
    """Whether the run would be where it is typed: that needs no saying."""
    return plan.record.backend == BUILT_IN


def _where(plan: RunPlan, look: Look) -> list[str]:
    if plan.refusal is None:
        return [_mark(look, "where", place_words(plan.record), line) for line in plan.backend_lines[:1]]
    hint = [" " * (_LABEL + _NAME + 5) + line for line in (plan.refusal.hint or "").splitlines()]
    return [_mark(look, "where", place_words(plan.record), plan.refusal.message, mark=look.bad), *hint]


def _container_lines(image: ImageRecord, look: Look) -> list[str]:
    from airlane.environment.container import runtime_words

    lines = [_mark(look, "container", "", runtime_words(image))]
    if image.mounts:
        lines.append(_mark(look, "mounts", "", ", ".join(image.mounts)))
    if image.arguments:
        lines.append(_mark(look, "options", "", " ".join(image.arguments)))
    return lines


def _environment_mark(plan: RunPlan, look: Look) -> str:
    environment = plan.environment
    added = f"+{len(environment.dependencies)}" if environment.dependencies else ""
    there = plan.environment_there is not None
    mark = look.ok if environment.key is None or environment.cached or there else look.later
    return _mark(look, "environment", f"{environment.base}{added}", _environment_state(plan), mark=mark)


def _image_mark(image: ImageRecord, look: Look) -> str:
    return _mark(look, "image", short_image_digest(image.digests), image_words(image))


def _environment_state(plan: RunPlan) -> str:
    environment = plan.environment
    if plan.environment_there is not None:
        return plan.environment_there
    if environment.key is None:
        return f"the Python {environment.python_version} that runs air"
    state = "cached" if environment.cached else "to be built first"
    return f"{state}  (key {environment.key[:_NAME]})"


def _mark(look: Look, label: str, name: str, text: str, *, mark: str | None = None) -> str:
    """Columns like those of the other marks; a long label pushes its text to the right."""
    head = f"{label:<{_LABEL + 1 + _NAME}}" if not name else f"{label:<{_LABEL}} {name:<{_NAME}}"
    return f"{mark or look.ok} {head}  {text}"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    first, *rest = lines or [""]
    indent = " " * (_SECTION + 2)
    return ["", f"{title:<{_SECTION}}  {first}", *(f"{indent}{line}".rstrip() for line in rest)]


def _wrapped(words: Sequence[str], columns: int) -> list[str]:
    """Words in lines that fit beside a section's title; a word is never cut."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 2 + len(word) <= columns - _SECTION - 2:
            lines[-1] += f"  {word}"
        else:
            lines.append(word)
    return lines
