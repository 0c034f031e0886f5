"""What a pack of documents costs the network: the cross entropy of its learned tokens, summed.

T tokens of a pack, D documents, L tokens of the longest, R rows of logits (tokens that precede a learned one), V words.
"""
# ruff: noqa: N803, N806 - the shapes are in capitals

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from recipes.engine.attention import Documents
from recipes.engine.data.corpus import Pack

ROWS_AT_ONCE = 2048  # float32 logits of so many are held at a time


def summed_loss(network: Any, pack: Pack, device: torch.device, *, by_document: bool) -> torch.Tensor:
    """The summed cross entropy of the pack's learned tokens, in float32."""
    if by_document:
        return _of_one_row(network, pack, device)
    return _of_padded_rows(network, pack, device)


def _of_one_row(network: Any, pack: Pack, device: torch.device) -> torch.Tensor:
    lengths_D = torch.from_numpy(pack.lengths_D)
    ids_T = torch.from_numpy(pack.ids_T)
    rows_R = torch.from_numpy(pack.learn_T[1:]).nonzero()[:, 0]
    targets_R = ids_T[rows_R + 1]
    starts_T = (lengths_D.cumsum(0) - lengths_D).repeat_interleave(lengths_D)
    places_T = torch.arange(len(ids_T)) - starts_T
    logits_1RV = network(
        input_ids=ids_T.to(device, non_blocking=True)[None],
        position_ids=places_T.to(device, non_blocking=True)[None],
        documents=Documents.of(lengths_D, device),
        logits_to_keep=rows_R.to(device, non_blocking=True),
        use_cache=False,
    ).logits
    return _summed(logits_1RV[0], targets_R.to(device, non_blocking=True))


def _of_padded_rows(network: Any, pack: Pack, device: torch.device) -> torch.Tensor:
    lengths_D = torch.from_numpy(pack.lengths_D)
    inside_DL = torch.arange(int(lengths_D.max())) < lengths_D[:, None]
    ids_DL = torch.zeros(inside_DL.shape, dtype=torch.long)
    ids_DL[inside_DL] = torch.from_numpy(pack.ids_T)
    learn_DL = torch.zeros_like(inside_DL)
    learn_DL[inside_DL] = torch.from_numpy(pack.learn_T)
    logits_DLV = network(
        input_ids=ids_DL.to(device), attention_mask=inside_DL.long().to(device), use_cache=False
    ).logits
    next_DL = learn_DL[:, 1:].to(device)
    return _summed(logits_DLV[:, :-1][next_DL], ids_DL[:, 1:].to(device)[next_DL])


def _summed(logits_RV: torch.Tensor, targets_R: torch.Tensor) -> torch.Tensor:
    """In parts where there are many: the backward pass makes the float32 copies that cross entropy needs again."""
    if len(targets_R) <= ROWS_AT_ONCE or not logits_RV.requires_grad:
        return _part(logits_RV, targets_R)
    parts = zip(logits_RV.split(ROWS_AT_ONCE), targets_R.split(ROWS_AT_ONCE), strict=True)
    losses = [checkpoint(_part, logits, targets, use_reentrant=False) for logits, targets in parts]
    return torch.stack(losses).sum()


def _part(logits_RV: torch.Tensor, targets_R: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits_RV.float(), targets_R, reduction="sum")
