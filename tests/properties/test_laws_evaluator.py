"""State sets and evaluators keep the laws of the states."""

from __future__ import annotations

import enum
import inspect
import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.evaluator.evaluator import Evaluator
from streameval.states.state_set import StatePlan, StateSet
from tests.support.laws import (
    StateSpec,
    assert_near,
    assert_same,
    check_law,
    columns,
    law_cases,
)

LABELS = ["ham", "spam"]
SCORES = st.sampled_from([0.0, 0.25, 0.5, 0.5000001, 0.75, 1.0, -3.5, 2.0])
WEIGHTS = st.sampled_from([1, 1, 1, 2, 7])
SHARES = st.sampled_from(
    [{"a": 1.0}, {"a": 0.5, "b": 0.5}, {"b": 0.25, "c": 0.75}, {"a": 0.2, "b": 0.3, "c": 0.5}]
)
READ = {
    "binary": ("accuracy", "f1", "matthews_corrcoef", "roc_auc", "log_loss", "binormal_auc"),
    "multiclass": ("accuracy", "f1_macro", "cohen_kappa", "roc_auc_ovr", "roc_auc_micro"),
}

OF_DECLARED = ("recall_macro", "specificity_macro", "cohen_kappa_linear")
LABEL_FREE = ("support", "positive_rate", "mean_score", "median_score")


def call(method: str, names: tuple[str, ...], ev: Evaluator, event: tuple[Any, ...]) -> None:
    getattr(ev, method)(**dict(zip(names, event, strict=True)))


def many(names: tuple[str, ...], ev: Evaluator, events: list[tuple[Any, ...]]) -> None:
    rows = dict(zip(names, columns(events, len(names)), strict=True))
    if "slices" in rows:
        rows["slices"] = {"country": [values["country"] for values in rows["slices"]]}
    ev.update_many(**rows)


def values(metrics: tuple[str, ...], evaluator: Evaluator) -> list[float | None]:
    # nan is not equal to itself; None is.
    found = [float(evaluator.value(name)) for name in metrics]
    return [None if math.isnan(value) else value for value in found]


def spec(
    name: str,
    options: dict[str, Any],
    fields: dict[str, st.SearchStrategy[Any]],
    metrics: tuple[str, ...] = (),
    **more: Any,
) -> StateSpec:
    names = tuple(fields)
    timed: dict[str, Any] = {"same": same_events} if "event_time" in fields else {}
    return StateSpec(
        name=name,
        empty=partial(more.pop("kind", Evaluator), **options),
        events=st.tuples(*fields.values()),
        update=partial(call, "update", names),
        update_many=partial(many, names),
        revert=more.pop("revert", partial(call, "revert", names)),
        read=partial(values, metrics or READ[options.get("task", "binary")]),
        max_events=6,
        **timed,
        **more,
    )


def same_events(left: Any, right: Any) -> None:
    """As assert_same, but for how many events were late, which depends on the shard."""
    if isinstance(left, dict):
        left, right = (
            {name: form[name] for name in ("window", "slices")} for form in (left, right)
        )
    assert_same(left, right)


# What evaluators are made of, and what events have.
SPAM: dict[str, Any] = {"positive": "spam", "labels": LABELS}
SEVERAL: dict[str, Any] = {"task": "multiclass"}
DECLARED = {**SEVERAL, "labels": ["d", "b", "e", "a", "c"], "undefined": 0.5}
KEPT, SLICED = {"intervals": True}, {"slices": ("country",)}
PANES = {"window": se.Panes("1h", "10m", "6h", retain="8h"), "time_unit": "s"}
LATE = {"window": se.Panes("2h", lateness="6h"), "time_unit": "s"}
MINUTES, DAYS = ({"window": se.Fading(span), "time_unit": "s"} for span in ("15m", "7d"))
BINARY = {"y_true": st.sampled_from([True, False]), "score": SCORES, "weight": WEIGHTS}
CLASSES = {"y_true": st.sampled_from("abc"), "proba": SHARES}
NAMED = {"y_true": st.sampled_from("abcd"), "y_pred": st.sampled_from("abcd")}
OF_TWO = {"y_pred": st.sampled_from(LABELS), "score": SCORES}
SLICES = {"slices": st.sampled_from([{"country": "PT"}, {"country": "DE"}])}
TIMES = {"event_time": st.integers(1_700_000_000, 1_700_020_000)}
WEIGHED, FLOATS = {"weight": WEIGHTS}, {"weight": st.sampled_from([1, 0.5, 1.5, 0.1])}
LISTED = {"revert": "an empty slice is still listed"}
STAY = {"revert": "panes stay, and the watermark"}
NEWEST = {"revert": "the newest time stays"}
NEARLY: dict[str, Any] = {"same": assert_near, "revert": None}
PREDICTED: dict[str, Any] = {"kind": se.Predictions}

