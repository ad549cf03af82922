"""Displays: pictures of an evaluator, by scikit-learn's conventions.

``RocCurveDisplay.from_evaluator(ev)`` draws into new axes of matplotlib, or into ``ax=``, and
returns the display, with ``ax_``, ``figure_`` and ``line_``. ``computed(ev)`` draws nothing yet;
``plot()`` draws with matplotlib (extra ``plots``), ``to_plotly()`` with plotly, out of the same
:class:`~streameval.plots.picture.Picture`. ``to_svg()`` and files in SVG and HTML need no package.

Wherever there is an evaluator, the view of a slice, or of one class, serves as well. What has
scores of several classes is drawn for each class against the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from streameval.errors import InputError, MetricError, shown
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.predictions import Reference, drift_between, shares_between, view_of
from streameval.evaluator.reports import SeriesRow, SliceReport, SliceRow
from streameval.evaluator.slices import slice_name
from streameval.evaluator.track import TrackRow
from streameval.evaluator.view import View
from streameval.events.values import FloatArray, IntArray, Label
from streameval.metrics.curves import CURVES
from streameval.metrics.registry import METRICS, USUAL_METRICS
from streameval.metrics.score_profiles import (
    ActualVsPredicted,
    ResidualDistribution,
    ScoreDistribution,
    ThresholdMetrics,
)
from streameval.plots.curves import (
    CalibrationDisplay,
    DetCurveDisplay,
    GainCurveDisplay,
    LiftCurveDisplay,
    PrecisionRecallDisplay,
    PrecisionRecallGainDisplay,
    RocCurveDisplay,
)
from streameval.plots.display import (
    Display,
    Source,
    Sources,
    by_name,
    checked_intervals,
    first,
    has_positive,
    positive_class,
    share_axis,
)
from streameval.plots.picture import (
    COLORS,
    MUTED,
    Axis,
    Band,
    Bars,
    Heatmap,
    Line,
    Mark,
    Note,
    Picture,
    Support,
    VerticalLine,
    Whiskers,
    line_look,
    one_line,
    thinned,
)
from streameval.states.confusion import ConfusionCounts
from streameval.uncertainty.drift import DRIFTS, Drift, SideShares

PaneRow: TypeAlias = SeriesRow | TrackRow

_MANY_CLASSES = 10
_MANY_PANES = 100


Normalize: TypeAlias = Literal["true", "pred", "all"]


@dataclass(eq=False, slots=True)
class ConfusionMatrixDisplay(Display):
    """Confusion matrix: rows true, columns predicted.

    >>> ev = Evaluator("multiclass").update_many(["a", "b", "b"], ["a", "b", "a"])
    >>> ConfusionMatrixDisplay.computed(ev).confusion_matrix.tolist()
    [[1, 0], [1, 1]]
    """

    confusion_matrix: Any
    """The counts."""
    display_labels: tuple[Label, ...]

    @classmethod
    def computed(
        cls,
        evaluator: Source | ConfusionCounts,
        *,
        name: str | None = None,
        normalize: Normalize | None = None,
        most: int = 30,
    ) -> Self:
        """The display, not drawn yet."""
        if normalize not in (None, "true", "pred", "all"):
            expected = "'true', 'pred', 'all' or None"
            raise InputError("normalize", expected=expected, got=shown(normalize))
        found = evaluator if isinstance(evaluator, ConfusionCounts) else evaluator.confusion
        labels = tuple(found.labels)
        classes = len(labels)
        if not 1 <= classes <= most:
            raise InputError("confusion", expected=f"1 to {most} classes to draw", got=str(classes))
        counts = found.to_array()
        weights = counts.astype(np.float64)
        below = {
            "true": weights.sum(axis=1, keepdims=True),
            "pred": weights.sum(axis=0, keepdims=True),
            "all": weights.sum(keepdims=True),
            None: weights.max(keepdims=True),
        }[normalize]
        shares = np.divide(weights, below, out=np.zeros_like(weights), where=below > 0)
        style = ".2f" if normalize else "d" if found.exact else ".4g"
        cells = shares if normalize else counts
        texts = tuple(tuple(format(cell, style) for cell in row) for row in cells.tolist())
        longest = max(len(text) for row in texts for text in row)
        small = classes > _MANY_CLASSES or longest * classes > 30
        size = 0.45 * classes + 2 if classes > _MANY_CLASSES else 4.5
        ticks = tuple((float(at), one_line(label)) for at, label in enumerate(labels))
        title = "Confusion matrix" + (f" of {one_line(name)}" if name else "")
        picture = Picture(
            title + (", share of each true class" if normalize == "true" else ""),
            Axis("Predicted label", (-0.5, classes - 0.5), ticks),
            Axis("True label", (-0.5, classes - 0.5), ticks, reverse=True),
            (Heatmap(shares, texts, small=small),),
            (size, size),
            grid=False,
        )
        return cls(picture, counts, labels)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source | ConfusionCounts,
        ax: Any = None,
        *,
        name: str | None = None,
        normalize: Normalize | None = None,
        most: int = 30,
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator, the view of a slice, or confusion counts.
            ax: Matplotlib axes; those of a new figure by default.
            name: For the title.
            normalize: Shares of each true class (``"true"``), of each predicted one
                (``"pred"``) or of all events (``"all"``) in place of counts.
            most: The largest number of classes to draw.

        Raises:
            InputError: There are more classes than ``most``, or none.
        """
        display = cls.computed(evaluator, name=name, normalize=normalize, most=most)
        return display.plot(ax)


