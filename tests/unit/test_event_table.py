"""Tables that engines cut into parts: every carrier, every cut and every order, the same bytes."""

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
def test_every_carrier_gives_the_same_bytes(case: Case) -> None:
    """Each part of a table is in another carrier."""
    expected = case.expected().to_bytes()
    *cuts, last = map(range, (0, 1, 30, 60, 110), (1, 30, 60, 110, case.rows))
    made = zip(CARRIERS.values(), cuts, strict=True)
    parts = [carrier(case.part([*rows])) for carrier, rows in made] + [case.records([*last])]
    assert counted(case, parts).to_bytes() == expected
    assert counted(case, parts[::-1]).to_bytes() == expected


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


@pytest.mark.parametrize("name", ["weights and slices", "panes", "a column a label"])
def test_files_are_parts(tmp_path: Path, name: str) -> None:
    case = BY_NAME[name]
    parquet, lines = tmp_path / "a.parquet", tmp_path / "b.jsonl"
    pd.DataFrame(case.part(list(range(100)))).to_parquet(parquet)
    records = case.records(list(range(100, case.rows)))
    lines.write_text("".join(json.dumps(record, default=str) + "\n" for record in records))
    assert counted(case, [parquet, str(lines)]) == case.expected()


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


def test_fields_inside_a_record() -> None:
    counter = PartCounter.of(y_true="meta.label", score="out.p", by=["meta.c"])
    evaluator = counter.evaluator()
    one = {"meta": {"label": True, "c": "PT"}, "out": {"p": 0.5}}
    counter.count(evaluator, [one, {"meta": {"label": False}, "out": {"p": 0.25}}])
    assert evaluator["accuracy"] == 1.0
    assert [key[0][1] for key in evaluator.slices()] == ["(missing)", "PT"]


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
    parts = [pd.DataFrame({"p": p}) for p in ([0.1, 0.7], [0.4, 0.9])]
    *counted_, whole = (
        se.evaluate(part, y_true=None, score="p") for part in (*parts, pd.concat(parts))
    )
    assert se.merge(counted_).to_bytes() == whole.to_bytes()
