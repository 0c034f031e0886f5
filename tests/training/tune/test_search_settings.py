"""What a search can be told, and what is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes.errors import RecipeError
from recipes.tune.__main__ import main
from recipes.tune.settings import wanted, words_of_sft
from recipes.tune.space import FORMS

RATE = "search.optimizer.learning_rate=[1e-3,1e-2]"


def refused(*words: str) -> str:
    with pytest.raises(RecipeError) as caught:
        wanted(words, {})
    return str(caught.value)


def test_sections_of_the_workload_and_words_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(
        "search:\n  optimizer: {learning_rate: log 1.0e-4 1.0e-2}\n  data.packs: [4, 8]\n"
        "tune: {trials: 5}\ntraining: {steps: 80}\n"
    )
    from_file = wanted([], {"HYPERPARAMETERS_PATH": str(file)})
    words = ["search.optimizer.learning_rate=log 1e-4 1e-2", "search.data.packs=[4, 8]"]
    assert wanted([*words, "tune.trials=5", "training.steps=80"], {}) == from_file
    assert len(from_file.candidates) == 5
    again = wanted(["search.data.packs=[1, 2]"], {"HYPERPARAMETERS_PATH": str(file)})
    assert {candidate["data.packs"] for candidate in again.candidates} == {1, 2}


def test_all_that_is_wrong_with_the_search_is_told_at_once() -> None:
    told = refused(
        "search.optimizer.lerning_rate=[1,2]", "search.data.source=[a,b]", "search.cluster.workers=[1,2]",
        "search.optimizer.clip=high", "search.model.precision=[half, float32]",
    )  # fmt: skip
    assert told.splitlines() == [
        "search.optimizer.lerning_rate=[1,2]: no such setting. Did you mean search.optimizer.learning_rate?",
        "search.data.source=[a,b]: cannot be searched; the documents are prepared once, for all trials",
        "search.cluster.workers=[1,2]: cannot be searched; a trial is one worker, in a folder of its own",
        f"search.optimizer.clip=high: {FORMS}",
        "search.model.precision=[half, float32]: takes one of auto, bfloat16, float32",
        "Every setting: python -m recipes.tune --help",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "nothing is searched"),
        (("search.optimizer.learning_rate=log 1e-4 1e-2",), "tune.trials is needed"),
        ((RATE, "tune.trials=0"), "tune.trials=0 has to be 1 or more"),
        ((RATE, "tune.grace=8"), "tune.grace=8 has to be 1 or more, and less than tune.evaluations=8"),
        ((RATE, "tune.reduction=1"), "tune.reduction=1.0 has to be more than 1"),
        ((RATE, "training.eval_every=10"), "tune.evaluations says how often"),
        ((RATE, "training.sample=Hello"), "train with the best settings"),
        ((RATE, "data.eval_share=0"), "data.eval_share=0 needs data.eval_source"),
        ((RATE, "optimizer.clipp=2"), "optimizer.clipp=2: no such setting. Did you mean optimizer.clip?"),
    ],
)
def test_a_search_that_cannot_be_made_is_refused(words: tuple[str, ...], told: str) -> None:
    assert told in refused(*words)


def test_what_makes_a_candidate_impossible_is_told_before_a_trial_starts() -> None:
    told = refused("search.architecture.heads=[4,3]", RATE).splitlines()
    assert told[0] == (
        "with architecture.heads=3 optimizer.learning_rate=0.001: architecture.hidden=128 has to be a multiple of "
        "twice architecture.heads=3"
    )
    assert len(told) == 3


def test_the_printed_search_is_the_same_search(capsys: pytest.CaptureFixture[str]) -> None:
    words = [RATE, "search.training.seed=uniform 1 9", "tune.trials=4"]
    assert main(["--print-config", *words], {}) == 0
    printed = capsys.readouterr().out.replace("'", "").splitlines()
    assert wanted(printed, {}) == wanted(words, {})


def test_the_words_that_train_with_the_best_are_those_that_differ() -> None:
    asked = wanted([RATE, "data.packs=3", "cluster.workers=2"], {})
    assert words_of_sft(asked.settings) == ["data.packs=3"]


def test_wrong_words_end_with_the_exit_code_of_wrong_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {}) == 2
    assert capsys.readouterr().err.startswith("nothing is searched: ")
