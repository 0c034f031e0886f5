"""How a network is put on its workers: what is exchanged when, and what does not fit on one device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from recipes.engine.loss import summed_loss
from recipes.engine.model import Architecture, Lora, Model, load_network
from recipes.engine.parallel import Parallel, Parallelized, too_large
from recipes.engine.world import World
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from ..run.small_training import on_ranks  # noqa: TID252
from .made import MadeTokenizer, corpus

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
SMALL = Architecture(layers=2, hidden=32, intermediate=48, heads=4, key_value_heads=2)
QWEN_3B = Qwen2Config(
    vocab_size=151_936, hidden_size=2048, intermediate_size=11_008, num_hidden_layers=36, num_attention_heads=16,
    num_key_value_heads=2, tie_word_embeddings=True,
)  # fmt: skip
LLAMA_70B = LlamaConfig(
    vocab_size=128_256, hidden_size=8192, intermediate_size=28_672, num_hidden_layers=80, num_attention_heads=64,
    num_key_value_heads=8,
)  # fmt: skip


def gradients_after_each_pack(strategy: Any) -> list[tuple[list[str], int]]:
    """After each of two packs of a step: what kinds of tensor the gradients are, and how many numbers are held here."""
    world = World.here(CPU)
    torch.manual_seed(0)
    network = load_network(Model(), SMALL, Lora(), MadeTokenizer(), CPU)
    model = Parallelized(network, Parallel(strategy), world, torch.float32)
    found = []
    for last in (False, True):
        with model.gradients(last=last):
            summed_loss(model, corpus(6, world.rank).pack(range(6)), CPU, by_document=True).backward()
        grads = [one.grad for one in network.parameters()]
        here = [one.to_local() if isinstance(one, DTensor) else one for one in grads if one is not None]
        found.append((sorted({type(one).__name__ for one in grads}), sum(one.numel() for one in here)))
    return found


def test_no_worker_holds_the_gradients_of_a_whole_model_that_is_shared_out() -> None:
    numbers = sum(one.numel() for one in load_network(Model(), SMALL, Lora(), MadeTokenizer(), CPU).parameters())
    for after_first, after_last in on_ranks(2, gradients_after_each_pack, "fsdp"):
        assert after_first == after_last
        assert after_first[0] == ["DTensor"]
        assert after_first[1] < 0.6 * numbers


@pytest.mark.parametrize(
    ("config", "trained", "gib", "shared"),
    [
        (QWEN_3B, torch.float32, 79, True),  # 16 bytes and a copy in bfloat16 for each number
        (QWEN_3B, torch.float32, 140, False),
        (QWEN_3B, None, 79, False),
        (LLAMA_70B, None, 79, True),  # not trained, and 140 GB all the same
        (LLAMA_70B, None, 280, False),
    ],
)
def test_what_does_not_fit_on_a_gpu_is_shared_out(
    config: Any, trained: Any, gib: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = SimpleNamespace(total_memory=gib << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: memory)
    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(config, dtype=trained or torch.bfloat16)
    network.requires_grad_(trained is not None)
    assert too_large(network, World(0, 8, GPU), torch.bfloat16) is shared


def test_a_network_comes_on_the_host_so_that_no_device_has_to_hold_all_of_it() -> None:
    network = load_network(Model(precision="float32"), SMALL, Lora(), MadeTokenizer(), torch.device("meta"))
    assert {one.device for one in network.parameters()} == {CPU}