@dataclass(eq=False, slots=True)
class ScoreDistributionDisplay(Display):
    """Histogram of the scores of each class of a binary task, with the threshold."""

    distribution: ScoreDistribution

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        label: Label | None = None,
        shares: bool = True,
        **params: Any,
    ) -> Self:
        """The display, not drawn yet."""
        source = _one_class(evaluator, label)
        found = source.curve("score_distribution", **params)
        if found.reason:
            raise InputError("scores", expected="events with scores", got=found.reason)
        edges = np.append(found.low, found.high[-1])
        marks: list[Mark] = []
        sides = (found.negatives, COLORS[1], "//"), (found.positives, COLORS[0], "")
        for class_name, (weights, color, hatch) in zip(source.labels, sides, strict=True):
            total = weights.sum().item()
            heights = np.asarray(weights, dtype=np.float64)
            if shares and total:
                heights = heights / total
            if total:
                text = f"{one_line(class_name)} ({total:,.10g})"
                marks.append(Bars(edges, heights, text, color, hatch))
        limits = (float(edges[0]), float(edges[-1]))
        line = _threshold_line(evaluator, *limits)
        picture = Picture(
            "Scores by class" + (f" of {one_line(name)}" if name else ""),
            Axis("Score" + ("; dotted: the threshold" if line else ""), limits),
            Axis("Share of the class's events" if shares else "Events", (0.0, None)),
            (*marks, *line),
            (6.0, 4.0),
        )
        return cls(picture, found)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source,
        ax: Any = None,
        *,
        name: str | None = None,
        label: Label | None = None,
        shares: bool = True,
        **params: Any,
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator, or the view of a slice.
            ax: Matplotlib axes; those of a new figure by default.
            name: For the title.
            label: Of several classes, the one whose probability is drawn; requires one.
            shares: Each class as shares of its own events, which keeps a rare class visible;
                False: as numbers of events.
            params: ``bins`` and ``limits`` of
                :func:`~streameval.metrics.score_profiles.score_distribution`.
        """
        display = cls.computed(evaluator, name=name, label=label, shares=shares, **params)
        return display.plot(ax)


@dataclass(eq=False, slots=True)
class _NumbersDisplay(Display):
    """The base of pictures of a regression that keeps its residuals."""

    reads: ClassVar[tuple[str, ...]] = ("median_absolute_error",)

    @classmethod
    def computed(cls, evaluator: Source, *, name: str | None = None, **params: Any) -> Self:
        """The display, not drawn yet."""
        raise NotImplementedError

    @classmethod
    def from_evaluator(
        cls, evaluator: Source, ax: Any = None, *, name: str | None = None, **params: Any
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator, or the view of a slice, that keeps its residuals: with
                ``median_absolute_error`` in ``metrics=``.
            ax: Matplotlib axes; those of a new figure by default.
            name: For the title.
            params: ``bins`` and ``limits`` of the curve.
        """
        return cls.computed(evaluator, name=name, **params).plot(ax)


