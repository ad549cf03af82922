"""Class scores under random calls of every kind, in step with lists of their events."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.events.values import Label
from streameval.metrics.multiclass import roc_auc_ovr
from streameval.states import class_scores
from streameval.states.class_scores import ClassScores
from streameval.tasks.multiclass import ClassInput

Event = tuple[Label, dict[Label, float], int]
LABELS: list[Label] = ["a", "b", "c", "d"]


def random_event(rng: random.Random, *, signed: bool) -> Event:
    if signed:
        scores = {label: rng.choice([-2.0, -0.5, 0.0, 0.0, 1.5, rng.random()]) for label in LABELS}
        return rng.choice(LABELS), scores, rng.choice([1, 1, 1, 2, 2**40])
    named = rng.sample(LABELS, rng.randint(1, 4)) if rng.random() < 0.4 else LABELS
    parts: list[float] = [rng.choice([0, 1, 1, 2, 3]) for _ in named]
    parts[rng.randrange(len(parts))] += 1
    if rng.random() < 0.5:
        parts = [part + rng.random() for part in parts]
    shares = {label: part / sum(parts) for label, part in zip(named, parts, strict=True)}
    return rng.choice(LABELS), shares, rng.choice([1, 1, 1, 1, 2, 2**40])


class Columns:
    """What class scores are by definition: counters of each column's scores by true class."""

    def __init__(self) -> None:
        self.counts = Counter[Label]()
        self.cells = Counter[tuple[Label, Label, float]]()

    def add(self, events: list[Event], sign: int = 1) -> None:
        for y, scores, weight in events:
            self.counts[y] += sign * weight
            for column, score in scores.items():
                if score:
                    self.cells[column, y, score] += sign * weight
        self.counts, self.cells = +self.counts, +self.cells

    def labels(self) -> list[Label]:
        return sorted({*self.counts, *(column for column, _, _ in self.cells)})

    def scores(self, column: Label, true: Label) -> list[tuple[float, int]]:
        held = [(s, w) for (c, y, s), w in self.cells.items() if (c, y) == (column, true)]
        return [*held, (0.0, self.counts[true] - sum(w for _, w in held))]

    def holds(self, event: Event) -> bool:
        """Whether each column has such a score, a 0 where the event names none."""
        y, scores, weight = event
        return self.counts[y] >= weight and all(
            dict(self.scores(column, y)).get(scores.get(column, 0.0), 0) >= weight
            for column in {*self.labels(), *(label for label, score in scores.items() if score)}
        )

    def hold_all(self, events: list[Event]) -> bool:
        """Whether each column has all scores of some events, zeros included."""
        some = Columns()
        some.add(events)
        return all(
            dict(self.scores(column, y)).get(score, 0) >= weight
            for column in {*self.labels(), *some.labels()}
            for y in some.counts
            for score, weight in some.scores(column, y)
        )

    def wins(self, column: Label, other: Label | None) -> int:
        """Twice the weight of the pairs that the column's class wins; a tie is one half."""
        rivals = self.counts.keys() - {column} if other is None else {other}
        return sum(
            w * v * (2 * (s > r) + (s == r))
            for y in rivals
            for s, w in self.scores(column, column)
            for r, v in self.scores(column, y)
        )


def batch_of(events: list[Event], *, signed: bool) -> Any:
    true = [event[0] for event in events]
    weight = [event[2] for event in events]
    rows = [event[1] for event in events]
    given = weight if set(weight) != {1} else None
    if signed:
        return ClassInput(LABELS, probabilities=False).batch(true, None, rows, None, given)
    columns = {label: [row.get(label, 0.0) for row in rows] for label in LABELS}
    return ClassInput().batch(true, None, None, columns, given)


def assert_holds(state: ClassScores, columns: Columns) -> None:
    labels = columns.labels()
    assert state.labels == labels
    form = state.to_state()
    assert form["labels"] == labels
    assert form["counts"] == [columns.counts[label] for label in labels]
    spans = zip(
        form["columns"].tolist(), form["true"].tolist(), form["lengths"].tolist(), strict=True
    )
    groups = [(labels[c], labels[y]) for c, y, length in spans for _ in range(length)]
    found = zip(groups, form["scores"].tolist(), form["weights"].tolist(), strict=True)
    listed = [((c, y, score), weight) for (c, y), score, weight in found]
    assert listed == sorted(columns.cells.items())


