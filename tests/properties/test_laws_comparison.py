"""The laws of every state, kept by comparisons and so by the joint counts in them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

import streameval as se
from streameval.evaluator.comparison import Comparison
from tests.support.laws import StateSpec, assert_near, check_law, law_cases

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


def losses(comparison: Comparison) -> list[float | None]:
    found = []
    for metric in ("log_loss", "brier_score"):
        found += [float(comparison[model][metric]) for model in comparison.models]
        found.append(comparison.difference(metric).value)
    return [None if value != value else value for value in found]


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
        read=more.pop("read", read),
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
# They add without rounding, so that every order gives the same bits.
FRACTIONS = st.sampled_from([0.5, 1.5])
REAL = st.sampled_from([0.0, 0.1, -7.25, 1 / 3, 1e9])
SLICES = st.sampled_from(["PT", "DE", None]).map(lambda country: {"country": country})
OF_ORDER = {
    **dict.fromkeys(("grouping", "shards"), "shards have no common order"),
    "order": "the last events depend on the order",
    "revert": "equal predictions of one model may be of different events",
}
COMPARISONS = [
    comparison_spec(
        "binary, thresholds", {"threshold": {"champion": 0.5, "challenger": 0.3}}, BINARY
    ),
    comparison_spec(
        "probabilities of several classes",
        {"task": "multiclass"},
        {"y_true": LABELS, "proba": st.tuples(SHARES, SHARES), "weight": BINARY["weight"]},
    ),
    comparison_spec(
        "losses only, in slices",
        {"metrics": ["log_loss", "brier_score"], "slices": ["country"]},
        {**BINARY, "slices": SLICES},
        excused={"revert": "a slice stays open"},
    ),
    comparison_spec(
        "losses and fractions",
        {"metrics": ["log_loss", "brier_score"]},
        {**BINARY, "weight": FRACTIONS},
        same=assert_near,
        read=losses,
        excused={"revert": "float sums cannot be undone exactly"},
    ),
    comparison_spec(
        "labels only, discovered",
        {"positive": "spam", "metrics": ["f1", "accuracy"]},
        {
            "y_true": st.sampled_from(["spam", "ham"]),
            "y_pred": st.tuples(*[st.sampled_from(["spam", "ham"])] * 2),
            "weight": FRACTIONS,
        },
        excused={"revert": "the name of the negative label stays known"},
    ),
    comparison_spec(
        "numbers",
        {"task": "regression", "metrics": ["median_absolute_error", "mean_absolute_error", "r2"]},
        {"y_true": REAL, "y_pred": st.tuples(REAL, REAL), "weight": BINARY["weight"]},
    ),
    comparison_spec(
        "sets",
        {"task": "multilabel", "labels": ["ad", "spam"]},
        {"y_true": TAGS, "score": st.tuples(TAG_SCORES, TAG_SCORES), "weight": BINARY["weight"]},
    ),
    comparison_spec(
        "sets and fractions",
        {"task": "multilabel", "labels": ["ad", "spam"]},
        {"y_true": TAGS, "y_pred": st.tuples(TAGS, TAGS), "weight": FRACTIONS},
        excused={"revert": "float sums cannot be undone exactly"},
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


@pytest.mark.parametrize(("spec", "law"), law_cases(COMPARISONS))
def test_comparisons_keep_the_laws(spec: StateSpec, law: str) -> None:
    check_law(spec, law, max_examples=20)
