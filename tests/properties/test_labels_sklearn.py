"""Label metrics against scikit-learn, undefined values and declared labels included."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval import metrics
from streameval.evaluator.view import View
from streameval.metrics.undefined import reason_of
from streameval.states.confusion import ConfusionCounts

BITS = st.integers(0, 1)


def events_of(labels, least=1):
    weights = st.one_of(st.integers(1, 4), st.integers(1, 40).map(lambda n: n / 8))
    event = st.tuples(labels, labels, weights)
    return st.lists(event, min_size=least, max_size=15)


def columns(events):
    y_true, y_pred, weight = map(list, zip(*events, strict=True))
    return y_true, y_pred, weight


def counted(events) -> ConfusionCounts:
    counts = ConfusionCounts()
    counts.update_many(*columns(events))
    return counts


def assert_near(ours, theirs):
    if math.isnan(theirs):
        assert math.isnan(ours)
        assert reason_of(ours)
    else:
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@pytest.fixture(autouse=True)
def _quiet_peer():
    # scikit-learn warns where it has no value, whatever value was requested instead.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@settings(max_examples=80)
@given(events=events_of(BITS))
def test_likelihood_ratios(events):
    y_true, y_pred, weight = columns(events)
    if set(y_true) != {0, 1}:
        return  # scikit-learn takes fewer labels than it names
    positive, negative = sk.class_likelihood_ratios(
        y_true, y_pred, labels=[0, 1], sample_weight=weight, replace_undefined_by=np.nan
    )
    counts = counted(events)
    assert_near(metrics.positive_likelihood_ratio(counts, positive=1), positive)
    assert_near(metrics.negative_likelihood_ratio(counts, positive=1), negative)


# Declared labels


def fed_one_by_one(rows, options):
    ev = se.Evaluator(**options)
    for y_true, y_pred, weight in rows:
        ev.update(y_true, y_pred, weight=weight, **fields_of(options))
    return ev


def fed_at_once(rows, options):
    ev = se.Evaluator(**options)
    y_true, y_pred, weight = columns(rows)
    fields = {name: [value] * len(rows) for name, value in fields_of(options).items()}
    if "slices" in options:
        fields["slices"] = {"country": ["PT"] * len(rows)}
    ev.update_many(y_true, y_pred, weight=weight, **fields)
    return ev


def fields_of(options):
    return {"event_time": 0.0} if "time_unit" in options else {}


def fed_by_delta(rows, options):
    half = len(rows) // 2
    ev = fed_one_by_one(rows[:half], options)
    delta = ev.delta()
    for y_true, y_pred, weight in rows[half:]:
        delta.update(y_true, y_pred, weight=weight)
    ev.merge(delta)
    return ev


def merged(rows, options):
    return se.merge(fed_one_by_one(part, options) for part in (rows[::2], rows[1::2]))


def of_a_slice(rows, options):
    ev = fed_at_once(rows, {**options, "slices": ("country",)})
    for label in options["labels"]:
        ev.update(label, label, slices={"country": "DE"})
    return ev.slices()[(("country", "PT"),)]


def in_panes(rows, options):
    return fed_one_by_one(rows, {**options, "window": se.Panes("1h"), "time_unit": "s"})


def in_frozen_panes(rows, options):
    window = se.Panes("2h", pane="1h", retain="5h")
    ev = fed_at_once(rows, {**options, "window": window, "time_unit": "s"})
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
    return fed_one_by_one([(first, first, 1), *rows], {**options, "window": se.Last(len(rows))})


def faded(rows, options):
    window = se.Fading("1h")
    return fed_one_by_one(rows, {**options, "window": window, "time_unit": "s"})


def loaded(rows, options):
    return se.from_bytes(fed_one_by_one(rows, options).to_bytes())


def reverted(rows, options):
    ev = fed_one_by_one(rows, options)
    for label in options["labels"]:
        ev.update(label, label)
    for label in options["labels"]:
        ev.revert(label, label)
    return ev


ROUTES = [
    fed_one_by_one, fed_at_once, fed_by_delta, merged, of_a_slice, in_panes, in_frozen_panes,
    among_the_last, faded, loaded, reverted,
]  # fmt: skip


def of_declared(y_true, y_pred, weight, labels, zero_division):
    """What scikit-learn gives with ``labels=``, by our names."""
    fields = {"labels": labels, "sample_weight": weight}
    values = {
        f"cohen_kappa_{weights}": sk.cohen_kappa_score(y_true, y_pred, weights=weights, **fields)
        for weights in ("linear", "quadratic")
    }
    matrix = sk.multilabel_confusion_matrix(y_true, y_pred, **fields)
    tn, fp, fn, tp = matrix.reshape(-1, 4).T
    ratios = {
        "specificity": (tn, tn + fp),
        "fpr": (fp, tn + fp),
        "fnr": (fn, fn + tp),
        "npv": (tn, tn + fn),
    }
    for name, (top, bottom) in ratios.items():
        each = np.divide(top, bottom, out=np.full(len(labels), zero_division), where=bottom > 0)
        values[name] = dict(zip(labels, each, strict=True))
        values[f"{name}_macro"] = np.nanmean(each) if not np.isnan(each).all() else math.nan
        values[f"{name}_micro"] = top.sum() / bottom.sum() if bottom.sum() else zero_division
    for average in (None, "macro", "micro", "weighted"):
        end = f"_{average}" if average else ""
        p, r, f, support = sk.precision_recall_fscore_support(
            y_true, y_pred, average=average, zero_division=zero_division, **fields
        )
        jaccard = sk.jaccard_score(y_true, y_pred, average=average, zero_division=0.0, **fields)
        for name, value in (("precision", p), ("recall", r), ("f1", f)):
            values[name + end] = value if average else dict(zip(labels, value, strict=True))
        if zero_division == 0.0:
            values["jaccard" + end] = (
                jaccard if average else dict(zip(labels, jaccard, strict=True))
            )
        if average is None:
            values["support"] = dict(zip(labels, support, strict=True))
    recall = np.array([tp[n] / (tp[n] + fn[n]) if tp[n] + fn[n] else math.nan
                       for n in range(len(labels))])  # fmt: skip
    product = np.prod(recall) ** (1 / len(labels))
    values["geometric_mean"] = zero_division if math.isnan(product) else product
    return values


def declared(data, undefined):
    """Declared labels of which some may be absent, and events."""
    labels = data.draw(st.permutations(["low", "fair", "good", "high", "top"]), label="labels")
    seen = data.draw(st.sets(st.sampled_from(labels), min_size=1), label="seen")
    event = st.tuples(*[st.sampled_from(sorted(seen))] * 2, st.integers(1, 3))
    rows = data.draw(st.lists(event, min_size=1, max_size=12), label="rows")
    return rows, {"task": "multiclass", "labels": labels, "undefined": undefined}


@pytest.mark.parametrize("zero_division", [0.0, 1.0, math.nan])
@settings(max_examples=25)
@given(data=st.data())
def test_declared_labels_are_classes_as_in_scikit_learn(zero_division, data):
    undefined = None if math.isnan(zero_division) else zero_division
    rows, options = declared(data, undefined)
    labels = options["labels"]
    ev = fed_at_once(rows, options)
    y_true, y_pred, weight = columns(rows)
    assert ev.labels == ev.confusion.labels == labels
    assert ev.confusion.to_array() == pytest.approx(
        sk.confusion_matrix(y_true, y_pred, labels=labels, sample_weight=weight)
    )
    for name, peer in of_declared(y_true, y_pred, weight, labels, zero_division).items():
        if isinstance(peer, dict):
            ours = ev.value(name, average=None)
            assert list(ours) == labels
            for label, value in peer.items():
                assert_near(float(ours[label]), value)
        elif name.startswith("cohen_kappa") and math.isnan(peer):
            assert undefined is not None or math.isnan(ev[name])
        else:
            assert_near(ev[name], float(peer))
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
    plain, ev = fed_one_by_one(rows, options), route(rows, options)
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
