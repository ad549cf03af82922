"""Pictures: every curve and format, hostile text, gaps, no leaked figures."""

from __future__ import annotations

import math
import os
import random
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.evaluator.reports import SeriesRow, SliceReport
from streameval.metrics.curves import CURVES
from streameval.uncertainty.calibration import calibration_band

pytest.importorskip("matplotlib")

import matplotlib
from matplotlib.figure import Figure

from streameval import plots

pytestmark = pytest.mark.slow

OF_ANY_SCORES = ("score_distribution", "threshold_metrics")
"""Curves that one score of one class has."""


def scored(count: int = 500, seed: int = 1) -> se.Evaluator:
    source = random.Random(seed)
    labels = [source.random() < 0.4 for _ in range(count)]
    scores = [min(1.0, max(0.0, source.gauss(0.6 if y else 0.4, 0.2))) for y in labels]
    return se.Evaluator().update_many(labels, score=scores)


def paned(hours: int = 24, missing: frozenset[int] = frozenset()) -> se.Evaluator:
    source = random.Random(hours)
    ev = se.Evaluator(window=se.Panes(f"{hours}h", pane="1h"), time_unit="s")
    times = [t for t in range(0, hours * 3600, 180) if t // 3600 not in missing]
    labels = [source.random() < 0.5 for _ in times]
    return ev.update_many(labels, score=[source.random() for _ in times], event_time=times)


def labelled() -> se.Evaluator:
    return se.Evaluator().update(True, True)


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (scored, "rocc", r"no curve is called 'rocc'; there are roc, prec"),
        (labelled, "roc", "needs scores"),
        *((lambda: se.Evaluator("multiclass"), name, r"^curve: expected a curve that is defined")
          for name in CURVES if not {"binary", "regression"} & CURVES[name].states.keys()),
        *((lambda: se.Evaluator("regression", metrics=["median_absolute_error"]), name,
           rf"^{name}: expected events, got no event")
          for name in CURVES if "regression" in CURVES[name].states),
        # A score outside [0, 1] is no probability; one class alone has no ranking.
        *((lambda: se.Evaluator().update(False, score=2.5), name,
           r"^(curve|thresholds): expected .+ defined, got .+")
          for name in CURVES if "binary" in CURVES[name].states and name not in OF_ANY_SCORES),
    ],
)  # fmt: skip
def test_curves_that_cannot_be_drawn_tell_why(make: Any, name: str, message: str) -> None:
    with pytest.raises((se.InputError, se.MetricError), match=message):
        plots.plot_curve(make(), name)


HOSTILE = [
    "$x_1$", "$", "\\$y$", "$\\frac{", "<b>", "--><script>alert(1)</script>", "]]>", "&amp;",
    "a\nb", "\x00\x1b[31m", "猫🐱", "x" * 10_000, "_hidden", "%s{}",
]  # fmt: skip


