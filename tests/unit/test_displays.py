"""Displays: one picture as data for both drawers, conventions, several classes, few events."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk

import streameval as se

pytest.importorskip("matplotlib")
pytest.importorskip("plotly")

from matplotlib.figure import Figure

from streameval.metrics.score_profiles import score_distribution
from streameval.metrics.undefined import NO_EVENTS
from streameval.plots import DISPLAYS, RocCurveDisplay, SeriesDisplay, available_displays
from streameval.plots.picture import MUTED, Bars, Line, line_look, thinned

pytestmark = pytest.mark.slow


def scored(count: int, seed: int = 1) -> se.Evaluator:
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


def classes(number: int, count: int = 120) -> se.Evaluator:
    draw = random.Random(number)
    names = [f"<b>{n}" for n in range(number)]
    ev = se.Evaluator("multiclass")
    for n in range(count):
        weights = [draw.random() + (n % number == k) for k in range(number)]
        shares = {name: weight / sum(weights) for name, weight in zip(names, weights, strict=True)}
        ev.update(names[n % number], proba=shares)
    return ev


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
