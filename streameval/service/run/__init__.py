"""A run: its loop, its units and workers, and what surrounds them."""
