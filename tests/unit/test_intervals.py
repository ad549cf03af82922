"""Intervals as an evaluator gives them: values, reports, slices and series."""

from __future__ import annotations

import ast
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.uncertainty.interval import DEFAULT_LEVEL
from streameval.uncertainty.proportions import wilson


def evaluator(**options: object) -> se.Evaluator:
    ev = se.Evaluator(**options)  # type: ignore[arg-type]
    for n in range(40):
        ev.update(n % 3 == 0, score=(n * 7 % 10) / 10, slices={"country": "PT" if n % 2 else "ES"})
    return ev


def test_an_interval_contains_its_value_and_is_that_of_a_report() -> None:
    ev = evaluator()
    found = ev.interval("accuracy")
    assert found.low < found.value < found.high
    assert (found.level, found.method, found.n, found.reason) == (0.95, "wilson", 40, "")
    assert (found.low, found.high) == wilson(round(found.value * 40), 40, 0.95)
    report = ev.report(["accuracy"], intervals=0.9)
    (row,) = report
    assert row.interval == ev.interval("accuracy", level=0.9)
    low, high = row.interval.low, row.interval.high
    written = {"low": low, "high": high, "method": "wilson", "n": 40}
    assert report.to_dict()["metrics"]["accuracy"]["interval"] == written
    assert ev.report(["accuracy"]).rows[0].interval is None
    none = se.Evaluator(undefined=0.5).interval("accuracy")
    assert all(map(math.isnan, (none.value, none.low, none.high)))
    assert (none.reason, none.defined) == ("no event has been counted yet", False)
    assert ev.interval("support").reason == "there is no interval for support"


def test_slices_and_panes_have_intervals() -> None:
    ev = evaluator(slices=("country",), window=None)
    for row in ev.slice_report("accuracy", intervals=0.95).rows:
        assert row.interval == ev.slices()[row.slice].interval("accuracy")
    panes = se.Evaluator(window=se.Panes("1h"), time_unit="s")
    panes.update_many([1, 0, 1], [1, 1, 1], event_time=[3600, 3700, 7300])
    rows = panes.series("accuracy", intervals=0.95)
    assert [row.interval.n for row in rows if row.interval] == [2, 1]


@pytest.mark.parametrize("level", [0, 1, -0.1, 95, math.nan, True, "0.95", None])
def test_a_level_is_between_0_and_1(level: object) -> None:
    with pytest.raises(se.InputError, match=r"level: expected a number between 0 and 1, got "):
        evaluator().interval("accuracy", level=level)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "wilsn"}, "no interval method is called 'wilsn'; did you mean 'wilson'?"),
        ({"name": "roc_auc", "method": "wilson"}, "roc_auc has no wilson interval; it has"),
        ({"name": "f1", "average": None}, r"classification_report\(intervals=0.95\)"),
    ],
)
def test_what_has_no_interval_says_so(given: dict[str, Any], message: str) -> None:
    ev = evaluator() if "average" not in given else classes()
    with pytest.raises(se.MetricError, match=message):
        ev.interval(**{"name": "accuracy", **given})


def test_a_report_says_which_metrics_a_method_does_not_serve() -> None:
    report = evaluator().report(["accuracy", "f1"], intervals=0.95, method="anytime")
    served, other = (row.interval for row in report)
    assert served.method == "anytime"
    assert other.reason == "f1 has no anytime interval; it has delta, bootstrap"
    assert other.reason in str(report)
    with pytest.raises(se.MetricError, match="no interval method is called 'always'"):
        evaluator().report(["accuracy"], intervals=0.95, method="always")


# The classification report -----------------------------------------------------


def classes() -> se.Evaluator:
    ev = se.Evaluator(task="multiclass")
    ev.update_many(["a", "b", "a", "c"], ["a", "b", "b", "b"], weight=[40, 60, 20, 1])
    return ev


def test_a_classification_report_has_the_intervals_of_each_number() -> None:
    report = classes().classification_report(intervals=0.9)
    assert report.row_intervals is not None
    assert report.average_intervals is not None
    for label, numbers in report.rows.items():
        intervals = report.row_intervals[label]
        assert str([found.value for found in intervals]) == str(list(numbers[:3]))
    precision, recall, f1 = report.row_intervals["a"]
    assert (recall.low, recall.high) == wilson(40, 60, 0.9)
    assert (precision.n, recall.n, f1.n) == (40, 60, 121)
    # The rest as the other class: F1 is that of a task of two.
    binary = se.Evaluator()
    binary.update_many([1, 0, 1, 0], [1, 0, 0, 0], weight=[40, 60, 20, 1])
    assert f1 == binary.interval("f1", level=0.9)
    macro = report.average_intervals["macro avg"]
    assert [repr(found) for found in macro] == [
        repr(classes().interval(f"{name}_macro", level=0.9))
        for name in ("precision", "recall", "f1")
    ]
    assert report.accuracy_interval == classes().interval("accuracy", level=0.9)


def test_the_classification_report_shows_the_ends() -> None:
    report = classes().classification_report(intervals=0.95)
    shown = str(report).splitlines()
    assert max(map(len, shown)) < 100
    assert shown[1].split() == ["a", "1.0000", "0.6667", "0.8000", "60"]
    assert shown[2].split("  ")[-3:-1] == ["[0.9124, 1.0000]", "[0.5406, 0.7727]"]
    assert "| 1.0000 [0.9124, 1.0000] | 0.6667 [0.5406, 0.7727] |" in report.to_markdown()
    assert "<td>1.0000 [0.9124, 1.0000]</td>" in report._repr_html_()
    table = report.to_dict()
    assert table["a"]["intervals"]["recall"] == {
        "low": wilson(40, 60, 0.95)[0],
        "high": wilson(40, 60, 0.95)[1],
        "method": "wilson",
        "n": 60,
    }
    # Never predicted: precision has no value, and its interval the reason.
    assert table["c"]["intervals"]["precision"]["reason"] == "no event was predicted 'c'"
    assert table["accuracy_interval"]["n"] == 121
    plain = classes().classification_report()
    assert "[" not in str(plain)
    assert "intervals" not in plain.to_dict()["a"]
    assert "accuracy_interval" not in plain.to_dict()


@pytest.mark.parametrize(
    "value",
    [se.Interval(0.5, 0.4, 0.6, 0.95, "wilson", 3), se.Bounds(0.1, 0.2)],
    ids=lambda value: type(value).__name__,
)
def test_a_pickle_that_names_the_former_module_is_read(value: object) -> None:
    former = pickle.dumps(value, 0).replace(b"streameval.uncertainty", b"streameval.certainty")
    assert b"streameval.certainty.interval" in former
    assert pickle.loads(former) == value


def test_the_default_level_is_one_number() -> None:
    levels, elsewhere = [], set()
    for path in Path(se.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        defaults = {}
        for taken in (node for node in nodes if isinstance(node, ast.arguments)):
            places = [*reversed(taken.posonlyargs + taken.args)], [*reversed(taken.defaults)]
            for names, values in (places, (taken.kwonlyargs, taken.kw_defaults)):
                given = zip(names, values, strict=False)
                defaults.update({id(value): name.arg for name, value in given})
        for node in nodes:
            number = isinstance(node, ast.Constant) and type(node.value) is float
            if number and defaults.get(id(node)) == "level":
                levels.append(node.value)
            elif number and node.value == DEFAULT_LEVEL and id(node) not in defaults:
                elsewhere.add(path.name)
    assert len(levels) > 15
    assert set(levels) == {DEFAULT_LEVEL}
    assert elsewhere == {"interval.py", "curves.py"}  # the constant, and ticks of an axis
