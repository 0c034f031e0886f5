"""Several workers, started by torchrun, give what one gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, sys, torch.distributed as dist
from pathlib import Path
sys.path.insert(0, {root!r})
sys.path.insert(0, {here!r})
from made import Kept, MadeTokenizer, corpora, settings
from recipes.engine.loop import train
from recipes.engine.parallel import Parallel
from recipes.engine.data.settings import Data
dist.init_process_group("gloo")
data = Data(max_tokens=64, pack_tokens=128, packs={packs})
line = Kept({stop_after})
train(settings(Path({folder!r}), parallel=Parallel(strategy={strategy!r}), data=data), corpora(), MadeTokenizer(), line)
if dist.get_rank() == 0:
    Path({folder!r}, "told.json").write_text(json.dumps(line.told))
dist.destroy_process_group()
"""


def told_by(workers: int, folder: Path, *, strategy: str = "ddp", packs: int = 4, stop_after: int | None = None) -> Any:
    folder.mkdir(exist_ok=True)
    here = Path(__file__).parent
    program = folder / "program.py"
    program.write_text(
        PROGRAM.format(
            root=str(here.parents[2]), here=str(here), folder=str(folder), strategy=strategy, packs=packs,
            stop_after=stop_after,
        )
    )  # fmt: skip
    line = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={workers}", "--standalone", program]
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "told.json").read_text())


def losses(told: Any) -> list[float]:
    return [facts["loss"] for kind, facts in told if kind in {"step", "evaluation"}]


@pytest.fixture(scope="module")
def of_one(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return losses(told_by(1, tmp_path_factory.mktemp("one")))


@pytest.mark.parametrize(("workers", "strategy"), [(3, "ddp"), (2, "fsdp")])
def test_workers_share_a_batch_and_learn_the_same(
    of_one: list[float], tmp_path: Path, workers: int, strategy: str
) -> None:
    told = told_by(workers, tmp_path, strategy=strategy)
    assert losses(told) == pytest.approx(of_one, abs=1e-5)
    assert dict(told)["start"]["strategy"] == strategy
    assert (tmp_path / "model" / "model.safetensors").stat().st_size > 20_000


@pytest.mark.parametrize("strategies", [("ddp", "fsdp"), ("fsdp", "ddp")])
def test_a_training_goes_on_with_another_number_of_workers_and_another_strategy(
    of_one: list[float], tmp_path: Path, strategies: tuple[str, str]
) -> None:
    first = losses(told_by(2, tmp_path, strategy=strategies[0], stop_after=6))
    second = losses(told_by(3, tmp_path, strategy=strategies[1]))
    assert first + second == pytest.approx(of_one, abs=1e-5)
