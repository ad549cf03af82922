"""Two models on the same events: intervals and tests of the difference of a metric.

Models that see the same events are right and wrong together, so their metrics are correlated,
and intervals of each say little about the difference. Everything here uses the pairing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from streameval.errors import MetricError
from streameval.events.values import BoolArray, FloatArray, IntArray
from streameval.metrics.metric import BOTH, Metric, row_named
from streameval.states.joint import JointColumns
from streameval.states.state_set import StatePlan, StateSet
from streameval.states.sums.exact_sum import nearest_root
from streameval.uncertainty.anytime import beta_binomial
from streameval.uncertainty.bootstrap import REPLICATES
from streameval.uncertainty.interval import normal_quantile
from streameval.uncertainty.joint_influence import (
    NOT_WHOLE,
    Compared,
    Influence,
    Pairs,
    has_influence,
    influence_of,
)
from streameval.uncertainty.losses import (
    LEAST_FREEDOM,
    RESOLUTION,
    student_p_value,
    student_quantile,
)

_LEAST_PANES = 5
"""Fewest panes that the test of Diebold and Mariano has."""

EXACT_BELOW = 25
"""Fewer discordant pairs than this have McNemar's exact test, others the asymptotic one."""

_LEAST_DEFINED = 0.9
"""Share of the replicates in which a difference must be defined."""

_SHARE_OF_RATE = 0.1
"""Part of the error of an anytime interval that is spent on the rate of discordant pairs."""


class PairedTest(NamedTuple):
    """The interval and the two-sided p-value of a difference."""

    low: float
    high: float
    p_value: float
    method: str
    n: float
    """Weight of the events that it rests on."""
    reason: str = ""
    """Why there is none; the numbers are ``nan`` then."""


def no_test(reason: str, n: float = 0) -> PairedTest:
    """No test, and why."""
    return PairedTest(math.nan, math.nan, math.nan, "", n, reason)


def _test_of(
    value: float, error: float, level: float, method: str, n: float, freedom: float = math.inf
) -> PairedTest:
    """Interval and p-value of a difference and its error; Student's with finite `freedom`."""
    if math.isinf(error):
        return no_test("the spread is beyond the largest float", n)
    if error == 0:
        if value != 0:
            return no_test("the standard error is 0", n)
        return PairedTest(0.0, 0.0, 1.0, method, n)
    ratio = abs(value) / error
    if freedom == math.inf:
        quantile, p_value = normal_quantile(level), math.erfc(ratio / math.sqrt(2))
    else:
        quantile, p_value = student_quantile(level, freedom), student_p_value(ratio, freedom)
    half = quantile * error
    return PairedTest(value - half, value + half, p_value, method, n)


def paired_delong(
    positive: BoolArray,
    score_a: FloatArray,
    score_b: FloatArray,
    weight: IntArray | None = None,
    *,
    level: float = 0.95,
) -> PairedTest:
    """DeLong's test of AUC(a) − AUC(b) on the same events, exactly (Sun & Xu 2014)."""
    weights = np.ones(len(positive), dtype=np.int64) if weight is None else weight
    events = int(weights.sum())
    positives = int(weights[positive].sum())
    negatives = events - positives
    if min(positives, negatives) < 2:
        return no_test(
            f"DeLong's error needs two events of each class; got {positives} positive and "
            f"{negatives} negative ones",
            events,
        )
    differences = _twice_placements(positive, score_a, weights) - _twice_placements(
        positive, score_b, weights
    )
    variance = 0.0
    total = 0
    for which, own, other in ((positive, positives, negatives), (~positive, negatives, positives)):
        total, squares = _sums(differences[which], weights[which])
        variance += (own * squares - total * total) / (own * own * (own - 1) * 4 * other * other)
    # The sum over either class is the difference of the models' pair counts.
    value = total / (2 * positives * negatives)
    return _test_of(value, math.sqrt(variance), level, "paired DeLong", events)


