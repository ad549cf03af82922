"""A run that follows sources, counts, checkpoints and serves what it knows."""
