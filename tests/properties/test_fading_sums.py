"""After any sequence of calls a fading window's answers are those of all its events anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from tests.support.fading_oracle import Given, Oracle

HOUR = 3600 * 10**6
START = 1_700_000_000 * 10**6
NAMES = ["roc_auc", "accuracy", "precision", "recall", "f1", "log_loss", "brier_score"]

SCORES = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.floats(0, 1), st.floats(0, 1), st.floats(-2, 2)
)


WEIGHTS = st.sampled_from([1, 1, 1, 2, 7, 2**20])
SHARES = st.lists(st.sampled_from([0, 0, 1, 2, 3, 5]), min_size=1, max_size=4).filter(any)


@st.composite
def events(draw: Any, moments: st.SearchStrategy[int]) -> Given:
    score = draw(st.one_of(st.none(), SCORES.map(lambda score: score + 0.0)))
    predicted = draw(st.booleans()) if score is None else score >= 0.5
    return Given(draw(moments), draw(st.booleans()), predicted, score, draw(WEIGHTS))


@st.composite
def class_events(draw: Any, moments: st.SearchStrategy[int]) -> Given:
    shares, labels = draw(SHARES), draw(st.permutations("abcde"))
    proba = {label: n / sum(shares) for label, n in zip(labels, shares, strict=False)}
    true, predicted = draw(st.sampled_from("abc")), draw(st.sampled_from("abcde"))
    return Given(draw(moments), true, predicted, proba, draw(WEIGHTS))


@st.composite
def timed_calls(draw: Any, events: Any = events) -> list[tuple[str, Any]]:
    """Calls of an evaluator: mostly in order, some late, some far ahead, some by columns."""
    calls: list[tuple[str, Any]] = []
    now = START
    for _ in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0, 1, HOUR // 7, HOUR, 5 * HOUR, 40 * HOUR]))
        late = st.sampled_from([now - d for d in (0, 0, 0, 1, HOUR // 3, 3 * HOUR, 70 * HOUR)])
        kind = draw(st.sampled_from(["one"] * 8 + ["many", "revert", "merge", "restore", "read"]))
        if kind == "one":
            calls.append((kind, draw(events(late))))
        elif kind in ("many", "merge"):
            calls.append((kind, draw(st.lists(events(late), min_size=1, max_size=5))))
        else:
            calls.append((kind, draw(st.integers(0, 100))))
    return calls


def check(ev: se.Evaluator, oracle: Oracle, names: list[str]) -> None:
    if oracle.latest is None:
        return
    expected = oracle.values()
    for name in names:
        try:
            value = ev[name]
        except se.MetricError:  # no event has a score yet
            value = math.nan
        assert repr(float(value)) == repr(float(expected[name])), name
        if not math.isnan(value):
            assert ev.value(name) == value
            assert ev.report([name]).rows[0].value == value


def follow(
    calls: list[tuple[str, Any]],
    opened: Callable[[], se.Evaluator],
    count: Callable[..., list[Given]],
    check: Callable[[se.Evaluator, Oracle], None],
    *,
    every: bool,
) -> None:
    """Make the calls of an evaluator and of the oracle; compare them each time, or at reads."""
    ev, oracle = opened(), Oracle(HOUR)
    for kind, what in calls:
        if kind in ("one", "many", "merge"):
            counting, some = opened() if kind == "merge" else ev, [what] if kind == "one" else what
            for event in count(counting, some, by_columns=kind == "many"):
                oracle.add(event)
            if kind == "merge":
                ev.merge(counting)
        elif kind == "revert":
            kept = oracle.kept() if oracle.events else []
            if kept:
                event = kept[what % len(kept)][0]
                count(ev, [event], revert=True)
                oracle.events.remove(event)
        elif kind == "restore":
            ev = se.from_bytes(ev.to_bytes())
        if every or kind == "read":
            check(ev, oracle)
    check(ev, oracle)
    ev._check()
    check(se.from_bytes(ev.to_bytes()), oracle)


@settings(max_examples=60)
@given(
    timed_calls(),
    st.sampled_from([["roc_auc"], ["accuracy", "f1"], ["log_loss"], None]),
    st.booleans(),
)
def test_the_answers_are_those_of_all_events_anew(
    calls: list[tuple[str, Any]], metrics: list[str] | None, every: bool
) -> None:
    def opened() -> se.Evaluator:
        return se.Evaluator(window=se.Fading("1h"), time_unit="us", metrics=metrics)

    def count(
        ev: se.Evaluator, events: list[Given], *, by_columns: bool = False, revert: bool = False
    ) -> list[Given]:
        """Those that were counted: columns, and metrics of scores, need scores."""
        scored = by_columns or metrics in (["roc_auc"], ["log_loss"])
        run = [event for event in events if event.score is not None or not scored]
        rows = [
            {
                "y_true": event.true,
                "y_pred": event.predicted if event.score is None else None,
                "score": event.score,
                "weight": event.weight,
                "event_time": event.moment,
            }
            for event in run
        ]
        if by_columns and run:
            names = rows[0].keys() - {"y_pred"}
            ev.update_many(**{name: [row[name] for row in rows] for name in names})
        for row in rows if not by_columns else ():
            (ev.revert if revert else ev.update)(**row)
        return run

    follow(
        calls, opened, count, lambda ev, oracle: check(ev, oracle, metrics or NAMES), every=every
    )


@settings(max_examples=60)
@given(timed_calls(class_events), st.booleans())
def test_the_answers_of_several_classes_are_those_of_all_events_anew(
    calls: list[tuple[str, Any]], every: bool
) -> None:
    def opened() -> se.Evaluator:
        return se.Evaluator(task="multiclass", window=se.Fading("1h"), time_unit="us")

    def count(
        ev: se.Evaluator, events: list[Given], *, by_columns: bool = False, revert: bool = False
    ) -> list[Given]:
        for event in events:
            given = {"proba": event.score, "weight": event.weight, "event_time": event.moment}
            (ev.revert if revert else ev.update)(event.true, event.predicted, **given)
        return events

    follow(calls, opened, count, check_classes, every=every)


def check_classes(ev: se.Evaluator, oracle: Oracle) -> None:
    if oracle.latest is None or not oracle.kept():
        return
    losses, areas = oracle.class_values()
    for name, expected in losses.items():
        assert repr(ev[name]) == repr(expected) == repr(ev.value(name)), name
    found = ev.value("roc_auc_ovr", average=None)
    assert {label: repr(one) for label, one in found.items()} == {
        label: repr(one) for label, one in areas.items()
    }
    defined = [one for one in areas.values() if not math.isnan(one)]
    mean = sum(defined) / len(defined) if defined else math.nan
    assert ev["roc_auc_ovr"] == pytest.approx(mean, abs=1e-15, nan_ok=True)
    assert repr(ev["roc_auc_ovr"]) == repr(ev.value("roc_auc_ovr"))


@st.composite
def plain_calls(draw: Any) -> list[Given]:
    """Events in order, most of them plain, at moments that pass from epoch to epoch."""
    moment, run = START, []
    for _ in range(draw(st.integers(1, 60))):
        moment += draw(st.sampled_from([0, 1, HOUR // 5, HOUR // 5, HOUR, 3 * HOUR, 66 * HOUR]))
        run.append(draw(events(st.just(moment))))
    return run


@settings(max_examples=40)
@given(
    plain_calls(), st.sampled_from([1, 2, 5, 40, "1h"]), st.integers(2, 30), *[st.booleans()] * 2
)
def test_plain_events_are_counted_as_all_others_are(
    run: list[Given], half_life: Any, stride: int, sliced: bool, portable: bool
) -> None:
    timed = isinstance(half_life, str)
    options: dict[str, Any] = {"window": se.Fading(half_life), "time_unit": "us"}
    options |= {"slices": ("part",)} if sliced else {}
    one = se.Evaluator(**options)
    compiled = mock.patch("streameval.windows.fading.compiled", return_value=None)
    with compiled if portable else nullcontext():
        other = se.Evaluator(**options)
    oracle = Oracle(HOUR if timed else half_life)
    for n, event in enumerate(run):
        where = {"slices": {"part": n % 3}} if sliced else {}
        if timed:
            where["event_time"] = event.moment
        score, weight = event.score, event.weight if n % 5 == 0 else 1
        given = {"score": score} if score is not None else {"y_pred": event.predicted}
        one.update(event.true, **given, weight=weight, **where)
        columns = {name: [value] for name, value in (given | where).items() if name != "slices"}
        columns |= {"slices": {"part": [n % 3]}} if sliced else {}
        other.update_many([event.true], **columns, weight=[weight])
        moment = event.moment if timed else n
        oracle.add(Given(moment, event.true, event.predicted, score, weight))
        if n % stride == 0:
            check(one, oracle, NAMES)
            for key, view in one.slices().items():
                for name in ("accuracy", "f1"):
                    assert repr(view[name]) == repr(other.slices()[key][name])
        if n % (3 * stride) == 0:
            check(other, oracle, NAMES)
    assert one.to_bytes() == other.to_bytes()
    assert one.arrivals == other.arrivals
    check(one, oracle, NAMES)
    one._check()
    other._check()
