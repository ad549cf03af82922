"""The rules of the label join, literally: all records at once, id by id."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple


class Prediction(NamedTuple):
    partition: str
    id: str
    time: int
    score: float


class Label(NamedTuple):
    partition: str
    id: str
    time: int
    y_true: int


def joined(
    predictions: list[Prediction], labels: list[Label], wait: int, remember: int
) -> tuple[Counter[Any], Counter[str]]:
    """What counts in the end, as (partition, label, time, score), and the counts.

    Labels of an id are looked at in the order of the list.
    """
    events: Counter[Any] = Counter()
    counts: Counter[str] = Counter()
    first: dict[str, Prediction] = {}
    for prediction in predictions:
        if prediction.id in first:
            counts["duplicate_predictions"] += 1
        else:
            first[prediction.id] = prediction
            counts["predictions"] += 1
    of_id: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        of_id[label.id].append(label)
    for key, mine in of_id.items():
        found = first.get(key)
        if found is None:
            counts["alone"] += len(mine)
            counts["labels"] += len(mine)
            continue
        current: int | None = None
        for label in mine:
            gap = abs(label.time - found.time)
            counts["labels"] += 1
            if gap > wait + remember:
                counts["alone"] += 1
                continue
            if current is None:
                if gap > wait:
                    counts["too_late"] += 1
                else:
                    current = label.y_true
                    counts["joined"] += 1
            elif label.y_true == current:
                counts["duplicate_labels"] += 1
            else:
                current = label.y_true
                counts["corrected"] += 1
        if current is not None:
            events[found.partition, current, found.time, found.score] += 1
    return events, counts
