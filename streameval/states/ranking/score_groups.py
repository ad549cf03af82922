"""The distinct scores of two classes with the weight of each class at each score."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import Any, NamedTuple

import numpy as np

from streameval.events.values import FloatArray, Weight
from streameval.states.fields import MOST_WEIGHT, Fields, falls
from streameval.states.ranking.coarse_score import BOUNDED_KEYS, bounds_of, check_cells
from streameval.states.ranking.weights import (
    MAX_TOTAL,
    WeightArray,
    count_at_or_below,
)
from streameval.states.sums.fixed_point import total_weight

GROUPS_AT_ONCE = 1 << 16
"""Scores of each class in a block: their temporaries fit the processor's cache."""

_CHUNK = 2**16
_KEYS = frozenset({"exact", "negatives", "positives", "scores"})


class ScoreGroups(NamedTuple):
    """Groups of equal score, ascending; all three arrays are read-only and of one length."""

    scores: FloatArray
    """Distinct scores."""
    positives: WeightArray
    """Weight of the positives at each score: int64, or float64 after a fraction."""
    negatives: WeightArray
    """Weight of the negatives at each score; never 0 where that of the positives is 0."""


_Side = list[tuple[FloatArray, WeightArray]]


def group_scores(positives: _Side, negatives: _Side) -> ScoreGroups:
    """Scores of two classes in any order, with their weights, as groups; O(n log n)."""
    parts = [*positives, *negatives]
    run = np.concatenate([scores for scores, _ in parts])
    order = np.argsort(run, kind="stable")
    run = run[order]
    starts = np.flatnonzero(np.append(True, run[1:] != run[:-1])[: len(run)])
    columns = [run[starts]]
    for own in (range(len(positives)), range(len(positives), len(parts))):
        column = np.concatenate(
            [each if n in own else np.zeros_like(each) for n, (_, each) in enumerate(parts)]
        )
        columns.append(np.add.reduceat(column[order], starts) if len(run) else column)
    for array in columns:
        array.flags.writeable = False
    return ScoreGroups(*columns)


def group_blocks(groups: ScoreGroups, *, descending: bool = False) -> Iterator[ScoreGroups]:
    """Groups in blocks of at most :data:`GROUPS_AT_ONCE`; the scores ascend in each."""
    starts = range(0, len(groups.scores), GROUPS_AT_ONCE)
    for start in reversed(starts) if descending else starts:
        part = slice(start, start + GROUPS_AT_ONCE)
        yield ScoreGroups(groups.scores[part], groups.positives[part], groups.negatives[part])


