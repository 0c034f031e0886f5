"""A row of tokens that holds several documents: each attends to itself alone, and none is padded.

T tokens of the row, D documents, H heads, K heads of keys and values, C channels of a head, L length of a document.
"""
# ruff: noqa: N803, N806, N815 - the shapes are in capitals

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from recipes.engine.world import sent
from recipes.errors import RecipeError

NAME = "documents"
PADDED = "Set model.attention=padded"
# What a model may ask of its attention that is not computed here; each of them changes the result.
BEYOND_US = ("softcap", "s_aux", "position_bias")
HALF = (torch.bfloat16, torch.float16)
# What flash attention takes. Source: the checks of mha_varlen_fwd in torch.
OLDEST_CAPABILITY = (8, 0)
MOST_CHANNELS = 256
CHANNELS_IN_STEPS_OF = 8


@dataclass(frozen=True)
class Documents:
    """Where the documents of a row are; `starts_D1` begins with 0 and ends with T, on the device of the row."""

    lengths_D: tuple[int, ...]
    starts_D1: torch.Tensor
    longest: int
    kernel: bool  # whether the device has one for documents of different length

    @classmethod
    def of(cls, lengths_D: torch.Tensor, device: torch.device) -> Documents:
        """The documents with these lengths, one after the other."""
        starts_D1 = torch.zeros(len(lengths_D) + 1, dtype=torch.int32)
        starts_D1[1:] = lengths_D.cumsum(0)
        lengths = tuple(lengths_D.tolist())
        return cls(lengths, sent(starts_D1, device), max(lengths), has_kernel(device))


@cache
def has_kernel(device: torch.device) -> bool:
    """Whether this build of torch has flash attention, and the device can compute it."""
    if device.type != "cuda" or not torch.backends.cuda.is_flash_attention_available():
        return False
    return bool(torch.cuda.get_device_capability(device) >= OLDEST_CAPABILITY)


def attend(
    module: Any,
    query_1HTC: torch.Tensor,
    key_1KTC: torch.Tensor,
    value_1KTC: torch.Tensor,
    attention_mask: Any,
    *,
    documents: Documents | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each document, for transformers' models; returns 1THC.

    Flash attention takes all documents at once, in bfloat16 or float16 on GPUs; elsewhere they are taken in turn.

    Raises:
        RecipeError: the model's attention has something that neither way computes, or the model keeps from it what
            the documents are.
    """
    del attention_mask  # our mask is that of the documents
    if documents is None:
        raise RecipeError([f"{type(module).__name__} is not told which documents share a row"], hint=PADDED)
    if asked := [name for name in BEYOND_US if more.get(name) is not None]:
        raise RecipeError(
            [f"{type(module).__name__} has attention with {', '.join(asked)}, which is not computed per document"],
            hint=PADDED,
        )
    query_1HTC, key_1KTC, value_1KTC = _in_one_precision(query_1HTC, key_1KTC, value_1KTC)
    if documents.kernel and not dropout and _suits_kernel(query_1HTC, value_1KTC):
        out_THC = _by_kernel(query_1HTC, key_1KTC, value_1KTC, documents, scaling, sliding_window)
        return out_THC[None], None
    outs = [
        scaled_dot_product_attention(
            query_1HLC, key_1KLC, value_1KLC, scale=scaling, dropout_p=dropout, enable_gqa=True,
            **_causal(query_1HLC, sliding_window),
        )
        for query_1HLC, key_1KLC, value_1KLC in zip(
            *(states.split(documents.lengths_D, dim=2) for states in (query_1HTC, key_1KTC, value_1KTC)), strict=True
        )
    ]  # fmt: skip
    return torch.cat(outs, dim=2).transpose(1, 2), None


def _in_one_precision(*states_1HTC: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Under autocast, rotary embeddings give queries and keys in float32; here they are what values are."""
    device = states_1HTC[0].device.type
    if not torch.is_autocast_enabled(device):
        return states_1HTC
    dtype = torch.get_autocast_dtype(device)
    return tuple(states.to(dtype) for states in states_1HTC)


def _suits_kernel(query_1HTC: torch.Tensor, value_1KTC: torch.Tensor) -> bool:
    channels = query_1HTC.shape[3]
    fits = channels <= MOST_CHANNELS and channels % CHANNELS_IN_STEPS_OF == 0
    return fits and value_1KTC.shape[3] == channels and query_1HTC.dtype in HALF


def _causal(query_1HLC: torch.Tensor, sliding_window: int | None) -> Mapping[str, Any]:
    length = query_1HLC.shape[2]
    if sliding_window is None or sliding_window >= length:
        return {"is_causal": True}
    places_L = torch.arange(length, device=query_1HLC.device)
    back_LL = places_L[:, None] - places_L
    return {"attn_mask": (back_LL >= 0) & (back_LL < sliding_window)}


def _by_kernel(  # noqa: PLR0917 - as torch's own functions take them
    query_1HTC: torch.Tensor,
    key_1KTC: torch.Tensor,
    value_1KTC: torch.Tensor,
    documents: Documents,
    scaling: float | None,
    sliding_window: int | None,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    longest = documents.longest
    # The kernel counts the tokens before a token's own; transformers counts that one too.
    reach = -1 if sliding_window is None or sliding_window >= longest else sliding_window - 1
    query_THC, key_TKC, value_TKC = (states[0].transpose(0, 1) for states in (query_1HTC, key_1KTC, value_1KTC))
    out_THC: torch.Tensor = varlen_attn(
        query_THC, key_TKC, value_TKC, documents.starts_D1, documents.starts_D1, longest, longest,
        scale=scaling, window_size=(reach, 0), enable_gqa=query_THC.shape[1] != key_TKC.shape[1],
    )  # fmt: skip
    return out_THC


def _no_mask(*_: Any, **__: Any) -> None:
    """The documents say all that a mask would."""


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, _no_mask)
