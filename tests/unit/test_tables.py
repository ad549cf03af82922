"""``evaluate`` over any table: the same events give the same bytes, whatever carried them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as arrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from scipy.sparse import csr_matrix

import streameval as se
from streameval.cli import main
from streameval.errors import InputError, MissingExtraError, OptionError
from streameval.state_files.codec import decompressed
from tests.support.carried_events import CASES
from tests.support.table_carriers import CARRIERS

OWN_TYPES = {"dict", "pandas", "polars", "arrow reader", "csv", "jsonl"}
"""Carriers that read columns of each type in their own way; the others give theirs to these."""


@pytest.mark.parametrize("name", CASES)
def test_every_carrier_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    case, turn = CASES[name], list(CASES).index(name)
    expected, table = case.state(), case.table()
    differing = [
        carrier
        for number, (carrier, made) in enumerate(CARRIERS.items())
        if carrier not in case.without
        and (carrier in OWN_TYPES or (number + turn) % 5 == 0)
        and se.evaluate(made(table, _folder(tmp_path, number)), **case.call_on(carrier)).to_bytes()
        != expected
    ]
    assert differing == []


def _folder(parent: Path, number: int) -> Path:
    # The name is that of a folder of memory:// too, which all tests share.
    folder = parent / f"{parent.name}-{number}"
    folder.mkdir()
    return folder


def test_a_prefix_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = CARRIERS["memory://"](CASES["probabilities: prefix"].table(), tmp_path)
    state = tmp_path / "state"
    given = ["evaluate", str(path), "--y-true", "label", "--proba"]
    assert main([*given, "p_*", "--save", str(state)]) == 0
    assert decompressed(state.read_bytes()) == CASES["probabilities: prefix"].state()
    assert main([*given, "q_*"]) == 2
    assert "expected columns named q_LABEL, for --proba 'q_*'" in capfd.readouterr().err
    assert main(["evaluate", "-", "--proba", "q_*"]) == 2
    assert "name the fields: --proba LABEL=FIELD,LABEL=FIELD" in capfd.readouterr().err


def test_a_stream_is_read_in_bounded_memory() -> None:
    rows, batches, most = 1 << 16, 24, 0
    scores = arrow.array(np.arange(rows) % 1000 / 1000)
    schema = arrow.schema({"label": arrow.bool_(), "score": arrow.float64()})
    before = arrow.total_allocated_bytes()

    def stream() -> Iterator[arrow.RecordBatch]:
        nonlocal most
        for _ in range(batches):
            labels = arrow.compute.greater(scores, 0.3)
            fresh = arrow.compute.multiply(scores, 1.0)  # memory of its own
            most = max(most, arrow.total_allocated_bytes() - before)
            yield arrow.record_batch([labels, fresh], schema)

    reader = arrow.RecordBatchReader.from_batches(schema, stream())
    ev = se.evaluate(reader, y_true="label", score="score")
    assert ev.confusion.total == rows * batches
    assert most < rows * 8 * 8  # eight batches


def test_nested_fields_and_days_as_times() -> None:
    nested = arrow.table({"event": [{"label": "a", "guess": "b"}, {"label": "b", "guess": "b"}]})
    assert se.evaluate(nested, y_true="event.label", y_pred="event.guess")["accuracy"] == 0.5
    daily = polars.DataFrame(
        {"label": ["a", "b"], "score": [0.5, 0.5], "day": [date(2026, 3, 1), date(2026, 3, 2)]}
    )
    window = se.Panes("30d", pane="1d")
    timed = se.evaluate(daily, **SCORED, positive="a", time="day", window=window)
    assert timed.arrivals["on_time"] == 2


@pytest.mark.parametrize(("package", "name"), [("pyspark", "spark"), ("dask", "dask")])
def test_a_distributed_table_is_given_to_its_integration(
    monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    seen: dict[str, Any] = {}

    def evaluate(data: object, **given: Any) -> se.Evaluator:
        seen.update(given, data=data)
        return se.Evaluator()

    module = ModuleType(name)
    module.evaluate = evaluate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"streameval.integrations.{name}", module)
    kind = type("DataFrame", (), {"__module__": f"{package}.sql.dataframe"})
    data = type("Derived", (kind,), {"__module__": "mine"})()
    by, replicates = ["country"], se.Bootstrap(unit="user")
    se.evaluate(data, y_true="label", score="score", by=by, task="auto", bootstrap=replicates)
    assert seen.pop("data") is data
    # The engine has the same defaults, so it is given what differs from them.
    assert seen == {"y_true": "label", "score": "score", "by": by, "bootstrap": replicates}
    with pytest.raises(se.InputError, match=r"label_type: expected files, got a mine\.Derived"):
        se.evaluate(data, y_true="label", score="score", label_type="int")


@pytest.mark.parametrize(
    ("package", "data", "extra"),
    [
        ("narwhals", pandas.DataFrame({"label": [1], "score": [0.5]}), "tables"),
        ("pyarrow", arrow.table({"label": [1], "score": [0.5]}), "tables"),
        ("fsspec.core", "s3://bucket/a.csv", "remote"),
        ("gcsfs", "gs://bucket/*.csv", "gs"),
        ("aiohttp", "https://example.org/a.csv", "http"),
    ],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, data: object, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'streameval\[{extra}\]'"):
        se.evaluate(data, y_true="label", score="score")


FRAME = polars.DataFrame({"label": [1, 0, 1], "score": [0.1, 0.2, 0.3], "text": ["a", "b", "c"]})
SCORED: Mapping[str, Any] = {"y_true": "label", "score": "score"}
LISTS: Mapping[str, Any] = {"y_true": "text", "proba": np.ones((3, 3)) / 3, "labels": list("abc")}

# Of calls on the frame.
CALLS: list[tuple[dict[str, Any], str]] = [
    ({**SCORED, "y_true": "labl"}, "column 'labl', got none among label, score, text; did you"),
    ({"score": "score"}, "none among label, score, text; name the column of the true labels with"),
    ({**SCORED, "y_true": 3}, "y_true: expected the name of a column, got 3"),
    ({"y_true": {"a": "label"}, "y_pred": "label", "task": "multilabel"}, "pass 'a=label'"),
    ({**SCORED, "score": "text"}, "finite number in column 'text', got a column of type large_s"),
    ({**SCORED, "y_true": "text"}, "the labels of 'text' are 'a', 'b', 'c'; give positive=LABEL"),
    ({"y_true": "label", "proba": "p_*"}, "expected columns named p_LABEL, for proba='p_*', got"),
    ({**LISTS, "proba": np.ones((4, 3)) / 3}, "proba: expected a row for each of the table's"),
    ({**LISTS, "labels": ["a", "b"]}, "proba: expected 2 probabilities, of 'a', 'b', got 3"),
    ({**LISTS, "proba": ["p", "q"]}, "expected 3 fields, one for each of labels=, got 2: p, q"),
    ({**LISTS, "proba": {"a": 3}}, "proba: expected a column, 'prefix*', columns, or a mapping"),
    ({**SCORED, "by": 3}, "by: expected names, or tuples of names for combinations, got 3"),
    ({**SCORED, "by": "nope"}, "expected one column 'nope'"),
    ({**SCORED, "label_type": "int"}, "label_type: expected files, got a polars.DataFrame; leave"),
]
# Of scores and labels in columns of those names.
DATA: list[tuple[object, str]] = [
    (FRAME.lazy().rename({"score": "scoer"}), "did you mean 'scoer'?"),
    ({"score": [1]}, "data: expected one column 'label', got none among score"),
    (FRAME.head(0), "data: expected at least one row, got none; correct the filter"),
    (42, "a DuckDB relation, a mapping name -> array, a path, or a list of paths, got 42"),
    (FRAME["label"], "got a polars.Series"),
    (np.ones((3, 2)), "got a numpy.ndarray"),
    (pandas.DataFrame({"label": [1, None], "score": [1, 2]}), "label[1]: expected a label (text,"),
    (pandas.DataFrame({"label": [1, "a"], "score": [1, 2]}), "columns of one type each, got Could"),
    (polars.DataFrame({"label": [1, 0], "score": [1.0, None]}), "a finite number, got null"),
    (arrow.table([[1], [0], [0]], ["label", "score", "score"]), "got 2 among label, score, score;"),
    ("abfs://bucket/a.csv", "a URL of a scheme whose package is installed, got abfs: "),
    ("nope://bucket/a.csv", "got nope: Protocol not known: nope; correct the scheme"),
    ("memory://none/a.csv", "memory://none/a.csv: expected a file, got no such file"),
    ("memory://none/*.csv", "expected a pattern that some file matches, got no match"),
    ("none.csv", "none.csv: expected a file, got no such file"),
]


def test_bad_input_is_refused_in_one_sentence() -> None:
    rows = [(FRAME, *row) for row in CALLS] + [(data, SCORED, message) for data, message in DATA]
    ragged = polars.DataFrame({"text": ["a", "b"], "p": [[0.1, 0.2, 0.7], [0.1, 0.9]]})
    rows.append((ragged, {**LISTS, "proba": "p"}, "p[1]: expected a list of 3 probabilities, one"))
    for data, call, message in rows:
        with pytest.raises((se.InputError, OptionError)) as caught:
            se.evaluate(data, **call)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    """The frozen texts of bad records hold what is said of a line."""
    prefix, matrix = ({"y_true": "label", "proba": proba} for proba in ("p_*", np.ones((1, 2)) / 2))
    calls: list[tuple[str, str, Mapping[str, Any], str]] = [
        ("b.csv", "label,scor\n1,0.5\n", SCORED, "b.csv: expected one column 'score', got none"),
        ("d.txt", "", SCORED, 'got \'.txt\'; say what it is with input_format="jsonl", "csv", "t'),
        ("e.jsonl", '{"label": 1}\n', prefix, "columns named p_LABEL, for proba='p_*'"),
        ("good.csv", "label\n1\n", matrix, "proba: expected the name of a field of the files"),
    ]
    for name, text, call, message in calls:
        (tmp_path / name).write_text(text)
        with pytest.raises(se.InputError) as caught:
            se.evaluate(tmp_path / name, **call)
        assert message in str(caught.value)


@pytest.mark.parametrize("metrics", [None, "roc_auc", ("log_loss", "f1")])
def test_counts_give_the_bytes_of_the_events(metrics: Any) -> None:
    ev = se.Evaluator(slices=("country",), metrics=metrics)
    scores, labels = [0.0, 0.25, 0.5, 0.5, 1.0, 3.5], [0, 1, 1, 0, 0, 1]
    countries, counts = list("abaabb"), [3, 12, 1, 5, 0, 2]
    for score, label, country, count in zip(scores, labels, countries, counts, strict=True):
        for _ in range(count):
            ev.update(label, score=score, slices={"country": country})
    found = se.from_counts(scores, labels, counts, by={"country": countries}, metrics=metrics)
    assert found.to_bytes() == ev.to_bytes()
    heavy = se.from_counts([0.9, 0.1, 0.5], [1, 0, 0], [2**61 + 1, 2**60, 0])
    assert (heavy.confusion.total, heavy["roc_auc"]) == (2**61 + 2**60 + 1, 1.0)


BAD_COUNTS: list[tuple[dict[str, Any], str]] = [
    ({"count": [1, -1]}, "count[1]: expected a whole number from 0, below 2**62, got -1; pass"),
    ({"count": [1, 1.5]}, "count[1]: expected a whole number from 0, below 2**62, got 1.5"),
    ({"count": [1.0, 2.0**60]}, "floats hold whole numbers to 2**53 only: cast it, CAST(... AS"),
    ({"count": [2**61] * 2, "label": [1, 1]}, "count[1]: expected weights of one class that"),
    ({"count": None}, "count: expected a column, got none; pass count="),
    ({"count": [0, 0]}, "data: expected at least one row, got none"),
    ({"score": None}, "score: expected scores, or y_pred=, got none"),
    ({"label": [1, 2]}, "the labels of 'label' are 1, 2; give positive=2 or positive=1"),
    ({"by": {"score": ["a", "b"]}}, "by: expected another name for the slices, got 'score'"),
]


def test_bad_counts() -> None:
    for columns, message in BAD_COUNTS:
        with pytest.raises(se.InputError) as caught:
            se.from_counts(**{"score": [0.5, 0.6], "label": [1, 0], "count": [1, 2], **columns})
        assert message in str(caught.value)


def test_whole_numbers_of_128_bits_are_read_where_they_fit() -> None:
    wide, truth = (polars.Series(n, dtype=polars.Int128) for n in ([2, 1], [1, 0]))
    narrow = {"y": [1, 0], "p": [2, 1], "w": [2, 1]}
    want = se.evaluate(narrow, y_true="y", score="p", weight="w").to_bytes()
    frame = polars.DataFrame({"y": truth, "p": wide, "w": wide})
    sums = duckdb.sql("SELECT SUM(1) y, SUM(2) p, SUM(2) w UNION ALL SELECT SUM(0), SUM(1), SUM(1)")
    for table in (frame, frame.lazy(), sums, sums.pl(), frame.to_dict()):
        assert se.evaluate(table, y_true="y", score="p", weight="w").to_bytes() == want
    ev = se.Evaluator()
    ev.update_many(truth, score=wide, weight=wide)
    assert ev.to_bytes() == want
    assert se.from_counts(wide, truth, wide).to_bytes() == want
    too_large = frame.with_columns(w=polars.Series([1, 2**100], dtype=polars.Int128))
    with pytest.raises(se.errors.InputError, match=r"w\[1\]: expected a weight .*, got 1\.26765"):
        se.evaluate(too_large, y_true="y", score="p", weight="w")


def test_decimals_are_numbers_in_events_as_in_tables() -> None:
    scores, weights = [Decimal("0.5"), Decimal("0.25")], [Decimal(2), Decimal("1.5")]
    want = se.Evaluator()
    want.update_many([1, 0], score=[0.5, 0.25], weight=[2, 1.5])
    one_by_one = se.Evaluator()
    batch = se.Evaluator().update_many([1, 0], score=scores, weight=weights)
    for label, score, weight in zip([1, 0], scores, weights, strict=True):
        one_by_one.update(label, score=score, weight=weight)
    frame = pandas.DataFrame({"y": [1, 0], "p": scores, "w": weights})
    assert se.evaluate(frame, y_true="y", score="p", weight="w") == batch == one_by_one == want
    for bad in ("NaN", "sNaN", "Infinity", "1e400"):
        with pytest.raises(se.errors.InputError, match="score: expected a finite number, got Dec"):
            want.update(1, score=Decimal(bad))
        with pytest.raises(se.errors.InputError, match="weight: expected a weight"):
            want.update(1, score=0.5, weight=Decimal(bad))


NAMES = ["spam", "toxic", "ad"]
FLAGS = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 0]])
SCORES = np.array([[0.9, 0.2, 0.4], [0.7, 0.2, 0.4], [0.1, 0.8, 0.6], [0.6, 0.1, 0.3]])
TRUE_SETS = [[name for name, flag in zip(NAMES, row, strict=True) if flag] for row in FLAGS]
FRAMES = [pandas.DataFrame(of, columns=NAMES) for of in (FLAGS, SCORES)]


@pytest.mark.parametrize(
    ("y", "predictions"),
    [
        (FLAGS, SCORES),
        (FLAGS.astype(bool), SCORES >= 0.5),
        (csr_matrix(FLAGS), SCORES),
        tuple(FRAMES),
        (dict(zip(NAMES, FLAGS.T, strict=True)), dict(zip(NAMES, SCORES.T, strict=True))),
        (TRUE_SETS, [dict(zip(NAMES, row, strict=True)) for row in SCORES.tolist()]),
        (list(map(set, TRUE_SETS)), [set(np.array(NAMES)[row >= 0.5]) for row in SCORES]),
        (pandas.Series(TRUE_SETS), SCORES),
        (arrow.array(TRUE_SETS), SCORES >= 0.5),
        (polars.Series(TRUE_SETS), SCORES),
    ],
)
def test_sets_of_labels_without_a_table(y: Any, predictions: Any) -> None:
    ev = se.evaluate(y, predictions, task="multilabel", labels=NAMES)
    expected = se.Evaluator("multilabel", labels=NAMES).update_many(FLAGS, score=SCORES)
    assert (ev["f1_micro"], ev["accuracy"]) == (expected["f1_micro"], expected["accuracy"])
    assert ev.labels == NAMES


def test_what_an_array_and_scores_of_any_size_are() -> None:
    assert se.evaluate(FLAGS, SCORES, task="multilabel").labels == [0, 1, 2]
    assert se.evaluate(*FRAMES, task="multilabel").labels == NAMES
    logits = {"task": "multilabel", "labels": NAMES, "threshold": 0}
    ev = se.evaluate(y_true=FLAGS, score=SCORES * 4 - 2, **logits)
    assert ev["f1_micro"] == se.evaluate(FLAGS, SCORES, **{**logits, "threshold": 0.5})["f1_micro"]
    with pytest.raises(InputError, match=r"^proba\[0\]: expected probabilities from 0 to 1"):
        se.evaluate(y_true=FLAGS, proba=SCORES * 4 - 2, **logits)
    assert se.evaluate([1.5, 2.0], [1.0, 2.0], task="regression")["mean_absolute_error"] == 0.25
    with pytest.raises(InputError, match=r'numbers, such as 1.5; true numbers require task="regr'):
        se.evaluate([1.5, 2.5], [1.0, 2.0])
