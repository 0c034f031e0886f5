"""What the training recipes share: data, model, steps, checkpoints and the cluster around them."""
