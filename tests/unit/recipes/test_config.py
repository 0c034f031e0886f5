"""Settings that cannot be trained with, before minutes are spent on them."""

from __future__ import annotations

import pytest
from recipes.megatron.config import contradictions, misfits
from recipes.megatron.deepseek_v2_lite import configure
from recipes.overrides import override


def wrong(*words: str) -> list[str]:
    return list(contradictions(override(configure(), words)))


def test_the_recipe_contradicts_nothing() -> None:
    assert wrong() == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["model.tensor_model_parallel_size=1"],
            "model.sequence_parallel=true needs model.tensor_model_parallel_size of 2 or more; it is 1",
        ),
        (
            ["model.seq_length=4100"],
            (
                "model.seq_length=4100 is no multiple of model.tensor_model_parallel_size=8, "
                "as model.sequence_parallel needs"
            ),
        ),
        (
            ["model.seq_length=4104", "model.context_parallel_size=8"],
            "model.seq_length=4104 is no multiple of twice model.context_parallel_size=8",
        ),
        (
            ["model.sequence_parallel=false"],
            (
                "model.expert_model_parallel_size=2 with model.tensor_model_parallel_size=8 needs "
                "model.sequence_parallel=true"
            ),
        ),
        (
            ["train.train_iters=50"],
            "scheduler.lr_warmup_iters=50 leaves nothing of the 50 iterations of the learning rate; use 49 or fewer",
        ),
        (
            ["scheduler.lr_decay_iters=20"],
            "scheduler.lr_warmup_iters=50 leaves nothing of the 20 iterations of the learning rate; use 19 or fewer",
        ),
        (["train.micro_batch_size=0"], "train.micro_batch_size=0 has to be 1 or more"),
        (["model.pipeline_model_parallel_size=-1"], "model.pipeline_model_parallel_size=-1 has to be 1 or more"),
    ],
)
def test_a_contradiction_is_told_with_its_values(words: list[str], problem: str) -> None:
    assert wrong(*words) == [problem]


def test_evaluation_and_sequence_parallelism_can_be_switched_off() -> None:
    assert wrong("train.eval_iters=0") == []
    assert wrong("model.sequence_parallel=false", "model.tensor_model_parallel_size=1") == []


@pytest.mark.parametrize("ranks", [16, 32, 64, 128, 512])
def test_the_recipe_fits_whole_multiples_of_sixteen_ranks(ranks: int) -> None:
    assert list(misfits(configure(), ranks)) == []


def test_too_few_ranks_are_told_what_each_part_needs() -> None:
    assert list(misfits(configure(), 8)) == [
        (
            "These are 8 ranks; the settings of model need 16, or a multiple of it: 8 for a replica "
            "(tensor 8 x pipeline 1 x context 1), 16 for the experts (tensor 8 x expert 2 x pipeline 1)"
        )
    ]


def test_experts_that_are_not_split_need_fewer_ranks() -> None:
    config = override(configure(), ["model.expert_tensor_parallel_size=1"])
    assert list(misfits(config, 8)) == []


def test_a_batch_that_the_replicas_cannot_share_is_refused() -> None:
    assert list(misfits(configure(), 48)) == [
        "train.global_batch_size=64 is no multiple of the 6 sequences that 6 replicas take at once"
    ]
