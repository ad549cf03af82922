"""The evaluator: events counted in windows and slices, and what is read from them."""

from streameval.evaluator.evaluator import Evaluator, from_bytes, load, merge

__all__ = ["Evaluator", "from_bytes", "load", "merge"]
