"""Every metric of the registry: its range, its best value, and the laws it keeps."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.metrics.metric import BOTH, MULTILABEL, REGRESSION, Metric
from streameval.metrics.undefined import Undefined, reason_of
from tests.support.metric_laws import BREAKS, LAWS, cases, read, states_after, states_of, tolerance

TASKS = sorted(BOTH | MULTILABEL | REGRESSION)
CASES = cases()
IDS = [f"{row.name}-{task}" for row, task in CASES]

# Sixteenths: 1 − s is exact, ties are frequent, and three of them add to 1.
_SIXTEENTHS = st.integers(0, 16)


@st.composite
def _probabilities(draw):
    first = draw(_SIXTEENTHS)
    second = draw(st.integers(0, 16 - first))
    return {"a": first / 16, "b": second / 16, "c": (16 - first - second) / 16}


_WEIGHTS = st.integers(1, 3)
_SHARES = _SIXTEENTHS.map(lambda n: n / 16)
_SETS = st.frozensets(st.sampled_from("abc"))
# Few, so that constant columns and numbers of -1 occur.
_NUMBERS = st.sampled_from([-1.0, -0.5, 0.0, 1.0, 2.5, 1e9])
EVENTS = {
    "regression": st.lists(st.tuples(_NUMBERS, _NUMBERS, st.none(), _WEIGHTS), max_size=14),
    "binary": st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, 1), _SIXTEENTHS.map(lambda n: n / 16), _WEIGHTS
        ),
        max_size=14,
    ),
    "multiclass": st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), _probabilities(), _WEIGHTS),
        max_size=14,
    ),
    "multilabel": st.lists(
        st.tuples(_SETS, _SETS, st.dictionaries(st.sampled_from("abc"), _SHARES), _WEIGHTS),
        max_size=14,
    ),
}


def same(left: float, right: float, within: float) -> bool:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    if not within:
        return struct.pack("<d", left) == struct.pack("<d", right)
    return math.isclose(left, right, rel_tol=within, abs_tol=within)


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=40)
@given(data=st.data())
def test_laws(task, data):
    events = data.draw(EVENTS[task])
    shuffled = data.draw(st.permutations(events))
    states = states_of(task, events)
    rows = [(row, number) for row, of in CASES if of == task for number in (None, 0.25)]
    before = [read(row, task, states, undefined=number) for row, number in rows]
    for law in LAWS:
        after = states_after(law, task, events, shuffled)
        for (row, number), old in zip(rows, before, strict=True):
            if law not in BREAKS.get(row.name, ()):
                new = read(row, task, after, undefined=number)
                assert same(old, new, tolerance(law, row)), (row.name, law)


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=150)
@given(data=st.data())
def test_range_and_reason(task, data):
    rows = [row for row, of in CASES if of == task]
    for events in ([], data.draw(EVENTS[task])):
        states = states_of(task, events)
        for row in rows:
            value = read(row, task, states)
            with_number = read(row, task, states, undefined=0.25)
            if not events and row.name != "support":
                assert reason_of(value) == "no event has been counted yet", row.name
            if math.isnan(value):
                assert isinstance(value, Undefined), row.name
                assert value.reason, row.name
                assert with_number == 0.25, row.name
            else:
                assert isinstance(value, float), row.name
                assert row.low <= value <= row.high, row.name
                assert not math.isnan(with_number), row.name


# What a perfect prediction leaves without a value.
WITHOUT_ERRORS = {
    "positive_likelihood_ratio": "no event of another class was predicted 1",
    "binormal_auc": "the scores of both classes are constant",
}


# Of five events that have six labels: their number, and that of two guesses of each.
AT_BEST = {"coverage_error": 6 / 5, "precision_at_k": 6 / 10}


@pytest.mark.parametrize(("row", "task"), CASES, ids=IDS)
def test_a_perfect_prediction_is_best(row, task):
    if task == "binary":
        events = [(1, 1, 1.0, 2), (0, 0, 0.0, 3), (1, 1, 1.0, 1), (1, 1, 1.0, 1)]
    elif task == "multilabel":
        events = [(set(k), set(k), dict.fromkeys(k, 1.0), 1) for k in ("a", "ab", "c", "", "bc")]
    elif task == "regression":
        events = [(1.0, 1.0, None, 2), (3.0, 3.0, None, 1)]
    else:
        events = [(k, k, {k: 1.0}, 1) for k in "aabbbca"]
    value = read(row, task, states_of(task, events))
    if row.name in WITHOUT_ERRORS:
        assert reason_of(value).startswith(WITHOUT_ERRORS[row.name])
    elif row.direction == "none":
        assert row.name in ("support", "positive_rate", "mean_error", "residual_quantile")
    elif row.name in AT_BEST:
        assert value == AT_BEST[row.name]
    else:
        best = row.high if row.direction == "up" else row.low
        assert value == pytest.approx(best, abs=1e-15)
        # Whose clip leaves 2⁻⁵².
        if row.name not in ("log_loss", "normalized_entropy", "d2_log_loss_score"):
            assert value == best


def test_the_law_tests_can_fail():
    """A metric that grows with weights, and one that looks at the order."""
    grows = Metric(
        name="bad",
        function=lambda counts, undefined=None: float(counts.total),
        state="confusion",
        definition="the weight of all events",
    )
    events = [(n % 2, 0, 0.5, 1) for n in (0, 0, 1, 1, 0, 1)]
    late = Metric(
        name="late",
        function=lambda order, undefined=None: float(order.repeats),
        state="succession",
        definition="how often a label came twice in a row",
    )
    shuffled = [events[n] for n in (0, 2, 1, 3, 4, 5)]
    for row, broken in ((grows, {"scale", "fraction", "huge"}), (late, {"order", "merge"})):
        before = read(row, "binary", states_of("binary", events))
        for law in LAWS:
            after = read(row, "binary", states_after(law, "binary", events, shuffled))
            if law != "batch":  # which keeps no order
                assert same(before, after, tolerance(law, row)) == (law not in broken), law
