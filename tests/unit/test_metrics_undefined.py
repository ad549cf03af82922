"""Undefined values: nan with the right reason, in every metric and path."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from streameval import metrics
from streameval.metrics.undefined import Undefined, ratio, reason_of, undefined_value
from streameval.states.confusion import ConfusionCounts
from streameval.states.label_persistence import LabelPersistence


def counts_of(*pairs) -> ConfusionCounts:
    counts = ConfusionCounts()
    for y_true, y_pred in pairs:
        counts.update(y_true, y_pred)
    return counts


NO_CAT = counts_of(("dog", "dog"))
NEVER_CAT = counts_of(("dog", "dog"), ("cat", "dog"))
ALL_CAT = counts_of(("cat", "cat"), ("cat", "dog"))
ALWAYS_CAT = counts_of(("cat", "cat"), ("dog", "cat"))
ONLY_CAT = counts_of(("cat", "cat"))
SWAPPED = counts_of(("cat", "dog"), ("dog", "cat"))
CERTAIN = counts_of(("cat", "cat"), ("dog", "dog"))
FOREIGN = counts_of(("cat", "dog"))


@pytest.mark.parametrize(
    ("name", "counts", "reason"),
    [
        ("precision", NEVER_CAT, "no event was predicted 'cat'"),
        ("recall", NO_CAT, "no event is truly 'cat'"),
        ("f1", NO_CAT, "no event is truly 'cat' or was predicted so"),
        ("specificity", ALL_CAT, "every event is truly 'cat'"),
        ("npv", ALWAYS_CAT, "every event was predicted 'cat'"),
        ("fowlkes_mallows", NEVER_CAT, "no event was predicted 'cat'"),
        ("fowlkes_mallows", counts_of(("dog", "cat")), "no event is truly 'cat'"),
        ("informedness", ALL_CAT, "every event is truly 'cat'"),
        ("markedness", ALWAYS_CAT, "every event was predicted 'cat'"),
        ("positive_likelihood_ratio", ALL_CAT, "every event is truly 'cat'"),
        ("positive_likelihood_ratio", CERTAIN, "no event of another class was predicted 'cat'"),
        ("negative_likelihood_ratio", SWAPPED, "every event of another class was predicted 'cat'"),
        ("geometric_mean", FOREIGN, "no event is truly 'dog'"),
        ("matthews_corrcoef", ALWAYS_CAT, "every event was predicted 'cat'"),
        ("cohen_kappa", ONLY_CAT, "every event is truly 'cat' and was predicted so"),
        ("cohen_kappa_quadratic", ONLY_CAT, "every event is truly 'cat' and was predicted so"),
        ("kappa_m", ALL_CAT, "every event is truly 'cat'"),
        (
            "prevalence_weighted_precision",
            FOREIGN,
            "no class that was predicted is true of any event",
        ),
        ("specificity_micro", ONLY_CAT, "every event is truly 'cat'"),
        ("fowlkes_mallows_weighted", FOREIGN, "no event was predicted 'cat'"),
    ],
)
def test_reason(name, counts, reason):
    read = metrics.find(name).bind(positive="cat")
    assert reason_of(read(counts)) == reason
    # Weights that are not whole take another road to the same words.
    halved = ConfusionCounts()
    halved.add_cells((true, predicted, weight * 0.3) for true, predicted, weight in counts.cells())
    assert not halved.exact
    assert reason_of(read(halved)) == reason
    for number in (0.0, 1.0, 0.25):
        with_number = metrics.find(name).bind(positive="cat", undefined=number)
        assert with_number(counts) == number
        assert with_number(halved) == number


def test_kappa_temporal_needs_a_change():
    order, read = LabelPersistence(), metrics.kappa_temporal
    order.update("cat")
    assert reason_of(read(ONLY_CAT, order)) == "no event has one before it"
    order.update("cat")
    assert reason_of(read(ALL_CAT, order)) == "every event has the true label of the one before it"
    assert read(ALL_CAT, order, undefined=0.5) == 0.5


@pytest.mark.parametrize(
    ("name", "counts", "labels"),
    [
        ("precision_macro", NEVER_CAT, ["cat"]),
        ("precision_micro", NEVER_CAT, []),
        ("recall_weighted", FOREIGN, []),
        ("balanced_accuracy", FOREIGN, ["dog"]),
        ("fowlkes_mallows_macro", FOREIGN, ["cat", "dog"]),
        ("matthews_corrcoef", FOREIGN, []),
    ],
)
def test_left_out(name, counts, labels):
    assert metrics.left_out(metrics.METRICS[name], counts) == labels
    kept = labels if name == "balanced_accuracy" else []
    assert metrics.left_out(name, counts, undefined=1.0) == kept


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
)
def test_a_reason_survives_copies(clone):
    again = clone(Undefined("no event was predicted {}", "cat"))
    assert (type(again), again.labels) == (Undefined, ("cat",))
    assert again.reason == "no event was predicted 'cat'"
    assert again.renamed({"cat": "dog"}).reason == "no event was predicted 'dog'"


def test_it_is_a_nan_in_every_other_way():
    value = Undefined("why not {")
    assert (repr(value), json.dumps(value), value.reason) == ("nan", "NaN", "why not {")
    assert value != value
    assert reason_of(value + 1) == "the value is not a number"
    assert len(undefined_value("no event was predicted {}", None, "x" * 10_000).reason) < 100
    assert ratio(2**200, 2**201, "") == ratio(0, 0, "nothing", 0.5) == 0.5
