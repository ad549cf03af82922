"""The laws of every state, kept by joint counts and by comparisons."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import streameval as se
from streameval.evaluator.comparison import Comparison
from streameval.events.event import EventBatch
from streameval.states.joint import JointCounts
from streameval.states.joint_errors import JointErrors
from streameval.states.joint_losses import JointLosses
from streameval.states.joint_sets import JointSets
from tests.support.laws import LAWS, StateSpec, check_law

# Joint counts ---------------------------------------------------------------

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, -7.25, 5e-324, 1e308])
TWO_SCORES = st.tuples(SCORES, SCORES)


def batch_of(events: list[Any], scored: bool) -> EventBatch:
    labels = sorted({label for true, _, _, predicted in events for label in (true, *predicted)})
    code = {label: n for n, label in enumerate(labels)}
    weights = [event[2] for event in events]
    return EventBatch(
        np.array([code[event[0]] for event in events], np.int64),
        np.array([[code[label] for label in event[3]] for event in events], np.int64),
        np.array([event[1] for event in events]).reshape(len(events), 2 if scored else 0),
        np.array(weights, np.float64 if float in map(type, weights) else np.int64),
        tuple(labels),
    )


def count_many(state: JointCounts, events: list[Any]) -> None:
    """One batch of the events with scores and one of those without, as they are fed."""
    for scored in (True, False):
        part = [event for event in events if bool(event[1]) is scored]
        if part:
            state.update_many(batch_of(part, scored))


def joint_spec(
    name: str, labels: list[Any], scores: Any, weights: st.SearchStrategy[Any], **more: Any
) -> StateSpec:
    label = st.sampled_from(labels)
    return StateSpec(
        name=name,
        empty=JointCounts,
        events=st.tuples(label, scores, weights, st.tuples(label, label)),
        update=lambda state, event: state.update(*event),
        update_many=count_many,
        revert=lambda state, event: state.revert(*event),
        read=lambda state: state.to_state(),
        pickled=False,
        **more,
    )


WHOLE = st.sampled_from([1, 1, 2, 2**53])
JOINT = [
    joint_spec("labels", ["ham", "spam", "eggs"], st.just(()), st.just(1)),
    joint_spec("scores", [0, 1], TWO_SCORES, WHOLE),
    joint_spec("both", [0, 1], st.one_of(st.just(()), TWO_SCORES), WHOLE),
    joint_spec(
        "fractions",
        [0, 1],
        TWO_SCORES,
        # Weights that add without rounding, so that every order gives the same bits.
        st.sampled_from([0.5, 1.5]),
        excused={"revert": "float sums cannot be undone exactly"},
    ),
]


LOSS = st.sampled_from([0.0, 0.25, 1.5, 2.0])
LOSSES = st.one_of(
    st.tuples(LOSS, LOSS, LOSS, LOSS),
    st.tuples(SCORES, SCORES, LOSS, LOSS, LOSS, LOSS),
    # Losses of one model only, scores without losses, neither.
    st.just((0.5, -1.0, 0.25, -1.0)),
    st.just((0.5, 0.5)),
    st.just(()),
)


def losses_spec(name: str, weights: st.SearchStrategy[Any], **more: Any) -> StateSpec:
    def count(state: JointLosses, events: list[Any]) -> None:
        for width in (0, 2, 4, 6):
            part = [event for event in events if len(event[0]) == width]
            weight = [event[1] for event in part]
            if part:
                state.update_many(
                    EventBatch(
                        np.zeros(len(part), np.int64),
                        np.zeros((len(part), 2), np.int64),
                        np.array([event[0] for event in part]).reshape(len(part), width),
                        np.array(weight, np.float64 if float in map(type, weight) else np.int64),
                    )
                )

    return StateSpec(
        name=name,
        empty=JointLosses,
        events=st.tuples(LOSSES, weights),
        update=lambda state, event: state.update(0, *event, (0, 0)),
        update_many=count,
        revert=lambda state, event: state.revert(0, *event, (0, 0)),
        read=lambda state: state.to_state(),
        pickled=False,
        **more,
    )


JOINT += [
    losses_spec("losses", WHOLE),
    losses_spec(
        "losses and fractions",
        st.sampled_from([0.5, 1.5]),
        excused={"revert": "float sums cannot be undone exactly"},
    ),
]


def columns_spec(
    name: str, empty: Any, events: st.SearchStrategy[Any], weights: Any, **more: Any
) -> StateSpec:
    """A state whose events are the truth and a tuple of numbers."""

    def count(state: Any, events: list[Any]) -> None:
        if not events:
            return
        weight = [event[1] for event in events]
        columns = (np.array([event[0][place] for event in events]) for place in (0, 1))
        dtype = np.float64 if float in map(type, weight) else np.int64
        scores = np.zeros((len(events), 0))
        state.update_many(EventBatch(*columns, scores, np.array(weight, dtype)))

    return StateSpec(
        name=name,
        empty=empty,
        events=st.tuples(events, weights),
        update=lambda state, event: state.update(event[0][0], (), event[1], event[0][1]),
        update_many=count,
        revert=lambda state, event: state.revert(event[0][0], (), event[1], event[0][1]),
        read=lambda state: state.to_state(),
        pickled=False,
        **more,
    )


NUMBERS = st.sampled_from([0.0, 0.1, -7.25, 1 / 3, 5e-324, -1e150, 8e307])
FRACTIONS = st.sampled_from([0.5, 1.5])
NO_UNDO = {"revert": "float sums cannot be undone exactly"}
SIZES = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda at: (at[0], sum(at)))
SETS = st.tuples(SIZES, SIZES).map(lambda at: (at[0][0] + at[1][0], (*at[0], *at[1])))
for kind, events in (
    (JointErrors, st.tuples(NUMBERS, st.tuples(NUMBERS, NUMBERS))),
    (JointSets, SETS),
):
    JOINT += [
        columns_spec(kind.NAME, kind, events, WHOLE),
        columns_spec(f"{kind.NAME} and fractions", kind, events, FRACTIONS, excused=NO_UNDO),
    ]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("spec", JOINT, ids=lambda spec: spec.name)
def test_joint_counts_keep_the_laws(spec: StateSpec, law: str) -> None:
    check_law(spec, law)


# Comparisons ----------------------------------------------------------------

MODELS = ("champion", "challenger")


Names = tuple[str, ...]


def arguments(names: Names, models: Names, event: tuple[Any, ...]) -> dict[str, Any]:
    given = dict(zip(names, event, strict=True))
    for field in ("score", "proba", "y_pred"):
        if field in given:
            # A damaged file may name other models, and more.
            given[field] = dict(zip(models, given[field], strict=False))
    return given


def columns_of(names: Names, models: Names, events: list[tuple[Any, ...]]) -> dict[str, Any]:
    rows = [arguments(names, models, event) for event in events]
    given: dict[str, Any] = {name: [row[name] for row in rows] for name in names}
    for field, keys in (
        ("score", models),
        ("proba", models),
        ("y_pred", models),
        ("slices", ("country",)),
    ):
        if field in given:
            given[field] = {key: [value[key] for value in given[field]] for key in keys}
    return given


METRICS = (
    *("accuracy", "roc_auc", "f1_macro", "log_loss", "brier_score"),
    *("mean_absolute_error", "r2", "f1_samples"),
)


def read(comparison: Comparison) -> Any:
    found = []
    for view in (comparison.total, *comparison.slices().values()):
        for metric in METRICS:
            try:
                found += [repr(float(view[model][metric])) for model in comparison.models]
                # Resampling depends on the joint cells alone, whose order has laws of its own.
                if metric != "f1_macro":
                    found.append(repr(view.difference(metric)))
            except se.MetricError:
                continue
    return found


def comparison_spec(
    name: str, options: dict[str, Any], fields: dict[str, Any], **more: Any
) -> StateSpec:
    names = tuple(fields)
    return StateSpec(
        name=name,
        empty=partial(Comparison, MODELS, **options),
        events=st.tuples(*fields.values()),
        update=lambda state, event: state.update(**arguments(names, state.models, event)),
        update_many=lambda state, events: state.update_many(
            **columns_of(names, state.models, events)
        ),
        revert=lambda state, event: state.revert(**arguments(names, state.models, event)),
        read=read,
        max_events=5,
        **more,
    )


PROBABILITIES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
TRUTH = st.sampled_from([True, False])
BINARY = {
    "y_true": TRUTH,
    "score": st.tuples(PROBABILITIES, PROBABILITIES),
    "weight": st.sampled_from([1, 1, 2]),
}
LABELS = st.sampled_from(["cat", "dog", "eel"])
SHARES = st.sampled_from(
    [
        {"cat": 0.5, "dog": 0.25, "eel": 0.25},
        {"cat": 0.0, "dog": 0.25, "eel": 0.75},
        {"cat": 1.0, "dog": 0.0, "eel": 0.0},
    ]
)
TAGS = st.frozensets(st.sampled_from(["ad", "spam"]))
TAG_SCORES = st.fixed_dictionaries({"ad": PROBABILITIES, "spam": PROBABILITIES})
REAL = st.sampled_from([0.0, 0.1, -7.25, 1 / 3, 1e9])
SLICES = st.sampled_from(["PT", "DE", None]).map(lambda country: {"country": country})
OF_ORDER = {
    **dict.fromkeys(("grouping", "shards", "operand"), "shards have no common order"),
    "order": "the last events depend on the order",
    "revert": "equal predictions of one model may be of different events",
}
COMPARISONS = [
    comparison_spec("binary", {}, BINARY),
    comparison_spec(
        "multiclass",
        {"task": "multiclass"},
        {"y_true": LABELS, "y_pred": st.tuples(LABELS, LABELS), "weight": BINARY["weight"]},
    ),
    comparison_spec(
        "probabilities of several classes",
        {"task": "multiclass"},
        {"y_true": LABELS, "proba": st.tuples(SHARES, SHARES), "weight": BINARY["weight"]},
    ),
    comparison_spec("losses only", {"metrics": ["log_loss", "brier_score"]}, BINARY),
    comparison_spec(
        "labels only, discovered",
        {"positive": "spam", "metrics": ["f1", "accuracy"]},
        {
            "y_true": st.sampled_from(["spam", "ham"]),
            "y_pred": st.tuples(*[st.sampled_from(["spam", "ham"])] * 2),
        },
        excused={"revert": "the name of the negative label stays known"},
    ),
    comparison_spec(
        "slices and thresholds",
        {"slices": ["country"], "threshold": {"champion": 0.5, "challenger": 0.3}},
        {**BINARY, "slices": SLICES},
        excused={"revert": "a slice stays open"},
    ),
    comparison_spec(
        "numbers",
        {"task": "regression"},
        {"y_true": REAL, "y_pred": st.tuples(REAL, REAL), "weight": BINARY["weight"]},
    ),
    comparison_spec(
        "numbers in slices",
        {"task": "regression", "slices": ["country"], "metrics": ["median_absolute_error", "r2"]},
        {"y_true": REAL, "y_pred": st.tuples(REAL, REAL), "slices": SLICES},
        excused={"revert": "a slice stays open"},
    ),
    comparison_spec(
        "last numbers",
        {"task": "regression", "window": se.Last(3)},
        {"y_true": REAL, "y_pred": st.tuples(REAL, REAL)},
        excused=OF_ORDER,
    ),
    comparison_spec(
        "sets",
        {"task": "multilabel", "labels": ["ad", "spam"]},
        {"y_true": TAGS, "score": st.tuples(TAG_SCORES, TAG_SCORES), "weight": BINARY["weight"]},
    ),
    comparison_spec(
        "last sets",
        {"task": "multilabel", "labels": ["ad", "spam"], "window": se.Last(3)},
        {"y_true": TAGS, "y_pred": st.tuples(TAGS, TAGS)},
        excused=OF_ORDER,
    ),
    comparison_spec(
        "panes",
        {"window": se.Panes("1m", lateness="1h", retain="2h"), "time_unit": "s"},
        {**BINARY, "event_time": st.integers(10**9, 10**9 + 200)},
        excused={
            "order": "arrivals count which events were late",
            "shards": "arrivals count which events were late",
            "revert": "the watermark stays",
        },
    ),
    comparison_spec(
        "last",
        {"window": se.Last(3)},
        BINARY,
        excused=OF_ORDER,
    ),
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("spec", COMPARISONS, ids=lambda spec: spec.name)
def test_comparisons_keep_the_laws(spec: StateSpec, law: str) -> None:
    check_law(spec, law, max_examples=20)
