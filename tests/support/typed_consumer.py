"""A program that uses what is public, as its author's type checkers see it; never run."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import timedelta

import numpy as np

import streameval as se


def monitored(stream: Iterable[tuple[str, float, str]]) -> dict[str, float]:
    ev = se.Evaluator("binary", positive="spam", window=se.Panes("1h"), slices=("country",))
    for truth, score, country in stream:
        ev.update(truth, score=score, slices={"country": country})
    for row in ev.series("f1", intervals=0.95):
        print(row.start, row.value, row.interval)
    report = ev.report(intervals=0.95)
    print(report, report["roc_auc"], [row.metric for row in report])
    return {name: float(value) for name, value in report.to_dict(flat=True).items()}


def windows() -> list[se.Evaluator]:
    return [
        se.Evaluator(window=window)
        for window in (se.Last(100), se.Panes(timedelta(hours=1)), se.Fading(50), "last:5", None)
    ]


def merged(shards: list[se.Evaluator]) -> se.Evaluator:
    total = functools.reduce(se.Evaluator.merge, shards, se.Evaluator())
    total.save("state.sev")
    return se.load("state.sev").reset().update(True, False).merge(se.from_bytes(total.to_bytes()))


def at_once() -> float:
    truth, score = np.array([1, 0, 1]), np.array([0.9, 0.2, 0.4])
    ev = se.evaluate(truth, score)
    for key, view in (
        se.evaluate(y_true=[1, 0], y_pred=[1, 1], by={"c": ["a", "b"]}).slices().items()
    ):
        print(key, view["accuracy"], view.interval("accuracy").low)
    curve = ev.curve("roc")
    cut = ev.thresholds("youden")
    comparison = se.Comparison(("old", "new")).update(1, {"old": 1, "new": 0})
    difference = comparison.difference("accuracy")
    print(curve.fpr[0], cut.threshold, difference.p_value, ev.confusion.total)
    return ev["roc_auc"] + ev.value("fbeta", beta=2)
