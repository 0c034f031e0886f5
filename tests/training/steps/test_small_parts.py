"""The learning rate, the count of operations, what of a model is trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from recipes.engine import model, optimizer, settings
from recipes.engine.flops import Flops
from recipes.engine.loss import summed_loss
from recipes.engine.model import Architecture, Lora, Model, layers, load_network, load_tokenizer, save_network
from recipes.engine.optimizer import Optimizer, learning_rate, make_optimizer
from recipes.engine.parallel import count_parameters
from recipes.engine.settings import Settings, Training
from recipes.errors import RecipeError
from transformers import AutoModelForCausalLM

from .made import MadeTokenizer, corpus

CPU = torch.device("cpu")
SMALL = Architecture(layers=2, hidden=32, intermediate=48, heads=4, key_value_heads=2)


def test_the_learning_rate_rises_and_falls() -> None:
    rising = Optimizer(learning_rate=1.0, warmup=0.1, final=0.2)
    rates = [learning_rate(rising, step, 100) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert rates[54] == pytest.approx(0.6)
    assert rates[-1] == pytest.approx(0.2)
    assert sorted(rates[9:], reverse=True) == rates[9:]
    assert learning_rate(Optimizer(learning_rate=1.0, warmup=20), 10, 100) == 0.5
    assert learning_rate(Optimizer(learning_rate=1.0, warmup=0), 1, 100) == pytest.approx(1.0, abs=1e-3)


def test_vectors_do_not_decay() -> None:
    network = load_network(Model(), SMALL, Lora(), MadeTokenizer(), CPU)
    matrices, vectors = make_optimizer(Optimizer(weight_decay=0.3), network).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert {one.ndim for one in vectors["params"]} == {1}
    assert sum(one.numel() for group in (matrices, vectors) for one in group["params"]) == count_parameters(network)[0]


def test_operations_are_counted_as_by_hand() -> None:
    network = load_network(Model(), SMALL, Lora(), MadeTokenizer(), CPU)
    layer = 32 * (32 + 16 + 16) + 32 + 16 + 16 + 32 * 32 + 3 * 32 * 48 + 2 * 32
    flops = Flops.of(network, frozen=False)
    assert flops.per_token == 6 * (2 * layer + 32)
    assert flops.per_learned == 6 * 67 * 32
    pack = corpus(3, 0, learn_all=False).pack([0, 1, 2])
    squares = sum(int(length) ** 2 for length in pack.lengths_D)
    # forwards 2 x 2 operations for each pair of tokens and channel, half of them masked; twice that backwards
    attention = 3 * 2 * squares * 32 * 2
    assert flops.in_pack(pack) == flops.per_token * len(pack.ids_T) + flops.per_learned * pack.learn_T.sum() + attention


def test_adapters_alone_are_trained_and_are_part_of_the_saved_model(tmp_path: Path) -> None:
    network = load_network(Model(), SMALL, Lora(), MadeTokenizer(), CPU)
    save_network(network, MadeTokenizer(), tmp_path / "base")
    tuned = load_network(Model(name=str(tmp_path / "base")), SMALL, Lora(rank=4), MadeTokenizer(), CPU)
    parameters, trained = count_parameters(tuned)
    assert 0 < trained < parameters / 2
    assert {name for name, one in tuned.named_parameters() if one.requires_grad} == {
        name for name, _ in tuned.named_parameters() if "lora_" in name
    }
    with torch.no_grad():
        for name, one in tuned.named_parameters():
            if "lora_B" in name:
                one.normal_()
    ids = torch.arange(10)[None]
    tuned.set_attn_implementation("sdpa")
    wanted = tuned(input_ids=ids).logits
    save_network(tuned, MadeTokenizer(), tmp_path / "tuned")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "tuned", dtype=torch.float32)
    torch.testing.assert_close(loaded(input_ids=ids).logits, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch looks at it while it compiles
def test_compiled_layers_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for compiled in (False, True):
        torch.manual_seed(0)
        compile_as = partial(torch.nn.Module.compile, backend="eager")  # the compiler's own code is not ours to test
        monkeypatch.setattr(torch.nn.Module, "compile", lambda module, call=compile_as: call(module))
        made.append(load_network(Model(compile=compiled), SMALL, Lora(), MadeTokenizer(), CPU))
        monkeypatch.undo()
    assert [layer._compiled_call_impl is not None for layer in layers(made[1])] == [True, True]
    packs = [corpus(6, seed).pack(range(6)) for seed in range(3)]
    plain, compiled_ = ([summed_loss(one, pack, CPU, by_document=True).item() for pack in packs] for one in made)
    assert compiled_ == pytest.approx(plain, rel=1e-5)


def test_a_model_that_is_not_there_is_told_with_what_is_possible(tmp_path: Path) -> None:
    nowhere = Model(name=str(tmp_path / "nowhere"))
    with pytest.raises(RecipeError, match=r"model\.name=.*nowhere: ") as caught:
        load_tokenizer(nowhere)
    assert caught.value.hint == "It takes a name on the Hugging Face Hub, a folder that transformers has saved, or new"
    with pytest.raises(RecipeError, match=r"model\.name="):
        load_network(nowhere, SMALL, Lora(), MadeTokenizer(), CPU)


def test_adapters_for_layers_that_are_not_there_are_refused(tmp_path: Path) -> None:
    save_network(load_network(Model(), SMALL, Lora(), MadeTokenizer(), CPU), MadeTokenizer(), tmp_path / "base")
    lora = Lora(rank=4, targets=("attention_of_another",))
    with pytest.raises(RecipeError, match="attention_of_another"):
        load_network(Model(name=str(tmp_path / "base")), SMALL, lora, MadeTokenizer(), CPU)


@pytest.mark.parametrize(
    ("architecture", "lora", "told"),
    [
        (Architecture(layers=0), Lora(), "architecture.layers=0 has to be 1 or more"),
        (Architecture(hidden=100, heads=8), Lora(), "architecture.hidden=100 has to be a multiple of twice"),
        (Architecture(heads=4, key_value_heads=3), Lora(), "architecture.heads=4 has to be a multiple of"),
        (Architecture(), Lora(rank=8), "lora.rank needs a model that has learned something"),
    ],
)
def test_what_no_network_can_be_made_of_is_named(architecture: Architecture, lora: Lora, told: str) -> None:
    assert [one for one in model.contradictions(Model(), architecture, lora) if one.startswith(told)]


def test_optimizer_settings_that_teach_nothing_are_named() -> None:
    bad = Optimizer(learning_rate=0, warmup=-1, final=2, beta1=1)
    assert {word.split("=")[0] for word in optimizer.contradictions(bad)} == {
        f"optimizer.{name}" for name in ("learning_rate", "warmup", "final", "beta1")
    }
    assert not list(optimizer.contradictions(Optimizer()))


@pytest.mark.parametrize("training", [Training(seed=-1), Training(seed=2**32), Training(steps=0), Training(epochs=-1)])
def test_trainings_that_cannot_be_are_named(training: Training) -> None:
    assert not list(settings.contradictions(Settings()))
    [told] = settings.contradictions(Settings(training=training))
    assert told.startswith("training.")