@dataclass(eq=False, slots=True)
class ResidualsDisplay(_NumbersDisplay):
    """Histogram of the residuals of a regression; a dotted line at 0.

    >>> ev = Evaluator("regression", metrics=["median_absolute_error"])
    >>> _ = ev.update_many([3.0, 1.0, 2.0], [2.5, 2.5, 2.0])
    >>> ResidualsDisplay.computed(ev, bins=2).distribution.events.tolist()
    [1, 2]
    """

    distribution: ResidualDistribution

    @classmethod
    def computed(cls, evaluator: Source, *, name: str | None = None, **params: Any) -> Self:
        """The display, not drawn yet."""
        found = evaluator.curve("residuals", **params)
        if found.reason:
            raise InputError("residuals", expected="events", got=found.reason)
        edges = np.append(found.low, found.high[-1])
        limits = (float(edges[0]), float(edges[-1]))
        marks: list[Mark] = [Bars(edges, np.asarray(found.events, dtype=np.float64))]
        if limits[0] <= 0.0 <= limits[1]:
            marks.append(VerticalLine(0.0))
        picture = Picture(
            "Residuals" + (f" of {one_line(name)}" if name else ""),
            Axis("y_true − y_pred; dotted: no error", limits),
            Axis("Events", (0.0, None)),
            tuple(marks),
            (6.0, 4.0),
        )
        return cls(picture, found)


@dataclass(eq=False, slots=True)
class PredictionErrorDisplay(_NumbersDisplay):
    """Heat map of true against predicted numbers of a regression; a dotted line where both agree.

    The darker a square, the more events are in it, by the logarithm of their number.

    >>> ev = Evaluator("regression", metrics=["median_absolute_error"])
    >>> _ = ev.update_many([3.0, 1.0, 2.0], [2.5, 2.5, 2.0])
    >>> PredictionErrorDisplay.computed(ev, bins=4).cells.events.tolist()
    [1, 1, 1]
    """

    cells: ActualVsPredicted

    @classmethod
    def computed(cls, evaluator: Source, *, name: str | None = None, **params: Any) -> Self:
        """The display, not drawn yet."""
        found = evaluator.curve("actual_vs_predicted", **params)
        if found.reason:
            raise InputError("actual_vs_predicted", expected="events", got=found.reason)
        # The last square ends at the largest float.
        widths = found.true_high - found.true_low, found.predicted_high - found.predicted_low
        side = float(np.max(widths))
        true, predicted = _Steps.of(found.true_low, side), _Steps.of(found.predicted_low, side)
        weights = np.asarray(found.events, dtype=np.float64)
        shares = np.zeros((true.steps, predicted.steps))
        # The first row is drawn at the top.
        rows = true.steps - 1 - true.places(found.true_low)
        shares[rows, predicted.places(found.predicted_low)] = 0.1 + 0.9 * np.log1p(
            weights
        ) / np.log1p(weights.max())
        both = np.array([max(true.first, predicted.first), min(true.last, predicted.last)])
        marks: list[Mark] = [Heatmap(shares)]
        if both[0] < both[1]:
            down = true.steps - true.places(both)
            x, y = (ends.astype(np.float64) - 0.5 for ends in (predicted.places(both), down))
            marks.append(Line(x, y, color=MUTED, style="dotted"))
        picture = Picture(
            "Actual against predicted" + (f" of {one_line(name)}" if name else ""),
            Axis(f"Predicted; events in the darkest: {weights.max():,.6g}", *predicted.axis()),
            Axis("Actual; dotted: no error", *true.axis(down=True), reverse=True),
            tuple(marks),
            (5.0, 5.0),
            grid=False,
        )
        return cls(picture, found)


