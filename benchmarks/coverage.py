"""How often intervals contain the truth, and how often alerts and comparisons are wrong.

    python -m benchmarks.coverage --runs 2000

Draws streams from populations whose metrics are known, feeds them to an evaluator and counts
the intervals that contain the population's value. Every cell that is simulated is in the table;
``coverage.md`` has it with the seeds' standard error. ``make coverage`` takes about half an hour;
with fewer runs than the default, the table goes to ``coverage-quick.md``. ``--only weeks`` runs
the simulations of one function and replaces their sections of the page.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import streameval as se
from demos.run import replay_flights
from streameval.service.alerts.inputs import AlertInput
from streameval.service.alerts.rules import AlertBook
from streameval.service.config.settings import AlertSettings
from streameval.service.publish.snapshot import Value, When
from streameval.uncertainty.anytime import beta_binomial
from streameval.uncertainty.drift import drift
from streameval.uncertainty.expected import expected
from streameval.uncertainty.multiclass_auc import CLASS_AUCS
from streameval.uncertainty.proportions import wilson

HERE = Path(__file__).parent
LEVEL = 0.95
RUNS = 2_000
_NORMAL = NormalDist()


class Cell(NamedTuple):
    """A cell of a table: what was simulated, and how often it came out."""

    section: str
    population: str
    size: str
    what: str
    share: float
    """Of the runs that gave a result."""
    runs: int
    without: int
    """Runs that gave none, with a reason: the metric or its interval is undefined."""
    low: float
    high: float
    """What is wanted of the share."""
    beside: str = ""
    """The same of the usual method."""

    @property
    def mark(self) -> str:
        """✓ as wanted; ≈ beyond it by at most two standard errors of the simulation; else ✗."""
        if self.low <= self.share <= self.high:
            return "✓"
        edge = self.low if self.share < self.low else self.high
        error = math.sqrt(edge * (1 - edge) / max(1, self.runs - self.without))
        return "≈" if abs(self.share - edge) <= 2 * error else "✗"


Simulation = Callable[[int], list[Cell]]
"""From the number of runs to the cells."""


def _rng(*names: object) -> np.random.Generator:
    # Not hash(), which differs between processes.
    return np.random.Generator(np.random.PCG64(zlib.crc32(repr(names).encode())))


def _covered(
    section: str,
    population: str,
    size: str,
    runs: int,
    draw: Callable[[np.random.Generator], se.Evaluator],
    truths: Mapping[str, float],
    wanted: tuple[float, float] = (0.93, 0.97),
) -> list[Cell]:
    rng = _rng(section, population, size)
    hits = dict.fromkeys(truths, 0)
    without = dict.fromkeys(truths, 0)
    for _ in range(runs):
        ev = draw(rng)
        for name, truth in truths.items():
            found = ev.interval(name, level=LEVEL)
            if not found.defined:
                without[name] += 1
            else:
                # Ends and truth are rounded differently.
                hits[name] += found.low - 1e-12 <= truth <= found.high + 1e-12
    return [
        Cell(
            section,
            population,
            size,
            name,
            hits[name] / max(1, runs - without[name]),
            runs,
            without[name],
            *wanted,
        )
        for name in truths
    ]


# Labels -----------------------------------------------------------------------

_SIZES = (50, 200, 1_000, 10_000)
_BINARY_METRICS = [
    "accuracy",
    "precision",
    "recall",
    "specificity",
    "f1",
    "f1_macro",
    "jaccard",
    "balanced_accuracy",
    "matthews_corrcoef",
    "cohen_kappa",
    "informedness",
    "fowlkes_mallows",
]
_MULTI_METRICS = [
    "accuracy",
    "f1_macro",
    "f1_weighted",
    "precision_macro",
    "recall_macro",
    "balanced_accuracy",
    "matthews_corrcoef",
    "cohen_kappa",
    "cohen_kappa_quadratic",
    "geometric_mean",
]

# Share of positives, recall, specificity.
_BINARY = {
    "half positive, recall .8, specificity .7": (0.5, 0.8, 0.7),
    "half positive, recall .95, specificity .95": (0.5, 0.95, 0.95),
    "a fifth positive, recall .7, specificity .9": (0.2, 0.7, 0.9),
    # Four positives in 200 events: few to estimate an error from.
    "2 % positive, recall .7, specificity .95": (0.02, 0.7, 0.95),
}
_MULTI = {
    "3 classes, even": np.array([[0.27, 0.04, 0.02], [0.05, 0.25, 0.03], [0.03, 0.06, 0.25]]),
    "4 classes, .55 to .1": np.array(
        [
            [0.45, 0.05, 0.03, 0.02],
            [0.03, 0.15, 0.01, 0.01],
            [0.02, 0.02, 0.10, 0.01],
            [0.01, 0.01, 0.01, 0.07],
        ]
    ),
}


def _labelled(task: str, cells: np.ndarray) -> se.Evaluator:
    true, predicted = np.nonzero(cells)
    ev = se.Evaluator(task=task, positive=1) if task == "binary" else se.Evaluator(task=task)  # type: ignore[arg-type]
    ev.update_many(true, predicted, weight=cells[true, predicted])
    return ev


def _confusions(section: str, task: str, size: int, runs: int) -> list[Cell]:
    found = []
    populations: dict[str, np.ndarray] = {}
    if task == "binary":
        for name, (share, recall, specificity) in _BINARY.items():
            negative = 1 - share
            populations[name] = np.array(
                [
                    [negative * specificity, negative * (1 - specificity)],
                    [share * (1 - recall), share * recall],
                ]
            )
    else:
        populations.update(_MULTI)
    metrics = _BINARY_METRICS if task == "binary" else _MULTI_METRICS
    for name, shares in populations.items():
        # The metrics of the population: of so many events in exactly these shares.
        whole = _labelled(task, np.rint(shares / shares.sum() * 10**9).astype(np.int64))
        truths = {metric: whole[metric] for metric in metrics}

        def draw(rng: np.random.Generator, shares: np.ndarray = shares) -> se.Evaluator:
            counts = rng.multinomial(size, (shares / shares.sum()).ravel())
            return _labelled(task, counts.reshape(shares.shape))

        found += _covered(section, name, f"n = {size:,}", runs, draw, truths)
    return found


# Sets of labels ---------------------------------------------------------------

_LABELS = 10


def _sets(
    rng: np.random.Generator, size: int, common: float, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Labels of 10 to 40 % of the events at most, and errors, both with this correlation of the
    normal variables that they are cut from."""

    def alike() -> np.ndarray:
        shared, own = rng.standard_normal((size, 1)), rng.standard_normal((size, _LABELS))
        return math.sqrt(common) * shared + math.sqrt(1 - common) * own

    limits = [_NORMAL.inv_cdf(share) for share in np.linspace(most / 4, most, _LABELS)]
    true = alike() < limits
    return true, true ^ (alike() < _NORMAL.inv_cdf(0.1))