def assert_wins(state: ClassScores, columns: Columns, rng: random.Random) -> None:
    for column in rng.sample(LABELS, 2):
        assert state.one_vs_rest_wins(column) == columns.wins(column, None)
        other = rng.choice(LABELS)
        if rng.random() < 0.3 and other != column:
            assert state.pair_wins(column, other) == columns.wins(column, other)


def assert_mean(state: ClassScores, columns: Columns) -> None:
    """The mean at hand, if there is one, is the metric, which has the bits of a fresh state."""
    at_hand, value = state.mean_share(), roc_auc_ovr(state)
    counts, total = columns.counts, sum(columns.counts.values())
    aucs = [
        Fraction(columns.wins(label, None), 2 * counts[label] * (total - counts[label]))
        for label in counts
        if total > counts[label]
    ]
    if aucs:
        assert value == pytest.approx(float(sum(aucs) / len(aucs)), rel=1e-12)
        assert value == roc_auc_ovr(ClassScores.from_state(state.to_state()))
        assert at_hand in (value, pytest.approx(math.nan, nan_ok=True))


@pytest.fixture(autouse=True)
def small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few events and parts wait that each path is taken."""
    monkeypatch.setattr(class_scores, "_EVENTS_MOST", 7)
    monkeypatch.setattr(class_scores, "_PARTS_MOST", 5)
    monkeypatch.setattr(class_scores, "_CELLS_LEAST", 150)


@pytest.mark.parametrize("signed", [False, True])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_any_calls_leave_the_scores_of_the_events(signed: bool, seed: int) -> None:
    rng = random.Random(seed)
    state, columns = ClassScores(probabilities=not signed), Columns()
    events: list[Event] = []
    merged: list[tuple[ClassScores, list[Event]]] = []
    # Some sequences stay short, so that labels and scores often vanish.
    calls = ["update"] * 6 + ["revert"] * rng.choice([2, 6]) + ["swap"] * 3 + ["copy"]
    calls += rng.choice([[], ["batch", "merge", "subtract"]])
    for _ in range(40):
        call = rng.choice(calls)
        if call == "update":
            event = random_event(rng, signed=signed)
            state.check(*event)
            state.update(*event)
            columns.add([event])
            events.append(event)
        elif call in ("revert", "swap") and events:
            y, scores, weight = rng.choice([events[-1], rng.choice(events)])
            if call == "swap":
                # An event that was perhaps never counted, made of the scores of two.
                of_other = rng.choice(events)[1]
                scores = {label: rng.choice([scores, of_other]).get(label, 0.0) for label in LABELS}
                weight = rng.choice([weight, weight + 1])
            event = (y, dict(sorted(scores.items(), reverse=rng.random() < 0.5)), weight)
            if columns.holds(event):
                state.revert(*event)
                columns.add([event], -1)
            else:
                with pytest.raises(InputError, match="expected an event that was counted before"):
                    state.revert(*event)
        elif call in ("batch", "merge"):
            some = [random_event(rng, signed=signed) for _ in range(rng.randint(1, 12))]
            batch = batch_of(some, signed=signed)
            if call == "batch":
                state.check_many(batch)
                state.update_many(batch)
                events += some
            else:
                other = ClassScores(probabilities=not signed)
                other.update_many(batch)
                state.merge(other)
                merged.append((other, some))
            columns.add(some)
        elif call == "subtract" and merged:
            other, some = merged.pop()
            if columns.hold_all(some):
                state.merge(other, times=-1)
                columns.add(some, -1)
        elif call == "copy":
            state, left = state.copy(), state
            left.update(*random_event(rng, signed=signed))
            if events and columns.holds(events[-1]):
                left.revert(*events[-1])
        reading = rng.random()
        if reading < 0.3:
            assert_wins(state, columns, rng)
        elif reading < 0.4:
            assert state.labels == columns.labels()
        elif reading < 0.5:
            assert_holds(state, columns)
        elif reading < 0.6:
            assert_mean(state, columns)
    state._check()
    assert_holds(state, columns)
    assert_mean(state, columns)
    for column, rival in itertools.permutations(LABELS, 2):
        assert state.pair_wins(column, rival) == columns.wins(column, rival)
    state._check()
