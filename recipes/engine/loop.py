"""A training, from the first step to the model that is saved. It knows torch.distributed, and nothing of Ray.

Everything about a step but the state of model and optimizer is a function of the step and the seed: which documents it
sees, the learning rate, the random numbers. So a training that is resumed goes on exactly as if nothing had happened.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from recipes.engine.checkpoints import Store
from recipes.engine.data.corpora import Corpora
from recipes.engine.data.corpus import Pack
from recipes.engine.data.feed import Feed
from recipes.engine.data.plan import GlobalBatch, Plan, evaluation_batch, packs_of_rank
from recipes.engine.evaluation import evaluate
from recipes.engine.faults import not_finite, out_of_memory
from recipes.engine.flops import Flops, peak_flops
from recipes.engine.line import Line
from recipes.engine.loss import summed_loss
from recipes.engine.meter import Meter
from recipes.engine.model import attends_by_document, computes_in, load_network
from recipes.engine.optimizer import learning_rate, make_optimizer
from recipes.engine.parallel import Parallelized, count_parameters
from recipes.engine.readout import Readout
from recipes.engine.sample import answer
from recipes.engine.saved_model import save_model
from recipes.engine.settings import Settings
from recipes.engine.world import World
from recipes.errors import RecipeError

Reason = Literal["completed", "early_stop", "stopped"]
GO_ON, SAVE, STOP = 0, 1, 2  # what the first worker has the others do


@dataclass
class Progress:
    """How far a training is, beside its weights; a checkpoint keeps it."""

    step: int = 0
    best_loss: float = sys.float_info.max
    best_step: int = 0
    without_gain: int = 0  # evaluations since the best one


@dataclass(frozen=True)
class Step:
    """A step that was taken, its numbers perhaps still on their way from the device."""

    batch: GlobalBatch
    packs: Sequence[Pack]
    losses: Sequence[torch.Tensor]
    numbers: Readout  # the summed loss of all workers, what the first one wants, the length of the gradient


def train(
    settings: Settings, corpora: Corpora, tokenizer: Any, line: Line, device: torch.device | None = None
) -> Reason:
    """Train to the end, on this worker and all others at once; the model is beside the checkpoints then.

    Raises:
        RecipeError: on every worker, with what to do about it.
    """
    world = World.here(device)
    with out_of_memory(world):
        return Training(settings, corpora, tokenizer, line, world).run()


class Training:
    """One worker's side of a training."""

    def __init__(self, settings: Settings, corpora: Corpora, tokenizer: Any, line: Line, world: World) -> None:
        self.settings = settings
        self.corpora = corpora
        self.tokenizer = tokenizer
        self.line = line
        self.world = world
        torch.manual_seed(settings.training.seed)
        self.dtype = computes_in(settings.model, world.device)
        network = self.make_network(world.device)
        self.by_document = attends_by_document(settings.model, network)
        self.flops = Flops.of(network, frozen=settings.lora.rank is not None)
        self.peak = peak_flops(world.device, self.dtype)
        self.parameters, self.trained = count_parameters(network)
        self.model = Parallelized(network, settings.parallel, world, self.dtype)
        self.optimizer = make_optimizer(settings.optimizer, network)
        self.plan = Plan(corpora.train.lengths_D, corpora.train.learned_D, settings.data, settings.training.seed)
        self.steps = settings.training.steps or self.plan.steps_in(settings.training.epochs)
        self.meter = Meter(world, self.flops, self.peak, by_document=self.by_document)
        self.store = Store(settings.checkpoints, line, sharded=self.model.sharded)
        self.progress = Progress()
        self.unread: list[Step] = []

    def run(self) -> Reason:
        """Every step that is left, and what comes after the last."""
        self.resume()
        self.tell_start()
        reason = self.learn()
        self.store.wait()
        path = None
        if reason != "stopped":
            self.take_best()
            path = self.store.folder.path.parent / "model"
            save_model(self.model, self.tokenizer, path, self.world, lambda: self.make_network(torch.device("cpu")))
            self.show_sample()
        self.tell("end", step=self.progress.step, reason=reason, model_path=str(path) if path else None)
        return reason

    def make_network(self, device: torch.device) -> Any:
        settings = self.settings
        return load_network(settings.model, settings.architecture, settings.lora, self.tokenizer, device)

    def resume(self) -> None:
        """Go on from the newest checkpoint, if there is one, of the same training."""
        saved = self.store.restore(self.model.network, self.optimizer)
        if saved is None:
            return
        if saved["data"] != self.corpora.train.digest:
            raise RecipeError(
                [f"The checkpoints in {self.store.folder.path} are of a training on other data"],
                hint="Set checkpoints.folder to another folder, or data.* as before",
            )
        self.progress = Progress(**saved["progress"])
        self.tell("resumed", step=self.progress.step)

    def learn(self) -> Reason:
        """The steps that are left; fewer where evaluation no longer gains, or the first worker was asked to stop."""
        if self.gains_nothing():  # it has stopped before
            return "early_stop"
        first = self.progress.step + 1
        with Feed(
            self.corpora.train, self.plan, rank=self.world.rank, world=self.world.size,
            first_step=first, last_step=self.steps,
        ) as feed:  # fmt: skip
            self.meter.forget()
            for batch, packs in self.meter.waiting(feed):
                step = self.take_step(batch, packs)
                order = self.order_after(step)
                self.progress.step = batch.step
                if self.reports_after(batch.step) or batch.step == first:
                    self.tell_step(step)
                loss = self.evaluate() if self.evaluates_after(batch.step) else None
                enough = self.gains_nothing()
                last = batch.step == self.steps
                best = (
                    loss is not None and self.progress.best_step == batch.step and self.settings.checkpoints.keep_best
                )
                if order != GO_ON or best or enough or last:
                    self.save(loss)
                if order == STOP and not last:
                    return "stopped"
                if enough:
                    return "early_stop"
        return "completed"

    def take_step(self, batch: GlobalBatch, packs: Sequence[Pack]) -> Step:
        """Learn from a batch. Every token of it weighs the same, whichever worker and pack it is in."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings.optimizer, batch.step, self.steps)
        weight = self.world.size / max(1, batch.learned)  # gradients are averaged over the workers
        losses = []
        for place, pack in enumerate(packs):
            torch.manual_seed(self.seed_of(batch, place))
            with self.model.gradients(last=place == len(packs) - 1):
                loss = self.loss_of(pack)
                (loss * weight).backward()
            losses.append(loss.detach())
        norm = self.model.clip(self.settings.optimizer.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        order = torch.full((), self.order(batch.step), dtype=torch.float32, device=self.world.device)
        loss_sum, order = self.world.total(torch.stack([torch.stack(losses).sum(), order])).unbind()
        self.meter.add(loss_sum, batch.learned, packs)
        return Step(batch, packs, losses, Readout(torch.stack([loss_sum, order, norm])))

    def loss_of(self, pack: Pack) -> torch.Tensor:
        return summed_loss(self.model, pack, self.world.device, by_document=self.by_document)

    def seed_of(self, batch: GlobalBatch, place: int) -> int:
        """Of the random numbers for a pack: the same for any number of workers, and after a resume."""
        pack = batch.step * self.settings.data.packs + place * self.world.size + self.world.rank
        return self.settings.training.seed * 1_000_003 + pack

    def order(self, step: int) -> float:
        """What the first worker wants after this step; only its word counts."""
        if not self.world.first:
            return GO_ON
        return STOP if self.line.stopping() else SAVE if self.store.due(step) else GO_ON

    def order_after(self, step: Step) -> float:
        """What is to be done now. On a GPU the numbers of a step are read while the next one is computed.

        Raises:
            RecipeError: the loss or the gradient of a step is no number.
        """
        number = step.batch.step
        wait = self.world.device.type == "cuda" and not (
            self.reports_after(number) or self.evaluates_after(number) or self.saves_after(number)
        )
        looked_at, self.unread = (self.unread, [step]) if wait else ([*self.unread, step], [])
        order = max((self.look_at(one) for one in looked_at), default=GO_ON)
        if order != GO_ON and self.unread:
            self.look_at(self.unread.pop())  # nothing is saved unseen
        return order

    def look_at(self, step: Step) -> float:
        loss_sum, order, norm = step.numbers.read()
        if not math.isfinite(loss_sum) or not math.isfinite(norm):
            raise not_finite(step.batch.step, step.packs, step.losses, self.corpora.train, self.world)
        return order

    def reports_after(self, step: int) -> bool:
        return step % self.settings.training.log_every == 0 or step == self.steps

    def evaluates_after(self, step: int) -> bool:
        every = self.settings.training.eval_every
        if self.corpora.evaluation is None:
            return False
        return step == self.steps or (every is not None and step % every == 0)

    def saves_after(self, step: int) -> bool:
        every = self.settings.checkpoints.every
        return step == self.steps or (every is not None and step % every == 0)

    def evaluate(self) -> float:
        """The loss on what is held out, the same on all workers."""
        corpus = self.corpora.evaluation
        if corpus is None:
            raise AssertionError("there is nothing to evaluate on")
        with self.meter.paused():
            batch = evaluation_batch(corpus, self.settings.data)
            packs = packs_of_rank(corpus, batch, self.world.rank, self.world.size)
            loss = evaluate(self.model.network, self.loss_of, packs, self.world, learned=batch.learned)
        best = loss < self.progress.best_loss
        if best:
            self.progress.best_loss, self.progress.best_step = loss, self.progress.step
        self.progress.without_gain = 0 if best else self.progress.without_gain + 1
        self.tell("evaluation", step=self.progress.step, loss=loss, perplexity=perplexity(loss), best=best)
        return loss

    def gains_nothing(self) -> bool:
        """Whether it is time to stop early."""
        patience = self.settings.training.patience
        return patience is not None and self.progress.without_gain >= patience

    def save(self, eval_loss: float | None) -> None:
        extra = {"progress": asdict(self.progress), "data": self.corpora.train.digest}
        with self.meter.paused():
            self.store.save(self.progress.step, self.model.network, self.optimizer, extra, eval_loss)

    def take_best(self) -> None:
        """With early stop, the model of the best evaluation is what the training gives."""
        progress = self.progress
        if self.settings.training.patience is None or progress.best_step in {0, progress.step}:
            return
        if self.store.restore(self.model.network, None, progress.best_step) is not None:
            self.tell("notice", text=f"the model is that of step {progress.best_step}, which evaluated best")

    def show_sample(self) -> None:
        """What the model says to a question, for people to see."""
        prompt = self.settings.training.sample
        if prompt and self.world.first and not self.model.sharded:
            conversation = self.corpora.facts.format != "text"
            text = answer(self.model.network, self.tokenizer, prompt, conversation=conversation)
            self.tell("sample", prompt=prompt, text=text)

    def tell_start(self) -> None:
        self.tell(
            "start",
            step=self.progress.step, steps=self.steps, steps_per_epoch=self.plan.steps_in(1), workers=self.world.size,
            device=device_name(self.world.device), precision=str(self.dtype).removeprefix("torch."),
            parameters=self.parameters, trained_parameters=self.trained,
            flops_per_token=self.flops.per_token, peak_flops=self.peak,
            strategy="fsdp" if self.model.sharded else "ddp", attention="documents" if self.by_document else "padded",
        )  # fmt: skip

    def tell_step(self, step: Step) -> None:
        facts = self.meter.read()  # of all workers
        number = step.batch.step
        rate = learning_rate(self.settings.optimizer, number, self.steps)
        norm = step.numbers.read()[-1]
        self.tell("step", step=number, learning_rate=rate, grad_norm=norm, epoch=step.batch.epoch, **facts)

    def tell(self, kind: str, **facts: Any) -> None:
        if self.world.first:
            self.line.tell(kind, facts)


def perplexity(loss: float) -> float:
    """Among how many equally likely tokens the model would be as unsure."""
    return math.exp(min(loss, 700.0))  # more is no float


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
