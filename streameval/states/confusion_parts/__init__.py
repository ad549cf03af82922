"""What a confusion is built of: its table of cells, its labels and their sums."""
