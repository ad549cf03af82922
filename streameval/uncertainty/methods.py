"""Registry of interval methods: which interval a metric has, and how it is computed.

A new method is one function and one row of :data:`METHODS`. ``method="auto"`` takes the first row
that suits and whose families hold the metric's :attr:`~streameval.metrics.metric.Metric.family`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streameval.errors import MetricError
from streameval.metrics.metric import FAMILIES, Metric, row_named
from streameval.metrics.undefined import reason_of
from streameval.uncertainty.anytime import ANYTIME, anytime
from streameval.uncertainty.bootstrap import bootstrap
from streameval.uncertainty.calibration import calibration_ends
from streameval.uncertainty.confusion_delta import delta
from streameval.uncertainty.delong import delong, newcombe, reliable_delong
from streameval.uncertainty.interval import Ends, Interval, IntervalRequest, no_ends
from streameval.uncertainty.losses import loss_ends, score_ends
from streameval.uncertainty.multiclass_auc import summed
from streameval.uncertainty.multilabel import by_events
from streameval.uncertainty.multilabel_ranking import by_event_squares
from streameval.uncertainty.proportions import clopper_pearson, ends_of_share, wilson
from streameval.uncertainty.regression import error_ends, fit_ends


@dataclass(frozen=True, slots=True)
class IntervalMethod:
    """A row of the registry."""

    name: str
    families: frozenset[str]
    """The families of metrics that it serves."""
    compute: Callable[[IntervalRequest], Ends]
    automatic: bool = True
    """Whether ``method="auto"`` may take it."""
    reliable: Callable[[IntervalRequest], Ends | None] | None = None
    """As `compute`, or None where that is not to be relied on, so that ``method="auto"`` takes
    the next row."""


_PROPORTION = frozenset({"proportion"})
_AUC = frozenset({"auc"})
_LABELS = frozenset({"label_micro", "label_samples", "label_mean"})

METHODS: Mapping[str, IntervalMethod] = {
    row.name: row
    for row in (
        IntervalMethod("wilson", _PROPORTION, lambda request: ends_of_share(request, wilson)),
        IntervalMethod(
            "clopper_pearson",
            _PROPORTION,
            lambda request: ends_of_share(request, clopper_pearson),
            automatic=False,
        ),
        IntervalMethod("delta", frozenset({"confusion"}), delta),
        IntervalMethod("delta_by_event", _LABELS, by_events),
        IntervalMethod("log_t_by_event", frozenset({"label_ranking"}), by_event_squares),
        IntervalMethod("delong", _AUC, delong, reliable=reliable_delong),
        IntervalMethod("newcombe", _AUC, newcombe),
        IntervalMethod("delong_summed", frozenset({"class_auc"}), summed),
        IntervalMethod("log_t", frozenset({"loss"}), loss_ends),
        IntervalMethod("student_t", frozenset({"score"}), score_ends),
        IntervalMethod("error_t", frozenset({"error"}), error_ends),
        IntervalMethod("fit_delta", frozenset({"fit"}), fit_ends),
        IntervalMethod("gaps", frozenset({"calibration"}), calibration_ends),
        IntervalMethod("anytime", frozenset(ANYTIME), anytime, automatic=False),
        IntervalMethod("bootstrap", frozenset(FAMILIES) - {"none"}, bootstrap),
    )
}
"""From the name of each method to its row, in the order of preference."""


@functools.cache
def _rows(family: str, method: str, by_unit: bool) -> tuple[IntervalMethod, ...]:
    """The rows of a family, the first reliable one to be taken; of a named method one."""
    if method != "auto":
        rows = [METHODS[method]]
    elif by_unit:
        # Every other method takes the events for independent of each other.
        rows = [METHODS["bootstrap"]]
    else:
        rows = [row for row in METHODS.values() if row.automatic]
    return tuple(row for row in rows if family in row.families)


def _missing(metric: Metric, method: str) -> str:
    if method == "auto":
        return f"there is no interval for {metric.name}"
    names = ", ".join(row.name for row in METHODS.values() if metric.family in row.families)
    return f"{metric.name} has no {method} interval; it has {names or 'none'}"


def interval(request: IntervalRequest, method: str = "auto", *, required: bool = True) -> Interval:
    """The interval of a value; MetricError where a `required` method does not serve the metric."""
    metric, value = request.metric, request.value
    if method != "auto":
        row_named("interval method", method, METHODS, ("auto",))
    by_unit = request.replicates is not None
    # The formulas are of all classes.
    family = "bootstrap" if request.params.get("labels") is not None else metric.family
    rows = _rows(family, method, by_unit)
    if not rows and method != "auto" and required:
        raise MetricError(_missing(metric, method))
    name = ""
    ends: Ends | None
    if value != value:
        ends = no_ends(reason_of(value) or "the value is undefined")
    elif rows and request.n != request.n:
        ends = no_ends("with weights that are not whole, it needs Evaluator(intervals=True)")
    else:
        ends = None
        for row in rows:
            compute = row.reliable if row.reliable and method == "auto" else row.compute
            ends = compute(request)
            if ends is not None:
                break
        if ends is None:
            ends = no_ends(_missing(metric, method))
        elif not ends.reason:
            name = ends.method or row.name
            if not request.whole and not by_unit:
                name += " (Kish)"
    n = request.n if ends.n is None else ends.n
    return Interval(value, ends.low, ends.high, request.level, name, n, ends.reason)
