"""Estimates against the values that came: counts, the binomial limit, what is left out."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.events.time import iso_time
from streameval.uncertainty.estimate_check import check_estimates, shared_tail
from streameval.uncertainty.interval import Interval, normal_quantile


def estimate(value: float = 0.5, half: float = 0.125, level: float = 0.95) -> Interval:
    return Interval(value, value - half, value + half, level, "expected", 100)


NOTHING = Interval(math.nan, math.nan, math.nan, 0.95, "", 0, "no event")


def test_panes_that_share_the_error_of_few_labelled_events_fail_together() -> None:
    flagged = ((10**9, 5), (1_000, 5), (100, 14))
    for labelled, failed in (*flagged, (100, 5), (100, 9), (0, 20)):
        values = [0.25] * failed + [0.375] * (20 - failed)
        found = check_estimates([estimate()] * 20, values, labelled)
        assert found.flagged == ((labelled, failed) in flagged)


@given(st.integers(0, 12), st.sampled_from([0.8, 0.95]), st.sampled_from([0.0, 0.1, 0.5, 0.9]))
def test_the_chance_is_that_of_failures_that_share_an_error(least, level, shared):
    rng = np.random.default_rng(1)
    errors = math.sqrt(shared) * rng.standard_normal((20_000, 1))
    errors = errors + math.sqrt(1 - shared) * rng.standard_normal((20_000, 12))
    failed = (np.abs(errors) > normal_quantile(level)).sum(axis=1)
    expected = pytest.approx((failed >= least).mean(), abs=0.016)
    assert shared_tail(least, 12, level, shared) == expected


@given(
    st.lists(st.tuples(st.sampled_from([0.25, 0.5, math.nan]), st.booleans()), max_size=40),
    st.sampled_from([0.5, 0.75, 0.875]),
)
def test_the_check_is_that_of_exact_binomial_sums(panes, level):
    kinds = {True: estimate(level=level), False: NOTHING._replace(level=level)}
    found = check_estimates([kinds[there] for _, there in panes], [value for value, _ in panes])
    compared = [value for value, there in panes if there and value == value]
    n, failed, chance = len(compared), compared.count(0.25), 1 - Fraction(level)
    of_failures = (math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1))
    assert (found.panes, found.held) == (n, n - failed)
    assert found.flagged == (n > 0 and sum([*of_failures][failed:]) < Fraction(1, 100))
    assert ("no interval or no value" in found.reason) == (n < len(panes))


OUTSIDE = "the value is outside of its 95% interval in"


@pytest.mark.parametrize(
    ("estimates", "values", "reason"),
    [
        ([], [], "there is no pane"),
        ([NOTHING], [0.5], "1 pane has no interval or no value"),
        (
            [estimate(), NOTHING, estimate()],
            [0.5, 0.5, math.nan],
            f"{OUTSIDE} 0 of 1 pane; 2 panes have no interval or no value",
        ),
        (
            [estimate()] * 2,
            [0.0, 1.0],
            f"{OUTSIDE} 2 of 2 panes, which has a chance of 0.0025 if labels go with scores as "
            "they did in the labelled events",
        ),
    ],
)
def test_the_reason_is_one_sentence(estimates: Any, values: Any, reason: str) -> None:
    found = check_estimates(estimates, values)
    assert found.reason == reason
    assert (found.to_dict()["error"] is None) == (not found.panes)


def test_estimates_are_of_one_level_and_each_has_a_value() -> None:
    with pytest.raises(InputError, match="values: expected one of each of 1 estimates, got 2"):
        check_estimates([estimate()], [0.5, 0.5])
    with pytest.raises(InputError, match=r"intervals of one level, got 0\.9 and 0\.95"):
        check_estimates([estimate(), estimate(level=0.9)], [0.5, 0.5])


# Of an evaluator ----------------------------------------------------------------

DAY = 86_400
FIRST = 1_699_920_000
PANES = 20


def stream(rng: np.random.Generator, size: int, flipped: float = 0.0) -> tuple[Any, Any]:
    """Labels and calibrated scores; a share of the labels of the second half is flipped."""
    score = 1 / (1 + np.exp(-rng.normal(-0.5, 1.5, size)))
    changed = (np.arange(size) >= size // 2) & (rng.random(size) < flipped)
    return (rng.random(size) < score) ^ changed, score


def days(labels: Any, score: Any) -> se.Evaluator:
    """The events of a stream, evenly over twenty days."""
    times = FIRST + np.arange(len(labels)) * PANES * DAY // len(labels)
    ev = se.Evaluator(window=se.Panes("40d", pane="1d"), time_unit="s")
    return ev.update_many(labels, score=score, event_time=times)


def reference(seed: int) -> se.Evaluator:
    labels, score = stream(np.random.default_rng(seed), 5_000)
    return se.Evaluator().update_many(labels, score=score)


def test_labels_that_change_are_found_within_ten_panes_and_not_before() -> None:
    known, ev = reference(1), days(*stream(np.random.default_rng(2), PANES * 500, flipped=0.1))
    for name in ("f1", "accuracy", "roc_auc", "log_loss", "brier_score"):
        whole = ev.check_expected(name, known)
        starts = [row.start for row in whole]
        before = ev.check_expected(name, known, panes=starts[:10])
        after = ev.check_expected(name, known, since=starts[10])
        assert (before.flagged, after.flagged) == (False, True), name
        assert after.rows == whole.rows[10:]
        assert abs(before.error) < abs(after.error)


EVENTS = st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from([0.1, 0.4, 0.6, 0.9]))


@given(
    st.lists(EVENTS, min_size=1, max_size=60),
    st.sampled_from(["f1", "accuracy", "precision", "roc_auc"]),
    st.booleans(),
)
def test_each_row_is_what_predictions_and_series_say_of_the_pane(events, name, slicewise):
    known = reference(3)
    ev = se.Evaluator(window=se.Panes("6d", pane="1d"), time_unit="s", slices=["k"])
    for day, label, score in sorted(events):
        ev.update(label, score=score, event_time=FIRST + day * DAY, slices={"k": "a"})
    view = ev.slices()[(("k", "a"),)] if slicewise else ev
    found, before = view.check_expected(name, known), ev.to_bytes()
    series = ev.series(name)
    assert [(row.start, row.end) for row in found] == [(row.start, row.end) for row in series]
    for row, later in zip(found, series, strict=True):
        same = [one for one in events if iso_time((FIRST + one[0] * DAY) * 10**6) == row.start]
        predictions = se.Predictions().update_many(score=[score for *_, score in same])
        # By its text, since nan is not equal to itself.
        assert str(row.expected) == str(predictions.expected(name, known))
        assert str(row.value) == str(later.value)
        assert (row.held is None) == (math.isnan(later.value) or not row.expected.defined)
    rows = [row.expected for row in found], [row.value for row in found]
    check = check_estimates(*rows, float(known.total.support))
    assert str([getattr(found, name) for name in check._fields]) == str([*check])
    assert ev.to_bytes() == before


def test_several_classes_and_tables() -> None:
    rng = np.random.default_rng(4)
    proba = rng.dirichlet([1.0, 1.0, 1.0], 4_000)
    true = (rng.random((4_000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    given_ = {"y_true": np.array([*"abc"])[true], "proba": dict(zip("abc", proba.T, strict=True))}
    known = se.Evaluator(task="multiclass").update_many(**given_)
    ev = se.Evaluator(task="multiclass", window=se.Panes("4d", pane="1d"), time_unit="s")
    ev.update_many(**given_, event_time=FIRST + np.arange(4_000) * 4 * DAY // 4_000)
    found = ev.check_expected("accuracy", known.total)
    assert (found.panes, found.held, found.flagged) == (4, 4, False)
    assert found.to_dict() == ev.check_expected("accuracy", known).to_dict()
    lines = str(found).splitlines()
    assert lines[0].split() == ["start", "end", "expected", "low", "high", "value", "held"]
    assert lines[-1] == "the value is outside of its 95% interval in 0 of 4 panes"
    assert "<td>yes</td>" in found._repr_html_()
    assert [row["held"] for row in found.to_dict()["rows"]] == [True] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": se.Predictions()}, "reference: expected events with true labels, got pred"),
        ({"reference": "known.state"}, "reference: expected an evaluator with labels, or a view"),
        ({"panes": [FIRST, FIRST + 1]}, "panes[1]: expected starts of retained panes, as series()"),
        ({"since": "yesterday"}, "since: expected an"),
    ],
)
def test_refusals_of_a_check(options: dict[str, Any], message: str) -> None:
    ev, known = days(*stream(np.random.default_rng(2), 100)), reference(1)
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        ev.check_expected("f1", **{"reference": known} | options)
    for other, needed in ((known, "a window of panes"), (se.Predictions(), "about true labels")):
        with pytest.raises(se.MetricError, match=needed):
            other.check_expected("f1", ev)
