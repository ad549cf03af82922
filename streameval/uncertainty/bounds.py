"""Guaranteed bounds of a ranking whose scores have been coarsened to cells.

Within a cell the order of the scores is unknown. Each function here computes a metric of the
extreme orders: in every cell all positives before all negatives, or the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from streameval.events.values import Label
from streameval.metrics.metric import Metric
from streameval.states.class_scores import ClassScores
from streameval.states.label_scores import LabelScores
from streameval.states.ranking.coarse_score import (
    BOUNDED_KEYS,
    cell_limits,
    coarse_column,
    next_score,
    wide_cells,
)
from streameval.states.ranking.score_groups import group_scores, groups_to_state
from streameval.states.score_index import ScoreIndex
from streameval.uncertainty.interval import Bounds

Compute: TypeAlias = Callable[[Any], float]
"""A metric, or the value of a cut-point rule, as a function of its state."""

_ROUNDING = 2.0**-48
"""Both ends are moved outward by this: more than the rounding of any row."""
_FLOAT_ROUNDING = 1e-9
"""The same where weights are fractions, and counts sums of floats."""


@dataclass(frozen=True, slots=True)
class BoundedFunction:
    """A row of :data:`BOUNDED`."""

    ends: Callable[[Compute, Any], tuple[float, float]]
    """From the function and its state to the lower and the upper end."""
    low: float = 0.0
    high: float = 1.0


def extreme_index(index: ScoreIndex, *, positives_first: bool) -> ScoreIndex:
    """An index of the same events where each cell has one class above the other, both within it."""
    scores, positives, negatives = index.groups()
    both = wide_cells(scores, index.level) & (positives > 0) & (negatives > 0)
    upper, lower = (positives, negatives) if positives_first else (negatives, positives)
    every = np.concatenate([scores, next_score(scores[both])])
    order = np.argsort(every)
    none = np.zeros_like(upper, shape=int(both.sum()))
    above = np.concatenate([np.where(both, 0, upper).astype(upper.dtype), upper[both]])[order]
    below = np.concatenate([lower, none])[order]
    columns = (above, below) if positives_first else (below, above)
    return ScoreIndex.from_state(
        {
            "exact": index.exact,
            "scores": every[order],
            "positives": columns[0],
            "negatives": columns[1],
        }
    )


def extreme_class_scores(scores: ClassScores, *, own_first: bool) -> ClassScores:
    """Scores of the same events, in each cell a column's own class above the others, or below."""
    form = scores.to_state()
    own = np.repeat(form["columns"] == form["true"], form["lengths"])
    raised = wide_cells(form["scores"], scores.level) & (own == own_first)
    form["scores"][raised] = next_score(form["scores"][raised])
    kept = {key: form[key] for key in form.keys() - BOUNDED_KEYS}
    return ClassScores.from_state(kept, scores.declared)


def extreme_label_scores(scores: LabelScores, *, own_first: bool) -> LabelScores:
    """Scores of the same events, in each cell the events with a label above others, or below."""
    level = scores.level
    columns: dict[Label, ScoreIndex] = {}
    for label in scores.labels:
        if (index := scores.column(label)) is None:
            continue
        # One level for all, so that the cells of two labels are equal or apart.
        points = coarse_column(index.groups().scores, level)
        raised = np.where(wide_cells(points, level), next_score(points), points)
        sides = []
        for positive, weights in zip((True, False), index.groups()[1:], strict=True):
            held = weights > 0
            sides.append([((raised if positive == own_first else points)[held], weights[held])])
        columns[label] = ScoreIndex.from_state(groups_to_state(group_scores(*sides), index.exact))
    return scores.with_columns(columns)


def _extreme(state: Any, *, best: bool) -> Any:
    if isinstance(state, LabelScores):
        return extreme_label_scores(state, own_first=best)
    if isinstance(state, ClassScores):
        return extreme_class_scores(state, own_first=best)
    return extreme_index(state, positives_first=best)


def _ordered(compute: Compute, state: Any) -> tuple[float, float]:
    """Of a function that no pair of events that is put right can lower."""
    return compute(_extreme(state, best=False)), compute(_extreme(state, best=True))


def _distance(compute: Compute, index: Any) -> tuple[float, float]:
    """Of the largest distance of two rates, which may be either way round."""
    return compute(index), max(_ordered(compute, index))


def _highest(compute: Compute, index: Any) -> tuple[float, float]:
    """Of the best value of a threshold."""
    # The best cell border has exact counts. Some rules have no value at a border that predicts all
    # events alike; inside, theirs is below 0 then.
    return compute(index), max(compute(_extreme(index, best=True)), 0.0)


