"""The long-running evaluator: sources, label join, store, and the loop that drives them."""
