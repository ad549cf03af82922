"""Slices: totals, keys, combinations, overflow, reports, shards, and one watermark for all."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, StateError
from streameval.evaluator.slices import MISSING, OTHER, SliceKey, slice_name

DIMENSIONS = ("country", ("country", "model"))
WINDOWS = [None, se.Last(25), se.Panes("1h", "10m", "20m"), se.Fading("30m")]


def opened(window: Any = None, **options: Any) -> se.Evaluator:
    return se.Evaluator(window=window, slices=DIMENSIONS, time_unit="s", **options)


def test_a_hostile_stream_fills_one_slice() -> None:
    ev = se.Evaluator(slices=("user", "country"), max_slices=50)
    for n in range(500):
        ev.update(n % 2, 1, slices={"user": f"u{n}", "country": "PT"})
    ev.update_many([1] * 2000, [1] * 2000, slices={"user": range(2000), "country": ["PT"] * 2000})
    assert len(ev.slices()) == 51
    other = (("user", OTHER),)
    assert ev.slices()[other].report(["accuracy"]).rows[0].support == 2451
    assert ev.slices_overflowed == 2451
    # The value itself, out of the stream, is counted there too.
    ev.update(1, 1, slices={"user": OTHER, "country": "PT"})
    assert ev.slices()[other].report(["accuracy"]).rows[0].support == 2452
    assert ev.slices_overflowed == 2451
    ev.revert(1, 1, slices={"user": "u499", "country": "PT"})
    assert ev.slices()[other].report(["accuracy"]).rows[0].support == 2451
    assert list(ev.slices())[-1] == other
    ev._check()
    # In a fresh evaluator it is not counted as a slice either.
    few = se.Evaluator(slices=("country",), max_slices=1)
    for country in (OTHER, "PT", "DE", OTHER):
        few.update(1, 1, slices={"country": country})
    assert [slice_name(key) for key in few.slices()] == ["country=PT", f"country={OTHER}"]
    assert few.slices_overflowed == 1


def test_the_report_puts_the_worst_first() -> None:
    ev = se.Evaluator(slices=("country",))
    for country, right, wrong in [("PT", 9, 1), ("DE", 5, 5), ("FR", 1, 0), ("ES", 3, 1)]:
        column = {"country": [country] * (right + wrong)}
        ev.update_many([True] * (right + wrong), [1] * right + [0] * wrong, slices=column)
    ev.update(False, False, slices={"country": "IT"})

    def order(metric: str, **options: Any) -> list[str]:
        return [str(row.slice[0][1]) for row in ev.slice_report(metric, **options).rows]

    assert order("recall") == ["DE", "ES", "PT", "FR", "IT"]  # the last is undefined
    assert order("error_rate") == ["DE", "ES", "PT", "FR", "IT"]
    assert order("accuracy", worst=1, best=1) == ["DE", "IT"]
    assert order("accuracy", worst=0) == []
    assert order("accuracy", worst=9, best=9) == ["DE", "ES", "PT", "FR", "IT"]
    assert order("recall", worst=9) == ["DE", "ES", "PT", "FR"]
    report = ev.slice_report("accuracy", min_support=4)
    assert [row.support for row in report.rows] == [10, 4, 10]
    assert report.below_support == 2
    assert report.to_dict()["slices"][0] == {
        "slice": {"country": "DE"}, "value": 0.5, "support": 10
    }  # fmt: skip
    assert "left out for less support: 2" in str(report)
    assert "country=DE" in report.to_markdown()
    with pytest.raises(InputError, match="worst: expected a number of slices"):
        ev.slice_report("accuracy", worst=-1)


def test_what_is_no_slice() -> None:
    """The frozen texts of errors hold the other calls."""
    for bad, message in [
        ((("c", "m"), ("m", "c")), "slices: expected each combination once, in whichever order"),
        ((("country", "country"),), "slices: expected each name once"),
        (("",), "slices: expected names"),
    ]:
        with pytest.raises(InputError, match=message):
            se.Evaluator(slices=bad)  # type: ignore[arg-type]
    ev = se.Evaluator(slices=("country",))
    with pytest.raises(InputError, match=re.escape("slices['country'][1]: expected a str")):
        ev.update_many([1, 1], [1, 1], slices={"country": ["PT", ["DE"]]})
    with pytest.raises(InputError, match=re.escape("slices['country'][2]: expected a value other")):
        ev.update_many([1] * 3, [1] * 3, slices={"country": ["PT", None, MISSING]})
    assert ev.to_bytes() == se.Evaluator(slices=("country",)).to_bytes()


def supports(ev: se.Evaluator) -> dict[Any, Any]:
    return {
        tuple(value for _, value in key): view.report(["accuracy"]).rows[0].support
        for key, view in ev.slices().items()
    }


def test_a_number_and_its_text_are_one_slice() -> None:
    one, many = se.Evaluator(slices=("v",)), se.Evaluator(slices=("v",))
    values = [
        "1", 1, True, "x", np.int64(7), 1.0, "7", "007", "+7", "-0", "0", "-7", -7, "7.0",
        2**63, str(2**63), str(2**63 - 1), 2**63 - 1, -(2**63), str(-(2**63)), "٧", "",
    ]  # fmt: skip
    for value in values:
        one.update(1, 1, slices={"v": value})
    many.update_many([1] * len(values), [1] * len(values), slices={"v": values})
    assert one.to_bytes() == many.to_bytes()
    assert supports(one) == {
        (-(2**63),): 2, (-7,): 2, (0,): 1, (1,): 4, (7,): 2, (2**63 - 1,): 2,
        (str(2**63),): 2, ("x",): 1, ("007",): 1, ("+7",): 1, ("-0",): 1, ("7.0",): 1, ("٧",): 1,
        ("",): 1,
    }  # fmt: skip
    assert se.from_bytes(one.to_bytes()).to_bytes() == one.to_bytes()
    # No two slices look the same.
    assert len(set(map(slice_name, one.slices()))) == len(one.slices())


@pytest.mark.parametrize("window", [None, se.Panes("1h"), se.Last(5)], ids=repr)
def test_an_old_state_may_hold_a_number_and_its_text(window: Any) -> None:
    ev = se.Evaluator(window=window, slices=("v",), time_unit="s")
    for second, value in enumerate([7, 7, "7x", "8x"]):
        ev.update(1, 1, event_time=second, slices={"v": value})
    state = ev.to_state()
    for item in state["slices"]:
        if item["key"] != [["v", 7]]:
            item["key"][0][1] = item["key"][0][1][0]
    old = se.Evaluator.from_state(state)
    old._check()
    if isinstance(window, se.Last):  # two rings have no common order
        assert supports(old) == {(7,): 2, (8,): 1, ("7",): 1}
        assert list(map(slice_name, old.slices())) == ["v=7", "v=8", "v='7'"]
    else:
        assert supports(old) == {(7,): 3, (8,): 1}
        old.revert(1, 1, event_time=2, slices={"v": "7"})
        assert supports(old) == {(7,): 2, (8,): 1}
    assert se.from_bytes(old.to_bytes()).to_bytes() == old.to_bytes()


NO_TIME = np.datetime64("NaT", "s")
GAPS: list[Any] = [None, math.nan, np.float64("nan"), NO_TIME, pd.NA, pd.NaT]
ABSENT = object()


@pytest.mark.parametrize("most", [2, 8])
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_an_event_without_a_slice_value_counts_in_the_total(window: Any, most: int) -> None:
    one, many = opened(window, max_slices=most), opened(window, max_slices=most)
    plain = se.Evaluator(window=window, time_unit="s")
    countries, models = [*GAPS, "PT", "7", 7, ABSENT, "DE"], ["a", ABSENT, 1, "1", *GAPS, "a"]
    rights = [n % 3 == 0 for n in range(len(countries))]
    for second, (country, model, right) in enumerate(zip(countries, models, rights, strict=True)):
        values = {"country": country, "model": model}
        values = {key: value for key, value in values.items() if value is not ABSENT}
        one.update(True, right, event_time=second, slices=values)
        plain.update(True, right, event_time=second)
    gone: Any = [[None if value is ABSENT else value for value in of] for of in (countries, models)]
    columns = dict(zip(("country", "model"), gone, strict=True))
    many.update_many([True] * 11, rights, event_time=list(range(11)), slices=columns)
    assert one.to_bytes() == many.to_bytes()
    assert one.retained["slices"] <= most + 2
    assert str(one.report()) == str(plain.report())
    if not isinstance(window, se.Fading):
        assert sum(n for key, n in supports(one).items() if len(key) == 1) == 11
    one._check()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([1, None, 2]), {1: 1, 2: 1, MISSING: 1}),
        (pd.Series(["a", None, pd.NA], dtype="string"), {"a": 1, MISSING: 2}),
        (pd.Series(pd.Categorical(["a", None])), {"a": 1, MISSING: 1}),
        (pd.array([2**62 + 1, None], dtype="Int64"), {2**62 + 1: 1, MISSING: 1}),
        (pa.array([2**62 + 1, None]), {2**62 + 1: 1, MISSING: 1}),
        (pa.array(["a", None]).dictionary_encode(), {"a": 1, MISSING: 1}),
        (pl.Series([2**62 + 1, None]), {2**62 + 1: 1, MISSING: 1}),
        (pl.Series(["a", None], dtype=pl.Categorical), {"a": 1, MISSING: 1}),
        (np.ma.array([1, 2], mask=[False, True]), {1: 1, MISSING: 1}),
        (np.array(["a", None, float("nan")], dtype=object), {"a": 1, MISSING: 2}),
    ],
    ids=range(10),
)
def test_every_column_type_may_have_gaps(column: Any, expected: dict[Any, int]) -> None:
    ev = se.Evaluator(slices=("v",))
    ev.update_many([1] * len(column), [1] * len(column), slices={"v": column})
    assert supports(ev) == {(value,): count for value, count in expected.items()}
    # A label that is masked or null is never taken for the value beneath.
    if any(value == MISSING for value in expected):
        with pytest.raises(InputError, match=re.escape("y_true[")):
            se.Evaluator("multiclass").update_many(column, [1] * len(column))


def test_a_revert_finds_its_slice_after_a_merge() -> None:
    def shard(countries: str) -> se.Evaluator:
        ev = se.Evaluator(slices=("country",), max_slices=1)
        for n, country in enumerate(countries):
            ev.update(n % 2, 1, slices={"country": country})
        return ev

    merged = se.merge([shard("ab"), shard("b")])
    assert merged.slices_overflowed == 2  # an event of b, and then the slice of b
    merged.revert(1, 1, slices={"country": "b"})
    merged.revert(0, 1, slices={"country": "b"})
    with pytest.raises(InputError):
        merged.revert(0, 1, slices={"country": "b"})
    merged._check()


def test_what_a_file_may_hold() -> None:
    ev = se.Evaluator(slices=("country",), max_slices=2)
    for country in "abc":
        ev.update(1, 1, slices={"country": country})
    state = ev.to_state()
    first, second, other = state["slices"]
    for saved, message in [
        ([second, first], "slices: expected them sorted"),
        ([first, first], "is there twice"),
        ([first, {**second, "key": [["town", "b"]]}], "slices: expected a slice of"),
        ([first, {"key": second["key"]}], "expected a key and a window"),
        ([first, second, {**other, "key": [["country", "z"]]}], "expected at most 2, got 3"),
        ({}, "slices: expected a list"),
    ]:
        with pytest.raises(StateError, match=message):
            se.Evaluator.from_state({**state, "slices": saved})
    with pytest.raises(StateError, match="slices_overflowed: expected a count"):
        se.Evaluator.from_state({**state, "slices_overflowed": -1})


_TEXT = st.text("ab=, \\'7-", min_size=1, max_size=7)
_KEYS = st.lists(st.tuples(_TEXT, _TEXT | st.integers(-9, 9)), min_size=1, max_size=3).map(tuple)


@given(_KEYS, _KEYS)
@example((("c", "x, m=y"),), (("c", "x"), ("m", "y")))
@example((("a=b", "c"),), (("a", "b=c"),))
@example((("c", "x\\"), ("m", "y")), (("c", "x\\, m=y"),))
@example((("c", "'7'"),), (("c", "7"),))
@settings(max_examples=200)
def test_no_two_slices_have_one_name(one: SliceKey, other: SliceKey) -> None:
    assert (slice_name(one) == slice_name(other)) == (one == other)
