"""Drift: how far the predictions of two sets of events are apart, without any label.

:data:`DRIFTS` has a row for each measure, which compares the scores or the predicted labels of the
events now with those of a *reference*. :func:`drift` computes one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import FloatArray, Weight
from streameval.metrics.averages import exact_sum
from streameval.metrics.metric import public_name, row_named
from streameval.metrics.score_profiles import score_distribution
from streameval.metrics.thresholds import pair_lead, quotients, threshold_counts
from streameval.metrics.undefined import NO_EVENTS, json_number, undefined_value
from streameval.states.ranking.coarse_score import LEAST_SCORES, cell_limits, coarse_column
from streameval.states.ranking.score_groups import equal_mass_edges, group_scores
from streameval.states.ranking.weights import check_total
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import total_weight_by_group
from streameval.uncertainty.anytime import beta_binomial, disjoint_error
from streameval.uncertainty.bounds import BOUNDED, bounds_of
from streameval.uncertainty.differences import FALSE_DISCOVERIES
from streameval.uncertainty.interval import checked_level
from streameval.uncertainty.multiple_testing import benjamini_hochberg
from streameval.uncertainty.proportions import beyond_log, stirling_remainder

BINS = 10
"""Bins of equal mass of the reference, of ``psi`` and ``jensen_shannon``."""

_ROUNDING = 2.0**-48
"""Both bounds of an area are moved outward by this share of the scores' range."""


class Drift(NamedTuple):
    """The distance of the predictions now from those of a reference.

    >>> print(Drift(0.25, 0.03125, 0.2, 0.3, "bounds"))
    0.25 [0.2, 0.3] p = 0.03125
    """

    value: float
    """``nan`` where undefined."""
    p_value: float
    """The chance of such a distance, or a larger one, where nothing has drifted; ``nan`` where
    there is none."""
    low: float
    """With ``method="anytime"`` the ends of a confidence sequence, with bounded scores guaranteed
    bounds; ``nan`` where there are none."""
    high: float
    method: str
    """What the p-value and the ends are of; empty where there are none."""
    edges: tuple[float, ...] = ()
    """The least score of each bin but the first, of a measure over bins."""
    reason: str = ""
    """Why there is no value or no p-value; else empty."""

    def __str__(self) -> str:
        ends = "" if math.isnan(self.low) else f" [{self.low:.6g}, {self.high:.6g}]"
        p_value = f" ({self.reason})" if self.reason else f" p = {self.p_value:.6g}"
        return f"{self.value:.6g}{ends}{p_value}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: a number that is not finite is None."""
        numbers = ("value", "p_value", "low", "high")
        data = {name: json_number(getattr(self, name)) for name in numbers}
        return {**data, "method": self.method, "edges": list(self.edges), "reason": self.reason}


class DriftRequest(NamedTuple):
    """What a measure is computed from; both sides have events."""

    now: Any
    """A score index, or the weight by predicted label."""
    reference: Any
    n: float
    """How many events are counted now; ``nan`` where weights are not whole and that is unknown."""
    m: float
    """The same of the reference."""
    anytime: bool
    level: float

    def p_value(self, law: Callable[..., float], statistic: float, *params: float) -> float:
        """The tail of a law from a statistic on, times n·m/(n + m); ``nan`` of unknown sizes."""
        size = self.n * self.m / (self.n + self.m)
        return size if math.isnan(size) else law(statistic * size, *params)


@dataclass(frozen=True, slots=True)
class DriftRow:
    """A row of the registry."""

    name: str
    function: Callable[[DriftRequest], Drift]
    input: str
    """``"scores"`` or ``"labels"``: which predictions are compared."""
    definition: str
    """One line: what the number is. P is now, R the reference, F a distribution function."""
    high: float = math.inf
    """The largest value; the least one is 0."""
    methods: tuple[str, ...] = ("auto",)
    has_p_value: bool = True


