"""Pictures of curves, confusion counts, series and slices, as matplotlib axes.

Curves are drawn by scikit-learn's Display classes. Requires the extra
``plots``. Figures are made without pyplot, which would keep a reference to each.
"""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from streameval.certainty.calibration import calibration_band
from streameval.certainty.interval import checked_level
from streameval.certainty.proportions import distribution_gap
from streameval.errors import InputError, MetricError, MissingExtraError, shown
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.reports import SeriesRow, SliceReport, SliceRow
from streameval.evaluator.slices import slice_name
from streameval.evaluator.view import View
from streameval.events.values import Label, Weight
from streameval.metrics.curves import CURVES
from streameval.metrics.registry import METRICS
from streameval.metrics.undefined import NO_EVENTS

try:
    import matplotlib.dates
    import matplotlib.ticker
    from matplotlib.figure import Figure
    from sklearn import calibration as sklearn_calibration
    from sklearn import metrics as sklearn_metrics
except ImportError as error:
    package = (error.name or "matplotlib").partition(".")[0]
    raise MissingExtraError("plotting", package=package, extra="plots") from None

__all__ = [
    "check_picture",
    "plot_confusion",
    "plot_curve",
    "plot_series",
    "plot_slices",
    "save_figure",
]

_FORMATS = (".png", ".svg", ".pdf", ".html")

_LAST_DAY = 2_932_897 - 1e-6
"""The end of the year 9999, less a margin: later floats in days round to an invalid date."""

_LABEL_CHARACTERS = 24
_MANY_CLASSES = 10
_MANY_PANES = 100


def plot_curve(
    evaluator: Evaluator | View,
    name: str,
    ax: Any = None,
    *,
    intervals: float | None = None,
    **params: Any,
) -> Any:
    """Draw a curve.

    Args:
        evaluator: An evaluator, or the view of a slice.
        name: A name of :data:`streameval.metrics.CURVES`, such as ``"roc"``.
        ax: Matplotlib axes; those of a new figure by default.
        intervals: The level of what is drawn beside the curve; None: nothing. ``"roc"`` has a
            band that contains the whole true curve with that probability (Campbell 1994) and
            the interval of the area, ``"precision_recall"`` the interval of the average
            precision, ``"calibration"`` one for each bin.
        **params: Passed to :meth:`~streameval.Evaluator.curve`.

    Returns:
        The axes.

    Raises:
        MetricError: The curve is unknown, or no event had a score.
        InputError: The curve is undefined; the reason is in the message. Or the level is not
            between 0 and 1.
    """
    level = None if intervals is None else checked_level(intervals, "intervals")
    if name not in CURVES:
        raise MetricError(f"no curve is called {shown(name)}; there are {', '.join(CURVES)}")
    curve = evaluator.curve(name, **params)
    if isinstance(curve, dict):
        return _draw_classes(ax, name, curve)
    # One column of a precision-recall curve may be undefined; then nothing is drawn.
    if curve.reason or not all(np.isfinite(column).all() for column in _coordinates(curve, name)):
        reason = curve.reason or "values that are undefined"
        raise InputError("curve", expected="a curve that is defined", got=reason)
    ax = _axes(ax)
    display: Any
    if name in ("roc", "roc_ovr"):
        label, area = _area(evaluator, _metric_of_area(name, "roc_auc", params), "AUC", level)
        display = sklearn_metrics.RocCurveDisplay(fpr=curve.fpr, tpr=curve.tpr, roc_auc=area)
        display.plot(ax=ax, plot_chance_level=True, name=label)
        if level is not None and name == "roc":
            _draw_roc_band(ax, evaluator, curve, level)
    elif name in ("precision_recall", "precision_recall_ovr"):
        metric = _metric_of_area(name, "average_precision", params)
        label, area = _area(evaluator, metric, "AP", level)
        display = sklearn_metrics.PrecisionRecallDisplay(
            precision=curve.precision, recall=curve.recall, average_precision=area
        )
        display.plot(ax=ax, name=label)
    elif name == "det":
        sklearn_metrics.DetCurveDisplay(fpr=curve.fpr, fnr=curve.fnr).plot(ax=ax)
    elif name == "pr_gain":
        ax.plot(curve.recall_gain, curve.precision_gain)
        ax.set(xlabel="Recall gain", ylabel="Precision gain", xlim=(-0.01, 1.01), aspect="equal")
        ax.set_ylim(max(-0.5, float(np.min(curve.precision_gain))) - 0.01, 1.01)
    else:
        sklearn_calibration.CalibrationDisplay(
            prob_true=curve.observed, prob_pred=curve.predicted, y_prob=np.zeros(0)
        ).plot(ax=ax, markersize=4)
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        if level is not None:
            _draw_bins(ax, evaluator, curve, level)
    return ax


