"""What a recipe decides, in sections and settings with Megatron Bridge's names.

Source: megatron.bridge.training.config and megatron.core.model_parallel_config, Megatron Bridge 0.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from typing import Literal


@dataclass(frozen=True)
class Model:
    """The architecture, read from the model at `hf_path`, and how it is split over ranks; sequences count tokens."""

    hf_path: str
    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    context_parallel_size: int = 1
    expert_model_parallel_size: int = 1
    expert_tensor_parallel_size: int | None = None  # as tensor_model_parallel_size
    sequence_parallel: bool = False
    seq_length: int = 4096
    moe_token_dispatcher_type: Literal["allgather", "alltoall", "flex"] = "alltoall"  # noqa: S105
    recompute_granularity: Literal["full", "selective"] | None = None
    recompute_method: Literal["uniform", "block"] | None = None
    recompute_num_layers: int | None = None

    @property
    def ranks_of_a_replica(self) -> int:
        """Ranks that hold the dense layers once."""
        return self.tensor_model_parallel_size * self.pipeline_model_parallel_size * self.context_parallel_size

    @property
    def ranks_of_an_expert(self) -> int:
        """Ranks that an expert is split over."""
        return self.expert_tensor_parallel_size or self.tensor_model_parallel_size

    @property
    def ranks_of_the_experts(self) -> int:
        """Ranks that hold all experts once."""
        return self.ranks_of_an_expert * self.expert_model_parallel_size * self.pipeline_model_parallel_size


@dataclass(frozen=True)
class Train:
    """How long and in which portions; batches count sequences, `micro_batch_size` those of one rank at once."""

    train_iters: int
    global_batch_size: int
    micro_batch_size: int = 1
    eval_interval: int = 1000
    eval_iters: int = 32


@dataclass(frozen=True)
class Optimizer:
    """Adam, its states spread over the data-parallel ranks."""

    lr: float = 3e-4
    min_lr: float = 3e-5
    weight_decay: float = 0.1
    adam_beta1: float = 0.9
    adam_beta2: float = 0.95
    adam_eps: float = 1e-8
    clip_grad: float = 1.0


@dataclass(frozen=True)
class Scheduler:
    """The learning rate over time; `lr_decay_iters` None decays until the last iteration."""

    lr_warmup_iters: int = 0
    lr_decay_iters: int | None = None
    lr_decay_style: Literal["constant", "linear", "cosine", "inverse-square-root", "WSD"] = "cosine"


@dataclass(frozen=True)
class Dataset:
    """Files of tokens, as Megatron's preprocess_data writes them; without any, made-up tokens.

    `blend` holds their paths without .bin and .idx, or a weight and a path in turn; `split` the shares of training,
    validation and test.
    """

    blend: tuple[str, ...] = ()
    split: str = "9999,8,2"
    num_workers: int = 8


@dataclass(frozen=True)
class Tokenizer:
    """Which tokens the files hold; `tokenizer_model` None means the model's own, and NullTokenizer needs no files."""

    tokenizer_type: Literal["HuggingFaceTokenizer", "NullTokenizer"] = "HuggingFaceTokenizer"
    tokenizer_model: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """Folders; None saves or loads nothing, and a folder to load from may be empty."""

    save: str | None = None
    save_interval: int | None = None
    load: str | None = None


@dataclass(frozen=True)
class Logger:
    """What is reported how often."""

    log_interval: int = 10
    tensorboard_dir: str | None = None


@dataclass(frozen=True)
class Rng:
    """Where random numbers start: those of the weights and of the order of the data."""

    seed: int = 1234


@dataclass(frozen=True)
class Config:
    """A training.

    `bridge` holds what else is set of Megatron Bridge's own configuration: a dotted name and the text of the value,
    read when Megatron Bridge is there to say what it takes.
    """

    model: Model
    train: Train
    optimizer: Optimizer = Optimizer()
    scheduler: Scheduler = Scheduler()
    dataset: Dataset = Dataset()
    tokenizer: Tokenizer = Tokenizer()
    checkpoint: Checkpoint = Checkpoint()
    logger: Logger = Logger()
    rng: Rng = Rng()
    mixed_precision: str = "bf16_mixed"
    bridge: tuple[tuple[str, str], ...] = ()


def contradictions(config: Config) -> Iterator[str]:
    """Settings that Megatron refuses, some of them only after minutes."""
    model, train = config.model, config.train
    yield from sizes_below_one(config)
    if model.sequence_parallel and model.tensor_model_parallel_size == 1:
        yield "model.sequence_parallel=true needs model.tensor_model_parallel_size of 2 or more; it is 1"
    if model.sequence_parallel and model.seq_length % max(model.tensor_model_parallel_size, 1):
        yield (
            f"model.seq_length={model.seq_length} is no multiple of model.tensor_model_parallel_size="
            f"{model.tensor_model_parallel_size}, as model.sequence_parallel needs"
        )
    if model.context_parallel_size > 1 and model.seq_length % (2 * model.context_parallel_size):
        yield (
            f"model.seq_length={model.seq_length} is no multiple of twice model.context_parallel_size="
            f"{model.context_parallel_size}"
        )
    if min(model.expert_model_parallel_size, model.tensor_model_parallel_size) > 1 and not model.sequence_parallel:
        yield (
            f"model.expert_model_parallel_size={model.expert_model_parallel_size} with "
            f"model.tensor_model_parallel_size={model.tensor_model_parallel_size} needs model.sequence_parallel=true"
        )
    decay_iters = config.scheduler.lr_decay_iters or train.train_iters
    if config.scheduler.lr_warmup_iters >= decay_iters:
        yield (
            f"scheduler.lr_warmup_iters={config.scheduler.lr_warmup_iters} leaves nothing of the {decay_iters} "
            f"iterations of the learning rate; use {decay_iters - 1} or fewer"
        )


def sizes_below_one(config: Config) -> Iterator[str]:
    sections = {"model": config.model, "train": config.train}
    for section, values in sections.items():
        for name, value in vars(values).items():
            if isinstance(value, int) and not isinstance(value, bool) and value < 1 and name != "eval_iters":
                yield f"{section}.{name}={value} has to be 1 or more"


def misfits(config: Config, world_size: int) -> Iterator[str]:
    """Why these settings cannot be spread over so many ranks; of settings that do not contradict one another."""
    model, train = config.model, config.train
    smallest = lcm(model.ranks_of_a_replica, model.ranks_of_the_experts)
    if world_size % smallest:
        yield (
            f"These are {world_size} ranks; the settings of model need {smallest}, or a multiple of it: "
            f"{model.ranks_of_a_replica} for a replica (tensor {model.tensor_model_parallel_size} "
            f"x pipeline {model.pipeline_model_parallel_size} x context {model.context_parallel_size}), "
            f"{model.ranks_of_the_experts} for the experts (tensor {model.ranks_of_an_expert} "
            f"x expert {model.expert_model_parallel_size} x pipeline {model.pipeline_model_parallel_size})"
        )
        return
    replicas = world_size // model.ranks_of_a_replica
    if train.global_batch_size % (train.micro_batch_size * replicas):
        yield (
            f"train.global_batch_size={train.global_batch_size} is no multiple of the "
            f"{train.micro_batch_size * replicas} sequences that {replicas} replicas take at once"
        )
