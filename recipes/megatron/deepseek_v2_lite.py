"""DeepSeek-V2-Lite from scratch: 16 billion parameters, 2.4 of them at work for each token. For 16 GPUs or more.

Source: https://huggingface.co/deepseek-ai/DeepSeek-V2-Lite
"""

from __future__ import annotations

from recipes.megatron.config import Config, Model, Scheduler, Train


def configure(*, hf_path: str = "deepseek-ai/DeepSeek-V2-Lite") -> Config:
    """`hf_path` is a folder, or a name on the Hugging Face Hub; its weights are not read."""
    return Config(
        model=Model(
            hf_path=hf_path,
            tensor_model_parallel_size=8,
            pipeline_model_parallel_size=1,
            expert_model_parallel_size=2,
            sequence_parallel=True,
            seq_length=4096,
        ),
        train=Train(train_iters=500, global_batch_size=64, micro_batch_size=1, eval_interval=100),
        scheduler=Scheduler(lr_warmup_iters=50),
    )