SPECS = [
    StateSpec(
        name="tally",
        empty=partial(StateSet, StatePlan.everything("binary")),
        events=st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1]), SCORES, WEIGHTS),
        update_many=lambda state_set, events: [state_set.update(*event) for event in events],
        read=lambda state_set: (state_set.index.twice_u, state_set.probability.log_loss_units),
        from_state=partial(StateSet.from_state, plan=StatePlan.everything("binary")),
        pickled=False,
    ),
    spec("binary labels and scores", SPAM, {"y_true": st.sampled_from(LABELS)} | OF_TWO),
    spec("binary with intervals", KEPT, BINARY),
    spec("multi-class probabilities with intervals", SEVERAL | KEPT, CLASSES | WEIGHED),
    spec("multi-class labels", SEVERAL, NAMED, READ["multiclass"][:3]),
    spec("declared labels", DECLARED, NAMED, OF_DECLARED),
    spec("slices", SLICED, BINARY | SLICES, excused=LISTED),
    # Nothing is so late that it is dropped, in the whole or in a shard.
    spec("panes", PANES, BINARY | TIMES, excused=STAY),
    spec(
        "panes of several classes in slices",
        *(LATE | SEVERAL | SLICED, CLASSES | SLICES | TIMES),
        excused=LISTED,
    ),
    spec("fading in slices", MINUTES | SLICED, BINARY | SLICES | TIMES, excused=LISTED),
    spec("fading of several classes", DAYS | SEVERAL, CLASSES | TIMES, excused=NEWEST),
    spec("predictions", {}, {"score": SCORES} | WEIGHED, LABEL_FREE, **PREDICTED),
    spec("predictions of two labels", SPAM | KEPT, OF_TWO | WEIGHED, LABEL_FREE, **PREDICTED),
    spec(
        "predictions of several labels",
        *(SEVERAL, {"proba": SHARES} | WEIGHED, ("support", "mean_confidence")),
        **PREDICTED,
    ),
    spec("binary, floats", KEPT, BINARY | FLOATS, **NEARLY),
    spec("multi-class, floats", SEVERAL | KEPT, CLASSES | FLOATS, **NEARLY),
]


@pytest.mark.parametrize(("spec", "law"), law_cases(SPECS))
def test_laws(spec: StateSpec, law: str) -> None:
    check_law(spec, law, max_examples=12)


WINDOWS: dict[str, Any] = {
    "all": None,
    "last": se.Last(5),
    "panes": se.Panes("20s", pane="10s", lateness="10s"),
    "fading": se.Fading("10s"),
    "fading by count": se.Fading(4),
}


def halves(n: int) -> dict[str, float]:
    return {"a": n % 5 / 4, "b": 1 - n % 5 / 4}


# Options, and what event n predicts; not every event names every label.
TASKS: dict[str, tuple[dict[str, Any], str, Callable[[str, int], Any]]] = {
    "binary": ({"positive": "b"}, "score", lambda label, n: n % 5 / 4),
    "limited": (
        {"positive": "b", "max_scores": 1024, "intervals": True},
        *("score", lambda label, n: n % 5 / 4),
    ),
    "labels": (SEVERAL, "y_pred", lambda label, n: "ab"[n % 2]),
    "multiclass": (SEVERAL | KEPT, "proba", lambda label, n: halves(n) if n % 3 else {label: 1.0}),
    "scores": (
        SEVERAL | {"labels": ["a", "b"], "probabilities": False},
        *("score", lambda label, n: halves(n)),
    ),
}
ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([0, 0.0, 1, 2]), st.integers(0, 90)),
    max_size=8,
)


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=60)
@given(*(st.sampled_from([*TASKS]), ROWS, st.sampled_from("abz")), *(st.booleans(), st.booleans()))
def test_weight_0_leaves_no_trace(window, task, rows, extra, sliced, several):
    options, field, predicted = TASKS[task]
    options = options | {"window": WINDOWS[window], "time_unit": "s"}
    options |= {"slices": ("k",)} if sliced else {}
    if several or window == "last":
        options.pop("max_scores", None)
    make: Any = partial(se.Comparison if several else Evaluator, **options)
    events = []
    for n, (label, weight, time) in enumerate(rows):
        if not weight and task in ("labels", "multiclass"):
            label = extra  # which no other event may have
        value = predicted(label, n)
        said = {"champion": value, "challenger": value} if several else value
        event = {"y_true": label, field: said, "weight": weight, "event_time": time}
        events.append(event | ({"slices": {"k": f"{label}{n % 2}"}} if sliced else {}))
    one, batch, expected = make(), make(), make()
    for event in events:
        one.update(**event)
        if event["weight"]:
            expected.update(**event)
    if events:
        batch.update_many(**as_columns(events))
    for made in (one, batch):
        made._check()
        assert made.to_bytes() == expected.to_bytes()
        assert (made.labels, made.arrivals) == (expected.labels, expected.arrivals)
    if window != "fading by count" and not (several and window == "last"):
        for event in [event for event in events if not event["weight"]]:
            one.revert(**event)
        assert one.to_bytes() == expected.to_bytes()


