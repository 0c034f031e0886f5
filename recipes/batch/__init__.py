"""Batch inference: a model answers every row of a file, on every accelerator of a Ray cluster."""
