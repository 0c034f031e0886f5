"""Supervised fine-tuning of a causal language model: `python -m recipes.sft`."""
