"""Poisson bootstrap: the interval of any metric, from states of resampled events.

The sum of Poisson variables is a Poisson variable, so a replicate of a state is drawn from its
counts alone. Chamandy, Muralidharan, Najmi & Naidu, "Estimating uncertainty for massive data
streams", Google 2012.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.confusion import ConfusionCounts
from streameval.states.registry import STATES
from streameval.states.score_index import ScoreIndex
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends, normal_quantile

REPLICATES = 200
"""Replicates of an interval at the read: their standard deviation is known to 5 %."""

FEW = 30
"""With fewer events of a class, replicates vary less than the metric does."""

FEW_TO_THE_END = 1
"""The same holds where fewer events lie between the metric's value and an end of its range."""

_MOST_UNDEFINED = 0.05

_KEY = 0x5EED
"""First half of the key of each replicate's generator; the second is its number."""


def _drawn(means: FloatArray, replicate: int) -> IntArray:
    """A Poisson variable of each mean: the same at every call, as the key is the replicate."""
    generator = np.random.Generator(np.random.Philox(key=[_KEY, replicate]))
    return generator.poisson(means)


def resampled_confusions(counts: ConfusionCounts, scale: float = 1) -> Iterator[ConfusionCounts]:
    """Replicates of a confusion: each cell of weight c becomes Poisson(c · scale)."""
    cells = sorted(counts.cells())
    weights = np.array([weight for _, _, weight in cells], dtype=np.float64) * scale
    for replicate in range(REPLICATES):
        new = counts.emptied()
        drawn = zip(cells, _drawn(weights, replicate).tolist(), strict=True)
        new.add_cells((true, predicted, count) for (true, predicted, _), count in drawn if count)
        yield new


class ResampledGroups(NamedTuple):
    """The distinct scores of an index, ascending, with the weights of one replicate."""

    scores: FloatArray
    positives: IntArray
    """0 at scores that are not in the replicate."""
    negatives: IntArray

    def state(self) -> ScoreIndex:
        """The replicate as a state."""
        kept = (self.positives > 0) | (self.negatives > 0)
        columns = self._asdict().items()
        return ScoreIndex.from_state(
            {"exact": True} | {name: column[kept] for name, column in columns}
        )

    def average_precision(self) -> float:
        """As :func:`~streameval.metrics.ranking.average_precision`, but for the rounding."""
        gained = self.positives[::-1]
        tp = np.cumsum(gained)
        predicted = tp + np.cumsum(self.negatives[::-1])
        rows = np.flatnonzero(gained)
        if not len(rows):
            return math.nan
        return float((gained[rows] * (tp[rows] / predicted[rows])).sum() / tp[-1])


def resampled_groups(index: ScoreIndex, scale: float = 1) -> Iterator[ResampledGroups]:
    """Replicates of an index: each class's weight c at each score becomes Poisson(c · scale)."""
    scores, *classes = index.groups()
    counts = np.concatenate(classes)
    held = np.flatnonzero(counts)
    means = counts[held].astype(np.float64) * scale
    for replicate in range(REPLICATES):
        column = np.zeros(len(counts), dtype=np.int64)
        column[held] = _drawn(means, replicate)
        yield ResampledGroups(scores, column[: len(scores)], column[len(scores) :])


