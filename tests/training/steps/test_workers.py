"""Several workers, started by torchrun, give what one gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from recipes.engine.loop import train
from recipes.engine.model import Architecture, Lora, Model, load_network, save_network
from transformers import AutoModelForCausalLM

from .made import Kept, MadeTokenizer, corpora, settings

CPU = torch.device("cpu")
SMALL = Architecture(layers=2, hidden=32, intermediate=48, heads=4, key_value_heads=2)

PROGRAM = """
import json, sys, torch.distributed as dist
from pathlib import Path
sys.path.insert(0, {root!r})
sys.path.insert(0, {here!r})
from made import Kept, MadeTokenizer, corpora, settings
from recipes.engine.loop import train
from recipes.engine.parallel import Parallel
from recipes.engine.model import Lora, Model
dist.init_process_group("gloo")
line = Kept({stop_after})
made = settings(Path({folder!r}), parallel=Parallel(strategy={strategy!r}), {sections})
train(made, corpora(), MadeTokenizer(), line)
if dist.get_rank() == 0:
    Path({folder!r}, "told.json").write_text(json.dumps(line.told))
dist.destroy_process_group()
"""


def told_by(
    workers: int, folder: Path, *, strategy: str = "ddp", stop_after: int | None = None, sections: str = ""
) -> Any:
    folder.mkdir(exist_ok=True)
    here = Path(__file__).parent
    program = folder / "program.py"
    program.write_text(
        PROGRAM.format(
            root=str(here.parents[2]), here=str(here), folder=str(folder), strategy=strategy, stop_after=stop_after,
            sections=sections,
        )
    )  # fmt: skip
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    line = [*torchrun, str(program)]
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "told.json").read_text())


def losses(told: Any) -> list[float]:
    return [facts["loss"] for kind, facts in told if kind in {"step", "evaluation"}]


def told_alone(folder: Path, **sections: Any) -> Any:
    line = Kept()
    train(settings(folder, **sections), corpora(), MadeTokenizer(), line, CPU)
    return line.told


@pytest.fixture(scope="module")
def of_one(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return losses(told_alone(tmp_path_factory.mktemp("one")))


@pytest.mark.parametrize(("workers", "strategy"), [(3, "ddp"), (2, "fsdp")])
def test_workers_share_a_batch_and_learn_the_same(
    of_one: list[float], tmp_path: Path, workers: int, strategy: str
) -> None:
    told = told_by(workers, tmp_path, strategy=strategy)
    assert losses(told) == pytest.approx(of_one, abs=1e-5)
    assert dict(told)["start"]["strategy"] == strategy
    assert (tmp_path / "model" / "model.safetensors").stat().st_size > 20_000


def test_a_training_goes_on_with_another_number_of_workers_and_another_strategy(
    of_one: list[float], tmp_path: Path
) -> None:
    first = losses(told_by(2, tmp_path, strategy="fsdp", stop_after=6))
    second = losses(told_by(3, tmp_path, strategy="ddp"))
    assert first + second == pytest.approx(of_one, abs=1e-5)


def test_adapters_of_a_model_that_is_shared_out_are_merged_into_what_is_saved(tmp_path: Path) -> None:
    save_network(load_network(Model(), SMALL, Lora(), MadeTokenizer(), CPU), MadeTokenizer(), tmp_path / "base")
    model, lora = Model(name=str(tmp_path / "base"), precision="bfloat16"), Lora(rank=4)
    told = told_by(2, tmp_path / "tuned", strategy="fsdp", sections=f"model={model}, lora={lora}")
    whole = told_alone(tmp_path / "whole", model=model, lora=lora)
    assert losses(told) == pytest.approx(losses(whole), abs=1e-4)
    tuned, same, base = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
        for folder in (tmp_path / "tuned" / "model", tmp_path / "whole" / "model", tmp_path / "base")
    )
    for name, weight in base.items():
        torch.testing.assert_close(tuned[name], same[name], atol=1e-3, rtol=1e-2)
        assert torch.equal(tuned[name], weight.bfloat16().float()) != ("proj.weight" in name)
