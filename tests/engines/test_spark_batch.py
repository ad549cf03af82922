"""Spark's DataFrames: the bytes of one evaluator, whatever the partitions, tasks and retries.

Every kind of column: test_carriers.py. An executor that is killed: test_spark_stream.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, MetricError, OptionError, StateError
from tests.engines.conftest import run_examples

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

spark: Any = pytest.importorskip("streameval.integrations.spark")
from pyspark.sql import functions as F  # noqa: E402, N812

MASTER = "local[2,4]"
ROWS = 4000
COUNTRIES = ("PT", "ES", "FR")


@pytest.fixture(scope="module")
def events() -> dict[str, np.ndarray]:
    random = np.random.default_rng(13)
    truth = random.random(ROWS) < 0.4
    score = np.round(np.clip(random.normal(0.4 + 0.2 * truth, 0.2), 0, 1), 3)
    return {
        "label": truth,
        "kind": np.where(truth, "spam", "ham"),
        "score": score,
        "predicted": np.where(score > 0.45, "spam", "ham"),
        "weight": random.integers(1, 4, ROWS),
        "country": random.choice(COUNTRIES, ROWS),
        "second": 1_700_000_000 + random.integers(0, 40_000, ROWS),
        "id": np.arange(ROWS),
    }


@pytest.fixture(scope="module")
def table(
    local: Any, events: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """The events in a Parquet file, read by Spark in five partitions."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    path = tmp_path_factory.mktemp("events") / "events.parquet"
    parquet.write_table(arrow.table({k: arrow.array(v.tolist()) for k, v in events.items()}), path)
    return local.read.parquet(str(path)).repartition(5, "id").cache()


def one_machine(
    events: dict[str, np.ndarray], rows: Any = slice(None), **options: Any
) -> se.Evaluator:
    """The evaluator that one process makes of all rows, or of some."""
    evaluator = se.Evaluator(**options)
    label, score, weight, country = (
        events[name][rows] for name in ("label", "score", "weight", "country")
    )
    by = {"country": country} if "slices" in options else None
    return evaluator.update_many(label, score=score, weight=weight, slices=by)


BINARY: dict[str, Any] = {"y_true": "label", "score": "score", "weight": "weight"}


def test_partitions_merge_to_the_bytes_of_one_evaluator(
    table: Any, events: dict[str, np.ndarray]
) -> None:
    found = spark.evaluate(table, **BINARY, by=["country"])
    assert found.to_bytes() == one_machine(events, slices=("country",)).to_bytes()
    # One partition, many, an empty one, and those of one class.
    lopsided = table.repartitionByRange(3, "label").union(table.where("id < 0"))
    assert spark.evaluate(lopsided, **BINARY, by=["country"]) == found
    assert spark.evaluate(table.coalesce(1), **BINARY, by=["country"]) == found
    assert spark.evaluate(table.where("id < 0"), **BINARY) == se.Evaluator()


def test_what_no_partition_alone_can_know_is_merged(
    table: Any, events: dict[str, np.ndarray]
) -> None:
    """The negative label, which a partition of positives lacks; classes; options."""
    one = se.Evaluator(positive="spam", max_scores=1024, intervals=True)
    one.update_many(events["kind"], events["predicted"], score=events["score"])
    parts = table.repartitionByRange(2, "kind")
    given = {"y_true": "kind", "y_pred": "predicted", "score": "score", "positive": "spam"}
    found = spark.evaluate(parts, **given, max_scores=1024, intervals=True)
    assert (found.labels, found.to_bytes()) == (["ham", "spam"], one.to_bytes())
    several = spark.evaluate(parts, y_true="country", y_pred="kind")
    assert several.task == "multiclass"
    assert several.labels == ["ES", "FR", "PT", "ham", "spam"]


def test_vectors_and_decimals_are_probabilities(table: Any) -> None:
    from pyspark.ml.functions import array_to_vector

    ham, spam = 1 - F.col("score"), F.col("score").cast("decimal(5,3)")
    vector = array_to_vector(F.array(ham, spam.cast("double")))
    made = table.select("kind", F.struct(ham.alias("ham"), spam.alias("spam")).alias("p"))
    options = {"y_true": "kind", "task": "multiclass", "labels": ["ham", "spam"]}
    found = spark.evaluate(made, proba="p", **options)
    assert spark.evaluate(table.withColumn("v", vector), proba="v", **options) == found
    nested = spark.evaluate(made, y_true="kind", score="p.spam", positive="spam")
    assert nested["roc_auc"] == found["roc_auc_ovr"]


