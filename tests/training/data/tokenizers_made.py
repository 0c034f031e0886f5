"""Tokenizers that are made here, after the kinds that models have: none can be downloaded."""
# ruff: noqa: S106 - tokens of texts, not passwords

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEXTS = [
    "What does json.loads do? It reads JSON.",
    "Hello, you there!\n\nGood  morning.",
    "Größe 東京",
    "system user",
] * 3

# As Qwen2: every turn between <|im_start|> and <|im_end|>, and a line end after it.
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# As Qwen3: what the assistant thought is left out once another turn follows.
THINKING = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if loop.last and message['role'] == 'assistant' %}{{ '<think>\\n\\n</think>\\n\\n' + message['content'] }}"
    "{% else %}{{ message['content'].split('</think>')[-1].lstrip('\\n') }}{% endif %}"
    "{{ '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# As SmolLM3: the template says what the assistant has said.
MARKED = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
    "{% else %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# As Llama 3: the text begins with <|bos|>, two line ends after each header, and contents are stripped.
HEADERS = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n\\n' + message['content'] | trim + '<|im_end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n\\n' }}{% endif %}"
)
# As Llama 2: no special tokens but <|bos|> and <|eos|>, roles that have to alternate.
BRACKETS = (
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}"
    "{% endfor %}"
)
SPECIAL = ["<|eos|>", "<|bos|>", "<|im_start|>", "<|im_end|>"]


@cache
def byte_level(template: str | None, *, trimmed: bool = True) -> PreTrainedTokenizerBase:
    """As those of GPT-2, Qwen and Llama 3; it begins each text with <|bos|>."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(TEXTS, trainer)
    begins = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", 1)])
    bpe.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=trimmed), begins])
    return wrapped(bpe, template)


@cache
def metaspace(template: str | None) -> PreTrainedTokenizerBase:
    """As those of Llama 2 and Mistral, where a word begins with the space before it."""
    bpe = Tokenizer(models.BPE(unk_token="<|unk|>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    bpe.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|unk|>", *SPECIAL], initial_alphabet=list("[]/INST ▁"), show_progress=False
    )
    bpe.train_from_iterator(TEXTS, trainer)
    return wrapped(bpe, template)


def wrapped(bpe: Tokenizer, template: str | None) -> PreTrainedTokenizerBase:
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<|bos|>", eos_token="<|eos|>", chat_template=template
    )