def equal_mass_edges(scores: FloatArray, weights: WeightArray, bins: int) -> FloatArray:
    """The least scores of all bins but the first, which hold as much weight each, ties aside.

    >>> equal_mass_edges(np.array([0.1, 0.2, 0.4, 0.7]), np.array([1, 1, 1, 1]), 2)
    array([0.4])
    """
    running = np.cumsum(weights)
    total = running[-1].item()
    places = [k * total // bins if type(total) is int else k * total / bins for k in range(bins)]
    # The first place is in the group of the least score that weighs something, which is no edge.
    at = np.minimum(np.searchsorted(running, places, side="right"), len(scores) - 1)
    edges: FloatArray = np.unique(scores[at])[1:]
    return edges


def twice_u(groups: ScoreGroups) -> Weight:
    """W2 = Σ 2·[s⁺ > s⁻] + [s⁺ = s⁻] over all pairs, each times both weights."""
    _, positives, negatives = groups
    if positives.dtype != np.int64:
        sums = np.append(0.0, np.cumsum(negatives))
        held = positives != 0.0
        return float((positives[held] * (sums[:-1] + sums[1:])[held]).sum())
    ranks: Any = 2 * np.cumsum(negatives) - negatives
    return exact_dot(positives, ranks, 2 * total_weight(positives) * total_weight(negatives))


def exact_dot(left: WeightArray, right: WeightArray, bound: Weight) -> int:
    """Σ left·right of whole numbers that are not negative, at most ``bound``."""
    if bound < 2**63:
        return int(np.dot(left, right))
    # As Python integers, a block at a time.
    blocks = [slice(start, start + _CHUNK) for start in range(0, len(left), _CHUNK)]
    return sum(int(np.dot(left[at].astype(object), right[at].astype(object))) for at in blocks)


def auc(wins: Weight, positives: Weight, negatives: Weight) -> float | None:
    """W2 / (2·P·N), divided once; None while a class is missing."""
    pairs = positives * negatives
    return wins / (2 * pairs) if pairs else None


def delong_sums(groups: ScoreGroups) -> tuple[Weight, Weight]:
    """(Q10, Q01) = Σ p·(2·N_< + n)², Σ n·(2·P_> + p)² over the groups (p, n), ascending."""
    _, positives, negatives = groups
    return (
        _ranked_squares(positives, negatives),
        _ranked_squares(negatives[::-1], positives[::-1]),
    )


def _ranked_squares(own: WeightArray, other: WeightArray) -> Weight:
    """Σ own·r², with r twice the other class's weight before a group and its weight there."""
    ranks: Any = 2 * np.cumsum(other) - other
    if own.dtype != np.int64:
        return float((own * (ranks * ranks)).sum())
    most = 2 * total_weight(other)
    bound = total_weight(own) * most * most
    if bound >= 2**63:
        ranks = ranks.astype(object)
    return exact_dot(own, ranks * ranks, bound)


def auc_of_groups(
    positives: tuple[FloatArray, WeightArray], negatives: tuple[FloatArray, WeightArray]
) -> float:
    """:func:`auc` of float weights at the distinct scores, ascending, of each class; or nan.

    Pairs won are compared with pairs lost, and nothing is subtracted: the share is in [0, 1],
    and 1 where no pair is lost.
    """
    (wanted, own), (scores, other) = positives, negatives
    if not (own.any() and other.any()):
        return nan
    own, other = own / own.sum(), other / other.sum()
    at_or_below, tied = count_at_or_below(scores, wanted)
    below = at_or_below - tied
    lower, upper = np.zeros(len(other) + 1), np.zeros(len(other) + 1)
    np.cumsum(other, out=lower[1:])
    np.cumsum(other[::-1], out=upper[-2::-1])
    won = (own * (lower[below] + lower[at_or_below])).sum()
    lost = (own * (upper[below] + upper[at_or_below])).sum()
    return float(won / (won + lost))


def ks_statistic(groups: ScoreGroups) -> float | None:
    """The largest ``|TPR − FPR|`` over all thresholds; None while a class is missing."""
    below: list[Any] = [np.cumsum(column) for column in (groups.positives, groups.negatives)]
    positives, negatives = (column[-1].item() if len(column) else 0 for column in below)
    pairs = positives * negatives
    if not pairs:
        return None
    if groups.positives.dtype == np.int64 and pairs >= 2**63:
        below = [column.astype(object) for column in below]
    most = np.abs(positives * below[1] - negatives * below[0]).max()
    # As Python's numbers, whose division is rounded once.
    gap: float = (most if isinstance(most, int) else most.item()) / pairs
    return gap


def delong_variance(index: Any, unit: float = 1) -> float:
    """DeLong's variance of a score index's AUC; nan unless both classes weigh more than a unit."""
    positives, negatives, wins = index.positives, index.negatives, index.twice_u
    more_positives, more_negatives = positives - unit, negatives - unit
    if more_positives <= 0 or more_negatives <= 0:
        return nan
    q10, q01 = index.delong_sums()
    # (2·P·N)² times the variance of the placements of a class; in floats, too, not below 0.
    of_positives = max(positives * q10 - wins * wins, 0)
    of_negatives = max(negatives * q01 - wins * wins, 0)
    spread = of_positives * more_negatives + of_negatives * more_positives
    pairs = 2 * positives * negatives
    variance: float = unit * spread / (pairs * pairs * more_positives * more_negatives)
    return variance


def groups_to_state(
    groups: ScoreGroups, exact: bool, max_scores: int | None = None, level: int = 0
) -> dict[str, Any]:
    """The written form of a score index; groups that cannot be written to are copied."""
    form: dict[str, Any] = {"exact": exact}
    for key, array in groups._asdict().items():
        form[key] = array if array.flags.writeable else array.copy()
    return form if max_scores is None else form | {"max_scores": max_scores, "level": level}


def groups_from_state(data: object) -> tuple[ScoreGroups, bool, int | None, int]:
    """The arguments of :func:`groups_to_state`, every value checked; raises StateError."""
    fields = Fields(data, "index", _KEYS, BOUNDED_KEYS)
    max_scores, level = bounds_of(fields)
    scores, exact = fields.array("scores", np.float64), fields.exact
    fields.refuse_at(~np.isfinite(scores), "scores", "finite scores", scores)
    negative_zero = (scores == 0) & np.signbit(scores)
    fields.refuse_at(negative_zero, "scores", "0.0 in place of -0.0", scores)
    fields.refuse_at(falls(scores), "scores", "scores in ascending order, each once", scores)
    weights: list[WeightArray] = []
    for key in ("positives", "negatives"):
        column = fields.array(key, np.int64 if exact else np.float64)
        if len(column) != len(scores):
            fields.refuse(key, f"{len(scores)} weights, one for each score", len(column))
        if exact:
            fields.refuse_at(column < 0, key, "weights of at least 0", column)
            most, total = MAX_TOTAL, total_weight(column)
        else:
            bad = ~((column >= 0) & (column <= MOST_WEIGHT)) | np.signbit(column)
            fields.refuse_at(bad, key, "finite weights of at least 0", column)
            most, total = MOST_WEIGHT, column.sum()
        if total > most:
            fields.refuse(key, f"a sum of at most {most}", total)
        weights.append(column)
    groups = ScoreGroups(scores, *weights)
    empty = (groups.positives == 0) & (groups.negatives == 0)
    expected = "a weight above 0 here or in negatives"
    fields.refuse_at(empty, "positives", expected, groups.positives)
    check_cells(fields, scores, max_scores, level)
    return groups, exact, max_scores, level
