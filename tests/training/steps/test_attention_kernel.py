"""What is given to flash attention; `kernel` is torch's own but for what only a GPU can compute (conftest.py)."""
# ruff: noqa: N806 - the shapes are in capitals: T tokens, H heads, C channels of a head

from __future__ import annotations

from typing import Any

import pytest
import torch
from recipes.engine import attention
from recipes.engine.attention import Documents, attend
from recipes.engine.loss import summed_loss
from recipes.engine.parallel import Parallel, Parallelized
from recipes.engine.world import World
from torch._dynamo.testing import CompileCounter
from transformers import AutoModelForCausalLM, MistralConfig, Qwen2Config

from .made import corpus

CPU = torch.device("cpu")
SIZES = {
    "vocab_size": 67, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
}  # fmt: skip


def trained(config: Any, dtype: torch.dtype = torch.bfloat16) -> tuple[float, torch.Tensor]:
    """The loss of a pack, and its gradients, computed in `dtype` as a training does."""
    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_config(config)
    network.set_attn_implementation(attention.NAME)
    model = Parallelized(network, Parallel(), World(0, 1, CPU), dtype)
    loss = summed_loss(model, corpus(6, 0).pack(range(6)), CPU, by_document=True)
    loss.backward()
    return loss.item(), torch.cat([one.grad.flatten() for one in network.parameters()])


@pytest.mark.parametrize("config", [Qwen2Config(**SIZES), MistralConfig(**SIZES, sliding_window=5)])
def test_flash_attention_without_its_gpu_kernel_takes_what_autocast_gives(config: Any, kernel: Any) -> None:
    loss, gradients = trained(config)
    assert kernel.calls == config.num_hidden_layers
    kernel.calls = 0
    exact, exact_gradients = trained(config, torch.float32)
    assert kernel.calls == 0  # float32 is taken a document at a time
    assert loss == pytest.approx(exact, rel=1e-3)
    assert torch.nn.functional.cosine_similarity(gradients, exact_gradients, dim=0) > 0.999


@pytest.mark.parametrize(("channels", "value_channels"), [(12, 12), (264, 264), (16, 8)])
def test_heads_that_the_kernel_does_not_take_are_computed_in_turn(
    channels: int, value_channels: int, kernel: Any
) -> None:
    documents = Documents.of(torch.tensor([3, 4]), CPU)
    query, key = (torch.randn(1, heads, 7, channels, dtype=torch.bfloat16) for heads in (4, 2))
    value = torch.randn(1, 2, 7, value_channels, dtype=torch.bfloat16)
    out_1THC, _ = attend(None, query, key, value, None, documents=documents)
    assert out_1THC.shape == (1, 7, 4, value_channels)
    assert kernel.calls == 0


def test_a_compiled_network_takes_packs_of_any_shape_without_compiling_for_each(kernel: Any) -> None:
    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_config(Qwen2Config(**SIZES))
    network.set_attn_implementation(attention.NAME)
    counter = CompileCounter()
    network.compile(backend=counter)
    model = Parallelized(network, Parallel(), World(0, 1, CPU), torch.bfloat16)
    documents = corpus(40, 0)
    frames = []
    for first in range(0, 36, 6):
        summed_loss(model, documents.pack(range(first, first + 4 + first % 3)), CPU, by_document=True).backward()
        frames.append(counter.frame_count)
    assert kernel.calls
    assert frames[-1] == frames[2], frames


def test_without_a_gpu_there_is_no_kernel() -> None:
    assert not attention.has_kernel(CPU)
