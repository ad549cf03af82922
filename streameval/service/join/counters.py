"""The counters of a label join, once: how each is stored, published, exposed and reported."""

from __future__ import annotations

from typing import NamedTuple


class Counter(NamedTuple):
    """How one counter is shown; its name is that of a field of ``snapshot.Join``."""

    metric: str
    """The name for Prometheus, without ``streameval_`` and ``_total``."""
    help: str
    words: str
    """In the table of ``store report``."""


COUNTERS = {
    "predictions": Counter("join_predictions", "Predictions that were read", "predictions"),
    "labels": Counter("join_labels", "Labels that were read", "labels read"),
    "joined": Counter(
        "joined",
        "Predictions that were joined with their label and counted",
        "with their label",
    ),
    "expired": Counter(
        "join_expired", "Predictions that expired without a label", "never labelled"
    ),
    "orphans": Counter(
        "join_orphans",
        "Labels that expired without a prediction",
        "that found no prediction",
    ),
    "duplicate_predictions": Counter(
        "join_duplicate_predictions",
        "Predictions of an id that already had one; not counted",
        "predictions that came again",
    ),
    "duplicate_labels": Counter(
        "join_duplicate_labels",
        "Labels that were the same as before; not counted again",
        "that came again",
    ),
    "corrected": Counter(
        "join_corrected", "Labels that replaced another one", "that corrected another"
    ),
    "partial_labels": Counter(
        "join_partial_labels",
        "Labels that were added to a set before it was final",
        "of sets that were not final",
    ),
    "too_late": Counter(
        "join_too_late", "Labels outside the time that predictions wait", "that came too late"
    ),
    "waiting": Counter("join_waiting", "Predictions that wait for their label", "waiting for it"),
    "labels_waiting": Counter(
        "join_labels_waiting",
        "Labels that wait for their prediction",
        "waiting for their prediction",
    ),
}
"""In the order for Prometheus."""

GAUGES = ("waiting", "labels_waiting")
"""They may fall."""

STORED = (
    *("predictions", "labels", "joined"),
    *("duplicate_predictions", "duplicate_labels", "corrected", "partial_labels", "too_late"),
)
"""Counted separately for each partition.

``predictions`` are distinct ids, ``labels`` all label records: ``predictions = joined + waiting +
expired``, and ``labels`` is the sum of :data:`OUTCOMES_OF_LABELS`. A prediction that was forgotten
and is read again adds one to both sides.
"""

OF_SETS = "partial_labels"
"""Only of a run with ``fields.label.final``; shown where it is not 0."""

OUTCOMES_OF_LABELS = (
    *("joined", "duplicate_labels", "corrected", "partial_labels", "too_late"),
    *("labels_waiting", "orphans"),
)

REPORTED = (
    *("predictions", "joined", "waiting", "expired", "labels", "corrected", "duplicate_labels"),
    *("partial_labels", "too_late", "labels_waiting", "orphans", "duplicate_predictions"),
)
"""The rows of ``store report``: predictions and what became of them, then labels."""
