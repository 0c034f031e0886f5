"""The model that is saved at the end: where it stops, and in which precision it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from recipes.engine.model import Architecture, Lora, Model, load_network, save_network
from recipes.engine.parallel import Parallel, Parallelized
from recipes.engine.sample import answer
from recipes.engine.saved_model import save_model
from recipes.engine.world import World
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from .made import MadeTokenizer

CPU = torch.device("cpu")
SMALL = Architecture(layers=2, hidden=32, intermediate=48, heads=4, key_value_heads=2)
# As Qwen2, whose base models end texts with another token than turns of a conversation.
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def with_template(template: str | None) -> PreTrainedTokenizerFast:
    words = {word: number for number, word in enumerate(("<end>", "<|im_start|>", "<|im_end|>", "<unk>"))}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))  # noqa: S106 - a token of texts
    tokenizer.add_special_tokens(list(words))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>", chat_template=template  # noqa: S106
    )  # fmt: skip


@pytest.mark.parametrize(
    ("template", "ends"),
    [
        (CHATML, [0, 2]),
        ("{% for message in messages %}{{ message['content'] }}{{ eos_token }}{% endfor %}", 0),
        ("{{ raise_exception('only of three turns') }}", 0),
        (None, 0),
    ],
)
def test_a_saved_model_stops_where_it_has_learned_to_stop(tmp_path: Path, template: str | None, ends: Any) -> None:
    tokenizer = with_template(template)
    base = load_network(Model(), SMALL, Lora(), tokenizer, CPU)
    save_network(base, tokenizer, tmp_path / "base")
    file = tmp_path / "base" / "generation_config.json"  # of a kind that is published, and that no change is saved in
    file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": 0, "temperature": 0.9}))
    network = load_network(Model(name=str(tmp_path / "base")), SMALL, Lora(), tokenizer, CPU)
    save_network(network, tokenizer, tmp_path / "tuned")
    saved = json.loads((tmp_path / "tuned" / "generation_config.json").read_text())
    assert (saved["eos_token_id"], saved["temperature"]) == (ends, 0.9)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "tuned").generation_config.eos_token_id == ends


def test_an_answer_ends_with_the_turn() -> None:
    tokenizer = with_template(CHATML)
    network = load_network(Model(), SMALL, Lora(), tokenizer, CPU)
    asked: dict[str, Any] = {}

    def generate(input_ids: torch.Tensor, **options: Any) -> torch.Tensor:
        asked.update(options)
        return input_ids

    network.generate = generate
    assert not answer(network, tokenizer, "?", conversation=True)
    assert asked["eos_token_id"] == [0, 2]


def test_weights_are_saved_in_the_precision_that_they_were_computed_with(tmp_path: Path) -> None:
    network = load_network(Model(precision="bfloat16"), SMALL, Lora(), MadeTokenizer(), CPU)
    model = Parallelized(network, Parallel(), World(0, 1, CPU), torch.bfloat16)
    weights = {name: one.detach().clone() for name, one in network.named_parameters()}
    rotary = network.model.rotary_emb.inv_freq.clone()
    save_model(model, MadeTokenizer(), tmp_path / "model", World(0, 1, CPU), lambda: network)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert loaded.config.dtype is torch.bfloat16
    for name, one in loaded.named_parameters():
        assert torch.equal(one, weights[name].bfloat16())
    assert torch.equal(network.model.rotary_emb.inv_freq, rotary)
