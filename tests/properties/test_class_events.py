"""Compiled multi-class events against the Python code that they stand for."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.states import class_probability
from streameval.states.class_events import plain_event
from streameval.states.class_probability import ClassProbabilitySums
from streameval.tasks.multiclass import ClassInput


class Text(str):
    """A str, but not exactly one."""


NAMES: list[Any] = ["a", "b", "c", Text("b"), "unknown", 1, True, None, ["a"], np.str_("a")]
SHARES: list[Any] = [
    0.0, -0.0, 0.25, 0.5, 0.75, 1.0, 1, True, 1.5, -0.1, float("nan"), float("inf"), "0.5", None,
    np.float64(0.5), np.float32(0.25), 0.5009, 0.50099, 0.501, 0.499,
]  # fmt: skip


@settings(max_examples=400)
@given(
    st.sampled_from(NAMES),
    st.one_of(st.none(), st.sampled_from(NAMES)),
    st.one_of(
        st.sampled_from([None, 0.5, [], {}]),
        st.lists(st.tuples(st.sampled_from(NAMES[:8]), st.sampled_from(SHARES))).map(dict),
        # Two that are equal and the largest, whose sum is near the limit.
        st.tuples(st.permutations("abc"), st.sampled_from([0.0, 9e-4, 9.99e-4, 1.01e-3])).map(
            lambda given: dict(zip(given[0], [0.4, 0.4, 0.2 + given[1]], strict=True))
        ),
    ),
    st.sampled_from([1, 1, 1, True, 1.0, 2, 0.5, 0, None]),
    st.booleans(),
)
def test_a_plain_event_is_what_validation_makes_of_it(
    y_true: Any, y_pred: Any, proba: Any, weight: Any, closed: bool
) -> None:
    results = []
    for quick in (plain_event, None):
        given = ClassInput(["a", "b", "c"] if closed else None, plain=quick)
        if not closed:
            given.stage(["a", "b", "c"])
            given.commit()
        try:
            fields = given.event(y_true, y_pred, None, proba, weight)
            assert fields[2] is not proba or proba is None
            results.append((repr(fields), [type(field) for field in fields], given.staged))
        except InputError as error:
            results.append((str(error), [], ()))
    assert results[0] == results[1]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.lists(st.sampled_from("abc"), min_size=1, unique=True),
        st.lists(
            st.one_of(st.sampled_from([0, 1, 1, 2, 3, 2**-40]), st.floats(0, 3)),
            min_size=3,
            max_size=3,
        ),
        st.one_of(st.none(), st.sampled_from("abcz")),
        st.sampled_from([1, 1, 1, 2, 2**53, 0.5]),
    ),
    max_size=30,
)


def rows(events: list[Any], *, fractions: bool) -> list[Any]:
    found = []
    for y, named, parts, predicted, weight in events:
        shares = parts[: len(named)]
        shares[0] += 1
        proba = {label: part / sum(shares) for label, part in zip(named, shares, strict=True)}
        found.append((y, proba, weight if fractions or weight >= 1 else 1, predicted))
    return found


@pytest.mark.parametrize("fractions", [False, True])
@settings(max_examples=60)
@given(events=EVENTS, bins=st.sampled_from([1, 2, 10]), data=st.data())
def test_sums_have_the_bits_of_python(
    events: list[Any], bins: int, data: st.DataObject, fractions: bool
) -> None:
    with mock.patch.object(class_probability, "COMPILED", None):
        portable = ClassProbabilitySums(bins)
    compiled = ClassProbabilitySums(bins)
    counted: list[Any] = []
    for event in rows(events, fractions=fractions):
        for sums in (compiled, portable):
            sums.update(*event)
        counted.append(event)
        step = data.draw(st.sampled_from(["", "", "", "read", "revert", "merge", "copy"]))
        if step == "read":
            assert compiled.log_loss_units == portable.log_loss_units
            assert compiled.ranks == portable.ranks
        elif step == "revert" and portable.exact:
            gone = counted.pop(data.draw(st.integers(0, len(counted) - 1)))
            for sums in (compiled, portable):
                sums.revert(*gone)
        elif step == "merge":
            compiled.merge(compiled.copy())
            portable.merge(portable.copy())
            counted += counted
        elif step == "copy":
            compiled = compiled.copy()
    assert compiled.to_state() == portable.to_state()
    compiled._check()
