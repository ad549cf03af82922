"""A set of states: what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.events.event import EventBatch
from streameval.states import class_scores
from streameval.states.confusion_parts import label_index
from streameval.states.state_set import StatePlan, StateSet
from tests.support.laws import assert_same

HEAVY = 2**53


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
def six_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of labels that a test reaches quickly."""
    for module in (label_index, class_scores):
        monkeypatch.setattr(module, "MAX_CLASSES", 6)


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
shares = st.sampled_from([None, {"a": 1.0}, {"b": 0.5, "c": 0.5}, {"a": 0.25, "b": 0.75, "c": 0.0}])
labels, flags = st.sampled_from("abc"), st.integers(0, 1)
lists = {
    "binary": st.lists(
        st.tuples(flags, flags, st.sampled_from([None, -3.0, 0.5]), weights), max_size=4
    ),
    "multiclass": st.just([("b", "a", {"a": 1.0}, weight) for weight in (2.5, 1, HEAVY)])
    | st.lists(st.tuples(labels, labels, shares, weights), max_size=4),
}


@pytest.mark.parametrize("task", lists)
@given(data=st.data())
def test_check_says_what_update_would_refuse(task: str, data: st.DataObject) -> None:
    state_set, twin = almost_full(task), almost_full(task)
    for event in data.draw(lists[task]):
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


@pytest.mark.parametrize(
    ("window", "metrics", "proba"),
    [
        (None, None, None),
        (se.Last(9), None, {"a": 0.5, "new": 0.5}),
        (se.Panes("1h"), ["accuracy"], {"a": 1.0}),
        (se.Fading(9), ["accuracy", "log_loss"], {"a": 0.5, "new": 0.5}),
        (None, ["accuracy", "log_loss"], {"a": 0.5, "new": 0.5}),
    ],
)
@pytest.mark.usefixtures("six_labels")
def test_labels_of_a_refused_event_are_not_known(window: Any, metrics: Any, proba: Any) -> None:
    ev = se.Evaluator("multiclass", window=window, time_unit="s", metrics=metrics, slices=("k",))
    for label in "abcde":
        ev.update(label, label, proba={label: 1.0}, event_time=1, slices={"k": 1})
    before = ev.to_bytes()
    # One of the two new labels would still be taken.
    given = {"y_true": "new", "y_pred": "newer", "proba": proba, "event_time": 1}
    rows = {name: value if value is None else [value] for name, value in given.items()}
    for verb, named, k in (("update", given, 1), ("update_many", rows, [1]), ("revert", given, 1)):
        with pytest.raises(InputError):
            getattr(ev, verb)(**named, slices={"k": k})
        assert ev.labels == list("abcde")
        assert ev.to_bytes() == before


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
    few, many = se.Evaluator(**options), se.Evaluator(**options)
    for ev, events in ((few, 2), (many, 5)):
        share = np.arange(events) / 8
        if ev.task == "binary":
            ev.update_many(np.arange(events) % 2, score=share)
        else:
            ev.update_many(["a"] * events, proba={"a": share, "b": 1 - share})
    data = few.to_state()
    data["window"][name] = many.to_state()["window"][name]
    with pytest.raises(se.StateError, match=f"expected events of weight .* as in ({name}|{other})"):
        se.Evaluator.from_state(data)


def test_a_comparison_and_its_models_count_the_same_events() -> None:
    few, many = (
        se.Comparison().update_many([1] * n, score={"champion": [0.5] * n, "challenger": [1] * n})
        for n in (2, 5)
    )
    data = few.to_state() | {"joint": many.to_state()["joint"]}
    with pytest.raises(se.StateError, match=r"joint: expected weight 2 of .*, got 5"):
        se.Comparison.from_state(data)
