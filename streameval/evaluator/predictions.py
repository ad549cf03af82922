"""Predictions whose labels are not known yet: their volume, rates and scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

from streameval.errors import InputError, MetricError, shown
from streameval.evaluator.evaluator import EVALUATOR_KIND, Evaluator
from streameval.evaluator.reports import ReportRow, Shares
from streameval.evaluator.slices import SliceKey
from streameval.evaluator.spellings import explains_attributes
from streameval.evaluator.view import View, both_locked, expectation, fed_scores, locked
from streameval.events.values import Label, Weight
from streameval.metrics.metric import row_named
from streameval.metrics.undefined import NO_EVENTS, ratio, reason_of
from streameval.state_files.codec import unpack_one_of
from streameval.state_files.disk import read_one_of
from streameval.states.state_set import StateSet
from streameval.uncertainty.differences import FALSE_DISCOVERIES
from streameval.uncertainty.drift import (
    DRIFTS,
    Drift,
    SideShares,
    drift,
    drifted,
    label_shares,
    score_shares,
)
from streameval.uncertainty.interval import Interval, checked_level
from streameval.uncertainty.proportions import wilson
from streameval.windows import Panes, window_spec

PREDICTIONS_KIND = "predictions"

Reference: TypeAlias = Evaluator | View | str | os.PathLike[str]
"""What predictions are compared with; a path is of a saved state."""


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

    def previous(self) -> View:
        """The window one length before this one, of retained panes, as a view that stays.

        It is the reference of :meth:`drift` where there is no other. The window has to retain twice
        its length, as below; raises MetricError for another.

        >>> from streameval import Panes
        >>> p = Predictions(window=Panes("1h", retain="2h"), time_unit="s")
        >>> times = [1_700_000_000, 1_700_003_700, 1_700_003_700]
        >>> _ = p.update_many(score=[0.25, 0.75, 1], event_time=times)
        >>> p.previous().support, p.drift(p.previous(), "wasserstein").value
        (1, 0.625)
        """
        window = window_spec(self._options["window"])
        if not isinstance(window, Panes) or window.retain_us < 2 * window.length_us:
            raise MetricError(
                "the window before requires a window of panes that retains twice its length, as "
                'Panes("1h", retain="2h")'
            )
        return self.total.before(window.length_us)

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

    def drift(
        self, reference: Reference, name: str, *, method: str = "auto", level: float = 0.95
    ) -> Drift:
        """How far these predictions are from those of a reference.

        Args:
            reference: Other predictions, an evaluator, a view of one, such as a slice, or the path
                of a saved state of either.
            name: A measure of :data:`streameval.uncertainty.drift.DRIFTS`: of scores ``"ks"``,
                ``"wasserstein"``, ``"psi"`` and ``"jensen_shannon"``; of predicted labels
                ``"chi_squared"`` and ``"cramers_v"``.
            method: ``"auto"``, a p-value for one look; or ``"anytime"``, for ``"ks"`` and the
                measures of labels, one that may be looked at after every event.
            level: Of the ends of ``"anytime"``.

        Raises:
            MetricError: No such measure or method, another task, or ``"anytime"`` of a window.
            StateError: The path holds no such state.

        >>> now = Predictions().update_many(score=[0.1, 0.4, 0.4, 0.9])
        >>> now.drift(Predictions().update_many(score=[0.1, 0.2, 0.3, 0.4]), "wasserstein").value
        0.2
        """
        return drift_between(self.total, view_of(reference), name, method=method, level=level)

    def slice_drift(
        self, reference: Reference, name: str, *, rate: float = FALSE_DISCOVERIES
    ) -> dict[SliceKey, Drift]:
        """The slices that have drifted, by their keys, of those that the reference has too.

        At most the share `rate` of them is expected to be flagged by chance (Benjamini-Hochberg).
        Arguments and errors as of :meth:`drift`.
        """
        others = _opened(reference)
        if not isinstance(others, Evaluator):
            raise MetricError("slice_drift compares all slices of an evaluator or of predictions")
        theirs = others.slices()
        found = {
            key: drift_between(view, theirs[key], name)
            for key, view in self.slices().items()
            if key in theirs
        }
        return drifted(found, rate)

    def expected(
        self, name: str, labelled: Reference, *, level: float = 0.95, **params: Any
    ) -> Interval:
        """The value that a metric is expected to have once the labels of these events are there.

        It holds as long as the share of positives at each score is what it was in the labelled
        events: another mixture of scores is accounted for, a model that has become wrong is not.

        Args:
            name: A metric of :data:`streameval.uncertainty.expected.EXPECTED`, such as ``"f1"``.
            labelled: An evaluator of earlier events with labels, a view of one, or the path of its
                saved state; at least 100 events, of two classes 10 of each.
            level: Of the interval, which is of the later value of these events.
            params: The metric's own, such as ``beta``.

        Raises:
            InputError: There are too few labelled events.
            MetricError: The metric has no expectation, or the tasks differ.
        """
        return expected_of(self.total, view_of(labelled), name, level=level, **params)

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


def _opened(reference: Reference) -> Evaluator | View:
    """What a reference is, out of its file where it is a path; raises StateError."""
    if isinstance(reference, (Evaluator, View)):
        return reference
    if not isinstance(reference, (str, os.PathLike)):
        expected = "an evaluator, predictions, a view of one, or the path of a saved state"
        raise InputError("reference", expected=expected, got=shown(reference))
    unpacked = read_one_of(reference, (EVALUATOR_KIND, PREDICTIONS_KIND))
    kind = Predictions if unpacked.kind == PREDICTIONS_KIND else Evaluator
    return kind.from_parts(unpacked)


def view_of(reference: Reference) -> View:
    """All events of a reference, or those of its view; raises InputError or StateError."""
    opened = _opened(reference)
    return opened.total if isinstance(opened, Evaluator) else opened


def expected_of(
    predictions: View, labelled: View, name: str, *, level: float = 0.95, **params: Any
) -> Interval:
    """The expected metric of a view; see :meth:`Predictions.expected`."""
    views = predictions, labelled
    with both_locked(views):
        estimate = expectation(name, views, level, params, "labelled")
        return estimate(predictions._window.current())


def drift_between(
    now: View, reference: View, name: str, *, method: str = "auto", level: float = 0.95
) -> Drift:
    """The drift of two views; see :meth:`Predictions.drift`."""
    row_named("drift measure", name, DRIFTS)
    views = now, reference
    if method == "anytime" and not all(view._context.cumulative for view in views):
        raise MetricError(
            "anytime covers all events since a start, no window: pass no window= to Predictions"
        )
    with both_locked(views):
        sides, sizes = _compared(views, name)
        return drift(name, *sides, method=method, level=level, sizes=sizes)


def shares_between(now: View, reference: View, name: str, *, bins: int = 20) -> SideShares:
    """The shares of both views in bins of the score, or of the labels, that a measure compares."""
    views = now, reference
    with both_locked(views):
        (first, second), _ = _compared(views, name)
        if DRIFTS[name].input == "labels":
            return label_shares(first, second)
        return score_shares(first, second, bins)


def _compared(views: tuple[View, View], name: str) -> tuple[list[Any], tuple[float, float]]:
    """What a measure compares of both, and Kish's effective sizes; raises MetricError."""
    state = "index" if DRIFTS[name].input == "scores" else "confusion"
    first, second = (fed_scores(view, name, state) for view in views)
    sides: list[Any] = [first.index, second.index] if state == "index" else []
    if state == "confusion":
        sides = [_predicted(first, views[0]), _predicted(second, views[1])]
        if all(sides) and sides[0].keys().isdisjoint(sides[1]):
            here, there = (", ".join(map(shown, side)) for side in sides)
            raise MetricError(f"{name} compares the same labels, got {here} and {there}")
    return sides, (first.effective_size(state), second.effective_size(state))


def _predicted(state_set: StateSet, view: View) -> dict[Label, Weight]:
    """The weight of each predicted label."""
    counts, names = state_set.confusion, view._context.names()
    return {names.get(label, label): counts.predicted_count(label) for label in counts.labels}


def _unpickled(data: bytes, provenance: Any) -> Predictions:
    return Predictions._from_pickled(data, provenance)


explains_attributes(Predictions, "p")
