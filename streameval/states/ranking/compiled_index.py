"""The compiled score index: :class:`NativeScoreIndex`, for values and weights of any kind.

The kernel in C++ counts and reads events of weight 1; its methods are inherited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, TypeAlias, final

import numpy as np

from streameval.errors import StateError
from streameval.events.truth import canonical_positive, positive_column
from streameval.events.values import (
    BoolArray,
    FloatArray,
    IntArray,
    Weight,
    canonical_score,
    canonical_weight,
    check_same_length,
    score_column,
    weight_column,
)
from streameval.states.fields import never_counted, removable_weight, same_forms
from streameval.states.native.native_index import FractionKernel, ScoreIndexKernel, own_methods
from streameval.states.ranking.coarse_score import checked_limit
from streameval.states.ranking.reference_index import (
    ReferenceScoreIndex,
    check_columns,
    check_room,
    check_same_limit,
)
from streameval.states.ranking.score_groups import (
    GROUPS_AT_ONCE,
    ScoreGroups,
    delong_sums,
    delong_variance,
    group_blocks,
    groups_from_state,
    groups_to_state,
    ks_statistic,
)
from streameval.states.ranking.weights import check_total
from streameval.states.sums.fixed_point import total_weight

__all__ = ["NativeScoreIndex"]


@final
class Fractions(FractionKernel):
    """Takes the tree's place from the first weight that was not whole, for canonical values."""

    __slots__ = ()

    def __init__(self, groups: ScoreGroups) -> None:
        self.merge(groups)

    def delong_sums(self) -> tuple[Weight, Weight]:
        return delong_sums(self.groups())

    def groups(self) -> ScoreGroups:
        return ScoreGroups(*self.columns())

    def merge(self, groups: ScoreGroups) -> None:
        self.insert_columns(
            groups.scores, groups.positives.astype(np.float64), groups.negatives.astype(np.float64)
        )


