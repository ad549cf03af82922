"""Predictions whose labels are not known yet: their volume, rates and scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.reports import ReportRow, Shares
from streameval.evaluator.spellings import explains_attributes
from streameval.evaluator.view import locked
from streameval.metrics.undefined import NO_EVENTS, ratio, reason_of
from streameval.state_files.codec import unpack_one_of
from streameval.state_files.disk import read_one_of
from streameval.uncertainty.interval import Interval, checked_level
from streameval.uncertainty.proportions import wilson

PREDICTIONS_KIND = "predictions"


_update = Evaluator.update


class Predictions(Evaluator):
    """Counts the predictions of a classifier whose true labels are not known.

    Made, windowed, sliced, merged, saved and read as an :class:`~streameval.Evaluator`, with the
    same arguments. Binary: ``positive_rate``, ``mean_score``, ``median_score`` and any
    ``score_quantile``; multi-class: ``mean_confidence``; both: :meth:`shares` of the predicted
    labels. Shares and means have intervals.

    >>> p = Predictions(threshold=0.5)
    >>> _ = p.update(score=0.9)
    >>> _ = p.update_many(score=[0.2, 0.4, 0.7])
    >>> p["positive_rate"], p["mean_score"], p.quantile(0.75)
    (0.5, 0.55, 0.7)
    >>> p
    <Predictions: predictions, positive 1, 4 events; positive_rate 0.5, mean_score 0.55, ...>
    """

    __slots__ = ()

    _kind = PREDICTIONS_KIND
    _called = "Predictions"
    _labelled = False

    def update(  # type: ignore[override]  # no true label
        self,
        y_pred: object = None,
        *,
        score: object = None,
        proba: object = None,
        weight: object = 1,
        event_time: object = None,
        slices: object = None,
        unit: object = None,
    ) -> Self:
        """Count one prediction; arguments, result and errors as of :meth:`Evaluator.update`."""
        # Not super(), which takes longer than the rest.
        return _update(
            self,
            None,
            y_pred,
            score=score,
            proba=proba,
            weight=weight,
            event_time=event_time,
            slices=slices,
            unit=unit,
        )

    def update_many(  # type: ignore[override]
        self,
        y_pred: object = None,
        *,
        score: object = None,
        proba: object = None,
        weight: object = None,
        event_time: object = None,
        slices: object = None,
        unit: object = None,
    ) -> Self:
        """Count columns of predictions, to the same bits as one by one."""
        return super().update_many(
            None,
            y_pred,
            score=score,
            proba=proba,
            weight=weight,
            event_time=event_time,
            slices=slices,
            unit=unit,
        )

    def revert(  # type: ignore[override]
        self,
        y_pred: object = None,
        *,
        score: object = None,
        proba: object = None,
        weight: object = 1,
        event_time: object = None,
        slices: object = None,
        unit: object = None,
    ) -> None:
        """Undo exactly one earlier prediction, given as :meth:`update` was; raises InputError."""
        super().revert(
            None,
            y_pred,
            score=score,
            proba=proba,
            weight=weight,
            event_time=event_time,
            slices=slices,
            unit=unit,
        )

    def consume(
        self, events: Iterable[object], *, fields: Sequence[str] = ("score",), batch: int = 4096
    ) -> int:
        """Count the predictions of an iterable, as :meth:`Evaluator.consume` does."""
        return super().consume(events, fields=fields, batch=batch)

    def quantile(self, q: float) -> float:
        """The smallest score that at least the share `q` of the events do not exceed.

        Raises MetricError for a `q` outside [0, 1]; nan, with a reason, before the first score.

        >>> Predictions().update_many(score=[0.1, 0.2, 0.3]).quantile(0.5)
        0.2
        """
        return float(self.value("score_quantile", q=q))

    @locked
    def shares(self, *, intervals: float | None = None) -> Shares:
        """The share of the events that each label is predicted for, with its Wilson interval.

        Args:
            intervals: The level of the interval of each; None: without.

        >>> print(Predictions(task="multiclass").update_many(["cat", "cat", "dog"]).shares())
        label  value         support
        cat    0.6666666667        2
        dog    0.3333333333        1
        """
        level = None if intervals is None else checked_level(intervals)
        context = self._context
        state_set = self._fed("shares", "confusion")
        counts = state_set.confusion
        n = counts.total if counts.exact else state_set.effective_size("confusion")
        names = context.names()
        rows = []
        for label in counts.labels:
            weight = counts.predicted_count(label)
            value = ratio(weight, counts.total, NO_EVENTS, context.undefined)
            found = None
            if level is not None and counts.total:
                ends = wilson(value * n, n, level)
                found = Interval(value, *ends, level, "wilson", n)
            name = str(names.get(label, label))
            rows.append(ReportRow(name, float(value), reason_of(value), weight, found))
        return Shares(context.plan.task, tuple(rows), context.notes)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The predictions that :meth:`to_bytes` wrote; raises StateError."""
        return cls.from_parts(unpack_one_of(data, (PREDICTIONS_KIND,)), in_memory=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The predictions that :meth:`save` wrote; raises StateError."""
        return cls.from_parts(read_one_of(path, (PREDICTIONS_KIND,)))

    def __reduce__(self) -> tuple[Callable[[bytes, Any], Predictions], tuple[bytes, Any]]:
        return _unpickled, self._pickled()


def _unpickled(data: bytes, provenance: Any) -> Predictions:
    return Predictions._from_pickled(data, provenance)


explains_attributes(Predictions, "p")
