"""docs/scikit-learn.md has every public name of scikit-learn's metrics, and names that exist."""

from __future__ import annotations

import sklearn.metrics

import streameval as se
from benchmarks.peers.page import rows
from streameval import metrics
from streameval.metrics import CURVES, METRICS


def test_every_name_has_a_counterpart_or_a_reason() -> None:
    names = [name for row in rows() for name in row.names]
    assert len(names) == len(set(names))
    assert set(names) == set(sklearn.metrics.__all__)
    for row in rows():
        assert all(row.cells[:2]), row


def test_every_counterpart_exists() -> None:
    known = {*METRICS, *CURVES, *metrics.__all__, "classification_report"}
    assert hasattr(se.Evaluator, "classification_report")
    counterparts = {name for row in rows() for name in row.counterparts}
    assert len(counterparts) > 40
    assert counterparts <= known
