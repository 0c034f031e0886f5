"""The network that is trained: from the hub, from a folder, or small and new; whole or with LoRA."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen2Config
from transformers.utils.logging import disable_progress_bar

from recipes.engine import attention
from recipes.errors import RecipeError

NEW = "new"
# Of what transformers calls the layers of a model, those that see other tokens through `attention` alone.
ATTENTION_LAYERS = {"full_attention", "sliding_attention"}
SAID = "the-assistant-said"


@dataclass(frozen=True)
class Model:
    """Which model, and how it computes.

    `name` is a model of the hub, a folder, or "new": a Qwen2 of the size that `architecture` says, with a vocabulary
    made of the data. `weights=random` takes the architecture alone. `precision` is that of the forward and backward
    pass: auto is bfloat16 on GPUs and float32 elsewhere; what is trained, and its optimizer, stay float32.
    """

    name: str = NEW
    revision: str | None = None
    weights: Literal["pretrained", "random"] = "pretrained"
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    attention: Literal["auto", "documents", "padded"] = "auto"
    activation_checkpointing: bool = False
    compile: bool = False


@dataclass(frozen=True)
class Architecture:
    """The size of a new model; `vocabulary` counts tokens."""

    layers: int = 3
    hidden: int = 128
    intermediate: int = 384
    heads: int = 4
    key_value_heads: int = 2
    vocabulary: int = 4096


@dataclass(frozen=True)
class Lora:
    """Adapters of this `rank` are trained in place of the weights; None trains the weights."""

    rank: int | None = None
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all-linear",)


def contradictions(model: Model, architecture: Architecture, lora: Lora) -> Iterator[str]:
    """What no network can be made of."""
    sizes = {f"architecture.{name}": value for name, value in vars(architecture).items()}
    for name, value in sizes.items():
        if value < 1:
            yield f"{name}={value} has to be 1 or more"
    if min(sizes.values()) < 1:
        return
    if architecture.hidden % (2 * architecture.heads):
        yield (
            f"architecture.hidden={architecture.hidden} has to be a multiple of "
            f"twice architecture.heads={architecture.heads}"
        )
    if architecture.heads % architecture.key_value_heads:
        yield (
            f"architecture.heads={architecture.heads} has to be a multiple of "
            f"architecture.key_value_heads={architecture.key_value_heads}"
        )
    if lora.rank is not None and lora.rank < 1:
        yield f"lora.rank={lora.rank} has to be 1 or more, or none"
    if lora.rank is not None and NEW in (model.name, model.weights):
        yield "lora.rank needs a model that has learned something: set model.name, or lora.rank=none"


def load_tokenizer(model: Model) -> Any:
    """The tokenizer of a model that is not new.

    Raises:
        RecipeError: there is none of that name.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(model.name, revision=model.revision)
    except (OSError, ValueError) as error:
        raise _not_found(model, error) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_network(model: Model, architecture: Architecture, lora: Lora, tokenizer: Any, device: torch.device) -> Any:
    """The network, on the host, in float32; with LoRA, the frozen weights in the precision of `device`.

    Raises:
        RecipeError: there is no such model, or it cannot be trained as the settings say.
    """
    frozen_half = lora.rank is not None and computes_in(model, device) is torch.bfloat16
    dtype = torch.bfloat16 if frozen_half else torch.float32
    try:
        network = _made(model, architecture, tokenizer, dtype)
    except (OSError, ValueError) as error:
        raise _not_found(model, error) from error
    if len(tokenizer) > network.get_input_embeddings().num_embeddings:
        network.resize_token_embeddings(len(tokenizer))
    network.config.use_cache = False
    network.set_attn_implementation(attention.NAME if attends_by_document(model, network) else "sdpa")
    if model.activation_checkpointing:
        network.activation_checkpointing_enable()
    if lora.rank is not None:
        network = _with_adapters(network, lora)
    if model.compile:
        for layer in layers(network) or [network]:  # they are alike: all of them take the compilation of one
            layer.compile()
    return network.train()


def layers(network: Any) -> list[Any]:
    """The blocks that the network is a pile of, as its architecture names them; empty where it does not."""
    base = network.get_base_model() if hasattr(network, "get_base_model") else network
    names = set(getattr(base, "_no_split_modules", None) or ())
    return [module for module in base.modules() if type(module).__name__ in names]


