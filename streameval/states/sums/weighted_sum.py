"""Weighted sums of states: the written form of several states' events, scaled.

A fading window keeps one state in whole units for each half-life, and a read
adds them up, each times ``factor / unit``. The sums are taken over the written
forms, which are canonical: the result depends on the events alone, not on their
order or on the shards that counted them.

Each function takes the forms that ``to_state`` of one kind of state gave, with
positive factors, in an order that follows from the events, and a positive
``unit``. It returns what ``from_state`` takes; its weights are floats. Cost:
O(content of all parts). Sums of whole weights are added as integers and rounded
once; weights at scores are rounded once for each part.

>>> from streameval.states.confusion import ConfusionCounts
>>> old, new = (ConfusionCounts.from_matrix([[n]], ["a"]) for n in (3, 4))
>>> form = confusion([(old.to_state(), 1), (new.to_state(), 2)], 4)
>>> ConfusionCounts.from_state(form).total
2.75
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streameval.events.values import FloatArray, Label, Weight
from streameval.states.ranking.coarse_score import coarse_column, least_level
from streameval.states.sums.fixed_point import total_weight
from streameval.states.sums.sum_vector import Form, Parts


class _Sum:
    """Σ weight · factor / unit, exactly while the weights are ints."""

    __slots__ = ("_floats", "_whole")

    def __init__(self) -> None:
        self._whole = 0
        self._floats = 0.0

    def add(self, weight: Weight, factor: int) -> None:
        if type(weight) is int:
            self._whole += weight * factor
        else:
            self._floats += weight * factor

    def over(self, unit: int) -> float:
        # Of two ints, the division is rounded once, whatever their size.
        return self._whole / unit + self._floats / unit


def confusion(parts: Parts, unit: int) -> Form:
    """The weighted sum of forms of ``ConfusionCounts``."""
    cells: dict[tuple[Label, Label], _Sum] = {}
    for form, factor in parts:
        labels, weights = form["labels"], form["weight"]
        if isinstance(weights, np.ndarray):
            weights = weights.tolist()
        for i, j, weight in zip(
            form["true"].tolist(), form["predicted"].tolist(), weights, strict=True
        ):
            key = (labels[i], labels[j])
            total = cells.get(key)
            if total is None:
                total = cells[key] = _Sum()
            total.add(weight, factor)
    names = sorted({label for form, _ in parts for label in form["labels"]})
    index = {label: n for n, label in enumerate(names)}
    rows = sorted((index[i], index[j], total.over(unit)) for (i, j), total in cells.items())
    return {
        "labels": names,
        "closed": parts[0][0]["closed"],
        "true": np.array([row[0] for row in rows], dtype=np.int64),
        "predicted": np.array([row[1] for row in rows], dtype=np.int64),
        # Without a cell the dtype of the weights is int64, as in a state.
        "weight": np.array([row[2] for row in rows], dtype=np.float64 if rows else np.int64),
    }


def _by_score(
    parts: Sequence[tuple[FloatArray, Sequence[Any], int]], unit: int, columns: int
) -> tuple[FloatArray, list[FloatArray]]:
    """Distinct scores, ascending, and the scaled sum of each column of weights."""
    scores = np.concatenate([part[0] for part in parts])
    distinct, groups = np.unique(scores, return_inverse=True)
    sums: list[FloatArray] = []
    for column in range(columns):
        scaled = [part[1][column].astype(np.float64) * (part[2] / unit) for part in parts]
        # bincount adds in the order of its input, which is that of the parts.
        total = np.bincount(groups, np.concatenate(scaled), len(distinct))
        # Of no scores it makes integers.
        sums.append(total.astype(np.float64))
    return distinct, sums


def _bounds(parts: Parts) -> Form:
    """The limit and the highest level of forms that have them; else nothing."""
    first = parts[0][0]
    if "max_scores" not in first:
        return {}
    return {"max_scores": first["max_scores"], "level": max(form["level"] for form, _ in parts)}


def _no_probabilities(parts: Parts) -> Form:
    """What forms of scores that are no probabilities have; else nothing."""
    key = "probabilities"
    return {key: False} if key in parts[0][0] else {}


def _level_of_all(multisets: Iterable[Sequence[tuple[FloatArray, Any, int]]], bounds: Form) -> int:
    """The least level at which the scores of each multiset are within the limit."""
    level: int = bounds["level"]
    for several in multisets:
        scores = np.unique(np.concatenate([scores for scores, _, _ in several]))
        level = least_level(np.unique(coarse_column(scores, level)), level, bounds["max_scores"])
    return level


def index(parts: Parts, unit: int) -> Form:
    """The weighted sum of forms of ``ScoreIndex``."""
    bounds, scored = _bounds(parts), [form["scores"] for form, _ in parts]
    if bounds:
        bounds["level"] = _level_of_all([[(scores, None, 1) for scores in scored]], bounds)
        scored = [coarse_column(scores, bounds["level"]) for scores in scored]
    scores, (positives, negatives) = _by_score(
        [
            (scores, (form["positives"], form["negatives"]), by)
            for scores, (form, by) in zip(scored, parts, strict=True)
        ],
        unit,
        2,
    )
    sums = {"scores": scores, "positives": positives, "negatives": negatives}
    return {"exact": False, **sums, **bounds}


def _add_zeros(
    multisets: dict[tuple[Label, Label], list[tuple[FloatArray, Sequence[Any], int]]],
    form: Form,
    factor: int,
) -> None:
    """Add the implied zeros of a form of ``ClassScores`` to the multisets of the sum."""
    labels = form["labels"]
    count = dict(zip(labels, form["counts"], strict=True))
    ends = np.append(0, np.cumsum(form["lengths"]))
    held: dict[tuple[Label, Label], Weight] = {}
    for column, true, start, end in zip(
        form["columns"].tolist(), form["true"].tolist(), ends[:-1], ends[1:], strict=True
    ):
        held[labels[column], labels[true]] = total_weight(form["weights"][start:end])
    for key, several in multisets.items():
        weight = count.get(key[1], 0)
        if key in held:
            weight = weight - held[key] if form["exact"] else 0
        if weight:
            several.append((np.zeros(1), (np.array([weight]),), factor))


def class_scores(parts: Parts, unit: int) -> Form:
    """The weighted sum of forms of ``ClassScores``."""
    counts: dict[Label, _Sum] = {}
    multisets: dict[tuple[Label, Label], list[tuple[FloatArray, Sequence[Any], int]]] = {}
    for form, factor in parts:
        labels = form["labels"]
        for label, weight in zip(labels, form["counts"], strict=True):
            counts.setdefault(label, _Sum()).add(weight, factor)
        start = 0
        for column, true, length in zip(
            form["columns"].tolist(), form["true"].tolist(), form["lengths"].tolist(), strict=True
        ):
            span = slice(start, start + length)
            multisets.setdefault((labels[column], labels[true]), []).append(
                (form["scores"][span], (form["weights"][span],), factor)
            )
            start += length
    for form, factor in parts:
        _add_zeros(multisets, form, factor)
    bounds = _bounds(parts)
    if bounds:
        scored = [[(s[s != 0.0], w, by) for s, w, by in several] for several in multisets.values()]
        bounds["level"] = _level_of_all(scored, bounds)
        for key, several in multisets.items():
            multisets[key] = [(coarse_column(s, bounds["level"]), w, by) for s, w, by in several]
    names = sorted(counts)
    index = {label: n for n, label in enumerate(names)}
    keys = sorted(multisets, key=lambda key: (index[key[0]], index[key[1]]))
    sums = [_by_score(multisets[key], unit, 1) for key in keys]
    return {
        **_no_probabilities(parts),
        "exact": False,
        "labels": names,
        "counts": [counts[label].over(unit) for label in names],
        "columns": np.array([index[key[0]] for key in keys], dtype=np.int64),
        "true": np.array([index[key[1]] for key in keys], dtype=np.int64),
        "lengths": np.array([len(scores) for scores, _ in sums], dtype=np.int64),
        "scores": np.concatenate([np.zeros(0), *(scores for scores, _ in sums)]),
        "weights": np.concatenate([np.zeros(0), *(weights for _, (weights,) in sums)]),
        **bounds,
    }
