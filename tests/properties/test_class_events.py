"""Compiled multi-class events against the Python code that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import Evaluator
from streameval.errors import InputError
from streameval.states import class_probability, class_scores
from streameval.states.backend import backend
from streameval.states.class_events import COMPILED, plain_event
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.sums.loss_terms import event_terms, loss_units
from streameval.tasks.multiclass import ClassInput
from tests.support.class_batch import class_batch


def test_it_is_compiled_with_the_index() -> None:
    assert (COMPILED is not None) is (backend() == "native")


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
        st.lists(st.sampled_from([0, 1, 1, 2, 3, 2**-40]), min_size=3, max_size=3),
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


@settings(max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 2**32),
    st.sampled_from([None, 1, 2]),
)
def test_batches_have_the_bits_of_single_events(
    classes: int, size: int, seed: int, weight: int | None
) -> None:
    rng = np.random.default_rng(seed)
    parts = rng.choice([0.0, 1.0, 2.0, rng.random()], (size, classes))
    parts[:, rng.integers(classes)] += 1.0
    matrix = parts / parts.sum(axis=1, keepdims=True)
    labels = rng.permutation(classes + 1)
    true = rng.choice(labels, size)
    predicted = rng.choice(labels, size) if seed % 2 else None
    weights = None if weight is None else [weight] * size
    batch = class_batch(true, matrix, labels[:classes].tolist(), weights, predicted)
    whole, single = ClassProbabilitySums(4), ClassProbabilitySums(4)
    with mock.patch.object(class_probability, "COMPILED", None):
        portable = ClassProbabilitySums(4)
    for sums in (whole, portable):
        sums.update_many(batch)
    turned = replace(batch, score=np.asfortranarray(batch.score))
    by_column = ClassProbabilitySums(4)
    by_column.update_many(turned)
    assert by_column == whole
    for event in batch.events():
        single.update(event.y_true, event.score, event.weight, event.y_pred)
    assert whole.to_state() == portable.to_state() == single.to_state()


def _refusal(method: Callable[..., None], **event: Any) -> str:
    """What an event is refused with; empty where it is not."""
    try:
        method(**event)
    except InputError as error:
        return str(error)
    return ""


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.sampled_from([None, None, 1024]))
def test_the_fast_path_counts_an_event_as_the_states_do(
    seed: int, closed: bool, ranked_only: bool, max_scores: int | None
) -> None:
    rng = Random(seed)
    options: dict[str, Any] = {"bins": 4, "max_scores": max_scores}
    options["labels"] = ["a", "b", "c"] if closed else None
    options["metrics"] = ["roc_auc_ovr", "accuracy"] if ranked_only else None
    with mock.patch.object(class_scores, "_EVENTS_MOST", 5):
        together, apart = (Evaluator("multiclass", **options) for _ in range(2))
        apart._fast = False
        for _ in range(50):
            shares = [rng.choice([0.0, 1.0, rng.random()]) + 2**-9 for _ in "abc"]
            named = rng.choice(["abc"] * 8 + ["ab", "d"])
            proba = {
                label: share / sum(shares) for label, share in zip(named, shares, strict=False)
            }
            event: dict[str, Any] = {"y_true": rng.choice("aaabbbcccd"), "proba": proba}
            event["y_pred"] = rng.choice([*"aaabbbcccz", None, None])
            event["weight"] = rng.choice([1] * 16 + [2, 2, 2**40, 0.5])
            refused = _refusal(together.update, **event)
            assert refused == _refusal(apart.update, **event)
            step = rng.choice(["", "", "read", "read", "revert", "merge", "copy"])
            if step == "read":
                for name in ("roc_auc_ovr", "accuracy"):
                    assert repr(together[name]) == repr(apart[name])
            elif step == "revert" and not refused and apart.has_whole_weights:
                together.revert(**event)
                apart.revert(**event)
            elif step == "merge" and apart.confusion.total < 2**45:
                together.merge(together.copy(), allow_overlap=True)
                apart.merge(apart.copy(), allow_overlap=True)
            elif step == "copy":
                together = together.copy()
        assert together.to_bytes() == apart.to_bytes()
        together._check()


@pytest.mark.skipif(COMPILED is None, reason="of the compiled code")
@given(st.one_of(st.floats(0.0, 1.0), st.sampled_from([2.0**-52, 1 - 2.0**-53, 5e-324, 2**-0.5])))
@settings(max_examples=300)
def test_losses_are_those_of_the_portable_logarithm(given_share: float) -> None:
    assert COMPILED is not None
    terms = COMPILED.NativeClassTerms([0.5])
    assert terms.count("a", {"a": given_share}, "a")
    loss, brier, ranks, _ = terms.take()
    assert (loss, brier) == event_terms("a", {"a": given_share}, "a")[:2]
    assert loss == loss_units(given_share)
    assert ranks == [(0, 1)]
    assert terms.take() is None