def _made(model: Model, architecture: Architecture, tokenizer: Any, dtype: torch.dtype) -> Any:
    if model.name == NEW:
        return AutoModelForCausalLM.from_config(new_config(architecture, tokenizer), dtype=dtype)
    if model.weights == "random":
        config = AutoConfig.from_pretrained(model.name, revision=model.revision)
        return AutoModelForCausalLM.from_config(config, dtype=dtype)
    disable_progress_bar()  # one for each worker, of the weights
    return AutoModelForCausalLM.from_pretrained(model.name, revision=model.revision, dtype=dtype)


def new_config(architecture: Architecture, tokenizer: Any) -> Any:
    """A Qwen2 of that size for the tokens of `tokenizer`; it learns of padding what it learns of any other token."""
    return Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=architecture.hidden,
        intermediate_size=architecture.intermediate,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.key_value_heads,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )


def _with_adapters(network: Any, lora: Lora) -> Any:
    from peft import LoraConfig, get_peft_model

    targets = lora.targets[0] if lora.targets == ("all-linear",) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, task_type="CAUSAL_LM"
    )
    network.enable_input_require_grads()  # so that activation checkpointing has something to differentiate
    try:
        with warnings.catch_warnings():  # of transformers, about names that peft still uses
            warnings.simplefilter("ignore", FutureWarning)
            return get_peft_model(network, config)
    except ValueError as error:
        raise RecipeError([f"lora.targets={list(lora.targets)}: {error}"]) from error


def attends_by_document(model: Model, network: Any) -> bool:
    """Whether documents of a pack share a row; else each is a row of its own, padded to the longest.

    Raises:
        RecipeError: the first was asked for, and the network's attention cannot be told of documents.
    """
    if model.attention == "padded":
        return False
    mixes = _mixes_documents(network)
    if model.attention == "documents" and mixes:
        raise RecipeError([f"model.attention=documents: {type(network).__name__} {mixes}"], hint=attention.PADDED)
    return mixes is None


def _mixes_documents(network: Any) -> str | None:
    """What a network has that would let a document of a row see the ones before; None where there is nothing."""
    if not getattr(network, "_supports_attention_backend", False):
        return "has an attention of its own"
    kinds = set(getattr(network.config.get_text_config(), "layer_types", None) or ()) - ATTENTION_LAYERS
    if kinds:
        return f"has layers of {', '.join(sorted(kinds))}"
    return "has layers with a state" if getattr(network, "_is_stateful", False) else None


def computes_in(model: Model, device: torch.device) -> torch.dtype:
    """The precision of the forward and the backward pass."""
    if model.precision == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.bfloat16 if model.precision == "bfloat16" else torch.float32


def save_network(network: Any, tokenizer: Any, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write a folder that transformers loads, weights in `dtype`, adapters merged into them.

    The network is not one to train afterwards.
    """
    if hasattr(network, "merge_and_unload"):
        network = network.merge_and_unload()
    for parameter in network.parameters():
        parameter.data = parameter.data.to(dtype)
    network.config.use_cache = True
    disable_progress_bar()
    network.save_pretrained(folder)
    _save_stop_tokens(stop_tokens(network, tokenizer), folder / "generation_config.json")
    tokenizer.save_pretrained(folder)


def stop_tokens(network: Any, tokenizer: Any) -> list[int]:
    """What ends an answer: as the model has it, the tokenizer's end, and the end of a turn, as it was learned."""
    known = network.generation_config.eos_token_id
    tokens = [*(known if isinstance(known, list) else [known]), tokenizer.eos_token_id, _end_of_turn(tokenizer)]
    return list(dict.fromkeys(token for token in tokens if token is not None))


def _end_of_turn(tokenizer: Any) -> int | None:
    """The special token that the chat template puts behind what the assistant says."""
    from jinja2 import TemplateError

    if not tokenizer.chat_template:
        return None
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": SAID}]
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False)
    except TemplateError:  # it wants other turns
        return None
    _, found, behind = text.rpartition(SAID)
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    ids = tokenizer(behind, add_special_tokens=False)["input_ids"] if found else []
    return next((token for token in ids if token in special), None)


def _save_stop_tokens(tokens: Sequence[int], file: Path) -> None:
    """In the file: transformers refuses to save a changed configuration that it has loaded with contradictions."""
    saved = json.loads(file.read_text(encoding="utf-8"))
    if tokens:
        saved["eos_token_id"] = tokens[0] if len(tokens) == 1 else list(tokens)
    file.write_text(json.dumps(saved, indent=2) + "\n", encoding="utf-8")


def _not_found(model: Model, error: Exception) -> RecipeError:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return RecipeError(
        [f"model.name={model.name}: {lines[0]}"],
        hint="It takes a name on the Hugging Face Hub, a folder that transformers has saved, or new",
    )
