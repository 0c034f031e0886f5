"""The same training with transformers' Trainer, at its best: no evaluation, no report but the last, fused AdamW.

    torchrun --standalone --nproc-per-node 2 -m training.trainer --cache FOLDER --way padding-free

`grouped`: rows of similar length together, padded to the longest of a batch. `padding-free`: the rows of a batch one
after another in a single one, with positions that begin again in each, and attention (SDPA) kept inside each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from training.given import LEARNING_RATE, Rows, arguments, load_rows, new_network
from training.window import Window, leave
from transformers import (
    DataCollatorForSeq2Seq,
    DataCollatorWithFlattening,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.utils import logging

NOT_LEARNED = -100  # the label that the loss leaves out
Collator = Callable[[list[dict[str, Any]]], Mapping[str, Any]]


class Examples(torch.utils.data.Dataset[dict[str, Any]]):  # type: ignore[misc] # torch has no types here
    """The rows as Trainer wants them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.lengths = [len(ids) for ids in rows.ids]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        ids, learned = self._rows.ids[place], self._rows.learned[place]
        labels = [token if is_learned else NOT_LEARNED for token, is_learned in zip(ids, learned, strict=True)]
        return {"input_ids": ids, "labels": labels}


class Counting(Trainer):  # type: ignore[misc] # as above
    """Trainer, with the tokens counted of what it computes."""

    window: Window

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """One step, counted before it is taken."""
        mask = inputs.get("attention_mask")
        numel = inputs["input_ids"].numel()
        self.window.count(tokens=numel if mask is None else int(mask.sum()), padded_tokens=numel)
        return super().training_step(model, inputs, num_items_in_batch)


class Steps(TrainerCallback):  # type: ignore[misc] # as above
    """Tells the window of each step."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_rest: Any) -> None:
        """The optimizer has stepped."""
        if not self._window.stepped():
            control.should_training_stop = True


def main() -> None:
    parser = arguments(str(__doc__))
    parser.add_argument("--way", choices=("grouped", "padding-free"), default="padding-free")
    parser.add_argument("--loading-processes", type=int, default=0)
    values = parser.parse_args()
    logging.set_verbosity_error()
    dist.init_process_group("gloo")
    rows = load_rows(values.cache)
    collators: dict[str, Collator] = {
        "grouped": DataCollatorForSeq2Seq(rows.tokenizer),
        "padding-free": DataCollatorWithFlattening(),
    }
    window = Window(f"trainer, {values.way}", warmup_steps=values.warmup_steps, steps=values.steps)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Counting(
            model=new_network(rows.tokenizer),
            args=settings_of(values.way, values, folder),
            train_dataset=Examples(rows),
            data_collator=collators[values.way],
            callbacks=[Steps(window)],
        )
        trainer.window = window
        trainer.train()
    [last] = [facts for facts in trainer.state.log_history if "train_loss" in facts]
    window.report(last["train_loss"])
    leave()


def settings_of(way: str, values: Any, folder: str) -> TrainingArguments:
    """Everything that costs time is off."""
    return TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        ddp_backend="gloo",
        ddp_find_unused_parameters=False,
        per_device_train_batch_size=values.rows,
        max_steps=values.warmup_steps + values.steps,
        train_sampling_strategy="group_by_length" if way == "grouped" else "random",
        dataloader_num_workers=values.loading_processes,
        dataloader_persistent_workers=values.loading_processes > 0,
        dataloader_pin_memory=False,
        optim="adamw_torch_fused",
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        seed=0,
    )


if __name__ == "__main__":
    main()