# Laws -------------------------------------------------------------------------


def kolmogorov_tail(square: float) -> float:
    """P(K² > square) of Kolmogorov's K, the limit of √(n·m/(n + m)) times the distance."""
    if square < 1:
        terms = (math.exp(-((2 * k - 1) ** 2) * math.pi**2 / (8 * square)) for k in range(1, 9))
        return 1 - math.sqrt(2 * math.pi / square) * math.fsum(terms) if square else 1.0
    return 2 * math.fsum((-1) ** (k - 1) * math.exp(-2 * k * k * square) for k in range(1, 9))


def chi_squared_tail(x: float, freedom: float) -> float:
    """P(X > x) of a chi-squared X (Numerical Recipes, 6.2)."""
    if x <= 0 or not freedom:
        return 1.0
    a, x = freedom / 2, x / 2
    ratio = x / a
    lost = beyond_log(ratio - 1) if ratio > 0.5 else ratio - 1 - math.log(ratio)
    kernel = math.exp(-a * lost - stirling_remainder(a))
    if x < a + 1:
        term = total = 1 / a
        over = a
        while term > total * 1e-17:
            over += 1
            term *= x / over
            total += term
        return max(0.0, 1 - kernel * total)
    b = x + 1 - a
    c, d = math.inf, 1 / b
    value, k = d, 0
    while True:
        k += 1
        top = -k * (k - a)
        b += 2
        d = 1 / (top * d + b)
        c = b + top / c
        value *= c * d
        if abs(c * d - 1) < 1e-16 or k > 10_000_000:
            return kernel * value


# Scores -----------------------------------------------------------------------


def _merged(now: ScoreIndex, reference: ScoreIndex) -> ScoreIndex:
    """The events of both sides in one index: now as positives, the reference as negatives."""
    level = max(now.level, reference.level)
    sides: list[tuple[FloatArray, Any]] = []
    for index in (now, reference):
        groups = index.groups()
        same = index.level == level
        cells = groups.scores if same else coarse_column(groups.scores, level)
        sides.append((cells, groups.positives + groups.negatives))
    # Scores that are alike only as cells are joined here.
    groups = group_scores(sides[:1], sides[1:])
    form: dict[str, Any] = {key: column.copy() for key, column in groups._asdict().items()}
    form["exact"] = now.exact and reference.exact
    if level:
        form |= {"max_scores": max(LEAST_SCORES, len(groups.scores)), "level": level}
    return ScoreIndex.from_state(form)


def _ks(request: DriftRequest) -> Drift:
    index = _merged(request.now, request.reference)
    value = index.ks_statistic or 0.0
    low = high = value
    if index.level:
        bounds = bounds_of(BOUNDED["ks"], lambda one: one.ks_statistic, index)
        low, high = bounds.low, bounds.high
    if request.anytime:
        sizes = request.n, request.m
        reach = sum(_band(size, 1 - request.level) for size in sizes)
        low, high = max(0.0, low - reach), min(1.0, high + reach)
        return Drift(value, _error_of_bands(value, *sizes), low, high, "anytime")
    size = request.n * request.m / (request.n + request.m)
    p_value = size if math.isnan(size) else kolmogorov_tail(value * value * size)
    if index.level:
        return Drift(value, p_value, low, high, "bounds")
    return Drift(value, p_value, math.nan, math.nan, "kolmogorov")


# The band |F_t − F| ≤ A·√((ln ln(e·t) + C)/t) holds at all t together but for a chance of
# 1612·exp(−C/0.8), with A = 0.85 (Howard & Ramdas 2022, Sequential estimation of quantiles).
_WIDTH, _CONSTANT, _DECAY = 0.85, 1612.0, 0.8


def _iterated(events: float) -> float:
    return math.log1p(math.log(events))


