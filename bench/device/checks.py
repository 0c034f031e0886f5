"""What only the device itself can show: that its kernels, copies and limits do to a training what is said of them.

T tokens of a row, D documents, H heads, K heads of keys and values, C channels of a head, V words, R learned tokens.
"""
# ruff: noqa: N803, N806 - the shapes are in capitals

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from device.given import Kept, Scale, Words, made_corpus, training_of, wait_for
from recipes.engine.attention import NAME, Documents, attend
from recipes.engine.data.corpus import Pack
from recipes.engine.data.feed import Feed
from recipes.engine.data.plan import GlobalBatch
from recipes.engine.faults import out_of_memory
from recipes.engine.loop import Step, Training
from recipes.engine.loss import summed_loss
from recipes.engine.model import new_config
from recipes.engine.parallel import Parallel, Parallelized
from recipes.engine.settings import Training as Course
from recipes.engine.state import named_tensors
from recipes.engine.world import World
from recipes.errors import RecipeError
from torch.nn.functional import cosine_similarity, cross_entropy
from transformers import AutoModelForCausalLM

Facts = dict[str, Any]
POISONED_STEP = 4
WARM_STEPS = 2
SAVED_STEP = 3


class CheckError(Exception):
    """Something that was said of the device is not so."""


def hold(condition: bool, text: str) -> None:
    if not condition:
        raise CheckError(text)


# Attention


@dataclass(frozen=True)
class Heads:
    """A kind of attention."""

    heads: int
    key_value_heads: int
    channels: int
    sliding_window: int | None = None


KINDS = (Heads(16, 2, 128), Heads(8, 8, 64), Heads(12, 4, 80), Heads(16, 2, 128, sliding_window=37))


