"""ConfusionCounts keeps every law of a state, and the law tester can fail."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from streameval.states.confusion import ConfusionCounts
from tests.support.confusion_kinds import KINDS, cells_of
from tests.support.laws import (
    StateSpec,
    assert_near,
    assert_portable,
    assert_same,
    check_law,
    columns,
    law_cases,
)

WORDS = st.sampled_from(["ham", "spam", "Ham", "", "été", "\U0001f600", np.str_("spam")])
NUMBERS = st.sampled_from([0, 1, True, 1.0, np.int64(1), np.float32(2), -3, 2**40, 10**30])
WHOLE = st.sampled_from([1, 1, 1, 2, 3.0, np.int32(7), 2**53])
# Multiples of a power of two, so that float sums are exact in any order.
HALVES = st.sampled_from([1, 0.5, 1.5, 0.25, 3])


SUMS = ("active", "with_true", "with_predicted", "precision", "recall", "f1")
SQUARES = ("true_predicted", "true_squared", "predicted_squared")


def read(counts: ConfusionCounts) -> object:
    """All that is derived."""
    return {
        "sums": [getattr(counts.sums, name) for name in (*SUMS, *SQUARES)],
        "total": [counts.total, counts.correct, counts.exact],
        "classes": list(counts.per_class()),
        "binary": [list(counts.binary(label)) for label in counts.labels],
        "array": counts.to_array().tolist(),
    }


def spec(name: str, labels: Any, weights: Any, **options: Any) -> StateSpec:
    return StateSpec(
        **{
            "name": name,
            "empty": ConfusionCounts,
            "events": st.tuples(labels, labels, weights),
            "update_many": lambda state, events: state.update_many(*columns(events, 3)),
            "read": read,
            **options,
        }
    )


SPECS = [
    spec("words", WORDS, WHOLE),
    spec("numbers", NUMBERS, WHOLE),
    spec("closed", st.sampled_from("abc"), WHOLE, empty=partial(ConfusionCounts, ["c", "a", "b"])),
    spec("fractions", WORDS, HALVES, excused={"revert": "float sums cannot be undone exactly"}),
    spec(
        # The sums of compiled cells have 64 bits, their products 128; all events of a law together
        # must stay below what a written state may claim (2**127).
        "heavy cells",
        st.sampled_from("ab"),
        st.sampled_from([1, 2**53, 2**61, 2**62, 2**100, 2**120]),
        update=lambda state, event: state.add_cells([event]),
        update_many=lambda state, events: state.add_cells(events),
        excused={"revert": "no event may have such a weight, only cells"},
    ),
    spec(
        "any fraction",
        st.sampled_from("ab"),
        st.floats(1e-3, 1e3),
        same=assert_near,
        excused={"revert": "float sums cannot be undone exactly"},
    ),
]


# Compiled cells do otherwise by weight; beside them two kinds of event are enough for the others.
CASES = [
    pytest.param(kind, *case.values, id=f"{kind}-{case.id}")
    for kind in KINDS
    for case in law_cases(SPECS if kind == [*KINDS][-1] else [SPECS[0], SPECS[3]])
]


@pytest.mark.parametrize(("kind", "spec", "law"), CASES)
def test_confusion_counts_keeps_the_law(kind: str, spec: StateSpec, law: str) -> None:
    with cells_of(KINDS[kind]):
        check_law(spec, law, max_examples=20)


def changed(**methods: Any) -> Any:
    """A way to make counts that are broken in one method."""
    return type("Broken", (ConfusionCounts,), methods)


def of_two(counts: ConfusionCounts, *given: Any) -> None:
    ConfusionCounts.update_many(counts, *(column[:2] for column in given))


def changes_operand(counts: ConfusionCounts, other: ConfusionCounts) -> None:
    ConfusionCounts.merge(counts, other)
    other.update("a", "a")


def drops(counts: ConfusionCounts, other: ConfusionCounts) -> None:
    if not counts.total:
        ConfusionCounts.merge(counts, other)


def looks_back(counts: ConfusionCounts, true: str, predicted: str, weight: int) -> None:
    ConfusionCounts.update(counts, true, predicted if counts.total else true, weight)


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("split", {"update_many": of_two}),
    # A copy would be whole again.
    ("shards", {"merge": drops, "copy": lambda counts: counts}),
    ("order", {"update": looks_back}),
    ("grouping", {"merge": changes_operand}),
    ("grouping", {"merge": drops}),
    ("grouping", {"__eq__": lambda counts, other: False}),
    ("copy", {"to_state": lambda counts: ConfusionCounts().to_state()}),
    ("copy", {"copy": lambda counts: counts}),
    ("revert", {"revert": lambda counts, *event: None}),
    ("hostile", {"from_state": classmethod(lambda cls, form: {}[form])}),
]


@pytest.mark.parametrize(("law", "broken"), BROKEN)
def test_the_tester_catches_a_broken_state(law: str, broken: dict[str, Any]) -> None:
    # An excused law has to fail: so this passes only if the fault is found.
    excused = {law: "broken on purpose"}
    check_law(spec("broken", WORDS, WHOLE, empty=changed(**broken), excused=excused), law)


def test_an_excuse_that_is_not_needed_is_an_error() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_law(replace(SPECS[0], excused={"order": "no reason"}), "order")
    with pytest.raises(ValueError, match="laws that do not exist: \\['ordre'\\]"):
        check_law(replace(SPECS[0], excused={"ordre": "misspelt"}), "order")


def test_the_comparisons_of_laws_tell_apart_what_differs() -> None:
    one = np.array([1.0])
    assert_near({"a": [1.0, one]}, {"a": [1.0 + 1e-10, one + 1e-10]})
    for left, right in (
        *((1, True), (1, 1.0), ([1], [1, 2]), ({"a": 1}, {"b": 1})),
        *((np.array([1]), one), ({"a": [1.0]}, {"a": [1.0 + 1e-8]}), (one, np.array([1.1]))),
    ):
        assert_same(left, left)
        for compare in (assert_same, assert_near):
            with pytest.raises(AssertionError):
                compare(left, right)
    for left, right in ((0.0, -0.0), (one, one + 2**-52)):
        with pytest.raises(AssertionError):
            assert_same(left, right)
    for value in (np.nan, (1,), {1: 2}, np.int64(1), np.zeros((2, 2)), np.zeros(1, ">i8"), b""):
        with pytest.raises(AssertionError):
            assert_portable({"key": [value]})