def bootstrap(request: IntervalRequest) -> Ends:
    """The interval of a metric of a confusion or an index, from :data:`REPLICATES` replicates."""
    metric = request.metric
    if request.replicates is not None:
        ends = replicate_ends(request, list(request.replicates.values))
        return ends._replace(method=f"bootstrap by {request.replicates.unit}")
    of_state = metric.bind(positive=request.positive, **request.params)
    if metric.states == ("confusion",):
        counts = request.states[0]
        scale = request.n / counts.total
        values = [of_state(replicate) for replicate in resampled_confusions(counts, scale)]
        fewest = scale * min(filter(None, map(counts.true_count, counts.labels)))
        return replicate_ends(request, values, fewest)
    index = request.state("index") if STATES[metric.state].source == "index" else None
    if metric.states == ("index",):
        (index,) = request.states
    if index is None:
        return no_ends(_NOT_EVENTS.get(metric.state, _SUMS))
    scale = request.n / (index.positives + index.negatives)
    # Of the groups without a state of them.
    by_groups = metric.name == "average_precision" and not request.params
    values = []
    for replicate in resampled_groups(index, scale):
        if by_groups:
            values.append(replicate.average_precision())
        elif metric.states == ("index",):
            values.append(of_state(replicate.state()))
        else:
            # The state has the plan's number of bins.
            made = STATES[metric.state].derive(replicate.state(), request.states[0])
            values.append(of_state(made))
    fewest = scale * min(filter(None, (index.positives, index.negatives)))
    share = (request.value - metric.low) / (metric.high - metric.low)
    near = fewest * min(share, 1 - share) < FEW_TO_THE_END
    return replicate_ends(request, values, fewest, few=fewest < FEW or near)


_SUMS = "the state keeps sums, from which events cannot be resampled"
_NOT_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "class_scores": "the state keeps the probabilities of each label by themselves, and not "
        "those of each event together, so that events cannot be resampled",
        **dict.fromkeys(
            ("label_scores", "label_losses", "label_ranking"),
            "events are not kept, so that they cannot be resampled: pass "
            "bootstrap=Bootstrap(...) to the Evaluator, and unit= with each event",
        ),
    }
)


def replicate_ends(
    request: IntervalRequest,
    values: Sequence[float],
    fewest: Weight | None = None,
    *,
    few: bool = False,
) -> Ends:
    """The ends from the replicates' values, normal on the logit or log scale, less their bias."""
    column = np.asarray(values, dtype=np.float64)
    column = column[np.isfinite(column)]
    undefined = len(values) - len(column)
    if undefined > _MOST_UNDEFINED * len(values):
        return no_ends(f"{undefined} of {len(values)} replicates have no value: too few events")
    if not math.isfinite(request.value):
        return no_ends("the value is infinite")
    low, high = request.metric.low, request.metric.high
    if not low <= request.value <= high:
        # Of a partial area that is worse than random.
        return no_ends("the value is outside the range of the metric")
    constant = bool((column == request.value).all())
    bounded = math.isfinite(low) and math.isfinite(high)
    if constant and (fewest is None or not bounded):
        return no_ends("all replicates have the same value")
    points = np.append(column, request.value)
    few = bounded and (few or constant)
    if few and fewest is not None:
        middle = (low + high) / 2
        points = (points * fewest + middle) / (fewest + 1)
    scaled = _scaled(points, low, high, 1 / (2 * request.n + 2))
    replicates, centre = scaled[:-1], float(scaled[-1])
    spread = float(replicates.std(ddof=1))
    if few and fewest is not None:
        share = (float(points[-1]) - low) / (high - low)
        spread = max(spread, 1 / math.sqrt((fewest + 1) * share * (1 - share)))
    # Less the bias that resampling shows; percentiles miss .95 more often (.80 to .90).
    centre -= float(replicates.mean()) - centre
    half = normal_quantile(request.level) * spread
    ends = [_unscaled(end, low, high) for end in (centre - half, centre + half)]
    name = "bootstrap, few events" if few else ""
    return Ends(min(ends[0], request.value), max(ends[1], request.value), name)


def _scaled(values: FloatArray, low: float, high: float, least: float) -> FloatArray:
    """The values on a scale without ends; those nearer to an end than `least` as if there."""
    if math.isfinite(low) and math.isfinite(high):
        share = np.clip((values - low) / (high - low), least, 1 - least)
        return np.log(share / (1 - share))
    if math.isfinite(low):
        return np.log(np.maximum(values - low, least))
    if math.isfinite(high):
        return -np.log(np.maximum(high - values, least))
    return values


def _unscaled(value: float, low: float, high: float) -> float:
    """The inverse of :func:`_scaled`."""
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * (1 + math.tanh(value / 2)) / 2
    if math.isfinite(low):
        return low + math.exp(value)
    if math.isfinite(high):
        return high - math.exp(-value)
    return value
