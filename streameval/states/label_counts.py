"""How often each label of a multi-label stream was predicted rightly, wrongly, and missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.errors import StateError, shown
from streameval.events.event import EventBatch
from streameval.events.label_rows import LabelRows
from streameval.events.values import Label, Weight
from streameval.states.confusion import BinaryCounts, ClassCounts, distinct_labels
from streameval.states.fields import Fields
from streameval.states.sums.cell_sums import CellSums
from streameval.states.sums.fixed_point import total_weight_by_group
from streameval.states.sums.sum_vector import Form
from streameval.tables import Table

HIT, FALSE_ALARM, MISS = range(3)
"""Outcomes of a label in an event; of most labels there is none, which costs nothing."""


def outcomes(y_true: Any, y_pred: Any) -> list[tuple[Label, int]]:
    """The labels that an event has or that were predicted of it, each with its outcome."""
    found = [(label, HIT) for label in y_true & y_pred]
    found += [(label, FALSE_ALARM) for label in y_pred - y_true]
    found += [(label, MISS) for label in y_true - y_pred]
    return found


class LabelCounts(CellSums):
    """For each label the weight of its true positives, false positives and false negatives.

    True negatives follow from the weight of all events, so that a label costs nothing in events
    that neither have it nor were predicted to.

    Args:
        labels: The closed list of labels, in the order of tables; None: those that occur.

    >>> counts = LabelCounts()
    >>> counts.update({"ad", "spam"}, {"spam"})
    >>> counts.update({"spam"}, {"ad", "spam"}, weight=2)
    >>> counts.binary("spam"), counts.binary("ad")
    (BinaryCounts(tp=3, fp=0, fn=0, tn=0), BinaryCounts(tp=0, fp=2, fn=1, tn=0))
    """

    __slots__ = ("closed",)
    NAME = "label_counts"
    TALLY = "NativeLabelTally"
    COLUMNS = {"label": True, "outcome": False}  # noqa: RUF012
    MOST = MISS
    OPTIONAL = frozenset({"closed"})

    closed: tuple[Label, ...] | None
    """The closed list of labels."""

    def __init__(self, labels: Iterable[object] | None = None) -> None:
        super().__init__()
        self.closed = None if labels is None else tuple(distinct_labels(labels, "labels"))

    @classmethod
    def of_closed(cls, labels: tuple[Label, ...] | None) -> LabelCounts:
        """An empty state that shares this closed list of distinct labels."""
        new = cls()
        new.closed = labels
        return new

    def _empty(self) -> LabelCounts:
        return self.of_closed(self.closed)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> list[tuple[Label, int]]:
        return outcomes(y_true, given)

    def _cells_of(self, batch: EventBatch, hits: LabelRows) -> Iterator[tuple[Any, Weight]]:
        labels, weight = batch.labels, batch.weight
        right, true, predicted = (
            total_weight_by_group(
                rows.codes, len(labels), None if weight is None else weight[rows.rows]
            )
            for rows in (hits, batch.y_true, batch.y_pred)
        )
        for label, tp, t, p in zip(labels, right, true, predicted, strict=True):
            # The order of outcomes.
            for outcome, by in enumerate((tp, p - tp, t - tp)):
                if by > 0:  # a difference of floats may be below
                    yield (label, outcome), by

    # What metrics read of counts of classes

    @property
    def labels(self) -> list[Label]:
        """The labels as declared, or all that occur, ascending."""
        if self.closed is not None:
            return list(self.closed)
        return sorted({label for label, _ in self._held()})

    @property
    def whole(self) -> LabelCounts:
        """The counts that ratios are computed of."""
        return self

    def binary(self, label: object) -> BinaryCounts:
        """The four counts of a label; all zeros but ``tn`` for a label never seen."""
        get, zero = self._held().get, 0 if self.exact else 0.0
        tp, fp, fn = (get((label, outcome), zero) for outcome in (HIT, FALSE_ALARM, MISS))
        return BinaryCounts(tp, fp, fn, max(zero, self.weight - tp - fp - fn))

    def true_count(self, label: object) -> Weight:
        """Weight of the events that have the label (its support); 0 for one never seen."""
        tp, _, fn, _ = self.binary(label)
        return tp + fn

    def per_class(self) -> ClassCounts:
        """Right, true and predicted weight of each label. Cost: O(labels)."""
        labels = self.labels
        get, zero = self._held().get, 0 if self.exact else 0.0
        right = [get((label, HIT), zero) for label in labels]
        true = [tp + get((label, MISS), zero) for tp, label in zip(right, labels, strict=True)]
        predicted = [
            tp + get((label, FALSE_ALARM), zero) for tp, label in zip(right, labels, strict=True)
        ]
        return ClassCounts(labels, right, true, predicted)

    def to_array(self, labels: Iterable[object] | None = None) -> npt.NDArray[Any]:
        """A matrix ``[[tn, fp], [fn, tp]]`` of each label, as scikit-learn has it: (L, 2, 2).

        >>> counts = LabelCounts()
        >>> counts.update({"spam"}, {"ad", "spam"}, weight=2)
        >>> counts.to_array().tolist()
        [[[0, 2], [0, 0]], [[0, 0], [0, 2]]]
        """
        names = self.labels if labels is None else distinct_labels(labels, "labels")
        rows = [self.binary(label) for label in names]
        table = [[[tn, fp], [fn, tp]] for tp, fp, fn, tn in rows]
        dtype: type = np.int64 if self.exact else np.float64
        if self.exact and self.weight >= 2**63:
            dtype = object
        return np.array(table, dtype=dtype).reshape(len(names), 2, 2)

    # Other states

    def _check_merge(self, other: Any) -> None:
        super()._check_merge(other)
        if self.closed != other.closed:
            raise StateError(
                "merge: the two have other closed lists of labels: "
                f"{_list_text(self.closed)} here and {_list_text(other.closed)} there"
            )

    # Written form

    def to_state(self, *, occurring: bool = False) -> Form:
        """Plain data, the same for the same content.

        Args:
            occurring: Without the closed list, which an evaluator writes once for all states.
        """
        form = super().to_state()
        if self.closed is not None and not occurring:
            form["closed"] = list(self.closed)
        return form

    @classmethod
    def _of_settings(cls, fields: Fields, *settings: Any) -> LabelCounts:
        if settings:
            if "closed" in fields:
                raise StateError("label_counts.closed: expected no such key in an evaluator")
            return cls.of_closed(*settings)
        closed = fields.labels(key="closed", ascending=False) if "closed" in fields else None
        return cls.of_closed(None if closed is None else tuple(closed))

    def _read(self, fields: Fields) -> None:
        super()._read(fields)
        found = {label for label, _ in self._cells}
        others = found.difference(self.closed or ())
        if self.closed is not None and others:
            expected = f"labels out of {shown(list(self.closed))}"
            raise StateError(f"label_counts: expected {expected}, got {shown(min(others))}")
        most, _ = self._about(self.weight)
        for label in found:
            tp, fp, fn, _ = self.binary(label)
            if tp + fp + fn > most:
                raise StateError(f"label_counts: more events of {shown(label)} than of all")

    def _rows(self) -> Table:
        form = "{}" if self.exact else "{:.12g}"
        rows = [
            [str(label), *(form.format(number) for number in self.binary(label))]
            for label in self.labels
        ]
        header = ["label", *BinaryCounts._fields]
        return Table(header, rows, frozenset(header[1:]))

    def __str__(self) -> str:
        return self._rows().to_text()

    def _repr_html_(self) -> str:
        return self._rows().to_html()


def _list_text(closed: tuple[Label, ...] | None) -> str:
    return "none" if closed is None else shown(list(closed))