def _band(events: float, error: float) -> float:
    """The half width of a band that has half of the error."""
    doubt = _DECAY * math.log(2 * _CONSTANT / error)
    return _WIDTH * math.sqrt((_iterated(events) + doubt) / events)


def _error_of_bands(distance: float, n: float, m: float) -> float:
    """The least error at which a distance exceeds the sum of both bands."""
    # With x = √((a + L)/n) and √((b + L)/m) = D/A − x, a quadratic equation without L.
    reach, a, b = distance / _WIDTH, _iterated(n), _iterated(m)
    constant = m * reach * reach - (b - a)
    root = math.sqrt(max(0.0, (m * reach) ** 2 + (n - m) * constant))
    x = constant / (m * reach + root) if constant > 0 else 0.0
    return min(1.0, 2 * _CONSTANT * math.exp(-max(0.0, n * x * x - a) / _DECAY))


def _wasserstein(request: DriftRequest) -> Drift:
    index = _merged(request.now, request.reference)
    scores, now, reference = index.groups()
    span = float(scores[-1]) - float(scores[0])
    if span == math.inf:
        return _without("the range of the scores is beyond the largest float")
    counts = threshold_counts(index.groups())
    # Of the share of events from each score up, now less then, from the highest score down.
    leads = quotients(pair_lead(counts), counts.positives * counts.negatives)
    above, below = leads[:-1], leads[1:]
    value = math.fsum(np.abs(below[:-1]) * -np.diff(counts.threshold[1:]))
    no_p_value = "a Wasserstein distance has no p-value"
    if not index.level:
        return Drift(value, math.nan, math.nan, math.nan, "", reason=no_p_value)
    # Inside a cell the lead is between what all of one side's events first make of it.
    limits = cell_limits(scores, index.level)
    width, between = (limits - scores)[::-1], (scores[1:] - limits[:-1])[::-1]
    highest = above + now[::-1] / counts.positives
    lowest = above - reference[::-1] / counts.negatives
    least = np.maximum(np.maximum(lowest, -highest), 0.0)
    most = np.maximum(np.abs(lowest), np.abs(highest))
    empty = np.abs(below[:-1]) * between
    low, high = (math.fsum([*(width * inside), *empty]) for inside in (least, most))
    moved = _ROUNDING * (float(limits[-1]) - float(scores[0]))
    ends = max(0.0, low - moved), high + moved
    return Drift(value, math.nan, *ends, "bounds", reason=no_p_value)


class _Binned(NamedTuple):
    now: FloatArray
    """Shares in each bin; one below half an event is raised to it."""
    reference: FloatArray
    edges: tuple[float, ...]


def _binned(request: DriftRequest) -> _Binned:
    groups = _merged(request.now, request.reference).groups()
    edges = equal_mass_edges(groups.scores, groups.negatives, BINS)
    bin_of = np.searchsorted(edges, groups.scores, side="right")
    shares = []
    for weights, size in ((groups.positives, request.n), (groups.negatives, request.m)):
        held = np.array(total_weight_by_group(bin_of, len(edges) + 1, weights), dtype=object)
        total = exact_sum(held.tolist())
        # Fractions whose number is unknown may add up to less than an event.
        half = 0.5 / size if size == size else min(0.5 / total, 0.5 / BINS)
        shares.append(np.maximum((held / total).astype(np.float64), half))
    return _Binned(shares[0], shares[1], tuple(edges.tolist()))


def _over_bins(
    divergence: Callable[[FloatArray, FloatArray], float],
    value: Callable[[float], float],
    scale: float,
) -> Callable[[DriftRequest], Drift]:
    """A measure that is a function of a divergence of the shares in bins.

    Of large samples without drift, `scale` · divergence · n·m/(n + m) is chi-squared.
    """

    def measure(request: DriftRequest) -> Drift:
        now, reference, edges = _binned(request)
        if not edges:
            return _without("all scores of the reference are the same, which makes no bins")
        found = max(0.0, divergence(now, reference))
        p_value = request.p_value(chi_squared_tail, scale * found, len(edges))
        return Drift(value(found), p_value, math.nan, math.nan, "chi_squared", edges)

    return measure


