"""Differences of independent intervals, and slices against all other events."""

from __future__ import annotations

import cProfile
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.evaluator.changes import changes
from streameval.evaluator.evaluator import Evaluator
from streameval.uncertainty.differences import bound_p_value, difference, part_p_value, sides
from streameval.uncertainty.interval import Interval
from streameval.uncertainty.proportions import wilson


def share(right: int, events: int, level: float = 0.95) -> Interval:
    return Interval(right / events, *wilson(right, events, level), level, "wilson", events)


@pytest.mark.parametrize(
    ("counts", "ends"),
    [
        # Newcombe (1998), Statistics in Medicine 17:873, table II, method 10.
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((5, 56, 0, 29), (-0.0381, 0.1926)),
        ((0, 10, 0, 20), (-0.1611, 0.2775)),
        ((10, 10, 0, 20), (0.6791, 1.0000)),
    ],
)
def test_newcombes_published_differences(
    counts: tuple[int, int, int, int], ends: tuple[float, float]
) -> None:
    first, second = share(*counts[:2]), share(*counts[2:])
    found, back = difference(first, second), difference(second, first)
    assert found.low <= found.value <= found.high
    assert (found.low, found.high) == pytest.approx((-back.high, -back.low))
    assert (round(found.low, 4), round(found.high, 4)) == ends
    assert (found.method, found.n) == ("mover", counts[1] + counts[3])


def test_a_difference_without_an_interval_says_why() -> None:
    nothing = Interval(math.nan, math.nan, math.nan, 0.95, "", 0, "no events")
    for pair in ((nothing, share(3, 4)), (share(3, 4), nothing)):
        found = difference(*pair)
        assert not found.defined
        assert found.reason == "no events"
    with pytest.raises(InputError, match=r"intervals of one level, 0\.95, got 0\.9"):
        difference(share(3, 4), share(3, 4, 0.9))


COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, st.floats(0.5, 0.999), st.booleans())
def test_at_the_intervals_end_the_p_value_is_that_of_its_side(
    counts: tuple[int, int], level: float, low: bool
) -> None:
    found = share(*counts, level)
    bound = found.low if low else found.high
    if bound == found.value:
        return
    p = bound_p_value(found, below=None if low else bound, above=bound if low else None)
    assert p == pytest.approx((1 - level) / 2, abs=1e-9)


def test_a_part_against_the_rest_is_near_pearsons_test() -> None:
    for right, n, others, m in (
        *((60, 100, 690, 900), (900, 1000, 1700, 2000), (30, 60, 50, 60)),
        *((40, 40, 800, 960), (300, 600, 330, 600)),
    ):
        whole = share(right + others, n + m)
        pooled = whole.value * (1 - whole.value) * (1 / n + 1 / m)
        wanted = math.erfc(abs(right / n - others / m) / math.sqrt(2 * pooled))
        found = part_p_value(share(right, n), whole)
        assert 0.85 < math.log(found) / math.log(wanted) < 1.11


def test_nothing_is_tested_without_an_interval_or_against_nothing() -> None:
    whole = share(30, 40)
    assert math.isnan(part_p_value(whole, whole))
    nothing = Interval(0.5, math.nan, math.nan, 0.95, "", 3, "too few")
    assert math.isnan(part_p_value(nothing, whole))
    assert math.isnan(bound_p_value(nothing, below=0.5, above=None))
    assert sides([nothing, whole], whole) == [None, None]
    assert sides([], whole) == []


def test_slices_that_differ_are_found_on_their_side() -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat([0.8, 0.6, 0.95], [180, 10, 10])
    right = rng.binomial(300, truth)
    whole = share(int(right.sum()), 300 * 200)
    found = sides([share(int(k), 300) for k in right], whole)
    assert found[180:190].count("below") >= 9
    assert found[190:].count("above") >= 9
    assert sum(side is not None for side in found[:180]) <= 3


def test_a_slice_report_marks_them() -> None:
    ev = Evaluator(slices=("country",))
    for country, right in (("C3", 150), *((f"C{n}", 240) for n in range(3))):
        guesses = np.arange(300) < right
        ev.update_many(np.ones(300, bool), guesses, slices={"country": [country] * 300})
    report = ev.slice_report("accuracy", intervals=0.95)
    # The others are above all that is not theirs, C3 included.
    assert [row.differs for row in report.rows] == ["below", "above", "above", "above"]
    assert report.to_dict()["slices"][0]["differs"] == "below"
    assert "below" in str(report)
    assert not any(row.differs for row in ev.slice_report("accuracy").rows)


def test_the_cost_of_changed_labels_grows_with_their_number() -> None:
    calls = []
    for classes in (50, 200):
        names = [f"c{n:03}" for n in range(classes)]
        before, after = (Evaluator("multiclass").update_many(*[n] * 2) for n in (names, names[1:]))
        before.report(), after.report()  # derive what both read
        profile = cProfile.Profile()
        found = profile.runcall(changes, before, after, ["accuracy"])
        assert [one.name for one in found.labels] == names
        assert (found.labels[0].before, found.labels[0].after) == (1 / classes, 0.0)
        calls.append(Counter[str]())
        for row in profile.getstats():
            calls[-1][getattr(row.code, "co_name", "built in")] += row.callcount
    few, many = calls
    # Each of these calls sorts all labels.
    assert many["labels"] == few["labels"] > 0
    assert many.total() < 5 * few.total()
