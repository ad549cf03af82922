"""Counts at every threshold of a score, which curves and cut-points are computed from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streameval.errors import MetricError, shown
from streameval.events.values import FloatArray, Weight, is_number
from streameval.metrics.undefined import NO_EVENTS, json_number
from streameval.states.class_scores import ClassScores
from streameval.states.label_scores import LabelScores
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.score_index import ScoreIndex
from streameval.tables import Table, data_frame

Counts = npt.NDArray[Any]
"""int64 while the weights are whole, else float64; Python ints where int64 overflows."""

_INT64_END = 2**63

_SHOWN_POINTS = 10
"""Points of a curve in a notebook."""


class ThresholdCounts(NamedTuple):
    """Running counts as the threshold falls: at ``+inf``, which counts no event, and each score."""

    threshold: FloatArray
    tp: Counts
    fp: Counts
    positives: Weight
    negatives: Weight


def widened(counts: Counts, bound: Weight) -> Counts:
    """The counts in a type that holds results as large as ``bound`` exactly."""
    if counts.dtype.kind != "i" or bound < _INT64_END:
        return counts
    return counts.astype(object)


def quotients(numerators: Counts, denominators: Counts | Weight) -> FloatArray:
    """Element by element division, nan where the denominator is 0 (never a warning)."""
    if numerators.dtype.kind != "O":
        result = np.full(np.shape(numerators), math.nan)
        np.true_divide(numerators, denominators, out=result, where=np.not_equal(denominators, 0))
        return result
    below = np.broadcast_to(np.asarray(denominators, dtype=object), numerators.shape)
    pairs = zip(numerators.flat, below.flat, strict=True)
    flat = np.array([a / b if b else math.nan for a, b in pairs], dtype=np.float64)
    return flat.reshape(numerators.shape)


def threshold_counts(groups: ScoreGroups) -> ThresholdCounts:
    """The running counts of score groups; O(distinct scores)."""
    threshold = np.concatenate(([math.inf], groups.scores[::-1]))
    tp = _running(groups.positives)
    fp = _running(groups.negatives)
    return ThresholdCounts(threshold, tp, fp, plain(tp[-1]), plain(fp[-1]))


def _running(weights: Counts) -> Counts:
    # An index keeps each class's total below 2**62, so the sums fit int64.
    return np.concatenate((np.zeros(1, dtype=weights.dtype), np.cumsum(weights[::-1])))


def threshold_blocks(index: ScoreIndex) -> Iterator[ThresholdCounts]:
    """The rows of :func:`threshold_counts` a block at a time, in memory that does not grow."""
    if not index.exact:
        # The totals are the last of the running sums, which are rounded.
        yield threshold_counts(index.groups())
        return
    positives, negatives = index.positives, index.negatives
    tp: Weight = 0
    fp: Weight = 0
    for number, block in enumerate(index.group_blocks(descending=True)):
        # The first row, above all scores, has the threshold inf.
        start = 1 if number else 0
        counts = threshold_counts(block)
        yield ThresholdCounts(
            counts.threshold[start:],
            counts.tp[start:] + tp,
            counts.fp[start:] + fp,
            positives,
            negatives,
        )
        tp, fp = tp + counts.positives, fp + counts.negatives


def plain(count: Any) -> Weight:
    """A count out of an array as a Python number."""
    number: Weight = count if isinstance(count, int) else count.item()
    return number


def pair_lead(counts: ThresholdCounts) -> Counts:
    """TP·N − FP·P at each row: Youden's J in pairs, exact in integers."""
    pairs = counts.positives * counts.negatives
    tp, fp = widened(counts.tp, pairs), widened(counts.fp, pairs)
    return tp * counts.negatives - fp * counts.positives


def class_missing(positives: Weight, negatives: Weight) -> str:
    """Why a metric of two classes has no value; empty when both were seen."""
    if not positives and not negatives:
        return NO_EVENTS
    if not positives:
        return "no positive event has been seen"
    return "" if negatives else "no negative event has been seen"


def coarsened(index: ScoreIndex | ClassScores | LabelScores) -> str:
    """Why a value without guaranteed bounds has none; empty while every score is kept."""
    if not index.level:
        return ""
    return (
        f"scores have been coarsened, as there are more than max_scores={index.max_scores}, "
        "and the value has no certain bounds then"
    )


def number_option(
    name: str, value: object, expected: str, *, low: float, high: float, above: bool = False
) -> float:
    """A metric's numeric option, from `low`, or `above` it, to `high`; raises MetricError."""
    if is_number(value):
        number = int(value) if isinstance(value, (int, np.integer)) else float(value)
        if (low < number if above else low <= number) and number <= high:
            return number
    raise MetricError(f"{name}: expected {expected}, got {shown(value)}")


