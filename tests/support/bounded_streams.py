"""Streams that try to break certain bounds, and the check of every function that has bounds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from streameval.metrics.cut_points import CUT_POINTS
from streameval.metrics.registry import find
from streameval.states.class_scores import ClassScores
from streameval.states.ranking.coarse_score import LEAST_SCORES, MOST_LEVEL, coarse
from streameval.states.score_index import ScoreIndex
from streameval.uncertainty.bounds import BOUNDED, BOUNDED_CUTS, BoundedFunction, bounds_of

HUGE = 1.7976931348623157e308
POINTS = (0.0, 0.5, 1.0)
EDGES = (
    *POINTS,
    *(math.nextafter(point, to) for point in POINTS for to in (-2.0, 2.0)),
    0.5 + 2.0**-52,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    HUGE,
    -HUGE,
    -1.0,
    3.0,
)

Event = tuple[bool, float, Any]
"""Whether it is positive, score, weight."""


def _scores(rng: random.Random) -> Callable[[], float]:
    """A source of scores of one kind."""
    middle = rng.choice((0.1, 0.3, 0.7, 0.999, 5e-320, -40.0, 1e200))
    step = math.ulp(middle)
    return rng.choice(
        [
            rng.random,
            lambda: rng.choice(EDGES),
            lambda: rng.betavariate(0.05, 0.05),
            lambda: round(rng.random(), 2),
            lambda: middle + rng.randint(-40, 40) * step,
            lambda: 1.0 - rng.random() * 2.0 ** rng.randint(-53, -1),
            lambda: rng.choice((-1, 1)) * math.ldexp(rng.random(), rng.randint(-1074, 1000)),
            lambda: rng.gauss(0, 3),
        ]
    )


def stream(rng: random.Random, size: int) -> list[Event]:
    """Events whose scores are of one to three kinds, and whose classes depend on the score,
    alternate along the scores, or come in runs."""
    sources = [_scores(rng) for _ in range(rng.randint(1, 3))]
    scores = [rng.choice(sources)() + 0.0 for _ in range(size)]
    if rng.random() < 0.5:
        scores.sort()
    share, pattern = rng.choice((0.5, 0.3, 0.02)), rng.randrange(4)
    length = rng.randint(1, 5)
    positive = {
        0: lambda n: rng.random() < share,
        1: lambda n: n % 2 == 0,
        2: lambda n: n // length % 2 == 0,
        3: lambda n: (scores[n] > scores[size // 2]) is not (rng.random() < share),
    }[pattern]
    weight: Callable[[], Any] = rng.choice(
        [lambda: 1, lambda: 1, lambda: rng.randint(1, 9), lambda: rng.randint(1, 40) / 8]
    )
    return [(positive(n), score, weight()) for n, score in enumerate(scores)]


def counted(events: list[Event], **options: Any) -> ScoreIndex:
    """The index of some events."""
    index = ScoreIndex(**options)
    for positive, score, weight in events:
        index.update(positive, score, weight)
    return index


def indexes(rng: random.Random) -> tuple[ScoreIndex, ScoreIndex]:
    """The exact index of a stream, and its bounded one.

    Mostly a short stream at some level, which a longer one with the same cells would have.
    """
    if rng.random() < 0.02:
        events = stream(rng, rng.choice((1500, 3000)))
        return counted(events), counted(events, max_scores=LEAST_SCORES)
    events, level = stream(rng, rng.randint(1, 40)), rng.randint(1, MOST_LEVEL)
    cells = counted([(positive, coarse(s, level), weight) for positive, s, weight in events])
    form = {**cells.to_state(), "max_scores": LEAST_SCORES, "level": level}
    return counted(events), ScoreIndex.from_state(form)


def functions(rng: random.Random) -> Iterator[tuple[str, BoundedFunction, Callable[[Any], float]]]:
    """Every bounded function of an index, with parameters drawn."""
    share = rng.choice((rng.random(), 0.1, 0.5, 1.0))
    rate = rng.choice(("fpr", "tpr"))
    params: dict[str, dict[str, Any]] = {
        "partial_roc_auc": {
            f"min_{rate}": rng.choice((0, share / 2)),
            f"max_{rate}": max(share, 1e-6),
            "mcclish": rng.random() < 0.5,
        },
        "precision_at_recall": {"min_recall": share},
        "recall_at_precision": {"min_precision": share},
        "sensitivity_at_specificity": {"min_specificity": share},
        "specificity_at_sensitivity": {"min_sensitivity": share},
        "fbeta": {"beta": rng.choice((0, 0.1, 2, 3.7, math.inf))},
        "cost": {"c_fp": rng.choice((0, 1, 0.3)), "c_fn": rng.choice((1, 20, 1e9))},
        "precision_at_least": {"precision": share},
        "fpr_at_most": {"fpr": share},
    }
    for name, row in BOUNDED.items():
        if "binary" in find(name).tasks:
            yield name, row, find(name).bind(**params.get(name, {}))
    for name, row in BOUNDED_CUTS.items():
        rule, given = CUT_POINTS[name], params.get(name, {})
        yield name, row, lambda index, rule=rule, given=given: rule(index, **given).value


def escaped(seed: int) -> str:
    """Which value of a stream is outside its bounds; empty where none is."""
    rng = random.Random(seed)
    exact, bounded = indexes(rng)
    for name, row, compute in functions(rng):
        bounds, value = bounds_of(row, compute, bounded), compute(exact)
        inside = bounds.low <= value <= bounds.high
        if not inside and not math.isnan(value):
            return f"seed {seed}: {name} is {value!r}, its bounds {bounds!r}"
        middle = compute(bounded)
        if not (math.isnan(middle) or bounds.low <= middle <= bounds.high):
            return f"seed {seed}: {name} of the cells is {middle!r}, its bounds {bounds!r}"
    return ""


def attainable(events: list[Event], level: int) -> Iterator[list[Event]]:
    """Streams with the same cells: each cell's events in some order, at distinct scores.

    The extreme orders of every cell: positives above, negatives above.
    """
    cells: dict[float, list[Event]] = {}
    for event in events:
        cells.setdefault(coarse(event[1], level), []).append(event)
    for best in (True, False):
        other: list[Event] = []
        for cell, inside in cells.items():
            score = cell
            for positive, _, weight in sorted(inside, key=lambda event: event[0] is best):
                other.append((positive, score, weight))
                above = math.nextafter(score, math.inf) + 0.0
                if coarse(above, level) == cell:
                    score = above
        yield other


def class_scores(rng: random.Random) -> tuple[ClassScores, ClassScores]:
    """Exact and bounded probabilities of a few classes."""
    labels = "abcd"[: rng.randint(2, 4)]
    level = rng.randint(30, MOST_LEVEL)
    exact, cells = ClassScores(), ClassScores()
    for _ in range(rng.randint(1, 30)):
        true = rng.choice(labels)
        cuts = sorted(rng.random() ** rng.choice((1, 9)) for _ in labels[1:])
        proba = {
            label: high - low
            for label, (low, high) in zip(labels, pairwise([0.0, *cuts, 1.0]), strict=True)
        }
        exact.update(true, proba)
        cells.update(true, {label: coarse(score, level) for label, score in proba.items()})
    form = {**cells.to_state(), "max_scores": LEAST_SCORES, "level": level}
    return exact, ClassScores.from_state(form)


def class_scores_escaped(seed: int) -> str:
    """As :func:`escaped`, of the multi-class metrics."""
    exact, bounded = class_scores(random.Random(seed))
    for name, row in BOUNDED.items():
        if "multiclass" in find(name).tasks:
            compute = find(name, "multiclass").bind()
            bounds, value = bounds_of(row, compute, bounded), compute(exact)
            if not (bounds.low <= value <= bounds.high or np.isnan(value)):
                return f"seed {seed}: {name} is {value!r}, its bounds {bounds!r}"
    return ""
