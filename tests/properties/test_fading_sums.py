"""After any sequence of calls a fading window's answers are those of all its events anew."""

from __future__ import annotations

import math
from typing import Any

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


@st.composite
def events(draw: Any, moments: st.SearchStrategy[int]) -> Given:
    score = draw(st.one_of(st.none(), SCORES))
    true = draw(st.booleans())
    predicted = draw(st.booleans()) if score is None else score >= 0.5
    score = None if score is None else score + 0.0
    weight = draw(st.sampled_from([1, 1, 1, 2, 7, 2**20]))
    return Given(draw(moments), true, predicted, score, weight)


@st.composite
def timed_calls(draw: Any) -> list[tuple[str, Any]]:
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


def feed(ev: se.Evaluator, event: Given, *, timed: bool, revert: bool = False) -> None:
    call = ev.revert if revert else ev.update
    given = {"y_true": event.true, "score": event.score, "weight": event.weight}
    if event.score is None:
        given["y_pred"] = event.predicted
    call(**given, **({"event_time": event.moment} if timed else {}))


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


@settings(max_examples=60, deadline=None)
@given(
    timed_calls(), st.sampled_from([["roc_auc"], ["accuracy", "f1"], ["log_loss"], None]),
    st.booleans(),
)  # fmt: skip
def test_the_answers_are_those_of_all_events_anew(
    calls: list[tuple[str, Any]], metrics: list[str] | None, every: bool
) -> None:
    def opened() -> se.Evaluator:
        window = se.Fading("1h")
        return se.Evaluator(window=window, time_unit="us", metrics=metrics, slices=())

    names = metrics or NAMES
    ev, oracle = opened(), Oracle(HOUR)
    scored = metrics in (["roc_auc"], ["log_loss"])
    for kind, what in calls:
        if kind == "one" and (what.score is not None or not scored):
            feed(ev, what, timed=True)
            oracle.add(what)
        elif kind == "many":
            run = [event for event in what if event.score is not None]
            if run:
                ev.update_many(
                    [event.true for event in run],
                    score=[event.score for event in run],
                    weight=[event.weight for event in run],
                    event_time=[event.moment for event in run],
                )
                for event in run:
                    oracle.add(event)
        elif kind == "merge":
            shard = opened()
            run = [event for event in what if event.score is not None or not scored]
            for event in run:
                feed(shard, event, timed=True)
                oracle.add(event)
            ev.merge(shard)
        elif kind == "revert":
            kept = oracle.kept() if oracle.events else []
            if kept:
                event = kept[what % len(kept)][0]
                feed(ev, event, timed=True, revert=True)
                oracle.events.remove(event)
        elif kind == "restore":
            ev = se.from_bytes(ev.to_bytes())
        if every or kind == "read":
            check(ev, oracle, names)
    check(ev, oracle, names)
    ev._check()
    check(se.from_bytes(ev.to_bytes()), oracle, names)
