"""What compiled code counts of numbers, label sets and several classes is what Python counts."""

from __future__ import annotations

from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.metrics.registry import find
from streameval.states import class_probability
from streameval.states.class_events import plain_event
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.error_sums import ErrorSums
from streameval.states.registry import STATES
from streameval.states.state_set import StateSet
from streameval.tasks.multiclass import ClassInput

NUMBERS = ("mean_error", "mean_absolute_error", "mean_squared_error")
NUMBERS += ("root_mean_squared_error", "r2")
SETS = ("accuracy", "hamming_loss")
SETS += tuple(
    f"{rule}_{average}"
    for rule, average in product(
        ("precision", "recall", "f1", "jaccard"), ("micro", "macro", "samples", "weighted")
    )
)
LABELS = ("a", "b", "c")

# Within compiled integers, at their edges and beyond; sums of squares with all their digits.
_number = st.one_of(
    st.floats(-1e3, 1e3),
    st.integers(-3, 3).map(float),
    st.builds(lambda m, e: m * 2.0**e, st.integers(-(2**53), 2**53), st.integers(-140, 40)),
    st.sampled_from([1e-40, 1e12, 0.1, -1e-300]),
    st.just(-0.0),
)
_weight = st.sampled_from([1, 1, 1, 2, 7, 2**31, 2**33, 0.5])
_set = st.sets(st.sampled_from(LABELS))
_scores = st.fixed_dictionaries({label: st.sampled_from([0.0, 0.25, 0.5, 1.0]) for label in LABELS})
OF_NUMBERS = st.tuples(_number, _number).map(lambda pair: (pair, {}))
OF_SETS = st.one_of(
    st.tuples(_set, _set).map(lambda pair: (pair, {})),
    st.tuples(_set, _scores).map(lambda pair: ((pair[0],), {"score": pair[1]})),
)
TASKS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "regression": (OF_NUMBERS, {}, NUMBERS),
    "multilabel": (OF_SETS, {"labels": LABELS}, SETS),
    "multilabel of discovered labels": (OF_SETS, {}, SETS),
}


def by_definition(ev: se.Evaluator, name: str) -> float:
    """The metric of states that were written and read, which no compiled code counts in."""
    states = ev.total._window.current()
    row = find(name, ev.plan.task)
    read = [STATES[state].restored(states.plan, states.form(state)) for state in row.states]
    return row.bind()(*read)


@pytest.mark.skipif(se.backend() == "portable", reason="nothing is compiled")
@pytest.mark.parametrize("kind", TASKS)
@settings(max_examples=200)
@given(data=st.data())
def test_each_event_and_each_read(kind: str, data: Any) -> None:
    strategy, options, names = TASKS[kind]
    window = data.draw(st.sampled_from([None, "last:4"]))
    weights = st.sampled_from([1, 1, 1, 2, 2**33]) if window else _weight
    ev = se.Evaluator(task=kind.partition(" ")[0], window=window, **options)
    kept: list[Any] = []
    events = data.draw(st.lists(st.tuples(strategy, weights), min_size=1, max_size=12))
    for (args, more), weight in events:
        ev.update(*args, weight=weight, **more)
        kept.append((args, {**more, "weight": weight}))
        whole = all(one["weight"] != 0.5 for _, one in kept)
        if window is None and whole and data.draw(st.integers(0, 5)) == 0:
            args, more = kept.pop(data.draw(st.integers(0, len(kept) - 1)))
            ev.revert(*args, **more)
        for name in names:
            value, wanted = ev[name], by_definition(ev, name)
            assert value == wanted or (value != value and wanted != wanted), name
    # The same events in Python alone, in other calls.
    plain = se.Evaluator(task=ev.task, window=window, **options)
    plain._fast = False
    for args, more in kept:
        plain.update(*args, **more)
    if all(more["weight"] != 0.5 for _, more in kept):
        assert plain.to_bytes() == ev.to_bytes()
    states = ev.total._window.current()
    assert isinstance(states, StateSet)
    states._check()


@pytest.mark.skipif(se.backend() == "portable", reason="nothing is compiled")
@settings(max_examples=50)
@given(
    size=st.sampled_from([63, 64, 511, 512, 513, 1100]),
    seed=st.integers(0, 2**32 - 1),
    exponents=st.tuples(st.integers(-110, -24), st.integers(-110, -24), st.integers(1, 20)),
    others=st.lists(st.tuples(st.integers(0, 62), _number, _number), max_size=4),
)
def test_a_batch_is_its_events(size, seed, exponents, others):
    """A block of numbers has the sums of its events, whichever of them it cannot hold."""
    draw = np.random.default_rng(seed)
    digits = draw.integers(-(2**53), 2**53, (2, size)).astype(float)
    *lowest, spread = exponents
    true, predicted = np.ldexp(digits, draw.integers(0, spread, (2, size)) + np.c_[lowest])
    for at, one, other in others:
        true[at], predicted[at] = one, other
    at_once, one_by_one = ErrorSums(), ErrorSums()
    at_once.update_many(true, predicted)
    for pair in zip(true.tolist(), predicted.tolist(), strict=True):
        one_by_one.update(*pair)
    assert at_once == one_by_one


# Several classes ---------------------------------------------------------------------------


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
def test_a_plain_event_is_what_validation_makes_of_it(y_true, y_pred, proba, weight, closed):
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
def test_sums_have_the_bits_of_python(events, bins, data, fractions):
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
