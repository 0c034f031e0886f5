"""Pre-training with Megatron Bridge: `python -m recipes.megatron RECIPE`, once on every rank."""
