"""Event columns agree with the list of their events, however they are cut, joined and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.evaluator.evaluator import Evaluator
from streameval.records import event_columns
from streameval.records.event_columns import EventColumns, arguments, count_events, joined

Event = dict[str, Any]

NAMES = ("y_true", "score", "time", "slice:country")

EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            # "eggs" is a third label of a binary task, and nan no score: both are refused.
            "y_true": st.sampled_from(["spam", "ham", "eggs"]),
            "score": st.sampled_from([0.25, 0.5, float("nan")]),
            "time": st.integers(0, 9),
            "slice:country": st.sampled_from(["PT", "DE", None]),
        }
    ),
    max_size=30,
)


def columns(rows: list[Event], first: int = 0) -> EventColumns:
    made: dict[str, Any] = {name: [row[name] for row in rows] for name in NAMES}
    made["score"] = np.asarray(made["score"], dtype=np.float64)
    made["time"] = np.asarray(made["time"], dtype=np.int64)
    return EventColumns(made, range(first, first + len(rows)))


def same(found: EventColumns, rows: list[Event], places: list[int]) -> bool:
    assert list(found.places) == places
    assert found.rows == len(rows)
    # As text: nan is not equal to itself.
    return str(list(found.events())) == str([{name: row[name] for name in NAMES} for row in rows])


@given(EVENTS, st.data())
def test_events_taken_are_those_of_the_list(rows: list[Event], data: st.DataObject) -> None:
    whole = columns(rows, first=7)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
    assert same(whole.select(slice(start, stop)), rows[start:stop], [*range(7 + start, 7 + stop)])
    mask = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    kept = [n for n, keep in enumerate(mask) if keep]
    for coded in (whole, whole.coded()):
        found = coded.select(np.asarray(mask, dtype=np.bool_))
        assert same(found, [rows[n] for n in kept], [7 + n for n in kept])
    order = data.draw(st.permutations(range(len(rows))))
    found = whole.select(np.asarray(order, dtype=np.int64))
    assert same(found, [rows[n] for n in order], [7 + n for n in order])


@given(st.lists(EVENTS, max_size=5))
def test_joined_events_are_those_of_the_parts(parts: list[list[Event]]) -> None:
    found = joined([columns(part, first=10 * n) for n, part in enumerate(parts)])
    places = [10 * n + place for n, part in enumerate(parts) for place in range(len(part))]
    assert same(found, [row for part in parts for row in part], places)


def test_columns_of_different_types_are_joined_without_converting_a_value() -> None:
    proba = {"a": np.asarray([0.5]), "b": np.asarray([0.5])}
    parts = [
        EventColumns({"id": ["x"], "y_true": np.asarray([1]), "proba": proba}, range(1)),
        EventColumns({"id": [], "y_true": [], "proba": []}, range(0)),
        EventColumns({"y_true": ["1"], "proba": proba}, range(1)),
    ]
    shares = {"proba": {"a": 0.5, "b": 0.5}}
    assert [*joined(parts).events()] == [{"y_true": 1} | shares, {"y_true": "1"} | shares]
    # A part without events leaves the others arrays.
    some = [EventColumns({"y_true": part}, range(len(part))) for part in ([], np.asarray([1]), [])]
    assert isinstance(joined(some).columns["y_true"], np.ndarray)


@pytest.mark.parametrize("coded", [False, True])
@given(rows=EVENTS)
def test_each_event_is_counted_or_yielded_with_its_error(coded: bool, rows: list[Event]) -> None:
    options: Any = {"positive": "spam", "labels": ["spam", "ham"], "slices": ("country",)}
    one, many = Evaluator(**options), Evaluator(**options)
    refused = {}
    for row, event in enumerate(rows):
        try:
            one.update(**arguments(event))
        except InputError as error:
            refused[row] = str(error)
    events = columns(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_columns, "_ONE_BY_ONE", 2)
        found = dict(count_events(many, events.coded() if coded else events))
    assert {row: str(error) for row, error in found.items()} == refused
    assert list(found) == sorted(found)
    assert many.to_bytes() == one.to_bytes()


LABELS: list[dict[str, Any]] = [
    {},
    {"positive": 0},
    {"positive": 1, "labels": [-1, 1]},
    {"positive": 0, "labels": [0, 2]},
    {"positive": "1"},
    {"task": "multiclass"},
    {"task": "multiclass", "labels": [0, 1]},
]


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "u8", "f4", "f8", "O"])
@given(data=st.data(), options=st.sampled_from(LABELS), predicted=st.booleans())
def test_a_column_of_labels_is_the_list_of_them(
    data: Any, options: dict[str, Any], dtype: str, predicted: bool
) -> None:
    low = 0 if dtype in ("?", "u1", "u8") else -1
    column = np.array(data.draw(st.lists(st.integers(low, 1), max_size=3)), dtype=dtype)
    other = [options.get("positive", options.get("labels", [1])[0])] * len(column)
    empty = se.Evaluator(**options).to_bytes()

    def pair(labels: Any) -> tuple[Any, Any]:
        return (other, labels) if predicted else (labels, other)

    listed = pair(column.tolist())

    def one_by_one(ev: Any) -> None:
        fresh = ev.copy()
        for true, guess in zip(*pair(column), strict=True):
            fresh.update(true, guess)
        ev.merge(fresh)

    def of_models(ev: Any) -> None:
        true, guess = pair(column)
        comparison = se.Comparison(**options)
        comparison.update_many(true, {"champion": guess, "challenger": guess})
        ev.merge(comparison.reference)

    def taken_back(ev: Any) -> None:
        ev.update_many(*listed).update_many(*listed)
        for true, guess in zip(*pair(column), strict=True):
            ev.revert(true, guess)

    def outcome(call: Any) -> bytes | None:
        """The bytes, or none of a call that is refused."""
        ev = se.Evaluator(**options)
        try:
            call(ev)
        except InputError:
            assert ev.to_bytes() == empty
            return None
        return ev.to_bytes()

    expected = outcome(lambda ev: ev.update_many(*listed))
    for call in (lambda ev: ev.update_many(*pair(column)), one_by_one, of_models, taken_back):
        assert outcome(call) == expected, call