def _label_sets(size: int, common: float, runs: int) -> list[Cell]:
    """Metrics whose interval takes the labels of one event for dependent."""
    metrics = ["accuracy", "hamming_loss", "f1_micro", "jaccard_micro"]
    metrics += ["precision_samples", "f1_samples", "f1_macro", "recall_macro", "f1_weighted"]
    labels = range(1, _LABELS + 1)
    rng = _rng("label sets", common)
    whole = se.Evaluator(task="multilabel", labels=labels, metrics=metrics)
    for _ in range(20):
        whole.update_many(*_sets(rng, 100_000, common, 0.4))

    def draw(rng: np.random.Generator) -> se.Evaluator:
        ev = se.Evaluator(task="multilabel", labels=labels, metrics=metrics, intervals=True)
        return ev.update_many(*_sets(rng, size, common, 0.4))

    return _covered(
        "Sets of labels",
        f"10 labels, correlation {common}",
        f"n = {size:,}",
        runs,
        draw,
        {metric: whole[metric] for metric in metrics},
        # Of the rarest label 50 events have five.
        (0.93 if size >= 200 else 0.9, 0.97),
    )


# Scores -----------------------------------------------------------------------


def _scored(negatives: np.ndarray, positives: np.ndarray, *metrics: str) -> se.Evaluator:
    ev = se.Evaluator(metrics=metrics)
    truth = np.repeat([False, True], [len(negatives), len(positives)])
    ev.update_many(truth, score=np.concatenate([negatives, positives]))
    return ev


def _shift(auc: float) -> float:
    """How far apart two normal classes of variance 1 are."""
    return math.sqrt(2) * _NORMAL.inv_cdf(auc)


def _aucs(positives: int, negatives: int, runs: int) -> list[Cell]:
    found = []
    for auc in (0.7, 0.8, 0.9, 0.95, 0.98):
        shift = _shift(auc)

        def draw(rng: np.random.Generator, shift: float = shift) -> se.Evaluator:
            return _scored(
                rng.standard_normal(negatives), rng.standard_normal(positives) + shift, "roc_auc"
            )

        size = f"P/N = {positives}/{negatives}"
        # Of the smallest samples less is wanted.
        least = 0.92 if min(positives, negatives) <= 20 else 0.93
        found += _covered(
            "ROC-AUC, normal classes",
            f"AUC {auc}",
            size,
            runs,
            draw,
            {"roc_auc": auc},
            (least, 0.97),
        )
    return found


def _class_aucs(size: int, runs: int) -> list[Cell]:
    """What is wanted is the level or more: the interval is that of the largest variance."""
    found = []
    for population, shares, shift, alike in (
        ("three classes, AUC .97", [0.6, 0.3, 0.1], 2.0, 0.0),
        ("three classes, two alike, AUC .71 to .82", [0.6, 0.3, 0.1], 1.75, 1.4),
        ("five classes, AUC .74", [0.2] * 5, 0.8, 0.0),
    ):

        def draw(
            rng: np.random.Generator,
            size: int = size,
            shares: list[float] = shares,
            shift: float = shift,
            alike: float = alike,
        ) -> se.Evaluator:
            labels = np.arange(len(shares))
            true = rng.choice(labels, size, p=shares)
            logits = rng.standard_normal((size, len(shares)))
            logits[np.arange(size), true] += shift
            logits[true == 0, 1] += alike
            logits[true == 1, 0] += alike
            odds = np.exp(logits)
            ev = se.Evaluator("multiclass", labels=labels.tolist(), metrics=list(CLASS_AUCS))
            ev.update_many(true, proba=odds / odds.sum(axis=1, keepdims=True))
            return ev

        large = draw(_rng("AUC of several classes", population), 1_000_000)
        found += _covered(
            "AUC of several classes, softmax of normal scores",
            population,
            f"n = {size:,}",
            runs,
            draw,
            {name: large[name] for name in CLASS_AUCS},
            (0.93, 1.0),
        )
    return found


def _average_precision(share: float, shift: float) -> float:
    """Of the population: the integral of precision over recall."""
    # An even grid in recall, in the middle of each step.
    recall = (np.arange(200_000) + 0.5) / 200_000
    thresholds = np.array([_NORMAL.inv_cdf(1 - r) for r in recall[::100]])
    fine = np.interp(recall, recall[::100], thresholds) + shift
    fpr = 0.5 * np.array([math.erfc(t / math.sqrt(2)) for t in fine])
    return float(np.mean(share * recall / (share * recall + (1 - share) * fpr)))


def _precisions(size: int, runs: int) -> list[Cell]:
    found = []
    for share, auc in ((0.5, 0.8), (0.5, 0.95), (0.1, 0.8), (0.1, 0.95)):
        shift = _shift(auc)

        def draw(
            rng: np.random.Generator, share: float = share, shift: float = shift
        ) -> se.Evaluator:
            positives = int(rng.binomial(size, share))
            return _scored(
                rng.standard_normal(size - positives),
                rng.standard_normal(positives) + shift,
                "average_precision",
            )

        truths = {"average_precision": _average_precision(share, shift)}
        found += _covered(
            "Average precision, normal classes",
            f"{share:.0%} positive, AUC {auc}",
            f"n = {size:,}",
            runs,
            draw,
            truths,
            (0.92 if size * share <= 50 else 0.93, 0.97),
        )
    return found


_GRID = (np.arange(400_000) + 0.5) / 400_000


