"""Sums over the classes of a confusion, kept current as events arrive.

A macro average reads the ratio of every class. With a thousand classes and a
read after every event that is a thousand divisions, of which one event can
have changed two. :class:`LabelSums` keeps each class's ratios and replaces
only those of the classes that were touched.

A sum of float ratios would drift and would depend on the order of the events.
So each ratio is a whole number of 2⁻⁶⁴, rounded down: adding and taking away
integers leaves no trace, and any path to the same counts gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import fsum
from typing import Any, TypeAlias

from streameval.events.values import Weight
from streameval.states.backend import compiled

FRACTION_BITS = 64
"""Ratios are summed in units of 2 to the minus this: 5e-20, far below a float's last bit."""

# Precision, recall and F1 of one class, in those units.
_Ratios: TypeAlias = tuple[int, int, int]
_NO_RATIOS: _Ratios = (0, 0, 0)


class LabelSums:
    """Sums over the classes of one confusion, t true, p predicted and c correct per class.

    Read ``ConfusionCounts.sums`` anew after each event: the read brings
    the ratios up to date. For integer weights it may be replaced by
    :class:`~streameval.states.native.native_label_sums.NativeLabelSums`, compiled, of
    the same attributes; see :mod:`streameval.states.confusion_parts.label_sums`.

    Attributes:
        total: Σ t, the weight of all events.
        hits: Σ c, the weight of the events predicted rightly.
        active: Number of classes with t + p > 0.
        with_true: Number of classes with t > 0.
        with_predicted: Number of classes with p > 0.
        precision: Σ ⌊2⁶⁴ c / p⌋ over the classes with p > 0.
        recall: Σ ⌊2⁶⁴ c / t⌋ over the classes with t > 0.
        f1: Σ ⌊2⁶⁴ 2c / (t + p)⌋ over the active classes.
        true_predicted: Σ t·p.
        true_squared: Σ t².
        predicted_squared: Σ p².
        true: t of each class, by its index within the confusion.
        predicted: p of each class.
        correct: c of each class.
        touched: Classes whose ratios are behind.
        watched: Set by a read: the next event then recomputes its ratios at
            once, which is cheaper than to note what to renew.

    Integer weights give Python ints throughout. Float weights give floats for
    all but the first three, the ratios unrounded and on the same scale of 2⁶⁴.

    Args:
        classes: Number of classes.
        cells: Index of the true class, index of the predicted class, weight.
        exact: False when the weights are floats; the object is then never
            changed, but made anew.

    Cost:
        O(classes + cells) to make. An event costs O(1), and a read O(1) for
        each class touched since the last.

    >>> sums = LabelSums(2, [(0, 0, 2), (1, 1, 1), (1, 0, 1)])
    >>> sums.recompute()
    >>> sums.recall / 2**64, sums.true_predicted
    (1.5, 8)
    """

    __slots__ = (
        "_ratios",
        "active",
        "correct",
        "f1",
        "hits",
        "precision",
        "predicted",
        "predicted_squared",
        "recall",
        "total",
        "touched",
        "true",
        "true_predicted",
        "true_squared",
        "watched",
        "with_predicted",
        "with_true",
    )

    def __init__(
        self, classes: int, cells: Iterable[tuple[int, int, Weight]], *, exact: bool = True
    ) -> None:
        self.total: Weight = 0
        self.hits: Weight = 0
        self.active = 0
        self.with_true = 0
        self.with_predicted = 0
        self.precision: Weight = 0
        self.recall: Weight = 0
        self.f1: Weight = 0
        self.true_predicted: Weight = 0
        self.true_squared: Weight = 0
        self.predicted_squared: Weight = 0
        self.true: list[Weight] = [0] * classes
        self.predicted: list[Weight] = [0] * classes
        self.correct: list[Weight] = [0] * classes
        self._ratios: list[_Ratios] = [_NO_RATIOS] * classes
        self.touched: set[int] = set()
        self.watched = False
        if exact:
            for i, j, weight in cells:
                self.count(i, j, weight)
        else:
            self._sum_floats(classes, cells)

    def grow(self, classes: int) -> None:
        """Extend the sums to classes that were added."""
        more = classes - len(self.true)
        if more > 0:
            self.true.extend([0] * more)
            self.predicted.extend([0] * more)
            self.correct.extend([0] * more)
            self._ratios.extend([_NO_RATIOS] * more)

    def count(self, i: int, j: int, weight: Weight) -> None:
        """Count events of class i predicted as class j; a negative weight takes them back."""
        true, predicted = self.true, self.predicted
        t, p = true[i], predicted[j]
        self.total += weight
        # (t + w)² − t² = w(2t + w), and so on.
        more_true = t + t + weight
        more_predicted = p + p + weight
        if i == j:
            more_both = t + p + weight
            self.correct[i] += weight
            self.hits += weight
        else:
            more_both = predicted[i] + true[j]
        if weight != 1:
            more_true *= weight
            more_predicted *= weight
            more_both *= weight
        self.true_squared += more_true
        self.predicted_squared += more_predicted
        self.true_predicted += more_both
        new_t = true[i] = t + weight
        new_p = predicted[j] = p + weight
        if not (t and p and new_t and new_p):
            self._census(i, j, t, p)
        if self.watched:
            # Read since the last event, and probably after this one too.
            self.watched = False
            self._renew(i)
            if i != j:
                self._renew(j)
        else:
            self.touched.add(i)
            self.touched.add(j)

    def short_way(
        self, index: dict[Any, int], cells: dict[int, Weight]
    ) -> Callable[[object, object], bool] | None:
        """A function of (true label, predicted label) that counts an event of weight 1.

        Compiled sums have one: it finds the labels in ``index``, counts in
        ``cells`` too, and returns False, nothing done, unless label and cell
        are known.
        """
        return None

    def settle(self) -> None:
        """Nothing; compiled sums bring the cells up to date with what they counted."""

    def lose_places(self) -> None:
        """Nothing; compiled sums look labels up again, one of which has been removed."""

    def retire(self) -> None:
        """Nothing; compiled sums give no more metrics once others have taken over."""

    def of_class(self, k: int) -> tuple[Weight, Weight, Weight]:
        """Correct, true and predicted weight of the class of this index."""
        return self.correct[k], self.true[k], self.predicted[k]

    def _census(self, i: int, j: int, old_t: Weight, old_p: Weight) -> None:
        """Count classes anew where one of row i and column j was empty, or now is."""
        rows, columns = (not old_t, not old_p), (not self.true[i], not self.predicted[j])
        self.with_true += rows[0] - columns[0]
        self.with_predicted += rows[1] - columns[1]
        if i == j:
            self.active += all(rows) - all(columns)
        else:
            if not self.predicted[i]:
                self.active += rows[0] - columns[0]
            if not self.true[j]:
                self.active += rows[1] - columns[1]

    def recompute(self) -> None:
        """Bring the ratios of the classes touched since the last time up to date."""
        for k in self.touched:
            self._renew(k)
        self.touched.clear()

    def _renew(self, k: int) -> None:
        c: int = self.correct[k] << FRACTION_BITS  # type: ignore[operator]
        old_precision, old_recall, old_f1 = self._ratios[k]
        if c:
            t: int = self.true[k]  # type: ignore[assignment]
            p: int = self.predicted[k]  # type: ignore[assignment]
            precision = c // p
            recall = c // t
            f1 = (c + c) // (t + p)
            self._ratios[k] = (precision, recall, f1)
            self.precision += precision - old_precision
            self.recall += recall - old_recall
            self.f1 += f1 - old_f1
        elif old_f1:
            self._ratios[k] = _NO_RATIOS
            self.precision -= old_precision
            self.recall -= old_recall
            self.f1 -= old_f1

    def _sum_floats(self, classes: int, cells: Iterable[tuple[int, int, Weight]]) -> None:
        # fsum rounds once: neither the order of the cells nor that of the
        # classes leaves a trace.
        rows: list[list[Weight]] = [[] for _ in range(classes)]
        columns: list[list[Weight]] = [[] for _ in range(classes)]
        for i, j, weight in cells:
            rows[i].append(weight)
            columns[j].append(weight)
            if i == j:
                self.correct[i] = weight
        true = self.true = [fsum(row) for row in rows]
        predicted = self.predicted = [fsum(column) for column in columns]
        counts = list(zip(true, predicted, self.correct, strict=True))
        self.total = fsum(weight for row in rows for weight in row)
        self.hits = fsum(self.correct)
        scale = float(1 << FRACTION_BITS)
        self.active = sum(1 for t, p, _ in counts if t or p)
        self.with_true = sum(1 for t in true if t)
        self.with_predicted = sum(1 for p in predicted if p)
        self.precision = scale * fsum(c / p for _, p, c in counts if c)
        self.recall = scale * fsum(c / t for t, _, c in counts if c)
        self.f1 = scale * fsum(2 * c / (t + p) for t, p, c in counts if c)
        self.true_predicted = fsum(t * p for t, p, _ in counts)
        self.true_squared = fsum(t * t for t in true)
        self.predicted_squared = fsum(p * p for p in predicted)

    def __repr__(self) -> str:
        return f"LabelSums(active={self.active})"

    def _check(self, fresh: LabelSums) -> None:
        """Assert that these are the sums of ``fresh``, save the ratios that are behind."""
        pending = self.touched
        late = ("precision", "recall", "f1", "touched", "watched")
        fresh.recompute()
        for name in self.__slots__:
            if not name.startswith("_") and not (
                name in late and (pending or name not in late[:3])
            ):
                assert getattr(self, name) == getattr(fresh, name), name
        for k, ratios in enumerate(self._ratios):
            assert k in pending or ratios == fresh._ratios[k]
        for n, name in enumerate(("precision", "recall", "f1")):
            total = sum(ratios[n] for ratios in self._ratios)
            assert not total or getattr(self, name) == total, name


# Which implementation keeps the sums over the classes of a confusion.
#
# The compiled one holds them in integers of 64 and 128 bits, which is enough for
# a total weight below 2⁶²; beyond that, for float weights, where it was not
# built and with ``STREAMEVAL_BACKEND=portable`` it is the portable one. Both give
# the same integers.

_COMPILED: Any = getattr(
    compiled("streameval.states.native.native_label_sums"), "NativeLabelSums", None
)


def label_sums(
    classes: int, cells: Callable[[], Iterable[tuple[int, int, Weight]]], *, exact: bool
) -> LabelSums:
    """The sums of these cells, in the implementation that can hold them.

    Args:
        classes: Number of classes.
        cells: Gives index of the true class, index of the predicted class and
            weight of each cell; called once more where the first attempt fails.
        exact: False when the weights are floats.

    >>> label_sums(1, lambda: [(0, 0, 2**70)], exact=True).hits == 2**70
    True
    """
    if exact and _COMPILED is not None:
        try:
            sums: LabelSums = _COMPILED(classes, cells())
            return sums
        except OverflowError:
            pass
    return LabelSums(classes, cells(), exact=exact)
