"""Regression: against River one event at a time, and scikit-learn on arrays."""

from __future__ import annotations

import numpy as np
from river import metrics as river_metrics
from sklearn import metrics as sklearn_metrics

import streameval as se
from benchmarks.timing import Part, Row, faster

FIVE = (
    "mean_absolute_error",
    "root_mean_squared_error",
    "r2",
    "mean_error",
    "explained_variance",
)


def parts(quick: bool) -> list[Part]:
    """What measures the rows."""
    return [lambda: each_event(50_000, 5), lambda: arrays(1_000_000 if quick else 10_000_000, 3)]


def each_event(events: int, repeats: int) -> Row:
    """MAE, RMSE and R² read after every event."""
    rng = np.random.default_rng(11)
    true = rng.normal(3, 2, events)
    pairs = list(zip(true.tolist(), (true + rng.normal(0, 1, events)).tolist(), strict=True))

    def ours() -> None:
        ev = se.Evaluator(task="regression", metrics=FIVE[:3])
        ev.update_many([1.0, 2.0], [1.5, 2.5])
        update = ev.update
        for y_true, y_pred in pairs:
            update(y_true, y_pred)
            ev["mean_absolute_error"]
            ev["root_mean_squared_error"]
            ev["r2"]

    def peer() -> None:
        three = [river_metrics.MAE(), river_metrics.RMSE(), river_metrics.R2()]
        for y_true, y_pred in pairs:
            for one in three:
                one.update(y_true, y_pred)
                one.get()

    return faster(
        "MAE, RMSE and R² after every event (wanted: 0.4 µs)",
        ours,
        peer,
        target=2,
        repeats=repeats,
        peer_name="River MAE, RMSE, R2",
        events=events,
        peer_exact="rounded at each event",
    )


def arrays(size: int, repeats: int) -> Row:
    """Five metrics of arrays."""
    rng = np.random.default_rng(12)
    true = rng.normal(3, 2, size)
    predicted = true + rng.normal(0, 1, size)

    def ours() -> None:
        ev = se.Evaluator(task="regression", metrics=FIVE).update_many(true, predicted)
        for name in FIVE:
            ev[name]

    def peer() -> None:
        sklearn_metrics.mean_absolute_error(true, predicted)
        sklearn_metrics.root_mean_squared_error(true, predicted)
        sklearn_metrics.r2_score(true, predicted)
        float(np.mean(true - predicted))
        sklearn_metrics.explained_variance_score(true, predicted)

    return faster(
        f"five metrics of {size:,} numbers",
        ours,
        peer,
        target=5,
        repeats=repeats,
        peer_name="scikit-learn, four functions, and numpy",
        peer_exact="rounded sums",
    )
