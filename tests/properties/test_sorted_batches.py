"""A batch that compiled code sorts into sets counts the same, bit for bit, as in Python.

Python counts a batch with a column of weights, also of weights of 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.states.backend import compiled
from streameval.states.state_set import StateSet

START = 1_000_000_000
WINDOWS = (
    None,
    se.Panes("60s", "10s"),
    se.Panes("60s", "10s", "15s"),
    se.Panes("20s", "10s", "5s", "200s"),
    se.Panes("10s"),
)
DIMENSIONS: tuple[Any, ...] = ((), ("a",), ("a", "b"), ("b", ("a", "b")))
METRICS = (None, ("roc_auc",), ("accuracy",), ("accuracy", "roc_auc", "log_loss"))

scores = st.sampled_from((-1.5, 0.0, 0.25, 0.5, 0.75)) | st.floats(0, 1)
events = st.tuples(
    st.booleans(),
    st.booleans(),
    scores,
    st.integers(-40, 40),
    st.integers(0, 5),
    st.sampled_from(("x", "y", None)),
)
steps = st.fixed_dictionaries(
    {
        "events": st.lists(events, min_size=1, max_size=30),
        "copies": st.sampled_from((1, 1, 1, 40)),
        "by_time": st.booleans(),
        "given": st.sampled_from(("score", "score", "labels", "both")),
        "weight": st.sampled_from((None, None, None, 2, 0.5)),
        "to": st.sampled_from(("self", "self", "self", "delta", "part")),
        "reads": st.booleans(),
        "reverts": st.booleans(),
        "ahead": st.integers(0, 30),
    }
)


def made(window: Any, dimensions: Any, metrics: Any, max_slices: int) -> se.Evaluator:
    return se.Evaluator(
        window=window,
        slices=dimensions,
        metrics=metrics,
        max_slices=max_slices,
        time_unit=None if window is None else "s",
    )


def facts(ev: se.Evaluator) -> list[Any]:
    views = {(): ev.total, **ev.slices()}
    return [(key, repr(view.report())) for key, view in views.items()]


def count(ev: se.Evaluator, step: dict[str, Any], start: int, *, in_python: bool) -> None:
    rows = step["events"] * step["copies"]
    if step["by_time"]:
        rows = sorted(rows, key=lambda row: row[3])
    truth, labels, score, moment, a, b = zip(*rows, strict=True)
    given: dict[str, Any] = {"slices": {"a": list(a), "b": list(b)}}
    timed = ev.options["window"]["kind"] == "panes"
    if timed:
        given["event_time"] = start + np.array(moment)
    kind = step["given"] if ev.options["metrics"] is None else "both"
    if kind != "labels":
        given["score"] = np.array(score)
    if kind != "score":
        given["y_pred"] = np.array(labels)
    weight = step["weight"]
    if weight is not None or in_python:
        given["weight"] = np.full(len(rows), 1 if weight is None else weight)
    to = ev if step["to"] == "self" else ev.delta(newest=ev.newest)
    if step["to"] == "part" and ev.options["metrics"] is None:
        dimensions = ev._slicer.dimensions[:1]
        with to.counting_only(dimensions, labels=kind == "labels", scores=kind != "labels"):
            to.update_many(np.array(truth), **given)
    else:
        to.update_many(np.array(truth), **given)
    if to is not ev:
        ev.merge(to)
    elif step["reverts"] and weight != 0.5 and ev.has_whole_weights:
        last = {
            name: column[-1]
            for name, column in given.items()
            if name not in ("slices", "weight", "event_time")
        }
        if timed:
            last["event_time"] = int(given["event_time"][-1])
        try:
            ev.revert(truth[-1], weight=weight or 1, slices={"a": a[-1], "b": b[-1]}, **last)
        except se.InputError:
            assert timed  # it was late


@given(
    window=st.sampled_from(WINDOWS),
    dimensions=st.sampled_from(DIMENSIONS),
    metrics=st.sampled_from(METRICS),
    max_slices=st.sampled_from((3, 100)),
    stream=st.lists(steps, min_size=1, max_size=6),
)
def test_the_bytes_and_reads_are_those_of_python(window, dimensions, metrics, max_slices, stream):
    sorts = made(window, dimensions, metrics, max_slices)
    counts = made(window, dimensions, metrics, max_slices)
    start = START
    for step in stream:
        start += step["ahead"]
        count(sorts, step, start, in_python=False)
        count(counts, step, start, in_python=True)
        if step["reads"]:
            assert facts(sorts) == facts(counts)
        assert sorts.to_bytes() == counts.to_bytes()
        assert sorts.arrivals == counts.arrivals
    sorts._check()


def test_a_refused_batch_changes_nothing() -> None:
    ev = made(WINDOWS[1], ("a",), None, 100)
    ev.update_many([True], score=[0.5], event_time=[START], slices={"a": [1]})
    before, texts = ev.to_bytes(), set()
    given: Any = {"score": [0.5, 0.25], "event_time": [START, 10**15], "slices": {"a": [1, 2]}}
    for weight in (None, [1, 1]):
        with pytest.raises(se.InputError) as error:
            ev.update_many([True, False], **given, weight=weight)
        texts.add(str(error.value))
        assert ev.to_bytes() == before
    assert len(texts) == 1


@pytest.mark.parametrize("seconds", [-1_000_000_000, 0, START])
def test_panes_before_1970_too(seconds: int) -> None:
    ev, other = (made(WINDOWS[3], ("a",), None, 100) for _ in range(2))
    times = np.array([3, -5, 12, -20, 0, 9, 31]) + seconds
    for one, weight in ((ev, None), (other, np.ones(7, dtype=np.int64))):
        for order in (np.arange(7), np.argsort(times)):
            one.update_many(
                times % 2 == 0,
                score=np.arange(7) / 7,
                event_time=times[order],
                slices={"a": [1, 2, 1, 2, 1, 2, 1]},
                weight=weight,
            )
    assert ev.to_bytes() == other.to_bytes()


@pytest.mark.skipif(
    compiled("streameval.states.native.batch_partition") is None, reason="sorts in compiled code"
)
def test_a_pane_that_is_not_read_stays_bytes_until_more_events_follow() -> None:
    ev, other = (made(WINDOWS[1], ("a",), None, 100) for _ in range(2))
    # In the last pane and the next one: that of bytes, then that of states.
    for seconds, states, frozen in (
        ((0, 12), 0, 1),
        ((13, 25), 0, 2),
        ((26,), 1, 2),
        ((27, 38), 0, 3),
    ):
        for one in (ev, other):
            one.update_many(
                [second % 2 == 0 for second in seconds],
                score=[0.5, 0.25][: len(seconds)],
                event_time=[START + second for second in seconds],
                slices={"a": [1] * len(seconds)},
                weight=None if one is ev else [1] * len(seconds),
            )
        for window in (ev._windows.total, *ev._windows.slices.values()):
            kinds = [type(window.buckets._buckets[number]) for number in window.buckets]
            assert kinds[len(kinds) - states :] == [StateSet] * states
            assert {*kinds[: len(kinds) - states]} == {bytes}
        assert ev._windows.total.retained()["panes_frozen"] == frozen
    assert ev.to_bytes() == other.to_bytes()
    ev._check()


BITS = np.random.default_rng(7).integers(0, 2**52, 3000)


@pytest.mark.parametrize(
    "column",
    [
        np.random.default_rng(1).random(3000),
        np.random.default_rng(2).normal(size=3000) * 10.0 ** (BITS % 600 - 300),
        (BITS % 5).astype(np.float64) - 2,
        # Equal in all bits but the lowest, among others that are not.
        np.where(BITS % 3 > 0, 1 + (BITS % 1000) * 2.0**-52, -(BITS % 2**40) * 5e-324),
        np.random.default_rng(1).random(383),
    ],
)
def test_a_large_batch_is_sorted_by_score(column: Any) -> None:
    size = len(column)
    truth, codes, time = BITS[:size] % 7 < 3, BITS[:size] % 4, START + BITS[:size] % 20
    ev, other = (made(WINDOWS[1], ("a",), None, 100) for _ in range(2))
    for one, weight in ((ev, None), (other, np.ones(size, dtype=np.int64))):
        one.update_many(
            truth, score=column + 0.0, event_time=time, slices={"a": codes}, weight=weight
        )
    assert ev.to_bytes() == other.to_bytes()
    ev._check()
