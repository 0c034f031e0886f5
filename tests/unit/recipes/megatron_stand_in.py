"""What the recipes call of Megatron Bridge 0.3.1, which cannot be imported without its CUDA extensions.

Classes, settings and their types are Megatron Bridge's own names; of its settings, those that are used here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any, Literal


class AttnBackend(Enum):
    flash = 1
    auto = 5


class DType:
    """As torch.dtype: nothing that text can name."""


@dataclass
class Provider:
    """What makes a model; as the model's own configuration left it."""

    vocab_size: int = 102_400
    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    context_parallel_size: int = 1
    expert_model_parallel_size: int = 1
    expert_tensor_parallel_size: int | None = None
    sequence_parallel: bool = False
    seq_length: int = 2048
    moe_token_dispatcher_type: Literal["allgather", "alltoall", "flex"] = "alltoall"  # noqa: S105
    moe_shared_expert_overlap: bool = True
    recompute_granularity: str | None = None
    recompute_method: str | None = None
    recompute_num_layers: int | None = None
    recompute_modules: list[str] | None = None
    attention_backend: AttnBackend = AttnBackend.auto
    params_dtype: DType = field(default_factory=DType)


@dataclass(kw_only=True)
class TrainingConfig:
    train_iters: int
    global_batch_size: int
    micro_batch_size: int
    eval_interval: int
    eval_iters: int
    manual_gc: bool = False
    manual_gc_interval: int = 0


@dataclass
class OptimizerConfig:
    optimizer: str = "adam"
    lr: float | None = None
    min_lr: float | None = None
    weight_decay: float = 0.01
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-8
    clip_grad: float = 1.0
    use_distributed_optimizer: bool = False


@dataclass(kw_only=True)
class SchedulerConfig:
    lr_decay_style: str = "linear"
    lr_decay_iters: int | None = None
    lr_warmup_iters: int = 0
    start_weight_decay: float | None = None
    end_weight_decay: float | None = None
    override_opt_param_scheduler: bool = False


@dataclass
class DistributedDataParallelConfig:
    grad_reduce_in_fp32: bool = False
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    use_distributed_optimizer: bool = False
    check_for_nan_in_grad: bool = False
    average_in_collective: bool = False


@dataclass
class GPTDatasetConfig:
    seq_length: int
    random_seed: int
    blend: tuple[list[str], list[float] | None] | None
    split: str
    num_workers: int
    dataloader_type: str
    reset_attention_mask: bool
    reset_position_ids: bool
    eod_mask_loss: bool


@dataclass(kw_only=True)
class LoggerConfig:
    log_interval: int = 100
    tensorboard_dir: str | None = None
    mlflow_experiment: str | None = None
    mlflow_run_name: str | None = None


@dataclass
class TokenizerConfig:
    tokenizer_type: str | None = None
    tokenizer_model: str | None = None
    vocab_size: int | None = None


@dataclass(kw_only=True)
class CheckpointConfig:
    save: str | None = None
    save_interval: int | None = None
    load: str | None = None


@dataclass(kw_only=True)
class RNGConfig:
    seed: int = 1234


@dataclass(kw_only=True)
class CommOverlapConfig:
    tp_comm_overlap: bool = False


@dataclass(kw_only=True)
class ConfigContainer:
    model: Provider
    train: TrainingConfig
    optimizer: OptimizerConfig
    scheduler: SchedulerConfig
    ddp: DistributedDataParallelConfig
    dataset: GPTDatasetConfig
    logger: LoggerConfig
    tokenizer: TokenizerConfig
    checkpoint: CheckpointConfig
    rng: RNGConfig
    comm_overlap: CommOverlapConfig | None = None
    mixed_precision: str | None = None


CONFIGURATIONS = (
    TrainingConfig,
    OptimizerConfig,
    SchedulerConfig,
    DistributedDataParallelConfig,
    GPTDatasetConfig,
    LoggerConfig,
    TokenizerConfig,
    CheckpointConfig,
    RNGConfig,
    ConfigContainer,
)


class StandIn:
    """The modules, by name; `models` are the paths that were asked for, `trained` what pretrain was called with."""

    def __init__(self) -> None:
        self.models: list[tuple[str, bool]] = []
        self.trained: list[tuple[ConfigContainer, object]] = []
        self.forward_step = object()
        self.modules = {
            "megatron": module("megatron"),
            "megatron.bridge": module("megatron.bridge", AutoBridge=self),
            "megatron.bridge.training.config": module("config", **{kind.__name__: kind for kind in CONFIGURATIONS}),
            "megatron.bridge.training.pretrain": module("pretrain", pretrain=self.pretrain),
            "megatron.bridge.training.gpt_step": module("gpt_step", forward_step=self.forward_step),
            "megatron.core.datasets.utils": module("utils", get_blend_from_list=blend_from_list),
        }

    def from_hf_pretrained(self, path: str) -> Bridge:
        return Bridge(self, path)

    def pretrain(self, container: ConfigContainer, forward_step: object) -> None:
        self.trained.append((container, forward_step))


class Bridge:
    def __init__(self, stand_in: StandIn, path: str) -> None:
        self.stand_in, self.path = stand_in, path

    def to_megatron_provider(self, *, load_weights: bool) -> Provider:
        self.stand_in.models.append((self.path, load_weights))
        return Provider()


def module(name: str, **names: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(names)
    return made


def blend_from_list(words: list[str]) -> tuple[list[str], list[float] | None]:
    if len(words) % 2:
        return words, None
    return words[1::2], [float(word) for word in words[::2]]
