"""Documents that share a row, compared with each of them alone."""
# ruff: noqa: N806 - the shapes are in capitals

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from recipes.engine import attention
from recipes.engine.data.corpus import Pack
from recipes.engine.loss import summed_loss
from recipes.engine.model import Architecture, Lora, Model, attends_by_document, load_network
from recipes.errors import RecipeError
from transformers import (
    AutoModelForCausalLM,
    GptOssConfig,
    GraniteMoeHybridConfig,
    Lfm2Config,
    Llama4TextConfig,
    LlamaConfig,
    MiniMaxConfig,
    MistralConfig,
    NemotronConfig,
    Qwen2Config,
    Qwen3Config,
)

from .made import MadeTokenizer, corpus

CPU = torch.device("cpu")
SIZES = {
    "vocab_size": 67, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
}  # fmt: skip


def network(config: Any = None, how: str = attention.NAME) -> Any:
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config or Qwen2Config(**SIZES))
    made.set_attn_implementation(how)
    return made


def gradients(made: Any) -> torch.Tensor:
    return torch.cat([one.grad.flatten() for one in made.parameters()])


@pytest.mark.parametrize("learn_all", [True, False])
@pytest.mark.parametrize("config", [Qwen2Config, Qwen3Config, LlamaConfig, MistralConfig])
def test_packed_documents_have_the_loss_and_the_gradients_that_each_has_alone(config: Any, learn_all: bool) -> None:
    documents = corpus(9, 0, learn_all=learn_all)
    packed = network(config(**SIZES))
    together = summed_loss(packed, documents.pack(range(9)), CPU, by_document=True)
    together.backward()
    alone = network(config(**SIZES), "sdpa")
    losses = [summed_loss(alone, documents.pack([one]), CPU, by_document=False) for one in range(9)]
    torch.stack(losses).sum().backward()
    assert together.item() == pytest.approx(sum(loss.item() for loss in losses), rel=1e-6)
    tokens = int(documents.learn_N.sum())
    torch.testing.assert_close(gradients(packed) / tokens, gradients(alone) / tokens, atol=1e-5, rtol=1e-5)


def token_losses(made: Any, pack: Pack) -> torch.Tensor:
    """The loss of each learned token, by packs in which it alone is learned."""
    losses = []
    for place in np.flatnonzero(pack.learn_T):
        learn_T = np.zeros_like(pack.learn_T)
        learn_T[place] = True
        losses.append(
            summed_loss(made, Pack(pack.ids_T, learn_T, pack.lengths_D, pack.documents), CPU, by_document=True)
        )
    return torch.stack(losses).detach()


