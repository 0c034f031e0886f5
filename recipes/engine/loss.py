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
from recipes.engine.world import sent

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
        input_ids=sent(ids_T, device)[None],
        position_ids=sent(places_T, device)[None],
        attention_mask=torch.empty(1, 1, 1, 1, device=device),  # else positions are searched for documents, on the host
        documents=Documents.of(lengths_D, device),
        logits_to_keep=sent(rows_R, device),
        use_cache=False,
    ).logits
    return _summed(logits_1RV[0], sent(targets_R, device))


def _of_padded_rows(network: Any, pack: Pack, device: torch.device) -> torch.Tensor:
    lengths_D = torch.from_numpy(pack.lengths_D)
    inside_DL = torch.arange(int(lengths_D.max())) < lengths_D[:, None]
    ids_DL = torch.zeros(inside_DL.shape, dtype=torch.long)
    ids_DL[inside_DL] = torch.from_numpy(pack.ids_T)
    learn_DL = torch.zeros_like(inside_DL)
    learn_DL[inside_DL] = torch.from_numpy(pack.learn_T)
    rows_2R = learn_DL[:, 1:].nonzero(as_tuple=True)
    targets_R = ids_DL[:, 1:][rows_2R]
    logits_DLV = network(
        input_ids=sent(ids_DL, device), attention_mask=sent(inside_DL.long(), device), use_cache=False
    ).logits
    documents_R, places_R = (sent(one_R, device) for one_R in rows_2R)
    return _summed(logits_DLV[documents_R, places_R], sent(targets_R, device))


def _summed(logits_RV: torch.Tensor, targets_R: torch.Tensor) -> torch.Tensor:
    """In parts where there are many: the backward pass makes the float32 copies that cross entropy needs again."""
    if len(targets_R) <= ROWS_AT_ONCE or not logits_RV.requires_grad:
        return _part(logits_RV, targets_R)
    parts = zip(logits_RV.split(ROWS_AT_ONCE), targets_R.split(ROWS_AT_ONCE), strict=True)
    losses = [checkpoint(_part, logits, targets, use_reentrant=False) for logits, targets in parts]
    return torch.stack(losses).sum()


def _part(logits_RV: torch.Tensor, targets_R: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits_RV.float(), targets_R, reduction="sum")
