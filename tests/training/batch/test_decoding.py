"""Answers do not depend on what they are made beside."""
# ruff: noqa: N806 - the shapes are in capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from recipes.batch.decoding import batches, chosen, decode, exponential, seed_of
from recipes.batch.settings import Generation
from transformers import AutoModelForCausalLM, Qwen2Config

STOP = {18, 34}
PROMPTS = [[5, 6, 7], [9], [11, 12, 13, 14, 15, 16, 17], [3, 3, 3, 3], [40, 41], [1, 2]]


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=False,
        initializer_range=0.5,  # so that logits differ enough for every answer to be another
    )
    return AutoModelForCausalLM.from_config(config).eval()


def alone(network: Any, row: int, settings: Generation, stop: set[int]) -> list[int]:
    return decode(network, [PROMPTS[row]], [row], settings, stop=stop, pad=0)[0]


def test_the_likeliest_tokens_are_those_of_transformers(network: Any) -> None:
    settings = Generation(max_new_tokens=40)
    made = decode(network, PROMPTS, range(len(PROMPTS)), settings, stop=[], pad=0)
    for prompt, answer in zip(PROMPTS, made, strict=True):
        theirs = network.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=40,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert answer == theirs[0, len(prompt) :].tolist()


@pytest.mark.parametrize(
    "settings",
    [
        Generation(max_new_tokens=50),
        Generation(max_new_tokens=50, temperature=1.5),
        Generation(max_new_tokens=50, temperature=0.8, top_p=0.9, top_k=20, seed=3),
    ],
)
def test_a_row_is_answered_the_same_alone_and_in_any_batch(network: Any, settings: Generation) -> None:
    stop = STOP
    expected = [alone(network, row, settings, stop) for row in range(len(PROMPTS))]
    assert len({tuple(answer) for answer in expected}) > 2
    lengths = sorted(map(len, expected))
    assert lengths[2] < 16 < lengths[-1] == 50  # half of the rows leave the batch before the others
    for rows in ([0, 1, 2, 3, 4, 5], [5, 3, 1], [2, 4], [4, 0, 2, 1]):
        made = decode(network, [PROMPTS[row] for row in rows], rows, settings, stop=stop, pad=0)
        assert made == [expected[row] for row in rows]


def test_another_seed_or_row_gives_another_answer(network: Any) -> None:
    hot = Generation(max_new_tokens=20, temperature=2.0)
    same = [[5, 6, 7], [5, 6, 7]]
    first, second = decode(network, same, [0, 1], hot, stop=[], pad=0)
    [other] = decode(network, same[:1], [0], Generation(max_new_tokens=20, temperature=2.0, seed=1), stop=[], pad=0)
    assert len({tuple(answer) for answer in (first, second, other)}) == 3


def test_tokens_are_taken_as_often_as_they_are_likely() -> None:
    rows = 40_000
    logits_BV = torch.tensor([0.5, 0.1, 0.3, 0.1]).log().expand(rows, 4)
    seeds_B = torch.tensor([seed_of(row, 0) for row in range(rows)])

    def shares(settings: Generation, n: int = 0) -> list[float]:
        counts: list[int] = torch.bincount(chosen(logits_BV, seeds_B, n, settings), minlength=4).tolist()
        return [count / rows for count in counts]

    for n in (0, 1, 1000):
        assert shares(Generation(temperature=1.0), n) == pytest.approx([0.5, 0.1, 0.3, 0.1], abs=0.01)
    colder = [share**2 / 0.36 for share in (0.5, 0.1, 0.3, 0.1)]
    assert shares(Generation(temperature=0.5)) == pytest.approx(colder, abs=0.01)
    assert shares(Generation(temperature=1.0, top_k=2)) == pytest.approx([0.625, 0, 0.375, 0], abs=0.01)
    assert shares(Generation(temperature=1.0, top_p=0.6)) == pytest.approx([0.625, 0, 0.375, 0], abs=0.01)
    assert shares(Generation(temperature=1.0, top_p=0.01)) == [1, 0, 0, 0]
    assert shares(Generation(temperature=0.0)) == [1, 0, 0, 0]


def test_random_numbers_of_rows_tokens_and_places_are_strangers_to_one_another() -> None:
    seeds_B = torch.tensor([seed_of(row, 0) for row in range(200)])
    drawn_NBV = torch.stack([exponential(seeds_B, n, 300) for n in range(20)])
    assert drawn_NBV.mean().item() == pytest.approx(1.0, abs=0.01)
    assert drawn_NBV.min() > 0
    assert drawn_NBV.isfinite().all()
    for shape in ((20, -1), (-1, 300)):
        related = torch.corrcoef(drawn_NBV.reshape(shape) if shape[0] > 0 else drawn_NBV.reshape(shape).T)
        assert (related - torch.eye(len(related))).abs().max() < 0.08
    assert drawn_NBV.unique().numel() > 0.999 * drawn_NBV.numel()


def test_batches_hold_rows_of_similar_length_and_no_more_tokens_than_may_be() -> None:
    lengths = [3, 50, 4, 48, 5, 2, 49, 120]
    settings = Generation(max_new_tokens=10, batch_tokens=130)
    made = list(batches(lengths, settings))
    assert made == [[7], [1, 6], [3, 4], [2, 0, 5]]
    assert all(len(rows) * (max(lengths[row] for row in rows) + 10) <= 130 for rows in made)
    assert list(batches([], settings)) == []
