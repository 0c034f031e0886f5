"""DeepSeek-V2-Lite, as it is pre-trained."""

from __future__ import annotations

from recipes.megatron.config import Checkpoint
from recipes.megatron.deepseek_v2_lite import configure


def test_deepseek_v2_lite_is_pre_trained_with_these_settings() -> None:
    config = configure(hf_path="/models/lite")
    model, train = config.model, config.train
    assert model.hf_path == "/models/lite"
    assert (model.tensor_model_parallel_size, model.pipeline_model_parallel_size) == (8, 1)
    assert (model.expert_model_parallel_size, model.sequence_parallel, model.seq_length) == (2, True, 4096)
    assert (train.train_iters, train.global_batch_size, train.micro_batch_size) == (500, 64, 1)
    assert (config.scheduler.lr_warmup_iters, train.eval_interval) == (50, 100)
    assert config.checkpoint == Checkpoint(save=None, save_interval=None, load=None)