def attention(scale: Scale) -> Facts:
    """The kernel is as near to float32 as torch's own attention is that takes a document at a time."""
    random = np.random.default_rng(0)
    lengths_D = torch.from_numpy(np.append(random.integers(1, scale.pack_tokens // 4, 40), [1, 2, 37, 38]))
    documents = Documents.of(lengths_D, scale.device)
    hold(documents.kernel, "attention.has_kernel finds no flash attention for this device in this torch")
    facts: Facts = {}
    for kind in KINDS:
        states = [
            torch.randn(1, heads, int(lengths_D.sum()), kind.channels, device=scale.device, dtype=torch.bfloat16)
            for heads in (kind.heads, kind.key_value_heads, kind.key_value_heads)
        ]
        in_turn = replace(documents, kernel=False)
        exact = differentiated([one.float() for one in states], in_turn, kind.sliding_window)
        by_kernel = differentiated(states, documents, kind.sliding_window)
        by_turns = differentiated(states, in_turn, kind.sliding_window)
        for name, kernels, turns, right in zip("oqkv", by_kernel, by_turns, exact, strict=True):
            error, usual = (float((one.float() - right).abs().max()) for one in (kernels, turns))
            largest = float(right.abs().max())
            hold(
                error <= 3 * usual + 1e-3 * largest,
                f"{kind}: {name} is off by {error:.3g}, a document at a time by {usual:.3g}",
            )
            facts["largest_error_share"] = max(facts.get("largest_error_share", 0.0), error / largest)
        if kind.sliding_window is None:
            in_autocast = autocast(states, documents)
            hold(torch.equal(in_autocast, by_kernel[0]), f"{kind}: in autocast float32 queries give another result")
    query_1HTC, key_1KTC, value_1KTC = states
    for name, how in (("kernel_ms", documents), ("a_document_at_a_time_ms", in_turn)):
        facts[name] = 1e3 * seconds_of(
            lambda how=how: attend(None, query_1HTC, key_1KTC, value_1KTC, None, documents=how), scale
        )
    return facts


def autocast(states: Sequence[torch.Tensor], documents: Documents) -> torch.Tensor:
    """What comes out when queries and keys are in float32, as rotary embeddings give them in autocast."""
    query_1HTC, key_1KTC, value_1KTC = states
    with torch.autocast(query_1HTC.device.type, torch.bfloat16):
        out_1THC, _ = attend(None, query_1HTC.float(), key_1KTC.float(), value_1KTC, None, documents=documents)
    return out_1THC


def differentiated(
    states: Sequence[torch.Tensor], documents: Documents, sliding_window: int | None
) -> tuple[torch.Tensor, ...]:
    """What comes out, and the gradients of queries, keys and values for a fixed gradient of it."""
    query_1HTC, key_1KTC, value_1KTC = leaves = [one.detach().requires_grad_() for one in states]
    out_1THC, _ = attend(
        None, query_1HTC, key_1KTC, value_1KTC, None, documents=documents, sliding_window=sliding_window
    )
    given_1THC = torch.linspace(-1, 1, out_1THC.numel(), device=out_1THC.device).view_as(out_1THC)
    return (out_1THC.detach(), *torch.autograd.grad(out_1THC, leaves, given_1THC.to(out_1THC.dtype)))


def seconds_of(call: Any, scale: Scale, times: int = 10) -> float:
    call()
    wait_for(scale.device)
    began_s = time.perf_counter()
    for _ in range(times):
        call()
    wait_for(scale.device)
    return (time.perf_counter() - began_s) / times


# The loss


def packed(scale: Scale) -> Facts:
    """Documents that share a row have the loss and the gradients that each has alone with torch's own attention."""
    facts: Facts = {}
    for dtype, loss_tolerance, least_cosine in ((torch.float32, 1e-5, 0.999999), (torch.bfloat16, 2e-3, 0.999)):
        together, gradients = learned(scale, dtype, NAME)
        alone, gradients_alone = learned(scale, dtype, "sdpa")
        off = abs(together - alone) / alone
        cosine = float(cosine_similarity(gradients.double(), gradients_alone.double(), dim=0))
        name = str(dtype).removeprefix("torch.")
        hold(off <= loss_tolerance, f"{name}: the loss of a pack is {together}, of its documents alone {alone}")
        hold(cosine >= least_cosine, f"{name}: gradients of a pack and of its documents alone are {cosine} alike")
        facts |= {f"{name}_loss_off_by": off, f"{name}_gradients_alike": cosine}
    return facts


def learned(scale: Scale, dtype: torch.dtype, how: str) -> tuple[float, torch.Tensor]:
    """The loss of some documents, in one row or each in its own, and the gradients of all weights."""
    torch.manual_seed(0)
    architecture = replace(scale.medium, layers=2)
    with scale.device:
        network = AutoModelForCausalLM.from_config(
            new_config(architecture, Words(architecture.vocabulary)), dtype=torch.float32
        )
    network.set_attn_implementation(how)
    model = Parallelized(network, Parallel(), World(0, 1, scale.device), dtype)
    corpus = made_corpus(12, architecture.vocabulary)
    packs = [corpus.pack(range(12))] if how == NAME else [corpus.pack([one]) for one in range(12)]
    loss_sum = 0.0
    for pack in packs:
        loss = summed_loss(model, pack, scale.device, by_document=how == NAME)
        loss.backward()
        loss_sum += loss.item()
    return loss_sum, torch.cat([one.grad.flatten() for one in network.parameters()])


def cross_entropy_memory(scale: Scale) -> Facts:
    """Taken in parts, the loss of many tokens holds less than taken at once, for the same gradients."""
    words, tokens = scale.architecture.vocabulary, 2 * scale.pack_tokens
    hidden_1TC = torch.randn(1, tokens, 64, device=scale.device, dtype=torch.bfloat16, requires_grad=True)
    head_VC = (torch.randn(words, 64, device=scale.device) / 8).bfloat16()
    learn_T = np.ones(tokens, np.bool_)
    learn_T[0] = False
    pack = Pack(np.arange(tokens) % words, learn_T, np.array([tokens]), (0,))

    def network(*, logits_to_keep: torch.Tensor, **_: Any) -> Any:
        return SimpleNamespace(logits=hidden_1TC[:, logits_to_keep] @ head_VC.T)

    def at_once() -> torch.Tensor:
        targets_R = torch.from_numpy(pack.ids_T[1:]).to(scale.device)
        return cross_entropy((hidden_1TC[0, :-1] @ head_VC.T).float(), targets_R, reduction="sum")

    whole_bytes, whole = held_by(at_once, hidden_1TC)
    parts_bytes, parts = held_by(lambda: summed_loss(network, pack, scale.device, by_document=True), hidden_1TC)
    alike = float(cosine_similarity(parts.flatten().double(), whole.flatten().double(), dim=0))
    hold(alike > 0.999, f"the gradients are {alike} alike")
    hold(parts_bytes < whole_bytes, f"in parts it holds {parts_bytes} bytes, at once {whole_bytes}")
    return {"in_parts_bytes": parts_bytes, "at_once_bytes": whole_bytes, "logits_bytes": 2 * tokens * words}


def held_by(loss: Any, hidden_1TC: torch.Tensor) -> tuple[int, torch.Tensor]:
    """The most memory that a forward and a backward pass hold beside what was there, and the gradient."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    (gradient_1TC,) = torch.autograd.grad(loss(), [hidden_1TC])
    return torch.cuda.max_memory_allocated() - before, gradient_1TC


# Faults


class Poisoned(Training):
    """A training with a loss that is no number in one of its steps."""

    taken = 0

    def take_step(self, batch: GlobalBatch, packs: Sequence[Pack]) -> Step:
        self.taken = batch.step
        return super().take_step(batch, packs)

    def loss_of(self, pack: Pack) -> torch.Tensor:
        return super().loss_of(pack) * (float("nan") if self.taken == POISONED_STEP else 1.0)


def no_waiting(scale: Scale) -> Facts:
    """No part of a step has the host wait for the device: what does is an error, which torch names."""
    with tempfile.TemporaryDirectory() as folder:
        training = training_of(scale, Path(folder), architecture=scale.medium)
        with Feed(training.corpora.train, training.plan, last_step=WARM_STEPS + 1) as feed:
            for batch, packs in feed:
                torch.cuda.set_sync_debug_mode("error" if batch.step > WARM_STEPS else "default")
                step = training.take_step(batch, packs)
        torch.cuda.set_sync_debug_mode("default")
        training.order_after(step)
        return {"step": step.batch.step}


def not_a_number(scale: Scale) -> Facts:
    """On a GPU the loss of a step is read while the next one is computed; the message names the step all the same."""
    with tempfile.TemporaryDirectory() as folder:
        course = Course(steps=2 * POISONED_STEP, log_every=100)
        training = training_of(scale, Path(folder), kind=Poisoned, architecture=scale.medium, training=course)
        text = refusal_of(training.learn)
        hold(f"no finite number in step {POISONED_STEP}." in text, f"the message is: {text}")
        hold(training.store.latest() is None, "a checkpoint was saved with it")
        noticed = training.taken if isinstance(training, Poisoned) else 0
        expected = POISONED_STEP + scale.cuda
        hold(noticed == expected, f"noticed in step {noticed}, and not in step {expected}")
        return {"step": POISONED_STEP, "noticed_in_step": noticed}


def no_memory(scale: Scale) -> Facts:
    """More than the device has is refused with what to change."""

    def more_than_there_is() -> None:
        total = torch.cuda.get_device_properties(scale.device).total_memory if scale.cuda else 1 << 60
        with out_of_memory(World(0, 1, scale.device)):
            torch.empty(2 * total, dtype=torch.uint8, device=scale.device)

    text = refusal_of(more_than_there_is)
    hold("out of memory" in text and "model.activation_checkpointing=true" in text, f"the message is: {text}")
    return {"message": text.splitlines()[0]}


def refusal_of(call: Any) -> str:
    try:
        call()
    except RecipeError as error:
        return f"{error}\n{error.hint}"
    raise CheckError("nothing was refused")


# Checkpoints


def checkpoint(scale: Scale) -> Facts:
    """A state is copied aside, changes while it is written, and comes back as it was."""
    with tempfile.TemporaryDirectory() as folder:
        line = Kept()
        training = training_of(scale, Path(folder), architecture=scale.medium, line=line)
        meanwhile = 0
        before: dict[str, torch.Tensor] = {}
        with Feed(training.corpora.train, training.plan, last_step=10_000) as feed:
            for batch, packs in feed:
                training.take_step(batch, packs).numbers.read()
                training.progress.step = batch.step
                if batch.step == SAVED_STEP:
                    before = state_of(training)
                    training.save(None)
                elif batch.step > SAVED_STEP:
                    if line.told:
                        break
                    meanwhile += 1
        training.store.wait()
        hold(bool(line.of("saved")), f"nothing was saved: {line.told}")
        [saved] = line.of("saved")
        del training
        again = training_of(scale, Path(folder), architecture=scale.medium)
        again.resume()
        hold(again.progress.step == SAVED_STEP, f"it goes on after step {again.progress.step}")
        after = state_of(again)
        hold(set(before) == set(after), f"only in one of them: {sorted(set(before) ^ set(after))[:3]}")
        other = [name for name, tensor in before.items() if not torch.equal(tensor, after[name])]
        hold(not other, f"{len(other)} tensors are not as they were: {other[:3]}")
        hold(meanwhile > 0 or not scale.cuda, "no step was taken while it was written")
        return {
            "bytes": saved["bytes"], "held_s": saved["held_s"], "written_s": saved["seconds"],
            "steps_meanwhile": meanwhile,
        }  # fmt: skip


def state_of(training: Training) -> dict[str, torch.Tensor]:
    tensors = named_tensors(training.model.network, training.optimizer)
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
