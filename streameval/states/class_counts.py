"""Counts of one class against the rest, and of every class, as tuples."""

from __future__ import annotations

from typing import NamedTuple

from streameval.events import Label, Weight

__all__ = ["BinaryCounts", "ClassCounts"]


class BinaryCounts(NamedTuple):
    """One label against the rest."""

    tp: Weight
    """Weight of the label's events predicted as the label."""
    fp: Weight
    """Weight of other events predicted as the label."""
    fn: Weight
    """Weight of the label's events predicted otherwise."""
    tn: Weight
    """All other weight."""


class ClassCounts(NamedTuple):
    """Weights per class, each list aligned with ``labels``."""

    labels: list[Label]
    correct: list[Weight]
    """Weight predicted rightly: the matrix's diagonal."""
    true: list[Weight]
    """Weight of the class (its support): the row sums."""
    predicted: list[Weight]
    """Weight predicted as the class: the column sums."""
