"""One worker, in this process."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from recipes.batch import answering
from recipes.batch.answering import Answering, weights_of
from recipes.batch.decoding import decode
from recipes.batch.settings import Batch, Data, Generation, Model, Output
from recipes.batch.shards import Answered, Asked, Shard
from recipes.engine.data.formats import Turn
from recipes.engine.data.vocabulary import train_vocabulary
from recipes.engine.model import Architecture, new_config
from tokenizers.normalizers import Replace
from transformers import AutoModelForCausalLM

GENERATION = Generation(max_new_tokens=12, max_prompt_tokens=40, batch_tokens=200)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_vocabulary(["what is this", "that is what it was"], 300)


def worker(tokenizer: Any, settings: Batch | None = None) -> Answering:
    return Answering(settings or Batch(generation=GENERATION), tokenizer, 1, attempts=None)


def shard(*prompts: str) -> Shard:
    rows = [Asked(number, f"r:{number}", {}, (Turn("user", prompt),)) for number, prompt in enumerate(prompts, start=7)]
    return Shard("000000-0.jsonl", tuple(rows))


def test_rows_are_answered_in_their_order_and_counted(tokenizer: Any) -> None:
    prompts = ["what", "this is what it is " * 2, "is", "was"]
    made = worker(tokenizer).answers(shard(*prompts))
    for number, prompt in enumerate(prompts):
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
        )
        assert made[number].prompt_tokens == len(tokenizer(text)["input_ids"])
        assert made[number].error is None
        assert 0 < made[number].response_tokens <= 12
        assert (made[number].finish_reason == "length") == (made[number].response_tokens == 12)


def test_what_cannot_be_asked_is_an_error_of_its_row_alone(tokenizer: Any) -> None:
    given = shard("what", "word " * 50, "this")
    broken = Shard(given.name, (*given.rows, Asked(9, "r:9", {}, error="is no JSON")))
    made = worker(tokenizer).answers(broken)
    assert [answer.error is None for answer in made] == [True, False, True, False]
    assert str(made[1].error).endswith("tokens, and generation.max_prompt_tokens=40")
    assert made[3] == Answered(error="is no JSON")


def test_without_a_template_a_lone_question_is_continued_as_it_stands() -> None:
    bare = train_vocabulary(["what is this", "that is what it was"], 300)
    bare.chat_template = None
    bare.backend_tokenizer.normalizer = Replace("~", "")
    talk = Asked(1, "r:1", {}, (Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c")))
    made = worker(bare).answers(Shard("s", (*shard("what is").rows, talk, *shard("~").rows)))
    assert made[0].prompt_tokens == len(bare("what is")["input_ids"])
    assert made[1].error == "has 3 turns, and the model has no chat template to put them together"
    assert made[2].error == "has no tokens: the tokenizer makes nothing of it"


def test_a_batch_that_does_not_fit_is_halved__running_out_of_memory_is_made_up(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = worker(tokenizer).answers(shard(*"abcdefg"))
    sizes: list[int] = []
    real = decode

    def halved(network: Any, prompts: Sequence[Sequence[int]], rows: Sequence[int], *rest: Any, **named: Any) -> Any:
        sizes.append(len(prompts))
        if len(prompts) > 2 or 9 in rows:
            raise torch.OutOfMemoryError
        return real(network, prompts, rows, *rest, **named)

    monkeypatch.setattr(answering, "decode", halved)
    made = worker(tokenizer).answers(shard(*"abcdefg"))
    assert max(sizes) > 2
    assert str(made[2].error).startswith("out of memory: a prompt of ")
    assert made[:2] + made[3:] == expected[:2] + expected[3:]


def test_a_model_that_was_saved_answers_with_its_own_weights_and_ends(tokenizer: Any, tmp_path: Path) -> None:
    torch.manual_seed(5)
    network = AutoModelForCausalLM.from_config(new_config(Architecture(layers=1), tokenizer))
    network.generation_config.eos_token_id = [tokenizer.eos_token_id, 70]
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    settings = Batch(model=Model(str(tmp_path / "model")), generation=GENERATION)
    loaded = worker(tokenizer, settings)
    assert loaded._stop == {tokenizer.eos_token_id, 70}
    ours, theirs = loaded._network.state_dict(), network.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    before = weights_of(settings)
    (tmp_path / "model" / "model.safetensors").touch()
    assert weights_of(settings) != before
    assert weights_of(Batch(data=Data(limit=3))) == "new"


def test_a_shard_whose_workers_keep_dying_is_given_up__the_deaths_are_made_up(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ray", SimpleNamespace(get=lambda attempt: attempt))
    attempts = iter([3, 4])
    begun = SimpleNamespace(begin=SimpleNamespace(remote=lambda _name: next(attempts)))
    doomed = Answering(Batch(generation=GENERATION), tokenizer, 1, attempts=begun)
    given = {"shard": pickle.dumps(shard("what", "is"))}
    last, given_up = doomed(given), doomed(given)
    assert (last["errors"], given_up["errors"], given_up["rows"]) == (0, 2, 2)
    lines = [json.loads(line) for line in given_up["content"].splitlines()]
    assert {line["error"] for line in lines} == {"the worker died 3 times while it answered these rows"}


def test_weights_that_cannot_be_loaded_are_refused_in_one_line(tokenizer: Any, tmp_path: Path) -> None:
    AutoModelForCausalLM.from_config(new_config(Architecture(layers=1), tokenizer)).save_pretrained(tmp_path)
    settings = Batch(model=Model(str(tmp_path)), generation=GENERATION)
    (tmp_path / "model.safetensors").write_bytes(b"torn")
    torn = worker(tokenizer, settings)({"shard": pickle.dumps(shard("what"))})
    (tmp_path / "model.safetensors").unlink()
    gone = worker(tokenizer, settings)({"shard": pickle.dumps(shard("what"))})
    for result in (torn, gone):
        first, hint = result["refused"].splitlines()
        assert first.startswith(f"model.name={tmp_path}: ")
        assert hint == "It takes a folder that transformers has saved, or a model of the hub"
        assert (result["content"], result["rows"]) == (b"", 0)


def test_the_first_row_without_an_answer_is_refused_where_errors_are(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Batch(generation=GENERATION, output=Output(errors="refuse"))
    made = worker(tokenizer, refusing)
    monkeypatch.setattr(made, "_given_up", lambda _shard: [])
    result = made({"shard": pickle.dumps(shard("what", "word " * 50))})
    assert result["refused"].startswith("r:8: has ")
    assert made({"shard": pickle.dumps(shard("what"))})["refused"] == ""