class _Steps(NamedTuple):
    """An axis in steps of one width, between two edges."""

    first: float
    last: float
    width: float
    steps: int

    @classmethod
    def of(cls, edges: FloatArray, width: float) -> Self:
        first, last = float(edges.min()), float(edges.max())
        steps = round(last / width - first / width) + 1
        return cls(first, min(last + width, float(np.finfo(np.float64).max)), width, steps)

    def places(self, numbers: FloatArray) -> IntArray:
        """The step that begins at each edge."""
        return np.rint(numbers / self.width - self.first / self.width).astype(np.int64)

    def axis(self, down: bool = False) -> tuple[tuple[float, float], tuple[tuple[float, str], ...]]:
        """Range and ticks, at some of the edges."""
        ticks = []
        for step in range(0, self.steps + 1, max(1, -(-self.steps // 5))):
            at = self.steps - step if down else step
            ticks.append((at - 0.5, f"{self.first + step * self.width:,.6g}"))
        return (-0.5, self.steps - 0.5), tuple(ticks)


@dataclass(eq=False, slots=True)
class DriftDisplay(Display):
    """Both distributions of the scores, or of the predicted labels, and how far they are apart.

    >>> now, last = (Evaluator().update_many([1] * 4, score=s) for s in ([0.2, 0.9] * 2, [0.2] * 4))
    >>> DriftDisplay.computed(now, reference=last).picture.title
    'Drift of the scores: ks 0.5 p = 0.699374'
    """

    compares: ClassVar[bool] = True

    drift: Drift
    shares: SideShares

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        reference: Any = None,
        measure: str | None = None,
        method: str = "auto",
        bins: int = 20,
        names: tuple[str, str] = ("now", "reference"),
        most: int = 30,
    ) -> Self:
        """The display, not drawn yet."""
        views = view_of(evaluator), view_of(reference)
        measure, found = _drift(views, measure, method)
        if math.isnan(found.value):
            raise InputError("drift", expected="events on both sides", got=found.reason)
        shares = shares_between(*views, measure, bins=bins)
        sides = [
            f"{one_line(name)} ({view.support:,.10g})"
            for name, view in zip(names, views, strict=True)
        ]
        draw = _label_picture if DRIFTS[measure].input == "labels" else _score_picture
        return cls(draw(shares, sides, f"{measure} {found}", views[0], most), found, shares)

    @classmethod
    def from_evaluator(cls, evaluator: Source, ax: Any = None, **options: Any) -> Self:
        """Compute and draw.

        Args:
            evaluator: Predictions, an evaluator, or the view of a slice: the events now.
            ax: Matplotlib axes; those of a new figure by default.
            options: ``reference``, required: what they are compared with, or the path of its saved
                state. ``measure``: of :data:`streameval.uncertainty.drift.DRIFTS`, which also says
                what is drawn; ``"ks"`` by default, ``"cramers_v"`` without binary scores.
                ``method``: as of :meth:`streameval.Predictions.drift`. ``bins``: of the scores, of
                equal width; 20. ``names``: of both sides, for the legend. ``most``: labels; of more
                than 30 those that differ most are drawn.

        Raises:
            InputError: There is no reference, or a side has no events.
            MetricError: The two cannot be compared.
        """
        return cls.computed(evaluator, **options).plot(ax)


def _drift(views: tuple[View, View], measure: str | None, method: str) -> tuple[str, Drift]:
    try:
        name = measure or "ks"
        return name, drift_between(*views, name, method=method)
    except MetricError as error:
        if measure is not None:
            raise
        with suppress(MetricError):
            return "cramers_v", drift_between(*views, "cramers_v", method=method)
        raise error


def _score_picture(
    shares: SideShares, sides: Sequence[str], title: str, now: Source, most: int
) -> Picture:
    edges = np.array(shares.places)
    limits = (float(edges[0]), float(edges[-1]))
    line = _threshold_line(now, *limits)
    return Picture(
        f"Drift of the scores: {title}",
        Axis("Score" + ("; dotted: the threshold" if line else ""), limits),
        Axis("Share of the events", (0.0, None)),
        (
            Bars(edges, shares.reference, sides[1], MUTED, "//"),
            Bars(edges, shares.now, sides[0]),
            *line,
        ),
        (6.0, 4.0),
        legend=title,
    )


def _label_picture(
    shares: SideShares, sides: Sequence[str], title: str, now: Source, most: int
) -> Picture:
    moved = np.abs(shares.now - shares.reference)
    chosen = np.sort(np.argsort(-moved, kind="stable")[:most])
    places = np.arange(len(chosen), dtype=np.float64)
    # Two bars of each label, and nothing until the next one.
    edges = (places[:, None] + [-0.35, 0.0, 0.35]).ravel()
    heights = np.zeros((2, len(edges)))
    heights[0, 0::3], heights[1, 1::3] = shares.reference[chosen], shares.now[chosen]
    ticks = [
        (at, one_line(shares.places[n])) for at, n in zip(places.tolist(), chosen, strict=True)
    ]
    few = f": the {most} of {len(moved):,} that differ most" if len(moved) > most else ""
    return Picture(
        f"Drift of the predicted labels: {title}",
        Axis(f"Predicted label{few}", (-0.5, len(places) - 0.5), tuple(ticks)),
        Axis("Share of the events", (0.0, None)),
        (
            Bars(edges, heights[0, :-1], sides[1], MUTED, "//"),
            Bars(edges, heights[1, :-1], sides[0]),
        ),
        (max(6.0, 2 + 0.4 * len(places)), 4.0),
        legend=title,
    )


def _one_class(source: Source, label: Label | None) -> Source:
    """What is drawn where only one score fits into a picture."""
    if has_positive(source):
        return source
    if label is None:
        raise InputError(
            "label",
            expected="a class, whose probability is drawn",
            got=f"none, of a {source.task} task",
            remedy=f"pass label={shown(source.labels[0])}" if source.labels else "",
        )
    return source.one_vs_rest(label)


def _threshold_line(source: Source, low: float, high: float) -> list[Mark]:
    """A line at the threshold by which a binary evaluator predicts, where it is in the picture."""
    threshold = (source.total if isinstance(source, Evaluator) else source).threshold
    return [] if threshold is None or not low <= threshold <= high else [VerticalLine(threshold)]


_THRESHOLD_METRICS = ("precision", "recall", "specificity", "f1", "share")


@dataclass(eq=False, slots=True)
class ThresholdsDisplay(Display):
    """Precision, recall, specificity and F1 of a binary task at every threshold."""

    table: ThresholdMetrics

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        label: Label | None = None,
        metrics: Sequence[str] = _THRESHOLD_METRICS[:-1],
    ) -> Self:
        """The display, not drawn yet."""
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        for metric in names:
            if metric not in _THRESHOLD_METRICS:
                expected = f"some of {', '.join(_THRESHOLD_METRICS)}"
                raise InputError("metrics", expected=expected, got=shown(metric))
        source = _one_class(evaluator, label)
        table = source.curve("threshold_metrics")
        columns = [getattr(table, metric) for metric in names]
        if not any(np.isfinite(column).any() for column in columns):
            reason = table.reason or "values that are undefined"
            raise InputError("thresholds", expected="metrics that are defined", got=reason)
        marks: list[Mark] = []
        for number, (metric, column) in enumerate(zip(names, columns, strict=True)):
            if np.isnan(column).all():
                continue
            style = line_look(6 * (number % 3))[1]
            x, y = thinned(table.threshold, np.nan_to_num(column))
            y = np.where(np.isin(x, table.threshold[np.isnan(column)]), np.nan, y)
            text = "Predicted positive" if metric == "share" else metric.capitalize()
            marks.append(Line(x, y, text, COLORS[number], style, markers=len(x) < 3))
        low, high = float(table.threshold[0]), float(table.threshold[-1])
        line = _threshold_line(evaluator, low, high)
        if low >= 0.0 and high <= 1.0:
            low, high = -0.01, 1.01
        elif low == high:
            low, high = low - 0.5, high + 0.5
        picture = Picture(
            "Metrics by threshold" + (f" of {one_line(name)}" if name else ""),
            Axis("Threshold" + ("; dotted: in use" if line else ""), (low, high)),
            share_axis("Value" + positive_class(source)),
            (*marks, *line),
            (6.0, 4.5),
            corner="lower left",
        )
        return cls(picture, table)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source,
        ax: Any = None,
        *,
        name: str | None = None,
        label: Label | None = None,
        metrics: Sequence[str] = _THRESHOLD_METRICS[:-1],
        **options: Any,
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator, or the view of a slice.
            ax: Matplotlib axes; those of a new figure by default.
            name: For the title.
            label: Of several classes, the one whose probability is compared; requires one.
            metrics: Some of ``precision``, ``recall``, ``specificity``, ``f1`` and ``share``,
                the share of events predicted positive.
            options: Arguments of matplotlib for the lines.
        """
        display = cls.computed(evaluator, name=name, label=label, metrics=metrics)
        return display.plot(ax, **options)


@dataclass(eq=False, slots=True)
class SeriesDisplay(Display):
    """A metric over time or over the events, with the support of each pane beneath."""

    several: ClassVar[bool] = True

    rows: Mapping[str, Sequence[PaneRow]]
    """By the name of each line."""

    @classmethod
    def computed(
        cls,
        evaluator: Sources,
        metric: str | None = None,
        *,
        name: str | None = None,
        intervals: float | None = None,
    ) -> Self:
        """The display, not drawn yet."""
        named = by_name(evaluator, name)
        metric = metric or USUAL_METRICS["single", first(evaluator).task][0]
        rows = {label: one.series(metric, intervals=intervals) for label, one in named.items()}
        return cls.of_rows(rows, metric)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Sources,
        metric: str | None = None,
        ax: Any = None,
        *,
        name: str | None = None,
        intervals: float | None = None,
        **options: Any,
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator of a window of panes; or several by the names of their lines.
            metric: Its name; F1 by default.
            ax: Matplotlib axes; those of a new figure by default.
            name: For a legend, if several lines share the axes; supports are then not drawn.
            intervals: The level of a band of intervals.
            options: Arguments of matplotlib for the line.

        Raises:
            MetricError: An unknown metric, or the window is not of panes.
        """
        display = cls.computed(evaluator, metric, name=name, intervals=intervals)
        return display.plot(ax, **options)

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[PaneRow] | Mapping[str, Sequence[PaneRow]],
        metric: str,
        *,
        name: str | None = None,
    ) -> Self:
        """The display of rows that were computed, not drawn yet.

        Args:
            rows: From :meth:`streameval.Evaluator.series`; or several by the names of their lines.
            metric: The metric's name, for the axis.
            name: For a legend; supports are then not drawn.
        """
        several = rows if isinstance(rows, Mapping) else {name or "": rows}
        marks: list[Mark] = []
        for number, (label, line) in enumerate(several.items()):
            marks += _series_marks(line, one_line(label), *line_look(number))
            if line and label:
                marks.append(Support(_edges(line), ()))
        every = [row for line in several.values() for row in line]
        if not np.isfinite([row.value for row in every]).any():
            reason = next((row.reason for row in every), "no pane holds an event")
            marks.append(Note(f"{metric} is undefined: {reason}"))
        known = METRICS.get(metric)
        bounds = None
        if list(several) == [""] and every:
            marks.append(Support(_edges(every), [row.support for row in every]))
            bounds = None if known is None else (known.low, known.high)
        counted = bool(every) and not isinstance(every[0].start, str)
        picture = Picture(
            f"{metric} over {'the events' if counted else 'time'}",
            Axis("events" if counted else "event time (UTC)", time=bool(every) and not counted),
            Axis(one_line(metric)),
            tuple(marks),
            (9.0, 4.5),
            bounds=bounds,
        )
        return cls(picture, several)