def test_a_label_of_weight_0_is_not_learned() -> None:
    for labels, weight in ((["x", "spam"], [0, 1]), (["spam", "x"], [1, 0])):
        ev = Evaluator(positive="spam")
        ev.update("x", score=0.5, weight=0)
        ev.update_many(labels, score=[0.5, 0.9], weight=weight)
        assert ev.labels == ["not spam", "spam"]
        ev.update_many(["ham", "spam"], ["spam", "ham"], weight=[2, 0])
        assert ev.labels == ["ham", "spam"]


def as_columns(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Events of the same keys as the arguments of ``update_many``."""
    found: dict[str, Any] = {name: [event[name] for event in events] for name in events[0]}
    for name, column in found.items():
        if isinstance(column[0], dict) and (name == "slices" or "champion" in column[0]):
            found[name] = {key: [value[key] for value in column] for key in column[0]}
    return found


class Number(enum.IntEnum):
    THREE = 3


class Text(enum.StrEnum):
    S = "s"


ANY: list[Any] = [
    *(0, 3, 1024, 2**70, 0.5, -0.0, 1e308, math.inf, -math.inf, math.nan, True, False),
    *(np.int64(3), np.float32(0.1), Number.THREE, Text.S, timedelta(days=1)),
    *(np.str_("last:3"), "", "\ud800", "$int:2", ["accuracy"], ["mean_score"]),
    *([Text.S, "t"], ["\ud800", "$"], [Number.THREE, 2**70], np.array([2, 1]), [("s", "t")]),
    {"s": np.float32(0.5), "t": 1},
]
WRAPPED: dict[str, list[Any]] = {
    "window": [se.Last, se.Panes, partial(se.Panes, "1d"), se.Fading],
    "bootstrap": [se.Bootstrap, partial(se.Bootstrap, 20)],
}


EVENTS: dict[str, Any] = {"binary": 1, "multiclass": "s", "multilabel": ["s"], "regression": 1.5}


@pytest.mark.parametrize("kind", [se.Evaluator, se.Predictions, se.Comparison])
def test_what_a_constructor_accepts_is_saved_and_read(kind: Any) -> None:
    taken = {**inspect.signature(se.Evaluator).parameters, **inspect.signature(kind).parameters}
    accepted = set()
    for name in sorted(taken.keys() - {"task", "options"}):
        given = [*ANY]
        for wrapper in WRAPPED.get(name, ()):
            for value in ANY:
                with suppress(se.InputError):
                    given.append(wrapper(value))
        labels = {"labels": ["s", "t"]} if name in ("probabilities", "threshold") else {}
        tasks = (
            EVENTS if name in ("positive", "threshold", "labels", "probabilities") else ["binary"]
        )
        for task, value in itertools.product(tasks, given):
            try:
                ev = kind(task=task, **{**labels, name: value})
            except (se.InputError, se.MetricError):
                continue
            accepted.add(name)
            event = EVENTS[task]
            said = dict.fromkeys(ev.models, event) if kind is se.Comparison else event
            truth = () if kind is se.Predictions else (event,)
            with suppress(se.InputError):  # it has no slice or unit, or the labels are others
                ev.update(*truth, said, event_time="2026-01-01T00:00:00Z")
            made = ev.to_bytes()
            again = se.from_bytes(made) if kind is se.Evaluator else kind.from_bytes(made)
            assert again == ev, (task, name, value)
            assert again.to_bytes() == made, (task, name, value)
    alone = {"temporal", "bootstrap", "max_scores"} if kind is se.Comparison else set()
    assert accepted == taken.keys() - {"task", "options"} - alone


def test_a_merge_of_another_setting_changes_nothing() -> None:
    ev, other = (
        se.Evaluator("multiclass", window=se.Panes("1h"), time_unit="s").update(
            label, label, event_time=time
        )
        for label, time in (("a", 0), (1, 90_000))
    )
    before = ev.to_bytes()
    with pytest.raises(se.StateError, match="cannot be merged"):
        ev.merge(other)
    assert ev.to_bytes() == before
