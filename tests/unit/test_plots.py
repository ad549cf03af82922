"""Pictures and displays: every curve and format, conventions, hostile text, gaps, few events."""

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
from sklearn import metrics as sk

import streameval as se
from streameval.evaluator.reports import SeriesRow, SliceReport
from streameval.metrics.curves import CURVES
from streameval.metrics.score_profiles import score_distribution
from streameval.metrics.undefined import NO_EVENTS
from streameval.uncertainty.calibration import calibration_band

pytest.importorskip("matplotlib")
pytest.importorskip("plotly")

import matplotlib
from matplotlib.figure import Figure

from streameval import plots
from streameval.plots import DISPLAYS, RocCurveDisplay, SeriesDisplay, available_displays
from streameval.plots.picture import MUTED, Bars, Line, line_look, thinned

pytestmark = pytest.mark.slow

OF_ANY_SCORES = ("score_distribution", "threshold_metrics")
"""Curves that one score of one class has."""


def scored(count: int = 500, seed: int = 1) -> se.Evaluator:
    draw = random.Random(seed)
    truth = [draw.random() < 0.4 for _ in range(count)]
    ev = se.Evaluator(window=se.Panes("4h", pane="1h"), time_unit="s", slices=("c",))
    ev.update_many(
        truth,
        score=[min(1.0, max(0.0, draw.gauss(0.6 if y else 0.4, 0.2))) for y in truth],
        event_time=[9e8 + 4 * 3600 * n / count for n in range(count)],
        slices={"c": [draw.choice("pq") for _ in truth]},
    )
    return ev


