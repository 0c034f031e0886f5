"""Saving and restoring: exactly, by any number of workers, and never from a torn file."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from recipes.engine.checkpoint_files import STATE, DamagedError, Folder
from recipes.engine.checkpoints import Checkpoints, Store, contradictions, placed
from recipes.errors import RecipeError
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel

from .small_training import PROCESSES, Told, make_model, make_optimizer, on_ranks, plain_model, spread_model, train


def store_in(folder: Path, **settings: Any) -> Store:
    return Store(Checkpoints(folder=str(folder), **settings), Told())


def told_by(store: Store) -> Told:
    assert isinstance(store.line, Told)
    return store.line


def save_steps(store: Store, *steps: int, eval_losses: dict[int, float] | None = None) -> None:
    model = make_model()
    optimizer = make_optimizer(model)
    train(model, optimizer, 1, 1)
    for step in steps:
        store.save(step, model, optimizer, {}, (eval_losses or {}).get(step))
    store.wait()


@pytest.mark.parametrize("fused", [False, True])
def test_a_training_that_is_resumed_has_the_losses_of_one_that_was_not(tmp_path: Path, fused: bool) -> None:
    model = make_model()
    uninterrupted = train(model, make_optimizer(model, fused=fused), 1, 8)

    model = make_model()
    optimizer = make_optimizer(model, fused=fused)
    train(model, optimizer, 1, 3)
    store = store_in(tmp_path)
    store.save(3, model, optimizer, {"epoch": 0})
    train(model, optimizer, 4, 5)  # while it is written
    store.wait()

    model = make_model(seed=7)
    optimizer = make_optimizer(model, fused=fused)
    assert store_in(tmp_path).latest() == 3
    assert store_in(tmp_path).restore(model, optimizer) == {"epoch": 0, "step": 3}
    assert train(model, optimizer, 4, 8) == uninterrupted[3:]


def test_an_empty_folder_restores_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path / "new")
    assert store.latest() is None
    assert store.restore(make_model(), None) is None


def test_the_state_is_an_ordinary_safetensors_file(tmp_path: Path) -> None:
    model = torch.compile(make_model(), backend="eager")
    optimizer = make_optimizer(model)
    model.half()
    store = store_in(tmp_path)
    store.save(1, model, optimizer, {})
    store.wait()
    loaded = load_file(Folder(tmp_path).of(1) / STATE)
    assert loaded["model.0.weight"].dtype == torch.float16
    assert torch.equal(loaded["model.0.weight"], make_model().half()[0].weight)
    assert loaded["model.1.num_batches_tracked"].shape == ()


def test_frozen_parameters_are_neither_saved_nor_touched(tmp_path: Path) -> None:
    model = make_model()
    model[0].requires_grad_(requires_grad=False)
    optimizer = make_optimizer(model)
    train(model, optimizer, 1, 2)
    store = store_in(tmp_path)
    store.save(2, model, optimizer, {})
    store.wait()
    assert not [name for name in load_file(Folder(tmp_path).of(2) / STATE) if name.startswith("model.0.")]

    other = make_model(seed=7)
    other[0].requires_grad_(requires_grad=False)
    before = other[0].weight.clone()
    store.restore(other, make_optimizer(other))
    assert torch.equal(other[0].weight, before)
    assert torch.equal(other[2].weight, model[2].weight)


def test_what_is_saved_is_what_was_there_when_save_was_called(tmp_path: Path) -> None:
    model = make_model()
    optimizer = make_optimizer(model)
    store = store_in(tmp_path)
    for step in range(1, 6):  # the copy of one save is used again by the next
        train(model, optimizer, step, step)
        kept = model[0].weight.detach().clone()
        store.save(step, model, optimizer, {})
        with torch.no_grad():
            model[0].weight.fill_(100.0)
        store.wait()
        assert torch.equal(load_file(Folder(tmp_path).of(step) / STATE)["model.0.weight"], kept)
        with torch.no_grad():
            model[0].weight.copy_(kept)


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    save_steps(store_in(tmp_path, keep=2), 10, 20, 30, 40, 50, eval_losses={10: 2.0, 20: 1.5, 30: 1.9})
    assert Folder(tmp_path).steps() == [20, 40, 50]
    save_steps(store_in(tmp_path, keep=1, keep_best=False), 60)
    assert Folder(tmp_path).steps() == [60]


def test_a_loss_that_is_no_number_is_the_best_of_none(tmp_path: Path) -> None:
    save_steps(store_in(tmp_path, keep=1), 10, 20, 30, eval_losses={10: math.nan, 20: 2.5, 30: math.nan})
    assert Folder(tmp_path).steps() == [20, 30]
    assert Folder(tmp_path).best() == 20


def test_the_best_can_be_restored(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    save_steps(store, 10, 20, 30, eval_losses={10: 1.0, 20: 2.0})
    assert store.folder.best() == 10
    assert store.restore(make_model(), None, step=10) == {"step": 10}


@pytest.mark.parametrize("damage", ["cut", "changed", "no manifest", "gone"])
def test_of_a_damaged_checkpoint_one_is_told_and_the_one_before_is_taken(tmp_path: Path, damage: str) -> None:
    save_steps(store_in(tmp_path), 10, 20)
    state = Folder(tmp_path).of(20) / STATE
    content = state.read_bytes()
    if damage == "cut":
        state.write_bytes(content[:-1])
    elif damage == "changed":
        state.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "gone":
        state.unlink()
    else:
        (state.parent / "checkpoint.json").write_text("{")
    store = store_in(tmp_path)
    assert store.restore(make_model(), None) == {"step": 10}
    (notice,) = told_by(store).of("notice")
    assert notice["text"].startswith("the checkpoint of step 20 is damaged and not used: ")
    assert str(tmp_path) in notice["text"]
    assert store.latest() == 10


def test_an_older_save_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    save_steps(store_in(tmp_path), 10)
    save_steps(store_in(tmp_path), 10)
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000010"]


def test_it_is_due_after_so_many_steps_or_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    store = store_in(tmp_path, every=5, every_s=60)
    assert [step for step in range(1, 12) if store.due(step)] == [5, 10]
    now = 160.0
    assert store.due(12)
    save_steps(store, 12)
    assert not store.due(13)


def test_settings_that_keep_nothing_are_refused() -> None:
    assert [*contradictions(Checkpoints())] == []
    assert len([*contradictions(Checkpoints(keep=0, every=0, every_s=-1))]) == 3


def test_the_folder_is_that_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIR_CHECKPOINT_DIR", str(tmp_path))
    settings = placed(Checkpoints())
    monkeypatch.delenv("AIR_CHECKPOINT_DIR")
    monkeypatch.chdir(tmp_path)
    assert settings.path == tmp_path / "checkpoints" == Checkpoints().path


def test_a_folder_that_cannot_be_made_is_told_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecipeError, match=r"checkpoints cannot be written: .*\nGive another folder"):
        store_in(tmp_path / "file" / "checkpoints")


def test_an_error_that_is_not_the_storage_reaches_the_training(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    model = make_model()
    model.register_buffer("odd", torch.zeros(2, dtype=torch.complex64))
    store.save(1, model, make_optimizer(model), {})
    with pytest.raises(KeyError, match="complex64"):
        store.wait()
    assert [*tmp_path.iterdir()] == []


SMALL_BYTES = 4 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", folder],
        check=False,
        capture_output=True,
        text=True,
    )
    if mount.returncode:
        pytest.skip(f"needs root, to mount a small file system: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> None:
    """Leave less than a page of room, on a file system that is small."""
    found = os.statvfs(folder)
    assert found.f_blocks * found.f_frsize <= SMALL_BYTES
    with (folder / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize)


def test_a_full_disk_keeps_the_last_good_checkpoint_and_the_training(small_disk: Path) -> None:
    store = store_in(small_disk)
    save_steps(store, 10)
    fill(small_disk)
    save_steps(store, 20)
    (facts,) = told_by(store).of("not_saved")
    assert facts["step"] == 20
    assert facts["reason"] == f"no space is left in {small_disk} (No space left on device)"
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["ballast", "step-00000010"]
    assert store.restore(make_model(), None) == {"step": 10}

    (small_disk / "ballast").unlink()
    save_steps(store, 30)
    assert told_by(store).kinds() == ["saved", "not_saved", "saved"]
    assert store.latest() == 30


def save_for_ever(folder: Path, saved: Any) -> None:
    """A training that does nothing but save, each time another number in all places."""
    torch.set_num_threads(1)
    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    store = store_in(folder)
    for step in itertools.count((store.latest() or 0) + 1):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(step)
        store.save(step, model, optimizer, {})
        if "saved" in told_by(store).kinds():
            saved.set()


def test_twenty_kills_while_saving_leave_whole_checkpoints_only(tmp_path: Path) -> None:
    newest = 0
    pause = random.Random(0)
    folder = Folder(tmp_path)
    for _ in range(20):
        saved = PROCESSES.Event()
        child = PROCESSES.Process(target=save_for_ever, args=(tmp_path, saved))
        child.start()
        assert saved.wait(60)
        time.sleep(pause.uniform(0, 0.1))
        child.kill()
        child.join()

        for step in folder.steps():
            folder.check_contents(folder.manifest(step))
            state = load_file(folder.of(step) / STATE)
            assert state["model.weight"].unique().tolist() == [step]
        assert folder.steps()[-1] > newest
        newest = folder.steps()[-1]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    save_steps(store_in(tmp_path), 10)
    folder = Folder(tmp_path)
    (folder.of(10) / STATE).write_bytes(b"")
    with pytest.raises(DamagedError, match=r"state.safetensors has 0 bytes; [\d,]+ were written"):
        folder.manifest(10)


def as_ddp(folder: str, first_step: int, last_step: int, seed: int) -> list[float]:
    """Restore, train and save, the model whole on every rank; the losses."""
    model = DistributedDataParallel(plain_model(seed=seed))
    optimizer = make_optimizer(model)
    store = Store(Checkpoints(folder=folder), Told())
    store.restore(model, optimizer)
    losses = train(model, optimizer, first_step, last_step)
    store.save(last_step, model, optimizer, {})
    store.wait()
    return losses


def as_fsdp(folder: str, first_step: int, last_step: int, seed: int) -> list[float]:
    """The same, the model spread over the ranks."""
    model = spread_model(seed=seed)
    optimizer = make_optimizer(model, fused=True)
    store = Store(Checkpoints(folder=folder), Told(), sharded=True)
    store.restore(model, optimizer)
    losses = train(model, optimizer, first_step, last_step)
    store.save(last_step, model, optimizer, {})
    train(model, optimizer, 100, 100)
    store.wait()
    return losses


def test_any_number_of_workers_resumes_what_any_other_saved_spread_or_whole(tmp_path: Path) -> None:
    model = plain_model()
    uninterrupted = train(model, make_optimizer(model), 1, 12)
    folder = str(tmp_path)
    resumed = [
        *on_ranks(2, as_ddp, folder, 1, 3, 0)[0],
        *on_ranks(2, as_fsdp, folder, 4, 6, 1)[1],
        *on_ranks(3, as_fsdp, folder, 7, 9, 2)[2],
        *on_ranks(1, as_ddp, folder, 10, 12, 3)[0],
    ]
    assert resumed == pytest.approx(uninterrupted, rel=1e-5)
    assert Folder(tmp_path).steps() == [9, 12]


def own_folder(folder: str, first_step: int, last_step: int, seed: int) -> tuple[list[float], list[str]]:
    """As on nodes that share no storage: rank 1 has a folder of its own; what was saved is on rank 0's."""
    mine = Path(folder) / os.environ["RANK"]
    model = DistributedDataParallel(plain_model(seed=seed))
    optimizer = make_optimizer(model)
    told = Told()
    store = Store(Checkpoints(folder=str(mine)), told)
    store.restore(model, optimizer)
    losses = train(model, optimizer, first_step, last_step)
    store.save(last_step, model, optimizer, {})
    store.wait()
    return losses, told.kinds()


