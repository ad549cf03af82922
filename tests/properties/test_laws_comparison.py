"""The laws of every state, kept by comparisons and so by the joint counts in them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

import streameval as se
from streameval.evaluator.comparison import Comparison
from tests.support.laws import StateSpec, check_law, law_cases

MODELS = ("champion", "challenger")


Names = tuple[str, ...]
OF_MODELS = ("score", "proba", "y_pred")


def arguments(names: Names, models: Names, event: tuple[Any, ...]) -> dict[str, Any]:
    # A damaged file may name other models, and more.
    return {
        name: dict(zip(models, value, strict=False)) if name in OF_MODELS else value
        for name, value in zip(names, event, strict=True)
    }


def columns_of(names: Names, models: Names, events: list[tuple[Any, ...]]) -> dict[str, Any]:
    rows = [arguments(names, models, event) for event in events]
    given: dict[str, Any] = {name: [row[name] for row in rows] for name in names}
    for name in given.keys() & {*OF_MODELS, "slices"}:
        keys = ("country",) if name == "slices" else models
        given[name] = {key: [value[key] for value in given[name]] for key in keys}
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


def spec(
    name: str, options: dict[str, Any], fields: dict[str, Any], excused: Any = None
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
        excused=excused or {},
    )


PROBABILITIES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
WEIGHED = {"weight": st.sampled_from([1, 1, 2])}
# They add without rounding, so that every order gives the same bits.
FRACTIONS = {"weight": st.sampled_from([0.5, 1.5])}
BINARY = {
    "y_true": st.sampled_from([True, False]),
    "score": st.tuples(PROBABILITIES, PROBABILITIES),
    **WEIGHED,
}
SHARES = st.sampled_from(
    [
        dict(zip(("cat", "dog", "eel"), row, strict=True))
        for row in ((2, 1, 1), (0, 1, 3), (4, 0, 0))
    ]
).map(lambda row: {label: part / 4 for label, part in row.items()})
CLASSES = {"y_true": st.sampled_from(["cat", "dog", "eel"]), "proba": st.tuples(SHARES, SHARES)}
SPAM = st.sampled_from(["spam", "ham"])
LABELS = {"y_true": SPAM, "y_pred": st.tuples(SPAM, SPAM)}
REAL = st.sampled_from([0.0, 0.1, -7.25, 1 / 3, 1e9])
NUMBERS = {"y_true": REAL, "y_pred": st.tuples(REAL, REAL)}
TAGS = st.frozensets(st.sampled_from(["ad", "spam"]))
TAG_SCORES = st.fixed_dictionaries({"ad": PROBABILITIES, "spam": PROBABILITIES})
SLICES = {"slices": st.sampled_from(["PT", "DE", None]).map(lambda country: {"country": country})}
TIMES = {"event_time": st.integers(10**9, 10**9 + 200)}

OF_SETS = {"task": "multilabel", "labels": ["ad", "spam"]}
OF_NUMBERS = ["median_absolute_error", "mean_absolute_error", "r2"]
LOSSES = {"metrics": ["log_loss", "brier_score"], "slices": ["country"]}
PANES = {"window": se.Panes("1m", lateness="1h", retain="2h"), "time_unit": "s"}
LATE = "arrivals count which events were late"
OF_ORDER = {
    **dict.fromkeys(("grouping", "shards"), "shards have no common order"),
    "order": "the last events depend on the order",
    "revert": "equal predictions of one model may be of different events",
}
FLOATS = {"revert": "float sums cannot be undone exactly"}
COMPARISONS = [
    spec("binary, thresholds", {"threshold": {"champion": 0.5, "challenger": 0.3}}, BINARY),
    spec("probabilities of several classes", {"task": "multiclass"}, CLASSES | WEIGHED),
    spec("losses only, in slices", LOSSES, BINARY | SLICES, {"revert": "a slice stays open"}),
    spec(
        "labels only, discovered",
        {"positive": "spam", "metrics": ["f1", "accuracy"]},
        LABELS | FRACTIONS,
        {"revert": "the name of the negative label stays known"},
    ),
    spec("numbers", {"task": "regression", "metrics": OF_NUMBERS}, NUMBERS | WEIGHED),
    spec("sets", OF_SETS, {"y_true": TAGS, "score": st.tuples(TAG_SCORES, TAG_SCORES)} | WEIGHED),
    spec(
        "sets and fractions",
        OF_SETS,
        {"y_true": TAGS, "y_pred": st.tuples(TAGS, TAGS)} | FRACTIONS,
        FLOATS,
    ),
    spec(
        "panes",
        PANES,
        BINARY | TIMES,
        {"order": LATE, "shards": LATE, "revert": "the watermark stays"},
    ),
    spec("last", {"window": se.Last(3)}, BINARY, OF_ORDER),
]


@pytest.mark.parametrize(("spec", "law"), law_cases(COMPARISONS))
def test_comparisons_keep_the_laws(spec: StateSpec, law: str) -> None:
    check_law(spec, law, max_examples=20)