def _metric_of_area(name: str, metric: str, params: Mapping[str, Any]) -> str:
    """The metric that is a curve's area; of several classes there is one for each average."""
    if not name.endswith("_ovr"):
        return metric
    average = params.get("average", "macro")
    ending = {"macro": "_ovr", "weighted": "_ovr_weighted", "micro": "_micro"}[average]
    return metric + ending


_AXES = {
    "roc_ovr": ("False positive rate", "True positive rate"),
    "precision_recall_ovr": ("Recall", "Precision"),
}


def _draw_classes(ax: Any, name: str, curves: Mapping[Label, Any]) -> Any:
    """A line for each class that has a curve."""
    drawn = {label: curve for label, curve in curves.items() if not curve.reason}
    if not drawn:
        reason = next((curve.reason for curve in curves.values()), NO_EVENTS)
        raise InputError("curve", expected="a curve that is defined", got=reason)
    ax = _axes(ax)
    steps = "steps-post" if name == "precision_recall_ovr" else "default"
    for label, curve in drawn.items():
        ax.plot(*_coordinates(curve, name), label=str(label), drawstyle=steps)
    ax.set(xlabel=_AXES[name][0], ylabel=_AXES[name][1], aspect="equal")
    ax.legend()
    return ax


def _area(
    evaluator: Evaluator | View, metric: str, short: str, level: float | None
) -> tuple[str | None, float | None]:
    """The legend's text with the area's interval; else the area, for scikit-learn's own text."""
    if level is not None:
        found = evaluator.interval(metric, level=level)
        if found.defined:
            return f"{short} = {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]", None
    return None, evaluator[metric]


def _draw_roc_band(ax: Any, evaluator: Evaluator | View, curve: Any, level: float) -> None:
    """The curve moved by the largest errors of both rates, to the upper left and lower right."""
    counts = evaluator.thresholds("youden")
    positives, negatives = counts.tp + counts.fn, counts.fp + counts.tn
    if not (isinstance(positives, int) and isinstance(negatives, int)):
        # Kish's effective size is of all events, not of a class.
        return
    both = math.sqrt(level)
    up, right = distribution_gap(positives, both), distribution_gap(negatives, both)
    fpr, tpr = (np.concatenate([[0.0], rate, [1.0]]) for rate in (curve.fpr, curve.tpr))
    upper = np.clip(fpr - right, 0, 1), np.clip(tpr + up, 0, 1)
    lower = np.clip(fpr + right, 0, 1), np.clip(tpr - up, 0, 1)
    x, y = (
        np.concatenate([[0.0], above, [1.0, 1.0], below[::-1], [0.0]])
        if first
        else np.concatenate([[above[0]], above, [1.0, below[-1]], below[::-1], [0.0]])
        for first, above, below in ((True, upper[0], lower[0]), (False, upper[1], lower[1]))
    )
    ax.fill(x, y, alpha=0.15, linewidth=0, label=f"{level * 100:g} % band of the curve")
    ax.legend(loc="lower right")


def _draw_bins(ax: Any, evaluator: Evaluator | View, curve: Any, level: float) -> None:
    found = evaluator.interval("expected_calibration_error", level=level)
    whole = not found.method.endswith("(Kish)")
    low, high = calibration_band(curve, level, None if whole else found.n)
    ax.errorbar(
        curve.predicted,
        curve.observed,
        yerr=np.clip([curve.observed - low, high - curve.observed], 0, None),
        fmt="none",
        elinewidth=1,
        capsize=2,
        alpha=0.6,
    )


def _coordinates(curve: Any, name: str) -> list[Any]:
    pairs = {
        "roc": ("fpr", "tpr"),
        "roc_ovr": ("fpr", "tpr"),
        "precision_recall": ("recall", "precision"),
        "precision_recall_ovr": ("recall", "precision"),
        "det": ("fpr", "fnr"),
        "pr_gain": ("recall_gain", "precision_gain"),
        "calibration": ("predicted", "observed"),
        "calibration_quantile": ("predicted", "observed"),
    }
    return [getattr(curve, column) for column in pairs[name]]