def _stability(now: FloatArray, reference: FloatArray) -> float:
    pairs = zip(now.tolist(), reference.tolist(), strict=True)
    return math.fsum((p - r) * math.log(p / r) for p, r in pairs)


def _jensen_shannon(now: FloatArray, reference: FloatArray) -> float:
    """½·Σ p·ln(p/a) + r·ln(r/a) with a the mean of both, without cancellation."""
    terms = []
    for p, r in zip(
        (now / now.sum()).tolist(), (reference / reference.sum()).tolist(), strict=True
    ):
        mean = (p + r) / 2
        beyond = (p - mean) / mean
        lost = (1 + beyond) * beyond_log(beyond) + (1 - beyond) * beyond_log(-beyond)
        terms.append(mean * (beyond * beyond - lost / 2))
    return math.fsum(terms)


# Labels -----------------------------------------------------------------------


def _chi_squared(rows: list[tuple[Weight, Weight]], n: Weight, m: Weight) -> float:
    """Σ (a·m − b·n)² / ((a + b)·n·m), each term divided once."""
    return math.fsum((a * m - b * n) ** 2 / ((a + b) * n * m) for a, b in rows if a + b)


def _of_labels(scaled: Callable[[float, float], float]) -> Callable[[DriftRequest], Drift]:
    """A measure that is a function of chi-squared / (n + m), and of n + m."""

    def measure(request: DriftRequest) -> Drift:
        now, reference = request.now, request.reference
        labels = dict.fromkeys([*now, *reference])
        rows = [(now.get(label, 0), reference.get(label, 0)) for label in labels]
        n, m = exact_sum(list(now.values())), exact_sum(list(reference.values()))
        value = scaled(_chi_squared(rows, n, m) / (n + m), n + m)
        if request.anytime:
            low, high, p_value = _sequence(rows, n, m, request.level)
            return Drift(value, p_value, scaled(low, n + m), scaled(high, n + m), "anytime")
        by_now, by_reference = request.n / n, request.m / m
        # Fractions count as what they are worth.
        counts = [(a * by_now, b * by_reference) for a, b in rows]
        statistic = _chi_squared(counts, request.n, request.m)
        p_value = statistic
        if not math.isnan(statistic):
            p_value = chi_squared_tail(statistic, sum(a + b > 0 for a, b in rows) - 1)
        return Drift(value, p_value, math.nan, math.nan, "chi_squared")

    return measure


def _sequence(
    rows: list[tuple[Weight, Weight]], n: Weight, m: Weight, level: float
) -> tuple[float, float, float]:
    """The ends of chi-squared / (n + m) by confidence sequences of all shares, and the p-value."""
    # Of two labels the one share follows from the other. More may appear in any order: the k-th
    # one has 1/(k·(k + 1)) of the error, or less.
    tests = 2 if len(rows) <= 2 else 2 * len(rows) * (len(rows) + 1)
    each = 1 - (1 - level) / tests
    low = high = 0.0
    for a, b in rows:
        (least, most), (under, over) = beta_binomial(a, n, each), beta_binomial(b, m, each)
        if least > over:
            low += _term(least, over, n, m)
        elif under > most:
            low += _term(most, under, n, m)
        high += max(_term(most, under, n, m), _term(least, over, n, m))
    return (
        low,
        min(1.0, high),
        min(1.0, tests * min(disjoint_error((a, n), (b, m)) for a, b in rows)),
    )


def _term(p: float, r: float, n: float, m: float) -> float:
    """A label's part of chi-squared / (n + m), which rises with the distance of the two shares."""
    return n * m * (p - r) ** 2 / ((n * p + m * r) * (n + m)) if p != r else 0.0


