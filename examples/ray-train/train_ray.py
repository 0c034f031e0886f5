"""Teach a language model to answer questions, on every accelerator of a Ray cluster, with Ray Train and DDP.

Where the cluster has GPUs it fine-tunes a model of the hub. Where it has none it needs no network either: it trains a
small Qwen2 from scratch on the docstrings of the Python standard library. `ray: {}` in train.yaml starts the cluster;
without one, Ray starts its own on this machine.

Tensor names end in their shape: B examples, T tokens, V words of the vocabulary.
"""
# ruff: noqa: N803, N806 - the shapes are in capitals

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed
from instructions import encode, load_pairs, prompt, train_tokenizer
from progress import Progress
from settings import ON_GPUS, TINY, Settings, given_settings
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, Qwen2Config

IGNORED = -100  # the label that the loss leaves out
SAMPLE = prompt("What does shutil.copy(src, dst) do?")


def main() -> None:
    given = given_settings()
    ray.init(logging_level="warning")
    kind = "GPU" if ray.cluster_resources().get("GPU") else "CPU"
    workers = int(os.environ.get("WORLD_SIZE", "1"))

    settings = replace(ON_GPUS if kind == "GPU" else Settings(), **given)
    tokenizer, examples = prepare_data(settings)
    print(f"{len(examples):,} examples from {settings.dataset}, vocabulary of {len(tokenizer):,}", flush=True)

    trainer = ray.train.torch.TorchTrainer(
        train_on_one_worker,
        train_loop_config={"settings": settings, "data": ray.put((tokenizer, examples))},
        scaling_config=ray.train.ScalingConfig(num_workers=workers, use_gpu=kind == "GPU"),
        run_config=ray.train.RunConfig(
            # A second attempt of the run finds this folder again, and continues from the last checkpoint in it.
            storage_path=os.environ.get("AIR_CHECKPOINT_DIR") or tempfile.mkdtemp(),
            name="ray-train",
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=1),
            callbacks=[Progress(settings)],
            logging_config=ray.train.LoggingConfig(log_level="WARNING"),
        ),
    )
    result = trainer.fit()
    print(f"\n{SAMPLE}{result.return_value}\n")
    print(f"model saved in {result.checkpoint.path}", flush=True)


def prepare_data(settings: Settings) -> tuple[PreTrainedTokenizerBase, list[list[int]]]:
    """The data set as token ids: made once, here, and carried to the workers by Ray."""
    pairs = load_pairs(settings.dataset)
    tokenizer = train_tokenizer(pairs) if settings.model == TINY else AutoTokenizer.from_pretrained(settings.model)
    return tokenizer, encode(pairs, tokenizer, settings.max_tokens)


def train_on_one_worker(config: dict[str, Any]) -> str | None:
    """What every worker runs on its share of the data; returns, on the first worker, an answer of the trained model."""
    settings = config["settings"]
    tokenizer, examples = ray.get(config["data"])
    first_worker = ray.train.get_context().get_world_rank() == 0
    device = ray.train.torch.get_device()
    torch.manual_seed(settings.seed)

    checkpoint = ray.train.get_checkpoint()
    network = load_network(settings, tokenizer, checkpoint)
    model = ray.train.torch.prepare_model(network, parallel_strategy_kwargs={"gradient_as_bucket_view": True})
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    first_step = load_optimizer(optimizer, checkpoint) if checkpoint else 0
    if first_worker and checkpoint:
        print(f"continuing after step {first_step}", flush=True)

    loader = DataLoader(
        examples,
        batch_size=settings.batch_size,
        shuffle=True,
        drop_last=True,
        collate_fn=partial(collate, pad_id=tokenizer.eos_token_id),
    )
    loader = ray.train.torch.prepare_data_loader(loader)

    model.train()
    window = Window(device)
    todo = islice(batches(loader, first_step), settings.steps - first_step)
    for step, batch in enumerate(todo, start=first_step + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, step)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits_BTV = model(input_ids=batch["ids_BT"], attention_mask=batch["mask_BT"]).logits
        loss_sum, tokens = summed_loss(logits_BTV, batch["labels_BT"])
        mean_loss(loss_sum, tokens).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        window.add(loss_sum, tokens)

        save = step % settings.checkpoint_every == 0 or step == settings.steps
        if save or step == first_step + 1 or step % settings.log_every == 0:
            metrics = {"step": step, "learning_rate": learning_rate(settings, step), **window.close()}
            report(metrics, network, tokenizer, optimizer if save and first_worker else None)

    return answer(network, tokenizer) if first_worker else None


