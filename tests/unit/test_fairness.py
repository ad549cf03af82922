"""Fairness between the groups of a slice key: Fairlearn's definitions, and intervals that hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, MetricError
from streameval.evaluator.fairness import FAIRNESS
from streameval.evaluator.reports import FairnessReport
from streameval.uncertainty.differences import difference, range_ends, ratio_ends
from streameval.uncertainty.interval import Interval
from streameval.uncertainty.proportions import wilson
from tests.support.window_model import Item, Model

Counts = tuple[int, int, int, int]
"""TP, FP, FN and TN."""


def counted(groups: dict[Any, Counts], **options: Any) -> se.Evaluator:
    ev = se.Evaluator(slices=("sex",), **options)
    for group, counts in groups.items():
        ev.update_many(
            [1, 0, 1, 0], [1, 1, 0, 0], weight=counts, slices={"sex": [group] * 4}
        )  # fmt: skip
    return ev


def values(report: FairnessReport) -> dict[str, float]:
    return {row.metric: row.value for row in report}


def expected(events: Sequence[tuple[Any, int, int, float]]) -> dict[str, float]:
    """From (group, true, predicted, weight), as Fairlearn defines them."""
    shares: dict[str, dict[Any, list[Fraction]]] = defaultdict(dict)
    for group, true, predicted, weight in events:
        for rate in ("selection", "recall" if true else "fpr"):
            pair = shares[rate].setdefault(group, [Fraction(0), Fraction(0)])
            pair[0] += Fraction(weight) * predicted
            pair[1] += Fraction(weight)
    apart = {}
    for rate, pairs in shares.items():
        found = [top / bottom for top, bottom in pairs.values()]
        apart[rate] = max(found) - min(found), min(found) / max(found)
    (tpr, tpr_ratio), (fpr, fpr_ratio) = apart["recall"], apart["fpr"]
    odds = max(tpr, fpr), min(tpr_ratio, fpr_ratio)
    numbers = (*apart["selection"], tpr, tpr_ratio, fpr, fpr_ratio, *odds)
    return dict(zip(FAIRNESS, map(float, numbers), strict=True))


def test_the_numbers_that_fairlearns_user_guide_prints() -> None:
    y_true = [0, 1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    y_pred = [0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0]
    ev = se.Evaluator(slices=("group",))
    ev.update_many(y_true, y_pred, slices={"group": [*"bbabbcccaacabccbcc"]})
    report = ev.fairness("group")
    for name, ratio, gap in (("demographic_parity", 2 / 3, 0.25), ("equalized_odds", 0, 1)):
        assert (report[f"{name}_ratio"], report[f"{name}_difference"]) == (ratio, gap)
    row = report.by_name["demographic_parity_ratio"]
    assert row.highest == ((("group", "a"),), "positive_rate", 0.75)
    assert row.lowest == ((("group", "c"),), "positive_rate", 0.5)
    assert report.by_name["equalized_odds_ratio"].lowest == ((("group", "b"),), "fpr", 0.0)


WINDOWS = [None, se.Last(200), se.Panes("2h", "30m"), se.Fading("3h")]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_every_window(window: Any) -> None:
    rng = np.random.default_rng(5)
    items = [
        Item(
            int(rng.random() < 0.4), y_pred=int(rng.random() < 0.5), time=60 * n,
            weight=int(rng.integers(1, 4)), slices={"sex": "FMX"[rng.integers(3)], "old": n % 2},
        )
        for n in range(400)
    ]  # fmt: skip
    dimensions = ("sex", ("sex", "old"))
    ev = se.Evaluator(slices=dimensions, window=window, time_unit="s")
    models: dict[Any, Model] = defaultdict(lambda: Model(window))
    for item in items:
        ev.update(**item.arguments(timed=True, sliced=True))
        # The last events are those of each slice, times are those of all.
        models[item.slices["sex"] if isinstance(window, se.Last) else None].add(item)
    inside = [
        pair
        for model in models.values()
        for pair in ([(one, one.weight) for one in items] if window is None else model.inside())
    ]
    wanted = expected([(one.slices["sex"], one.y_true, one.y_pred, w) for one, w in inside])
    tolerance = 1e-9 if isinstance(window, se.Fading) else 0
    assert values(ev.fairness("sex")) == pytest.approx(wanted, rel=tolerance, abs=0)
    assert len(ev.fairness(["old", "sex"]).groups) == 6
    # That files and merges keep the states of slices is a law.
    assert str(se.from_bytes(ev.to_bytes()).fairness("sex")) == str(ev.fairness("sex"))


ALIKE = (5, 5, 5, 5)


@pytest.mark.parametrize(
    ("groups", "metric", "reason"),
    [
        ({}, "demographic_parity_ratio", "no group"),
        ({"F": ALIKE}, "demographic_parity_ratio", "one group only: sex=F"),
        ({"F": ALIKE, "M": (0, 1, 0, 1)}, "equal_opportunity_ratio", "sex=M: no event is truly 1"),
        ({"F": ALIKE, "M": (1, 0, 1, 0)}, "equalized_odds_ratio", "sex=M: every event is truly 1"),
        (
            {"F": (0, 1, 5, 5), "M": (0, 2, 5, 5)},
            "equal_opportunity_ratio",
            "the recall of every group is 0",
        ),
        ({"F": ALIKE, None: ALIKE, "(other)": ALIKE}, "equal_opportunity_difference", "one group"),
    ],
)
def test_undefined(groups: dict[Any, Counts], metric: str, reason: str) -> None:
    ev = counted(groups, max_slices=1 if "(other)" in groups else 9)
    row = ev.fairness("sex").by_name[metric]
    assert math.isnan(row.value)
    assert row.reason.startswith(reason)
    assert (row.interval.defined, row.highest, row.lowest) == (False, None, None)
    assert row.interval.reason == row.reason
    assert counted(groups, undefined=0.5).fairness("sex")[metric] == 0.5


def test_groups_without_the_rate_and_small_ones_are_named() -> None:
    ev = counted({"F": (6, 1, 4, 9), "M": (8, 1, 2, 9), "X": (0, 4, 0, 4), None: (9, 9, 9, 9)})
    report = ev.fairness("sex")
    row = report.by_name["equal_opportunity_difference"]
    assert (row.value, row.reason, row.support) == (0.2, "without the undefined sex=X", 48)
    assert report["predictive_equality_difference"] == 0.4
    assert str(report).endswith("left out: sex=(missing)")
    larger = ev.fairness("sex", min_support=10)
    alike = larger.by_name["predictive_equality_difference"]
    assert (alike.value, str(alike.highest), str(alike.lowest)) == (0, "sex=F: 0.1", "sex=M: 0.1")
    assert larger.without == "left out: sex=(missing); sex=X"
    plain = larger.to_dict()
    assert plain["left_out"] == [{"sex": "(missing)"}, {"sex": "X"}]
    assert plain["metrics"]["equal_opportunity_difference"]["lowest"] == {
        "slice": {"sex": "F"}, "rate": "recall", "value": 0.6
    }  # fmt: skip
    assert list(larger.to_frame()["value"]) == [row.value for row in larger]


def test_a_group_that_has_left_the_window_is_none() -> None:
    ev = se.Evaluator(slices=("sex",), window=se.Panes("1h"), time_unit="s")
    for n, sex in enumerate("XFM"):
        ev.update(1, 1, event_time=n * 3600 if n < 2 else 3601, slices={"sex": sex})
    report = ev.fairness("sex")
    assert (report.groups, report.left_out) == (((("sex", "F"),), (("sex", "M"),)), ())


def test_a_class_of_several() -> None:
    ev, binary = se.Evaluator("multiclass", slices=("sex",)), counted({})
    truth, predicted, sexes = [*"aabbcc"] * 2, [*"aabbaaabbbcc"], {"sex": ["F"] * 6 + ["M"] * 6}
    ev.update_many(truth, predicted, slices=sexes)
    binary.update_many([t == "a" for t in truth], [p == "a" for p in predicted], slices=sexes)
    assert str(ev.fairness("sex", label="a")) == str(binary.fairness("sex"))
    negatives = binary.fairness("sex", label=0)
    assert negatives["equal_opportunity_difference"] == pytest.approx(0.5)


def test_what_is_refused() -> None:
    ev = counted({"F": ALIKE})
    several = se.Evaluator("multiclass", slices=("sex",)).update(3, 4, slices={"sex": 1})
    ranked = se.Evaluator(metrics=["roc_auc"], slices=["sex"])
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: ev.fairness("Sex"), InputError, "slices of this evaluator: sex, got 'Sex'; did"),
        (lambda: se.Evaluator().fairness("sex"), InputError, r"it has none.*pass slices=\['sex'\]"),
        (lambda: ev.fairness("sex", ["parity"]), MetricError, "no metric of fairness is called"),
        (lambda: ev.fairness("sex", label=3), InputError, "label: expected one of 0, 1, got 3"),
        (lambda: several.fairness("sex"), MetricError, "pass label=, one of 3, 4"),
        (lambda: ev.fairness("sex", min_support="9"), InputError, "min_support: expected a"),  # type: ignore[arg-type]
        (lambda: ranked.fairness("sex"), MetricError, "add 'accuracy' to metrics="),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()


# Intervals ---------------------------------------------------------------------


def share(right: int, events: int, level: float = 0.95) -> Interval:
    return Interval(right / events, *wilson(right, events, level), level, "wilson", events)


counts = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, counts)
def test_two_groups_are_newcombes_difference_and_donner_and_zous_ratio(first, second):
    a, b = share(*first), share(*second)
    one = difference(a, b)
    low, high = max(0.0, one.low, -one.high), max(one.high, -one.low)
    assert range_ends([a, b]) == pytest.approx((low, high))
    bottom, top = ratio_ends([a, b])
    assert ratio_ends([b, a]) == (bottom, top)
    assert 0 <= bottom <= top <= 1
    # Where r is an end of the ratio one/other, the interval of one − r·other ends at 0 (MOVER).
    for r, near, far in ((bottom, "low", "high"), (top, "high", "low")):
        misses = [
            abs(abs(gap) - math.hypot(one.value - getattr(one, near), r * half))
            for one, other in ((a, b), (b, a))
            for gap, half in [(one.value - r * other.value, getattr(other, far) - other.value)]
        ]
        assert r in (0, 1) or min(misses) < 1e-9


def test_a_share_of_0_that_may_be_anything_leaves_the_ratio_of_the_others() -> None:
    sure = [share(50, 1000), share(500, 1000)]
    assert ratio_ends([share(0, 1), *sure]) == (0, ratio_ends(sure)[1])


def test_intervals_of_several_groups_contain_the_true_value() -> None:
    """Here 200 streams, so that .90 is 3 errors below .95; those of two groups are exact above."""
    rates, size = [0.4, 0.4, 0.4, 0.25], 80
    rng = np.random.default_rng(len(rates) * size)
    true = {"difference": max(rates) - min(rates), "ratio": min(rates) / max(rates)}
    hits = dict.fromkeys(true, 0)
    for _ in range(200):
        positives = rng.binomial(size, rates).tolist()
        ev = counted({n: (k, 0, size - k, 1) for n, k in enumerate(positives)})
        for kind, value in true.items():
            (row,) = ev.fairness("sex", [f"equal_opportunity_{kind}"])
            found = row.interval
            # Without a positive prediction in any group there is no ratio.
            hits[kind] += not found.defined or found.low <= value + 1e-12 <= found.high + 2e-12
    assert min(hits.values()) >= 0.9 * 200


def test_what_each_interval_is_made_of() -> None:
    groups = {"F": (30, 20, 20, 30), "M": (40, 25, 10, 25)}
    report = counted(groups).fairness("sex").by_name
    names = ("equal_opportunity_difference", "equalized_odds_difference")
    two, odds = (report[name].interval for name in names)
    assert (two.n, two.method, odds.n, odds.value) == (100, "mover of wilson", 200, two.value)
    assert odds.high - odds.low > two.high - two.low
    quarters: Any = {name: tuple(n / 4 for n in four) for name, four in groups.items()}
    for intervals, said in ((False, "Evaluator(intervals=True)"), (True, "mover of wilson (Kish)")):
        ev = counted(quarters, intervals=intervals)
        (row,) = ev.fairness("sex", ["demographic_parity_difference"])
        assert row.value == pytest.approx(0.15)
        assert said in (row.interval.method if intervals else row.interval.reason)
    ev = se.Evaluator(slices=("sex",), bootstrap=se.Bootstrap(unit="user"))
    rng = np.random.default_rng(1)
    for user in range(30):
        positive, sex = bool(rng.random() < 0.5), "FM"[user % 2]
        ev.update_many([1] * 5, [positive] * 5, slices={"sex": [sex] * 5}, unit=[user] * 5)
    (row,) = ev.fairness("sex", ["equal_opportunity_difference"])
    assert row.interval.method == "mover of bootstrap by user"
