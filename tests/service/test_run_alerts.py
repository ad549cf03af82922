"""Alerts: which state for which values, notified once, also across restarts."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import StateError
from streameval.service.alerts.inputs import AlertInput, AlertInputs
from streameval.service.alerts.rules import AlertBook, AlertChanges
from streameval.service.config.settings import (
    AlertSettings,
    DurationOrZero,
    RunSettings,
    WindowSettings,
)
from streameval.service.publish.snapshot import Report, Slice, Value
from tests.support.published_sample import published

SECOND = 1_000_000


def alert(**given: Any) -> AlertSettings:
    return AlertSettings(**{"name": "low", "metric": "f1", "below": 0.8} | given)


def book(*alerts: AlertSettings) -> AlertBook:
    return AlertBook(alerts or [alert()], "all")


def steps(kept: AlertBook, *values: float | Value | None, start: int = 0) -> list[str]:
    """The state after each value, a second apart; in capitals where that was told."""
    found = []
    for moment, value in enumerate(values, start):
        seen = value if isinstance(value, Value) else Value(value, 100)
        judgement = kept.judge({"low": AlertInput(seen)}, moment * SECOND)
        told = [transition.event for transition in judgement.transitions]
        found.append(told[0].upper() if told else judgement.states[0].state)
    return found


@pytest.mark.parametrize(
    ("given", "values", "states"),
    [
        ({}, [0.8, 0.9], ["ok", "ok"]),
        ({}, [0.7, 0.7, 0.8], ["FIRING", "firing", "RESOLVED"]),
        ({}, [0.7, 0.9, 0.7], ["FIRING", "RESOLVED", "FIRING"]),
        ({"below": None, "above": 0.2}, [0.2, 0.3, 0.1], ["ok", "FIRING", "RESOLVED"]),
        ({"below": None, "above": 0.2}, [math.inf], ["FIRING"]),
        (
            {"for_": DurationOrZero("2s")},
            [0.7, 0.7, 0.7, 0.9],
            ["pending", "pending", "FIRING", "RESOLVED"],
        ),
        (
            {"for_": DurationOrZero("2s")},
            [0.7, 0.7, 0.9, 0.7],
            ["pending", "pending", "ok", "pending"],
        ),
        # Having no value for a while starts the waiting anew, but ends no alert.
        (
            {"for_": DurationOrZero("2s")},
            [0.7, 0.7, None, 0.7],
            ["pending", "pending", "undefined", "pending"],
        ),
        ({}, [None, math.nan, 0.9, None], ["undefined", "undefined", "ok", "undefined"]),
        ({}, [0.7, None, math.nan, 0.7, 0.9], ["FIRING", *["firing"] * 3, "RESOLVED"]),
        (
            {"min_support": 10},
            [Value(0.1, 9), Value(0.1, 10), Value(0.9, 9), Value(0.9, 10)],
            ["undefined", "FIRING", "firing", "RESOLVED"],
        ),
    ],
)
def test_states(given: dict[str, Any], values: list[Any], states: list[str]) -> None:
    assert steps(book(alert(**given)), *values) == states


def test_what_readers_see() -> None:
    kept = book(alert(window="hour", slice={"country": "PT"}, min_support=10))
    kept.judge({"low": AlertInput(Value(0.9, 10))}, 5 * SECOND)
    judgement = kept.judge({"low": AlertInput(Value(0.75, 12))}, 7 * SECOND)
    state = judgement.states[0]
    assert {name: getattr(state, name) for name in state.__struct_fields__} == {
        "name": "low",
        "metric": "f1",
        "window": "hour",
        "slice": "country=PT",
        "state": "firing",
        "value": 0.75,
        "bound": "below 0.8",
        "below": 0.8,
        "above": None,
        "when": "value",
        "against": "",
        "model": "",
        "level": None,
        "low": None,
        "high": None,
        "method": "",
        "slices": [],
        "support": 12,
        "since": "1970-01-01T00:00:07Z",
        "reason": "",
    }
    (transition,) = judgement.transitions
    assert (transition.number, transition.at) == (1, "1970-01-01T00:00:07Z")
    assert transition.text == (
        "firing: low: f1 is 0.75 (below 0.8 fires) in window hour, country=PT, support 12"
    )
    (state,) = kept.judge({"low": AlertInput(Value(0.9, 3))}, 9 * SECOND).states
    assert (state.state, state.since) == ("firing", "1970-01-01T00:00:07Z")
    assert state.reason == "support 3, less than 10"
    (state,) = kept.judge({"low": AlertInput(Value(math.nan, 3, "no positive"))}, 9 * SECOND).states
    assert (state.value, state.reason) == (None, "no positive")
    (state,) = kept.judge({}, 9 * SECOND).states
    assert state.reason == "not computed"


def test_values_out_of_what_is_published() -> None:
    snapshot = msgspec.structs.replace(
        published(slices=0, join=False),
        windows=[],
        reports={
            "all": Report(task="binary", metrics={"f1": Value(0.5, 7)}),
            "hour": Report(task="binary", metrics={"f1": Value(None, 0, "no events")}),
        },
        slices={
            "all": [
                Slice({"c": "PT"}, "c=PT", 3, {"f1": None}, {"f1": "why"}, {}, {}, {}),
                Slice({"c": 7}, "c=7", 2, {"f1": 0.25}, {}, {}, {}, {}),
            ]
        },
    )
    alerts = [
        alert(name="total"),
        alert(name="hour", window="hour"),
        alert(name="slice", slice={"c": "PT"}),
        alert(name="no slice", slice={"c": "ES"}),
        alert(name="number", slice={"c": "7"}),
        alert(name="no window", window="day"),
        alert(name="no metric", metric="recall"),
        alert(name="no join", metric="label_coverage"),
    ]
    whole = RunSettings(alert=alerts, window=[WindowSettings(name="all")])
    found = AlertInputs(whole, {}, lambda: 0.0).observe(snapshot, 0)
    assert {name: seen.value for name, seen in found.items()} == {
        "total": Value(0.5, 7),
        "hour": Value(None, 0, "no events"),
        "slice": Value(None, 3, "why"),
        "no slice": Value(None, 0, "no event of this slice yet"),
        "number": Value(0.25, 2),
        "no window": Value(None, 0, "not published"),
        "no metric": Value(None, 0, "not published"),
        "no join": Value(None, 0, "not published"),
    }
    assert {s.state for s in book(*alerts).judge(found, 0).states} == {"firing", "undefined"}


def reopened(kept: AlertBook, *alerts: AlertSettings) -> AlertBook:
    again = book(*alerts)
    again.restore(json.loads(json.dumps(kept.to_state())))
    return again


def test_a_restart_neither_forgets_nor_tells_twice() -> None:
    kept = book()
    assert steps(kept, 0.7) == ["FIRING"]
    kept = reopened(kept)
    assert steps(kept, None, 0.7, 0.9, start=5) == ["firing", "firing", "RESOLVED"]
    assert kept.judge({"low": AlertInput(Value(0.7, 1))}, 0).transitions[0].number == 3


def test_a_changed_alert_starts_anew_and_a_longer_wait_does_not() -> None:
    kept = book()
    steps(kept, 0.7)
    assert steps(reopened(kept, alert(for_=DurationOrZero("1h"), min_support=5)), 0.7) == ["firing"]
    assert steps(reopened(kept, alert(below=0.75)), 0.7) == ["FIRING"]
    assert steps(reopened(kept, alert(window="hour")), 0.7) == ["FIRING"]


def test_a_clock_that_is_set_back_does_not_keep_an_alert_pending() -> None:
    kept = book(alert(for_=DurationOrZero("2s")))
    assert steps(kept, 0.7, start=1_000_000) == ["pending"]
    assert steps(kept, 0.7, 0.7, 0.7) == ["pending", "pending", "FIRING"]


def test_what_was_not_certainly_sent_is_kept() -> None:
    kept = book()
    steps(kept, 0.7, 0.9)
    assert [transition.event for transition in kept.unsent] == ["firing", "resolved"]
    kept.discard([1, 99])
    kept = reopened(kept)
    assert [transition.number for transition in kept.unsent] == [2]
    kept.discard([2])
    assert kept.unsent == []
    steps(kept, *[0.7, 0.9] * 600)
    assert len(kept.unsent) == 1000


def test_an_infinite_value_survives_a_restart() -> None:
    kept = book(alert(below=None, above=1.0))
    steps(kept, math.inf)
    (transition,) = reopened(kept, alert(below=None, above=1.0)).unsent
    assert "f1 is infinite (above 1 fires)" in transition.text


@pytest.mark.parametrize(
    "state", [None, {}, [], {"version": 2, "next": 1, "alerts": {}, "unsent": []}]
)
def test_a_state_that_is_none(state: object) -> None:
    with pytest.raises(StateError, match="alerts: expected their saved state"):
        book().restore(state)


VALUES = st.one_of(st.none(), st.sampled_from([0.5, 0.7, 0.79, 0.8, 0.9, math.nan]))


@settings(max_examples=200)
@given(
    st.lists(st.tuples(VALUES, st.sampled_from([0, 5, 100]), st.integers(0, 3)), max_size=20),
    st.sampled_from(["0s", "2s"]),
    st.sets(st.integers(0, 19)),
)
def test_restarts_change_nothing_and_tellings_alternate(
    values: list[tuple[float | None, int, int]], wait: str, restarts: set[int]
) -> None:
    watched = alert(for_=DurationOrZero(wait), min_support=5)
    plain, restarted = book(watched), book(watched)
    told: list[str] = []
    now = 0
    for n, (value, support, later) in enumerate(values):
        now += later * SECOND
        if n in restarts:
            restarted = reopened(restarted, watched)
        seen = {"low": AlertInput(Value(value, support))}
        judgement: AlertChanges = plain.judge(seen, now)
        assert restarted.judge(seen, now) == judgement
        told += [transition.event for transition in judgement.transitions]
        assert (judgement.states[0].state == "firing") == (bool(told) and told[-1] == "firing")
    assert told == ["firing", "resolved"] * (len(told) // 2) + ["firing"] * (len(told) % 2)