def load_network(
    settings: Settings, tokenizer: PreTrainedTokenizerBase, checkpoint: ray.train.Checkpoint | None
) -> PreTrainedModel:
    """The model to train, its weights in float32: from the last checkpoint, made here, or from the hub."""
    if checkpoint:
        with checkpoint.as_directory() as folder:
            network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    elif settings.model == TINY:
        network = AutoModelForCausalLM.from_config(
            Qwen2Config(
                vocab_size=len(tokenizer),
                hidden_size=128,
                intermediate_size=384,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=1024,
                tie_word_embeddings=True,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )
    else:
        network = AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32)
    if settings.model != TINY:
        # Recompute activations in the backward pass, or they would not fit beside the weights of a large model.
        network.gradient_checkpointing_enable({"use_reentrant": False})
    network.config.use_cache = False
    return network


def collate(examples: list[list[int]], pad_id: int) -> dict[str, torch.Tensor]:
    """One batch, padded to its longest example; the padding is neither attended to nor learned."""
    shape = (len(examples), max(map(len, examples)))
    ids_BT = torch.full(shape, pad_id)
    mask_BT = torch.zeros(shape, dtype=torch.long)
    for row, token_ids in enumerate(examples):
        ids_BT[row, : len(token_ids)] = torch.tensor(token_ids)
        mask_BT[row, : len(token_ids)] = 1
    return {"ids_BT": ids_BT, "mask_BT": mask_BT, "labels_BT": ids_BT.where(mask_BT == 1, IGNORED)}


def batches(loader: DataLoader, first_step: int) -> Iterator[dict[str, torch.Tensor]]:
    """Batches without end, in a new order every epoch, starting after the ones that an earlier attempt has seen."""
    if len(loader) == 0:
        raise ValueError("there are fewer examples than one batch takes: lower --batch-size")
    first_epoch, seen = divmod(first_step, len(loader))
    for epoch in count(first_epoch):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        yield from islice(loader, seen if epoch == first_epoch else 0, None)


def learning_rate(settings: Settings, step: int) -> float:
    """A linear rise over `warmup_steps`, then half a cosine down to a tenth."""
    if step <= settings.warmup_steps:
        return settings.learning_rate * step / settings.warmup_steps
    progress = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    return settings.learning_rate * (0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2)


def summed_loss(logits_BTV: torch.Tensor, labels_BT: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of this worker's batch, summed over its tokens, and their number; token t predicts token t + 1."""
    targets_BT = labels_BT[:, 1:]
    loss_sum = cross_entropy(
        logits_BTV[:, :-1].float().flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return loss_sum, (targets_BT != IGNORED).sum()


def mean_loss(loss_sum: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """This worker's part of the mean over the tokens of all workers.

    DDP averages the workers' gradients, and some have longer texts than others: this way every token counts the same.
    """
    all_tokens = tokens.clone()
    torch.distributed.all_reduce(all_tokens)
    return loss_sum * torch.distributed.get_world_size() / all_tokens


class Window:
    """What has happened since the last report, summed over all workers when it is closed."""

    def __init__(self, device: torch.device) -> None:
        self.sums = torch.zeros(2, device=device, dtype=torch.float64)
        self.opened_at = time.monotonic()

    def add(self, loss_sum: torch.Tensor, tokens: torch.Tensor) -> None:
        self.sums += torch.stack([loss_sum.detach(), tokens])

    def close(self) -> dict[str, float]:
        torch.distributed.all_reduce(self.sums)
        loss_sum, tokens = self.sums.tolist()
        seconds = time.monotonic() - self.opened_at
        self.sums.zero_()
        self.opened_at = time.monotonic()
        return {"loss": loss_sum / tokens, "tokens_per_s": tokens / seconds}


def report(
    metrics: dict[str, float],
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    optimizer: torch.optim.Optimizer | None,
) -> None:
    """Report to Ray Train, which waits for all workers to do so; with a checkpoint where an optimizer is given."""
    if optimizer is None:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        torch.save({"optimizer": optimizer.state_dict(), "step": metrics["step"]}, Path(folder, "optimizer.pt"))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def load_optimizer(optimizer: torch.optim.Optimizer, checkpoint: ray.train.Checkpoint) -> int:
    """Put the optimizer where it was; returns the step of the checkpoint."""
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder, "optimizer.pt"), map_location="cpu")
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


@torch.inference_mode()
def answer(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """The model's likeliest answer to the sample question."""
    network.eval()
    question = tokenizer(SAMPLE, return_tensors="pt", return_token_type_ids=False).to(network.device)
    ids_BT = network.generate(**question, max_new_tokens=40, do_sample=False, use_cache=True)
    return tokenizer.decode(ids_BT[0, question["input_ids"].shape[1] :], skip_special_tokens=True)


if __name__ == "__main__":
    main()