def test_a_window_counts_in_the_order_of_time(table: Any, events: dict[str, np.ndarray]) -> None:
    order = np.argsort(events["second"], kind="stable")
    options: dict[str, Any] = {"window": se.Panes("2h", pane="1h", retain="1d"), "time_unit": "s"}
    one = se.Evaluator(**options)
    columns = {name: events[name][order] for name in ("label", "score", "second")}
    one.update_many(columns["label"], score=columns["score"], event_time=columns["second"])
    found = spark.evaluate(table, y_true="label", score="score", time="second", **options)
    assert found.to_bytes() == one.to_bytes()
    assert found.arrivals == {"on_time": ROWS, "late_kept": 0, "late_dropped": 0}


def test_a_row_a_group(table: Any, events: dict[str, np.ndarray]) -> None:
    """Groups of many rows go through the shuffle as states, small ones as rows; both are exact."""
    metrics = ["roc_auc", "f1"]
    for rows, key in (
        (table, events["country"]),
        (table.withColumn("country", F.col("id") % 700), events["id"] % 700),
    ):
        found = spark.evaluate(
            rows, **BINARY, group_by=["country"], metrics=metrics, intervals=0.9
        ).collect()
        assert {row.country for row in found} == set(key.tolist())
        for row in found[:20]:
            mine = key == row.country
            one = one_machine(events, mine, metrics=metrics, intervals=True)
            assert bytes(row.state) == one.to_bytes()
            assert row.events == events["weight"][mine].sum()
            report = one.report(metrics, intervals=0.9)
            assert np.array_equal(
                [row.roc_auc, row.f1], [report["roc_auc"], report["f1"]], equal_nan=True
            )
            interval = one.interval("roc_auc", level=0.9)
            if interval.defined:
                assert (row.roc_auc_low, row.roc_auc_high) == (interval.low, interval.high)


HOUR = "timestamp_seconds(1792886400 + 3600 * n)"
"""From 2026-10-25 00:00 UTC on: in Lisbon it is twice one o'clock."""

KEYS = {
    "flag": "if(n = 2, null, n = 1)",
    "number": "n",
    "fraction": "if(n = 2, double('nan'), n / 8)",
    "decimal": "cast(n as decimal(5, 2))",
    "text": "cast(n as string)",
    "binary": "cast(cast(n as string) as binary)",
    "day": "date_add(date'2026-10-25', cast(n as int))",
    "hour": HOUR,
    "local hour": "timestamp_ntz'2026-10-25 00:00:00' + make_dt_interval(0, cast(n as int))",
    "span": "make_dt_interval(0, cast(n as int))",
    "pair": f"struct({HOUR} as start, struct(n, null as none) as inner)",
    "null or of null": "if(n = 0, null, struct(if(n = 1, null, n) as n))",
    "list": f"array({HOUR}, null)",
    "lists in a struct": f"struct(array(struct(n, {HOUR})) as list)",
}


@contextmanager
def changed(table: Any, key: str, value: str) -> Iterator[None]:
    """A setting of the session within the block."""
    conf = table.sparkSession.conf
    before = conf.get(key)
    conf.set(key, value)
    try:
        yield
    finally:
        conf.set(key, before)


@pytest.fixture
def in_lisbon(table: Any) -> Iterator[None]:
    with changed(table, "spark.sql.session.timeZone", "Europe/Lisbon"):
        yield


@pytest.mark.usefixtures("in_lisbon")
def test_groups_of_every_type_are_those_of_spark(table: Any, events: dict[str, np.ndarray]) -> None:
    numbered = table.withColumn("n", F.col("id") % 3)
    keyed = numbered.select("*", *(F.expr(text).alias(name) for name, text in KEYS.items()))
    states = {
        one_machine(events, events["id"] % 3 == n, metrics=["f1"]).to_bytes() for n in range(3)
    }
    for name in [F.window(F.expr(HOUR), "1 hour"), *KEYS]:
        key = name if isinstance(name, str) else "window"
        grouped = keyed.groupBy(name if isinstance(name, str) else name.alias(key))
        expected = grouped.agg(F.sum("weight").cast("double").alias("events")).collect()
        found = spark.evaluate(keyed, **BINARY, group_by=name, metrics=["f1"])
        merged = [spark.merge_states(found, by=key)] if key in ("window", "hour", "list") else []
        for groups in (found, *merged):
            rows = groups.collect()
            assert groups.schema[key].dataType == keyed.select(name).schema[0].dataType
            assert sorted(str((row[0], row.events)) for row in rows) == sorted(
                str((row[0], row.events)) for row in expected
            ), key
            assert {bytes(row.state) for row in rows} == states


