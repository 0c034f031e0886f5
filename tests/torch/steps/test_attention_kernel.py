"""Flash attention as torch offers it, with the computation of its GPU kernel replaced by a plain one on CPUs.

T tokens of a row, H heads, K heads of keys and values, C channels of a head, L length of a document.
"""
# ruff: noqa: N803, N806, PLR0917 - the shapes are in capitals; torch gives a kernel its arguments by place

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
import torch
from recipes.engine import attention
from recipes.engine.attention import Documents, attend
from recipes.engine.loss import summed_loss
from recipes.engine.parallel import Parallel, Parallelized
from recipes.engine.world import World
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import varlen
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForCausalLM, MistralConfig, Qwen2Config

from .made import corpus

CPU = torch.device("cpu")
SIZES = {
    "vocab_size": 67, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
}  # fmt: skip


class Kernel:
    """What torch calls in place of the GPU's kernel; it refuses what that refuses, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def forward(
        self, query_THC: Any, key_TKC: Any, value_TKC: Any, starts_D1: Any, _starts: Any, longest: int, _longest: int,
        _causal: bool, scale: float | None, window: list[int], *_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        self.calls += 1
        assert query_THC.dtype == key_TKC.dtype == value_TKC.dtype in {torch.bfloat16, torch.float16}
        assert starts_D1.dtype == torch.int32
        assert longest == int(starts_D1.diff().max())
        assert query_THC.stride(2) == key_TKC.stride(2) == value_TKC.stride(2) == 1
        out_THC = computed(query_THC, key_TKC, value_TKC, starts_D1, scale, window)
        sums_HT = torch.zeros(query_THC.shape[1], query_THC.shape[0])
        return out_THC, sums_HT, torch.zeros(2, dtype=torch.uint64)

    def backward(
        self, grad_THC: Any, query_THC: Any, key_TKC: Any, value_TKC: Any, _out: Any, _sums: Any, starts_D1: Any,
        _starts: Any, _longest: int, _longest_key: int, _causal: bool, _random: Any, scale: float | None, window: Any,
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        def differentiated() -> tuple[torch.Tensor, ...]:
            states = [one.detach().requires_grad_() for one in (query_THC, key_TKC, value_TKC)]
            gradients: tuple[torch.Tensor, ...] = torch.autograd.grad(
                computed(*states, starts_D1, scale, window), states, grad_THC
            )
            return gradients

        with ThreadPoolExecutor(1) as elsewhere:  # in this thread torch differentiates already
            return elsewhere.submit(differentiated).result()


def computed(query_THC: Any, key_TKC: Any, value_TKC: Any, starts_D1: Any, scale: Any, window: Any) -> torch.Tensor:
    """The mask as flash attention has it: `window` counts the tokens before and after a token's own, -1 is all."""
    before, after = window
    outs = []
    for start, end in pairwise(starts_D1.tolist()):
        back_LL = torch.arange(end - start)[:, None] - torch.arange(end - start)
        seen_LL = (back_LL <= (before if before >= 0 else end)) & (-back_LL <= (after if after >= 0 else end))
        states = (one[start:end].transpose(0, 1)[None] for one in (query_THC, key_TKC, value_TKC))
        out_1HLC = scaled_dot_product_attention(*states, attn_mask=seen_LL, scale=scale, enable_gqa=True)
        outs.append(out_1HLC[0].transpose(0, 1))
    return torch.cat(outs).contiguous()


@pytest.fixture(scope="module")
def registered() -> Kernel:
    kernel = Kernel()
    varlen._varlen_attn.register_kernel("cpu")(kernel.forward)
    varlen._varlen_attn_backward.register_kernel("cpu")(kernel.backward)
    return kernel


@pytest.fixture
def kernel(registered: Kernel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    monkeypatch.setattr(attention, "has_kernel", lambda _: True)
    registered.calls = 0
    yield registered
    torch._dynamo.reset()


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
def test_flash_attention_without_its_gpu_kernel_takes_what_autocast_gives(config: Any, kernel: Kernel) -> None:
    loss, gradients = trained(config)
    assert kernel.calls == config.num_hidden_layers
    kernel.calls = 0
    exact, exact_gradients = trained(config, torch.float32)
    assert kernel.calls == 0  # float32 is taken a document at a time
    assert loss == pytest.approx(exact, rel=1e-3)
    assert torch.nn.functional.cosine_similarity(gradients, exact_gradients, dim=0) > 0.999


@pytest.mark.parametrize(("channels", "value_channels"), [(12, 12), (264, 264), (16, 8)])
def test_heads_that_the_kernel_does_not_take_are_computed_in_turn(
    channels: int, value_channels: int, kernel: Kernel
) -> None:
    documents = Documents.of(torch.tensor([3, 4]), CPU)
    query, key = (torch.randn(1, heads, 7, channels, dtype=torch.bfloat16) for heads in (4, 2))
    value = torch.randn(1, 2, 7, value_channels, dtype=torch.bfloat16)
    out_1THC, _ = attend(None, query, key, value, None, documents=documents)
    assert out_1THC.shape == (1, 7, 4, value_channels)
    assert kernel.calls == 0


def test_a_compiled_network_takes_packs_of_any_shape_without_compiling_for_each(kernel: Kernel) -> None:
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
