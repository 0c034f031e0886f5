"""An answer of the model, to show what it has learned."""

from __future__ import annotations

from typing import Any

import torch

from recipes.engine.attention import NAME
from recipes.engine.model import stop_tokens

NEW_TOKENS = 48


def answer(network: Any, tokenizer: Any, prompt: str, *, conversation: bool) -> str:
    """The likeliest continuation of a conversation that begins with `prompt`, or of `prompt` itself."""
    if conversation:
        messages = [{"role": "user", "content": prompt}]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=False, return_token_type_ids=False)
    attention = network.config._attn_implementation  # noqa: SLF001 - what set_attn_implementation sets
    network.eval()
    if attention == NAME:
        network.set_attn_implementation("sdpa")
    with torch.inference_mode():
        ids = network.generate(
            **inputs.to(network.device), max_new_tokens=NEW_TOKENS, do_sample=False, use_cache=True,
            pad_token_id=tokenizer.pad_token_id, eos_token_id=stop_tokens(network, tokenizer) or None,
        )  # fmt: skip
    if attention == NAME:
        network.set_attn_implementation(attention)
    network.train()
    text: str = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return text.strip()
