"""A set of states: what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.events.event import EventBatch
from streameval.states import class_scores
from streameval.states.confusion_parts import label_index
from streameval.states.state_set import StatePlan, StateSet
from tests.support.laws import assert_same

HEAVY = 2**53
LABELS = ("a", "b", "c")


def almost_full(task: Any) -> StateSet:
    """A state set that can hold less than :data:`HEAVY` more: of each class, if binary."""
    total = StateSet(StatePlan.everything(task))
    part = StateSet(total.plan)
    if task == "binary":
        part.update(1, 1, 0.75, HEAVY)
        part.update(0, 1, 0.25, HEAVY)
    else:
        part.update("a", "b", {"a": 0.25, "b": 0.75}, HEAVY)
    # 2**62 in all, shared by two classes where there are scores of each.
    total.merge(part)
    for _ in range(8 if task == "binary" else 7):
        part.merge(part.copy())
        total.merge(part)
    return total


@pytest.fixture
def most_labels(monkeypatch: pytest.MonkeyPatch) -> int:
    """A limit of labels that a test reaches quickly."""
    for module in (label_index, class_scores):
        monkeypatch.setattr(module, "MAX_CLASSES", 6)
    return 6


def crowded(count: int, keeps: tuple[str, ...] = ()) -> StateSet:
    """A multi-class state set of so many labels."""
    plan = (
        StatePlan("multiclass", frozenset(keeps)) if keeps else StatePlan.everything("multiclass")
    )
    state_set = StateSet(plan)
    codes = np.arange(count)
    labels = tuple(f"{code:06}" for code in range(count))
    state_set.update_many(EventBatch(codes, codes, np.ones((count, 1)), None, labels, labels[:1]))
    return state_set


def outcome(call: Any, *given: Any) -> str | None:
    try:
        call(*given)
    except InputError as error:
        return str(error)
    return None


def agree(state_set: StateSet, check: Any, update: Any, given: tuple[Any, ...]) -> str | None:
    """What both say; neither a check nor a refusal may change the state set."""
    before = state_set.to_state()
    checked = outcome(check, *given)
    assert_same(state_set.to_state(), before)
    assert outcome(update, *given) == checked
    if checked is not None:
        assert_same(state_set.to_state(), before)
    return checked


weights = st.sampled_from([1, 2, 2.5, HEAVY - 1, HEAVY])
binary = st.tuples(
    st.integers(0, 1), st.integers(0, 1), st.sampled_from([None, -3.0, 0.5]), weights
)
shares = st.sampled_from([None, {"a": 1.0}, {"b": 0.5, "c": 0.5}, {"a": 0.25, "b": 0.75, "c": 0.0}])
multiclass = st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS), shares, weights)


@given(st.lists(binary, max_size=4))
def test_check_says_what_update_of_a_binary_event_would_refuse(events: list[Any]) -> None:
    state_set = almost_full("binary")
    for event in events:
        agree(state_set, state_set.check, state_set.update, event)


@given(st.lists(multiclass, max_size=4))
@example([("b", "a", {"a": 1.0}, weight) for weight in (2.5, 1, 2**53)])
def test_check_says_what_update_of_a_multiclass_event_would_refuse(
    events: list[Any],
) -> None:
    state_set, twin = almost_full("multiclass"), almost_full("multiclass")
    for event in events:
        if agree(state_set, state_set.check, state_set.update, event) is None:
            twin.add(*event)  # what was checked is counted in the same way
    assert_same(twin.to_state(), state_set.to_state())


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), weights), min_size=1, max_size=4),
    st.booleans(),
)
def test_check_many_says_what_a_binary_batch_would_refuse(rows: list[Any], weighted: bool) -> None:
    state_set = almost_full("binary")
    true, predicted, weight = (np.array(column) for column in zip(*rows, strict=True))
    batch = EventBatch(true, predicted, np.full(len(rows), 0.5), weight if weighted else None)
    agree(state_set, state_set.check_many, state_set.update_many, (batch,))


def test_a_full_class_is_refused_and_the_other_is_not() -> None:
    state_set = almost_full("binary")
    refused = agree(state_set, state_set.check, state_set.update, (1, 1, 0.5, HEAVY))
    assert "at most 4611686018427387903" in str(refused)
    assert agree(state_set, state_set.check, state_set.update, (1, 1, None, HEAVY)) is None
    assert agree(state_set, state_set.check, state_set.update, (1, 1, 0.5, HEAVY - 1)) is None
    assert agree(state_set, state_set.check, state_set.update, (0, 1, 0.5, HEAVY - 1)) is None


KEPT = [(), ("confusion", "class_probability"), ("confusion",)]


@pytest.mark.parametrize("keeps", KEPT, ids=str)
@pytest.mark.parametrize("proba", [None, {"000000": 1.0}, {"000000": 0.5, "new": 0.5}])
def test_too_many_labels_are_refused_before_any_state_counts(
    most_labels: int, keeps: tuple[str, ...], proba: Any
) -> None:
    state_set = crowded(most_labels - 1, keeps)
    # One of the two labels would still be taken.
    refused = agree(state_set, state_set.check, state_set.update, ("new", "newer", proba, 1))
    assert f"at most {most_labels}" in str(refused)


@pytest.mark.parametrize("keeps", KEPT, ids=str)
@pytest.mark.parametrize("scored", [False, True])
def test_too_many_labels_of_a_batch_are_refused_before_any_state_counts(
    most_labels: int, keeps: tuple[str, ...], scored: bool
) -> None:
    state_set = crowded(most_labels - 1, keeps)
    batch = EventBatch(
        np.array([2, 0, 0]),
        np.array([2, 2, 1]),
        np.ones((3, 1)) if scored else None,
        None,
        ("new", "newer", "000001"),
        ("000001",),
    )
    refused = agree(state_set, state_set.check_many, state_set.update_many, (batch,))
    assert f"at most {most_labels}" in str(refused)


def test_a_label_that_no_event_of_the_batch_names_is_not_counted(most_labels: int) -> None:
    state_set = crowded(most_labels)
    batch = EventBatch(
        np.array([0]), np.array([0]), np.array([[1.0, 0.0]]), None,
        ("000001", "new"), ("000001", "new"), np.array([[True, False]]),
    )  # fmt: skip
    assert agree(state_set, state_set.check_many, state_set.update_many, (batch,)) is None


@pytest.mark.parametrize("window", [None, se.Last(9), se.Panes("1h"), se.Fading(9)], ids=repr)
@pytest.mark.parametrize("proba", [None, {"a": 0.5, "new": 0.5}])
def test_labels_of_a_refused_event_are_not_known(most_labels: int, window: Any, proba: Any) -> None:
    one = se.Evaluator(task="multiclass", window=window, time_unit="s", slices=("k",))
    plain = se.Evaluator(task="multiclass", window=window, time_unit="s")
    for label in "abcde":
        for evaluator in (one, plain):
            evaluator.update(label, label, event_time=1, slices={"k": 1})
    # One of the two new labels would still be taken.
    given = {"y_true": "new", "y_pred": "newer", "proba": proba, "event_time": 1}
    given["slices"] = {"k": 1}
    rows = {name: value if value is None else [value] for name, value in given.items()}
    rows["slices"] = {"k": [1]}
    for evaluator in (one, plain):
        before = evaluator.to_bytes()
        for refuse in (
            lambda evaluator=evaluator: evaluator.update(**given),
            lambda evaluator=evaluator: evaluator.update_many(**rows),
            lambda evaluator=evaluator: evaluator.revert(**given),
        ):
            with pytest.raises(InputError):
                refuse()
            assert evaluator.labels == list("abcde")
        assert evaluator.to_bytes() == before


def test_the_negative_label_of_a_refused_event_is_not_known() -> None:
    one = se.Evaluator(positive="spam", slices=("k",))
    with pytest.raises(InputError):
        one.update("ham", score=0.5, slices=3)
    with pytest.raises(InputError):
        one.update_many(["ham"], score=[0.5], slices={"k": ["a", "b"]})
    assert one.labels == ["not spam", "spam"]
    one.update("eggs", score=0.5, slices={"k": 1})
    assert one.labels == ["eggs", "spam"]


@pytest.mark.parametrize(
    ("options", "name", "other"),
    [
        ({"intervals": True}, "label_weights", "confusion"),
        ({"intervals": True}, "score_weights", "index"),
        ({"task": "multiclass", "intervals": True}, "class_probability", "class_scores"),
        ({"task": "multiclass", "intervals": True}, "class_scores", "class_probability"),
    ],
)
def test_states_of_one_set_count_the_same_events(
    options: dict[str, Any], name: str, other: str
) -> None:
    few, many = (se.Evaluator(**options) for _ in range(2))
    for ev, events in ((few, 2), (many, 5)):
        for n in range(events):
            if ev.task == "binary":
                ev.update(n % 2, score=n / 8)
            else:
                ev.update("a", proba={"a": 0.5 + n / 16, "b": 0.5 - n / 16})
    data = few.to_state()
    data["window"][name] = many.to_state()["window"][name]
    with pytest.raises(se.StateError, match=f"expected events of weight .* as in ({name}|{other})"):
        se.Evaluator.from_state(data)


def test_a_comparison_and_its_models_count_the_same_events() -> None:
    few, many = se.Comparison(), se.Comparison()
    for comparison, events in ((few, 2), (many, 5)):
        for n in range(events):
            comparison.update(n % 2, score={"champion": n / 8, "challenger": n / 9})
    data = few.to_state() | {"joint": many.to_state()["joint"]}
    with pytest.raises(se.StateError, match=r"joint: expected weight 2 of .*, got 5"):
        se.Comparison.from_state(data)
