"""Displays: pictures of an evaluator, by scikit-learn's conventions.

``RocCurveDisplay.from_evaluator(ev)`` draws into new axes of matplotlib, or into ``ax=``, and
returns the display, with ``ax_``, ``figure_`` and ``line_``. ``computed(ev)`` draws nothing yet;
``plot()`` draws with matplotlib (extra ``plots``), ``to_plotly()`` with plotly, out of the same
:class:`~streameval.plots.picture.Picture`.

Wherever there is an evaluator, the view of a slice, or of one class, serves as well. What has
scores of several classes is drawn for each class against the rest.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np

from streameval.errors import InputError, MetricError, shown
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.reports import SeriesRow, SliceReport, SliceRow
from streameval.evaluator.slices import slice_name
from streameval.evaluator.track import TrackRow
from streameval.evaluator.view import View
from streameval.events.values import FloatArray, Label
from streameval.metrics.calibration import CalibrationCurve
from streameval.metrics.curves import (
    CURVES,
    CurveAverage,
    DetCurve,
    PrecisionRecallCurve,
    PrGainCurve,
    RocCurve,
)
from streameval.metrics.registry import METRICS, USUAL_METRICS
from streameval.metrics.score_profiles import GainCurve, ScoreDistribution, ThresholdMetrics
from streameval.metrics.undefined import NO_EVENTS
from streameval.plots.picture import (
    COLORS,
    MUTED,
    Area,
    Axis,
    Band,
    Bars,
    Cells,
    Line,
    Mark,
    Note,
    Picture,
    Span,
    Support,
    Whiskers,
    line_look,
    one_line,
    thinned,
)
from streameval.states.confusion import ConfusionCounts
from streameval.tasks.registry import TASKS
from streameval.uncertainty.calibration import calibration_band
from streameval.uncertainty.interval import checked_level
from streameval.uncertainty.proportions import distribution_gap

Source: TypeAlias = Evaluator | View
PaneRow: TypeAlias = SeriesRow | TrackRow

_MANY_CLASSES = 10
_MANY_PANES = 100
_MOST_LINES = 20

_FORMATS = (".png", ".svg", ".pdf", ".html")


@dataclass(eq=False, slots=True)
class Display:
    """What all displays have: a picture, drawn when it is asked for."""

    picture: Picture
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)
    line_: Any = field(default=None, init=False)
    """The first of the artists: a line, the first class's bars, the image of a matrix."""
    lines_: list[Any] = field(default_factory=list, init=False)

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw with matplotlib.

        Args:
            ax: Axes; those of a new figure by default.
            options: Arguments of matplotlib for the lines of values, such as ``color="k"``.

        Returns:
            The display, with the artists in ``ax_``, ``figure_``, ``line_`` and ``lines_``.

        Raises:
            MissingExtraError: The extra ``plots`` is not installed.
        """
        from streameval.plots import with_matplotlib  # takes a second to load

        self.ax_, self.lines_ = with_matplotlib.draw(self.picture, ax, options)
        self.figure_ = self.ax_.figure
        self.line_ = self.lines_[0] if self.lines_ else None
        return self

    def to_plotly(self) -> Any:
        """The same picture as a figure of plotly.

        Its background is transparent and its colours are legible on white and on black.

        Raises:
            MissingExtraError: The extra ``plots`` is not installed.
        """
        from streameval.plots import with_plotly

        return with_plotly.draw(self.picture)

    def to_svg(self) -> str:
        """The text of an SVG element, for a page."""
        from streameval.plots import with_matplotlib

        axes, _ = with_matplotlib.draw(self.picture)
        text = with_matplotlib.picture_bytes(axes.figure, ".svg").decode()
        return text[text.index("<svg") :]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as ``.png``, ``.svg``, ``.pdf`` or a self-contained ``.html`` page, by matplotlib.

        Raises:
            InputError: The suffix is not supported.
            OSError: The file cannot be written.
        """
        check_picture(path)
        if self.figure_ is None:
            self.plot()
        save_figure(self.ax_, path)

    def _repr_png_(self) -> bytes | None:
        """For notebooks: figures without pyplot are not shown by themselves."""
        from streameval.plots import with_matplotlib

        axes, _ = with_matplotlib.draw(self.picture)
        return with_matplotlib.picture_bytes(axes.figure, ".png")