def test_every_token_has_the_same_loss_in_a_pack_and_alone() -> None:
    documents = corpus(4, 0)
    made = network()
    together = token_losses(made, documents.pack(range(4)))
    alone = torch.cat([token_losses(made, documents.pack([one])) for one in range(4)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_what_one_document_says_changes_nothing_for_the_others() -> None:
    documents = corpus(3, 0)
    made = network()
    pack = documents.pack(range(3))
    before = token_losses(made, pack)
    first = int(pack.lengths_D[0])
    other_ids_T = pack.ids_T.copy()
    other_ids_T[:first] = (other_ids_T[:first] + 7) % 60
    after = token_losses(made, Pack(other_ids_T, pack.learn_T, pack.lengths_D, pack.documents))
    learned_of_first = int(pack.learn_T[:first].sum())
    assert torch.equal(before[learned_of_first:], after[learned_of_first:])
    assert not torch.equal(before[:learned_of_first], after[:learned_of_first])


def test_padded_rows_and_one_row_are_the_same_loss() -> None:
    pack = corpus(7, 0, learn_all=False).pack(range(7))
    padded = summed_loss(network(how="sdpa"), pack, CPU, by_document=False)
    assert summed_loss(network(), pack, CPU, by_document=True).item() == pytest.approx(padded.item(), rel=1e-6)


def test_a_sliding_window_holds_within_each_document() -> None:
    config = MistralConfig(**SIZES, sliding_window=5)
    documents = corpus(5, 0)
    together = summed_loss(network(config), documents.pack(range(5)), CPU, by_document=True)
    eager = network(config, "eager")
    alone = [summed_loss(eager, documents.pack([one]), CPU, by_document=False).item() for one in range(5)]
    unlimited = summed_loss(network(MistralConfig(**SIZES)), documents.pack(range(5)), CPU, by_document=True)
    assert together.item() == pytest.approx(sum(alone), rel=1e-6)
    assert together.item() != pytest.approx(unlimited.item(), rel=1e-4)


def test_attention_that_is_not_computed_here_is_refused_and_not_left_out() -> None:
    made = network(GptOssConfig(**SIZES, num_local_experts=2, num_experts_per_tok=1))
    with pytest.raises(RecipeError, match="GptOssAttention has attention with s_aux") as caught:
        summed_loss(made, corpus(2, 0).pack(range(2)), CPU, by_document=True)
    assert caught.value.hint == "Set model.attention=padded"


@pytest.mark.parametrize(
    ("config", "has"),
    [
        (
            GraniteMoeHybridConfig(
                **SIZES, layer_types=["mamba", "attention"], num_local_experts=2, num_experts_per_tok=1,
                mamba_n_heads=8, mamba_d_head=8, mamba_d_state=8,
            ),
            "has layers of linear_attention",
        ),
        (
            MiniMaxConfig(
                **SIZES, layer_types=["linear_attention", "full_attention"], num_local_experts=2, num_experts_per_tok=1
            ),
            "has layers of linear_attention",
        ),
        (Lfm2Config(**SIZES, layer_types=["conv", "full_attention"]), "has layers of conv"),
        (Llama4TextConfig(**SIZES, num_local_experts=2, intermediate_size_mlp=48), "has layers of chunked_attention"),
    ],
)  # fmt: skip
def test_a_model_whose_other_layers_would_mix_documents_gets_a_row_for_each(config: Any, has: str) -> None:
    made = AutoModelForCausalLM.from_config(config)
    assert not attends_by_document(Model(), made)
    with pytest.raises(RecipeError, match=has) as caught:
        attends_by_document(Model(attention="documents"), made)
    assert caught.value.hint == "Set model.attention=padded"


def test_a_model_that_does_not_tell_its_attention_of_documents_is_refused() -> None:
    made = network(NemotronConfig(**SIZES))
    with pytest.raises(RecipeError, match="NemotronAttention is not told which documents share a row") as caught:
        summed_loss(made, corpus(2, 0).pack(range(2)), CPU, by_document=True)
    assert caught.value.hint == "Set model.attention=padded"


@pytest.mark.parametrize("by_document", [True, False])
def test_the_host_waits_for_nothing_that_the_device_computes(
    by_document: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.device("meta")  # there whoever looks at a number fails
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)  # which asks for a device that computes
    made = network(how=attention.NAME if by_document else "eager").to(device)
    loss = summed_loss(made, corpus(3, 0).pack(range(3)), device, by_document=by_document)
    loss.backward()
    assert all(one.grad is not None for one in made.parameters())


def test_many_rows_of_logits_are_taken_in_parts_with_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = corpus(9, 0).pack(range(9))
    whole = network()
    one = summed_loss(whole, pack, CPU, by_document=True)
    one.backward()
    monkeypatch.setattr("recipes.engine.loss.ROWS_AT_ONCE", 16)
    in_parts = network()
    several = summed_loss(in_parts, pack, CPU, by_document=True)
    several.backward()
    assert several.item() == pytest.approx(one.item(), rel=1e-6)
    torch.testing.assert_close(gradients(in_parts), gradients(whole), atol=1e-4, rtol=1e-5)


def test_a_pack_without_documents_has_no_loss_and_no_gradient() -> None:
    made = network()
    loss = summed_loss(made, Pack.empty(), CPU, by_document=True)
    loss.backward()
    assert loss.item() == 0
    assert all(one.grad is None or not one.grad.any() for one in made.parameters())


def test_activation_checkpointing_changes_no_gradient() -> None:
    small = Architecture(layers=2, hidden=32, intermediate=48, heads=4, key_value_heads=2)
    made = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        made.append(load_network(Model(activation_checkpointing=checkpointing), small, Lora(), MadeTokenizer(), CPU))
        summed_loss(made[-1], corpus(5, 0).pack(range(5)), CPU, by_document=True).backward()
    assert made[1].is_activation_checkpointing
    torch.testing.assert_close(gradients(made[1]), gradients(made[0]))
