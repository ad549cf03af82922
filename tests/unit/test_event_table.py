"""Event columns against the list of their events, and tables that engines cut into parts: every
carrier, every cut and every order, the same bytes.
"""

from __future__ import annotations

import importlib
import json
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as arrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, MissingExtraError
from streameval.records import event_columns
from streameval.records.event_columns import EventColumns, arguments, count_events, joined
from streameval.records.event_table import PartCounter
from tests.support.table_cases import Case, cases

CASES = cases(rows=200)
BY_NAME = {case.name: case for case in CASES}


CARRIERS: dict[str, Any] = {
    "columns": lambda columns: columns,
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns, infer_schema_length=None),
    "arrow": arrow.table,
}


def counted(case: Case, parts: list[Any]) -> se.Evaluator:
    counter = PartCounter.of(**case.keywords)
    shards = []
    for number, part in enumerate(parts):
        shards.append(counter.evaluator())
        counter.count(shards[-1], part, f"part {number}")
    return se.merge(shards)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_carrier_gives_the_same_bytes(case: Case, tmp_path: Path) -> None:
    """Each part of a table is in another carrier, or in a file."""
    edges = [0, 1, 30, 60, 90, 120, 160, case.rows]
    *cuts, inner, parquet, jsonl = map(range, edges, edges[1:])
    made = zip(CARRIERS.values(), cuts, strict=True)
    parts = [carrier(case.part([*rows])) for carrier, rows in made] + [case.records([*inner])]
    last = [pd.DataFrame(case.part([*parquet])), case.records([*jsonl])]
    if case.name not in ("a prefix", "columns of label sets"):  # refused of files
        last[0].to_parquet(tmp_path / "a.parquet")
        text = "".join(json.dumps(record, default=str) + "\n" for record in last[1])
        (tmp_path / "b.jsonl").write_text(text)
        last = [tmp_path / "a.parquet", str(tmp_path / "b.jsonl")]
    for shards in (parts + last, last + parts[::-1]):
        assert counted(case, shards).to_bytes() == case.expected().to_bytes()


@settings(max_examples=15)
@given(data=st.data(), name=st.sampled_from(sorted(BY_NAME)))
def test_every_cut_and_order_gives_the_same_bytes(data: Any, name: str) -> None:
    case = BY_NAME[name]
    seed = data.draw(st.integers(0, 2**32 - 1))
    rows = np.random.default_rng(seed).permutation(case.rows).tolist()
    cuts = sorted(data.draw(st.lists(st.integers(0, case.rows), max_size=6)))
    edges = zip([0, *cuts], [*cuts, case.rows], strict=True)
    parts = [pd.DataFrame(case.part(rows[n:m])) for n, m in edges]  # some of them empty
    assert counted(case, parts).to_bytes() == case.expected().to_bytes()


def test_more_records_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streameval.records.event_table.RECORDS", 7)
    case = BY_NAME["scores"]
    assert counted(case, [iter(case.records(list(range(case.rows))))]) == case.expected()
    counter = PartCounter.of(**case.keywords)
    bad = case.records(list(range(20)))
    bad[17]["p"] = None
    with pytest.raises(InputError, match=r"^score \(column 'p', part 3, row 17\): .* got None$"):
        counter.count(counter.evaluator(), bad, "part 3")
    bad[15] = 7
    with pytest.raises(InputError, match=r"^part 3, row 15: expected a dict"):
        counter.count(counter.evaluator(), bad, "part 3")


@pytest.mark.parametrize("name", ["y_true", "score", "proba", "weight", "unit", "by"])
def test_a_column_is_named(name: str) -> None:
    given: dict[str, Any] = {"y_true": "y", "y_pred": "guess", name: 5}
    with pytest.raises(InputError, match=f"^{name}: expected .*column.*, got 5"):
        PartCounter.of(**given, task="binary")


def test_mappings_and_pairs_of_probabilities() -> None:
    case = BY_NAME["a column a label"]
    columns = {label: case.columns[path] for label, path in case.keywords["proba"].items()}
    shares = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    counter = PartCounter.of(y_true="animal", proba="shares")
    kind = arrow.map_(arrow.string(), arrow.float64())
    pairs = arrow.array([list(share.items()) for share in shares], kind)
    for column in (shares, pd.Series(shares), arrow.array(shares), pairs):
        evaluator = counter.evaluator()
        counter.count_table(evaluator, {"animal": case.columns["animal"], "shares": column})
        assert evaluator == case.expected()
    known = BY_NAME["lists"]
    mixed = [[*share.values()] if n % 3 else share for n, share in enumerate(shares)]
    part = {"animal": known.columns["animal"], "shares": mixed}
    assert counted(known, [part]) == known.expected()


def test_fields_inside_a_record() -> None:
    counter = PartCounter.of(y_true="meta.label", score="out.p", by=["meta.c"])
    evaluator = counter.evaluator()
    one = {"meta": {"label": True, "c": "PT"}, "out": {"p": 0.5}}
    for record in (one, {"meta": {"label": False}, "out": {"p": 0.25}}):
        counter.count(evaluator, [record])
    assert evaluator["accuracy"] == 1.0
    assert [key[0][1] for key in evaluator.slices()] == ["(missing)", "PT"]


