"""What Megatron Bridge is called with. A stand-in takes its place: it needs CUDA to be imported."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from recipes.errors import RecipeError
from recipes.megatron import bridge
from recipes.megatron.config import Config
from recipes.megatron.deepseek_v2_lite import configure
from recipes.overrides import override

from .megatron_stand_in import AttnBackend, ConfigContainer, StandIn

NO_ENV: dict[str, str] = {}


def made(*words: str, more: tuple[tuple[str, str], ...] = ()) -> ConfigContainer:
    config: Config = override(configure(hf_path="/model"), words)
    container: ConfigContainer = bridge.container(replace(config, bridge=more), NO_ENV)
    return container


def test_a_stand_in_for_megatron_bridge_trains_with_the_configuration(megatron: StandIn) -> None:
    bridge.train(configure(hf_path="/a model"))
    [(container, forward_step)] = megatron.trained
    assert forward_step is megatron.forward_step
    assert megatron.models == [("/a model", False)]
    assert (container.train.train_iters, container.train.eval_interval, container.model.seq_length) == (500, 100, 4096)


def test_a_stand_in_for_megatron_bridge_gets_every_setting(megatron: StandIn) -> None:
    config = configure(hf_path="/model")
    container = made()
    assert megatron.models == [("/model", False)]
    for section, values in vars(config).items():
        for name, value in getattr(values, "__dict__", {}).items():
            if name not in {"hf_path", "blend", "tokenizer_model"}:
                assert getattr(getattr(container, section), name) == value, f"{section}.{name}"
    assert container.mixed_precision == config.mixed_precision
    assert (container.dataset.seq_length, container.dataset.random_seed) == (4096, 1234)


def test_a_stand_in_for_megatron_bridge_keeps_the_weight_decay_that_is_asked_for(megatron: StandIn) -> None:
    assert megatron.models == []
    scheduler = made("optimizer.weight_decay=0.2").scheduler
    assert (scheduler.start_weight_decay, scheduler.end_weight_decay) == (0.2, 0.2)


def test_a_stand_in_for_megatron_bridge_gets_the_data_or_makes_tokens_up(megatron: StandIn) -> None:
    assert megatron.models == []
    assert made().dataset.blend is None
    assert made("dataset.blend=/data/a b").dataset.blend == (["/data/a b"], None)
    weighted = made('dataset.blend=["30", "/data/a b", "70", "/data/c"]')
    assert weighted.dataset.blend == (["/data/a b", "/data/c"], [30.0, 70.0])


def test_a_stand_in_for_megatron_bridge_gets_the_tokenizer_of_the_model_another_or_none(megatron: StandIn) -> None:
    assert megatron.models == []
    assert made().tokenizer.tokenizer_model == "/model"
    assert made("tokenizer.tokenizer_model=/other").tokenizer.tokenizer_model == "/other"
    without = made("tokenizer.tokenizer_type=NullTokenizer").tokenizer
    assert (without.tokenizer_model, without.vocab_size) == (None, 102_400)


@pytest.mark.parametrize(("dispatcher", "overlap"), [("alltoall", True), ("flex", False), ("allgather", False)])
def test_a_stand_in_for_megatron_bridge_overlaps_shared_experts_where_the_dispatcher_can(
    megatron: StandIn, dispatcher: str, overlap: bool
) -> None:
    assert megatron.models == []
    assert made(f"model.moe_token_dispatcher_type={dispatcher}").model.moe_shared_expert_overlap is overlap


def test_a_stand_in_for_megatron_bridge_sends_metrics_to_the_run_that_is_open(
    megatron: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert megatron.models == []
    env = {"MLFLOW_EXPERIMENT_NAME": "lite", "MLFLOW_RUN_ID": "0a64"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "mlflow" else None)
    logger = bridge.container(configure(), env).logger
    assert (logger.mlflow_experiment, logger.mlflow_run_name) == ("lite", "0a64")
    assert bridge.container(configure(), NO_ENV).logger.mlflow_experiment is None
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert bridge.container(configure(), env).logger.mlflow_experiment is None


def test_a_stand_in_for_megatron_bridge_takes_its_own_settings_by_their_types(megatron: StandIn) -> None:
    assert megatron.models == []
    container = made(
        more=(
            ("ddp.overlap_grad_reduce", "false"),
            ("model.attention_backend", "flash"),
            ("model.recompute_modules", '["moe", "mla_up_proj"]'),
        )
    )
    assert container.ddp.overlap_grad_reduce is False
    assert container.model.attention_backend is AttnBackend.flash
    assert container.model.recompute_modules == ["moe", "mla_up_proj"]


def test_a_stand_in_for_megatron_bridge_refuses_settings_that_it_does_not_have(megatron: StandIn) -> None:
    assert megatron.models == []
    with pytest.raises(RecipeError) as caught:
        made(
            more=(
                ("ddp.overlap_grad_reducee", "false"),
                ("comm_overlap.tp_comm_overlap", "true"),
                ("model.params_dtype", "bf16"),
                ("nothing", "1"),
                ("train.manual_gc.deeper", "1"),
                ("train.manual_gc", "maybe"),
            )
        )
    assert caught.value.problems == (
        (
            "bridge.ddp.overlap_grad_reducee=false: DistributedDataParallelConfig of Megatron Bridge has no "
            "overlap_grad_reducee. Did you mean overlap_grad_reduce?"
        ),
        "bridge.comm_overlap.tp_comm_overlap=true: the section of tp_comm_overlap is not in use",
        "bridge.model.params_dtype=bf16: DType cannot be given as text",
        "bridge.nothing=1: ConfigContainer of Megatron Bridge has no nothing",
        "bridge.train.manual_gc.deeper=1: bool of Megatron Bridge has no deeper",
        "bridge.train.manual_gc=maybe: takes true or false",
    )


@pytest.mark.usefixtures("no_megatron")
def test_without_megatron_bridge_the_environment_and_the_remedy_are_named() -> None:
    with pytest.raises(RecipeError) as caught:
        bridge.train(configure())
    assert str(caught.value).splitlines() == [
        f"Megatron Bridge is not installed in {sys.prefix}",
        "Run in an image that has it, such as ray-cuda, or install megatron-bridge==0.3.1.",
    ]


@pytest.mark.usefixtures("no_megatron", "broken_megatron")
def test_a_megatron_bridge_that_lacks_something_shows_its_own_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="a_missing_kernel"):
        bridge.train(configure())