class _Probabilities(NamedTuple):
    """A population of predicted probabilities."""

    name: str
    a: float
    b: float
    sharpened: float
    """The odds of a positive are the predicted ones to this power."""

    def chance(self, p: np.ndarray) -> np.ndarray:
        """The true chance of a positive where p was predicted."""
        odds = (p / (1 - p)) ** self.sharpened
        return odds / (1 + odds)

    def density(self) -> np.ndarray:
        """Of the predictions, over a grid; its sum is 1."""
        density = _GRID ** (self.a - 1) * (1 - _GRID) ** (self.b - 1)
        return density / density.sum()

    def draw(self, rng: np.random.Generator, size: int) -> se.Evaluator:
        p = np.clip(rng.beta(self.a, self.b, size), 1e-9, 1 - 1e-9)
        ev = se.Evaluator()
        ev.update_many(rng.random(size) < self.chance(p), score=p)
        return ev


_PROBABILITIES = (
    _Probabilities("p from beta(2, 3)", 2, 3, 1),
    _Probabilities("p from beta(2, 3), odds to the 2", 2, 3, 2),
    _Probabilities("p from beta(0.5, 4)", 0.5, 4, 1),
)


def _losses(size: int, runs: int) -> list[Cell]:
    found = []
    for population in _PROBABILITIES:
        density, q, p = population.density(), population.chance(_GRID), _GRID
        truths = {
            "brier_score": float(np.sum(density * (q * (1 - p) ** 2 + (1 - q) * p**2))),
            "log_loss": float(np.sum(density * -(q * np.log(p) + (1 - q) * np.log1p(-p)))),
        }
        draw = partial(population.draw, size=size)
        found += _covered("Probabilities", population.name, f"n = {size:,}", runs, draw, truths)
    return found


_NUMBERS: Mapping[str, tuple[Callable[..., tuple[np.ndarray, np.ndarray]], dict[str, float]]] = {
    "normal, R² .87, predictions too near the mean": (
        lambda rng, n: (y := rng.normal(0, 3, n), 0.9 * y + 0.3 + rng.normal(size=n)),
        {
            "mean_error": 0.3,
            # Of a folded normal variable.
            "mean_absolute_error": math.sqrt(2.18 / math.pi) * math.exp(-0.09 / 2.18)
            + 0.3 * (1 - 2 * _NORMAL.cdf(-0.3 / math.sqrt(1.09))),
            "mean_squared_error": 1.18,
            "root_mean_squared_error": math.sqrt(1.18),
            "r2": 1 - 1.18 / 9,
            "explained_variance": 1 - 1.09 / 9,
            "pearson_r": 8.1 / math.sqrt(9 * 8.29),
            "concordance_correlation": 16.2 / (9 + 8.29 + 0.09),
        },
    ),
    "gamma, R² .63, Laplace errors in proportion": (
        lambda rng, n: (y := rng.gamma(2, 2, n), y + y * rng.laplace(size=n) / 4),
        {
            "mean_error": 0.0,
            "mean_absolute_error": 1.0,
            "mean_squared_error": 3.0,
            "root_mean_squared_error": math.sqrt(3),
            "r2": 5 / 8,
            "explained_variance": 5 / 8,
            "pearson_r": 8 / math.sqrt(88),
            "concordance_correlation": 16 / 19,
        },
    ),
}


def _numbers(size: int, runs: int) -> list[Cell]:
    found = []
    for population, (draw, truths) in _NUMBERS.items():
        names = list(truths)

        def fed(rng: np.random.Generator, draw: Any = draw, names: Any = names) -> se.Evaluator:
            ev = se.Evaluator("regression", metrics=names, intervals=True)
            return ev.update_many(*draw(rng, size))

        # Of skewed losses that few events decide, n is to be large.
        wanted = (0.93, 0.97) if population.startswith("normal") else (0.9, 0.97)
        found += _covered(
            "Predicted numbers", population, f"n = {size:,}", runs, fed, truths, wanted
        )
    return found


def _calibrations(size: int, runs: int) -> list[Cell]:
    """What is wanted is about the level or more: both intervals are approximate."""
    found = []
    for population in _PROBABILITIES:
        density = population.density()
        gaps = density * (population.chance(_GRID) - _GRID)
        # Of 10 bins, all as many points of the grid.
        of_bins = gaps.reshape(10, -1).sum(axis=1)
        truths = {
            "expected_calibration_error": float(np.abs(of_bins).sum()),
            "max_calibration_error": float(
                np.abs(of_bins / density.reshape(10, -1).sum(axis=1)).max()
            ),
        }
        found += _covered(
            "Calibration errors, 10 bins",
            population.name,
            f"n = {size:,}",
            runs,
            partial(population.draw, size=size),
            truths,
            (0.92 if size <= 50 else 0.93, 1.0),
        )
    return found


# At every event ---------------------------------------------------------------

_LOOKS = 10_000


def _anytime_share(runs: int) -> list[Cell]:
    found = []
    for truth in (0.5, 0.9, 0.99):
        rng = _rng("anytime", truth)
        missed = wilson_missed = 0
        n = np.arange(1, _LOOKS + 1)
        z2 = _NORMAL.inv_cdf((1 + LEVEL) / 2) ** 2
        for _ in range(runs):
            right = rng.random(_LOOKS) < truth
            shares = np.cumsum(right) / n
            # Wilson's interval holds p where the score test does not reject it.
            wilson_missed += bool(np.any((shares - truth) ** 2 > z2 * truth * (1 - truth) / n))
            ev = se.Evaluator(metrics=["accuracy"])
            for hit in right.tolist():
                ev.update(True, hit)
                low, high = _ends(ev.interval("accuracy", level=LEVEL, method="anytime"))
                if not low <= truth <= high:
                    missed += 1
                    break
        found.append(
            Cell(
                "Looked at after every event: ever missed",
                f"accuracy {truth}",
                f"{_LOOKS:,} looks",
                "accuracy, anytime",
                missed / runs,
                runs,
                0,
                0.0,
                1 - LEVEL,
                f"Wilson {wilson_missed / runs:.1%}",
            )
        )
    return found


def _ends(found: se.Interval) -> tuple[float, float]:
    return (found.low, found.high) if found.defined else (-math.inf, math.inf)