# The registry -----------------------------------------------------------------

_ANYTIME = ("auto", "anytime")

DRIFTS: Mapping[str, DriftRow] = MappingProxyType(
    {
        row.name: row
        for row in (
            DriftRow("ks", _ks, "scores", "max |F_P − F_R| over all scores", 1.0, _ANYTIME),
            DriftRow(
                "wasserstein",
                _wasserstein,
                "scores",
                "∫ |F_P − F_R| ds, in units of the score",
                has_p_value=False,
            ),
            DriftRow(
                "psi",
                _over_bins(_stability, float, 1.0),
                "scores",
                "population stability index Σ (p − r)·ln(p/r), over ten bins of equal mass of R",
            ),
            DriftRow(
                "jensen_shannon",
                _over_bins(_jensen_shannon, math.sqrt, 8.0),
                "scores",
                "Jensen-Shannon distance, in nats, over ten bins of equal mass of R",
                math.sqrt(math.log(2)),
            ),
            DriftRow(
                "chi_squared",
                _of_labels(lambda share, total: share * total),
                "labels",
                "Pearson's chi-squared of the predicted labels of P and R",
                methods=_ANYTIME,
            ),
            DriftRow(
                "cramers_v",
                _of_labels(lambda share, total: math.sqrt(min(1.0, share))),
                "labels",
                "Cramér's V of the predicted labels: √(chi-squared / events)",
                1.0,
                _ANYTIME,
            ),
        )
    }
)
"""From the name of each measure to its row."""


def drift(
    name: str,
    now: Any,
    reference: Any,
    *,
    method: str = "auto",
    level: float = 0.95,
    sizes: tuple[float, float] | None = None,
) -> Drift:
    """A measure of :data:`DRIFTS` between the predictions now and those of a reference.

    Neither class of a score index is told from the other: an index of a labelled reference, and one
    that counts predictions as of one class, are compared by all their scores.

    Args:
        name: The measure.
        now: A ScoreIndex, or for measures of labels a mapping from each predicted label to its
            weight. Either may be a merge of shards: the result is of the same bits.
        reference: The same of the reference.
        method: ``"auto"``: the p-value of large samples, for one look. ``"anytime"`` (``ks``,
            ``chi_squared`` and ``cramers_v``): a p-value and ends that hold however often
            the two are looked at, while both count all events since a start, and remove none.
        level: Of the ends of ``"anytime"``.
        sizes: Of weights that are not whole, Kish's effective sizes of now and of the reference.
            The value is of the weights; the p-value is approximately that of so many events of
            equal weight, and ``nan`` without them.

    Returns:
        The value, its p-value, and its ends: guaranteed bounds where ``max_scores`` has coarsened
        scores (``ks`` and ``wasserstein``; the p-value of ``ks`` is of the lower one, so it is not
        too small). Bins have whole cells, and exact counts. Undefined, with a reason, while a side
        has no events.

    Raises:
        MetricError: There is no such measure, it has no such method, or the sides are not what it
            compares.

    Cost:
        O(distinct scores or labels).

    >>> print(drift("cramers_v", {"cat": 30, "dog": 70}, {"cat": 50, "dog": 50}))
    0.204124 p = 0.00389242
    """
    row = row_named("drift measure", name, DRIFTS)
    if method not in row.methods:
        raise MetricError(
            f"{name} has no method {shown(method)}; it has {' and '.join(row.methods)}"
        )
    checked_level(level)
    kind: Any = ScoreIndex if row.input == "scores" else Mapping
    if not (isinstance(now, kind) and isinstance(reference, kind)):
        wanted = "two ScoreIndex" if kind is ScoreIndex else "two mappings from label to weight"
        got = " and ".join(public_name(type(side)) for side in (now, reference))
        raise MetricError(f"{name} compares the {row.input} of {wanted}, got {got}")
    totals, whole = [], True
    for side in (now, reference):
        if isinstance(side, Mapping):
            totals.append(exact_sum(list(side.values())))
            whole = whole and all(type(weight) is int for weight in side.values())
        else:
            if side.exact:
                check_total(side.positives, side.negatives)
            totals.append(side.positives + side.negatives)
            whole = whole and side.exact
    if not all(totals):
        return _without(NO_EVENTS if not totals[0] else "the reference has no events")
    n, m = totals if whole else sizes or (math.nan, math.nan)
    anytime = whole and method == "anytime"
    found = row.function(DriftRequest(now, reference, n, m, anytime, level))
    if whole or found.reason:
        return found
    if method == "anytime":
        reason = "anytime needs weights that are counts"
        return found._replace(p_value=math.nan, method="", reason=reason)
    if sizes is None:
        return found._replace(reason="with weights that are not whole, a p-value needs sizes")
    return found._replace(method=f"{found.method} (Kish)")


