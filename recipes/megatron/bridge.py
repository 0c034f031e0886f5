"""The door to Megatron Bridge: a recipe's configuration becomes its, and training starts.

Written for Megatron Bridge 0.3.1.
Source: https://github.com/NVIDIA-NeMo/Megatron-Bridge/tree/v0.3.1
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import sys
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from recipes.errors import RecipeError
from recipes.megatron.config import Config
from recipes.overrides import UnfitError, nearest, read, readable

# What of the model's section is no setting of Megatron's.
NOT_MEGATRONS = {"hf_path"}
# Dispatchers of tokens under which Megatron Core refuses to overlap shared experts with the others.
NO_OVERLAP = {"allgather", "flex"}


def train(config: Config) -> None:
    """Train until the last iteration, on this rank; the process group of all ranks is made from the environment.

    Raises:
        RecipeError: Megatron Bridge is not installed, or does not take a setting.
    """
    require_bridge()
    pretrain = importlib.import_module("megatron.bridge.training.pretrain").pretrain
    forward_step = importlib.import_module("megatron.bridge.training.gpt_step").forward_step
    pretrain(container(config, os.environ), forward_step)


def require_bridge() -> None:
    """Raise RecipeError where Megatron Bridge is not installed; an installed one that breaks shows its own error."""
    try:
        importlib.import_module("megatron.bridge")
    except ModuleNotFoundError as error:
        if error.name not in {"megatron", "megatron.bridge"}:
            raise
        raise RecipeError(
            [f"Megatron Bridge is not installed in {sys.prefix}"],
            hint="Run in an image that has it, such as ray-cuda, or install megatron-bridge==0.3.1.",
        ) from error


def container(config: Config, env: Mapping[str, str]) -> Any:
    """Megatron Bridge's own configuration; `env` says which MLflow run metrics go to."""
    its = importlib.import_module("megatron.bridge.training.config")
    model = provider(config)
    optimizer, seed = config.optimizer, config.rng.seed
    made = its.ConfigContainer(
        model=model,
        train=its.TrainingConfig(**vars(config.train), manual_gc=True, manual_gc_interval=100),
        optimizer=its.OptimizerConfig(optimizer="adam", use_distributed_optimizer=True, **vars(optimizer)),
        scheduler=its.SchedulerConfig(
            # These two, and not the optimizer's, are the weight decay in the end.
            start_weight_decay=optimizer.weight_decay,
            end_weight_decay=optimizer.weight_decay,
            override_opt_param_scheduler=True,
            **vars(config.scheduler),
        ),
        ddp=its.DistributedDataParallelConfig(
            check_for_nan_in_grad=True,
            grad_reduce_in_fp32=True,
            overlap_grad_reduce=True,
            overlap_param_gather=True,
            average_in_collective=True,
            use_distributed_optimizer=True,
        ),
        dataset=its.GPTDatasetConfig(
            seq_length=config.model.seq_length,
            random_seed=seed,
            blend=blend(config.dataset.blend),
            split=config.dataset.split,
            num_workers=config.dataset.num_workers,
            dataloader_type="single",
            reset_attention_mask=False,
            reset_position_ids=False,
            eod_mask_loss=False,
        ),
        logger=its.LoggerConfig(**vars(config.logger), **mlflow_run(env)),
        tokenizer=tokenizer(config, its, model.vocab_size),
        checkpoint=its.CheckpointConfig(**vars(config.checkpoint)),
        rng=its.RNGConfig(seed=seed),
        mixed_precision=config.mixed_precision,
    )
    set_more(made, config.bridge)
    return made


def provider(config: Config) -> Any:
    """What makes the model: the architecture at `hf_path`, fresh weights, split as the recipe says."""
    auto_bridge = importlib.import_module("megatron.bridge").AutoBridge
    made = auto_bridge.from_hf_pretrained(config.model.hf_path).to_megatron_provider(load_weights=False)
    for name, value in vars(config.model).items():
        if name not in NOT_MEGATRONS:
            setattr(made, name, value)
    if config.model.moe_token_dispatcher_type in NO_OVERLAP:
        made.moe_shared_expert_overlap = False
    return made


def tokenizer(config: Config, its: Any, vocabulary: int) -> Any:
    kind = config.tokenizer.tokenizer_type
    if kind == "NullTokenizer":
        return its.TokenizerConfig(tokenizer_type=kind, vocab_size=vocabulary)
    return its.TokenizerConfig(
        tokenizer_type=kind, tokenizer_model=config.tokenizer.tokenizer_model or config.model.hf_path
    )


def blend(words: Sequence[str]) -> Any:
    """Paths and weights as Megatron Core takes them; None makes tokens up."""
    if not words:
        return None
    return importlib.import_module("megatron.core.datasets.utils").get_blend_from_list(list(words))


def mlflow_run(env: Mapping[str, str]) -> dict[str, str]:
    """Settings of the logger that make metrics land in the run that the launcher opened, where there is one.

    MLflow resumes the run that MLFLOW_RUN_ID names, whatever name is given.
    """
    experiment, run = env.get("MLFLOW_EXPERIMENT_NAME"), env.get("MLFLOW_RUN_ID")
    if not experiment or not run or importlib.util.find_spec("mlflow") is None:
        return {}
    return {"mlflow_experiment": experiment, "mlflow_run_name": run}


def set_more(made: Any, more: Sequence[tuple[str, str]]) -> None:
    """Set what the recipe has no name for, in Megatron Bridge's configuration itself.

    Raises:
        RecipeError: it has no such setting, or the setting does not take that.
    """
    problems = []
    for name, text in more:
        *sections, last = name.split(".")
        try:
            section = made
            for part in sections:
                section = getattr(section, known(section, part))
            known(section, last)
            setattr(section, last, read(text, kind_of(section, last)))
        except UnfitError as error:
            problems.append(f"bridge.{name}={text}: {error}")
    if problems:
        raise RecipeError(problems)


def known(section: Any, name: str) -> str:
    """`name`, if Megatron Bridge has a setting or a section of that name here."""
    if section is None:
        raise UnfitError(f"the section of {name} is not in use")
    names = {field.name: None for field in dataclasses.fields(section)} if dataclasses.is_dataclass(section) else {}
    if name not in names:
        raise UnfitError(f"{type(section).__name__} of Megatron Bridge has no {name}{nearest(name, names)}")
    return name


def kind_of(section: Any, name: str) -> Any:
    """The type of a setting: as declared, or that of its value where the declaration cannot be read."""
    try:
        kind = typing.get_type_hints(type(section))[name]
    except (NameError, TypeError):
        kind = None
    return kind if readable(kind) else type(getattr(section, name))
