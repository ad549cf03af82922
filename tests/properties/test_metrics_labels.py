"""Label metrics against their definitions in fractions, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import metrics
from streameval.errors import MetricError
from streameval.metrics import class_metrics
from streameval.metrics.averages import Rule, averaged
from streameval.metrics.undefined import reason_of
from streameval.states.confusion import ConfusionCounts
from streameval.states.label_persistence import LabelPersistence
from tests.support import label_oracle as oracle

LABELS = st.sampled_from([0, 1, 2, 5])
FRACTIONS = st.floats(0.001, 10).filter(lambda w: w != int(w))
EVENTS = st.one_of(
    st.lists(st.tuples(LABELS, LABELS, weights), max_size=12)
    for weights in (st.integers(1, 3), FRACTIONS)
)
UNDEFINED = st.sampled_from([None, 0.0, 1.0, 0.25])
DECLARED = (0, 1, 2, 5)
ROUNDED_TWICE = ("matthews_corrcoef", "geometric_mean", "adjusted_balanced_accuracy")


def counted(events, declared=None) -> ConfusionCounts:
    counts = ConfusionCounts(declared)
    for event in events:
        counts.update(*event)
    return counts


def with_declared(events):
    """The events, and declared labels as such of no weight: to the oracle these are classes too."""
    return [*events, *((label, label, 0) for label in DECLARED)]


def assert_is(value, expected, counts, tolerance=0.0):
    """Equal to the last bit, or within a tolerance; None stands for undefined."""
    if expected is None:
        assert math.isnan(value)
        assert reason_of(value)
    else:
        within = tolerance if counts.exact else 1e-9
        assert abs(value - float(expected)) <= within * max(1, abs(expected))


@pytest.mark.parametrize("name", oracle.CLASS_METRICS)
@settings(max_examples=40)
@given(events=EVENTS, label=LABELS, declared=st.booleans(), undefined=UNDEFINED)
def test_one_class_is_rounded_once_and_averages(name, events, label, declared, undefined):
    counts = counted(events, DECLARED if declared else None)
    events = with_declared(events) if declared else events
    expected = oracle.class_value(name, events, label)
    function = getattr(metrics, name)
    # The root is a second rounding.
    tolerance = 2e-16 if name == "fowlkes_mallows" else 0.0
    assert_is(function(counts, positive=label), expected, counts, tolerance)
    each = function(counts, average=None)
    assert list(each) == oracle.classes(events)
    if label in each:
        assert_is(each[label], expected, counts, tolerance)
    for how in ("macro", "micro", "weighted"):
        expected = oracle.average(name, events, how, undefined)
        value = getattr(metrics, name)(counts, average=how, undefined=undefined)
        assert_is(value, expected, counts, 2e-16)
        row = metrics.METRICS.get(f"{name}_{how}")
        if row is not None:
            same = row.function(counts, undefined=undefined)
            assert same == value or (math.isnan(same) and math.isnan(value))


RULES = [value for value in vars(class_metrics).values() if isinstance(value, Rule)]
FAST = [(rule, how) for rule in RULES for how in rule.fast]
WEIGHTED = st.tuples(LABELS, LABELS, st.sampled_from([1, 2, 0.1, 1e-18]))


@pytest.mark.parametrize(("rule", "how"), FAST, ids=[f"{rule.name}-{how}" for rule, how in FAST])
@settings(max_examples=40)
@given(
    events=st.lists(WEIGHTED, max_size=8), declared=st.booleans(), undefined=UNDEFINED, whole=...
)
def test_an_average_with_a_function_of_its_own_has_the_same_value(
    rule, how, events, declared, undefined, whole: bool
):
    counts = ConfusionCounts([0, 1, 2, 5] if declared else None)
    for y_true, y_pred, weight in events:
        counts.update(y_true, y_pred, 1 if whole else weight)
    value = averaged(rule, counts, how, None, undefined)
    own = rule.fast[how](counts, undefined=undefined)
    if counts.exact:
        assert (repr(own), reason_of(own)) == (repr(value), reason_of(value))
    else:
        assert own == pytest.approx(value, rel=1e-12, nan_ok=True)


@settings(max_examples=50)
@given(
    events=EVENTS, declared=st.booleans(), beta=st.sampled_from([0.1, 0.5, 2, 3.7]), label=LABELS
)
def test_all_classes(events, declared, beta, label):
    counts, order = counted(events, DECLARED if declared else None), LabelPersistence()
    for y_true, *_ in events:
        order.update(y_true)
    assert_is(metrics.kappa_temporal(counts, order), oracle.kappa_temporal(events), counts)
    events = with_declared(events) if declared and events else events
    for name, definition in oracle.WHOLE_METRICS.items():
        tolerance = 5e-16 if name in ROUNDED_TWICE else 0.0
        assert_is(metrics.compute(name, counts), definition(events), counts, tolerance)
    tp, fp, fn, _ = oracle.four_counts(events, label)
    expected = oracle.f_measure(beta, tp, fp, fn)
    assert_is(metrics.fbeta(counts, beta=beta, positive=label), expected, counts)


@pytest.mark.parametrize("doublings", [0, 30, 400], ids=["s²", "s", "its powers beyond any float"])
def test_large_counts_do_not_overflow(doublings):
    matrix = [[10**15, 10**9], [7, 10**14]]
    counts = ConfusionCounts.from_matrix(matrix, [0, 1])
    for _ in range(doublings):
        counts.merge(counts.copy())
    (a, b), (c, d) = matrix
    exact = Fraction((a * d - b * c) ** 2, (a + b) * (c + d) * (a + c) * (b + d))
    assert metrics.matthews_corrcoef(counts) == pytest.approx(math.sqrt(exact), rel=1e-15)
    total = a + b + c + d
    chance = Fraction((a + b) * (a + c) + (c + d) * (b + d), total**2)
    kappa = (Fraction(a + d, total) - chance) / (1 - chance)
    assert metrics.cohen_kappa(counts) == float(kappa)
    assert metrics.f1_macro(counts) == pytest.approx(
        float((Fraction(2 * a, 2 * a + b + c) + Fraction(2 * d, 2 * d + b + c)) / 2), rel=1e-15
    )


def test_a_faded_class_is_still_a_class():
    # In floats 1 − p of the large class is 0, and so would every denominator be.
    tiny = 2.0**-80
    counts = counted([("a", "a", 0.5), ("b", "b", tiny), ("b", "a", tiny), ("a", "b", tiny)])
    assert metrics.matthews_corrcoef(counts) == pytest.approx(0.5)
    assert metrics.cohen_kappa(counts) == pytest.approx(0.5)
    assert metrics.specificity(counts, positive="a") == 0.5
    assert metrics.informedness(counts, positive="b") == pytest.approx(0.5)


def test_an_undefined_number_may_be_infinite_and_nan_means_none():
    counts = ConfusionCounts.from_matrix([[1, 0], [1, 0]], ["a", "b"])
    for metric, average, undefined, expected in (
        (metrics.precision, "macro", math.inf, math.inf),
        (metrics.precision, "weighted", -math.inf, -math.inf),
        (metrics.npv, "macro", math.inf, math.inf),
        # It stands for classes without a value; here every class has one.
        (metrics.recall, "macro", math.inf, 0.5),
        (metrics.precision, "macro", math.nan, 0.5),
    ):
        assert metric(counts, average=average, undefined=undefined) == expected
    value = metrics.precision(counts, positive="b", undefined=math.nan)
    assert reason_of(value) == "no event was predicted 'b'"


def test_closed_classes_count_though_nothing_spoke_of_them():
    counts = ConfusionCounts(labels=["a", "b", "c"])
    counts.update("a", "a")
    for undefined, value, labels in ((None, 1.0, ["b", "c"]), (0.0, 1 / 3, [])):
        assert metrics.f1(counts, average="macro", undefined=undefined) == value
        assert metrics.left_out("f1_macro", counts, undefined=undefined) == labels
    assert reason_of(metrics.f1(counts, positive="c")) == (
        "no event is truly 'c' or was predicted so"
    )


def test_support():
    counts = counted([("a", "b", 2), ("b", "b", 3)])
    assert metrics.support(counts, positive="a") == 2.0
    assert metrics.support(counts) == 5.0
    assert metrics.support(counts, average=None) == {"a": 2, "b": 3}


def test_options_are_explained():
    counts = counted([("a", "b", 2)])
    for metric, options, message in (
        (metrics.f1, {}, "f1 is about one class: pass positive="),
        (metrics.recall, {"average": "samples"}, "average: expected 'binary', 'macro'.* got 'sa"),
        (metrics.support, {"average": "macro"}, "average of support: expected 'binary' or None"),
        (metrics.cohen_kappa, {"weights": "cubic"}, "weights: expected None, 'linear' or 'quadr"),
        (metrics.fbeta, {"beta": -1, "positive": 1}, "beta: expected a number of at least 0, got"),
        (
            metrics.fbeta,
            {"beta": True, "positive": 1},
            "beta: expected a number of at least 0, got",
        ),
    ):
        with pytest.raises(MetricError, match=message):
            metric(counts, **options)
