"""Displays of curves: one table says which columns each has, and how its picture looks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np

from streameval.errors import InputError, MetricError, shown
from streameval.evaluator.evaluator import Evaluator
from streameval.events.values import FloatArray, Label
from streameval.metrics.calibration import CalibrationCurve
from streameval.metrics.curves import (
    CurveAverage,
    DetCurve,
    PrecisionRecallCurve,
    PrGainCurve,
    RocCurve,
)
from streameval.metrics.score_profiles import GainCurve
from streameval.metrics.undefined import NO_EVENTS
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
    MUTED,
    STYLES,
    Area,
    Axis,
    Corner,
    Line,
    Mark,
    Picture,
    Style,
    Whiskers,
    line_look,
    one_line,
    thinned,
)
from streameval.tasks.registry import TASKS
from streameval.uncertainty.calibration import calibration_band
from streameval.uncertainty.proportions import distribution_gap

_MOST_LINES = 20
_HIGHEST_FIRST = "Share of the events, highest scores first"


def _parts(
    source: Source, name: str | None, classes: Iterable[Label] | None, what: str
) -> list[tuple[str, Source]]:
    """The name of each line, and what it is drawn of."""
    if has_positive(source):
        if classes is not None:
            raise InputError(
                "classes",
                expected="classes of a multiclass task",
                got="a binary one",
                remedy="leave out classes=",
            )
        return [(name or "", source)]
    if TASKS[source.task].truth == "numbers":
        raise MetricError(f"the {what} is of scores, and a regression has numbers")
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
    sources: Sources,
    curve: str,
    columns: tuple[str, str],
    name: str | None,
    classes: Iterable[Label] | None,
    params: Mapping[str, Any],
    average: CurveAverage | None = None,
) -> list[tuple[str, Source, Any]]:
    """The curves that are defined, each with its name and source; or their average."""
    found, reasons = [], []
    parts: list[tuple[str, Source, Any]] = []
    if average is not None and classes is not None:
        raise InputError(
            "classes",
            expected="no classes beside average=",
            got="both",
            remedy="an average is of all classes; leave out one of the two",
        )
    for before, source in by_name(sources, name).items():
        if average is None:
            parts += [
                (label, part, part.curve(curve, **params))
                for label, part in _parts(source, before, classes, f"curve {curve}")
            ]
        else:
            text = f"{before}, {average} average" if before else f"{average} average"
            parts.append((text, source, source.curve(f"{curve}_ovr", average=average, **params)))
    if len(parts) > _MOST_LINES and isinstance(sources, Mapping):
        raise InputError(
            "sources",
            expected=f"at most {_MOST_LINES} lines in a picture",
            got=str(len(parts)),
            remedy="pass classes=[...], those to draw",
        )
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


def _legend_title(source: Source) -> str:
    if has_positive(source):
        return ""
    return "label" if TASKS[source.task].truth == "label sets" else "class against the rest"


_Curve = TypeVar("_Curve")


@dataclass(frozen=True, slots=True)
class _CurveRow:
    """What one display of curves shows."""

    curve: str
    """Its name in :data:`streameval.metrics.curves.CURVES`."""
    x: str
    y: str
    """The columns of the curve."""
    title: str
    labels: tuple[str, str]
    """Of the axes; ``{}`` is the positive class, where it has a name."""
    area: tuple[str, str] | None = None
    """The metric that is the area of the curve, and what the legend calls it."""
    unnamed: str = ""
    """The legend's text of a curve that has neither a name nor an area."""
    intervals: bool = False
    """Whether intervals of the area, and an average over classes, can be drawn."""
    corner: Corner = "best"
    square: bool = True
    compared: tuple[str, float, float, Style] | None = None
    """The line that curves are compared with: its name, its ends at x = 0 and 1, its style."""
    steps: bool = False
    markers: bool = False


class _Column:
    """An attribute of a display: a column of its first curve."""

    def __init__(self, column: str, text: str) -> None:
        self._column, self.__doc__ = column, text

    def __get__(self, display: Any, kind: type) -> FloatArray:
        if display is None:
            return self  # type: ignore[return-value]
        column: FloatArray = getattr(next(iter(display.curves.values())), self._column)
        return column


