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
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streameval as se
from streameval.cli import main
from streameval.errors import InputError, MissingExtraError, OptionError
from streameval.state_files.codec import decompressed
from tests.support.carried_events import CASES
from tests.support.table_carriers import CARRIERS


@pytest.mark.parametrize("name", CASES)
def test_every_carrier_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    expected, table = case.state(), case.table()
    differing = [
        carrier
        for number, (carrier, made) in enumerate(CARRIERS.items())
        if carrier not in case.without
        and se.evaluate(made(table, _folder(tmp_path, number)), **case.call_on(carrier)).to_bytes()
        != expected
    ]
    assert differing == []


def _folder(parent: Path, number: int) -> Path:
    # The name is that of a folder of memory:// too, which all tests share.
    folder = parent / f"{parent.name}-{number}"
    folder.mkdir()
    return folder


EVENTS = st.lists(
    st.tuples(
        st.booleans(),
        st.floats(-5, 5, width=32) | st.sampled_from([0.0, -0.0, 0.5]),
        st.sampled_from(["PT", "7", "", None]),
        st.integers(1, 2**40),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(EVENTS, st.integers(1, 30))
def test_any_events_in_any_batches(
    events: list[tuple[bool, float, str | None, int]], rows: int
) -> None:
    ev = se.Evaluator(slices=("country",))
    for label, score, country, weight in events:
        ev.update(label, score=score, weight=weight, slices={"country": country})
    names = ("label", "score", "country", "weight")
    table = arrow.table(dict(zip(names, map(list, zip(*events, strict=True)), strict=True)))
    for data in (
        table.to_reader(max_chunksize=rows),
        table.to_pandas(),
        polars.from_arrow(table),
        table.to_pydict(),
    ):
        found = se.evaluate(data, y_true="label", score="score", by="country", weight="weight")
        assert found.to_bytes() == ev.to_bytes()


@pytest.mark.parametrize("carrier", ["csv", "jsonl", "parquet", "glob", "memory://"])
def test_files_give_the_bytes_of_the_command(
    carrier: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case = CASES["labels of numbers, weights and slices"]
    path = str(CARRIERS[carrier](case.table(), tmp_path))
    state = tmp_path / "state"
    options = "--y-true label --y-pred predicted --weight weight --task binary --save"
    more = ["--slice", "country,country+model", "--intervals", "0.95", "--no-progress"]
    assert main(["evaluate", path, *options.split(), str(state), *more]) == 0
    assert se.evaluate(path, **case.call).to_bytes() == decompressed(state.read_bytes())
    capfd.readouterr()


def test_a_prefix_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = CARRIERS["csv"](CASES["probabilities: prefix"].table(), tmp_path)
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


def test_further_types_of_columns() -> None:
    days = [date(2026, 3, 1), date(2026, 3, 2), None]
    frame = polars.DataFrame(
        {
            "label": ["a", "b", "a"],
            "guess": ["a", "a", "a"],
            "day": days,
            "kind": polars.Series(["x", "y", "x"], dtype=polars.Categorical),
            "nothing": [None] * 3,
            "weight": polars.Series([1, 2, 3], dtype=polars.Int8),
        }
    )
    call: Mapping[str, Any] = {"y_true": "label", "y_pred": "guess", "weight": "weight"}
    ev = se.evaluate(frame, by=["day", "kind", "nothing"], **call)
    assert {key[0][1] for key in ev.slices()} == {"2026-03-01", "2026-03-02", "(missing)", "x", "y"}
    sql = "SELECT label, guess, CAST(weight AS DECIMAL(9, 0)) AS weight FROM frame"
    assert se.evaluate(duckdb.sql(sql), **call) == se.evaluate(frame, **call)
    nested = arrow.table({"event": [{"label": "a", "guess": "b"}, {"label": "b", "guess": "b"}]})
    assert se.evaluate(nested, y_true="event.label", y_pred="event.guess")["accuracy"] == 0.5
    daily = frame.head(2).with_columns(score=0.5)
    window = se.Panes("30d", pane="1d")
    timed = se.evaluate(
        daily, y_true="label", score="score", positive="a", time="day", window=window
    )
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
        ("s3fs", "s3://bucket/a.csv", "s3"),
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
LISTS: Mapping[str, Any] = {"y_true": "text", "proba": np.ones((3, 3)) / 3}

REFUSED: list[tuple[object, Mapping[str, Any], str]] = [
    (
        FRAME,
        {"y_true": "labl", "score": "score"},
        "data: expected one column 'labl', got none among label, score, text; did you",
    ),
    (FRAME.lazy(), {"y_true": "label", "score": "scoer"}, "did you mean 'score'?"),
    (
        FRAME,
        {"score": "score"},
        "none among label, score, text; name the column of the true labels with y_true=",
    ),
    (
        {"label": [1]},
        {"score": "score"},
        "got none among label; name the column of the true labels with y_true=",
    ),
    (FRAME, {"y_true": 3, "score": "score"}, "y_true: expected the name of a column, got 3"),
    (
        FRAME,
        {"y_true": {"a": "label"}, "y_pred": "label", "task": "multilabel"},
        "y_true: expected a field, or label=column,label=column, got a mapping; pass 'a=label'",
    ),
    (
        FRAME,
        {"y_true": "label", "score": "text"},
        "expected a finite number in column 'text', got a column of type large_string; con",
    ),
    (
        FRAME,
        {"y_true": "text", "score": "score"},
        "the labels of 'text' are 'a', 'b', 'c'; give positive=LABEL",
    ),
    (
        FRAME,
        {"y_true": "label", "proba": "p_*"},
        "data: expected columns named p_LABEL, for proba='p_*', got none among label, score",
    ),
    (
        FRAME,
        {**LISTS, "proba": np.ones((4, 3)) / 3, "labels": list("abc")},
        "proba: expected a row for each of the table's",
    ),
    (
        FRAME,
        {**LISTS, "proba": np.ones((2, 3)) / 3, "labels": list("abc")},
        "proba: expected a row for each of the table's",
    ),
    (FRAME, {**LISTS, "labels": ["a", "b"]}, "proba: expected 2 probabilities, of 'a', 'b', got 3"),
    (
        FRAME,
        {"y_true": "text", "proba": ["p", "q"], "labels": list("abc")},
        "proba: expected 3 fields, one for each of labels=, got 2: p, q",
    ),
    (
        FRAME,
        {"y_true": "text", "proba": {"a": 3}},
        "proba: expected a column, 'prefix*', columns, or a mapping label -> column",
    ),
    (FRAME.head(0), SCORED, "data: expected at least one row, got none; correct the filter"),
    (
        arrow.dataset.dataset(arrow.table({"label": [], "score": []})),
        SCORED,
        "data: expected at least one row",
    ),
    (42, SCORED, "a DuckDB relation, a mapping name -> array, a path, or a list of paths, got 42"),
    (FRAME["label"], SCORED, "got a polars.Series"),
    (np.ones((3, 2)), SCORED, "got a numpy.ndarray"),
    (FRAME, {**SCORED, "by": 3}, "by: expected names, or tuples of names for combinations, got 3"),
    (FRAME, {**SCORED, "by": "nope"}, "expected one column 'nope'"),
    (
        FRAME,
        {**SCORED, "task": "ranking"},
        "task: expected 'auto', 'binary', 'multiclass', 'multilabel' or 'regression', got 'ranki",
    ),
    (
        FRAME,
        {**SCORED, "label_type": "int"},
        "label_type: expected files, got a polars.DataFrame; leave label_type=",
    ),
    (
        {"label": [1, 0], "score": [1]},
        SCORED,
        "score: expected 2 values, one for each event, got 1",
    ),
    (
        pandas.DataFrame({"label": [1, None, 0], "score": [1, 2, 3]}),
        SCORED,
        "label[1]: expected a label (text, an integer or true/false), got null; this event",
    ),
    (
        pandas.DataFrame({"label": [1, "a", None], "score": [1, 2, 3]}),
        SCORED,
        "data: expected columns of one type each, got Could not convert 'a'",
    ),
    (
        polars.DataFrame({"label": [1, 0], "score": [1.0, float("nan")]}),
        SCORED,
        "score[1]: expected a finite number, got nan",
    ),
    (
        polars.DataFrame({"label": [1, 0], "score": [1.0, None]}),
        SCORED,
        "score[1]: expected a finite number, got null",
    ),
    (
        polars.DataFrame({"label": ["a", "b"], "p": [[0.1, 0.9], [0.1, 0.2, 0.7]]}),
        {"y_true": "label", "proba": "p", "labels": list("ab")},
        "p[1]: expected a list of 2 probabilities, one for each label, got 3",
    ),
    (
        arrow.table([[1], [0.1], [0.1]], names=["label", "score", "score"]),
        SCORED,
        "expected one column 'score', got 2 among label, score, score; rename one of",
    ),
    (
        "abfs://bucket/a.csv",
        SCORED,
        "a.csv: expected a URL of a scheme whose package is installed, got abfs: ",
    ),
    (
        "nope://bucket/a.csv",
        SCORED,
        "got nope: Protocol not known: nope; correct the scheme",
    ),
    ("memory://none/a.csv", SCORED, "memory://none/a.csv: expected a file, got no such file"),
    ("memory://none/*.csv", SCORED, "expected a pattern that some file matches, got no match"),
    ("none.csv", SCORED, "none.csv: expected a file, got no such file"),
]


@pytest.mark.parametrize(("data", "call", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_refused_in_one_sentence(
    data: Any, call: Mapping[str, Any], message: str
) -> None:
    with pytest.raises((se.InputError, OptionError)) as caught:
        se.evaluate(data, **call)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_files_are_refused_by_line(tmp_path: Path) -> None:
    texts = {"a.csv": "label,score\n1,0.5\n0,x\n", "b.csv": "label,scor\n1,0.5\n"}
    texts |= {"c.csv": "label,score\nspam,0.5\n", "d.txt": "", "e.jsonl": '{"label": 1}\n'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    arrow.parquet.write_table(arrow.table({"label": [1, 0], "score": [1, 2]}), tmp_path / "1.pq")
    arrow.parquet.write_table(arrow.table({"label": ["a"], "score": [1]}), tmp_path / "2.pq")
    good = tmp_path / "good.csv"
    good.write_text("label,score\n1,0.5\n0,0.5\n")
    for data, message in (
        ("a.csv", "a.csv:3: score: expected a finite number, got the text 'x'"),
        ("b.csv", "b.csv: expected one column 'score', got none among label, scor; did you mean"),
        ("d.txt", 'got \'.txt\'; say what it is with input_format="jsonl", "csv", "tsv", '),
        ("*.pq", "2.pq:1: label: expected labels like the default positive label 1, got 'a'"),
    ):
        with pytest.raises(se.InputError) as caught:
            se.evaluate(tmp_path / data, **SCORED)
        assert message in str(caught.value)
    with pytest.raises(se.InputError, match=r"c.csv:2: label: .* choose the type with label_type="):
        se.evaluate([good, tmp_path / "c.csv"], **SCORED)
    with pytest.raises(se.InputError, match=r"columns named p_LABEL, for proba='p_\*', got none"):
        se.evaluate(tmp_path / "e.jsonl", y_true="label", proba="p_*")
    with pytest.raises(se.InputError, match="proba: expected the name of a field of the files"):
        se.evaluate(good, y_true="label", proba=np.ones((2, 2)) / 2)


COUNTED = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 3.5]),
        st.integers(0, 1),
        st.sampled_from("ab"),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[:3],
).filter(lambda rows: any(row[3] for row in rows))


@settings(max_examples=40, deadline=None)
@given(COUNTED, st.sampled_from([None, "roc_auc", ("log_loss", "f1")]))
def test_counts_give_the_bytes_of_the_events(rows: list[Any], metrics: Any) -> None:
    ev = se.Evaluator(slices=("country",), metrics=metrics)
    for score, label, country, count in rows:
        for _ in range(count):
            ev.update(label, score=score, slices={"country": country})
    scores, labels, countries, counts = map(list, zip(*rows, strict=True))
    found = se.from_counts(scores, labels, counts, by={"country": countries}, metrics=metrics)
    assert found.to_bytes() == ev.to_bytes()


def test_counts_of_labels() -> None:
    ev = se.Evaluator(task="multiclass")
    pairs = {("cat", "cat"): 3, ("cat", "dog"): 1, ("cow", "dog"): 2}
    for (label, guess), count in pairs.items():
        ev.update_many([label] * count, [guess] * count)
    labels, guesses = zip(*pairs, strict=True)
    counts = list(pairs.values())
    found = se.from_counts(y_pred=list(guesses), label=list(labels), count=counts)
    assert found.to_bytes() == ev.to_bytes()


def test_counts_beyond_the_largest_weight() -> None:
    ev = se.from_counts([0.9, 0.1, 0.5], [1, 0, 0], [2**61 + 1, 2**60, 0])
    assert ev.confusion.total == 2**61 + 2**60 + 1
    assert ev["roc_auc"] == 1.0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"count": [1, -1]}, "count[1]: expected a whole number from 0, below 2**62, got -1; pass"),
        ({"count": [1, 1.5]}, "count[1]: expected a whole number from 0, below 2**62, got 1.5"),
        ({"count": [1, 2**62]}, "count[1]: expected a whole number from 0, below 2**62, got 46"),
        ({"count": [1, True]}, "count[1]: expected a whole number from 0, below 2**62, got True"),
        (
            {"count": [1.0, 2.0**60]},
            "floats hold whole numbers to 2**53 only: cast it, CAST(... AS",
        ),
        ({"count": [2**61] * 2, "label": [1, 1]}, "count[1]: expected weights of one class that"),
        ({"count": None}, "count: expected a column, got none; pass count="),
        ({"count": [0, 0]}, "data: expected at least one row, got none"),
        ({"score": None}, "score: expected scores, or y_pred=, got none"),
        ({"score": [0.5]}, "score: expected 2 values, one for each event, got 1"),
        ({"label": [1, 2]}, "the labels of 'label' are 1, 2; give positive=2 or positive=1"),
        (
            {"label": ["spam", "ham"]},
            "the labels of 'label' are 'ham', 'spam'; give positive='spam' or positive='ham'",
        ),
        ({"by": {"score": ["a", "b"]}}, "by: expected another name for the slices, got 'score'"),
    ],
    ids=range(13),
)
def test_bad_counts(columns: Mapping[str, Any], message: str) -> None:
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
    one_by_one, batch = se.Evaluator(), se.Evaluator()
    batch.update_many([1, 0], score=scores, weight=weights)
    for event in zip([1, 0], scores, weights, strict=True):
        one_by_one.update(event[0], score=event[1], weight=event[2])
    frame = pandas.DataFrame({"y": [1, 0], "p": scores, "w": weights})
    table = se.evaluate(frame, y_true="y", score="p", weight="w")
    assert batch == one_by_one == table == want
    for bad in ("NaN", "sNaN", "Infinity", "1e400"):
        with pytest.raises(se.errors.InputError, match="score: expected a finite number, got Dec"):
            want.update(1, score=Decimal(bad))
        with pytest.raises(se.errors.InputError, match="weight: expected a weight"):
            want.update(1, score=0.5, weight=Decimal(bad))


