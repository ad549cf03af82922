"""State sets and evaluators keep the laws of the states."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

import streameval as se
from streameval.evaluator.evaluator import Evaluator
from streameval.states.state_set import StatePlan, StateSet
from tests.support.laws import LAWS, StateSpec, assert_near, assert_same, check_law, columns

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


def one(names: tuple[str, ...], evaluator: Evaluator, event: tuple[Any, ...]) -> None:
    evaluator.update(**dict(zip(names, event, strict=True)))


def many(names: tuple[str, ...], evaluator: Evaluator, events: list[tuple[Any, ...]]) -> None:
    evaluator.update_many(**dict(zip(names, columns(events, len(names)), strict=True)))


def many_sliced(
    names: tuple[str, ...], evaluator: Evaluator, events: list[tuple[Any, ...]]
) -> None:
    rows = dict(zip(names, columns(events, len(names)), strict=True))
    rows["slices"] = {"country": [values["country"] for values in rows["slices"]]}
    evaluator.update_many(**rows)


def undo(names: tuple[str, ...], evaluator: Evaluator, event: tuple[Any, ...]) -> None:
    evaluator.revert(**dict(zip(names, event, strict=True)))


def values(metrics: tuple[str, ...], evaluator: Evaluator) -> list[float | None]:
    # nan is not equal to itself; None is.
    found = [float(evaluator.value(name)) for name in metrics]
    return [None if math.isnan(value) else value for value in found]


def spec(
    name: str,
    options: dict[str, Any],
    fields: dict[str, st.SearchStrategy[Any]],
    metrics: tuple[str, ...],
    **more: Any,
) -> StateSpec:
    names = tuple(fields)
    return StateSpec(
        name=name,
        empty=partial(Evaluator, **options),
        events=st.tuples(*fields.values()),
        update=partial(one, names),
        update_many=partial(more.pop("many", many), names),
        revert=partial(undo, names),
        read=partial(values, metrics),
        max_events=6,
        **more,
    )


BINARY = {"y_true": st.sampled_from([True, False]), "score": SCORES, "weight": WEIGHTS}

SPECS = [
    StateSpec(
        name="tally",
        empty=partial(StateSet, StatePlan.everything("binary")),
        events=st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1]), SCORES, WEIGHTS),
        update=lambda state_set, event: state_set.update(*event),
        update_many=lambda state_set, events: [state_set.update(*event) for event in events],
        revert=lambda state_set, event: state_set.revert(*event),
        read=lambda state_set: (state_set.index.twice_wins, state_set.probability.log_loss_units),
        from_state=partial(StateSet.from_state, plan=StatePlan.everything("binary")),
    ),
    spec("binary", {}, BINARY, READ["binary"]),
    spec(
        "binary labels and scores",
        {"positive": "spam", "labels": LABELS},
        {"y_true": st.sampled_from(LABELS), "y_pred": st.sampled_from(LABELS), "score": SCORES},
        READ["binary"],
    ),
    spec(
        "binary in bounded memory",
        {"metrics": ["accuracy", "log_loss", "binormal_auc"]},
        BINARY,
        ("accuracy", "log_loss", "binormal_auc"),
    ),
    spec("binary with intervals", {"intervals": True}, BINARY, READ["binary"]),
    spec(
        "multi-class probabilities with intervals",
        {"task": "multiclass", "intervals": True},
        {"y_true": st.sampled_from("abc"), "proba": SHARES, "weight": WEIGHTS},
        READ["multiclass"],
    ),
    spec(
        "multi-class labels",
        {"task": "multiclass"},
        {"y_true": st.sampled_from("abcd"), "y_pred": st.sampled_from("abcd")},
        READ["multiclass"][:3],
    ),
    spec(
        "declared labels",
        {"task": "multiclass", "labels": ["d", "b", "e", "a", "c"], "undefined": 0.5},
        {"y_true": st.sampled_from("abcd"), "y_pred": st.sampled_from("abcd")},
        ("recall_macro", "specificity_macro", "cohen_kappa_linear"),
    ),
    spec(
        "multi-class probabilities",
        {"task": "multiclass"},
        {"y_true": st.sampled_from("abc"), "proba": SHARES, "weight": WEIGHTS},
        READ["multiclass"],
    ),
    spec(
        "slices",
        {"slices": ("country",)},
        {**BINARY, "slices": st.sampled_from([{"country": "PT"}, {"country": "DE"}])},
        READ["binary"],
        many=many_sliced,
        # A slice that was opened stays open.
        excused={"revert": "an empty slice is still listed"},
    ),
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_laws(spec: StateSpec, law: str) -> None:
    check_law(spec, law, max_examples=12)


def test_float_weights_keep_the_laws_nearly() -> None:
    fractional = spec(
        "fractional weights",
        {},
        {**BINARY, "weight": st.sampled_from([1, 0.5, 1.5, 0.1])},
        READ["binary"],
        same=assert_near,
    )
    for law in LAWS:
        if law not in ("revert", "hostile"):
            check_law(fractional, law, max_examples=12)


def test_bytes_are_the_content() -> None:
    left, right = se.Evaluator(), se.Evaluator()
    left.update_many([True, False, True], score=[0.1, 0.2, 0.3])
    right.update_many([True, True, False], score=[0.3, 0.1, 0.2])
    assert left.to_bytes() == right.to_bytes()
    assert_same(left.to_state(), right.to_state())
