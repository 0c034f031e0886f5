"""Tests that take long are left out; flash attention as torch offers it, its GPU kernel replaced by a plain one.

T tokens of a row, H heads, K heads of keys and values, C channels of a head, L length of a document.
"""
# ruff: noqa: N803, N806, PLR0917 - the shapes are in capitals; torch gives a kernel its arguments by place

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
import torch
from recipes.engine import attention
from torch.nn.attention import varlen
from torch.nn.functional import scaled_dot_product_attention


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("AIR_LONG_TESTS") == "1":
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


class Kernel:
    """What torch calls in place of the GPU's kernel; it refuses what that refuses, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.window_is_off_by = 0

    def forward(
        self, query_THC: Any, key_TKC: Any, value_TKC: Any, starts_D1: Any, _starts: Any, longest: int, _longest: int,
        _causal: bool, scale: float | None, window: list[int], *_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        self.calls += 1
        assert query_THC.dtype == key_TKC.dtype == value_TKC.dtype in {torch.bfloat16, torch.float16}
        assert starts_D1.dtype == torch.int32
        assert longest == int(starts_D1.diff().max())
        assert query_THC.stride(2) == key_TKC.stride(2) == value_TKC.stride(2) == 1
        before, after = window
        window = [before + self.window_is_off_by if before >= 0 else before, after]
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
                computed(states[0], states[1], states[2], starts_D1, scale, window), states, grad_THC
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