def test_workers_that_do_not_see_the_files_are_sent_what_is_in_them(tmp_path: Path) -> None:
    model = plain_model()
    uninterrupted = train(model, make_optimizer(model), 1, 6)
    first = on_ranks(2, own_folder, str(tmp_path), 1, 3, 0)
    assert first[0] == (uninterrupted[:3], ["notice", "saved"])
    (tmp_path / "0").rename(tmp_path / "1")  # the node with the checkpoints is another rank's now
    second = on_ranks(2, own_folder, str(tmp_path), 4, 6, 1)
    assert second[0][0] == second[1][0] == pytest.approx(uninterrupted[3:], rel=1e-6)


def spread_over_own_folders(folder: str) -> str:
    with pytest.raises(RecipeError) as raised:
        Store(Checkpoints(folder=f"{folder}/{os.environ['RANK']}"), Told(), sharded=True)
    return str(raised.value)


def test_a_spread_model_needs_storage_that_all_workers_see(tmp_path: Path) -> None:
    assert on_ranks(2, spread_over_own_folders, str(tmp_path)) == [
        f"{tmp_path}/{rank} is not the same folder for all workers, and each writes its part of the model\n"
        "Give a folder on storage that all nodes share: checkpoints.folder=/path"
        for rank in (0, 1)
    ]


def fsdp_on_a_full_disk(folder: str) -> list[tuple[str, dict[str, Any]]]:
    model = spread_model()
    optimizer = make_optimizer(model)
    told = Told()
    store = Store(Checkpoints(folder=folder), told, sharded=True)
    train(model, optimizer, 1, 1)
    store.save(1, model, optimizer, {})
    store.wait()
    if store.first:
        fill(Path(folder))
    store.workers.gather(None)
    store.save(2, model, optimizer, {})
    store.wait()
    return told.messages


def test_a_full_disk_under_a_spread_model_is_told_once(small_disk: Path) -> None:
    told, nothing = on_ranks(2, fsdp_on_a_full_disk, str(small_disk))
    assert [kind for kind, _ in told] == ["saved", "not_saved"]
    assert "No space left on device" in told[1][1]["reason"]
    assert nothing == []
    assert Folder(small_disk).steps() == [1]
    assert not (small_disk / ".writing-step-00000002").exists()