_Curve = TypeVar("_Curve")


@dataclass(eq=False, slots=True)
class _CurvesDisplay(Display, Generic[_Curve]):
    """Curves of one score, or of each class against the rest."""

    curves: Mapping[str, _Curve]
    """By the name of each line."""

    @classmethod
    def computed(cls, *args: Any, **options: Any) -> Self:
        """The display, not drawn yet."""
        raise NotImplementedError

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source,
        ax: Any = None,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        params: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Self:
        """Compute and draw; arguments as of :meth:`RocCurveDisplay.from_evaluator`."""
        display = cls.computed(evaluator, name=name, classes=classes, **params)
        return display.plot(ax, **options)

    @property
    def _first(self) -> _Curve:
        return next(iter(self.curves.values()))


def check_picture(path: str | os.PathLike[str], field: str = "plot") -> str:
    """The suffix of a picture's file name.

    Raises:
        InputError: It is not supported.
        MissingExtraError: The extra ``plots`` is not installed.
    """
    from streameval.plots import with_matplotlib  # noqa: F401 - it is there

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
    from streameval.plots import with_matplotlib

    with_matplotlib.write_picture(ax.figure, path, check_picture(path))


# What is drawn: an evaluator of a binary task, or each class of several against the rest.


def _parts(
    source: Source, name: str | None, classes: Iterable[Label] | None, what: str
) -> list[tuple[str, Source]]:
    """The name of each line, and what it is drawn of."""
    if _has_positive(source):
        if classes is not None:
            raise InputError(
                "classes",
                expected="classes of a multiclass task",
                got="a binary one",
                remedy="leave out classes=",
            )
        return [(name or "", source)]
    view = source.total if isinstance(source, Evaluator) else source
    given = list(view.labels if classes is None else classes)
    if classes is None and len(given) > _MOST_LINES:
        raise InputError(
            "classes",
            expected=f"at most {_MOST_LINES} classes to draw the {what} of",
            got=str(len(given)),
            remedy="pass classes=[...], those to draw",
        )
    before = f"{name}, " if name else ""
    return [(before + one_line(label), view.one_vs_rest(label)) for label in given]


def _drawable(curve: Any, *columns: str) -> str:
    """Why a curve cannot be drawn; empty where it can."""
    if curve.reason:
        return str(curve.reason)
    # One column of a curve may be undefined.
    finite = all(np.isfinite(getattr(curve, column)).all() for column in columns)
    return "" if finite else "values that are undefined"


def _curves(
    source: Source,
    curve: str,
    columns: tuple[str, str],
    name: str | None,
    classes: Iterable[Label] | None,
    params: Mapping[str, Any],
    average: CurveAverage | None = None,
) -> list[tuple[str, Source, Any]]:
    """The curves that are defined, each with its name and what it is of; or their average.

    Raises:
        InputError: None is, with the reason of the first.
    """
    found, reasons = [], []
    if average is None:
        parts = [
            (label, part, part.curve(curve, **params))
            for label, part in _parts(source, name, classes, f"curve {curve}")
        ]
    else:
        if classes is not None:
            raise InputError(
                "classes",
                expected="no classes beside average=",
                got="both",
                remedy="an average is of all classes; leave out one of the two",
            )
        text = f"{name}, {average} average" if name else f"{average} average"
        parts = [(text, source, source.curve(f"{curve}_ovr", average=average, **params))]
    for label, part, one in parts:
        reason = _drawable(one, *columns)
        if reason:
            reasons.append(reason)
        else:
            found.append((label, part, one))
    if not found:
        reason = reasons[0] if reasons else NO_EVENTS
        raise InputError("curve", expected="a curve that is defined", got=reason)
    return found


def _level(intervals: float | None) -> float | None:
    return None if intervals is None else checked_level(intervals, "intervals")


def _with_area(
    label: str, source: Source, metric: str, short: str, level: float | None
) -> tuple[str, float]:
    """The legend's text with the area, and its interval where there is one; and the area."""
    area = float(source[metric])
    text = f"{short} = {area:.2f}"
    if level is not None:
        found = source.interval(metric, level=level)
        if found.defined:
            text = f"{short} = {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    return (f"{label} ({text})" if label else text), area