def _twice_placements(positive: BoolArray, scores: FloatArray, weight: IntArray) -> IntArray:
    """Twice the weight of the other class that each event is ranked correctly against."""
    _, groups = np.unique(scores, return_inverse=True)
    size = int(groups.max()) + 1
    twice = np.empty(len(scores), dtype=np.int64)
    for own in (True, False):
        other = np.zeros(size, dtype=np.int64)
        rest = positive != own
        np.add.at(other, groups[rest], weight[rest])
        below = np.cumsum(other) - other
        if not own:
            below = int(other.sum()) - below - other
        mine = groups[positive == own]
        twice[positive == own] = 2 * below[mine] + other[mine]
    return twice


def _sums(values: IntArray, weight: IntArray) -> tuple[int, int]:
    """Σ weight·value and Σ weight·value², exactly."""
    most = max(1, int(np.abs(values).max()))
    if most * most * int(weight.sum()) < 2**63:
        return int(weight @ values), int(weight @ (values * values))
    wide = values.astype(object)
    weighted = weight.astype(object) * wide
    return int(weighted.sum()), int((weighted * wide).sum())


def mcnemar(wins_a: int, wins_b: int, n: int, *, level: float = 0.95) -> PairedTest:
    """McNemar's test, and Bonett and Price's interval, of the difference of paired proportions."""
    if not n:
        return no_test("no events")
    discordant = wins_a + wins_b
    if discordant < EXACT_BELOW:
        name = "McNemar exact"
        tail = sum(math.comb(discordant, k) for k in range(min(wins_a, wins_b) + 1))
        p_value = min(1.0, 2 * tail / 2**discordant)
    else:
        name = "McNemar"
        p_value = math.erfc(abs(wins_a - wins_b) / math.sqrt(2 * discordant))
    share_a, share_b = (wins_a + 1) / (n + 2), (wins_b + 1) / (n + 2)
    middle = share_a - share_b
    error = math.sqrt((share_a + share_b - middle**2) / (n + 2))
    half = normal_quantile(level) * error
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return PairedTest(low, high, p_value, f"{name}, Bonett-Price", n)


def anytime_difference(wins_a: int, wins_b: int, n: int, *, level: float = 0.95) -> PairedTest:
    """Test and interval of the difference of paired proportions, valid however often looked at."""
    if not n:
        return no_test("no events")
    discordant = wins_a + wins_b
    error = 1 - level
    low_rate, high_rate = beta_binomial(discordant, n, 1 - error * _SHARE_OF_RATE)
    low, high = 0.0, 1.0
    if discordant:
        low, high = beta_binomial(wins_a, discordant, 1 - error * (1 - _SHARE_OF_RATE))
    ends = []
    for end, (outer, inner) in ((low, (high_rate, low_rate)), (high, (low_rate, high_rate))):
        gain = 2 * end - 1
        ends.append(gain * (outer if gain < 0 else inner))
    # Nine tenths of α are for θ and one for δ: to stop at the first p ≤ α errs with a chance of α.
    # ln of ∫ pᵏ(1 − p)ᵐ⁻ᵏ over Jeffreys' prior Beta(½, ½), against that at θ = ½.
    log_ratio = (
        math.lgamma(wins_a + 0.5)
        + math.lgamma(wins_b + 0.5)
        - math.lgamma(discordant + 1)
        - math.log(math.pi)
    ) + discordant * math.log(2)
    p_value = min(1.0, math.exp(-log_ratio) / (1 - _SHARE_OF_RATE))
    low, high = ends
    return PairedTest(low, high, p_value, "anytime beta-binomial", n)


def paired_t(
    value: float,
    spread: float | Fraction,
    n: int,
    *,
    level: float = 0.95,
    name: str = "paired t",
) -> PairedTest:
    """Student's paired t test of a difference of two mean losses, of independent events.

    A spread that is a fraction is exact, others have the resolution of rounded squares.
    """
    if n < 4:
        return no_test("the paired t test needs four events", n)
    if isinstance(spread, Fraction):
        return _test_of(value, _root(spread / (n - 1)), level, name, n, n - 1)
    if spread <= RESOLUTION:
        if value:
            return no_test(
                "the losses differ by the same in all events, to the resolution of their sums", n
            )
        spread = 0.0
    return _test_of(value, math.sqrt(spread / (n - 1)), level, name, n, n - 1)


