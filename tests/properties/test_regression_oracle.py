"""Metrics of predicted numbers: their definitions over all events, and scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.metrics.registry import task_metrics
from streameval.metrics.undefined import Undefined
from tests.support.examples import number_of_examples

ALL = [row.name for row in task_metrics("regression")]
Events = list[tuple[float, float, int]]


def root(value: Fraction) -> float:
    """To twenty digits more than a float has."""
    scale = 10**60
    return float(Fraction(math.isqrt(int(value * scale * scale)), scale))


def rounded(value: float | Fraction | None) -> float:
    """The float of a value; infinite beyond all floats, nan where it is undefined."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def literal(events: Events) -> dict[str, float]:
    """Every metric as it is defined, in fractions; nan where it is undefined."""
    if not events:
        return dict.fromkeys(ALL, math.nan)
    rows = [(Fraction(y), Fraction(p)) for y, p, w in events for _ in range(w)]
    n = len(rows)

    def mean(of: Callable[[Fraction, Fraction], Fraction]) -> Fraction:
        return sum((of(y, p) for y, p in rows), Fraction(0)) / n

    my, mp = mean(lambda y, p: y), mean(lambda y, p: p)
    vy, vp = mean(lambda y, p: (y - my) ** 2), mean(lambda y, p: (p - mp) ** 2)
    cov = mean(lambda y, p: (y - my) * (p - mp))
    square = mean(lambda y, p: (y - p) ** 2)
    residuals = sorted(y - p for y, p in rows)
    sizes = sorted(map(abs, residuals))
    tiny = Fraction(1, 2**52)
    found: dict[str, float | Fraction | None] = {
        "mean_error": mp - my,
        "mean_absolute_error": mean(lambda y, p: abs(y - p)),
        "mean_squared_error": square,
        "root_mean_squared_error": root(square),
        "r2": 1 - square / vy if vy else None,
        "explained_variance": 1 - (square - (my - mp) ** 2) / vy if vy else None,
        "pearson_r": (1 if cov > 0 else -1) * root(cov**2 / vy / vp) if vy and vp else None,
        "concordance_correlation": 2 * cov / (vy + vp + (my - mp) ** 2) if vy or vp else None,
        "mean_pinball_loss": mean(lambda y, p: abs(y - p)) / 2,
        "mean_absolute_percentage_error": mean(lambda y, p: abs(y - p) / max(abs(y), tiny)),
        "symmetric_mean_absolute_percentage_error": mean(
            lambda y, p: 2 * abs(y - p) / (abs(y) + abs(p)) if y or p else Fraction(0)
        ),
        "median_absolute_error": (sizes[(n - 1) // 2] + sizes[n // 2]) / 2,
        "max_error": sizes[-1],
        "residual_quantile": residuals[(n - 1) // 2],
    }
    if my == mp and not (vy or vp):
        found["concordance_correlation"] = None
    elif not (vy or vp):
        found["concordance_correlation"] = 0.0
    if all(y > -1 and p > -1 for y, p in rows):
        logs = [math.log1p(y) - math.log1p(p) for y, p in rows]
        found["mean_squared_log_error"] = math.fsum(x * x for x in logs) / n
        found["root_mean_squared_log_error"] = math.sqrt(math.fsum(x * x for x in logs) / n)
    return {name: rounded(found.get(name)) for name in ALL}


def agree(ev: se.Evaluator, events: Events) -> None:
    for name, wanted in literal(events).items():
        value = ev[name]
        if math.isnan(wanted):
            assert isinstance(value, Undefined), (name, value)
        else:
            within = 1e-9 if "log" in name else 1e-12
            assert value == pytest.approx(wanted, rel=within, abs=1e-15), (name, events)


NUMBERS = st.one_of(
    # The last two have other units than compiled code holds.
    st.sampled_from([0.0, 1.0, -1.0, 0.1, 2.5, -0.75, 1e-300, 2.0**31]),
    st.floats(-10.0, 10.0, width=32),
    st.floats(-0.9, 1e6),
    st.floats(-1e15, 1e15),
).map(lambda x: x + 0.0)
EVENT = st.tuples(NUMBERS, NUMBERS, st.integers(1, 3))
WINDOWS: list[Any] = [None, se.Last(5)]
STEPS = st.lists(
    st.one_of(
        EVENT.map(lambda event: ("update", event)),
        st.lists(EVENT, max_size=6).map(lambda events: ("batch", events)),
        st.integers(0, 100).map(lambda at: ("revert", at)),
        st.lists(EVENT, max_size=4).map(lambda events: ("merge", events)),
        st.just(("file", None)),
        st.just(("read", None)),
    ),
    max_size=12,
)


def opened(window: Any = None) -> se.Evaluator:
    return se.Evaluator(task="regression", metrics=ALL, window=window)


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@settings(max_examples=number_of_examples(150))
@given(steps=STEPS)
# A number of another unit in a batch, after a read: compiled code leaves it to Python.
@example([("update", (0.0, 0.0, 1)), ("read", None), ("batch", [(0.0, 0.0, 1), (1.0, 1e-300, 1)])])
def test_the_model_that_keeps_every_event(window: Any, steps: list[tuple[str, Any]]) -> None:
    ev, held = opened(window), []
    for step, given_ in steps:
        if step == "update":
            ev.update(*given_[:2], weight=given_[2])
            held.append(given_)
        elif step == "batch":
            true, predicted, weights = ([row[n] for row in given_] for n in range(3))
            ev.update_many(true, predicted, weight=weights)
            held += given_
        elif step == "revert" and held:
            event = held.pop(given_ % len(held))
            ev.revert(*event[:2], weight=event[2])
        elif step == "merge" and window is None:
            other = opened()
            for event in given_:
                other.update(*event[:2], weight=event[2])
            ev.merge(other)
            held += given_
        elif step == "file":
            ev = se.from_bytes(ev.to_bytes())
        elif step == "read":
            agree(ev, held)
        if window is not None:
            held = held[-window.n :]
    agree(ev, held)
    ev._check()
    if window is None:
        again = opened()
        for event in held:
            again.update(*event[:2], weight=event[2])
        assert again.to_bytes() == ev.to_bytes()


@pytest.mark.parametrize(("n", "weights"), [(2, "fractions"), (9, "whole"), (1000, None)])
def test_scikit_learn(n: int, weights: str | None) -> None:
    rng = np.random.default_rng(n)
    true = rng.gamma(2.0, 3.0, n)
    predicted = np.abs(true + rng.normal(size=n))
    by = {None: None, "whole": rng.integers(1, 5, n), "fractions": rng.random(n)}[weights]
    ev = opened().update_many(true, predicted, weight=by)
    peers = {name: getattr(sk, name, getattr(sk, f"{name}_score", None)) for name in ALL}
    assert ev["max_error"] == peers.pop("max_error")(true, predicted)  # type: ignore[misc]
    assert sum(map(callable, peers.values())) == 10
    for name, function in peers.items():
        if function:
            wanted = function(true, predicted, sample_weight=by)
            assert ev[name] == pytest.approx(wanted, rel=1e-12, abs=1e-12), name
    for alpha in (0.0, 0.1, 0.8, 1.0):
        wanted = sk.mean_pinball_loss(true, predicted, alpha=alpha, sample_weight=by)
        assert ev.value("mean_pinball_loss", alpha=alpha) == pytest.approx(wanted, abs=1e-12)


def test_numbers_near_the_largest_float() -> None:
    ev = se.Evaluator(task="regression", metrics=[*ALL])
    ev.update_many([1e308, -8e307, 0.0], [0.9e308, -7e307, 1e-320])
    assert ev["mean_squared_error"] == math.inf
    assert ev["root_mean_squared_error"] == pytest.approx(1e307 * math.sqrt(2 / 3), rel=1e-15)
    assert ev["mean_absolute_error"] == pytest.approx(2e307 / 3, rel=1e-15)
    assert 0.98 < ev["r2"] < 1
    assert 0.98 < ev["pearson_r"] <= 1
    far = se.Evaluator(task="regression").update(1e-10, 1e308)
    assert far["mean_absolute_percentage_error"] == math.inf
    far.revert(1e-10, 1e308)
    far.update(2.0, 1.0)
    assert far["mean_absolute_percentage_error"] == 0.5
    symmetric = "symmetric_mean_absolute_percentage_error"
    whole = se.Evaluator(task="regression", metrics=[symmetric]).update(1e308, 0.9e308)
    assert whole[symmetric] == pytest.approx(2 / 19)


def test_a_number_that_was_never_counted_is_not_taken_back() -> None:
    ev = opened().update_many([1.0, 2.0], [1.5, 2.0])
    before = ev.to_bytes()
    for event in ((1.0, 7.0), (100.0, 100.25), (2.0, 1.75)):
        with pytest.raises(InputError, match="y_pred: expected an event that was counted before"):
            ev.revert(*event)
    assert ev.to_bytes() == before
