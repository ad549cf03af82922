"""Label metrics against scikit-learn: of declared labels, of some labels, undefined values."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval import metrics
from streameval.metrics import find
from streameval.states.confusion import ConfusionCounts

LABELS = ["ant", "bee", "cow"]
CLASS = st.sampled_from(LABELS)
PAIRS = st.lists(st.tuples(CLASS, CLASS, st.integers(1, 4)), min_size=1, max_size=25)
SUBSETS = st.permutations(LABELS).flatmap(lambda all_: st.integers(1, 3).map(lambda n: all_[:n]))


@pytest.fixture(autouse=True)
def _quiet_peer():
    # scikit-learn warns where it has no value, whatever value was requested instead.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def fed(rows, options, window=None, **fields):
    """An evaluator of the rows, each of which has the same other fields."""
    ev = se.Evaluator(**options, window=window, time_unit="s")
    for y_true, y_pred, weight in rows:
        ev.update(y_true, y_pred, weight=weight, **fields)
    return ev


def of_a_slice(rows, options):
    ev = fed(rows, {**options, "slices": ("country",)}, slices={"country": "PT"})
    for label in options["labels"]:
        ev.update(label, label, slices={"country": "DE"})
    return ev.slices()[(("country", "PT"),)]


def in_panes(rows, options):
    return fed(rows, options, se.Panes("1h"), event_time=0.0)


def among_the_last(rows, options):
    first = options["labels"][0]
    return fed([(first, first, 1), *rows], options, se.Last(len(rows)))


def faded(rows, options):
    return fed(rows, options, se.Fading("1h"), event_time=0.0)


ROUTES = [of_a_slice, in_panes, among_the_last, faded]


def declared(data, undefined):
    """Declared labels of which some may be absent, and events."""
    labels = data.draw(st.permutations(["low", "fair", "good", "high", "top"]), label="labels")
    seen = data.draw(st.sets(st.sampled_from(labels), min_size=1), label="seen")
    event = st.tuples(*[st.sampled_from(sorted(seen))] * 2, st.integers(1, 3))
    rows = data.draw(st.lists(event, min_size=1, max_size=12), label="rows")
    return rows, {"task": "multiclass", "labels": labels, "undefined": undefined}


@settings(max_examples=60)
@given(zero_division=st.sampled_from([0.0, 1.0, math.nan]), data=st.data())
def test_declared_labels_are_classes_as_in_scikit_learn(zero_division, data):
    undefined = None if math.isnan(zero_division) else zero_division
    rows, options = declared(data, undefined)
    labels = options["labels"]
    y_true, y_pred, weight = map(list, zip(*rows, strict=True))
    ev = se.Evaluator(**options).update_many(y_true, y_pred, weight=weight)
    assert ev.labels == ev.confusion.labels == labels
    assert ev.confusion.to_array() == pytest.approx(
        sk.confusion_matrix(y_true, y_pred, labels=labels, sample_weight=weight)
    )
    for weights in ("linear", "quadratic"):
        # In the order in which they were declared.
        peer = sk.cohen_kappa_score(
            y_true, y_pred, labels=labels, weights=weights, sample_weight=weight
        )
        if not math.isnan(peer):
            assert ev[f"cohen_kappa_{weights}"] == pytest.approx(peer, abs=1e-12)
    report = ev.classification_report().to_dict()
    theirs = sk.classification_report(
        y_true, y_pred, labels=labels, sample_weight=weight, zero_division=zero_division,
        output_dict=True,
    )  # fmt: skip
    theirs.setdefault("accuracy", ev["accuracy"])
    theirs.pop("micro avg", None)
    assert list(report) == list(theirs)
    for name, row in theirs.items():
        if isinstance(row, dict):
            mine = {key: math.nan if x is None else x for key, x in report[name].items()}
            assert mine == pytest.approx(row, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_declared_labels_are_classes_on_every_route(route, data):
    rows, options = declared(data, data.draw(st.sampled_from([None, 0.0, 1.0])))
    plain, ev = fed(rows, options), route(rows, options)
    assert ev.confusion.labels == options["labels"]
    if route is faded:  # its weights are floats
        assert ev.confusion.to_array() == pytest.approx(plain.confusion.to_array(), rel=1e-12)
        for ours, theirs in zip(ev.report(), plain.report(), strict=True):
            assert ours.value == pytest.approx(theirs.value, rel=1e-12, nan_ok=True)
            assert ours.reason == theirs.reason
    else:
        assert ev.confusion == plain.confusion
        assert repr(ev.report().rows) == repr(plain.report().rows)
        assert str(ev.classification_report()) == str(plain.classification_report())


# Of some labels --------------------------------------------------------------


def confusion_of(events: list[Any]) -> ConfusionCounts:
    counts = ConfusionCounts()
    for event in events:
        counts.update(*event)
    return counts


@pytest.mark.parametrize("name", ["precision", "recall", "jaccard", "fbeta"])
@settings(max_examples=10)
@given(PAIRS, SUBSETS, st.sampled_from([0, 0.5, 1, 3, math.inf]), st.data())
def test_averages_over_some_labels(name, events, labels, beta, data):
    y_true, y_pred, weight = zip(*events, strict=True)
    more = {"beta": beta} if name == "fbeta" else {}
    average = data.draw(st.sampled_from(["macro", "micro", "weighted", None]))
    options = {"labels": labels, "average": average, "sample_weight": weight, **more}
    theirs = getattr(sk, f"{name}_score")(y_true, y_pred, zero_division=0.0, **options)
    row = find(f"{name}_{average}") if average else find(name, None, None)
    ours = row.bind(labels=labels, undefined=0.0, **more)(confusion_of(events))
    if average is None:
        assert list(ours) == labels
        ours, theirs = list(ours.values()), theirs.tolist()
    assert ours == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=30)
@given(
    PAIRS,
    SUBSETS,
    st.sampled_from([None, "linear", "quadratic"]),
    st.sampled_from([None, "true", "pred", "all"]),
)
def test_kappa_and_the_confusion_of_some_labels_in_an_order(events, labels, weights, normalize):
    counts = confusion_of(events)
    y_true, y_pred, weight = zip(*events, strict=True)
    options = {"labels": labels, "sample_weight": weight}
    kappa = metrics.cohen_kappa(counts, weights=weights, labels=labels)
    # scikit-learn has another value than nan where chance alone agrees always.
    if any({t, p} <= {*labels} for t, p, _ in events) and not math.isnan(kappa):
        expected = sk.cohen_kappa_score(y_true, y_pred, weights=weights, **options)
        assert kappa == pytest.approx(expected, abs=1e-12)
    if weights is not None:
        named = find(f"cohen_kappa_{weights}").bind(labels=labels)(counts)
        assert named == pytest.approx(kappa, nan_ok=True)
    if not set(labels) & set(y_true):
        return  # refused by scikit-learn
    found = metrics.confusion_matrix(counts, labels=labels, normalize=normalize)
    assert found.labels == labels
    # nan here is 0 there.
    expected = sk.confusion_matrix(y_true, y_pred, normalize=normalize, **options)
    assert np.nan_to_num(found.matrix) == pytest.approx(expected, abs=1e-12)


def test_a_share_of_nothing_is_nan_and_null():
    counts = ConfusionCounts.from_matrix([[1, 0], [2, 0]], ["cat", "dog"])
    matrix = metrics.confusion_matrix(counts, normalize="pred").to_dict()
    assert matrix == {"labels": ["cat", "dog"], "matrix": [[1 / 3, None], [2 / 3, None]]}


@settings(max_examples=30)
@given(PAIRS, SUBSETS)
def test_the_report_of_some_labels(events, labels):
    y_true, y_pred, weight = zip(*events, strict=True)
    ev = se.Evaluator("multiclass", undefined=0.0).update_many(y_true, y_pred, weight=weight)
    options = {"labels": labels, "target_names": [label.upper() for label in labels]}
    ours = ev.classification_report(**options, digits=3).to_dict()
    expected = sk.classification_report(
        y_true, y_pred, sample_weight=weight, output_dict=True, zero_division=0.0, **options
    )
    assert ours.keys() == expected.keys()
    for name, row in expected.items():
        assert ours[name] == pytest.approx(row, abs=1e-12)


def test_the_digits_of_a_report():
    ev = se.Evaluator(positive="spam")
    ev.update_many(["spam", "ham", "ham"], ["spam", "spam", "ham"])
    text = str(ev.classification_report(digits=2))
    assert "0.67" in text
    assert "0.667" not in text
    # Binary evaluators count 0 and 1.
    report = ev.classification_report(labels=["spam"], intervals=0.95)
    assert list(report.rows) == ["spam"]
    assert list(report.averages) == ["micro avg", "macro avg", "weighted avg"]
    assert report.average_intervals is not None
    assert report.accuracy is None


@settings(max_examples=30)
@given(PAIRS, st.lists(st.integers(0, 5), min_size=9, max_size=9))
def test_expected_cost(events, numbers):
    costs = {t: dict(zip(LABELS, numbers[3 * n :], strict=False)) for n, t in enumerate(LABELS)}
    total = sum(weight for *_, weight in events)
    paid = sum(weight * costs[true][pred] for true, pred, weight in events)
    assert metrics.expected_cost(confusion_of(events), costs=costs) == paid / total


def test_costs_are_by_the_users_labels():
    ev = se.Evaluator(positive="spam")
    ev.update_many(["spam", "ham", "ham", "ham"], ["ham", "spam", "ham", "ham"])
    costs = {"spam": {"ham": 1}, "ham": {"spam": 5, "ham": 0.5}}
    assert ev.value("expected_cost", costs=costs) == 7 / 4
    missing = ev.value("expected_cost", costs={"spam": {"ham": 1}}, undefined=0)
    assert missing.reason == "costs= has no cost of 'ham' predicted 'spam'"
    for bad, message in (
        ({"eggs": {"ham": 1}}, "costs: expected 'ham' or 'spam', got 'eggs'"),
        ({"spam": {"ham": -1}}, "expected numbers of at least 0, got -1"),
        ([[0, 1], [1, 0]], "expected a mapping from the true class"),
    ):
        with pytest.raises(se.MetricError, match=message):
            ev.value("expected_cost", costs=bad)
