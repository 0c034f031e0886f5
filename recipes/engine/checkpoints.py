"""Checkpoints: copied aside while the training waits, written while it goes on, and found again after any end.

All workers call the same methods in the same order. A model that every worker holds whole is written by rank 0; one
that is spread over the workers is written by all of them, into storage that all of them see.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from recipes.engine.checkpoint_files import SHARDS, STATE, DamagedError, Folder, Manifest, checksum_of, storage_error
from recipes.engine.line import Line
from recipes.engine.state import like, load_tensors, named_tensors, spread, write_state
from recipes.errors import RecipeError


@dataclass(frozen=True)
class Checkpoints:
    """When the training is saved: after so many steps, so many seconds, or both; and what is kept.

    `folder` None is `checkpoints` in $AIR_CHECKPOINT_DIR, or, without that, in the working directory.
    """

    every: int | None = None
    every_s: float | None = 600
    keep: int = 2
    keep_best: bool = True
    folder: str | None = None

    @property
    def path(self) -> Path:
        return Path(self.folder or Path(os.environ.get("AIR_CHECKPOINT_DIR", ""), "checkpoints")).absolute()


def placed(settings: Checkpoints) -> Checkpoints:
    """The same settings for workers that have another working directory and other variables."""
    return replace(settings, folder=str(settings.path))


def contradictions(settings: Checkpoints) -> Iterator[str]:
    """Settings that keep no checkpoint."""
    if settings.keep < 1:
        yield f"checkpoints.keep={settings.keep} has to be 1 or more: a new one is written before an old one is deleted"
    for name, value in {"every": settings.every, "every_s": settings.every_s}.items():
        if value is not None and value <= 0:
            yield f"checkpoints.{name}={value} has to be above 0; none leaves it out"


class Workers:
    """The processes of the training, asked beside its own communication: it goes on meanwhile."""

    def __init__(self) -> None:
        self.count = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.group = dist.new_group(backend="gloo") if dist.is_initialized() else None

    def gather(self, value: object) -> list[Any]:
        """Every worker's value, by rank."""
        if self.group is None:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value, group=self.group)
        return values

    def broadcast(self, tensor: torch.Tensor, source: int) -> torch.Tensor:
        dist.broadcast(tensor, src=source, group=self.group)
        return tensor


@dataclass(frozen=True)
class Save:
    """A save under way: what goes with the tensors, when it began and how long the training waited for it."""

    step: int
    extra: dict[str, Any]
    eval_loss: float | None
    started: float
    held_s: float