def paired_bootstrap(
    difference: Callable[[IntArray], float],
    value: float,
    weight: IntArray,
    *,
    level: float = 0.95,
    replicates: int = REPLICATES,
    seed: int = 0,
    freedom: float = math.inf,
) -> PairedTest:
    """Poisson bootstrap of a difference over joint cells, drawn once for both models."""
    n = int(weight.sum())
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = [difference(generator.poisson(weight)) for _ in range(replicates)]
    defined = [number for number in drawn if math.isfinite(number)]
    if len(defined) < _LEAST_DEFINED * replicates:
        return no_test(
            f"undefined in {replicates - len(defined)} of {replicates} bootstrap replicates", n
        )
    error = float(np.std(defined, ddof=1))
    name = f"paired bootstrap, {replicates} replicates"
    return _test_of(value, error, level, name, n, freedom)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRequest:
    """Two models on the same events, and the metric whose difference is tested."""

    metric: Metric
    value: float
    """The metric of ``a`` less the metric of ``b``."""
    pairs: Pairs
    a: int
    """Position of the one model; ``b``: of the other."""
    b: int
    plan: StatePlan
    """What the models' own state sets keep."""
    states: tuple[StateSet, StateSet]
    """The state sets of both models."""
    panes: Callable[[], list[Pairs]]
    """What is known of consecutive times, if the window consists of such."""
    level: float
    cumulative: bool
    """Whether all events since the start are in the cells, and none is ever removed."""
    params: Mapping[str, Any] = field(default_factory=dict)
    replicates: int = REPLICATES
    seed: int = 0

    @property
    def cells(self) -> Any:
        """The joint cells."""
        return self.pairs.cells

    def influence(self) -> Influence | str:
        """How events move the difference, or why that is not known."""
        models = Compared(self.metric, self.params, self.a, self.b, self.states)
        return influence_of(models, self.pairs)

    @property
    def sign(self) -> int:
        """−1 where the metric counts errors."""
        return -1 if self.metric.direction == "down" else 1


# Proportions of the events of one class, or of all: those that a model has right or wrong.
_OF_CLASS: Mapping[str, int | None] = {
    "accuracy": None,
    "error_rate": None,
    "recall": 1,
    "fnr": 1,
    "specificity": 0,
    "fpr": 0,
}


def _discordant(request: PairedRequest) -> tuple[int, int, int]:
    """Weights: that a alone has right, that b alone has, and all; swapped for a share of errors."""
    cells = request.cells
    true, weight = cells.true, cells.weight
    only = _OF_CLASS[request.metric.name]
    kept = np.ones(len(true), np.bool_) if only is None else _positive(cells, true) == (only == 1)
    right_a, right_b = (cells.right(model) for model in (request.a, request.b))
    wins = [
        int(weight[kept & one & ~other].sum())
        for one, other in ((right_a, right_b), (right_b, right_a))
    ]
    wins_a, wins_b = wins[:: request.sign]
    return wins_a, wins_b, int(weight[kept].sum())


def _positive(cells: JointColumns, codes: IntArray) -> BoolArray:
    """Whether labels of a binary task are the positive one."""
    truth: BoolArray = np.array([label == 1 for label in cells.labels], np.bool_)[codes]
    return truth


def _mcnemar(request: PairedRequest) -> PairedTest:
    return mcnemar(*_discordant(request), level=request.level)


def _anytime(request: PairedRequest) -> PairedTest:
    if not request.cumulative:
        return no_test(
            "an anytime-valid test covers all events since the start; this window forgets some"
        )
    return anytime_difference(*_discordant(request), level=request.level)


def _delong(request: PairedRequest) -> PairedTest:
    cells, a, b = request.cells, request.a, request.b
    test = paired_delong(
        _positive(cells, cells.true),
        cells.scores[:, a],
        cells.scores[:, b],
        cells.weight,
        level=request.level,
    )
    if request.metric.name == "gini" and not test.reason:
        return test._replace(low=2 * test.low, high=2 * test.high)  # 2·AUC − 1
    return test