@final
@own_methods
class NativeScoreIndex(ScoreIndexKernel):
    """Exact state of everything that depends on the ranking of binary scores, compiled.

    Keeps the weight of both classes at each distinct score, and W2, twice the U statistic,
    current: AUC = W2 / (2·P·N). The methods are described at
    :class:`~streameval.states.ranking.reference_index.ReferenceScoreIndex`.

    Args:
        events: Pairs (positive, score).
        max_scores: Most distinct scores, beyond which they are coarsened; see
            :mod:`~streameval.states.ranking.coarse_score`. None keeps all.

    Cost:
        An event counted or taken back: 0.2 µs among 10⁴ scores, 0.4 µs among
        10⁶, 0.7 µs among 10⁷. ``update_many`` and ``merge``: about 25 ns a
        score, the lock of the interpreter released. Memory: 11 to 16 bytes a
        distinct score. After the first weight that is a fraction: an event
        O(log n), a read of the AUC O(1), 45 to 75 bytes a distinct score; with
        ``max_scores``, or of weights whose digits do not fit 128 bits, those of
        the reference index, which then takes over inside.

    Threads:
        Two indices may be used by two threads at once. One index serves one
        thread after another: a method waits while another thread's bulk
        operation on the same index runs.

    >>> index = NativeScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> index.twice_u, index.positives, index.negatives
    (6, 2, 2)
    >>> index.update(True, 0.4)
    >>> index.twice_u / (2 * index.positives * index.negatives)
    0.75
    """

    __slots__ = ()

    def _limit_in_full(self, max_scores: int) -> None:
        if (limit := checked_limit(max_scores)) is not None:
            self.keep_at_most(limit)

    @property
    def ks_statistic(self) -> float | None:
        """The largest ``|TPR − FPR|`` over all thresholds; None while a class is missing.

        10 to 70 µs among 10⁶ scores: nodes whose totals exclude a larger gap are not entered.
        O(n) at worst, and once a weight was a fraction.
        """
        gap = self.tree_gap()
        return gap if gap == gap else ks_statistic(self.groups())

    def groups(self) -> ScoreGroups:
        """The distinct scores, ascending, with the weight of each class; O(n)."""
        return ScoreGroups(*self.columns())

    def group_blocks(self, *, descending: bool = False) -> Iterator[ScoreGroups]:
        """:meth:`groups` a block at a time, in 1.5 MB whatever n is.

        What is counted between two blocks is in those that follow, where its place is there.
        """
        if self._fractional is not None:
            yield from group_blocks(self.groups(), descending=descending)
            return
        reached = np.inf if descending else -np.inf
        while (columns := self.block(reached, descending, GROUPS_AT_ONCE)) is not None:
            block = ScoreGroups(*columns)
            reached = block.scores[0 if descending else -1]
            yield block

    def _variance_in_full(self, unit: float) -> float:
        return delong_variance(self, unit)

    def _update_in_full(self, positive: object, score: object, weight: object) -> None:
        side, value = canonical_positive(positive), canonical_score(score)
        each = canonical_weight(weight)
        if self._fractional is None and type(each) is not float:
            check_total(self.positives if side else self.negatives, each)
            if self.insert_weight(side, value, each):
                return
        self._count_fraction("update", side, value, each)

    def _revert_in_full(self, positive: object, score: object, weight: Weight) -> None:
        side, value = canonical_positive(positive), canonical_score(score)
        each = removable_weight(weight, self.exact)
        if self._fractional is not None:
            self._fractional.revert(side, value, each)
        elif (unknown := self.remove_weight(side, value, each)) is not None:
            raise never_counted("score", unknown)

    def _check_in_full(self, positive: bool, weight: Weight) -> None:
        if self._fractional is None and type(weight) is not float:
            check_total(self.positives if positive else self.negatives, weight)

    def check_many(self, positive: BoolArray, score: FloatArray, weight: Any = None) -> None:
        """``check`` of validated columns."""
        if self._fractional is None and (weight is None or weight.dtype == np.int64):
            check_columns(self, positive, weight)

    def _update_many_in_full(self, positive: object, score: object, weight: object) -> None:
        scores, flags = score_column(score), positive_column(positive)
        check_same_length(len(scores), len(flags), "positive")
        weights: Any = weight_column(weight, len(scores))
        if self._fractional is not None or (weights is not None and weights.dtype != np.int64):
            self._count_fraction("update_many", flags, scores, weights)
            return
        low, high = _run(scores, ~flags, weights), _run(scores, flags, weights)
        for total, (own, each) in ((self.positives, high), (self.negatives, low)):
            check_total(total, len(own) if each is None else total_weight(each))
        self.add_runs(*low, *high)

    def _count_fraction(self, method: str, *values: object) -> None:
        """Count canonical values beside fractions, or with fractions among them."""
        if self._fractional is None:
            self._to_fractions()
        try:
            getattr(self._fractional, method)(*values)
        except OverflowError:
            self.hand_over(self._as_portable())
            getattr(self._fractional, method)(*values)

    check_merge = check_room

    def _merge_in_full(self, other: NativeScoreIndex | ReferenceScoreIndex) -> None:
        if isinstance(other, ReferenceScoreIndex):
            other = NativeScoreIndex.from_state(other.to_state())
        elif not isinstance(other, NativeScoreIndex):
            raise StateError(f"merge: expected a score index, got {type(other).__name__}")
        index: Any = other
        check_same_limit(self.max_scores, index.max_scores)
        if index is self or index.level < self.level:
            # Coarsened on the way in; the operand stays as it is.
            index = index.copy()
        if self._fractional is None and index._fractional is not None:
            self._to_fractions()
        if isinstance(self._fractional, Fractions):
            try:
                self._fractional.merge(index.groups())
                return
            except OverflowError:
                self.hand_over(self._as_portable())
        if self._fractional is not None:
            self._fractional.merge(index._as_portable())
            return
        check_room(self, index)
        self.merge_tree(index)

    def _as_portable(self) -> ReferenceScoreIndex:
        """The same content in the portable index; this one stays as it is."""
        if isinstance(self._fractional, ReferenceScoreIndex):
            return self._fractional
        return ReferenceScoreIndex.from_state(self.to_state())

    def _to_fractions(self) -> None:
        self.hand_over(_fractional_of(self.to_state()))

    def to_state(self) -> dict[str, Any]:
        """The content as plain values, the same whatever order it came in; O(n)."""
        groups = self.groups()
        for column in groups if self._fractional is None else ():
            column.flags.writeable = True  # made for this call, and not copied again
        return groups_to_state(groups, self.exact, self.max_scores, self.level)

    @classmethod
    def from_state(cls, data: object) -> Self:
        """The index that ``to_state`` described; raises StateError, which names the key."""
        groups, exact, max_scores, level = groups_from_state(data)
        index = cls(max_scores=max_scores)
        if exact:
            index.fill(*groups, level)
        else:
            index.hand_over(_fractional_of(data))
        return index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (NativeScoreIndex, ReferenceScoreIndex)):
            return NotImplemented
        return same_forms(self.to_state(), other.to_state())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<NativeScoreIndex of {self.positives} positives and {self.negatives} negatives>"


_Run: TypeAlias = tuple[FloatArray, IntArray | None]


def _run(scores: FloatArray, chosen: BoolArray, weights: IntArray | None) -> _Run:
    """The sorted scores of one class, with their weights."""
    own = scores[chosen]
    if weights is None:
        own.sort()
        return own, None
    order = np.argsort(own)
    return own[order], weights[chosen][order]


def _fractional_of(state: Any) -> Fractions | ReferenceScoreIndex:
    """The index that is used for a written form from the first fraction on."""
    if "max_scores" not in state:
        try:
            return Fractions(ScoreGroups(state["scores"], state["positives"], state["negatives"]))
        except OverflowError:
            pass
    return ReferenceScoreIndex.from_state(state)
