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
        uniform_BN = uniform(rows, settings, device)
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
            next_B = chosen(logits_BV.float(), uniform_BN[places_B, n], settings)
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


def uniform(rows: Sequence[int], settings: Generation, device: torch.device) -> torch.Tensor:
    """A number in [0, 1) for each token of each row, the same whatever the rows beside it."""
    if settings.temperature == 0:
        return torch.zeros(len(rows), settings.max_new_tokens, device=device)
    made = []
    for row in rows:
        digest = hashlib.sha256(f"{settings.seed}:{row}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        made.append(torch.rand(settings.max_new_tokens, generator=generator))
    return torch.stack(made).to(device)


def chosen(logits_BV: torch.Tensor, uniform_B: torch.Tensor, settings: Generation) -> torch.Tensor:
    """The next token of each row: where its random number falls among the tokens, the likeliest first."""
    if settings.temperature == 0:
        return logits_BV.argmax(-1)
    sorted_BV, order_BV = (logits_BV / settings.temperature).sort(dim=-1, descending=True, stable=True)
    if settings.top_k:
        sorted_BV[:, settings.top_k :] = -torch.inf
    shares_BV = sorted_BV.softmax(-1)
    before_BV = shares_BV.cumsum(-1) - shares_BV
    shares_BV = shares_BV.masked_fill(before_BV >= settings.top_p, 0.0)
    reached_BV = shares_BV.cumsum(-1)
    place_B = (reached_BV <= uniform_B[:, None] * reached_BV[:, -1:]).sum(-1)
    last_B = (shares_BV > 0).sum(-1) - 1  # where rounding would lead beyond it
    return order_BV.gather(-1, place_B.minimum(last_B)[:, None])[:, 0]