def _anytime_auc(runs: int) -> list[Cell]:
    found = []
    for auc, share in ((0.8, 0.5), (0.95, 0.5), (0.8, 0.1)):
        rng = _rng("anytime auc", auc, share)
        shift = _shift(auc)
        missed = wald_missed = 0
        for _ in range(runs):
            truth = rng.random(_LOOKS) < share
            score = rng.standard_normal(_LOOKS) + shift * truth
            ev = se.Evaluator(metrics=["roc_auc"])
            late = wald = False
            for n, (y, s) in enumerate(zip(truth.tolist(), score.tolist(), strict=True), 1):
                ev.update(y, score=s)
                if not late:
                    low, high = _ends(ev.interval("roc_auc", level=LEVEL, method="anytime"))
                    late = not low <= auc <= high
                # The usual interval, from the same errors, once there are a few of each class.
                if not wald and n >= 100:
                    low, high = _ends(ev.interval("roc_auc", level=LEVEL, method="delong"))
                    wald = not low <= auc <= high
                if late and wald:
                    break
            missed += late
            wald_missed += wald
        found.append(
            Cell(
                "Looked at after every event: ever missed",
                f"AUC {auc}, {share:.0%} positive",
                f"{_LOOKS:,} looks",
                "roc_auc, anytime",
                missed / runs,
                runs,
                0,
                0.0,
                1 - LEVEL,
                f"DeLong {wald_missed / runs:.1%}",
            )
        )
    return found


# Alerts -----------------------------------------------------------------------

_EVENTS = 100_000
_WHENS: tuple[When, ...] = ("value", "certain", "anytime")


def first_alarm(when: When, right: np.ndarray, bound: float, level: float = LEVEL) -> int | None:
    """The number of the event at which an alert on the accuracy of all events first fires.

    The alert is judged after each event, by the service's own rules. Events at which it cannot
    fire, because the bound is likely enough by any interval, are left out for speed.

    Args:
        when: What the alert compares with its bound.
        right: Whether each event was predicted correctly.
        bound: It fires below.
        level: Of its interval.

    Returns:
        None where it never fires.
    """
    watched = AlertSettings(name="low", metric="accuracy", below=bound, when=when, level=level)
    book = AlertBook([watched], "all")
    n = np.arange(1, len(right) + 1)
    count = np.cumsum(right)
    share = count / n
    with np.errstate(divide="ignore", invalid="ignore"):
        unlikely = np.where(count > 0, count * np.log(share / bound), 0.0)
        unlikely += np.where(count < n, (n - count) * np.log((1 - share) / (1 - bound)), 0.0)
    # The mixture exceeds no likelihood, so it needs at least ln(1/α); Wilson's needs z²/2 nearly.
    least = {"value": 0.0, "certain": 1.0, "anytime": -math.log(1 - level)}[when]
    for at in np.flatnonzero((share < bound) & (unlikely >= least)).tolist():
        k, total = int(count[at]), at + 1
        ends = {"value": (None, None)}.get(when) or (
            beta_binomial(k, total, level) if when == "anytime" else wilson(k, total, level)
        )
        value = Value(k / total, total, "", *ends, "" if when == "value" else "interval")
        (state,) = book.judge({"low": AlertInput(value)}, at).states
        if state.state == "firing":
            return total
    return None


def alerts(runs: int, events: int = _EVENTS) -> list[Cell]:
    """False alarms of a model that does not change, and the time to detect one that fell by .05.

    Args:
        runs: Streams a cell.
        events: Of each; the alert is judged after each.
    """
    found = []
    size = f"{events:,} looks"
    for bound in (0.8, 0.79):
        rng = _rng("alerts", bound, events)
        fired = dict.fromkeys(_WHENS, 0)
        for _ in range(runs):
            right = rng.random(events) < 0.8
            for when in _WHENS:
                fired[when] += first_alarm(when, right, bound) is not None
        found.append(
            Cell(
                "Alerts that ever fire, of a model that does not change",
                f"accuracy .8, below {bound}",
                size,
                'when = "anytime"',
                fired["anytime"] / runs,
                runs,
                0,
                0.0,
                1 - LEVEL,
                f"value {fired['value'] / runs:.1%}, certain {fired['certain'] / runs:.1%}",
            )
        )
    fall = events // 10
    for where, start, bound in (("at the start", 0, 0.8), (f"after {fall:,}", fall, 0.79)):
        rng = _rng("alerts", where, events)
        delays: dict[When, list[float]] = {when: [] for when in _WHENS}
        for _ in range(runs):
            right = rng.random(events) < np.where(np.arange(events) < start, 0.8, 0.75)
            for when in _WHENS:
                at = first_alarm(when, right, bound)
                # One that fired before the fall detects nothing.
                delays[when].append(math.inf if at is None or at <= start else at - start)
        medians = {when: float(np.median(delays[when])) for when in _WHENS}
        found.append(
            Cell(
                "Alerts that fire after a fall by .05",
                f"from .8 to .75 {where}, below {bound}",
                size,
                'when = "anytime"',
                sum(map(math.isfinite, delays["anytime"])) / runs,
                runs,
                0,
                0.9,
                1.0,
                "median events until then: "
                + ", ".join(
                    f"{when} {median:,.0f}" if math.isfinite(median) else f"{when} fired before"
                    for when, median in medians.items()
                ),
            )
        )
    return found


# Drift ------------------------------------------------------------------------

_DRIFT_METHODS = {"anytime": "anytime", "auto": "one look's p-value"}


