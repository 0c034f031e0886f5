"""Accelerator type names: what they ask for, and how many there are on a node."""

from __future__ import annotations

import re
from enum import StrEnum

from airlane.frozen import frozen


class AcceleratorKind(StrEnum):
    """GPU and CPU types say how many there are on a node; POOL types are the old names that come with a pool."""

    GPU = "gpu"
    CPU = "cpu"
    POOL = "pool"


@frozen
class AcceleratorType:
    """A type name, read: `per_node` accelerators of `model` on every node (at most that many for POOL types)."""

    name: str
    model: str
    per_node: int
    kind: AcceleratorKind

    def nodes(self, count: int) -> int | None:
        """How many nodes `count` accelerators fill, or None where they would leave a node half used."""
        if self.kind is AcceleratorKind.POOL and count <= self.per_node:
            return 1
        return None if count % self.per_node else count // self.per_node

    def fitting_counts(self, count: int) -> tuple[int, ...]:
        """The counts nearest to `count`, below and above, that fill their nodes."""
        below = count - count % self.per_node
        return tuple(fit for fit in (below, below + self.per_node) if fit > 0)


GPU_TYPES: tuple[str, ...] = ("GPU_1xA10", "GPU_1xH100", "GPU_8xH100", "GPU_8xB300")
COUNTED_PATTERN = "(?:CPU_[1-9][0-9]{0,3}xCORE|GPU_[1-9][0-9]{0,2}xANY)"
ANY_MODEL = "ANY"
POOL_TYPES: dict[str, AcceleratorType] = {
    "a10": AcceleratorType("a10", "A10", 1, AcceleratorKind.POOL),
    "h100_80gb": AcceleratorType("h100_80gb", "H100", 8, AcceleratorKind.POOL),
}
CPU_EXAMPLES: tuple[str, ...] = ("CPU_1xCORE", "CPU_2xCORE", "CPU_4xCORE", "CPU_8xCORE")
NAMES: tuple[str, ...] = (*GPU_TYPES, *POOL_TYPES)
"""Every type with a name of its own; any CPU_<n>xCORE and GPU_<n>xANY (GPUs of any model) is known beside them."""


def parse_accelerator_type(name: str) -> AcceleratorType | None:
    """The type of that exact name, or None: case counts, as it does for the reference client."""
    if name in POOL_TYPES:
        return POOL_TYPES[name]
    if name not in GPU_TYPES and not re.fullmatch(COUNTED_PATTERN, name):
        return None
    family, _, rest = name.partition("_")
    per_node, _, model = rest.partition("x")
    return AcceleratorType(name, model, int(per_node), AcceleratorKind(family.lower()))