class SideShares(NamedTuple):
    """What share of each side's predictions is in each place; nan of a side without events."""

    places: tuple[Any, ...]
    """The edges of bins, one more than there are shares; or the labels."""
    now: FloatArray
    reference: FloatArray


def score_shares(now: ScoreIndex, reference: ScoreIndex, bins: int = 20) -> SideShares:
    """The shares of both sides' scores in common bins of equal width, each divided once.

    From 0 to 1 where all scores of both sides are between them, else from the lowest score to the
    highest; an inner edge belongs to the bin below it. Cost: O(distinct scores). Raises MetricError
    where `bins` is not from 1 to 10,000.

    >>> now, reference = ScoreIndex([(False, 0.1), (True, 0.8)]), ScoreIndex([(False, 0.4)])
    >>> edges, *shares = score_shares(now, reference, bins=2)
    >>> edges, [side.tolist() for side in shares]
    ((0.0, 0.5, 1.0), [[0.5, 0.5], [1.0, 0.0]])
    """
    low, high, *sides = score_distribution(_merged(now, reference), bins=bins)
    held = [_shares(weights.tolist()) for weights in sides]
    return SideShares((*low.tolist(), high[-1].item()), *held)


def label_shares(now: Mapping[Any, Weight], reference: Mapping[Any, Weight]) -> SideShares:
    """The shares of both sides' predicted labels, in the order of the reference, then of now.

    >>> label_shares({"cat": 1, "emu": 1}, {"dog": 1, "cat": 3}).places
    ('dog', 'cat', 'emu')
    """
    labels = tuple(dict.fromkeys([*reference, *now]))
    held = [_shares([side.get(label, 0) for label in labels]) for side in (now, reference)]
    return SideShares(labels, *held)


def _shares(weights: list[Weight]) -> FloatArray:
    # Python's numbers, as a quotient of int64 rounds both beyond 2**53.
    return quotients(np.array(weights, dtype=object), exact_sum(weights))


def _without(reason: str) -> Drift:
    """No value, and why."""
    nan = math.nan
    return Drift(undefined_value(reason), nan, nan, nan, "", reason=reason)


_Key = TypeVar("_Key", bound=Hashable)


def drifted(drifts: Mapping[_Key, Drift], rate: float = FALSE_DISCOVERIES) -> dict[_Key, Drift]:
    """Those of several slices that have drifted, by Benjamini and Hochberg (1995).

    At most the share `rate` of them is expected not to have. Slices without a p-value are none of
    them, and do not count.

    >>> found = {"SE": Drift(0.3, 0.001, 0, 1, ""), "PT": Drift(0.1, 0.04, 0, 1, "")}
    >>> list(drifted(found)), list(drifted(found, rate=0.01))
    (['SE', 'PT'], ['SE'])
    """
    adjusted = benjamini_hochberg([one.p_value for one in drifts.values()])
    return {key: one for (key, one), p in zip(drifts.items(), adjusted, strict=True) if p <= rate}