def _t(request: PairedRequest) -> PairedTest:
    found = request.influence()
    if isinstance(found, str):
        return no_test(found)
    if not math.isfinite(request.value):
        return no_test(_undefined(request.value), found.weight)
    name = "paired t" if found.linear else "paired t, delta method"
    return paired_t(request.value, found.spread, int(found.weight), level=request.level, name=name)


def _diebold_mariano(request: PairedRequest) -> PairedTest:
    """Student's t of the means of consecutive panes; valid where dependence is within panes."""
    found = request.influence()
    if isinstance(found, str):
        return no_test(found)
    if not math.isfinite(request.value):
        return no_test(_undefined(request.value), found.weight)
    sums = [total for total in map(found.total, request.panes()) if total[1]]
    if len(sums) < _LEAST_PANES:
        return no_test(
            f"the test reads how the means of consecutive panes differ: it requires window="
            f"Panes(...) with events in at least {_LEAST_PANES} panes, got {len(sums)}",
            found.weight,
        )
    weight = sum(part for _, part in sums)
    mean = sum(total for total, _ in sums) / weight
    squares = sum((total - part * mean) ** 2 for total, part in sums)
    panes = len(sums)
    error = _root(squares * panes / ((panes - 1) * weight**2))
    name = f"Diebold-Mariano, {panes} panes"
    n = int(found.weight)
    return _test_of(request.value, error, request.level, name, n, panes - 1)


def _root(square: float | Fraction) -> float:
    """The square root, to the last bit of a fraction."""
    return nearest_root(*square.as_integer_ratio()) if square else 0.0


def _undefined(value: float) -> str:
    return "the difference is undefined" if math.isnan(value) else "it is beyond the largest float"


def _bootstrap(request: PairedRequest) -> PairedTest:
    metric, cells = request.metric, request.cells
    models = np.array([request.a, request.b])
    if not metric.needs_scores:
        cells = _label_cells(cells, models)
        models = np.array([0, 1])

    def difference(weight: IntArray) -> float:
        drawn = np.flatnonzero(weight)
        part = replace(cells.take(drawn), weight=weight[drawn])
        of_a, of_b = (_metric_of(request, part, int(model)) for model in models)
        return of_a - of_b

    fewest = int(cells.weight.sum())
    if request.plan.task_row.positive is not None:
        # A rare class decides F1, MCC and average precision, however many others there are.
        positives = int(cells.weight[_positive(cells, cells.true)].sum())
        fewest = min(positives, fewest - positives)
    return paired_bootstrap(
        difference,
        request.value,
        cells.weight,
        level=request.level,
        replicates=request.replicates,
        seed=request.seed,
        freedom=max(LEAST_FREEDOM, fewest - 1),
    )


def _label_cells(cells: JointColumns, models: IntArray) -> JointColumns:
    """The cells of two models' labels, whatever their scores: few, where there are few labels."""
    size = len(cells.labels)
    first, second = cells.predicted[:, models].T
    # 100,000 labels cubed fit in 64 bits.
    codes, groups = np.unique((cells.true * size + first) * size + second, return_inverse=True)
    weight = np.zeros(len(codes), dtype=np.int64)
    np.add.at(weight, groups, cells.weight)
    true, pair = np.divmod(codes, size * size)
    predicted = np.column_stack(np.divmod(pair, size))
    scored = np.zeros(len(codes), np.bool_)
    return JointColumns(cells.labels, true, predicted, scored, np.zeros(predicted.shape), weight)


def _metric_of(request: PairedRequest, cells: JointColumns, model: int) -> float:
    """The metric of one model on these cells; ``nan`` where undefined."""
    metric, plan = request.metric, request.plan
    made = StatePlan.for_states(plan.task, metric.states, plan.bins, labels=plan.labels)
    state_set = StateSet(made)
    true, predicted = cells.true, cells.predicted[:, model]
    scores = cells.scores[:, model] if metric.needs_scores else None
    task = plan.task_row
    state_set.update_many(task.coded(cells.labels, true, predicted, scores, cells.weight))
    function = metric.bind(positive=task.positive, undefined=math.nan, **request.params)
    return float(function(*[getattr(state_set, name) for name in metric.states]))