@dataclass(eq=False, slots=True)
class _CurvesDisplay(Display, Generic[_Curve]):
    """Curves of one score, or of each class against the rest; of one evaluator or several."""

    several: ClassVar[bool] = True
    _row: ClassVar[_CurveRow]

    curves: Mapping[str, _Curve]
    """By the name of each line."""
    areas: Mapping[str, float]
    """The area of each, where it has one."""

    @classmethod
    def computed(
        cls,
        evaluator: Sources,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        average: CurveAverage | None = None,
        **params: Any,
    ) -> Self:
        """The display, not drawn yet; arguments as of :meth:`from_evaluator`."""
        row = cls._row
        if isinstance(evaluator, Mapping) and row.intervals and classes is None:
            # One line of each source, where they have lines of several classes.
            average = average or (None if has_positive(first(evaluator)) else "macro")
        if not row.intervals:
            # They are then like any parameter that the curve does not take.
            given = {"intervals": intervals, "average": average}
            params |= {key: value for key, value in given.items() if value is not None}
            intervals = average = None
        level = checked_intervals(intervals)
        found = _curves(evaluator, row.curve, (row.x, row.y), name, classes, params, average)
        if row.area:
            row = replace(row, area=(row.area[0] + _AREAS[average], row.area[1]))
        return cls._of(evaluator, row, found, level, alone=len(found) == 1 and average is None)

    @classmethod
    def _of(
        cls,
        evaluator: Sources,
        row: _CurveRow,
        found: list[tuple[str, Source, Any]],
        level: float | None,
        *,
        alone: bool = False,
    ) -> Self:
        """The display of curves; `alone`: of one score, and no average."""
        marks: list[Mark] = []
        curves: dict[str, _Curve] = {}
        areas: dict[str, float] = {}
        # Of several sources with several lines each, the style is that of the source.
        each = len(found) // len(evaluator) if isinstance(evaluator, Mapping) else len(found)
        for number, (label, part, curve) in enumerate(found):
            color, style = line_look(number)
            if 1 < each < len(found):
                color = line_look(number % each)[0]
                style = STYLES[number // each % len(STYLES)]
            text = label or row.unnamed
            if row.area:
                text, areas[label] = _with_area(label, part, *row.area, level)
            curves[label] = curve
            marks.append(cls._line(row, curve, text, color, style))
            if level is not None:
                marks += cls._uncertain(part, curve, level, color, alone=alone)
        if row.compared:
            text, low, high, style = row.compared
            ends = np.array([0.0, 1.0]), np.array([low, high])
            marks.append(Line(*ends, text, MUTED, style))
        marks += cls._beside(list(curves.values()))
        positive = positive_class(first(evaluator))
        x, y = (share_axis(label.format(positive)) for label in row.labels)
        picture = Picture(
            *(row.title, x, y, tuple(marks)),
            square=row.square,
            corner=row.corner,
            legend=_legend_title(first(evaluator)),
        )
        return cls(cls._framed(picture, curves.values()), curves, areas)

    @classmethod
    def _line(cls, row: _CurveRow, curve: Any, text: str, color: str, style: Style) -> Line:
        x, y = thinned(getattr(curve, row.x), getattr(curve, row.y))
        return Line(x, y, text, color, style, steps=row.steps, markers=row.markers)

    @classmethod
    def _uncertain(
        cls, source: Source, curve: Any, level: float, color: str, *, alone: bool
    ) -> list[Mark]:
        """The marks of a curve's own intervals."""
        return []

    @classmethod
    def _beside(cls, curves: list[Any]) -> list[Mark]:
        """Marks that depend on all curves."""
        return []

    @classmethod
    def _framed(cls, picture: Picture, curves: Iterable[Any]) -> Picture:
        """The picture with axes of its own, where they are no shares."""
        return picture

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Sources,
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
            evaluator: An evaluator, or the view of a slice; or several by the names of their
                lines, of which ROC, precision and recall of several classes are macro averages.
            ax: Matplotlib axes; those of a new figure by default.
            name: For the legend, of one evaluator.
            classes: Of several classes, those to draw; all, up to 20, by default. Classes
                without a curve are left out.
            intervals: Of ROC, precision and recall, and calibration: the level of the intervals.
                They are those of the area; of one ROC curve also a band that contains the whole
                true curve with that probability (Campbell 1994), and of each bin of calibration.
            average: Of ROC, precision and recall of several classes, ``"macro"``, ``"micro"`` or
                ``"weighted"``: one line, the average; each class has its own by default.
            params: Parameters of the curve, such as ``{"drop_intermediate": False}``.
            options: Arguments of matplotlib for the lines.

        Raises:
            MetricError: No scores were fed, or the curve does not take a parameter.
            InputError: The curve is undefined; the reason is in the message. Or a bad argument.
            MissingExtraError: The extra ``plots`` is not installed.
        """
        display = cls.computed(
            evaluator, name=name, classes=classes, intervals=intervals, average=average, **params
        )
        return display.plot(ax, **options)


@dataclass(eq=False, slots=True)
class RocCurveDisplay(_CurvesDisplay[RocCurve]):
    """ROC curve: true positive rate against false positive rate, with the AUC.

    >>> ev = Evaluator().update_many([True, False, True], score=[0.9, 0.4, 0.3])
    >>> display = RocCurveDisplay.computed(ev)
    >>> display.roc_auc, display.tpr.tolist()
    (0.5, [0.0, 0.5, 0.5, 1.0])
    """

    _row = _CurveRow(
        *("roc", "fpr", "tpr", "ROC curve", ("False positive rate{}", "True positive rate{}")),
        area=("roc_auc", "AUC"),
        intervals=True,
        corner="lower right",
        compared=("Chance level (AUC = 0.5)", 0.0, 1.0, "dashed"),
    )
    fpr = _Column("fpr", "False positive rates of the first curve.")
    tpr = _Column("tpr", "True positive rates of the first curve.")

    @property
    def roc_auc(self) -> float:
        """The AUC of the first curve."""
        return next(iter(self.areas.values()))

    @classmethod
    def _uncertain(
        cls, source: Source, curve: RocCurve, level: float, color: str, *, alone: bool
    ) -> list[Mark]:
        return _roc_band(source, curve, level) if alone else []


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

    >>> ev = Evaluator().update_many([True, False, True], score=[0.9, 0.4, 0.3])
    >>> round(PrecisionRecallDisplay.computed(ev).average_precision, 4)
    0.8333
    """

    _row = _CurveRow(
        *("precision_recall", "recall", "precision"),
        *("Precision and recall", ("Recall{}", "Precision{}")),
        area=("average_precision", "AP"),
        intervals=True,
        corner="lower left",
        steps=True,
    )
    precision = _Column("precision", "Precision of the first curve.")
    recall = _Column("recall", "Recall of the first curve.")

    @property
    def average_precision(self) -> float:
        """The average precision of the first curve."""
        return next(iter(self.areas.values()))

    @classmethod
    def _beside(cls, curves: list[PrecisionRecallCurve]) -> list[Mark]:
        # At the lowest threshold every event is predicted positive.
        shares = {float(curve.precision[0]) for curve in curves}
        if len(shares) != 1:
            return []
        (share,) = shares
        ends = np.array([0.0, 1.0]), np.array([share, share])
        return [Line(*ends, f"Chance level (AP = {share:.2g})", MUTED, "dashed")]


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

    _row = _CurveRow(
        *("det", "fpr", "fnr", "Detection error trade-off"),
        ("False positive rate{}", "False negative rate{}"),
        corner="upper right",
    )
    fpr = _Column("fpr", "False positive rates of the first curve.")
    fnr = _Column("fnr", "False negative rates of the first curve.")

    @classmethod
    def _line(cls, row: _CurveRow, curve: Any, text: str, color: str, style: Style) -> Line:
        x, y = thinned(curve.fpr, curve.fnr)
        few = len(x) < 3
        return Line(_probit(x), _probit(y), text, color, style, hover=(x, y), markers=few)

    @classmethod
    def _beside(cls, curves: list[DetCurve]) -> list[Mark]:
        rates = np.array([_DET_LEAST, 1 - _DET_LEAST])
        return [Line(_probit(rates), _probit(1 - rates), "Chance level", MUTED, "dashed")]

    @classmethod
    def _framed(cls, picture: Picture, curves: Iterable[DetCurve]) -> Picture:
        places = _probit(np.array(_DET_TICKS)).tolist()
        ticks = tuple((at, f"{rate:.3g}") for at, rate in zip(places, _DET_TICKS, strict=True))
        x, y = (Axis(axis.label, (-3.3, 3.3), ticks) for axis in (picture.x, picture.y))
        return replace(picture, x=x, y=y)


@dataclass(eq=False, slots=True)
class PrecisionRecallGainDisplay(_CurvesDisplay[PrGainCurve]):
    """Precision gain against recall gain (Flach & Kull 2015)."""

    _row = _CurveRow(
        *("pr_gain", "recall_gain", "precision_gain"),
        *("Precision and recall gain", ("Recall gain{}", "Precision gain")),
        area=("pr_gain_auc", "AUC"),
        corner="lower left",
    )

    @classmethod
    def _framed(cls, picture: Picture, curves: Iterable[PrGainCurve]) -> Picture:
        # A gain has no lower bound; the picture shows it down to -0.5.
        lowest = min(float(np.min(curve.precision_gain)) for curve in curves)
        least = max(-0.5, min(lowest, 0.0)) - 0.01
        return replace(picture, y=Axis(picture.y.label, (least, 1.01)))


@dataclass(eq=False, slots=True)
class CalibrationDisplay(_CurvesDisplay[CalibrationCurve]):
    """Reliability diagram: observed frequency against mean predicted probability, by bin.

    Of several classes, the probability of the predicted label against how often it is the
    true one; with ``classes=``, the probability of each of these classes. The bins of
    ``strategy="uniform"`` are equally wide; those of ``"quantile"`` hold as many events each,
    and need scores of one class.
    """

    _row = _CurveRow(
        *("calibration", "predicted", "observed"),
        *("Calibration", ("Mean predicted probability{}", "Observed frequency")),
        area=("expected_calibration_error", "ECE"),
        compared=("Perfectly calibrated", 0.0, 1.0, "dotted"),
        markers=True,
    )
    prob_pred = _Column("predicted", "Mean predicted probability of each bin of the first curve.")
    prob_true = _Column("observed", "Observed frequency of each bin of the first curve.")

    @classmethod
    def computed(
        cls,
        evaluator: Sources,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        strategy: Literal["uniform", "quantile"] = "uniform",
        **params: Any,
    ) -> Self:
        """The display, not drawn yet; ``intervals`` is the level of one interval for each bin."""
        if strategy not in ("uniform", "quantile"):
            raise InputError("strategy", expected="'uniform' or 'quantile'", got=shown(strategy))
        level = checked_intervals(intervals)
        row = cls._row
        if strategy == "quantile":
            area = "quantile_calibration_error", "ECE"
            row = replace(row, curve="calibration_quantile", area=area)
        columns = (row.x, row.y)
        if classes is not None and not has_positive(first(evaluator)):
            found = _curves(evaluator, row.curve, columns, name, classes, params)
            return cls._of(evaluator, row, found, level)
        named = by_name(evaluator, name).items()
        curves = [(label, one, one.curve(row.curve, **params)) for label, one in named]
        reasons = [_drawable(curve, *columns) for _, _, curve in curves]
        if all(reasons):
            raise InputError("curve", expected="a curve that is defined", got=reasons[0])
        if not has_positive(first(evaluator)):
            x, y = row.labels
            row = replace(row, labels=(f"{x} of the predicted label", f"{y} of being right"))
        found = [one for one, reason in zip(curves, reasons, strict=True) if not reason]
        display = cls._of(evaluator, row, found, level)
        display.picture = replace(display.picture, legend="")
        return display

    @classmethod
    def _uncertain(
        cls, source: Source, curve: CalibrationCurve, level: float, color: str, *, alone: bool
    ) -> list[Mark]:
        return [_bin_whiskers(source, curve, level, color)]

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Sources,
        ax: Any = None,
        *,
        name: str | None = None,
        classes: Iterable[Label] | None = None,
        intervals: float | None = None,
        strategy: Literal["uniform", "quantile"] = "uniform",
        params: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Self:
        """Compute and draw; arguments as of :meth:`RocCurveDisplay.from_evaluator`."""
        display = cls.computed(
            evaluator, name=name, classes=classes, intervals=intervals, strategy=strategy, **params
        )
        return display.plot(ax, **options)


def _bin_whiskers(source: Source, curve: CalibrationCurve, level: float, color: str) -> Whiskers:
    found = source.interval("expected_calibration_error", level=level)
    whole = not found.method.endswith("(Kish)")
    low, high = calibration_band(curve, level, None if whole else found.n)
    return Whiskers(curve.predicted, curve.observed, low, high, color)


@dataclass(eq=False, slots=True)
class GainCurveDisplay(_CurvesDisplay[GainCurve]):
    """Cumulative gain: the share of the positives found in the highest scores, by their share.

    >>> ev = Evaluator().update_many([True, False, True, False], score=[0.9, 0.4, 0.8, 0.1])
    >>> GainCurveDisplay.computed(ev).gain.tolist()
    [0.0, 0.5, 1.0, 1.0, 1.0]
    """

    _row = _CurveRow(
        *("gain", "share", "gain", "Cumulative gain"),
        (_HIGHEST_FIRST, "Share of the positive events found{}"),
        unnamed="Gain",
        corner="lower right",
        compared=("Drawn at random", 0.0, 1.0, "dashed"),
    )
    share = _Column("share", "Shares of the events of the first curve.")
    gain = _Column("gain", "Shares of the positives of the first curve.")


@dataclass(eq=False, slots=True)
class LiftCurveDisplay(_CurvesDisplay[GainCurve]):
    """Lift: how many times more positives the highest scores hold than a random draw."""

    _row = _CurveRow(
        *("gain", "share", "gain", "Lift", (_HIGHEST_FIRST, "Lift{}")),
        unnamed="Lift",
        corner="upper right",
        square=False,
        compared=("Drawn at random", 1.0, 1.0, "dashed"),
    )
    share = _Column("share", "Shares of the events of the first curve.")
    lift = _Column("lift", "Lift at each share of the first curve.")

    @classmethod
    def _line(cls, row: _CurveRow, curve: Any, text: str, color: str, style: Style) -> Line:
        # At a share of 0 there is no lift.
        x, y = thinned(curve.share[1:], curve.lift[1:])
        return Line(x, y, text, color, style, markers=len(x) < 3)

    @classmethod
    def _framed(cls, picture: Picture, curves: Iterable[GainCurve]) -> Picture:
        return replace(picture, y=Axis(picture.y.label, (0.0, None)))