def paned(hours: int = 24, missing: frozenset[int] = frozenset()) -> se.Evaluator:
    source = random.Random(hours)
    ev = se.Evaluator(window=se.Panes(f"{hours}h", pane="1h"), time_unit="s")
    times = [t for t in range(0, hours * 3600, 180) if t // 3600 not in missing]
    labels = [source.random() < 0.5 for _ in times]
    return ev.update_many(labels, score=[source.random() for _ in times], event_time=times)


def labelled() -> se.Evaluator:
    return se.Evaluator().update(True, True)


def classes(number: int, count: int = 120) -> se.Evaluator:
    draw = random.Random(number)
    names = [f"<b>{n}" for n in range(number)]
    ev = se.Evaluator("multiclass")
    for n in range(count):
        weights = [draw.random() + (n % number == k) for k in range(number)]
        shares = {name: weight / sum(weights) for name, weight in zip(names, weights, strict=True)}
        ev.update(names[n % number], proba=shares)
    return ev


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


def test_every_display_draws_the_same_with_both(tmp_path: Path) -> None:
    every = available_displays(scored(200), intervals=0.9, reference=scored(90, seed=2))
    shown = {name: display for name, display, _ in every}
    numbers = se.Evaluator("regression", metrics=["max_error"]).update_many([1.0, 2.0], [1.5, 1.0])
    for name in ("residuals", "actual_vs_predicted"):
        shown[name] = DISPLAYS[name].computed(numbers)
    assert set(shown) == set(DISPLAYS)
    for name, display in shown.items():
        assert display is not None, name
        figure = display.to_plotly()
        assert display.plot() is display
        assert display.figure_ is display.ax_.figure
        assert display.line_ is display.lines_[0]
        assert figure.layout.xaxis.title.text == display.ax_.get_xlabel()
        traces = [trace.y for trace in figure.data if trace.type == "scatter"]
        values = [[math.nan if y is None else y for y in trace] for trace in traces]
        for mark in display.picture.marks:
            if isinstance(mark, Line) and name != "series":
                assert any(np.array_equal(mark.y, y, equal_nan=True) for y in values), name
    assert shown["roc"]._repr_png_().startswith(b"\x89PNG")
    shown["gain"].save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_bytes().endswith(b"</html>\n")


def test_conventions_of_scikit_learn() -> None:
    ev, ax = scored(200), Figure().subplots()
    display = RocCurveDisplay.from_evaluator(ev, ax, name="model", color="k", lw=3)
    assert display.ax_ is ax
    assert display.line_.get_label() == f"model (AUC = {ev['roc_auc']:.2f})"
    assert (display.line_.get_color(), display.line_.get_linewidth()) == ("k", 3)
    chance = ax.get_lines()[-1]
    assert (chance.get_color(), chance.get_label()) == (MUTED, "Chance level (AUC = 0.5)")
    np.testing.assert_array_equal(display.fpr, ev.curve("roc").fpr)


def test_each_class_against_the_rest() -> None:
    ev = classes(4)
    display = RocCurveDisplay.from_evaluator(ev)
    assert display.areas == ev.value("roc_auc_ovr", average=None)
    assert len({(line.get_color(), line.get_linestyle()) for line in display.lines_}) == 4
    assert "<b>" not in display.to_plotly().to_json()
    assert len(RocCurveDisplay.from_evaluator(ev, classes=["<b>2"]).lines_) == 1
    for of, options, message in (
        (ev, {"classes": ["x"]}, "label: expected one of 4 classes"),
        (scored(10), {"classes": [1]}, "classes: expected classes of a multiclass task"),
        (classes(21), {}, r"at most 20 classes.*classes=\[\.\.\.\]"),
    ):
        with pytest.raises(se.InputError, match=message):
            RocCurveDisplay.computed(of, **options)
    assert len({line_look(n) for n in range(18)}) == 18


def test_one_vs_rest_is_the_binary_task() -> None:
    draw = random.Random(7)
    for limit in (None, 1024):
        ev = se.Evaluator("multiclass", max_scores=limit)
        binary = se.Evaluator(positive="a", labels=["a", "not a"])
        for _ in range(150):
            truth, share = draw.choice("abc"), draw.randrange(17) / 16
            weight = draw.randrange(1, 4)
            proba = {"a": share, "b": 1 - share} if share < 1 else {"a": 1.0}
            ev.update(truth, proba=proba, weight=weight)
            binary.update("a" if truth == "a" else "not a", score=share, weight=weight)
        view = ev.one_vs_rest("a")
        for name in ("roc_auc", "average_precision", "ks"):
            assert view[name] == binary[name]
        for name in ("roc", "gain", "threshold_metrics", "score_distribution"):
            for one, other in zip(view.curve(name), binary.curve(name), strict=True):
                np.testing.assert_array_equal(one, other)
        if limit is None:
            assert view["log_loss"] == binary["log_loss"]
        with pytest.raises(se.MetricError, match="f1 is not in this view of one_vs_rest"):
            view["f1"]
    with pytest.raises(se.MetricError, match="for multiclass tasks"):
        binary.one_vs_rest("a")


def test_new_curves_are_those_of_their_definitions() -> None:
    ev = scored(40)
    scores, positives, negatives = ev.total._window.current().index.groups()
    truth = np.repeat(np.tile([1, 0], len(scores)), np.column_stack([positives, negatives]).ravel())
    column = np.repeat(scores, positives + negatives)
    table = ev.curve("threshold_metrics")
    for n, threshold in enumerate(table.threshold.tolist()):
        guess = (column >= threshold).astype(int)
        for found, score, label in (
            (table.precision, sk.precision_score, 1),
            (table.recall, sk.recall_score, 1),
            (table.f1, sk.f1_score, 1),
            (table.specificity, sk.recall_score, 0),
        ):
            assert found[n] == pytest.approx(score(truth, guess, pos_label=label), abs=1e-12)
        assert table.share[n] == guess.mean()
    gain = ev.curve("gain")
    np.testing.assert_array_equal(gain.gain[1:], table.recall[::-1])
    np.testing.assert_allclose(gain.lift[1:], gain.gain[1:] / gain.share[1:], rtol=1e-12)
    heavy = se.Evaluator().update_many(truth, score=column, weight=[2**40] * len(truth))
    np.testing.assert_array_equal(heavy.curve("gain").lift, gain.lift)
    histogram = ev.curve("score_distribution", bins=7)
    assert (histogram.negatives.sum(), histogram.low[0]) == ((1 - truth).sum(), 0)
    for low, high, count in zip(histogram.low, histogram.high, histogram.positives, strict=True):
        above = (column > low) | ((low == 0) & (column == 0))
        assert count == (above & (column <= high) & (truth == 1)).sum()


def test_histograms_of_any_scores() -> None:
    for values, ends in (([5.0], (3.75, 6.25)), ([-1e308, 1e308],) * 2, ([2.0, 3.0],) * 2):
        index = se.ScoreIndex([(True, value) for value in values])
        histogram = score_distribution(index, bins=4)
        assert histogram.positives.sum() == len(values)
        assert [histogram.low[0], histogram.high[-1]] == list(ends)
    inside = score_distribution(index, bins=2, limits=(2.5, 3))
    assert inside.positives.tolist() == [0, 1]
    assert [inside.low.tolist(), inside.high.tolist()] == [[2.5, 2.75], [2.75, 3.0]]
    for wrong in ({"bins": 0}, {"limits": (1, 1)}, {"limits": 3}):
        with pytest.raises(se.MetricError, match="expected"):
            score_distribution(index, **wrong)  # type: ignore[arg-type]
    assert score_distribution(se.ScoreIndex()).reason == NO_EVENTS


def test_residuals_of_a_regression() -> None:
    ev = se.Evaluator("regression", metrics=["median_absolute_error"])
    ev.update_many([1.0, 2.0, 3.0, 9.0], [1.5, 1.0, 3.0, 6.0])
    display = DISPLAYS["residuals"].computed(ev, bins=2)
    assert display.distribution.events.tolist() == [3, 1]
    assert display.distribution.low[0] == -0.5
    assert "dotted: no error" in display.to_svg()
    same = se.Evaluator("regression", metrics=["max_error"]).update(2.0, 5.0)
    assert same.curve("residuals", bins=3).events.sum() == 1
    for wrong, name, reason in (
        (se.Evaluator("regression"), "residuals", "not kept"),
        (se.Evaluator(), "residuals", "is not for binary"),
        (ev, "roc", "the curve roc is of scores, and a regression has numbers"),
    ):
        ((_, _, found),) = available_displays(wrong, names=[name])
        assert reason in found


def test_drift_is_drawn_as_shares_of_both_sides() -> None:
    now, last = scored(200), se.Predictions().update_many(score=[0.1, 0.2, 0.2, 0.9])
    display = DISPLAYS["drift"].computed(now, reference=last, bins=4, names=("a", "b"))  # type: ignore[attr-defined]
    reference, current = (mark for mark in display.picture.marks if isinstance(mark, Bars))
    assert (reference.heights.tolist(), reference.name) == ([0.75, 0, 0, 0.25], "b (4)")
    assert current.heights.sum() == pytest.approx(1)
    assert display.picture.legend == f"ks {last.drift(now, 'ks')}"
    labels = last.plot("drift", reference=now.total, measure="cramers_v")
    assert labels.picture.legend == f"cramers_v {labels.drift}"
    assert labels.shares.now.tolist() == [0.75, 0.25]
    # Of many labels those that moved most, in their order.
    columns = [*"abcccd"], [*"abccdd"], ["n" * 20, "m" * 20, "o" * 20]
    one, other, long = (se.Predictions(task="multiclass").update_many(names) for names in columns)
    few = one.plot("drift", reference=other, most=2)
    assert [text for _, text in few.picture.x.ticks] == ["c", "d"]
    assert few.picture.marks[1].heights[1::3].tolist() == [3 / 6, 1 / 6]
    assert few.to_plotly().layout.xaxis.ticktext == ("c", "d")
    # Names that would meet are turned, like that of the axis.
    assert long.plot("drift", reference=long).to_svg().count("rotate(-90") == 4
    needed = "reference: expected an evaluator, predictions, a view of one, or the"
    for options, message in (
        ({}, needed),
        ({"reference": se.Predictions()}, "drift: expected events on both sides, got the"),
        ({"reference": 3}, needed),
        ({"reference": one}, "ks compares scores of binary tasks"),
    ):
        with pytest.raises((se.InputError, se.MetricError), match=re.escape(message)):
            last.plot("drift", **options)


@pytest.mark.parametrize("count", [0, 2])
def test_few_events_are_drawn_or_say_why(count: int) -> None:
    ev = se.Evaluator()
    ev.update_many([True, False][:count], score=[0.9, 0.5][:count])
    drawn = set()
    for name, display, reason in available_displays(ev, intervals=0.95):
        assert (display is None) == bool(reason)
        if display is not None:
            display.plot()
            display.to_plotly()
            drawn.add(name)
    assert ("roc" in drawn) == (count > 1)


def test_a_track_is_a_series_and_long_curves_are_thinned() -> None:
    track = se.Evaluator().track(every=10)
    track.update_many([True, False] * 15, [True] * 30)
    display = SeriesDisplay.of_rows(track.series("accuracy"), "accuracy")
    assert display.plot().line_.get_xdata().tolist() == [5, 15, 25]
    several = SeriesDisplay.of_rows(dict.fromkeys("ab", track.series("accuracy")), "accuracy")
    assert len(several.plot().lines_) == 2
    x = np.linspace(0, 1, 100_000)
    few, high = thinned(x, (x > 0.5).astype(float))
    assert len(few) <= 4_001
    assert (few[0], few[-1], high[0], high[-1]) == (0, 1, 0, 1)
    assert np.isin(few, x).all()