def test_columns_are_expressions_where_groups_are_made_and_names_elsewhere(table: Any) -> None:
    by_name = spark.evaluate(table, **BINARY, group_by="country", metrics=["f1"])
    found = spark.evaluate(
        table, **BINARY, group_by=[F.upper("country").alias("land"), F.col("ID") % 2], metrics=[]
    )
    assert found.columns[:2] == ["land", "(ID % 2)"]
    assert (
        by_name.columns == spark.merge_states(by_name, by=F.col("country"), metrics=["f1"]).columns
    )
    texts = {
        "y_true": "y_true: expected the name of a column, got Column<'label'>; add what you",
        "score": "score: expected the name of a column, got Column<'label'>; add what you",
        "by": "by: expected columns, or tuples of columns, got Column<'label'>",
    }
    for name, text in texts.items():
        with pytest.raises(InputError) as failure:
            spark.evaluate(table, **BINARY | {name: F.col("label")})
        assert str(failure.value).startswith(text)
    for group, text in [
        (F.session_window(F.timestamp_seconds("second"), "1 hour"), "of a row, got session_window"),
        (F.sum("id"), "an expression of a row, got Column<'sum(id)'>, of which Spark says: "),
        (F.col("ghost"), "an expression of a row, got Column<'ghost'>, of which Spark says: "),
        (F.parse_json("country"), "that Spark sorts by and gives to Python, got variant; make it"),
        (
            F.create_map("id", "id"),
            "that Spark sorts by and gives to Python, got map<bigint,bigint>",
        ),
        (F.col("id").alias("Events"), "named otherwise than the result's 'Events'"),
        (5, "group_by[0]: expected the name of a column, got 5"),
    ]:
        with pytest.raises(InputError) as failure:
            spark.evaluate(table, **BINARY, group_by=[group])
        assert text in str(failure.value)
        assert "\n" not in str(failure.value)


def test_names_are_in_any_case_where_they_are_for_spark(table: Any) -> None:
    upper = {"y_true": "LABEL", "score": "Score", "weight": "WEIGHT"}
    nested = table.select("*", F.struct("country", "id").alias("In"))
    one = spark.evaluate(table, **BINARY)
    assert spark.evaluate(nested, **upper) == one
    assert len(spark.evaluate(nested, **upper, by=["in.Country"]).slices()) == len(COUNTRIES)
    with changed(table, "spark.sql.caseSensitive", "true"):
        twice = table.withColumn("Label", F.lit(1))
        assert spark.evaluate(twice, **BINARY) == one
        with pytest.raises(InputError, match="y_true: expected a column 'LABEL', got none"):
            spark.evaluate(table, **upper)
    text = "y_true: expected one column 'label', got 2: 'label', 'Label'; rename the others"
    with pytest.raises(InputError, match=text):
        spark.evaluate(twice, **BINARY)


def test_a_group_has_bounds_or_the_reason_why_it_has_no_value(table: Any) -> None:
    many = table.withColumn("score", F.rand(7)).cache()
    options: dict[str, Any] = {**BINARY, "group_by": "country", "metrics": ["roc_auc", "f1"]}
    exact = {row.country: row for row in spark.evaluate(many, **options).collect()}
    bounded = spark.evaluate(many, **options, max_scores=1024).collect()
    assert {row.country for row in bounded} == {*exact} == {*COUNTRIES}
    for row in bounded:
        assert exact[row.country].bounds == {}
        assert row.bounds.keys() == {"roc_auc"}
        low, high = row.bounds["roc_auc"]
        assert low <= exact[row.country].roc_auc <= high
        assert low < high
    for row in spark.evaluate(table, **BINARY, group_by="kind", metrics=["roc_auc"]).collect():
        assert np.isnan(row.roc_auc)
        assert "one class" in row.reasons["roc_auc"] or "no " in row.reasons["roc_auc"]