def test_hostile_labels_are_text_in_every_format(tmp_path: Path) -> None:
    ev = se.Evaluator("multiclass").update_many(HOSTILE, HOSTILE[1:] + HOSTILE[:1])
    ax = plots.plot_confusion(ev)
    for name, begin, end in (
        ("A.PNG", b"\x89PNG\r\n", b"IEND\xaeB`\x82"),
        ("a.svg", b"<?xml", b"</svg>\n"),
        ("a.pdf", b"%PDF-", b"%%EOF\n"),
        ("a.b.html", b"<!DOCTYPE html>", b"</html>\n"),
    ):
        plots.save_figure(ax, os.fspath(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(begin)
        assert (tmp_path / name).read_bytes().endswith(end)
    for name in ("a.gif", "a", "png", ".png"):
        with pytest.raises(se.InputError, match=r"expected a file name in \.png, \.svg, \.pdf"):
            plots.save_figure(ax, tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 4
    ElementTree.parse(tmp_path / "a.svg")
    for name in ("a.svg", "a.b.html"):
        text = (tmp_path / name).read_text("utf-8")
        assert text.count("<svg") == text.count("</svg>") == 1
        assert "<b>" not in text
        assert "<script" not in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
        # A comment ends at the first "-->": whatever follows it is a picture again.
        assert not re.search(r"-->\s*<script", text)
    # The page needs nothing from elsewhere.
    assert not re.search(r"(src|href)=['\"](?!#|data:)|url\(http|<\?xml", text)
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert max(map(len, shown)) <= 30
    assert not any(letter in label for label in shown for letter in "\n\x00\x1b")
    # No label is read as mathematics: dollars come in escaped.
    assert not any(re.search(r"(?<!\\)\$", label) for label in shown)


def test_confusion() -> None:
    ev = se.Evaluator("multiclass")
    ev.update_many(["a"] * 3 + ["b"], ["a", "a", "b", "b"])
    ax = plots.plot_confusion(ev)
    assert [text.get_text() for text in ax.texts] == ["2", "1", "0", "1"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b"]
    with pytest.raises(se.InputError, match="expected 1 to 30 classes to draw, got 0"):
        plots.plot_confusion(se.Evaluator("multiclass"))
    many = se.Evaluator("multiclass")
    many.update_many(range(31), range(31))
    with pytest.raises(se.InputError, match="got 31"):
        plots.plot_confusion(many)
    assert len(plots.plot_confusion(many, most=31).texts) == 31**2


def test_a_series_has_its_values_supports_and_band() -> None:
    ev = paned(24, missing=frozenset({5, 6}))
    rows = ev.series("accuracy", intervals=0.9)
    ax = plots.plot_series(rows, "accuracy")
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), [row.value for row in rows])
    (beneath,) = [other for other in ax.figure.axes if other is not ax]
    values, edges, _ = beneath.patches[0].get_data()
    assert values.tolist() == [row.support for row in rows]
    np.testing.assert_allclose(line.get_xdata(), edges[:-1] + 1 / 48)
    # The bars stay beneath the line, and the band within the axes.
    bottom, top = ax.get_ylim()
    lowest = (np.nanmin(line.get_ydata()) - bottom) / (top - bottom)
    assert max(values) / beneath.get_ylim()[1] < lowest
    (band,) = ax.patches
    high, _, low = band.get_data()
    ends = [(row.interval.low, row.interval.high) for row in rows if row.interval is not None]
    np.testing.assert_array_equal(np.column_stack([low, high]), ends)
    assert bottom < np.nanmin(low) < np.nanmax(high) < top
    # A pane alone between two gaps has no line to be seen by.
    alone = plots.plot_series(paned(9, missing=frozenset({3, 5})).series("f1"), "f1")
    assert alone.lines[0].get_marker() == "o"
    figure = Figure(figsize=(12, 4))
    left, right = figure.subplots(1, 2)
    assert plots.plot_curve(scored(), "roc", ax=left) is left
    for label in ("$country$=PT", "country=<b>"):
        assert plots.plot_series(rows, "f1", ax=right, label=label) is right
    assert len(right.lines) == 2
    assert len(figure.axes) == 2  # several lines have no bars of their own
    assert figure.get_layout_engine() is None  # the user's figure stays as it was laid out


def test_the_roc_curve_has_a_band_and_bins_have_whiskers() -> None:
    ev = scored()
    ax = plots.plot_curve(ev, "roc", intervals=0.95)
    (band,) = ax.patches
    inside = band.get_path()
    curve = ev.curve("roc")
    # The band ends at the borders of the unit square, where some points are.
    points = np.clip(np.column_stack([curve.fpr, curve.tpr]), 1e-6, 1 - 1e-6)
    assert inside.contains_points(points).all()
    positives = ev.confusion.true_count(True)
    both = 1 - math.sqrt(0.95)
    up = math.sqrt(math.log(2 / both) / 2 / positives)
    right = math.sqrt(math.log(2 / both) / 2 / (500 - positives))
    at = len(curve.fpr) // 2
    corner = np.array([curve.fpr[at] - right, curve.tpr[at] + up])
    assert inside.contains_point(np.clip(corner + np.array((0.002, -0.002)), 0, 1))
    assert not inside.contains_point(corner + np.array((-0.02, 0.02)))
    assert "95 % band of the curve" in str(ax.get_legend_handles_labels())
    low, high = calibration_band(ev.curve("calibration"), 0.95)
    (whiskers,) = plots.plot_curve(ev, "calibration", intervals=0.95).collections
    segments = np.array([segment[:, 1] for segment in whiskers.get_segments()])
    np.testing.assert_allclose(segments, np.column_stack([low, high]))


def sliced(**options: Any) -> SliceReport:
    source = random.Random(3)
    ev = se.Evaluator(slices=("country",))
    for n in range(300):
        country = ["PT", "DE", "$x^", "a very long name of a country indeed"][n % 4]
        positive = source.random() < 0.4
        wrong = source.random() < 0.1 * (1 + n % 4)
        ev.update(positive, positive != wrong, slices={"country": country})
    return ev.slice_report("accuracy", **options)


def test_slices_have_whiskers() -> None:
    report = sliced(intervals=0.95)
    ax = plots.plot_slices(report)
    (whiskers,) = ax.collections
    ends = [segment[:, 0].tolist() for segment in whiskers.get_segments()]
    assert ends == [[row.interval.low, row.interval.high] for row in report.rows if row.interval]
    points, total = ax.lines
    assert points.get_xdata().tolist() == [row.value for row in report.rows]
    assert total.get_xdata()[0] == report.total.value
    (band,) = ax.patches
    assert report.total.interval is not None
    assert band.get_x() == report.total.interval.low
    assert ax.get_yticklabels()[0].get_text() == "country=a very long nam…"
    # The worst is at the top.
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    without = plots.plot_slices(sliced(), most=2)
    assert not without.patches
    assert len(without.get_yticks()) == 2
    with pytest.raises(se.InputError, match="report: expected a report with slices, got none"):
        plots.plot_slices(sliced(worst=0))
    with pytest.raises(se.InputError, match="intervals: expected a number between 0 and 1"):
        plots.plot_curve(scored(), "roc", intervals=95)


def test_series_without_a_value_or_with_one(tmp_path: Path) -> None:
    ev = se.Evaluator(window=se.Panes("3h", pane="1h"), time_unit="s")
    empty = plots.plot_series(ev.series("recall"), "recall")
    assert [t.get_text() for t in empty.texts] == ["recall is undefined: no pane holds an event"]
    plots.save_figure(empty, tmp_path / "a.svg")
    ev.update_many([False] * 3, [False] * 3, event_time=[0, 4000, 8000])
    rows = ev.series("recall")
    ax = plots.plot_series(rows, "recall")
    assert rows[0].reason in ax.texts[0].get_text()
    # One pane of a constant value, and the borders of time.
    for start, end in (
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-08T00:00:00Z"),
        ("9999-12-30T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    ):
        ax = plots.plot_series([SeriesRow(start, end, 1.0, "", 1)], "accuracy")
        assert max(ax.get_yticks()) <= 1
        plots.save_figure(ax, tmp_path / "a.svg")
        (beneath,) = [other for other in ax.figure.axes if other is not ax]
        assert all(float(tick).is_integer() for tick in beneath.get_yticks())


def test_a_failure_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")
    ax = plots.plot_curve(scored(), "roc")

    def fail(*arguments: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ax.figure, "savefig", fail)
    with pytest.raises(MemoryError):
        plots.save_figure(ax, path)
    assert path.read_text() == "old"


def test_nothing_of_pyplot_is_changed() -> None:
    # Pytest and other tests leave the parameters as they were when matplotlib was imported.
    plots.plot_confusion(labelled()).figure.draw_without_rendering()
    plots.plot_series(paned(3).series("f1"), "f1").figure.draw_without_rendering()
    now, first = matplotlib.rcParams, matplotlib.rcParamsOrig
    assert [key for key in first if now[key] != first[key] and key != "backend"] == []
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []
