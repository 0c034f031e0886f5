"""How much a model computes for its tokens, and what a device could: the two sides of model FLOPs utilization.

Counted is what the model needs: two operations for each weight and token forwards, four backwards (two where the weight
is frozen), and causal attention. What is computed twice, as with activation checkpointing, or for padding, is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from recipes.engine.data.corpus import Pack

# Dense bfloat16 operations per second (the makers' data sheets, without sparsity), by a part of the device's name.
PEAKS = (
    ("B300", 2250e12),
    ("B200", 2250e12),
    ("GB200", 2250e12),
    ("H200", 989e12),
    ("GH200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("H800", 989e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("A10G", 70e12),
    ("A10", 125e12),
    ("RTX 5090", 209e12),
    ("RTX 4090", 165e12),
)


@dataclass(frozen=True)
class Flops:
    """What one token, one learned token, and the square of a document's length cost in a training step."""

    per_token: float
    per_learned: float
    per_square: float

    @classmethod
    def of(cls, network: Any, *, frozen: bool) -> Flops:
        """Of a network of transformers; `frozen` where only adapters learn."""
        config = network.config.get_text_config()
        passes = 4 if frozen else 6
        head = network.get_output_embeddings().weight
        ends = {id(network.get_input_embeddings().weight), id(head)}
        inner = sum(_active(name, one, config) for name, one in network.named_parameters() if id(one) not in ends)
        width = config.num_attention_heads * (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        return cls(passes * inner, passes * head.numel(), 6.0 * config.num_hidden_layers * width)

    def in_pack(self, pack: Pack) -> float:
        """What a training step computes for the pack."""
        squares = float((pack.lengths_D.astype(float) ** 2).sum())
        return self.per_token * len(pack.ids_T) + self.per_learned * int(pack.learn_T.sum()) + self.per_square * squares


def _active(name: str, weight: Any, config: Any) -> float:
    """How many of these weights a token meets: of experts, those that it is sent to."""
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)
    chosen = getattr(config, "num_experts_per_tok", None)
    share = chosen / experts if experts and chosen and ".experts." in name else 1.0
    return float(weight.numel() * share)


def peak_flops(device: torch.device, dtype: torch.dtype) -> float | None:
    """What the device can do in a second; None where that is not known, as for CPUs and other precisions."""
    if device.type != "cuda" or dtype is not torch.bfloat16:
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in PEAKS if part in name), None)