def _first_drifts(name: str, now: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """The number of the look at which each method first finds a drift; infinity where never.

    Both sides are columns of whole numbers, and one event of each is counted before each look.
    Looks at which a method's p-value cannot be small are left out for speed.
    """
    values = np.union1d(now, reference)
    counts = [np.cumsum(side[:, None] == values, axis=0) for side in (now, reference)]
    n = np.arange(1, len(now) + 1)
    if name == "ks":
        squares = (np.cumsum(counts[0] - counts[1], axis=1) ** 2).max(axis=1) / n
        # K² = n·D²/2 is 1.8444 at .05. The bands are 0.85·√((ln ln(e·n) + 0.8·ln(3224/.05))/n)
        # wide each, and apart where n·D² is above 4·0.85² times what is under the root, times n.
        likely = {
            "auto": squares >= 2 * 1.844,
            "anytime": squares >= 2.89 * (np.log1p(np.log(n)) + 8.859),
        }
    else:
        differ, both = (counts[0] - counts[1]) ** 2, sum(counts)
        # The .05 quantiles of chi-squared are 3.8415 and 5.9915, of two and three labels so far.
        limits = np.array([math.inf, math.inf, 3.841, 5.991])[(both > 0).sum(axis=1)]
        # Two sequences are disjoint only if one of them lacks the pooled share p, as every share:
        # B(k + ½, n − k + ½)/(π·p^k·(1 − p)^(n − k)) is then 24/.05 or more, at three labels.
        beta = np.concatenate([[0.0], np.cumsum(np.log(n - 0.5))])
        trials, factorial = n[:, None], np.cumsum(np.log(n))[:, None]
        p = (both + 0.5) / (2 * trials + 1)
        outside = [
            beta[k] + beta[trials - k] - factorial - k * np.log(p) - (trials - k) * np.log1p(-p)
            for k in counts
        ]
        likely = {
            "auto": (differ / np.maximum(both, 1)).sum(axis=1) >= limits,
            "anytime": (np.maximum(*outside) >= math.log(24 / 0.05) - 1e-6).any(axis=1),
        }
    found = dict.fromkeys(_DRIFT_METHODS, math.inf)
    for method, looks in likely.items():
        for at in np.flatnonzero(looks).tolist():
            held = [side[at] for side in counts]
            sides: list[object] = [
                dict(zip(values.tolist(), side.tolist(), strict=True)) for side in held
            ]
            if name == "ks":
                sides = [
                    se.ScoreIndex.from_state(
                        {
                            "exact": True,
                            "scores": values[side > 0] + 0.0,
                            "positives": np.zeros(int((side > 0).sum()), dtype=np.int64),
                            "negatives": side[side > 0],
                        }
                    )
                    for side in held
                ]
            if drift(name, *sides, method=method).p_value <= 1 - LEVEL:
                found[method] = at + 1
                break
    return found


def drifts(name: str, runs: int, looks: int = _LOOKS) -> list[Cell]:
    """How often a drift is found in a stream that has none, and how soon in one that has."""

    def scores(rng: np.random.Generator, shift: float) -> np.ndarray:
        return np.rint(10 * (rng.standard_normal(looks) + shift))

    def labels(rng: np.random.Generator, shift: float) -> np.ndarray:
        return rng.choice(3, looks, p=[0.5 - shift / 10, 0.3 + shift / 10, 0.2])

    draw, what = (scores, "logit + 0.5") if name == "ks" else (labels, "shares .5, .3 to .45, .35")
    cells = []
    for shift in (0.0, 0.5):
        rng = _rng("drift", name, shift, looks)
        first: dict[str, list[float]] = {method: [] for method in _DRIFT_METHODS}
        for _ in range(runs):
            for method, at in _first_drifts(name, draw(rng, shift), draw(rng, 0.0)).items():
                first[method].append(at)
        share = {method: sum(map(math.isfinite, at)) / runs for method, at in first.items()}
        beside = f"{_DRIFT_METHODS['auto']} {share['auto']:.1%}"
        if shift:
            beside = f"after {np.median(first['anytime']):,.0f} events of each (median)"
        cells.append(
            Cell(
                "Drift, looked at after every event: found"
                + (" though there is none" * (not shift)),
                what if shift else "the same twice",
                f"{looks:,} looks",
                f"{name}, anytime",
                share["anytime"],
                runs,
                0,
                0.9 if shift else 0.0,
                1.0 if shift else 1 - LEVEL,
                beside,
            )
        )
    return cells


# Metrics before the labels ----------------------------------------------------

_EXPECTED = (
    "accuracy",
    "precision",
    "recall",
    "specificity",
    "f1",
    "matthews_corrcoef",
    "roc_auc",
    "log_loss",
    "brier_score",
)

# The power and the factor by which the odds of a positive differ from the predicted ones, and the
# digits of the scores.
_SHAPES = {
    "calibrated": (1.0, 1.0, 9),
    "odds to the .6": (0.6, 0.7, 9),
    "odds to the 1.5, scores of one digit": (1.5, 1.5, 1),
}


def expectations(shape: str, shift: float, sizes: tuple[int, int], runs: int) -> list[Cell]:
    """How often the interval of an expected metric contains what it is with the labels.

    Args:
        shape: Of :data:`_SHAPES`.
        shift: Of the predictions' logits from those of the labelled events.
        sizes: The labelled events and the predictions.
        runs: Streams.
    """
    rng = _rng("expected", shape, shift, sizes)
    power, factor, digits = _SHAPES[shape]

    def draw(size: int, mean: float) -> tuple[np.ndarray, np.ndarray]:
        p = 1 / (1 + np.exp(-rng.normal(mean - 0.5, 1.5, size)))
        p = np.clip(p.round(digits), 0.001 if digits > 1 else 0.05, 0.999 if digits > 1 else 0.95)
        odds = (p / (1 - p)) ** power * factor
        return rng.random(size) < odds / (1 + odds), p

    hits, without = dict.fromkeys(_EXPECTED, 0), dict.fromkeys(_EXPECTED, 0)
    for _ in range(runs):
        labelled, predictions = se.ScoreIndex(), se.ScoreIndex()
        labelled.update_many(*draw(sizes[0], 0.0))
        truth, scores = draw(sizes[1], shift)
        predictions.update_many(np.zeros(len(scores), dtype=bool), scores)
        ev = se.Evaluator().update_many(truth, score=scores)
        for name in _EXPECTED:
            found = expected(name, predictions, labelled)
            if found.defined:
                hits[name] += found.low - 1e-12 <= ev[name] <= found.high + 1e-12
            else:
                without[name] += 1
    size = f"{sizes[0]:,} labelled, {sizes[1]:,} predicted"
    return [
        Cell(
            "Metrics before the labels: the later value is in the interval",
            f"{shape}, logits {shift:+g}",
            size,
            name,
            hits[name] / max(1, runs - without[name]),
            runs,
            without[name],
            0.92,
            0.98,
        )
        for name in _EXPECTED
    ]


_REFERENCES: Mapping[str, tuple[int, Callable[[int], range]]] = {
    "the four weeks before": (4, lambda week: range(week - 4, week)),
    "the first eight weeks": (8, lambda week: range(8)),
}
"""From which week on there is one, and its weeks; ``cbpe.py`` has the same."""


_THREE_ERRORS = 2 * _NORMAL.cdf(3) - 1
"""The level of NannyML's bands."""


def weeks() -> list[Cell]:
    """How often it holds for a week of the demonstration's flights, and the error of its value.

    Nothing is drawn: an online model predicted these flights, and the weather changes what a score
    means. Beside it: what NannyML estimates (``cbpe.py``).
    """
    columns: dict[int, tuple[list[bool], list[float]]] = {}
    with replay_flights().open(encoding="utf-8") as file:
        for line in file:
            flight = json.loads(line)
            day = date.fromisoformat(flight["departed"][:10])
            labels, scores = columns.setdefault((day - date(2013, 1, 1)).days // 7, ([], []))
            labels.append(flight["late"])
            scores.append(flight["score"])
    del columns[52]  # two days
    states = {
        week: se.Evaluator().update_many(labels, score=scores)
        for week, (labels, scores) in columns.items()
    }
    peer = json.loads((HERE / "cbpe.json").read_text("utf-8"))
    cells = []
    for reference, (first, of_week) in _REFERENCES.items():
        for name in ("accuracy", "f1", "roc_auc", "log_loss"):
            rows, theirs = [], []
            for week in range(first, len(columns)):
                truth = states[week][name]
                before = se.merge([states[one] for one in of_week(week)])
                now = se.Predictions().update_many(score=columns[week][1])
                held = []
                for level in (LEVEL, _THREE_ERRORS):
                    found = now.expected(name, before, level=level)
                    held.append(found.low <= truth <= found.high)
                rows.append((*held, abs(found.value - truth), abs(before[name] - truth)))
                if name in peer["metrics"]:
                    value, low, high = peer[reference][str(week)][name]
                    theirs.append((low <= truth <= high, abs(value - truth)))
            share, wide, error, constant = np.mean(rows, axis=0)
            beside = (
                f"mean error {error:.4f}, of the reference {constant:.4f}; at ±3 errors {wide:.3f}"
            )
            if theirs:
                wide, error = np.mean(theirs, axis=0)
                beside += (
                    f"; NannyML {peer['nannyml']}: mean error {error:.4f}; at ±3 errors {wide:.3f}"
                )
            cells.append(
                Cell(
                    "Metrics before the labels: a week of flights, by a real model",
                    f"labelled: {reference}",
                    f"{len(rows)} weeks of about 6,300",
                    name,
                    share,
                    len(rows),
                    0,
                    0.92,
                    0.98,
                    beside,
                )
            )
    return cells


def class_expectations(
    classes: int, power: float, scale: float, sizes: tuple[int, int], runs: int
) -> list[Cell]:
    """The same of several classes: losses, by the scores of every class.

    Args:
        classes: How many there are.
        power: That the odds of the labels are to those of the probabilities.
        scale: Of the predictions' logits to those of the labelled events.
        sizes: The labelled events and the predictions.
        runs: Streams.
    """
    rng = _rng("expected classes", classes, power, scale, sizes)
    names = ("log_loss", "brier_score")

    def draw(size: int, by: float) -> tuple[np.ndarray, np.ndarray]:
        odds = np.exp(by * rng.normal(0, 1.5, (size, classes)))
        p = odds / odds.sum(axis=1, keepdims=True)
        true = p**power / (p**power).sum(axis=1, keepdims=True)
        label = (rng.random((size, 1)) > true.cumsum(axis=1)).sum(axis=1)
        return np.minimum(label, classes - 1), p

    hits, noted = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for _ in range(runs):
        known, later, now = (
            kind("multiclass", labels=list(range(classes)))
            for kind in (se.Evaluator, se.Evaluator, se.Predictions)
        )
        label, p = draw(sizes[0], 1.0)
        known.update_many(label, proba=dict(enumerate(p.T)))
        label, p = draw(sizes[1], scale)
        later.update_many(label, proba=dict(enumerate(p.T)))
        now.update_many(proba=dict(enumerate(p.T)))
        for name in names:
            found = now.expected(name, known)
            noted[name] += bool(found.reason)
            hits[name] += found.low - 1e-12 <= later[name] <= found.high + 1e-12
    return [
        Cell(
            "Losses of several classes before the labels: the later value is in the interval",
            f"{classes} classes, odds to the {power:g}, logits times {scale:g}",
            f"{sizes[0]:,} labelled, {sizes[1]:,} predicted",
            name,
            hits[name] / runs,
            runs,
            0,
            0.92,
            1.0,  # no state has the rows: the chance of labels has an upper bound
            f"with a reason beside it {noted[name] / runs:.3f}",
        )
        for name in names
    ]


def checks(flipped: float, sizes: tuple[int, int], runs: int, panes: int = 20) -> list[Cell]:
    """How often a check of expected metrics is flagged, of panes whose labels are partly flipped.

    Args:
        flipped: The share of the labels; of 0 nothing has changed.
        sizes: The labelled events of the reference, and of each pane.
        runs: Streams.
        panes: Of each stream.
    """
    rng = _rng("checks", flipped, sizes)

    def draw(size: int, share: float) -> tuple[np.ndarray, np.ndarray]:
        p = 1 / (1 + np.exp(-rng.normal(-0.5, 1.5, size)))
        return (rng.random(size) < p) ^ (rng.random(size) < share), p

    names = ("f1", "roc_auc", "log_loss")
    hits = dict.fromkeys(names, 0)
    for _ in range(runs):
        label, score = draw(sizes[0], 0.0)
        known = se.Evaluator().update_many(label, score=score)
        ev = se.Evaluator(window=se.Panes(f"{panes}h", pane="1h"), time_unit="s")
        label, score = draw(panes * sizes[1], flipped)
        times = 1_700_002_800 + np.arange(len(label)) // sizes[1] * 3_600
        ev.update_many(label, score=score, event_time=times)
        for name in names:
            hits[name] += ev.check_expected(name, known).flagged
    return [
        Cell(
            "Metrics before the labels, checked: too many panes failed",
            f"{flipped:.0%} of the labels flipped" if flipped else "no change",
            f"{sizes[0]:,} labelled, {panes} panes of {sizes[1]:,}",
            name,
            hits[name] / runs,
            runs,
            0,
            # With no more labelled events than a pane has, how often a change is found is shown.
            0.95 if flipped and sizes[0] > sizes[1] else 0.0,
            1.0 if flipped else 0.05,
        )
        for name in names
    ]


# Events that are not independent ------------------------------------------------


def _users(users: int, each: int, runs: int) -> list[Cell]:
    """Users of whom some are easy and some hard; the population's accuracy is the users' mean."""
    rng = _rng("users", users, each)
    covered = wilson = 0
    for _ in range(runs):
        unit = np.repeat(np.arange(users), each)
        right = rng.random(len(unit)) < rng.beta(1.4, 0.6, users)[unit]
        y_true = rng.random(len(unit)) < 0.5
        ev = se.Evaluator(metrics=["accuracy"], bootstrap=se.Bootstrap(unit="user"))
        ev.update_many(y_true, y_true == right, unit=unit)
        low, high = _ends(ev.interval("accuracy", level=LEVEL))
        covered += low <= 0.7 <= high
        low, high = _ends(ev.interval("accuracy", level=LEVEL, method="wilson"))
        wilson += low <= 0.7 <= high
    return [
        Cell(
            "Events of one user are alike, bootstrap by user",
            f"{users} users",
            f"{each} events each",
            "accuracy",
            covered / runs,
            runs,
            0,
            0.92 if users < 100 else 0.93,
            0.97,
            f"Wilson {wilson / runs:.3f}",
        )
    ]


# Groups ------------------------------------------------------------------------


def _fairness(size: int, runs: int) -> list[Cell]:
    """What is wanted is the level or more: intervals of all pairs of groups hold at once."""
    found = []
    for population, rates in (
        ("two groups alike, .3", [0.3, 0.3]),
        ("two groups, .05 and .02", [0.05, 0.02]),
        ("two groups, .95 and .8", [0.95, 0.8]),
        ("three groups alike, .3", [0.3] * 3),
        ("ten groups, .3 to .1", [0.3, 0.3, 0.3, 0.3, 0.25, 0.25, 0.2, 0.2, 0.2, 0.1]),
    ):
        rng = _rng("fairness", population, size)
        truths = {"difference": max(rates) - min(rates), "ratio": min(rates) / max(rates)}
        hits, without = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
        for _ in range(runs):
            positive = rng.binomial(size, rates)
            ev = se.Evaluator(metrics=["positive_rate"], slices=["group"])
            ev.update_many(
                [0] * (2 * len(rates)),
                np.repeat([1, 0], len(rates)),
                weight=np.concatenate([positive, size - positive]),
                slices={"group": [*range(len(rates))] * 2},
            )
            for row in ev.fairness("group", [f"demographic_parity_{kind}" for kind in truths]):
                kind, ends = row.metric.rpartition("_")[2], row.interval
                without[kind] += not ends.defined
                hits[kind] += ends.low - 1e-12 <= truths[kind] <= ends.high + 1e-12
        found += [
            Cell(
                "Fairness between groups",
                population,
                f"{size:,} events each",
                f"demographic parity, {kind}",
                hits[kind] / max(1, runs - without[kind]),
                runs,
                without[kind],
                0.93,
                1.0,
            )
            for kind in truths
        ]
    return found


# Two models on the same events ------------------------------------------------


def _paired(
    rng: np.random.Generator, size: int, shifts: tuple[float, float], common: float = 0.7
) -> se.Comparison:
    """Two models whose scores have the correlation `common` in each class."""
    truth = rng.random(size) < 0.5
    shared = rng.standard_normal(size) * math.sqrt(common)
    comparison = se.Comparison(metrics=["roc_auc", "accuracy", "average_precision", "f1"])
    scores = {}
    for name, shift in zip(("champion", "challenger"), shifts, strict=True):
        own = rng.standard_normal(size) * math.sqrt(1 - common)
        # The threshold ½ is in the middle of the two classes.
        scores[name] = 0.5 + shared + own + shift * (truth - 0.5)
    comparison.update_many(truth, score=scores)
    return comparison


_ALPHA = 1 - LEVEL
_PAIRED = ("roc_auc", "accuracy", "average_precision", "f1")


def _tests(size: int, better: float, runs: int) -> list[Cell]:
    """How often a difference is found where there is none, and where there is one."""
    rng = _rng("paired", size, better)
    found = dict.fromkeys(_PAIRED, 0)
    without = dict.fromkeys(_PAIRED, 0)
    for _ in range(runs):
        comparison = _paired(rng, size, (_shift(0.8), _shift(0.8 + better)))
        for metric in _PAIRED:
            difference = comparison.difference(metric, level=LEVEL)
            if math.isnan(difference.p_value):
                without[metric] += 1
            else:
                found[metric] += difference.p_value <= _ALPHA
    cells = []
    for metric in _PAIRED:
        share = found[metric] / max(1, runs - without[metric])
        low, high = (0.0, _ALPHA) if not better else (0.0, 1.0)
        population = "AUC .8 twice" if not better else f"AUC .8 and {0.8 + better:g}"
        section = "Two models: a difference is found" + (" though there is none" * (not better))
        cells.append(
            Cell(
                section,
                population,
                f"n = {size:,}",
                metric,
                share,
                runs,
                without[metric],
                low,
                high,
            )
        )
    return cells


def _stopped(better: float, runs: int) -> list[Cell]:
    """A comparison looked at after every event until it is decided."""
    rng = _rng("stopped", better)
    decided = mcnemar = 0
    events = []
    for _ in range(runs):
        truth = rng.random(_LOOKS) < 0.5
        right = {
            "champion": rng.random(_LOOKS) < 0.75,
            "challenger": rng.random(_LOOKS) < 0.75 + better,
        }
        comparison = se.Comparison(metrics=["accuracy"])
        columns = [(truth == hits).tolist() for hits in right.values()]
        done = noticed = False
        for n, (y, a, b) in enumerate(zip(truth.tolist(), *columns, strict=True), 1):
            comparison.update(y, {"champion": a, "challenger": b})
            if a == b:
                continue
            if not done:
                test = comparison.difference("accuracy", level=LEVEL, method="anytime")
                done = test.low > 0 or test.high < 0
                if done:
                    events.append(n)
            if not noticed:
                noticed = comparison.difference("accuracy", level=LEVEL).p_value <= _ALPHA
            if done and (noticed or better):
                break
        decided += done
        mcnemar += noticed
    beside = f"McNemar {mcnemar / runs:.1%}"
    if better:
        beside = f"after {np.median(events):,.0f} events (median)" if events else ""
    return [
        Cell(
            "Two models, looked at after every event: decided"
            + (" though they are the same" * (not better)),
            "accuracy .75 twice" if not better else f"accuracy .75 and {0.75 + better:g}",
            f"{_LOOKS:,} looks",
            "accuracy, anytime",
            decided / runs,
            runs,
            0,
            0.0,
            _ALPHA if not better else 1.0,
            beside,
        )
    ]


def simulations(runs: int) -> Iterator[partial[list[Cell]]]:
    """Every simulation, the longest first."""
    looked = max(20, runs // 10)
    yield partial(_anytime_auc, looked)
    yield partial(_anytime_share, looked)
    yield partial(alerts, looked)
    for name in ("ks", "cramers_v"):
        # The bounded form is a check that the simulations run.
        yield partial(drifts, name, looked, _LOOKS if runs >= RUNS else 1_000)
    for better in (0.0, 0.05):
        yield partial(_stopped, better, looked)
        for size in (200, 1_000):
            yield partial(_tests, size, better, looked)
    for size in reversed(_SIZES):
        yield partial(_precisions, size, runs)
        yield partial(_losses, size, runs)
        yield partial(_numbers, size, runs)
        yield partial(_calibrations, size, looked)
        yield partial(_confusions, "Labels, two classes", "binary", size, runs)
        yield partial(_confusions, "Labels, several classes", "multiclass", size, runs)
    for shape in _SHAPES:
        for shift, sizes in (
            (0.0, (300, 300)),
            (1.0, (1_000, 1_000)),
            (-1.0, (1_000, 1_000)),
            (-1.0, (5_000, 1_000)),
            (1.0, (20_000, 5_000)),
        ):
            yield partial(expectations, shape, shift, sizes, looked)
    if runs >= RUNS:
        yield partial(weeks)
    for sizes in ((300, 1_000), (1_000, 1_000), (5_000, 500)):
        yield partial(checks, 0.0, sizes, looked)
    for labelled, panes in ((5_000, 10), (1_000, 10), (1_000, 20)):
        yield partial(checks, 0.1, (labelled, 1_000), looked, panes)
    for classes in (3, 10):
        for power in (1.0, 0.6, 1.5):
            for scale, sizes in ((1.0, (300, 300)), (1.33, (1_000, 1_000)), (1.33, (5_000, 2_000))):
                yield partial(class_expectations, classes, power, scale, sizes, looked)
    for size in (1_000, 200, 50):
        for common in (0.8, 0.0):
            yield partial(_label_sets, size, common, runs)
    for users, each in ((50, 20), (200, 5), (200, 50)):
        yield partial(_users, users, each, runs)
    for size in (1_000, 200, 50):
        yield partial(_fairness, size, runs)
    for positives, negatives in ((20, 20), (50, 50), (200, 200), (10, 100), (10, 1_000)):
        yield partial(_aucs, positives, negatives, runs)
    for size in (2_000, 500, 100):
        yield partial(_class_aucs, size, runs)


def _run(simulation: Callable[[], list[Cell]]) -> list[Cell]:
    return simulation()


def table(cells: Iterable[Cell], runs: int, kept: str = "") -> str:
    """The page, a section a table, with the other sections of a page that is kept."""
    sections: dict[str, list[Cell]] = {}
    for cell in cells:
        sections.setdefault(cell.section, []).append(cell)
    lines = [
        "# How often intervals contain the truth",
        "",
        f"Written by `make coverage`: {runs:,} streams a cell (a tenth where every event is looked "
        "at, of paired tests, of calibration errors and before the labels), 95 % intervals. Every "
        "cell that is simulated is shown. ✓: the share is as wanted; ≈: beyond it by at most two "
        f"standard errors of the simulation (for {runs:,} streams and a share of .93, "
        f"{math.sqrt(0.93 * 0.07 / runs):.4f} each); ✗: "
        "neither. *Without*: runs with no interval, which the evaluator says with a reason.",
    ]
    pages = {
        part.partition("\n")[0]: part.rstrip() for part in re.split("^## ", kept, flags=re.M)[1:]
    }
    for title, found in sections.items():
        beside = any(cell.beside for cell in found)
        head = ["population", "size", "what", "share", "wanted", "", "without"]
        rows = [title, "", "| " + " | ".join(head + ["beside it"] * beside) + " |"]
        rows.append("| " + " | ".join(["---"] * (len(head) + beside)) + " |")
        for cell in found:
            row = [
                cell.population,
                cell.size,
                cell.what,
                f"{cell.share:.3f}",
                f"{cell.low:g} to {cell.high:g}",
                cell.mark,
                f"{cell.without:,}" if cell.without else "",
            ]
            rows.append("| " + " | ".join(row + [cell.beside] * beside) + " |")
        pages[title] = "\n".join(rows)
    return "\n".join([*lines, *(f"\n## {pages[title]}" for title in sorted(pages))]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="streams a cell")
    parser.add_argument("--only", metavar="FUNCTION", help="such as weeks: only its sections")
    runs, only = (given := parser.parse_args()).runs, given.only
    chosen = [one for one in simulations(runs) if only in (None, one.func.__name__)]
    began = time.monotonic()
    with multiprocessing.Pool() as pool:
        found = [cell for cells in pool.imap(_run, chosen, chunksize=1) for cell in cells]
    page = HERE / ("coverage.md" if runs >= RUNS else "coverage-quick.md")
    kept = page.read_text("utf-8") if only and page.exists() else ""
    page.write_text(table(found, runs, kept), encoding="utf-8")
    missed = [cell for cell in found if cell.mark == "✗"]
    for cell in missed:
        print(
            f"not met: {cell.section}: {cell.population}, {cell.size}: {cell.what} {cell.share:.3f}"
        )
    seconds = time.monotonic() - began
    marks = ", ".join(f"{sum(cell.mark == mark for cell in found)} {mark}" for mark in "✓≈✗")
    print(f"{len(found)} cells ({marks}) in {seconds:.0f} s: {page.name}")


if __name__ == "__main__":
    main()
