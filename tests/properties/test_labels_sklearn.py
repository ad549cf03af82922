"""Label metrics against scikit-learn, undefined values and declared labels included."""

from __future__ import annotations

import math
import warnings

import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.evaluator.view import View


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


def in_frozen_panes(rows, options):
    ev = fed(rows, options, se.Panes("2h", pane="1h", retain="5h"), event_time=0.0)
    first = options["labels"][0]
    ev.update(first, first, event_time=3600.0 * 2)
    return View(_PaneOf(ev), ev._context)


class _PaneOf:
    """The oldest pane of an evaluator as a window of its own."""

    def __init__(self, ev):
        self.state_set = ev._windows.total.state_set_from(0)

    def current(self):
        return self.state_set


def among_the_last(rows, options):
    first = options["labels"][0]
    return fed([(first, first, 1), *rows], options, se.Last(len(rows)))


def faded(rows, options):
    return fed(rows, options, se.Fading("1h"), event_time=0.0)


ROUTES = [of_a_slice, in_panes, in_frozen_panes, among_the_last, faded]


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