def plot_confusion(evaluator: Evaluator | View, ax: Any = None, most: int = 30) -> Any:
    """Draw the confusion counts, rows true and columns predicted.

    Args:
        evaluator: An evaluator, or the view of a slice.
        ax: Matplotlib axes; those of a new figure by default.
        most: The largest number of classes to draw.

    Raises:
        InputError: There are more classes than ``most``, or none.
    """
    counts = evaluator.confusion
    classes = len(counts.labels)
    if not 1 <= classes <= most:
        raise InputError("confusion", expected=f"1 to {most} classes to draw", got=str(classes))
    ax = _axes(ax, *([0.45 * classes + 2] * 2 if classes > _MANY_CLASSES else []))
    labels = [_plain(str(label)) for label in counts.labels]
    sklearn_metrics.ConfusionMatrixDisplay(counts.to_array(), display_labels=labels).plot(
        ax=ax,
        values_format="d" if counts.exact else ".4g",
        colorbar=False,
        cmap="Blues",
        xticks_rotation="horizontal" if max(map(len, labels)) * classes <= 40 else "vertical",
        text_kw={"fontsize": 7} if classes > _MANY_CLASSES else None,
    )
    return ax


def plot_series(rows: Sequence[SeriesRow], metric: str, ax: Any = None, label: str = "") -> Any:
    """Draw a metric over time, with the support of each pane beneath.

    Args:
        rows: From :meth:`streameval.Evaluator.series`.
        metric: Its name, for the axis.
        ax: Matplotlib axes; those of a new figure by default.
        label: Name of the line, if several share the axes; supports are
            then not drawn.

    Returns:
        The axes. Panes without a value leave a gap. Rows with intervals have a band.
    """
    ax = _axes(ax, width=9.0)
    ax.set_ylabel(_plain(metric))
    ax.set_xlabel("event time (UTC)")
    ax.grid(alpha=0.3)
    values = np.asarray([row.value for row in rows], dtype=np.float64)
    if not np.isfinite(values).any():
        reason = next((row.reason for row in rows), "no pane holds an event")
        words = _plain(f"{metric} is undefined: {reason}", 80)
        ax.text(0.5, 0.6, words, ha="center", transform=ax.transAxes, wrap=True)
        ax.set_yticks([])
    if not rows:
        ax.set_xticks([])
        return ax
    dates: Any = matplotlib.dates
    edges = dates.date2num([datetime.fromisoformat(row.start) for row in rows])
    edges = np.append(edges, dates.date2num(datetime.fromisoformat(rows[-1].end)))
    edges = np.minimum(edges, _LAST_DAY)
    many = len(rows) > _MANY_PANES
    ax.plot(
        (edges[:-1] + edges[1:]) / 2,
        values,
        # A pane between two undefined ones has no line, only a marker.
        marker="o",
        markersize=1.5 if many else 3,
        linewidth=0.8 if many else 1.5,
        label=_plain(label or metric),
    )
    _draw_ends(ax, edges, rows)
    # Markers are in the middle of their panes; dates before the year 1 do not exist.
    ax.margins(x=0)
    ax.update_datalim([(edge, 0.0) for edge in (edges[0], edges[-1])], updatey=False)
    ax.autoscale_view(scaley=False)
    locator = dates.AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    if not label:
        _draw_support(ax, edges, [row.support for row in rows])
        known = METRICS.get(metric)
        if known is not None:
            ax.set_yticks([tick for tick in ax.get_yticks() if known.low <= tick <= known.high])
    return ax


