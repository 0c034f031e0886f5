"""Hyperparameter search over fine-tuning: `python -m recipes.tune`."""
