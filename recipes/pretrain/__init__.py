"""Training of a causal language model from scratch, on text: `python -m recipes.pretrain`."""