_AREAS: Mapping[CurveAverage | None, str] = {
    None: "",
    "macro": "_ovr",
    "weighted": "_ovr_weighted",
    "micro": "_micro",
}
"""How the name of the metric ends that is the area of a curve, or of an average of curves."""


def _share_axis(label: str) -> Axis:
    return Axis(label, (-0.01, 1.01))


def _has_positive(source: Source) -> bool:
    """Whether its scores are of one label, the positive one."""
    return TASKS[source.task].positive is not None


def _legend_title(source: Source) -> str:
    return "" if _has_positive(source) else "class against the rest"


def _positive(source: Source) -> str:
    """The positive class for the labels of axes, where it has a name."""
    if not _has_positive(source) or source.labels[1] in (0, 1):
        return ""
    return f" (positive: {one_line(source.labels[1])})"


@dataclass(eq=False, slots=True)
class RocCurveDisplay(_CurvesDisplay[RocCurve]):
    """ROC curve: true positive rate against false positive rate, with the AUC.

    >>> ev = Evaluator()
    >>> ev.update_many([True, False, True], score=[0.9, 0.4, 0.3])
    >>> display = RocCurveDisplay.computed(ev)
    >>> display.roc_auc, display.tpr.tolist()
    (0.5, [0.0, 0.5, 0.5, 1.0])
    """

    areas: Mapping[str, float]
    """The AUC of each."""

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        average: CurveAverage | None = None,
        **params: Any,
    ) -> Self:
        """The display, not drawn yet; arguments as of :meth:`from_evaluator`."""
        level = _level(intervals)
        marks: list[Mark] = []
        curves: dict[str, RocCurve] = {}
        areas: dict[str, float] = {}
        metric = "roc_auc" + _AREAS[average]
        for number, (label, part, curve) in enumerate(
            _curves(evaluator, "roc", ("fpr", "tpr"), name, classes, params, average)
        ):
            color, style = line_look(number)
            text, area = _with_area(label, part, metric, "AUC", level)
            curves[label], areas[label] = curve, area
            x, y = thinned(curve.fpr, curve.tpr)
            marks.append(Line(x, y, text, color, style))
        if level is not None and len(curves) == 1 and average is None:
            marks += _roc_band(part, curve, level)
        chance = np.array([0.0, 1.0])
        marks.append(Line(chance, chance, "Chance level (AUC = 0.5)", MUTED, "dashed"))
        picture = Picture(
            "ROC curve",
            _share_axis("False positive rate" + _positive(evaluator)),
            _share_axis("True positive rate" + _positive(evaluator)),
            tuple(marks),
            square=True,
            corner="lower right",
            legend=_legend_title(evaluator),
        )
        return cls(picture, curves, areas)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source,
        ax: Any = None,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        average: CurveAverage | None = None,
        params: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator, or the view of a slice.
            ax: Matplotlib axes; those of a new figure by default.
            name: For the legend.
            classes: Of several classes, those to draw; all, up to 20, by default. Classes
                without a curve are left out.
            intervals: The level of the AUC's interval and, of one curve, of a band that contains
                the whole true curve with that probability (Campbell 1994).
            average: Of several classes, ``"macro"``, ``"micro"`` or ``"weighted"``: one line,
                the average; each class has its own by default.
            params: Those of the curve, such as ``{"drop_intermediate": False}``.
            options: Arguments of matplotlib for the lines.

        Raises:
            MetricError: No scores were fed.
            InputError: The curve is undefined; the reason is in the message. Or a bad argument.
            MissingExtraError: The extra ``plots`` is not installed.
        """
        display = cls.computed(
            evaluator, name=name, classes=classes, intervals=intervals, average=average, **params
        )
        return display.plot(ax, **options)

    @property
    def roc_auc(self) -> float:
        """The AUC of the first curve."""
        return next(iter(self.areas.values()))

    @property
    def fpr(self) -> FloatArray:
        """False positive rates of the first curve."""
        return self._first.fpr

    @property
    def tpr(self) -> FloatArray:
        """True positive rates of the first curve."""
        return self._first.tpr


def _roc_band(source: Source, curve: RocCurve, level: float) -> list[Mark]:
    """The curve moved by the largest errors of both rates, to the upper left and lower right."""
    counts = source.thresholds("youden")
    positives, negatives = counts.tp + counts.fn, counts.fp + counts.tn
    if not (isinstance(positives, int) and isinstance(negatives, int)):
        # Kish's effective size is of all events, not of a class.
        return []
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
    return [Area(x, y, f"{level * 100:g} % band of the curve")]


@dataclass(eq=False, slots=True)
class PrecisionRecallDisplay(_CurvesDisplay[PrecisionRecallCurve]):
    """Precision against recall, with the average precision and the chance level.

    >>> ev = Evaluator()
    >>> ev.update_many([True, False, True], score=[0.9, 0.4, 0.3])
    >>> round(PrecisionRecallDisplay.computed(ev).average_precision, 4)
    0.8333
    """

    areas: Mapping[str, float]
    """The average precision of each."""

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        average: CurveAverage | None = None,
        **params: Any,
    ) -> Self:
        """The display, not drawn yet."""
        level = _level(intervals)
        marks: list[Mark] = []
        curves: dict[str, PrecisionRecallCurve] = {}
        areas: dict[str, float] = {}
        columns = ("recall", "precision")
        metric = "average_precision" + _AREAS[average]
        for number, (label, part, curve) in enumerate(
            _curves(evaluator, "precision_recall", columns, name, classes, params, average)
        ):
            color, style = line_look(number)
            text, area = _with_area(label, part, metric, "AP", level)
            curves[label], areas[label] = curve, area
            x, y = thinned(curve.recall, curve.precision)
            marks.append(Line(x, y, text, color, style, steps=True))
        if len(curves) == 1:
            # At the lowest threshold every event is predicted positive.
            share = float(next(iter(curves.values())).precision[0])
            level_line = np.array([share, share])
            text = f"Chance level (AP = {share:.2g})"
            marks.append(Line(np.array([0.0, 1.0]), level_line, text, MUTED, "dashed"))
        picture = Picture(
            "Precision and recall",
            _share_axis("Recall" + _positive(evaluator)),
            _share_axis("Precision" + _positive(evaluator)),
            tuple(marks),
            square=True,
            corner="lower left",
            legend=_legend_title(evaluator),
        )
        return cls(picture, curves, areas)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source,
        ax: Any = None,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        average: CurveAverage | None = None,
        params: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Self:
        """Compute and draw; arguments as of :meth:`RocCurveDisplay.from_evaluator`."""
        display = cls.computed(
            evaluator, name=name, classes=classes, intervals=intervals, average=average, **params
        )
        return display.plot(ax, **options)

    @property
    def average_precision(self) -> float:
        """That of the first curve."""
        return next(iter(self.areas.values()))

    @property
    def precision(self) -> FloatArray:
        """That of the first curve."""
        return self._first.precision

    @property
    def recall(self) -> FloatArray:
        """That of the first curve."""
        return self._first.recall


_DET_TICKS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
_DET_LEAST = 0.0005


def _probit(rates: FloatArray) -> FloatArray:
    """Rates on the scale of a normal score; those nearer to 0 or 1 than the axes are cut."""
    inverse = NormalDist().inv_cdf
    cut = np.clip(rates, _DET_LEAST, 1 - _DET_LEAST)
    return np.array([inverse(rate) for rate in cut.tolist()])


@dataclass(eq=False, slots=True)
class DetCurveDisplay(_CurvesDisplay[DetCurve]):
    """Detection error trade-off: false negative against false positive rate, on normal scales."""

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        **params: Any,
    ) -> Self:
        """The display, not drawn yet."""
        marks: list[Mark] = []
        curves: dict[str, DetCurve] = {}
        found = _curves(evaluator, "det", ("fpr", "fnr"), name, classes, params)
        for number, (label, _, curve) in enumerate(found):
            color, style = line_look(number)
            curves[label] = curve
            x, y = thinned(curve.fpr, curve.fnr)
            marks.append(
                Line(_probit(x), _probit(y), label, color, style, hover=(x, y), markers=len(x) < 3)
            )
        rates = np.array([_DET_LEAST, 1 - _DET_LEAST])
        chance = "Chance level"
        marks.append(Line(_probit(rates), _probit(1 - rates), chance, MUTED, "dashed"))
        places = _probit(np.array(_DET_TICKS)).tolist()
        ticks = tuple((at, f"{rate:.3g}") for at, rate in zip(places, _DET_TICKS, strict=True))
        picture = Picture(
            "Detection error trade-off",
            Axis("False positive rate" + _positive(evaluator), (-3.3, 3.3), ticks),
            Axis("False negative rate" + _positive(evaluator), (-3.3, 3.3), ticks),
            tuple(marks),
            square=True,
            corner="upper right",
            legend=_legend_title(evaluator),
        )
        return cls(picture, curves)

    @property
    def fpr(self) -> FloatArray:
        """That of the first curve."""
        return self._first.fpr

    @property
    def fnr(self) -> FloatArray:
        """That of the first curve."""
        return self._first.fnr


@dataclass(eq=False, slots=True)
class PrecisionRecallGainDisplay(_CurvesDisplay[PrGainCurve]):
    """Precision gain against recall gain (Flach & Kull 2015)."""

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        **params: Any,
    ) -> Self:
        """The display, not drawn yet."""
        marks: list[Mark] = []
        curves: dict[str, PrGainCurve] = {}
        columns = ("recall_gain", "precision_gain")
        found = _curves(evaluator, "pr_gain", columns, name, classes, params)
        for number, (label, part, curve) in enumerate(found):
            color, style = line_look(number)
            curves[label] = curve
            text, _ = _with_area(label, part, "pr_gain_auc", "AUC", None)
            x, y = thinned(curve.recall_gain, curve.precision_gain)
            marks.append(Line(x, y, text, color, style))
        lowest = min(float(np.min(curve.precision_gain)) for curve in curves.values())
        picture = Picture(
            "Precision and recall gain",
            _share_axis("Recall gain" + _positive(evaluator)),
            Axis("Precision gain", (max(-0.5, min(lowest, 0.0)) - 0.01, 1.01)),
            tuple(marks),
            square=True,
            corner="lower left",
            legend=_legend_title(evaluator),
        )
        return cls(picture, curves)


@dataclass(eq=False, slots=True)
class CalibrationDisplay(_CurvesDisplay[CalibrationCurve]):
    """Reliability diagram: observed frequency against mean predicted probability, by bin.

    Of several classes, the probability of the predicted label against how often it is the
    true one; with ``classes=``, the probability of each of these classes. The bins of
    ``strategy="uniform"`` are equally wide; those of ``"quantile"`` hold as many events each,
    and need scores of one class.
    """

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        strategy: Literal["uniform", "quantile"] = "uniform",
        **params: Any,
    ) -> Self:
        """The display, not drawn yet."""
        if strategy not in ("uniform", "quantile"):
            raise InputError("strategy", expected="'uniform' or 'quantile'", got=shown(strategy))
        level = _level(intervals)
        kind, metric = "calibration", "expected_calibration_error"
        if strategy == "quantile":
            kind, metric = "calibration_quantile", "quantile_calibration_error"
        columns = ("predicted", "observed")
        marks: list[Mark] = []
        curves: dict[str, CalibrationCurve] = {}
        by_class = not _has_positive(evaluator) and classes is not None
        if by_class:
            found = _curves(evaluator, kind, columns, name, classes, params)
        else:
            curve = evaluator.curve(kind, **params)
            reason = _drawable(curve, *columns)
            if reason:
                raise InputError("curve", expected="a curve that is defined", got=reason)
            found = [(name or "", evaluator, curve)]
        for number, (label, part, curve) in enumerate(found):
            color, style = line_look(number)
            curves[label] = curve
            text, _ = _with_area(label, part, metric, "ECE", level)
            marks.append(Line(curve.predicted, curve.observed, text, color, style, markers=True))
            if level is not None:
                marks.append(_bin_whiskers(part, curve, level, color))
        ends = np.array([0.0, 1.0])
        marks.append(Line(ends, ends, "Perfectly calibrated", MUTED, "dotted"))
        whose = "" if _has_positive(evaluator) or by_class else " of the predicted label"
        picture = Picture(
            "Calibration",
            _share_axis(f"Mean predicted probability{whose}{_positive(evaluator)}"),
            _share_axis("Observed frequency" + (" of being right" if whose else "")),
            tuple(marks),
            square=True,
            legend=_legend_title(evaluator) if by_class else "",
        )
        return cls(picture, curves)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source,
        ax: Any = None,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        strategy: Literal["uniform", "quantile"] = "uniform",
        params: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Self:
        """Compute and draw; ``intervals`` is the level of one interval for each bin.

        Further arguments as of :meth:`RocCurveDisplay.from_evaluator`.
        """
        display = cls.computed(
            evaluator, name=name, classes=classes, intervals=intervals, strategy=strategy, **params
        )
        return display.plot(ax, **options)

    @property
    def prob_pred(self) -> FloatArray:
        """Mean predicted probability of each bin of the first curve."""
        return self._first.predicted

    @property
    def prob_true(self) -> FloatArray:
        """Observed frequency of each bin of the first curve."""
        return self._first.observed


def _bin_whiskers(source: Source, curve: CalibrationCurve, level: float, color: str) -> Whiskers:
    found = source.interval("expected_calibration_error", level=level)
    whole = not found.method.endswith("(Kish)")
    low, high = calibration_band(curve, level, None if whole else found.n)
    return Whiskers(curve.predicted, curve.observed, low, high, color)


Normalize: TypeAlias = Literal["true", "pred", "all"]


@dataclass(eq=False, slots=True)
class ConfusionMatrixDisplay(Display):
    """Confusion matrix: rows true, columns predicted.

    >>> ev = Evaluator("multiclass")
    >>> ev.update_many(["a", "b", "b"], ["a", "b", "a"])
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
            (Cells(shares, texts, small=small),),
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
        threshold = _threshold(evaluator)
        if threshold is not None and edges[0] <= threshold <= edges[-1]:
            marks.append(Span(threshold))
        picture = Picture(
            "Scores by class" + (f" of {one_line(name)}" if name else ""),
            Axis(
                "Score" + ("; dotted: the threshold" if isinstance(marks[-1], Span) else ""),
                (float(edges[0]), float(edges[-1])),
            ),
            Axis("Share of the class's events" if shares else "Events", (0.0, None)),
            tuple(marks),
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


def _one_class(source: Source, label: Label | None) -> Source:
    """What is drawn where only one score fits into a picture."""
    if _has_positive(source):
        return source
    if label is None:
        raise InputError(
            "label",
            expected="a class, whose probability is drawn",
            got="none, of a multiclass task",
            remedy=f"pass label={shown(source.labels[0])}" if source.labels else "",
        )
    return source.one_vs_rest(label)


def _threshold(source: Source) -> float | None:
    """The threshold by which a binary evaluator predicts."""
    view = source.total if isinstance(source, Evaluator) else source
    return view.threshold


@dataclass(eq=False, slots=True)
class GainCurveDisplay(_CurvesDisplay[GainCurve]):
    """Cumulative gain: the share of the positives found in the highest scores, by their share.

    >>> ev = Evaluator()
    >>> ev.update_many([True, False, True, False], score=[0.9, 0.4, 0.8, 0.1])
    >>> GainCurveDisplay.computed(ev).gain.tolist()
    [0.0, 0.5, 1.0, 1.0, 1.0]
    """

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
    ) -> Self:
        """The display, not drawn yet."""
        marks: list[Mark] = []
        curves: dict[str, GainCurve] = {}
        found = _curves(evaluator, "gain", ("share", "gain"), name, classes, {})
        for number, (label, _, curve) in enumerate(found):
            color, style = line_look(number)
            curves[label] = curve
            x, y = thinned(curve.share, curve.gain)
            marks.append(Line(x, y, label or "Gain", color, style))
        ends = np.array([0.0, 1.0])
        marks.append(Line(ends, ends, "Drawn at random", MUTED, "dashed"))
        picture = Picture(
            "Cumulative gain",
            _share_axis("Share of the events, highest scores first"),
            _share_axis("Share of the positive events found" + _positive(evaluator)),
            tuple(marks),
            square=True,
            corner="lower right",
            legend=_legend_title(evaluator),
        )
        return cls(picture, curves)

    @property
    def share(self) -> FloatArray:
        """That of the first curve."""
        return self._first.share

    @property
    def gain(self) -> FloatArray:
        """That of the first curve."""
        return self._first.gain


