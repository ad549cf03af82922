"""Weighted sums of states: the written form of several states' events, scaled.

A fading window keeps one state in whole units for each half-life, and a read adds them up,
each times ``factor / unit``. The sums are taken over the written forms, which are canonical:
the result depends on the events alone. Sums of whole weights are added as integers and
rounded once; weights at scores are rounded once for each part.

>>> from streameval.states.confusion import ConfusionCounts
>>> old, new = (ConfusionCounts.from_matrix([[n]], ["a"]) for n in (3, 4))
>>> form = confusion([(old.to_state(), 1), (new.to_state(), 2)], 4)
>>> ConfusionCounts.from_state(form).total
2.75
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.events.values import IntArray, Label, Weight
from streameval.states.ranking.coarse_score import coarse_column, least_level
from streameval.states.ranking.keyed_scores import KEY_SHIFT, LOW_KEY, Entries, KeyedScores
from streameval.states.ranking.score_groups import group_scores
from streameval.states.sums.sum_vector import Form, Parts, total_over


def confusion(parts: Parts, unit: int) -> Form:
    """The weighted sum of forms of ``ConfusionCounts``."""
    cells: dict[tuple[Label, Label], list[tuple[Weight, int]]] = {}
    for form, factor in parts:
        labels = form["labels"]
        # Weights are an array or, where they do not fit one, a list.
        weights = np.asarray(form["weight"]).tolist()
        for i, j, weight in zip(form["true"], form["predicted"], weights, strict=True):
            cells.setdefault((labels[i], labels[j]), []).append((weight, factor))
    names, places = _labels(parts)
    rows = sorted((places[i], places[j], total_over(cells[i, j], unit)) for i, j in cells)
    true, predicted, weights = zip(*rows, strict=True) if rows else ((), (), ())
    return {
        "labels": names,
        "closed": parts[0][0]["closed"],
        "true": np.array(true, dtype=np.int64),
        "predicted": np.array(predicted, dtype=np.int64),
        # Without a cell the dtype of the weights is int64, as in a state.
        "weight": np.array(weights, dtype=np.float64 if rows else np.int64),
    }


def _labels(parts: Parts) -> tuple[list[Label], dict[Label, int]]:
    """The labels of all forms, ascending, and the place of each."""
    names = sorted({label for form, _ in parts for label in form["labels"]})
    return names, {label: n for n, label in enumerate(names)}


def _entries(keys: IntArray, scores: Any, weights: Any, share: float) -> Entries:
    return Entries(keys, scores, weights.astype(np.float64) * share)


def _bounds(parts: Parts) -> Form:
    """The limit and the highest level of forms that have them; else nothing."""
    first = parts[0][0]
    if "max_scores" not in first:
        return {}
    return {"max_scores": first["max_scores"], "level": max(form["level"] for form, _ in parts)}


def _coarsened(entries: list[Entries], level: int) -> list[Entries]:
    return [part._replace(scores=coarse_column(part.scores, level)) for part in entries]


def index(parts: Parts, unit: int) -> Form:
    """The weighted sum of forms of ``ScoreIndex``."""
    entries, bounds = [], _bounds(parts)
    for form, factor in parts:
        for key, side in enumerate(("positives", "negatives")):
            keys = np.full(len(form["scores"]), key)
            entries.append(_entries(keys, form["scores"], form[side], factor / unit))
    if bounds:
        scores = np.concatenate([coarse_column(part.scores, bounds["level"]) for part in entries])
        bounds["level"] = least_level(np.unique(scores), bounds["level"], bounds["max_scores"])
        entries = _coarsened(entries, bounds["level"])
    sums = KeyedScores().absorbed(*entries)
    groups = group_scores([sums.arrays(0)], [sums.arrays(1)])
    return {"exact": False, **groups._asdict(), **bounds}


def class_scores(parts: Parts, unit: int) -> Form:
    """The weighted sum of forms of ``ClassScores``."""
    names, places = _labels(parts)
    counts: dict[Label, list[tuple[Weight, int]]] = {label: [] for label in names}
    entries: list[Entries] = []
    held: list[KeyedScores] = []
    for form, factor in parts:
        for label, weight in zip(form["labels"], form["counts"], strict=True):
            counts[label].append((weight, factor))
        codes = np.array([places[label] for label in form["labels"]], dtype=np.int64)
        keys = codes[form["columns"]] << KEY_SHIFT | codes[form["true"]]
        starts = np.append(0, np.cumsum(form["lengths"]))
        held.append(KeyedScores(keys, starts, form["scores"], form["weights"]))
        entries.append(
            _entries(held[-1].each_key(), form["scores"], form["weights"], factor / unit)
        )
    bounds = _bounds(parts)
    if bounds:
        sums = KeyedScores().absorbed(*entries)
        bounds["level"] = sums.least_level(bounds["level"], bounds["max_scores"])
        entries = _coarsened(entries, bounds["level"])
    every = np.unique(np.concatenate([multisets.keys for multisets in held]))
    for (form, factor), multisets in zip(parts, held, strict=True):
        # The zeros that a form implies: of floats, a multiset has its zeros itself.
        weights = np.zeros(len(names), form["weights"].dtype)
        weights[[places[label] for label in form["labels"]]] = form["counts"]
        zeros, among = weights[every & LOW_KEY], np.searchsorted(every, multisets.keys)
        zeros[among] = zeros[among] - multisets.totals if form["exact"] else 0.0
        entries.append(_entries(every, np.zeros(len(every)), zeros, factor / unit))
    sums = KeyedScores().absorbed(*entries)
    # Also of scores that are no probabilities.
    kind = {key: parts[0][0][key] for key in ("probabilities",) if key in parts[0][0]}
    return {
        **kind,
        "exact": False,
        "labels": names,
        "counts": [total_over(counts[label], unit) for label in names],
        "columns": sums.keys >> KEY_SHIFT,
        "true": sums.keys & LOW_KEY,
        "lengths": sums.lengths,
        "scores": sums.scores,
        "weights": sums.each(),
        **bounds,
    }
