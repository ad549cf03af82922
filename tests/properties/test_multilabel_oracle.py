"""Evaluators of label sets, in every form of input, against every event kept, in fractions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

import streameval as se
from tests.support.examples import number_of_examples
from tests.support.label_oracle import CLASS_METRICS, average_of, divide, mean

Event: TypeAlias = tuple[frozenset[Any], frozenset[Any], Any]
"""True labels, predicted labels and weight."""

_METRICS = {
    **CLASS_METRICS,
    "hamming_loss": lambda tp, fp, fn, tn: divide(fp + fn, tp + fp + fn + tn),
    "cohen_kappa": lambda tp, fp, fn, tn: divide(
        2 * (tp * tn - fp * fn), (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn)
    ),
}


def value(
    name: str, events: Sequence[Event], labels: Sequence[Any], undefined: float | None = None
) -> float:
    """The metric of these events, nan where it is undefined."""
    instead = None if undefined is None else Fraction(undefined)
    found = _value(name, [(t, p, Fraction(w)) for t, p, w in events if w], labels, instead)
    return math.nan if found is None else float(found)


def _value(name: str, events: list[Any], labels: Sequence[Any], undefined: Any) -> Any:
    if not events:
        return undefined
    if name in ("accuracy", "error_rate"):
        right = mean([(Fraction(true == predicted), w) for true, predicted, w in events])
        return right if name == "accuracy" else 1 - right
    family, _, average = name.rpartition("_") if name != "hamming_loss" else (name, "", "micro")
    if average == "samples":
        terms = []
        for t, p, w in events:
            four = len(t & p), len(p - t), len(t - p), len(labels) - len(t | p)
            found = _METRICS[family](*four)
            terms.append((undefined if found is None else found, w))
        return mean([term for term in terms if term[0] is not None], undefined)
    counts = {label: [Fraction(0)] * 4 for label in labels}
    for true, predicted, weight in events:
        for label in labels:
            place = {(1, 1): 0, (0, 1): 1, (1, 0): 2, (0, 0): 3}[label in true, label in predicted]
            counts[label][place] += weight
    return average_of(_METRICS[family], list(counts.values()), average, undefined)


LABELS = ("a", "b", "c", "d")
METRICS = [
    *("accuracy", "error_rate", "hamming_loss", "cohen_kappa_macro", "specificity_micro"),
    *("precision_macro", "precision_micro", "precision_weighted", "precision_samples"),
    *("recall_macro", "recall_samples", "jaccard_samples", "specificity_macro"),
    *("f1_macro", "f1_micro", "f1_weighted", "f1_samples"),
]
WINDOWS: dict[str, Any] = {"all": None, "last": se.Last(7), "panes": se.Panes("3h", "1h")}
START = 1_700_002_800 // 3600 * 3600


def one(rng: random.Random, labels: frozenset[str], closed: bool) -> Any:
    """The labels of an event, in one of the forms that are accepted."""
    forms: list[Any] = [set(labels), sorted(labels), tuple(labels), dict.fromkeys(labels, True)]
    if closed:
        flags = [label in labels for label in LABELS]
        forms += [np.array(flags), np.array(flags, dtype=float), list(map(int, flags))]
        forms.append({label: int(label in labels) for label in LABELS})
    return rng.choice(forms)


def many(rng: random.Random, sets: list[frozenset[str]], closed: bool) -> Any:
    """The labels of many events, in one of the forms that are accepted."""
    flags = np.array([[label in row for label in LABELS] for row in sets]).reshape(-1, 4)
    columns = {label: flags[:, n] for n, label in enumerate(LABELS)}
    forms: list[Any] = [[one(rng, row, closed) for row in sets], [sorted(row) for row in sets]]
    if closed:
        forms += [flags, flags.astype(int), flags.tolist(), columns]
        if scipy := pytest.importorskip("scipy.sparse"):
            forms.append(scipy.csc_matrix(flags.astype(np.int8)))
    return rng.choice(forms)


def drawn(rng: random.Random) -> frozenset[str]:
    return frozenset(rng.sample(LABELS, rng.choice((0, 1, 1, 2, 3))))


def held(window: str, events: list[Any]) -> list[Any]:
    """The events inside the window."""
    if window == "last":
        return events[-7:]
    if window == "panes" and events:
        newest = max(event[3] for event in events) // 3600
        return [event for event in events if event[3] // 3600 > newest - 3]
    return events


def walk(seed: int, steps: int, window: str, closed: bool, undefined: float | None) -> None:
    rng = random.Random(seed)
    options: dict[str, Any] = {"window": WINDOWS[window], "time_unit": "s", "undefined": undefined}
    if closed:
        options["labels"] = LABELS
    ev = se.Evaluator(task="multilabel", slices=["k"], **options)
    events: list[Any] = []
    clock = START
    for _ in range(steps):
        step = rng.choice(("one", "one", "batch", "revert", "copy", "read"))
        clock += rng.choice((0, 60, 1500))
        if step in ("one", "batch"):
            new = [
                (drawn(rng), drawn(rng), rng.choice((1, 1, 2, 5)), clock, rng.choice("xy"))
                for _ in range(1 if step == "one" else rng.randrange(5))
            ]
            if step == "one":
                true, predicted, weight, time, key = new[0]
                given = one(rng, true, closed), one(rng, predicted, closed)
                ev.update(*given, weight=weight, event_time=time, slices={"k": key})
            else:
                true, predicted, weights, times, keys = ([e[n] for e in new] for n in range(5))
                ev.update_many(
                    many(rng, true, closed),
                    many(rng, predicted, closed),
                    weight=weights,
                    event_time=times,
                    slices={"k": keys},
                )
            events += new
            events = held(window, events)
        elif step == "revert" and events:
            true, predicted, weight, time, key = event = rng.choice(events)
            given = one(rng, true, closed), one(rng, predicted, closed)
            ev.revert(*given, weight=weight, event_time=time, slices={"k": key})
            # The newest of equal ones.
            at = max(n for n, other in enumerate(events) if other == event)
            del events[at]
        elif step == "copy":
            ev = se.from_bytes(ev.to_bytes())
        ev._check()
        views: list[Any] = [(ev, events)]
        # A slice has a window of its own last events.
        for key, view in ev.slices().items() if window != "last" else ():
            views.append((view, [event for event in events if event[4] == dict(key)["k"]]))
        for view, inside in views:
            plain = [event[:3] for event in inside]
            labels = LABELS if closed else sorted(set().union(*[t | p for t, p, _ in plain]))
            for name in METRICS if step == "read" else METRICS[:1]:
                expected, got = value(name, plain, labels, undefined), view[name]
                assert got == pytest.approx(expected, abs=1e-12, nan_ok=True), (name, plain)


@pytest.mark.parametrize(
    ("window", "closed", "undefined"),
    [("all", True, None), ("all", False, 0.25), ("last", True, 0.25), ("panes", False, None)],
)
def test_every_walk(window: str, closed: bool, undefined: float | None) -> None:
    for seed in range(math.ceil(number_of_examples(100) / 20)):
        walk(seed, 40, window, closed, undefined)