@dataclass(frozen=True, slots=True)
class PairedMethod:
    """A row of the registry of paired tests."""

    name: str
    serves: Callable[[Metric], bool]
    compute: Callable[[PairedRequest], PairedTest]
    automatic: bool = True
    """Whether ``method="auto"`` may take it."""
    reads_cells: bool = True
    """Whether it reads the joint cells, whose weights have to be whole."""


PAIRED_METHODS: Mapping[str, PairedMethod] = {
    row.name: row
    for row in (
        PairedMethod("delong", lambda metric: metric.family == "auc", _delong),
        PairedMethod("mcnemar", lambda metric: metric.name in _OF_CLASS, _mcnemar),
        PairedMethod("anytime", lambda metric: metric.name in _OF_CLASS, _anytime, automatic=False),
        PairedMethod("t", has_influence, _t, reads_cells=False),
        PairedMethod(
            "diebold_mariano", has_influence, _diebold_mariano, automatic=False, reads_cells=False
        ),
        PairedMethod(
            "bootstrap",
            lambda metric: not metric.ordered and not metric.tasks.isdisjoint(BOTH),
            _bootstrap,
        ),
    )
}
"""From the name of each method to its row, in the order of preference."""


def paired_method(metric: Metric, method: object = "auto") -> PairedMethod | None:
    """The method of a metric's difference; None where it has no paired test; raises MetricError."""
    fitting = [row for row in PAIRED_METHODS.values() if row.serves(metric)]
    if method == "auto":
        return next((row for row in fitting if row.automatic), None)
    row = row_named("paired method", method, PAIRED_METHODS, ("auto",))
    if row not in fitting:
        names = ", ".join(row.name for row in fitting) or "none"
        raise MetricError(f"the difference of {metric.name} has no {method} test; it has {names}")
    return row


def is_bootstrapped(metric: Metric) -> bool:
    """Whether two models' difference in a metric is resampled, as no test has a formula."""
    method = paired_method(metric)
    return method is not None and method.name == "bootstrap"


def needs_pairs(metric: Metric) -> bool:
    """Whether the test of a difference reads the scores that models gave to one event."""
    method = paired_method(metric)
    return metric.needs_scores and method is not None and method.reads_cells


def paired_test(
    request: PairedRequest, method: str = "auto", *, required: bool = True
) -> PairedTest:
    """Interval and p-value; MetricError where a `required` method does not serve the metric."""
    metric, cells = request.metric, request.cells
    try:
        row = paired_method(metric, method)
    except MetricError as error:
        if required or method not in PAIRED_METHODS:
            raise
        return no_test(str(error))
    if row is None and metric.ordered:
        return no_test(f"{metric.name} depends on the order of events: it has no paired test")
    if row is None:
        return no_test(
            f"what is kept of both models together has no spread of {metric.name}; of each model "
            f"alone interval({metric.name!r}) has one, with intervals=True"
        )
    if not row.reads_cells:
        return row.compute(request)
    if metric.needs_scores:
        if request.plan.task_row.positive is None:
            return no_test(
                "the joint counts of several classes hold labels and no probabilities; compare "
                "metrics of labels, log_loss or brier_score"
            )
        events, cells = len(cells.true), cells.take(np.flatnonzero(cells.scored))
        if events and not len(cells.true):
            return no_test(
                "the joint cells hold no scores: these are kept with paired_scores, for metrics= "
                "of the ranking"
            )
    if not len(cells.weight):
        return no_test("no events")
    if cells.weight.dtype.kind == "f":
        return no_test(NOT_WHOLE)
    if cells.weight.dtype == object:
        return no_test("the weight of one pair passes 64 bits")
    if math.isnan(request.value):
        return no_test("the difference is undefined", float(cells.weight.sum()))
    return row.compute(replace(request, pairs=request.pairs._replace(cells=cells)))
