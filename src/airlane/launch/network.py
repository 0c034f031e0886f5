"""The variables that tell NCCL, libfabric and gloo which network to use between the nodes of a run."""

from __future__ import annotations

PRESETS = ("efa", "infiniband", "ethernet", "auto")