@dataclass(eq=False, slots=True)
class LiftCurveDisplay(_CurvesDisplay[GainCurve]):
    """Lift: how many times more positives the highest scores hold than a random draw."""

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
    ) -> Self:
        """The display, not drawn yet."""
        marks: list[Mark] = []
        curves: dict[str, GainCurve] = {}
        found = _curves(evaluator, "gain", ("share", "gain"), name, classes, {})
        for number, (label, _, curve) in enumerate(found):
            color, style = line_look(number)
            curves[label] = curve
            # At a share of 0 there is no lift.
            x, y = thinned(curve.share[1:], curve.lift[1:])
            marks.append(Line(x, y, label or "Lift", color, style, markers=len(x) < 3))
        level = np.array([1.0, 1.0])
        marks.append(Line(np.array([0.0, 1.0]), level, "Drawn at random", MUTED, "dashed"))
        picture = Picture(
            "Lift",
            _share_axis("Share of the events, highest scores first"),
            Axis("Lift" + _positive(evaluator), (0.0, None)),
            tuple(marks),
            corner="upper right",
            legend=_legend_title(evaluator),
        )
        return cls(picture, curves)

    @property
    def share(self) -> FloatArray:
        """That of the first curve."""
        return self._first.share

    @property
    def lift(self) -> FloatArray:
        """That of the first curve."""
        return self._first.lift


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
        threshold = _threshold(evaluator)
        low, high = float(table.threshold[0]), float(table.threshold[-1])
        if threshold is not None and low <= threshold <= high:
            marks.append(Span(threshold))
        if low >= 0.0 and high <= 1.0:
            low, high = -0.01, 1.01
        elif low == high:
            low, high = low - 0.5, high + 0.5
        picture = Picture(
            "Metrics by threshold" + (f" of {one_line(name)}" if name else ""),
            Axis(
                "Threshold" + ("; dotted: in use" if isinstance(marks[-1], Span) else ""),
                (low, high),
            ),
            _share_axis("Value" + _positive(source)),
            tuple(marks),
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

    rows: Mapping[str, Sequence[PaneRow]]
    """By the name of each line."""

    @classmethod
    def computed(
        cls,
        evaluator: Source,
        metric: str | None = None,
        *,
        name: str | None = None,
        intervals: float | None = None,
    ) -> Self:
        """The display, not drawn yet."""
        metric = metric or USUAL_METRICS["single", evaluator.task][0]
        return cls.of_rows(evaluator.series(metric, intervals=intervals), metric, name=name)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Source,
        metric: str | None = None,
        ax: Any = None,
        *,
        name: str | None = None,
        intervals: float | None = None,
        **options: Any,
    ) -> Self:
        """Compute and draw.

        Args:
            evaluator: An evaluator of a window of panes.
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
        values = [row.value for line in several.values() for row in line]
        every = [row for line in several.values() for row in line]
        if not np.isfinite(values).any():
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
            marks.append(Span(report.total.value, float(bottom), float(top)))
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
        "gain": GainCurveDisplay,
        "lift": LiftCurveDisplay,
        "threshold_metrics": ThresholdsDisplay,
        "series": SeriesDisplay,
        "slices": SlicesDisplay,
    }
)
"""Every display by the name of its picture; ``DISPLAYS[name].computed(evaluator)``."""


def available_displays(
    evaluator: Evaluator,
    *,
    intervals: float | None = None,
    metric: str | None = None,
    names: Iterable[str] | None = None,
) -> Iterator[tuple[str, Any, str]]:
    """Every display that an evaluator has, by name, with the reason of those that it has not.

    Args:
        evaluator: The evaluator to draw.
        intervals: The level of what is drawn beside curves, series and slices; None: nothing.
        metric: That of the series and of the slices; F1 by default.
        names: The displays, of :data:`DISPLAYS`; all by default.

    Yields:
        Name, display (not drawn yet) and an empty text; or name, None and the reason.

    >>> ev = Evaluator()
    >>> ev.update_many([True, False], [True, True])
    >>> [name for name, display, reason in available_displays(ev) if display]
    ['confusion']
    """
    for name in DISPLAYS if names is None else names:
        kind = DISPLAYS[name]
        options: dict[str, Any] = {}
        if name in ("roc", "precision_recall", "calibration", "series", "slices"):
            options["intervals"] = intervals
        if name in ("series", "slices"):
            options["metric"] = metric
        try:
            yield name, kind.computed(evaluator, **options), ""  # type: ignore[attr-defined]
        except (InputError, MetricError) as error:
            yield name, None, str(error)


def plot_curve(
    evaluator: Source,
    name: str,
    ax: Any = None,
    *,
    intervals: float | None = None,
    **params: Any,
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
    level = _level(intervals)
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
