"""The rules of the label join, literally: all records at once, id by id."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any, NamedTuple


class Prediction(NamedTuple):
    partition: str
    id: str
    time: int
    score: float
    inside: int | None = None
    """The label of a complete record."""


class Label(NamedTuple):
    partition: str
    id: str
    time: int
    y_true: int


def joined(
    predictions: list[Prediction], labels: list[Label], wait: int, remember: int
) -> tuple[Counter[Any], Counter[str]]:
    """What counts in the end, as (partition, label, time, score), and the counts.

    Predictions of an id are looked at in the order of their list, labels in that of theirs.
    """
    events: Counter[Any] = Counter()
    counts: Counter[str] = Counter()
    of_id: defaultdict[str, list[Prediction]] = defaultdict(list)
    for prediction in predictions:
        of_id[prediction.id].append(prediction)
    alone: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        counts["labels"] += 1
        alone[label.id].append(label)
    for key, mine in of_id.items():
        counts["predictions"] += 1
        counts["duplicate_predictions"] += len(mine) - 1
        first = mine[0]
        inside = [prediction.inside for prediction in mine if prediction.inside is not None]
        counts["labels"] += len(inside)
        taken: list[int] = []
        for label in alone.pop(key, []):
            gap = abs(label.time - first.time)
            if gap > wait + remember:
                counts["orphans"] += 1
            elif gap > wait and not inside and not taken:
                counts["too_late"] += 1
            else:
                taken.append(label.y_true)
        # Each label against the one before it; the first of those that came by
        # themselves against the first of those inside records.
        pairs = [*pairwise(inside), *pairwise(taken)]
        if inside and taken:
            pairs.append((inside[0], taken[0]))
        for before, after in pairs:
            counts["duplicate_labels" if before == after else "corrected"] += 1
        if inside or taken:
            counts["joined"] += 1
            newest = taken[-1] if taken else inside[-1]
            events[first.partition, newest, first.time, first.score] += 1
    counts["orphans"] += sum(map(len, alone.values()))
    return events, counts
