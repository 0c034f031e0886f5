"""From prompts to the tokens of their answers, a batch at a time.

Names of tensors end in their shape: B rows of the batch, P tokens of the prompts, T tokens so far, N new tokens, V
words of the vocabulary.
"""
# ruff: noqa: N803, N806 - the shapes are in capitals

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from transformers import DynamicCache

from recipes.batch.settings import Generation

LOOKS_EVERY = 16  # tokens, at who has finished: each look makes the device wait for the host


def batches(lengths: Sequence[int], settings: Generation) -> Iterator[list[int]]:
    """Rows of similar length, the longest first, as many as `batch_tokens` holds with their answers."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if batch and (len(batch) + 1) * (lengths[batch[0]] + settings.max_new_tokens) > settings.batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def decode(
    network: Any,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[int],
    settings: Generation,
    *,
    stop: Collection[int],
    pad: int,
) -> list[list[int]]:
    """The tokens of each answer, its stop token left out; `rows` are the numbers that the random numbers come from."""
    device = network.device
    with torch.inference_mode():
        ids_BT, mask_BT = padded(prompts, pad, device)
        positions_BT = (mask_BT.cumsum(-1) - 1).clamp(min=0)
        seeds_B = torch.tensor([seed_of(row, settings.seed) for row in rows], device=device)
        stop_S = torch.tensor(sorted(stop), device=device)
        answers_BN = torch.full((len(prompts), settings.max_new_tokens), pad, device=device)
        places_B = torch.arange(len(prompts), device=device)  # of the rows that are still in the batch, in answers_BN
        ended_B = torch.zeros(len(prompts), dtype=torch.bool, device=device)
        cache = DynamicCache(config=network.config)
        options = forward_options(network, cache)
        for n in range(settings.max_new_tokens):
            logits_BV = network(
                input_ids=ids_BT,
                attention_mask=mask_BT,
                position_ids=positions_BT,
                **options,
            ).logits[:, -1]
            next_B = chosen(logits_BV.float(), seeds_B[places_B], n, settings)
            answers_BN[places_B, n] = next_B
            ended_B = ended_B | torch.isin(next_B, stop_S)
            mask_BT = torch.cat([mask_BT, mask_BT.new_ones(len(places_B), 1)], dim=-1)
            ids_BT, positions_BT = next_B[:, None], positions_BT[:, -1:] + 1
            if (n + 1) % LOOKS_EVERY == 0 and (ended := int(ended_B.sum())):
                if ended == len(places_B):
                    break
                if 2 * ended >= len(places_B):  # go on with the others alone
                    left_B = (~ended_B).nonzero()[:, 0]
                    cache.batch_select_indices(left_B)
                    ids_BT, mask_BT, positions_BT = ids_BT[left_B], mask_BT[left_B], positions_BT[left_B]
                    places_B, ended_B = places_B[left_B], ended_B[left_B]
    return [before_stop(answer, stop) for answer in answers_BN.tolist()]


def forward_options(network: Any, cache: DynamicCache) -> dict[str, Any]:
    """What to pass beside the tokens: the cache by the name it has in this transformers, and that one logit will do."""
    known = inspect.signature(network.forward).parameters
    last_only = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
    return {"cache" if "cache" in known else "past_key_values": cache, "use_cache": True, **last_only}


def before_stop(answer: Sequence[int], stop: Collection[int]) -> list[int]:
    end = next((place for place, token in enumerate(answer) if token in stop), len(answer))
    return list(answer[:end])


def padded(prompts: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts that all end in the last column, and where they are."""
    longest = max(map(len, prompts))
    ids_BP = torch.tensor([[pad] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    mask_BP = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return ids_BP, mask_BP


def seed_of(row: int, seed: int) -> int:
    """32 bits for the random numbers of a row."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{row}".encode()).digest()[:4], "big")


def chosen(logits_BV: torch.Tensor, seeds_B: torch.Tensor, n: int, settings: Generation) -> torch.Tensor:
    """The next token of each row, the n-th: the likeliest, after each was shifted by a random number of its own.

    That draws from the shares of the tokens (Gumbel-max). To draw by where one number falls among all the shares would
    turn on the last bits of their sums, and these differ with the number of threads.
    """
    if settings.temperature == 0:
        return logits_BV.argmax(-1)
    logits_BV = kept(logits_BV / settings.temperature, settings)
    return (logits_BV.double() - exponential(seeds_B, n, logits_BV.shape[-1]).log()).argmax(-1)


def kept(logits_BV: torch.Tensor, settings: Generation) -> torch.Tensor:
    """The logits of the `top_k` likeliest tokens, and of those that make up `top_p`; the others are out."""
    if settings.top_k and settings.top_k < logits_BV.shape[-1]:
        least_B1 = logits_BV.topk(settings.top_k).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < least_B1, -torch.inf)
    if settings.top_p < 1:
        sorted_BV, order_BV = logits_BV.sort(dim=-1, descending=True, stable=True)
        shares_BV = sorted_BV.softmax(-1)
        out_BV = shares_BV.cumsum(-1) - shares_BV >= settings.top_p  # never the first
        logits_BV = logits_BV.masked_fill(out_BV.scatter(-1, order_BV, out_BV), -torch.inf)
    return logits_BV


def exponential(seeds_B: torch.Tensor, n: int, tokens: int) -> torch.Tensor:
    """An exponential random number for each row and token: a hash of the row's seed, `n` and the token.

    The same on every device, and whatever the rows beside it. Source of the hash: lowbias32, Chris Wellons.
    """
    tokens_V = torch.arange(tokens, device=seeds_B.device)
    hashed_BV = mixed(mixed(mixed(seeds_B)[:, None] ^ n) ^ tokens_V)
    return -torch.log((hashed_BV.double() + 0.5) / 2**32)


def mixed(bits: torch.Tensor) -> torch.Tensor:
    """32 bits of each number, well mixed; what multiplication carries beyond them is cut off."""
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D & 0xFFFFFFFF
    bits = (bits ^ (bits >> 15)) * 0x846CA68B & 0xFFFFFFFF
    return bits ^ (bits >> 16)