def _edges(rows: Sequence[PaneRow]) -> list[Any]:
    ends = [*(row.start for row in rows), rows[-1].end]
    return [datetime.fromisoformat(end) if isinstance(end, str) else end for end in ends]


def _series_marks(rows: Sequence[PaneRow], name: str, color: str, style: Any) -> Iterator[Mark]:
    if not rows:
        return
    edges = _edges(rows)
    middles = [a + (b - a) / 2 for a, b in pairwise(edges)]
    values = np.asarray([row.value for row in rows], dtype=np.float64)
    many = len(rows) > _MANY_PANES
    # A pane between two undefined ones has no line, only a marker.
    yield Line(middles, values, name, color, style, markers=True, many=many)
    low, high = _ends_of(rows)
    if np.isfinite(low).any():
        yield Band(edges, low, high, color)


def _ends_of(rows: Sequence[PaneRow | SliceRow]) -> tuple[Any, Any]:
    """The lower and the upper ends; nan where there is no interval."""
    nothing = (np.nan, np.nan)
    ends = [(row.interval.low, row.interval.high) if row.interval else nothing for row in rows]
    low, high = np.array(ends, dtype=np.float64).T
    return low, high


@dataclass(eq=False, slots=True)
class SlicesDisplay(Display):
    """A metric of slices, the worst at the top, beside that of all events; a forest plot."""

    report: SliceReport

    @classmethod
    def computed(
        cls,
        evaluator: Evaluator,
        metric: str | None = None,
        *,
        intervals: float | None = 0.95,
        most: int = 30,
        **params: Any,
    ) -> Self:
        """The display, not drawn yet."""
        metric = metric or USUAL_METRICS["single", evaluator.task][0]
        report = evaluator.slice_report(metric, intervals=intervals, **params)
        return cls.of_report(report, most=most)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Evaluator,
        metric: str | None = None,
        ax: Any = None,
        *,
        intervals: float | None = 0.95,
        most: int = 30,
        params: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator with slices.
            metric: Its name; F1 by default.
            ax: Matplotlib axes; those of a new figure by default.
            intervals: The level of the whiskers, and of the band of all events; None: without.
            most: Only so many of the slices.
            params: Those of :meth:`~streameval.Evaluator.slice_report`, such as ``min_support``.
            options: Arguments of matplotlib for the points.

        Raises:
            InputError: There is no slice.
        """
        display = cls.computed(evaluator, metric, intervals=intervals, most=most, **params)
        return display.plot(ax, **options)

    @classmethod
    def of_report(cls, report: SliceReport, *, most: int = 30) -> Self:
        """The display of a report, not drawn yet.

        Raises:
            InputError: The report has no slice.
        """
        rows = report.rows[:most]
        if not rows:
            raise InputError("report", expected="a report with slices", got="none")
        places = np.arange(len(rows), dtype=np.float64)
        values = np.array([row.value for row in rows], dtype=np.float64)
        low, high = _ends_of(rows)
        (bottom,), (top,) = _ends_of([report.total])
        marks: list[Mark] = [
            Whiskers(values, places, low, high, across=True),
            Line(values, places, markers=True, joined=False),
        ]
        if math.isfinite(report.total.value):
            marks.append(VerticalLine(report.total.value, float(bottom), float(top)))
        ticks = tuple(
            (float(at), one_line(slice_name(row.slice)))
            for at, row in zip(places, rows, strict=True)
        )
        if not np.isfinite(values).any():
            marks.append(Note(f"{report.metric} is undefined: {rows[0].reason}"))
            ticks = ()
        picture = Picture(
            f"{report.metric} by slice",
            Axis(f"{one_line(report.metric)}; dotted: all events"),
            Axis("", (-0.5, len(rows) - 0.5), ticks, reverse=True),
            tuple(marks),
            (7.0, 1.2 + 0.3 * len(rows)),
        )
        return cls(picture, report)


DISPLAYS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "roc": RocCurveDisplay,
        "precision_recall": PrecisionRecallDisplay,
        "det": DetCurveDisplay,
        "pr_gain": PrecisionRecallGainDisplay,
        "calibration": CalibrationDisplay,
        "confusion": ConfusionMatrixDisplay,
        "score_distribution": ScoreDistributionDisplay,
        "residuals": ResidualsDisplay,
        "actual_vs_predicted": PredictionErrorDisplay,
        "drift": DriftDisplay,
        "gain": GainCurveDisplay,
        "lift": LiftCurveDisplay,
        "threshold_metrics": ThresholdsDisplay,
        "series": SeriesDisplay,
        "slices": SlicesDisplay,
    }
)
"""Every display by the name of its picture; ``DISPLAYS[name].computed(evaluator)``."""

ALONE = tuple(name for name, kind in DISPLAYS.items() if not kind.compares)  # type: ignore[attr-defined]
"""The displays that need no reference."""


def available_displays(
    evaluator: Evaluator,
    *,
    intervals: float | None = None,
    metric: str | None = None,
    names: Iterable[str] | None = None,
    reference: Reference | None = None,
) -> Iterator[tuple[str, Any, str]]:
    """Every display that an evaluator has, by name, with the reason of those that it has not.

    Args:
        evaluator: The evaluator to draw.
        intervals: The level of what is drawn beside curves, series and slices; None: nothing.
        metric: That of the series and of the slices; F1 by default.
        names: The displays, of :data:`DISPLAYS`; by default all, without a reference those of
            :data:`ALONE`.
        reference: What the evaluator is compared with, or the path of its saved state.

    Yields:
        Name, display (not drawn yet) and an empty text; or name, None and the reason.

    >>> ev = Evaluator().update_many([True, False], [True, True])
    >>> [name for name, display, reason in available_displays(ev) if display]
    ['confusion']
    """
    for name in (ALONE if reference is None else DISPLAYS) if names is None else names:
        kind = DISPLAYS[name]
        options: dict[str, Any] = {} if name in ALONE else {"reference": reference}
        if name in ("roc", "precision_recall", "calibration", "series", "slices"):
            options["intervals"] = intervals
        if name in ("series", "slices"):
            options["metric"] = metric
        try:
            yield name, kind.computed(evaluator, **options), ""  # type: ignore[attr-defined]
        except (InputError, MetricError) as error:
            yield name, None, str(error)


def plot_curve(
    evaluator: Source, name: str, ax: Any = None, *, intervals: float | None = None, **params: Any
) -> Any:
    """Draw a curve by its name; the axes of the display that ``DISPLAYS`` has.

    Args:
        evaluator: An evaluator, or the view of a slice.
        name: A name of :data:`streameval.metrics.curves.CURVES`.
        ax: Matplotlib axes; those of a new figure by default.
        intervals: As of the display; ignored where it has none.
        **params: Passed to :meth:`~streameval.Evaluator.curve`.

    Returns:
        The axes.

    Raises:
        MetricError: The curve is unknown, or no event had a score.
        InputError: The curve is undefined; the reason is in the message. Or the level is not
            between 0 and 1.
    """
    if name not in CURVES:
        raise MetricError(f"no curve is called {shown(name)}; there are {', '.join(CURVES)}")
    level = checked_intervals(intervals)
    if name.endswith("_ovr"):
        name = name.removesuffix("_ovr")
        params = {"average": "macro", **params}
    elif name == "calibration_quantile":
        name = "calibration"
        params["strategy"] = "quantile"
    if level is not None and name in ("roc", "precision_recall", "calibration"):
        params["intervals"] = level
    display = DISPLAYS[name].computed(evaluator, **params)  # type: ignore[attr-defined]
    return display.plot(ax).ax_


def plot_confusion(evaluator: Source, ax: Any = None, most: int = 30) -> Any:
    """The axes of :class:`ConfusionMatrixDisplay`."""
    return ConfusionMatrixDisplay.from_evaluator(evaluator, ax, most=most).ax_


def plot_series(rows: Sequence[PaneRow], metric: str, ax: Any = None, label: str = "") -> Any:
    """The axes of :class:`SeriesDisplay` of rows; with a label, without their supports."""
    return SeriesDisplay.of_rows(rows, metric, name=label or None).plot(ax).ax_


def plot_slices(report: SliceReport, ax: Any = None, most: int = 30) -> Any:
    """The axes of :class:`SlicesDisplay` of a report."""
    return SlicesDisplay.of_report(report, most=most).plot(ax).ax_
