"""Keep-everything models of the windows: the literal list of events that count.

Each is written from the definition, and shares no code with what it checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import streameval as se
from streameval.windows import Fading, Last, Panes

SECOND = 1_000_000


@dataclass(frozen=True)
class Item:
    """One event as ``Evaluator.update`` takes it, with its time in seconds."""

    y_true: Any
    score: Any = None
    proba: Any = None
    y_pred: Any = None
    weight: int = 1
    time: int = 0
    slices: Any = None

    def arguments(self, *, timed: bool = False, sliced: bool = False) -> dict[str, Any]:
        given = {
            name: getattr(self, name)
            for name in ("y_pred", "score", "proba")
            if getattr(self, name) is not None
        }
        given |= {"y_true": self.y_true, "weight": self.weight}
        if timed:
            given["event_time"] = self.time
        if sliced:
            given["slices"] = self.slices
        return given


def columns(items: list[Item], *, timed: bool = False, sliced: bool = False) -> dict[str, Any]:
    """The items as ``Evaluator.update_many`` takes them."""
    rows = [item.arguments(timed=timed, sliced=sliced) for item in items]
    given = {name: [row[name] for row in rows] for name in rows[0]}
    if sliced:
        names = rows[0]["slices"]
        given["slices"] = {name: [row["slices"][name] for row in rows] for name in names}
    return given


@dataclass
class Model:
    """What a window of this specification should hold."""

    spec: Any
    items: list[Item] = field(default_factory=list)
    latest: int | None = None
    arrived: dict[str, int] = field(
        default_factory=lambda: {"on_time": 0, "late_kept": 0, "late_dropped": 0}
    )
    count: int = 0

    def admit(self, item: Item) -> bool:
        """Note an item's time: whether it counts."""
        if isinstance(self.spec, Panes):
            pane = self.spec.pane_us // SECOND
            end = (math.floor(item.time / pane) + 1) * pane
            before = self.latest
            self.latest = item.time if before is None else max(before, item.time)
            if before is None or end > before:
                self.arrived["on_time"] += 1
            elif end > before - self.spec.lateness_us // SECOND:
                self.arrived["late_kept"] += 1
            else:
                self.arrived["late_dropped"] += 1
                return False
        elif isinstance(self.spec, Fading):
            self.latest = item.time if self.latest is None else max(self.latest, item.time)
        return True

    def add(self, item: Item) -> bool:
        if isinstance(self.spec, Fading) and not self.spec.needs_time:
            item = Item(item.y_true, item.score, item.proba, item.y_pred, item.weight, self.count)
            self.count += 1
        if not self.admit(item):
            return False
        self.items.append(item)
        if isinstance(self.spec, Last):
            # What has left does not come back when another is taken out.
            del self.items[: -self.spec.n]
        return True

    def inside(self, items: list[Item] | None = None) -> list[tuple[Item, float]]:
        """The items that count, and what each weighs."""
        items = self.items if items is None else items
        if isinstance(self.spec, Last):
            return [(item, item.weight) for item in items]
        if self.latest is None:
            return []
        if isinstance(self.spec, Panes):
            pane = self.spec.pane_us // SECOND
            newest = math.floor(self.latest / pane)
            panes = self.spec.length_us // self.spec.pane_us
            return [
                (item, item.weight)
                for item in items
                if newest - panes < math.floor(item.time / pane) <= newest
            ]
        span = self.spec.span / (SECOND if self.spec.needs_time else 1)
        weights = [item.weight * 2.0 ** ((item.time - self.latest) / span) for item in items]
        return list(zip(items, weights, strict=True))


def plain(task: str, inside: Iterable[tuple[Item, float]], **options: Any) -> se.Evaluator:
    """An evaluator without a window, fed with the literal list."""
    ev = se.Evaluator(task=task, **options)
    for item, weight in inside:
        ev.update(**(item.arguments() | {"weight": weight}))
    return ev


def same(left: float, right: float, tolerance: float) -> bool:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return abs(left - right) <= tolerance * max(1.0, abs(right))


def binary_stream(n: int, seed: int, *, late: float = 0.2) -> list[Item]:
    """Ties, a rare class, some events hours late, a gap, weights of 1."""
    rng = np.random.default_rng(seed)
    true = rng.random(n) < np.where(np.arange(n) % 1000 < 150, 0.01, 0.25)
    score = np.clip(rng.normal(0.35 + 0.2 * true, 0.25), 0.0, 1.0).round(2)
    return [
        Item(bool(t), score=float(s), time=when)
        for t, s, when in zip(true, score, times(n, rng, late), strict=True)
    ]


def class_stream(n: int, seed: int, *, late: float = 0.2) -> list[Item]:
    """Three classes, one of them rare, tied probabilities."""
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "rare"])
    true = rng.choice(3, n, p=[0.6, 0.37, 0.03])
    share = rng.integers(1, 9, (n, 3)) + 6 * np.eye(3, dtype=int)[true] * (rng.random((n, 1)) < 0.6)
    proba = share / share.sum(axis=1, keepdims=True)
    return [
        Item(str(labels[t]), proba=dict(zip(labels.tolist(), p, strict=True)), time=when)
        for t, p, when in zip(true, proba.tolist(), times(n, rng, late), strict=True)
    ]


def times(n: int, rng: np.random.Generator, late: float) -> list[int]:
    """Seconds that advance by about 20 an event, with a gap, some of them late by up to an hour."""
    moments = 1_700_000_000 + np.cumsum(rng.integers(0, 40, n))
    moments[n // 2 :] += 9000
    delayed = rng.random(n) < late
    return (moments - delayed * rng.integers(0, 3600, n)).tolist()


def batches(items: list[Item], rng: np.random.Generator, most: int = 9) -> Iterator[list[Item]]:
    """The items in runs of random length."""
    start = 0
    while start < len(items):
        end = start + int(rng.integers(1, most))
        yield items[start:end]
        start = end
