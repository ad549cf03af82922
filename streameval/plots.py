"""Pictures of curves, confusion counts and series, as matplotlib axes.

Curves are drawn by scikit-learn's Display classes, which users know. Needs
the extra ``plots``.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from streameval.errors import InputError, MetricError, MissingExtraError, shown
from streameval.evaluator import Evaluator
from streameval.report import SeriesRow
from streameval.view import View

try:
    import matplotlib.dates
    from matplotlib.figure import Figure
    from sklearn import calibration as sklearn_calibration
    from sklearn import metrics as sklearn_metrics
except ImportError as error:
    package = (error.name or "matplotlib").partition(".")[0]
    raise MissingExtraError("plotting", package=package, extra="plots") from None

__all__ = ["plot_confusion", "plot_curve", "plot_series", "save_figure"]

_FORMATS = (".png", ".svg", ".pdf", ".html")


def plot_curve(evaluator: Evaluator | View, name: str, ax: Any = None, **params: Any) -> Any:
    """Draw a curve: ``"roc"``, ``"precision_recall"``, ``"det"`` or ``"calibration"``.

    Args:
        evaluator: An evaluator, or the view of a slice.
        name: Which curve.
        ax: Matplotlib axes; a new figure's when left out.
        **params: Passed to :meth:`~streameval.Evaluator.curve`.

    Returns:
        The axes.

    Raises:
        MetricError: No such curve, or no scores were fed.
        InputError: The curve is undefined; the reason is in the message.
    """
    ax = _axes(ax)
    curve = evaluator.curve(name, **params)
    if curve.reason and name != "calibration":
        raise InputError("curve", expected="a curve that is defined", got=curve.reason)
    display: Any
    if name == "roc":
        display = sklearn_metrics.RocCurveDisplay(
            fpr=curve.fpr, tpr=curve.tpr, roc_auc=evaluator["roc_auc"]
        )
        display.plot(ax=ax, plot_chance_level=True)
    elif name == "precision_recall":
        display = sklearn_metrics.PrecisionRecallDisplay(
            precision=curve.precision,
            recall=curve.recall,
            average_precision=evaluator["average_precision"],
        )
        display.plot(ax=ax)
    elif name == "det":
        sklearn_metrics.DetCurveDisplay(fpr=curve.fpr, fnr=curve.fnr).plot(ax=ax)
    elif name == "calibration":
        sklearn_calibration.CalibrationDisplay(
            prob_true=curve.observed, prob_pred=curve.predicted, y_prob=np.zeros(0)
        ).plot(ax=ax)
    else:
        raise MetricError(f"no picture is made of the curve {shown(name)}")
    return ax


def plot_confusion(evaluator: Evaluator | View, ax: Any = None, most: int = 30) -> Any:
    """Draw the confusion counts, rows true and columns predicted.

    Args:
        evaluator: An evaluator, or the view of a slice.
        ax: Matplotlib axes; a new figure's when left out.
        most: Most classes that are drawn.

    Raises:
        InputError: There are more classes than that.
    """
    counts = evaluator.confusion
    if len(counts.labels) > most:
        raise InputError(
            "confusion", expected=f"at most {most} classes to draw", got=str(len(counts.labels))
        )
    ax = _axes(ax)
    sklearn_metrics.ConfusionMatrixDisplay(counts.to_array(), display_labels=counts.labels).plot(
        ax=ax, values_format="d" if counts.exact else "g", colorbar=False
    )
    return ax


def plot_series(rows: Sequence[SeriesRow], metric: str, ax: Any = None, label: str = "") -> Any:
    """Draw a metric over time, with the support of each pane as bars beneath.

    Args:
        rows: From :meth:`streameval.Evaluator.series`.
        metric: Its name, for the axis.
        ax: Matplotlib axes; a new figure's when left out.
        label: Name of the line, where several share the axes.

    Panes without a value leave a gap.
    """
    ax = _axes(ax, width=9.0)
    dates: Any = matplotlib.dates
    starts = dates.date2num([datetime.fromisoformat(row.start) for row in rows])
    ends = dates.date2num([datetime.fromisoformat(row.end) for row in rows])
    middles = [(start + end) / 2 for start, end in zip(starts, ends, strict=True)]
    ax.plot(middles, [row.value for row in rows], marker="o", markersize=3, label=label or metric)
    ax.set_ylabel(metric)
    ax.set_xlabel("event time (UTC)")
    locator = dates.AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    if not label:
        support = ax.twinx()
        widths = [0.9 * (end - start) for start, end in zip(starts, ends, strict=True)]
        support.bar(
            middles, [row.support for row in rows], width=widths, color="0.85", label="support"
        )
        support.set_ylabel("support")
        # Bars behind the line, and low enough to leave it room.
        support.set_zorder(ax.get_zorder() - 1)
        ax.patch.set_visible(False)
        support.set_ylim(0, 3 * max((row.support for row in rows), default=1) or 1)
    ax.grid(alpha=0.3)
    return ax


def save_figure(ax: Any, path: str | os.PathLike[str]) -> None:
    """Write the axes' figure as ``.png``, ``.svg``, ``.pdf`` or a self-contained ``.html`` page.

    Raises:
        InputError: Another ending.
    """
    name = os.fspath(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in _FORMATS:
        raise InputError("plot", expected=f"a file name in {', '.join(_FORMATS)}", got=shown(name))
    figure = ax.figure
    figure.tight_layout()
    if ending != ".html":
        figure.savefig(name, dpi=150)
        return

    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    svg = picture.getvalue()
    with open(name, "w", encoding="utf-8") as file:
        file.write(
            "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>streameval</title>"
            "<style>body{margin:2rem}svg{max-width:100%;height:auto}</style>"
            + svg[svg.index("<svg") :]
            + "</html>\n"
        )


def _axes(ax: Any, width: float = 5.0) -> Any:
    return Figure(figsize=(width, 4.5)).subplots() if ax is None else ax
