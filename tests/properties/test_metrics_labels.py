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
EVENTS = st.lists(st.tuples(LABELS, LABELS, st.integers(1, 3)), max_size=12)
SOME_EVENTS = EVENTS.filter(bool)
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


def assert_is(value, expected, tolerance=0.0):
    """Equal to the last bit, or within a tolerance; None stands for undefined."""
    if expected is None:
        assert math.isnan(value)
        assert reason_of(value)
    else:
        assert abs(value - float(expected)) <= tolerance


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
    assert_is(function(counts, positive=label), expected, tolerance)
    each = function(counts, average=None)
    assert list(each) == oracle.classes(events)
    if label in each:
        assert_is(each[label], expected, tolerance)
    for how in ("macro", "micro", "weighted"):
        expected = oracle.average(name, events, how, undefined)
        value = getattr(metrics, name)(counts, average=how, undefined=undefined)
        assert_is(value, expected, 2e-16 * max(1.0, abs(expected or 0)))
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
@given(events=EVENTS, declared=st.booleans())
def test_all_classes(events, declared):
    counts = counted(events, DECLARED if declared else None)
    events = with_declared(events) if declared and events else events
    for name, definition in oracle.WHOLE_METRICS.items():
        tolerance = 5e-16 if name in ROUNDED_TWICE else 0.0
        assert_is(metrics.compute(name, counts), definition(events), tolerance)


@settings(max_examples=50)
@given(events=st.lists(st.tuples(LABELS, LABELS, st.integers(1, 3)), max_size=8))
def test_kappa_temporal(events):
    order = LabelPersistence()
    for y_true, _, _ in events:
        order.update(y_true)
    assert_is(metrics.kappa_temporal(counted(events), order), oracle.kappa_temporal(events))


@settings(max_examples=50)
@given(events=SOME_EVENTS, beta=st.sampled_from([0.1, 0.5, 1, 2, 3.7]), label=LABELS)
def test_fbeta_takes_the_square_of_beta(events, beta, label):
    tp, fp, fn, _ = oracle.four_counts(events, label)
    expected = oracle.f_measure(beta, tp, fp, fn)
    assert_is(metrics.fbeta(counted(events), beta=beta, positive=label), expected)


@pytest.mark.parametrize("beta", [-1, math.nan, -math.inf, True, "2", None])
def test_fbeta_refuses_other_betas(beta):
    with pytest.raises(MetricError, match="beta: expected a number of at least 0, got"):
        metrics.fbeta(ConfusionCounts(), beta=beta, positive=1)


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


def test_a_binary_prediction_that_is_always_wrong_has_mcc_minus_one():
    counts = ConfusionCounts.from_matrix([[0, 3], [7, 0]], [0, 1])
    assert metrics.matthews_corrcoef(counts) == -1.0


FRACTIONAL = st.floats(0.001, 10).filter(lambda w: w != int(w))


@settings(max_examples=40)
@given(
    events=st.lists(st.tuples(LABELS, LABELS, FRACTIONAL), min_size=1, max_size=10), label=LABELS
)
def test_fractional_weights(events, label):
    counts = counted(events)
    for name in oracle.CLASS_METRICS:
        expected = oracle.class_value(name, events, label)
        value = getattr(metrics, name)(counts, positive=label)
        assert_is(value, expected, 1e-9 * max(1.0, abs(expected or 0)))
        for how in ("macro", "micro", "weighted"):
            expected = oracle.average(name, events, how)
            value = getattr(metrics, name)(counts, average=how)
            assert_is(value, expected, 1e-9 * max(1.0, abs(expected or 0)))
    for name, definition in oracle.WHOLE_METRICS.items():
        expected = definition(events)
        value = metrics.compute(name, counts)
        assert_is(value, expected, 1e-9 * max(1.0, abs(expected or 0)))


def test_a_faded_class_is_still_a_class():
    # In floats 1 − p of the large class is 0, and so would every denominator be.
    tiny = 2.0**-80
    counts = counted([("a", "a", 0.5), ("b", "b", tiny), ("b", "a", tiny), ("a", "b", tiny)])
    assert metrics.matthews_corrcoef(counts) == pytest.approx(0.5)
    assert metrics.cohen_kappa(counts) == pytest.approx(0.5)
    assert metrics.specificity(counts, positive="a") == 0.5
    assert metrics.informedness(counts, positive="b") == pytest.approx(0.5)


def test_an_undefined_number_may_be_infinite():
    counts = ConfusionCounts.from_matrix([[1, 0], [1, 0]], ["a", "b"])
    assert metrics.precision(counts, average="macro", undefined=math.inf) == math.inf
    assert metrics.precision(counts, average="weighted", undefined=-math.inf) == -math.inf
    # It stands for classes without a value; here every class has one.
    assert metrics.recall(counts, average="macro", undefined=math.inf) == 0.5
    assert metrics.npv(counts, average="macro", undefined=math.inf) == math.inf


def test_nan_as_the_undefined_number_means_none():
    counts = ConfusionCounts.from_matrix([[1, 0], [1, 0]], ["a", "b"])
    assert metrics.precision(counts, average="macro", undefined=math.nan) == 0.5
    value = metrics.precision(counts, positive="b", undefined=math.nan)
    assert reason_of(value) == "no event was predicted 'b'"


def test_closed_classes_count_though_nothing_spoke_of_them():
    counts = ConfusionCounts(labels=["a", "b", "c"])
    counts.update("a", "a")
    assert metrics.f1(counts, average="macro") == 1.0
    assert metrics.f1(counts, average="macro", undefined=0.0) == 1 / 3
    assert metrics.left_out("f1_macro", counts) == ["b", "c"]
    assert metrics.left_out("f1_macro", counts, undefined=0.0) == []
    assert reason_of(metrics.f1(counts, positive="c")) == (
        "no event is truly 'c' or was predicted so"
    )


def test_support():
    counts = counted([("a", "b", 2), ("b", "b", 3)])
    assert metrics.support(counts, positive="a") == 2.0
    assert metrics.support(counts) == 5.0
    assert metrics.support(counts, average=None) == {"a": 2, "b": 3}
    with pytest.raises(MetricError, match="average of support: expected 'binary' or None"):
        metrics.support(counts, average="macro")


def test_options_are_explained():
    counts = counted([("a", "b", 2)])
    with pytest.raises(MetricError, match="f1 is about one class: pass positive="):
        metrics.f1(counts)
    with pytest.raises(MetricError, match=r"average: expected 'binary', 'macro'.* got 'samples'"):
        metrics.recall(counts, average="samples")
    with pytest.raises(MetricError, match="weights: expected None, 'linear' or 'quadratic', got"):
        metrics.cohen_kappa(counts, weights="cubic")