def test_the_keywords_of_the_call_over_any_table() -> None:
    """An option that is None was not given; one column may be named without a list."""
    none = ("positive", "labels", "threshold", "metrics", "window", "time", "max_scores")
    keywords = dict.fromkeys(none) | {"task": "auto", "by": "c", "y_true": "y", "score": "p"}
    assert PartCounter.of(**keywords) == PartCounter.of(y_true="y", score="p", by=["c"])
    replicated = {"y_true": "y", "score": "p", "bootstrap": se.Bootstrap(unit="user")}
    assert PartCounter.of(**replicated) == PartCounter.of(**replicated, unit="user")
    assert PartCounter.of(y_true="y", score="p", by=iter("c")).spec.slice_fields == ("c",)


TABLE = {"y": [True, False], "p": [0.5, 0.25], "s": [[0.5, 0.5], [1.0]]}
NO_LIST = "expected numbers, mappings from labels, or lists in the order of labels=, got the text"


@pytest.mark.parametrize(
    ("keywords", "part", "message"),
    [
        ({"score": "q"}, TABLE, "score (column 'q', part 0): expected a column 'q', got none"),
        ({"proba": "q_*"}, TABLE, "proba (column 'q_*', part 0): expected columns named q_LABEL, "),
        ({"score": "p"}, {"y": [1], "p": [np.nan]}, "score (column 'p', part 0, row 0): expected"),
        ({"score": "p"}, {"y": ["a"], "p": [1.0]}, "y_true (column 'y', part 0"),
        ({"proba": "s"}, TABLE, "proba (column 's', part 0): expected labels, got no labels; pass"),
        ({"proba": "s"}, {"y": ["a"], "s": ["[.5]"]}, f"proba (column 's', part 0): {NO_LIST}"),
        (
            {"proba": "s", "labels": [False, True]},
            TABLE,
            "proba (column 's', part 0, row 1): expected 2 probabilities, one of each of labels=",
        ),
        ({"score": "p"}, [1, 2], "part 0, row 0: expected a dict with the names of columns, got 1"),
        ({"score": "p"}, 7, "part 0: expected a table, the path of a file, or a list of dicts"),
        ({"score": "p"}, "no.jsonl", "no.jsonl: expected a file, got no such file"),
    ],
)
def test_bad_parts(keywords: dict[str, Any], part: Any, message: str) -> None:
    counter = PartCounter.of(y_true="y", **keywords)
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        counter.count(counter.evaluator(), part, "part 0")


def test_bad_rows_are_named_by_their_place_and_events_without_one_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"y": true, "p": 0.5}\n{"y": true}\n')
    counter = PartCounter.of(y_true="y", score="p")
    with pytest.raises(InputError, match=r"a.jsonl:2: p: expected a finite number"):
        counter.count(counter.evaluator(), path)
    with pytest.raises(InputError, match=r"^score \(column 'p', event {'y': 1, 'p': nan}\)"):
        counter.count_events(counter.evaluator(), [{"y": 1, "p": 0.5}, {"y": 1, "p": np.nan}])
    # By the place in the table and not in time.
    counter = PartCounter.of(y_true="y", score="p", time="t", time_unit="s", window=se.Panes("1h"))
    table = {"y": [1, 0, 1], "p": [np.inf, 0.5, 0.5], "t": [1.7e9 + 9, 1.7e9 + 5, 1.7e9]}
    with pytest.raises(InputError, match=r"^score \(column 'p', part 2, row 0\)"):
        counter.count(counter.evaluator(), table, "part 2")


@pytest.mark.parametrize(
    ("engine", "package", "feature"),
    [("dask", "dask.delayed", "streameval on Dask"), ("beam", "apache_beam", "EvaluateFn")],
)
def test_an_engine_that_is_not_installed_is_named_with_its_extra(
    engine: str, package: str, feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"streameval.integrations.{engine}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as raised:
        importlib.import_module(f"streameval.integrations.{engine}")
    message = str(raised.value)
    assert message.startswith(f"{feature} needs the package ")
    assert message.endswith(f"run: pip install 'streameval[{engine}]'")
    # An engine's workers send their errors.
    assert str(pickle.loads(pickle.dumps(raised.value))) == message


def test_predictions_without_labels_are_refused_with_what_counts_them() -> None:
    with pytest.raises(InputError) as raised:
        PartCounter.of(y_true=None, score="p")
    assert str(raised.value) == (
        "y_true: expected the column of the true labels, which engines require, got None; count "
        "each part's predictions with streameval.evaluate(part, y_true=None, ...), and merge these "
        "with streameval.merge"
    )


# Columns

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
    assert (list(found.places), found.rows) == (places, len(rows))
    # As text: nan is not equal to itself.
    return str([*found.events()]) == str([{name: row[name] for name in NAMES} for row in rows])


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
    one, many = se.Evaluator(**options), se.Evaluator(**options)
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


LABELS: list[dict[str, Any]] = [{}, {"positive": 0}, {"positive": "1"}, {"task": "multiclass"}]
LABELS += [{"positive": 1, "labels": [-1, 1]}, {"positive": 0, "labels": [0, 2]}]
LABELS += [{"task": "multiclass", "labels": [0, 1]}]


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