@pytest.mark.parametrize("field", ["y_true", "y_pred", "score", "weight"])
def test_a_duration_is_no_number(field: str) -> None:
    durations = np.array([1, 0], dtype="timedelta64[s]")
    event: dict[str, Any] = {
        "y_true": [1, 0],
        "y_pred": [1, 0],
        "score": [0.5, 0.2],
        field: durations,
    }
    ev = se.Evaluator()
    with pytest.raises(
        se.errors.InputError, match=rf"^{field}\[0\]: expected .*, got np.timedelta"
    ):
        ev.update_many(**event)
    with pytest.raises(
        se.errors.InputError, match=rf"^{field}: expected .*, got np.timedelta64\(1"
    ):
        ev.update(**{name: values[0] for name, values in event.items()})
    assert ev.is_empty


NAMES = ["spam", "toxic", "ad"]
FLAGS = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 0]])
SCORES = np.array([[0.9, 0.2, 0.4], [0.7, 0.2, 0.4], [0.1, 0.8, 0.6], [0.6, 0.1, 0.3]])
LISTS = [[name for name, flag in zip(NAMES, row, strict=True) if flag] for row in FLAGS]
FRAMES = [pandas.DataFrame(of, columns=NAMES) for of in (FLAGS, SCORES)]


@pytest.mark.parametrize(
    ("y", "predictions"),
    [
        (FLAGS, SCORES),
        (FLAGS.astype(bool), SCORES >= 0.5),
        (csr_matrix(FLAGS), SCORES),
        tuple(FRAMES),
        (dict(zip(NAMES, FLAGS.T, strict=True)), dict(zip(NAMES, SCORES.T, strict=True))),
        (LISTS, [dict(zip(NAMES, row, strict=True)) for row in SCORES.tolist()]),
        (list(map(set, LISTS)), [set(np.array(NAMES)[row >= 0.5]) for row in SCORES]),
        (pandas.Series(LISTS), SCORES),
        (arrow.array(LISTS), SCORES >= 0.5),
        (polars.Series(LISTS), SCORES),
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