class Store:
    """The checkpoints of one training, seen by one of its workers; `sharded` where parameters are DTensors."""

    def __init__(self, settings: Checkpoints, line: Line, *, sharded: bool = False) -> None:
        self.settings = settings
        self.line = line
        self.sharded = sharded
        self.folder = Folder(settings.path)
        self.workers = Workers()
        cuda = torch.cuda.is_available()
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=cuda, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=cuda
            )
        )
        self._writer: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._saved_at = time.monotonic()
        self._saved_step = 0
        self.check()

    @property
    def first(self) -> bool:
        return self.workers.rank == 0

    def check(self) -> None:
        """Find out now what a save would find out later.

        Raises:
            RecipeError: on all workers, where rank 0 cannot write, or all have to and do not see the same folder.
        """
        probe = self.folder.path / f".probe-{uuid.uuid4().hex}"
        problem = None
        if self.first:
            self.folder.clear_remains()
            try:
                self.folder.path.mkdir(parents=True, exist_ok=True)
                probe.touch()
            except OSError as error:
                problem = f"checkpoints cannot be written: {error}"
        problem, name = self.workers.gather((problem, probe.name))[0]
        seen = all(self.workers.gather((self.folder.path / name).exists()))
        if problem:
            raise RecipeError([problem], "Give another folder: checkpoints.folder=/path")
        if self.first:
            probe.unlink()
        if not seen and self.sharded:
            raise RecipeError(
                [f"{self.folder.path} is not the same folder for all workers, and each writes its part of the model"],
                "Give a folder on storage that all nodes share: checkpoints.folder=/path",
            )
        if not seen and self.first:
            text = (
                f"only some nodes see {self.folder.path}: if they are lost, training starts over; "
                "give a folder that all nodes share: checkpoints.folder=/path"
            )
            self.line.tell("notice", {"text": text})

    def due(self, step: int) -> bool:
        """Whether it is time to save after this step; by seconds, workers may differ, and rank 0's answer counts."""
        every, every_s = self.settings.every, self.settings.every_s
        if every is not None and step % every == 0:
            return True
        return every_s is not None and step > self._saved_step and time.monotonic() - self._saved_at >= every_s

    def save(
        self,
        step: int,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        extra: Mapping[str, Any],
        eval_loss: float | None = None,
    ) -> None:
        """Save the state after `step`: it may change again when this returns, before anything is on the disk.

        `extra` is kept as JSON. One save at a time: a second waits for the first. A full or broken disk is told as
        "not_saved", and what was saved before is still there.

        Raises:
            Exception: what went wrong in the save before, but for a full or broken disk.
        """
        started = time.monotonic()
        self.wait()
        self._saved_at, self._saved_step = started, step
        if not self.first and not self.sharded:
            return
        tensors = self._stager.stage(named_tensors(model, optimizer))
        held_s = time.monotonic() - started
        save = Save(step, {**extra, "step": step}, eval_loss, started, held_s)
        self._writer = threading.Thread(target=self._write, args=(save, tensors), name="checkpoint", daemon=True)
        self._writer.start()

    def wait(self) -> None:
        """Until what was saved is on the disk.

        Raises:
            Exception: what went wrong, but for a full or broken disk.
        """
        if self._writer:
            self._writer.join()
            self._writer = None
        failure, self._failure = self._failure, None
        if failure:
            raise failure

    def _write(self, save: Save, tensors: Mapping[str, torch.Tensor]) -> None:
        try:
            checksums = (self._write_shards if self.sharded else self._write_whole)(save.step, tensors)
            if self.first:
                manifest = self.folder.complete(
                    save.step, extra=save.extra, eval_loss=save.eval_loss, checksums=checksums
                )
                seconds = time.monotonic() - save.started
                facts = {"seconds": seconds, "bytes": manifest.bytes, "held_s": save.held_s}
                self.line.tell("saved", {"step": save.step, **facts})
                self.folder.retain(self.settings.keep, best=self.settings.keep_best)
        except (Exception, dcp.CheckpointException) as error:  # noqa: BLE001 - raised again where the training hears it
            if self.first:
                self.folder.abandon(save.step)
            failed = storage_error(causes(error))
            if failed is None:
                self._failure = error
            elif self.first:
                self.line.tell("not_saved", {"step": save.step, "reason": reason_of(failed, self.folder.path)})

    def _write_whole(self, step: int, tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
        return {STATE: write_state(self.folder.begin(step) / STATE, tensors)}

    def _write_shards(self, step: int, tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
        """Every worker writes its part; when rank 0 is through, all have written."""
        shards, error = self.folder.unfinished(step) / SHARDS, None
        if self.first:
            try:
                self.folder.begin(step)
                shards.mkdir()
            except OSError as problem:
                error = problem
        if (error := self.workers.gather(error)[0]) is not None:
            raise error
        dcp.save(dict(tensors), storage_writer=dcp.FileSystemWriter(shards), process_group=self.workers.group)
        files = sorted(shards.iterdir())[self.workers.rank :: self.workers.count]
        parts = self.workers.gather({f"{SHARDS}/{file.name}": checksum_of(file) for file in files})
        return {name: checksum for part in parts for name, checksum in part.items()}

    def latest(self) -> int | None:
        """The step of the newest checkpoint that is not damaged, as far as the sizes of its files tell."""
        return max(self._holders(), default=None)

    def _holders(self) -> dict[int, list[int]]:
        """By step, the ranks that see a checkpoint of it."""
        holders: dict[int, list[int]] = {}
        for rank, steps in enumerate(self.workers.gather(self._whole_steps())):
            for step in steps:
                holders.setdefault(step, []).append(rank)
        return holders

    def _whole_steps(self) -> list[int]:
        whole = []
        for step in self.folder.steps():
            try:
                self.folder.manifest(step)
            except DamagedError as error:
                if self.first:
                    self._set_aside(step, error)
            else:
                whole.append(step)
        return whole

    def _set_aside(self, step: int, error: DamagedError) -> None:
        self.line.tell("notice", {"text": f"the checkpoint of step {step} is damaged and not used: {error}"})
        self.folder.set_aside(step)

    def restore(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, step: int | None = None
    ) -> dict[str, Any] | None:
        """Put back the newest checkpoint, or that of `step`, and return its `extra`; None where there is none.

        It may have been saved by any number of workers, and spread over them or not. Of a damaged one it is told, and
        the one before is taken.
        """
        while holders := self._holders():
            chosen = max(holders) if step is None else step
            if chosen not in holders:
                return None
            manifest = self._checked(chosen, holders[chosen])
            if manifest is not None:
                load_tensors(model, optimizer, self._read(manifest, holders[chosen], model))
                self._saved_step = chosen
                return manifest.extra
        return None

    def _checked(self, step: int, holders: list[int]) -> Manifest | None:
        """What the checkpoint says of itself, after its files were read; None where it is damaged."""
        readers = holders if len(holders) == self.workers.count else holders[:1]
        manifest = error = None
        if self.workers.rank in readers:
            try:
                manifest = self.folder.manifest(step)
                self.folder.check_contents(manifest, readers.index(self.workers.rank), len(readers))
            except DamagedError as problem:
                error = problem
        answers = self.workers.gather((manifest, error))
        damage = next((problem for _, problem in answers if problem), None)
        if damage is None:
            found: Manifest = answers[readers[0]][0]
            return found
        if self.workers.rank == readers[0]:
            self._set_aside(step, damage)
        self.workers.gather(None)  # only then does anyone look again
        return None

    def _read(self, manifest: Manifest, holders: list[int], model: torch.nn.Module) -> dict[str, torch.Tensor]:
        folder = self.folder.of(manifest.step)
        if STATE in manifest.files:
            source = holders[0] if len(holders) < self.workers.count else None
            return self._read_whole(folder / STATE, source, model)
        reader = dcp.FileSystemReader(folder / SHARDS)
        described = reader.read_metadata().state_dict_metadata
        tensors = {name: like(name, model, one.size, one.properties.dtype) for name, one in described.items()}
        dcp.load(tensors, storage_reader=reader, process_group=self.workers.group, no_dist=not dist.is_initialized())
        return tensors

    def _read_whole(self, file: Path, source: int | None, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """Each tensor read by this worker itself, or sent by the rank `source` to the others."""
        if source is None:
            with safe_open(file, framework="pt") as state:
                return {name: self._fitted(name, state.get_tensor(name), model) for name in state.keys()}  # noqa: SIM118
        mine = safe_open(file, framework="pt") if self.workers.rank == source else None
        shapes = {name: described(mine.get_tensor(name)) for name in mine.keys()} if mine else None  # noqa: SIM118
        tensors = {}
        for name, (shape, dtype) in self.workers.gather(shapes)[source].items():
            tensor = mine.get_tensor(name) if mine else torch.empty(shape, dtype=dtype)
            tensors[name] = self._fitted(name, self.workers.broadcast(tensor, source), model)
        return tensors

    def _fitted(self, name: str, tensor: torch.Tensor, model: torch.nn.Module) -> torch.Tensor:
        return spread(tensor, like(name, model, tensor.shape, tensor.dtype)) if self.sharded else tensor


def described(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what it came from, and, where several workers wrote, what each of them met."""
    yield error
    if isinstance(error, dcp.CheckpointException):
        for problem, _ in error.failures.values():
            yield from causes(problem)
    if error.__cause__:
        yield from causes(error.__cause__)


def reason_of(error: OSError, folder: Path) -> str:
    where = "no space is left" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "the storage fails"
    return f"{where} in {folder} ({error.strerror})"