def test_states_merge_as_an_aggregation(table: Any, events: dict[str, np.ndarray]) -> None:
    groups = spark.evaluate(
        table.withColumn("part", F.col("id") % 7), **BINARY, group_by=["country", "part"]
    ).cache()
    whole = spark.merge_states(groups, "state")
    plain = spark.evaluate(table, **BINARY)
    assert whole == plain
    merged = spark.merge_states(groups, "state", by="country", metrics=["roc_auc"])
    direct = spark.evaluate(table, **BINARY, group_by="country", metrics=["roc_auc"])
    values = {row.country: row.roc_auc for row in merged.collect()}
    assert values == {row.country: row.roc_auc for row in direct.collect()}
    # Equal states are of different events, and a null is none.
    twice = groups.select("state").union(groups.select("state"))
    twice = twice.union(groups.select(F.lit(None).cast("binary").alias("state")))
    assert spark.merge_states(twice).total.support == 2 * plain.total.support


def test_a_task_that_runs_again_counts_once(table: Any) -> None:
    """Each task fails at its first attempt, in the middle of its rows."""

    def fails_once(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            if number == 1 and TaskContext.get().attemptNumber() == 0:
                raise OSError("a machine is lost")
            yield batch

    with changed(table, "spark.sql.execution.arrow.maxRecordsPerBatch", "300"):
        failing = table.coalesce(2).mapInArrow(fails_once, table.schema)
        assert spark.evaluate(failing, **BINARY) == spark.evaluate(table, **BINARY)


# Of options alone: tests/golden/option_errors.json.
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"y_true": "lable"},
        InputError,
        "y_true: expected a column 'lable', got none among label, kind, score, predicted, weight, "
        "country, second, id; did you mean 'label'?",
    ),
    (
        {"score": "country"},
        InputError,
        "score (column 'country', partition 0, row 0): expected a finite number, got '",
    ),
    (
        {"y_true": "kind"},
        InputError,
        "y_true (column 'kind', partition 0, row 0): expected labels like the default "
        "positive label 1, got '",
    ),
    (
        {"window": se.Panes("1h"), "time": "kind"},
        InputError,
        "time: column 'kind': expected timestamps, or numbers with time_unit=, got a column of "
        'type string; convert it with functions.to_timestamp("kind")',
    ),
    (
        {"group_by": "country", "window": se.Panes("1h"), "time": "second"},
        OptionError,
        'group_by conflicts with window; group by functions.window("second", "1 hour") too',
    ),
    ({"metrics": ["rocauc"]}, MetricError, "no metric is called 'rocauc'; did you mean roc_auc"),
    (
        {"score": None, "proba": "ghost*", "labels": [0, 1]},
        InputError,
        "proba: expected columns named ghostLABEL, for proba='ghost*', got none among label",
    ),
]


@pytest.mark.parametrize(("arguments", "kind", "text"), BAD)
def test_bad_input_is_one_sentence(
    table: Any, arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as failure:
        spark.evaluate(table, **{"y_true": "label", "score": "score"} | arguments)
    assert str(failure.value).startswith(text)
    assert "\n" not in str(failure.value)


def test_nulls_and_bad_states_are_one_sentence(table: Any, local: Any) -> None:
    rows = local.createDataFrame([(1, 0.5), (None, 0.25)], "label int, score double").coalesce(1)
    text = r"^y_true \(column 'label', partition 0, row 1\): .* None"
    with pytest.raises(InputError, match=text):
        spark.evaluate(rows, y_true="label", score="score")
    text = r"^column 'kind': expected states, which are binary, got "
    with pytest.raises(InputError, match=text):
        spark.merge_states(table, "kind")
    states = [(se.Evaluator().to_bytes(),), (se.Evaluator(bins=5).to_bytes(),)]
    other = local.createDataFrame(states, "state binary")
    with pytest.raises(StateError, match=r"set up differently .*: bins is (10|5) here"):
        spark.merge_states(other)
    windows = [(se.Evaluator(window=se.Panes(each)).to_bytes(),) for each in ("1h", "2h")]
    with pytest.raises(StateError, match=r"window\.length is"):
        spark.merge_states(local.createDataFrame(windows, "state binary"))
    with pytest.raises(StateError, match="expected at least one state to merge, got none"):
        spark.merge_states(other.where("state is null"))
    damaged = local.createDataFrame([(b"no state",)], "state binary")
    with pytest.raises(StateError):
        spark.merge_states(damaged)


def test_workers_without_streameval_are_named(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table.sparkSession.sparkContext, "pythonExec", "/bin/false")
    with pytest.raises(InputError, match=r"^PYSPARK_PYTHON: expected .*, got '/bin/false'; set"):
        spark.evaluate(table, **BINARY)


def test_the_page_shows_what_spark_gives(local: Any) -> None:
    run_examples("spark.md")  # its getOrCreate() gives this session
