"""A refused event or batch changes no window, no slice, no timeline and no list of labels."""

from __future__ import annotations

from typing import Any

import pytest

import streameval as se

HEAVY = 2**53
HOUR = 3600
T0 = 1_700_002_800 // HOUR * HOUR
LIGHT = 1000
"""More than what is left of the room, see :func:`almost_full`."""

GIVEN: dict[str, dict[str, Any]] = {
    "binary": {"y_true": True, "score": 0.5},
    "multiclass": {"y_true": "a", "proba": {"a": 0.75, "b": 0.25}},
}
TASKS = pytest.mark.parametrize("task", ["binary", "multiclass"])
SLICED = pytest.mark.parametrize("sliced", [False, True], ids=["total", "sliced"])


def refused(ev: se.Evaluator, call: Any, given: dict[str, Any]) -> None:
    """The call is refused for want of room, and changes nothing."""
    before, labels = ev.to_bytes(), ev.labels
    with pytest.raises(se.InputError, match="at most"):
        call(**given)
    assert ev.to_bytes() == before
    assert ev.labels == labels
    ev._check()


def almost_full(task: str, **options: Any) -> se.Evaluator:
    """Two panes whose merge has room for less than :data:`LIGHT`; each has room for more."""
    window = se.Panes("4h", pane="1h", lateness="4h")
    ev = se.Evaluator(task, window=window, time_unit="s", **options)  # type: ignore[arg-type]
    given = GIVEN[task] | ({"slices": {"k": "x"}} if options else {})
    ev.update(**given, weight=HEAVY, event_time=T0)
    ev.update(**given, weight=HEAVY - 1, event_time=T0 + HOUR)
    for _ in range(8 if task == "binary" else 7):
        ev.merge(ev, allow_overlap=True)
    return ev


def columns(*events: dict[str, Any]) -> dict[str, Any]:
    named = {name: [event[name] for event in events] for name in events[0]}
    if "slices" in named:
        named["slices"] = {"k": [values["k"] for values in named["slices"]]}
    return named


@TASKS
@SLICED
@pytest.mark.parametrize("read", ["total", "slice"])
def test_a_pane_that_would_overflow_the_merge_of_panes_is_refused(
    task: str, sliced: bool, read: str
) -> None:
    ev = almost_full(task, **({"slices": ("k",)} if sliced else {}))
    event = GIVEN[task] | {"weight": LIGHT, "event_time": T0 + HOUR}
    late = event | {"event_time": T0 - HOUR}
    if sliced:
        event["slices"] = late["slices"] = {"k": "x"}
    view = next(iter(ev.slices().values())) if sliced and read == "slice" else ev
    view["accuracy"]  # a merge is made at the first read
    for one in (event, late):
        refused(ev, ev.update, one)
    light = event | {"weight": 1}
    refused(ev, ev.update_many, columns(light, event, late))
    # The first part of a batch has room, the second has not.
    refused(ev, ev.update_many, columns(late | {"weight": 1}, event))
    ev.update(**light)
    ev.update_many(**columns(light, late | {"weight": 1}))
    ev._check()


@TASKS
def test_a_slice_of_the_last_events_may_be_full_where_the_total_is_not(task: str) -> None:
    ev = se.Evaluator(task, window=se.Last(520), slices=("k",))  # type: ignore[arg-type]
    event = GIVEN[task] | {"weight": HEAVY, "slices": {"k": "x"}}
    # Their weights come next to 2**62 - 1, shared by two classes where there are several.
    ev.update_many(**columns(*[event] * (511 if task == "binary" else 255)))
    ev.update_many(**columns(*[event | {"weight": 1, "slices": {"k": "y"}}] * 520))
    refused(ev, ev.update, event)
    for count in (2, 6):
        refused(ev, ev.update_many, columns(*[event | {"slices": {"k": "y"}}, *[event] * count]))
    ev.update(**event | {"slices": {"k": "y"}})
    ev._check()


@TASKS
@SLICED
@pytest.mark.parametrize("half_life", ["300d", 2**40])
def test_a_full_half_life_refuses(task: str, sliced: bool, half_life: str | int) -> None:
    options: dict[str, Any] = {"slices": ("k",)} if sliced else {}
    window = se.Fading(half_life)
    ev = se.Evaluator(task, window=window, time_unit="s", **options)  # type: ignore[arg-type]
    event = GIVEN[task] | {"weight": 2**20}
    if window.needs_time:
        event["event_time"] = T0
    if sliced:
        event["slices"] = {"k": "x"}
    refused(ev, ev.update_many, columns(*[event] * 3000))
    ev.update_many(**columns(*[event] * (500 if task == "binary" else 200)))
    for _ in range(2000):
        before = ev.to_bytes()
        try:
            ev.update(**event)
        except se.InputError:
            assert ev.to_bytes() == before
            break
    else:
        raise AssertionError("never refused")
    refused(ev, ev.update_many, columns(event, event | {"weight": 1}))
    ev._check()
