"""Intervals of means over events of rankings and losses of labels, by their second moments."""

from __future__ import annotations

import math

from streameval.states.label_squares import LabelSquares
from streameval.states.loss_squares import LOG_LOSS_SCALE
from streameval.states.sums.fixed_point import UNIT
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends
from streameval.uncertainty.losses import NOT_KEPT, mean_ends

_DISCOVERED = (
    "how many labels an event ranks is not known while labels are discovered: pass labels=[...], "
    "or bootstrap=Bootstrap(...), to the Evaluator"
)

_SQUARES = {
    "label_ranking_average_precision": "precision",
    "average_precision_samples": "precision",
    "label_ranking_loss": "wrong_pairs",
    "roc_auc_samples": "right_pairs",
    "log_loss": "log_loss",
    "brier_score": "brier",
}
"""From each metric to its field of the second moments."""


def by_event_squares(request: IntervalRequest) -> Ends:
    """The interval of a mean over events: Student's on the log scale of what is wrong."""
    name, state, value = request.metric.name, request.states[0], request.value
    if name == "coverage_error":
        cells = [(group.reached, w) for group, w in state.groups() if group.found == group.true]
        square = math.fsum(reached * reached * float(w) for reached, w in cells)
        weight = float(state.weight)
    else:
        squares: LabelSquares | None = request.state("label_squares")
        if squares is None:
            return no_ends(NOT_KEPT)
        if squares.declared is None:
            return no_ends(_DISCOVERED)
        square, weight = float(getattr(squares, _SQUARES[name])) / UNIT, float(squares.weight)
        square *= LOG_LOSS_SCALE if name == "log_loss" else 1
    n = request.n
    if name.endswith("_samples"):
        # Of the events that have a value; the others are in no sum.
        held = float(state.weight_with(all_labels=name != "roc_auc_samples"))
        n, weight = n * held / weight, held
    elif name == "label_ranking_average_precision":
        square += float(state.weight_of_empty)
    spread = max(0.0, square / weight - value * value)
    if request.metric.direction == "down":
        ends = mean_ends(value, spread, n, request.level)
    else:
        wrong = mean_ends(1.0 - value, spread, n, request.level) if value < 1.0 else None
        if wrong is None:
            return no_ends("all events are ranked right")
        ends = wrong._replace(low=1.0 - wrong.high, high=1.0 - wrong.low)
    return ends._replace(
        low=max(ends.low, request.metric.low), high=min(ends.high, request.metric.high), n=n
    )
