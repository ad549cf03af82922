"""The figures of the site, drawn from what the code computes.

Text and axes are grey, which can be read on white and on black, and the background is transparent.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import streameval as se
from docsite.reference import labelled, metric_groups
from streameval.plots import ALONE, DISPLAYS

_GREY = "#808691"
_BLUE, _ORANGE, _GREEN = "#2f7ed8", "#e8710a", "#2a9d5c"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "streameval",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _GREY,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _GREY,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}

QUALITIES = np.linspace(0, 4, 17)
"""Distances between the scores of the classes, in standard deviations."""


def figures() -> dict[str, bytes]:
    """Every figure: path and SVG."""
    with matplotlib.rc_context(_STYLE):
        found = {f"figures/{name}.svg": _svg(draw) for name, draw in _DRAWN.items()}
        for base, values in _metric_values().items():
            found[f"figures/metrics/{base}.svg"] = _svg(_drawn_metric(values))
    ev = _sliced()
    earlier = _sliced(0.9)
    for name, display in DISPLAYS.items():
        options = {} if name in ALONE else {"reference": earlier}
        shown = _residuals() if name in ("residuals", "actual_vs_predicted") else ev
        found[f"figures/displays/{name}.svg"] = display.computed(shown, **options).to_svg().encode()
    return found


def _residuals() -> se.Evaluator:
    """A regression that keeps its residuals."""
    rng = np.random.default_rng(3)
    truth = rng.normal(10, 4, 2_000)
    ev = se.Evaluator(task="regression", metrics=["mean_absolute_error", "max_error"])
    return ev.update_many(truth, truth + rng.normal(0.3, 1.5, len(truth)))


def _svg(draw: Callable[[Any], None]) -> bytes:
    figure = Figure(figsize=(6.2, 3.1))
    # Fixed margins: a computed layout takes ten times as long, for each of a hundred figures.
    axes = figure.add_axes((0.12, 0.17, 0.86, 0.79))
    draw(axes)
    file = io.BytesIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()


# Metrics


def simulated(quality: float, share: float, events: int = 2000) -> tuple[Any, Any]:
    """Labels, of which a share is positive, and their calibrated probabilities."""
    rng = np.random.default_rng(1)
    positive = np.arange(events) < round(share * events)
    rng.shuffle(positive)
    shown = rng.standard_normal(events) + quality * (positive - 0.5)
    odds = np.exp(quality * shown) * share / (1 - share)
    return positive, odds / (1 + odds)


def _binary(quality: float, share: float) -> se.Evaluator:
    ev = se.Evaluator(task="binary", temporal=True)
    positive, score = simulated(quality, share)
    ev.update_many(positive, score=score)
    return ev


def _multiclass(quality: float, share: float) -> se.Evaluator:
    rng = np.random.default_rng(1)
    events = 2000
    rest = (1 - share) / 2
    shares = np.array([share, rest, rest])
    true = rng.choice(3, events, p=shares)
    seen = rng.standard_normal((events, 3))
    seen[np.arange(events), true] += quality
    odds = np.exp(quality * seen) * shares
    labels = ["a", "b", "c"]
    ev = se.Evaluator(task="multiclass", labels=labels, temporal=True)
    ev.update_many([labels[k] for k in true], proba=odds / odds.sum(axis=1, keepdims=True))
    return ev


def _sliced(quality: float = 1.5) -> se.Evaluator:
    """What every display can show: scores, panes and slices."""
    positive, score = simulated(quality, 0.3)
    ev = se.Evaluator(window=se.Panes("20m", pane="1m"), slices=("country",), time_unit="s")
    countries = np.random.default_rng(0).choice(["DE", "FR", "PT"], positive.size)
    seconds = np.arange(positive.size) / 2 + 1.7e9
    ev.update_many(positive, score=score, event_time=seconds, slices={"country": countries})
    return ev


_SAMPLES: dict[str, list[tuple[str, Callable[[float], se.Evaluator]]]] = {
    "binary": [
        ("half positive", lambda quality: _binary(quality, 0.5)),
        ("a tenth positive", lambda quality: _binary(quality, 0.1)),
    ],
    "multiclass": [
        ("three equal classes", lambda quality: _multiclass(quality, 1 / 3)),
        ("one class with 90 %", lambda quality: _multiclass(quality, 0.9)),
    ],
}


def _metric_values() -> dict[str, dict[str, list[float]]]:
    """Of each page's metric the values of each sample."""
    drawn = {}
    for base, group in metric_groups().items():
        if not labelled(group):
            continue
        metric = next((one for one in group if one.name == base), group[0])
        drawn[base] = (metric.name, "binary" if "binary" in metric.tasks else "multiclass")
    values: dict[str, dict[str, list[float]]] = {base: {} for base in drawn}
    for task, samples in _SAMPLES.items():
        for text, sample in samples:
            for quality in QUALITIES:
                ev = sample(float(quality))
                for base, (name, of) in drawn.items():
                    if of == task:
                        values[base].setdefault(text, []).append(float(ev.value(name)))
    return values


def _drawn_metric(values: dict[str, list[float]]) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        for (text, line), colour in zip(values.items(), (_BLUE, _ORANGE), strict=True):
            axes.plot(QUALITIES, line, color=colour, label=text, marker=".")
        axes.set(xlabel="distance between the classes", xlim=(0, 4))
        axes.legend()

    return draw


# Explanations


