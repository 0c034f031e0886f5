"""Tokens per second, model FLOPs utilization and memory: our step, and the loop that many scripts have.

B rows, T tokens of a row.
"""
# ruff: noqa: N806 - the shapes are in capitals

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from device.given import LONGEST_TOKENS, Scale, Words, made_corpus, training_of, wait_for
from recipes.engine.data.corpus import Pack
from recipes.engine.data.feed import Feed
from recipes.engine.flops import Flops, peak_flops
from recipes.engine.meter import peak_memory_bytes
from recipes.engine.model import Model, new_config
from transformers import AutoModelForCausalLM

REFERENCE_ROWS = 4
REFERENCE_RATE = 2e-5
Facts = dict[str, Any]


def plain(scale: Scale) -> Facts:
    """Packed documents, float32 weights, bfloat16 computation on GPUs, fused AdamW."""
    return ours(scale, Model())


def checkpointed(scale: Scale) -> Facts:
    """The same, with activations that are computed again for the backward pass."""
    return ours(scale, Model(activation_checkpointing=True))


def compiled(scale: Scale) -> Facts:
    """The same as `plain`, compiled."""
    return ours(scale, Model(compile=True))


def ours(scale: Scale, model: Model) -> Facts:
    """Steps of the training as the recipes take them, all but what is done between steps."""
    with tempfile.TemporaryDirectory() as folder:
        training = training_of(scale, Path(folder), model=model)
        last_step = scale.warmup_steps + scale.steps
        began_s = time.perf_counter()
        warmup_s = 0.0
        with Feed(training.corpora.train, training.plan, last_step=last_step) as feed:
            for batch, packs in training.meter.waiting(feed):
                training.order_after(training.take_step(batch, packs))
                if batch.step == scale.warmup_steps:
                    wait_for(scale.device)
                    warmup_s = time.perf_counter() - began_s
                    training.meter.forget()
        return {**training.meter.read(), "warmup_s": warmup_s, "parameters": training.parameters}


def reference(scale: Scale) -> Facts:
    """Rows padded to 1,024 tokens, the loss on all of them, pure bfloat16 with AdamW, the loss read after each step."""
    words = Words(scale.architecture.vocabulary)
    with scale.device:
        network = AutoModelForCausalLM.from_config(new_config(scale.architecture, words), dtype=torch.bfloat16)
    network.config.use_cache = False
    flops, peak = Flops.of(network, frozen=False), peak_flops(scale.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(network.parameters(), lr=REFERENCE_RATE)
    corpus = made_corpus(scale.documents, len(words))
    tokens, work, began_s = 0, 0.0, time.perf_counter()
    for step in range(1, scale.warmup_steps + scale.steps + 1):
        pack = corpus.pack(range((step - 1) * REFERENCE_ROWS, step * REFERENCE_ROWS))
        ids_BT, mask_BT = (states.to(scale.device) for states in padded(pack, end=words.eos_token_id))
        loss = network(input_ids=ids_BT, attention_mask=mask_BT, labels=ids_BT).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        tokens, work = tokens + len(pack.ids_T), work + flops.in_pack(pack)
        if step == scale.warmup_steps:
            tokens, work, began_s = 0, 0.0, time.perf_counter()
    seconds = time.perf_counter() - began_s
    return {
        "tokens_per_s": tokens / seconds,
        "padded_tokens_per_s": scale.steps * REFERENCE_ROWS * LONGEST_TOKENS / seconds,
        "mfu": work / seconds / peak if peak else None,
        "peak_memory_bytes": peak_memory_bytes(scale.device),
        "seconds_per_step": seconds / scale.steps,
    }


def padded(pack: Pack, *, end: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The documents as rows, and a mask of what is not padding."""
    inside_BT = torch.arange(LONGEST_TOKENS) < torch.from_numpy(pack.lengths_D)[:, None]
    ids_BT = torch.full(inside_BT.shape, end)
    ids_BT[inside_BT] = torch.from_numpy(pack.ids_T)
    return ids_BT, inside_BT.long()
