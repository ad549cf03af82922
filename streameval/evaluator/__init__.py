"""The evaluator: events counted in windows and slices, and what is read from them."""

from streameval.evaluator.evaluator import Evaluator, from_bytes, load
from streameval.evaluator.merging import merge

__all__ = ["Evaluator", "from_bytes", "load", "merge"]
