"""A training as many are written: every row padded to 1,024 tokens, the loss on all of them, a report of each step.

    torchrun --standalone --nproc-per-node 2 -m training.reference --cache FOLDER

DDP, AdamW, a DataLoader with a DistributedSampler. The original keeps its weights in bfloat16; on CPUs that would be
slower, and here all contenders compute in float32. Its report of each step goes to a server; here it is read from the
device and printed, which costs less.
"""
# ruff: noqa: N806 - shapes are in capitals: B rows, T tokens

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from training.given import LEARNING_RATE, arguments, load_rows, new_network
from training.window import Window, leave

LENGTH_TOKENS = 1024


def main() -> None:
    values = arguments(str(__doc__)).parse_args()
    dist.init_process_group("gloo")
    rows = load_rows(values.cache)
    network = DistributedDataParallel(new_network(rows.tokenizer))
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
    end = rows.tokenizer.eos_token_id

    def padded(batch: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        padding = [LENGTH_TOKENS - len(ids) for ids in batch]
        ids_BT = torch.tensor([ids + [end] * more for ids, more in zip(batch, padding, strict=True)])
        mask_BT = torch.tensor([[1] * len(ids) + [0] * more for ids, more in zip(batch, padding, strict=True)])
        return ids_BT, mask_BT

    sampler = DistributedSampler(rows.ids, shuffle=True, seed=0, drop_last=True)
    loader = DataLoader(rows.ids, batch_size=values.rows, sampler=sampler, collate_fn=padded, drop_last=True)
    window = Window("reference", warmup_steps=values.warmup_steps, steps=values.steps)
    while True:
        for ids_BT, mask_BT in loader:
            window.count(tokens=int(mask_BT.sum()), padded_tokens=ids_BT.numel())
            loss = network(input_ids=ids_BT, attention_mask=mask_BT, labels=ids_BT).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if dist.get_rank() == 0:
                print(f"loss {loss.item():.4f}", file=sys.stderr, flush=True)
            if not window.stepped():
                window.report(loss.item())
                leave()


if __name__ == "__main__":
    main()