def _draw_exactness(axes: Any) -> None:
    """AUC from a fixed number of thresholds, against that of all scores."""
    rng = np.random.default_rng(0)
    positive = rng.random(100_000) < 0.01
    score = np.where(positive, rng.beta(2, 20, positive.size), rng.beta(1, 60, positive.size))
    ev = se.Evaluator()
    ev.update_many(positive, score=score)
    numbers = [5, 10, 20, 50, 100, 200, 500, 1000]
    found = []
    for number in numbers:
        # Rates at equally spaced thresholds, joined by straight lines.
        at = np.linspace(0, 1, number)
        tpr = [(score[positive] >= one).mean() for one in at]
        fpr = [(score[~positive] >= one).mean() for one in at]
        found.append(-np.trapezoid([*tpr, 0], [*fpr, 0]))
    axes.semilogx(numbers, found, color=_ORANGE, marker="o", label="fixed thresholds")
    axes.axhline(float(ev["roc_auc"]), color=_BLUE, label="streameval: all scores")
    axes.set(xlabel="thresholds between 0 and 1", ylabel="ROC AUC")
    axes.legend()


def _draw_windows(axes: Any) -> None:
    """A model that breaks in the middle, as each window sees it."""
    rng = np.random.default_rng(0)
    windows = {
        "all events": None,
        "Last(500)": se.Last(500),
        'Panes("10m", pane="1m")': se.Panes("10m", pane="1m"),
        'Fading("5m")': se.Fading("5m"),
    }
    seconds = np.arange(4000)
    right = rng.random(seconds.size) < np.where(seconds < 2000, 0.9, 0.6)
    colours = (_GREY, _GREEN, _BLUE, _ORANGE)
    for (text, window), colour in zip(windows.items(), colours, strict=True):
        ev = se.Evaluator(window=window, time_unit="s")
        line = []
        for begin in range(0, seconds.size, 20):
            part = slice(begin, begin + 20)
            ev.update_many(np.ones(20, bool), right[part], event_time=seconds[part] + 10**9)
            line.append(ev["accuracy"])
        axes.plot(np.arange(len(line)) * 20 / 60, line, color=colour, label=text)
    axes.set(xlabel="minutes", ylabel="accuracy", ylim=(0.5, 1))
    axes.legend()


def _draw_bounds(axes: Any) -> None:
    """The width of the bounds of the AUC by the limit of distinct scores."""
    rng = np.random.default_rng(0)
    positive = rng.random(300_000) < 0.3
    score = np.where(positive, rng.beta(3, 2, positive.size), rng.beta(2, 3, positive.size))
    limits = [2**power for power in range(10, 18)]
    widths = []
    for limit in limits:
        ev = se.Evaluator(max_scores=limit)
        ev.update_many(positive, score=score)
        widths.append(ev.bounds("roc_auc").width)
    axes.loglog(limits, widths, color=_BLUE, marker="o", base=10)
    axes.set(xlabel="max_scores", ylabel="width of the certain bounds of AUC")


def _draw_intervals(axes: Any) -> None:
    """The interval of an accuracy after each event, and one that holds at every look."""
    rng = np.random.default_rng(3)
    right = rng.random(3000) < 0.8
    at = np.unique(np.geomspace(10, right.size, 60).astype(int))
    ends: dict[str, list[tuple[float, float]]] = {"wilson": [], "anytime": []}
    values = []
    for events in at:
        ev = se.Evaluator()
        ev.update_many(np.ones(events, bool), right[:events])
        values.append(ev["accuracy"])
        for method, found in ends.items():
            interval = ev.interval("accuracy", method=method)
            found.append((interval.low, interval.high))
    texts = {"anytime": "anytime: at all looks together", "wilson": "Wilson: at one look"}
    for (method, text), colour in zip(texts.items(), (_ORANGE, _BLUE), strict=True):
        low, high = zip(*ends[method], strict=True)
        axes.fill_between(at, low, high, color=colour, alpha=0.3, label=text, linewidth=0)
    axes.plot(at, values, color=_BLUE, label="value")
    axes.axhline(0.8, color=_GREY, linestyle="--", label="the truth")
    axes.set(xlabel="events", ylabel="accuracy", xscale="log", xlim=(10, right.size))
    axes.legend(loc="lower right")


def _draw_expected(axes: Any) -> None:
    """Expected F1 of each day and its value, with a tenth of the labels flipped from day 10 on."""
    rng = np.random.default_rng(2)

    def events(size: int) -> tuple[Any, Any]:
        score = 1 / (1 + np.exp(-rng.normal(-0.5, 1.5, size)))
        return rng.random(size) < score, score

    label, score = events(5_000)
    reference = se.Evaluator().update_many(label, score=score)
    label, score = events(20_000)
    days = np.arange(label.size) // 1_000
    label ^= (days >= 10) & (rng.random(label.size) < 0.1)
    ev = se.Evaluator(window=se.Panes("20d", pane="1d"), time_unit="s")
    ev.update_many(label, score=score, event_time=1_699_920_000 + days * 86_400)
    rows = ev.check_expected("f1", reference).rows
    low, high, value = (
        np.array(column)
        for column in zip(*((r.expected.low, r.expected.high, r.value) for r in rows), strict=True)
    )
    held = np.array([row.held for row in rows])
    at = np.arange(len(rows))
    axes.fill_between(at, low, high, color=_BLUE, alpha=0.3, linewidth=0, label="expected, 95 %")
    axes.plot(at[held], value[held], "o", color=_GREEN, label="value, held")
    axes.plot(at[~held], value[~held], "o", color=_ORANGE, label="value, outside")
    axes.axvline(9.5, color=_GREY, linestyle="--")
    axes.set(xlabel="day", ylabel="F1", xlim=(-0.5, 19.5), ylim=(0.54, 0.73))
    axes.set_xticks(range(0, 20, 5))
    axes.legend(loc="lower left")


_DRAWN = {
    "exactness": _draw_exactness,
    "windows": _draw_windows,
    "bounds": _draw_bounds,
    "intervals": _draw_intervals,
    "expected": _draw_expected,
}
