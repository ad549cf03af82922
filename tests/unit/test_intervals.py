"""Intervals as an evaluator gives them: values, reports, slices and series."""

from __future__ import annotations

import math
import re

import pytest

import streameval as se
from streameval.certainty.proportions import wilson


def evaluator(**options: object) -> se.Evaluator:
    ev = se.Evaluator(**options)  # type: ignore[arg-type]
    for n in range(40):
        ev.update(n % 3 == 0, score=(n * 7 % 10) / 10, slices={"country": "PT" if n % 2 else "ES"})
    return ev


def test_an_interval_contains_its_value() -> None:
    found = evaluator().interval("accuracy")
    assert found.low < found.value < found.high
    assert (found.level, found.method, found.n, found.reason) == (0.95, "wilson", 40, "")
    assert (found.low, found.high) == wilson(round(found.value * 40), 40, 0.95)


def test_a_report_has_the_same_interval() -> None:
    ev = evaluator()
    (row,) = ev.report(["accuracy"], intervals=0.9)
    assert row.interval == ev.interval("accuracy", level=0.9)
    assert ev.report(["accuracy"]).rows[0].interval is None
    assert ev.report(["accuracy"], intervals=0.9).to_dict()["metrics"]["accuracy"]["interval"] == {
        "low": row.interval.low,
        "high": row.interval.high,
        "method": "wilson",
        "n": 40,
    }


def test_slices_and_panes_have_intervals() -> None:
    ev = evaluator(slices=("country",), window=None)
    report = ev.slice_report("accuracy", intervals=0.95)
    assert [row.interval for row in report.rows] == [
        ev.slices()[row.slice].interval("accuracy") for row in report.rows
    ]
    panes = se.Evaluator(window=se.Panes("1h"), time_unit="s")
    panes.update_many([1, 0, 1], [1, 1, 1], event_time=[3600, 3700, 7300])
    assert [row.interval.n for row in panes.series("accuracy", intervals=0.95) if row.interval] == [
        2,
        1,
    ]


def test_an_undefined_value_has_no_interval() -> None:
    found = se.Evaluator(undefined=0.5).interval("accuracy")
    assert all(map(math.isnan, (found.value, found.low, found.high)))
    assert found.reason == "no event has been counted yet"
    assert not found.defined


def test_numbers_without_a_sampling_error_have_none() -> None:
    assert evaluator().interval("support").reason == "there is no interval for support"


@pytest.mark.parametrize("level", [0, 1, -0.1, 95, math.nan, True, "0.95", None])
def test_a_level_is_between_0_and_1(level: object) -> None:
    with pytest.raises(se.InputError, match=r"level: expected a number between 0 and 1, got "):
        evaluator().interval("accuracy", level=level)  # type: ignore[arg-type]


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(
        se.MetricError,
        match=re.escape("no interval method is called 'wilsn'; did you mean 'wilson'?"),
    ):
        evaluator().interval("accuracy", method="wilsn")
    with pytest.raises(se.MetricError, match="roc_auc has no wilson interval; it has"):
        evaluator().interval("roc_auc", method="wilson")
