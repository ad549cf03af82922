"""What a fading window answers: every kept event once more, in Python integers.

An event of epoch e weighs its whole units times 2^(e − oldest kept epoch). Nothing is kept
current, nothing is rounded before the one division.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from streameval.states.sums.fixed_point import UNIT
from streameval.states.sums.loss_terms import event_terms
from streameval.windows.fading import EPOCHS, units


@dataclass(frozen=True)
class Given:
    """One event with its moment in the window's own unit."""

    moment: int
    true: Any
    predicted: Any
    score: Any = None
    weight: int = 1


@dataclass
class Oracle:
    """The events of a fading window, whose half-life is ``span``."""

    span: int
    events: list[Given] = field(default_factory=list)
    latest: int | None = None

    def add(self, event: Given) -> None:
        """Keep an event, unless it has faded out already."""
        self.latest = event.moment if self.latest is None else max(event.moment, self.latest)
        if event.moment // self.span > self.latest // self.span - EPOCHS:
            self.events.append(event)

    def kept(self) -> list[tuple[Given, int]]:
        """The events that count, with their weight in units of the oldest kept epoch."""
        assert self.latest is not None
        oldest = self.latest // self.span - EPOCHS + 1
        weighed = []
        for event in self.events:
            epoch, phase = divmod(event.moment, self.span)
            if epoch >= oldest:
                weighed.append((event, event.weight * units(phase, self.span) << (epoch - oldest)))
        return weighed

    def values(self) -> dict[str, float]:
        """Metrics of binary events, nan where undefined."""
        kept = self.kept()
        cells = {(t, p): 0 for t in (0, 1) for p in (0, 1)}
        losses = briers = inside = outside = 0
        by_score: dict[float, list[int]] = {}
        for event, weight in kept:
            if event.predicted is not None:
                cells[int(event.true), int(event.predicted)] += weight
            if event.score is None:
                continue
            by_score.setdefault(event.score, [0, 0])[int(event.true)] += weight
            if 0 <= event.score <= 1:
                loss, brier = event_terms(bool(event.true), event.score)[:2]
                losses += weight * loss
                briers += weight * brier
                inside += weight
            else:
                outside += weight
        tp, fp, fn, tn = cells[1, 1], cells[0, 1], cells[1, 0], cells[0, 0]
        undefined = 0 if outside else inside
        return {
            "roc_auc": _area(by_score),
            "accuracy": _ratio(tp + tn, tp + fp + fn + tn),
            "precision": _ratio(tp, tp + fp),
            "recall": _ratio(tp, tp + fn),
            "f1": _ratio(2 * tp, 2 * tp + fp + fn),
            "log_loss": _ratio(losses, undefined * UNIT),
            "brier_score": _ratio(briers, undefined * UNIT),
        }

    def class_values(self) -> tuple[dict[str, float], dict[Any, float]]:
        """Losses of events of several classes, and the AUC of each class against the rest."""
        kept = [(event, weight) for event, weight in self.kept() if event.score is not None]
        terms = [(event_terms(e.true, e.score, e.predicted), weight) for e, weight in kept]
        under = UNIT * sum(weight for _, weight in kept)
        losses = {
            "log_loss": _ratio(sum(weight * term[0] for term, weight in terms), under),
            "brier_score": _ratio(sum(weight * term[1] for term, weight in terms), under),
        }
        areas = {}
        for label in {e.true for e, _ in kept} | {
            k for e, _ in kept for k in e.score if e.score[k]
        }:
            by_score: dict[float, list[int]] = {}
            for e, weight in kept:
                by_score.setdefault(e.score.get(label, 0.0), [0, 0])[e.true == label] += weight
            areas[label] = _area(by_score)
        return losses, areas


def _area(by_score: dict[float, list[int]]) -> float:
    """The AUC of scores with the weights of negatives and positives."""
    negatives = positives = wins = 0
    for score in sorted(by_score):
        n, p = by_score[score]
        wins += p * (2 * negatives + n)
        negatives, positives = negatives + n, positives + p
    return _ratio(wins, 2 * positives * negatives)


def _ratio(over: int, under: int) -> float:
    return over / under if under else math.nan
