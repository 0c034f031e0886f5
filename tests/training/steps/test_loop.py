"""A training on one worker: what it computes, how it ends, and how it goes on."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from recipes.engine import loop
from recipes.engine.checkpoints import Checkpoints
from recipes.engine.data.corpora import Corpora
from recipes.engine.data.plan import Plan
from recipes.engine.data.settings import Data
from recipes.engine.loop import train
from recipes.engine.loss import summed_loss
from recipes.engine.model import Model, load_network
from recipes.engine.optimizer import Optimizer, learning_rate
from recipes.engine.settings import Settings, Training
from recipes.errors import RecipeError
from transformers import AutoModelForCausalLM, Qwen2Config

from .made import Kept, MadeTokenizer, corpora, settings

CPU = torch.device("cpu")


def trained(settings: Settings, line: Kept | None = None, data: Corpora | None = None) -> Kept:
    line = line or Kept()
    train(settings, data or corpora(), MadeTokenizer(), line, CPU)
    return line


def plain_losses(made: Settings, data: Corpora) -> list[float]:
    """The same training as anyone would write it: padded batches, the labels of transformers, one mean loss."""
    torch.manual_seed(made.training.seed)
    sizes = made.architecture
    network: Any = AutoModelForCausalLM.from_config(
        Qwen2Config(
            vocab_size=67, hidden_size=sizes.hidden, intermediate_size=sizes.intermediate,
            num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads, num_key_value_heads=sizes.key_value_heads,
            max_position_embeddings=32768, tie_word_embeddings=True,
        )
    )  # fmt: skip
    adam = made.optimizer
    decayed = [one for one in network.parameters() if one.ndim > 1]
    plain = [one for one in network.parameters() if one.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": adam.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        betas=(adam.beta1, adam.beta2), eps=adam.epsilon,
    )  # fmt: skip
    plan = Plan(data.train.lengths_D, data.train.learned_D, made.data, made.training.seed)
    losses = []
    for step in range(1, (made.training.steps or 0) + 1):
        documents = [document for pack in plan.step(step).packs for document in pack]
        rows = [data.train.pack([document]).ids_T for document in documents]
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        loss = network(input_ids=ids, attention_mask=mask, labels=ids.where(mask == 1, -100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), adam.clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(adam, step, made.training.steps or 0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("packing", ["none", "grouped", "packed"])
def test_the_first_losses_are_those_of_a_plain_loop(tmp_path: Path, packing: Any) -> None:
    data = Data(max_tokens=64, pack_tokens=128, packing=packing, pack_documents=4, packs=2)
    made = settings(tmp_path, data=data)
    losses = trained(made).losses
    assert losses == pytest.approx(plain_losses(made, corpora()), abs=1e-5)
    assert losses[-1] < losses[0] - 0.05, "it learns"


@pytest.mark.parametrize("stop_after", [7, 13])
def test_a_training_that_was_stopped_goes_on_as_if_nothing_had_happened(tmp_path: Path, stop_after: int) -> None:
    whole = trained(settings(tmp_path / "whole")).losses
    made = settings(tmp_path / "parts")
    first = trained(made, Kept(stop_after))
    assert first.of("end")[0]["reason"] == "stopped"
    assert first.of("end")[0]["model_path"] is None
    second = trained(made)
    resumed = second.of("resumed")[0]["step"]
    assert resumed == first.of("end")[0]["step"] == stop_after + 1
    assert first.losses + second.losses == whole


def test_a_training_with_dropout_goes_on_with_the_same_random_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_network = load_network

    def with_dropout(*arguments: Any) -> Any:
        network = plain_network(*arguments)
        for layer in network.model.layers:
            layer.self_attn.attention_dropout = 0.5
        return network

    monkeypatch.setattr(loop, "load_network", with_dropout)
    whole = trained(settings(tmp_path / "whole")).losses
    made = settings(tmp_path / "parts")
    assert trained(made, Kept(9)).losses + trained(made).losses == whole
    monkeypatch.setattr(loop, "load_network", plain_network)
    assert trained(settings(tmp_path / "without")).losses != whole


def test_a_training_that_is_complete_only_gives_its_model_again(tmp_path: Path) -> None:
    made = settings(tmp_path)
    trained(made)
    again = trained(made)
    assert (again.losses, again.of("end")[0]["reason"]) == ([], "completed")


def test_other_data_is_no_continuation(tmp_path: Path) -> None:
    made = settings(tmp_path)
    trained(made, Kept(3))
    with pytest.raises(RecipeError, match="are of a training on other data"):
        trained(made, data=corpora(learn_all=False))


def test_the_saved_model_is_loaded_by_transformers_and_says_the_same(tmp_path: Path) -> None:
    end = trained(settings(tmp_path, training=Training(steps=20, log_every=20)))
    network = AutoModelForCausalLM.from_pretrained(end.of("end")[0]["model_path"], dtype=torch.float32)
    held_out = corpora().evaluation
    assert held_out is not None
    summed = 0.0
    for document in range(len(held_out)):
        ids = torch.from_numpy(held_out.pack([document]).ids_T)[None]
        summed += network(input_ids=ids, labels=ids).loss.item() * (ids.shape[1] - 1)
    told = end.of("evaluation")[-1]
    assert told["loss"] == pytest.approx(summed / int(held_out.learn_N.sum()), rel=1e-5)
    assert told["perplexity"] == pytest.approx(math.exp(told["loss"]))


def test_early_stop_gives_the_best_model(tmp_path: Path) -> None:
    training = Training(steps=400, log_every=100, eval_every=5, patience=3)
    line = trained(settings(tmp_path, training=training, optimizer=Optimizer(learning_rate=0.2, warmup=0)))
    losses = [facts["loss"] for facts in line.of("evaluation")]
    best = losses.index(min(losses))
    assert line.of("end")[0]["reason"] == "early_stop"
    assert best == len(losses) - 4, "three evaluations were no better"
    assert any(f"step {5 * (best + 1)}," in facts["text"] for facts in line.of("notice"))
    network = AutoModelForCausalLM.from_pretrained(line.of("end")[0]["model_path"], dtype=torch.float32)
    held_out = corpora().evaluation
    assert held_out is not None
    packs = [held_out.pack([document]) for document in range(len(held_out))]
    summed = sum(summed_loss(network, pack, CPU, by_document=False).item() for pack in packs)
    assert summed / int(held_out.learn_N.sum()) == pytest.approx(min(losses), rel=1e-5)


def test_a_training_that_has_stopped_early_only_gives_its_model_again(tmp_path: Path) -> None:
    training = Training(steps=400, log_every=100, eval_every=5, patience=1)
    made = settings(tmp_path, training=training, optimizer=Optimizer(learning_rate=0.2, warmup=0))
    first, again = trained(made).of("end")[0], trained(made)
    assert first["reason"] == "early_stop"
    assert (again.losses, again.of("end")[0]) == ([], first)


def test_a_loss_that_is_no_number_ends_the_training_and_names_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = settings(tmp_path, checkpoints=Checkpoints(folder=str(tmp_path / "checkpoints"), every=1))
    real = summed_loss
    data = corpora()
    plan = Plan(data.train.lengths_D, data.train.learned_D, made.data, made.training.seed)
    bad = int(plan.step(4).packs[2][0])

    def spoiled(network: Any, pack: Any, *arguments: Any, **more: Any) -> Any:
        return real(network, pack, *arguments, **more) * (math.nan if bad in pack.documents else 1.0)

    monkeypatch.setattr(loop, "summed_loss", spoiled)
    with pytest.raises(RecipeError, match=r"The loss is no finite number in step 4\. Its batch: made:") as caught:
        trained(made)
    assert f"made:{bad}" in str(caught.value)
    monkeypatch.setattr(loop, "summed_loss", real)
    assert trained(made).of("resumed") == [{"step": 3}], "what was saved is from before"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore"),
        torch.AcceleratorError("CUDA error: out of memory\nmore"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: 8 bytes"),
    ],
)
def test_a_device_without_room_is_told_with_what_to_change(
    error: RuntimeError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(loop, "summed_loss", full)
    first = str(error).splitlines()[0]
    with pytest.raises(RecipeError, match=re.escape(f"out of memory (cpu): {first}")) as caught:
        trained(settings(tmp_path))
    assert "model.activation_checkpointing=true" in caught.value.hint


def test_bfloat16_computes_and_float32_remembers(tmp_path: Path) -> None:
    exact = trained(settings(tmp_path / "exact")).losses
    half = trained(settings(tmp_path / "half", model=Model(precision="bfloat16"))).losses
    assert half != exact
    assert half == pytest.approx(exact, abs=0.05)


def test_what_is_told_is_measured(tmp_path: Path) -> None:
    line = trained(settings(tmp_path, training=Training(steps=6, log_every=3)))
    start, steps = line.of("start")[0], line.of("step")
    assert [facts["step"] for facts in steps] == [1, 3, 6]
    assert (start["steps"], start["workers"], start["parameters"]) == (6, 1, start["trained_parameters"])
    for facts in steps:
        assert facts["tokens_per_s"] == facts["padded_tokens_per_s"] > 0, "nothing is padded"
        assert facts["mfu"] is None
        assert 0 <= facts["data_wait_share"] <= 1
        assert facts["peak_memory_bytes"] > 100e6
    padded = trained(replace(settings(tmp_path / "padded"), model=Model(attention="padded"))).of("step")[0]
    assert padded["padded_tokens_per_s"] > padded["tokens_per_s"] * 1.05