def threshold_column(thresholds: Iterable[float]) -> FloatArray:
    """Thresholds that a caller gave, as a column; raises MetricError for nan or no number."""
    numbers = (
        number_option("thresholds", value, "numbers", low=-math.inf, high=math.inf)
        for value in thresholds
    )
    return np.asarray(list(numbers), dtype=np.float64)


def column_list(column: Counts) -> list[Any]:
    """A column as a list for JSON: nan and infinity become None."""
    if column.dtype.kind != "f":
        return list(column.tolist())
    return [json_number(value) for value in column.tolist()]


class CurveColumns:
    """The methods of every curve's record: a dataclass of columns and a reason."""

    __slots__ = ()
    _name: ClassVar[str]
    """What ``to_dict`` calls the curve."""

    @classmethod
    def empty(cls, reason: str) -> Self:
        """The curve without points, and why."""
        columns = [field.name for field in fields(cls) if field.name != "reason"]  # type: ignore[arg-type]
        return cls(**dict.fromkeys(columns, np.zeros(0)), reason=reason)  # type: ignore[call-arg]

    def columns(self) -> dict[str, Counts]:
        """Column name to array, in the order of the fields."""
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name != "reason"}

    def __iter__(self) -> Iterator[Counts]:
        """The columns in the order of the fields, so that a curve unpacks into them."""
        return iter(self.columns().values())

    def to_frame(self) -> Any:
        """A data frame of pandas or polars, whichever is loaded; a shorter column ends with nan.

        Raises:
            MissingExtraError: Neither is installed.
        """
        columns = self.columns()
        length = max(map(len, columns.values()))
        return data_frame(
            {
                name: np.concatenate((column, np.full(length - len(column), math.nan)))
                if len(column) < length
                else column
                for name, column in columns.items()
            }
        )

    def __repr__(self) -> str:
        columns = self.columns()
        points = len(next(iter(columns.values())))
        reason: str = self.reason  # type: ignore[attr-defined]
        return f"<{type(self).__name__}: {reason or f'{points} points'}; {', '.join(columns)}>"

    def _repr_html_(self) -> str:
        columns = self.columns()
        points = min(map(len, columns.values()))
        places = np.unique(np.linspace(0, points - 1, min(points, _SHOWN_POINTS)).astype(int))
        rows = [[f"{column[n]:.4g}" for column in columns.values()] for n in places.tolist()]
        shown_of = f" {len(rows)} of {points} points" if points > len(rows) else ""
        return Table(list(columns), rows).to_html(f"{self._name}{shown_of}")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists for JSON; nan and infinity become None."""
        reason: str = self.reason  # type: ignore[attr-defined]
        record: dict[str, Any] = {"curve": self._name, "reason": reason or None}
        record.update((key, column_list(column)) for key, column in self.columns().items())
        return record


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ThresholdTable(CurveColumns):
    """Counts and rates at some thresholds, a row each; unpacks into its columns.

    ``tp``, ``fp``, ``fn`` and ``tn`` are weights of events; ``tpr`` and ``fpr`` are fractions, nan
    (with ``reason``) while their class has not been seen.
    """

    threshold: FloatArray
    tp: Counts
    fp: Counts
    fn: Counts
    tn: Counts
    tpr: FloatArray
    fpr: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "thresholds"

    def __len__(self) -> int:
        return len(self.threshold)


def threshold_table(index: ScoreIndex, thresholds: Iterable[float] | None = None) -> ThresholdTable:
    """The four counts and both rates at each threshold (``score >= threshold`` is positive).

    `thresholds` are in the order wanted, infinity allowed; by default every distinct score,
    ascending. Raises MetricError where one is nan or not a number. Cost: O(distinct scores) and
    O(log) more for each threshold given.

    >>> index = ScoreIndex([(True, 0.8), (False, 0.6), (True, 0.6), (False, 0.1)])
    >>> table = threshold_table(index, [0.5, 0.7])
    >>> table.tp.tolist(), table.fp.tolist(), table.tpr.tolist()
    ([2, 1], [1, 0], [1.0, 0.5])
    """
    counts = threshold_counts(index.groups())
    last = len(counts.threshold) - 1
    if thresholds is None:
        wanted = counts.threshold[:0:-1]
        rows = np.arange(last, 0, -1)
    else:
        wanted = threshold_column(thresholds)
        # Row r counts the r highest distinct scores.
        rows = last - np.searchsorted(counts.threshold[:0:-1], wanted, side="left")
    tp, fp = counts.tp[rows], counts.fp[rows]
    return ThresholdTable(
        threshold=wanted,
        tp=tp,
        fp=fp,
        fn=counts.positives - tp,
        tn=counts.negatives - fp,
        tpr=quotients(tp, counts.positives),
        fpr=quotients(fp, counts.negatives),
        reason=class_missing(counts.positives, counts.negatives),
    )
