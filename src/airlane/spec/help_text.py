"""`air -h config[.a.b]`: what a workload file may hold, in plain text of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from airlane.spec.containers import Items, Named, Section
from airlane.spec.fields import Entry, entries_of
from airlane.spec.kinds import Kind
from airlane.spec.models import Workload
from airlane.spec.suggest import did_you_mean

WIDTH = 80
HOSTED_ONLY = "Recorded, without effect here: it means something on the hosted service only."
EXAMPLE = """\
experiment_name: sft-qwen
compute:
  num_accelerators: 8
  accelerator_type: GPU_8xH100
environment:
  version: AI5
  dependencies: [fsspec>=2024.6.1]
code_source:
  root_path: .
command: |
  torchrun --nproc-per-node "$LOCAL_WORLD_SIZE" train.py
"""


def describe(topic: str | None = None) -> str:
    """Help on a topic: None or "config" for the whole file, "config.a.b" for a field; topics, if it is unknown."""
    name = (topic or "").removeprefix("config").strip(".")
    if not name:
        return _overview()
    found = find_entry(name)
    if found is None:
        return _unknown(name)
    return _describe_entry(name, found)


def topics() -> tuple[str, ...]:
    """Every topic there is: config, config.compute, config.compute.num_accelerators, ..."""
    return ("config", *(f"config.{name}" for name, _ in walk(Workload)))


def walk(model: type[Any], prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """Every field below a model, by dotted name, sections before their fields."""
    for name, entry in entries_of(model).items():
        yield f"{prefix}{name}", entry
        inner = section_model(entry.kind)
        if inner is not None:
            yield from walk(inner, f"{prefix}{name}.")


def section_model(kind: Kind) -> type[Any] | None:
    """The model whose fields stand below a field, if any."""
    if isinstance(kind, Items):
        return section_model(kind.item)
    return kind.model if isinstance(kind, Section) else None


def find_entry(name: str) -> Entry | None:
    """The field of a dotted name; code_source.snapshot.x is code_source.x."""
    wanted = name.replace("code_source.snapshot.", "code_source.").replace("[]", "")
    return dict(walk(Workload)).get(wanted)


def _overview() -> str:
    fields = "\n".join(_row(name, entry) for name, entry in entries_of(Workload).items())
    return (
        f"A workload file, for example:\n\n{textwrap.indent(EXAMPLE, '  ')}\n"
        f"Fields (* must be there):\n\n{fields}\n\n"
        "Keys that begin with x- are not read: a place for YAML anchors.\n"
        "More about one field: air -h config.compute\n"
    )


def _describe_entry(name: str, entry: Entry) -> str:
    lines = [f"{name}, for example:", "", textwrap.indent(_example(name, entry), "  "), "", _wrapped(entry.help), ""]
    model = section_model(entry.kind)
    if model is None:
        lines += [_wrapped(line) for line in _facts(entry)]
    else:
        lines += ["Fields (* must be there):", ""]
        lines += [_row(field, inner) for field, inner in entries_of(model).items()]
        if entry.hosted_only:
            lines += ["", _wrapped(HOSTED_ONLY)]
        first = next(iter(entries_of(model)))
        lines += ["", f"More about one field: air -h config.{name}.{first}"]
    return "\n".join(lines) + "\n"


def _facts(entry: Entry) -> Iterator[str]:
    yield f"Takes: {entry.kind.words}"
    if entry.required:
        yield "Has to be there."
    elif entry.default is not None:
        yield f"Default: {entry.default}"
    if isinstance(entry.kind, Named) and entry.kind.shell_names:
        from airlane.spec.runtime_variables import RUNTIME_VARIABLES

        yield f"Names that the runtime sets itself: {', '.join(sorted(RUNTIME_VARIABLES))}"
    if entry.hosted_only:
        yield HOSTED_ONLY


def _example(name: str, entry: Entry) -> str:
    """The field in YAML, below its sections."""
    *sections, last = name.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    separator = "" if entry.example.startswith("\n") else " "
    own = f"{last}:{separator}{entry.example}"
    return "\n".join([*lines, textwrap.indent(own, "  " * len(sections))])


def _row(name: str, entry: Entry) -> str:
    first = f"  {name}{' *' if entry.required else ''}"
    gap = " " * 26
    note = " (hosted service only)" if entry.hosted_only else ""
    text = textwrap.wrap(entry.help + note, WIDTH - len(gap), break_long_words=False)
    if len(first) >= len(gap) - 1:
        return "\n".join([first, *(gap + line for line in text)])
    return "\n".join([first.ljust(len(gap)) + text[0], *(gap + line for line in text[1:])])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _unknown(name: str) -> str:
    near = did_you_mean(name, ("config",)) or did_you_mean(f"config.{name}", topics())
    # The topics fill a screen: what is wrong stands below them, where it is seen.
    wrong = f"There is no field {name}.{f' {near}' if near else ''}"
    return "\n".join(["Topics:", *(f"  {topic}" for topic in topics()), "", wrong]) + "\n"