def plot_slices(report: SliceReport, ax: Any = None, most: int = 30) -> Any:
    """Draw a metric of slices, the worst at the top, beside that of all events.

    Args:
        report: From :meth:`streameval.Evaluator.slice_report`; with ``intervals=`` each slice
            has whiskers, and the total a band.
        ax: Matplotlib axes; those of a new figure by default.
        most: Only so many of the slices.

    Returns:
        The axes. A slice without a value has a row without a point.

    Raises:
        InputError: The report has no slice.
    """
    rows = report.rows[:most]
    if not rows:
        raise InputError("report", expected="a report with slices", got="none")
    ax = _axes(ax, width=7.0, height=1.2 + 0.3 * len(rows))
    places = np.arange(len(rows))
    low, high = _ends_of(rows)
    ax.hlines(places, low, high, linewidth=1.5, alpha=0.6)
    ax.plot([row.value for row in rows], places, marker="o", markersize=4, linestyle="none")
    ax.axvline(report.total.value, color="0.4", linewidth=1, linestyle=":")
    (bottom,), (top,) = _ends_of([report.total])
    if np.isfinite(bottom):
        ax.axvspan(bottom, top, color="0.5", alpha=0.15, linewidth=0)
    ax.set_yticks(places, [_plain(slice_name(row.slice)) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(f"{_plain(report.metric)}; dotted: all events")
    ax.grid(axis="x", alpha=0.3)
    return ax


def _ends_of(rows: Sequence[SeriesRow] | Sequence[SliceRow]) -> tuple[Any, Any]:
    """The lower and the upper ends; nan where there is no interval."""
    nothing = (np.nan, np.nan)
    ends = [(row.interval.low, row.interval.high) if row.interval else nothing for row in rows]
    low, high = np.array(ends).T
    return low, high


def _draw_ends(ax: Any, edges: Any, rows: Sequence[SeriesRow]) -> None:
    """The interval of each pane over its whole width; a gap where there is none."""
    low, high = _ends_of(rows)
    if np.isfinite(low).any():
        color = ax.lines[-1].get_color()
        ax.stairs(high, edges, baseline=low, fill=True, alpha=0.2, linewidth=0, color=color)


def _draw_support(ax: Any, edges: Any, support: Sequence[Weight]) -> None:
    """The supports as one grey outline in the lowest quarter, behind the line."""
    beneath = ax.twinx()
    beneath.margins(x=0)
    beneath.stairs(support, edges, fill=True, color="0.87")
    most = float(max(support)) or 1.0
    whole = all(isinstance(weight, int) for weight in support)
    beneath.set_ylim(0, 4 * most)
    low, high = ax.get_ylim()
    ax.set_ylim(low - 0.3 * (high - low), high)
    # Each axis has ticks only in the range of its own values.
    ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= high])
    ticks = matplotlib.ticker.MaxNLocator(2, steps=[1, 2, 5, 10], integer=whole)
    beneath.set_yticks([tick for tick in ticks.tick_values(0, most) if 0 <= tick <= most])
    beneath.yaxis.set_major_formatter(lambda tick, _: f"{tick:,.10g}")
    beneath.set_ylabel("support", color="0.45", y=0.125)
    beneath.tick_params(axis="y", colors="0.45")
    beneath.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)


def check_picture(path: str | os.PathLike[str], field: str = "plot") -> str:
    """The suffix of a picture's file name; raises InputError for an unsupported one."""
    name = os.fspath(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in _FORMATS:
        raise InputError(field, expected=f"a file name in {', '.join(_FORMATS)}", got=shown(name))
    return ending


def save_figure(ax: Any, path: str | os.PathLike[str]) -> None:
    """Write the axes' figure as ``.png``, ``.svg``, ``.pdf`` or a self-contained ``.html`` page.

    Raises:
        InputError: The suffix is not supported.
        OSError: The file cannot be written.
    """
    ending = check_picture(path)
    figure = ax.figure
    picture = io.BytesIO()
    with warnings.catch_warnings():
        # Labels may be of any script; glyphs that the font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(picture, format="svg" if ending == ".html" else ending[1:], dpi=150)
    data = picture.getvalue()
    if ending == ".html":
        data = (
            b"<!DOCTYPE html>\n<html lang='en'><meta charset='utf-8'><title>streameval</title>"
            b"<style>body{margin:2rem}svg{max-width:100%;height:auto}</style>\n"
            + data[data.index(b"<svg") :]
            + b"</html>\n"
        )
    # The picture is complete before the file is opened.
    with open(path, "wb") as file:
        file.write(data)


def _axes(ax: Any, width: float = 5.0, height: float = 4.5) -> Any:
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").subplots()


def _plain(text: str, most: int = _LABEL_CHARACTERS) -> str:
    """Text of a stream as one short line that matplotlib does not parse as mathematics."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    cut = line if len(line) <= most else line[: most - 1] + "…"
    return cut.replace("$", r"\$")