def _lowest(compute: Compute, index: Any) -> tuple[float, float]:
    """The same of a cost."""
    return compute(_extreme(index, best=True)), compute(index)


def _average_precision(compute: Compute, index: ScoreIndex) -> tuple[float, float]:
    return _least_average_precision(index), compute(_extreme(index, best=True))


def _least_average_precision(index: ScoreIndex) -> float:
    """Average precision where in each cell all negatives come first, at least."""
    if not index.positives:
        return math.nan
    scores, positives, negatives = (column[::-1] for column in index.groups())
    before, above = np.cumsum(positives) - positives, np.cumsum(negatives)
    # Without negatives the logarithm is not needed.
    start = np.where(above > 0, before + above + (0.5 if index.exact else 0.0), 1.0)
    # The k-th of p positives has a precision f(k) = (TP + k)/(TP + c + k) that is concave: at least
    # its mean from k − ½ to k + ½. Of fractions the sum is at least the integral of f from 0 to p.
    spread = positives - above * np.log1p(positives / start)
    tied = positives * ((before + positives) / (before + positives + above))
    alone = (positives == 1) & index.exact
    wide = wide_cells(np.ascontiguousarray(scores), index.level) & ~alone
    total = math.fsum(np.where(wide, spread, tied).tolist())
    return total / math.fsum(positives.tolist())


def _reversed(compute: Compute, index: Any) -> tuple[float, float]:
    """Of a function that no pair of events that is put right can raise."""
    return compute(_extreme(index, best=True)), compute(_extreme(index, best=False))


def _within_cell(compute: Compute, index: Any) -> tuple[float, float]:
    """Of one of the scores: those of its cell."""
    lowest = compute(index)
    return lowest, float(cell_limits(np.array([lowest]), index.level)[0])


_COARSENED = frozenset({"index", "class_scores", "label_scores"})
"""The states whose scores a limit coarsens."""

_UNIT_AUCS = (
    "roc_auc",
    "roc_auc_ovr",
    "roc_auc_ovr_weighted",
    "roc_auc_ovo",
    "roc_auc_ovo_weighted",
    "roc_auc_micro",
    "roc_auc_macro",
    "roc_auc_weighted",
)

BOUNDED: Mapping[str, BoundedFunction] = MappingProxyType(
    {
        **{name: BoundedFunction(_ordered) for name in _UNIT_AUCS},
        "gini": BoundedFunction(_ordered, low=-1.0),
        # Standardised on an interval that does not start at 0, it has no lower end.
        "partial_roc_auc": BoundedFunction(_ordered, low=-math.inf),
        "ks": BoundedFunction(_distance),
        "equal_error_rate": BoundedFunction(_reversed),
        **{
            name: BoundedFunction(_highest)
            for name in (
                "precision_at_recall",
                "recall_at_precision",
                "sensitivity_at_specificity",
                "specificity_at_sensitivity",
            )
        },
        "average_precision": BoundedFunction(_average_precision),
        **{
            name: BoundedFunction(_within_cell, low=-math.inf, high=math.inf)
            for name in ("score_quantile", "median_score")
        },
    }
)
"""The metrics of rankings that have bounds."""

BOUNDED_CUTS: Mapping[str, BoundedFunction] = MappingProxyType(
    {
        "youden": BoundedFunction(_highest),
        "closest_top_left": BoundedFunction(_lowest, high=math.inf),
        "f1": BoundedFunction(_highest),
        "fbeta": BoundedFunction(_highest),
        "mcc": BoundedFunction(_highest, low=-1.0),
        "cost": BoundedFunction(_lowest, high=math.inf),
        "precision_at_least": BoundedFunction(_highest),
        "fpr_at_most": BoundedFunction(_highest),
    }
)
"""The value of each rule of :data:`~streameval.metrics.cut_points.CUT_POINTS`."""


def without_bounds(metric: Metric) -> bool:
    """Whether a metric depends on the ranking of scores and has no bounds."""
    return metric.name not in BOUNDED and not _COARSENED.isdisjoint(metric.states)


def bounds_of(row: BoundedFunction, compute: Compute, state: Any) -> Bounds:
    """Bounds that contain what `compute` would give if all scores had been kept."""
    value = float(compute(state))
    if not state.level:
        return Bounds(value, value)
    low, high = map(float, row.ends(compute, state))
    if math.isnan(high):
        return Bounds(high, high)
    if math.isnan(low):
        # No border of a cell reaches what is required, but a threshold inside may.
        low = row.low
    rounding = _ROUNDING if state.exact else _FLOAT_ROUNDING
    low -= rounding * max(1.0, abs(low))
    high += rounding * max(1.0, abs(high))
    return Bounds(max(low, row.low), min(high, row.high))
