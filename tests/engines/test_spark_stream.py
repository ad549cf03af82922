"""Structured Streaming: windows by our rules, and the bytes of a batch after any kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

spark: Any = pytest.importorskip("streameval.integrations.spark")
from pyspark.sql import functions as F  # noqa: E402, N812

SETTINGS = {"spark.sql.shuffle.partitions": "1"}
"""One task of the operator: each starts a Python of its own in every micro-batch."""
HOUR = 3600
START = 1_700_000_000 // HOUR * HOUR
SCHEMA = "at double, label int, p double, country string"

Event = tuple[float, int, float, str | None]
"""Seconds since the start, label, score, country."""


def write_batches(folder: Path, batches: Iterable[Iterable[Event]], first: int = 0) -> None:
    """Files that Spark reads one after another, each as a micro-batch: in the order of time."""
    folder.mkdir(exist_ok=True)
    for number, events in enumerate(batches, first):
        lines = [
            json.dumps({"at": START + at, "label": y, "p": p, "country": country})
            for at, y, p, country in events
        ]
        path = folder / f"{number:04}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (START + number, START + number))


def stream_of(made: Any, folder: Path) -> Any:
    found = made.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return found.withColumn("at", F.timestamp_seconds("at"))


WINDOW = se.Panes("2h", pane="1h", lateness="30m")
ARGUMENTS: dict[str, Any] = {
    "event_time": "at",
    "window": WINDOW,
    "y_true": "label",
    "score": "p",
    "by": ["country"],
    "metrics": ["accuracy", "roc_auc"],
}

BATCHES: list[list[Event]] = [
    [(10, 1, 0.9, "PT"), (20, 0, 0.3, "ES"), (3000, 1, 0.2, None)],
    [(3700, 1, 0.9, "PT"), (5399.999, 0, 0.6, "ES")],
    # Late, and kept: the watermark is a millisecond before the end of the first pane.
    [(100, 1, 0.2, "PT")],
    [(5400, 0, 0.3, "ES")],
    # Too late: the watermark has reached that end.
    [(200, 1, 0.1, "PT"), (4000, 1, 0.5, "PT")],
    [(5 * HOUR, 0, 0.2, "PT")],
    [(30 * HOUR, 0, 0.2, "FR")],
    [(60 * HOUR, 0, 0.2, "FR")],
]
TOO_LATE = BATCHES[4][0]


def windows_of(batches: list[list[Event]], **options: Any) -> dict[tuple[int, str], se.Evaluator]:
    """The evaluator of each window (by its end in seconds) and slice, made by one process.

    Whose watermark moves between micro-batches.
    """
    found: dict[tuple[int, str], se.Evaluator] = {}
    latest = -(10**9)
    for batch in batches:
        watermark = int(latest * 1000) / 1000 - WINDOW.lateness_us / 10**6
        for at, y, p, country in batch:
            pane = int(at // HOUR) * HOUR
            if pane + HOUR <= watermark:
                continue
            for end in (pane + HOUR, pane + 2 * HOUR):
                for name in ("total", f"country={country or '(missing)'}"):
                    one = found.setdefault((end, name), se.Evaluator(**options))
                    one.update(y, score=p)
        latest = max(latest, *(event[0] for event in batch))
    return found


def emitted(rows: Iterable[Any]) -> dict[tuple[int, str, str], Any]:
    """The rows of a stream by the end of their window, slice and metric; each once."""
    found: dict[tuple[int, str, str], Any] = {}
    for row in rows:
        key = (int(row.end - START), row.slice, row.metric)
        assert key not in found
        found[key] = row
    return found


def run(out: Any, folder: Path, mode: str = "append") -> Any:
    """What a stream has written in the end; appended rows as Parquet."""
    out = out.withColumn("end", F.unix_timestamp("window.end"))
    writer = out.writeStream.outputMode(mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if mode == "append":
        writer.format("parquet").start(str(folder / "out")).awaitTermination()
        return out.sparkSession.read.parquet(str(folder / "out"))
    writer.format("memory").queryName(mode).start().awaitTermination()
    return out.sparkSession.table(mode)


def test_windows_that_closed_are_emitted_once_and_exactly(local: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "in", BATCHES)
    out = spark.evaluate_stream(stream_of(local, tmp_path / "in"), **ARGUMENTS, intervals=0.9)
    rows = emitted(run(out, tmp_path).collect())
    one = windows_of(BATCHES, metrics=["accuracy", "roc_auc"], intervals=True)
    closed = {key: each for key, each in one.items() if key[0] <= 59 * HOUR}
    assert {key[:2] for key in rows} == set(closed)
    for (end, name, metric), row in rows.items():
        evaluator = closed[end, name]
        assert bytes(row.state) == evaluator.to_bytes()
        assert row.events == evaluator.total.support
        assert row.window.end.timestamp() - row.window.start.timestamp() == 2 * HOUR
        interval = evaluator.interval(metric, level=0.9)
        if interval.defined:
            ends = (interval.value, interval.low, interval.high)
            assert (row.value, row.low, row.high) == ends
        elif row.value != row.value:
            assert row.reason
    # The event that the watermark's last millisecond decides, and one of a single class.
    assert rows[2 * HOUR, "total", "accuracy"].events == 8
    assert "no " in rows[6 * HOUR, "country=PT", "roc_auc"].reason


@pytest.mark.slow
def test_updates_end_at_the_same_values(local: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "in", BATCHES)
    out = spark.evaluate_stream(
        stream_of(local, tmp_path / "in"), **ARGUMENTS, output_mode="update"
    )
    last: dict[tuple[int, str], Any] = {}
    for row in run(out, tmp_path, "update").collect():
        key = int(row.end - START), row.slice
        if key not in last or row.events >= last[key].events:
            last[key] = row
    one = windows_of(BATCHES, metrics=["accuracy", "roc_auc"])
    assert {key: bytes(row.state) for key, row in last.items()} == {
        key: each.to_bytes() for key, each in one.items()
    }


def test_states_of_a_stream_merge_to_that_of_its_batch(local: Any, tmp_path: Path) -> None:
    """Tumbling windows, written as Parquet and merged: the evaluator of all events in time."""
    kept = [[event for event in batch if event is not TOO_LATE] for batch in BATCHES]
    write_batches(tmp_path / "in", kept)
    window = se.Panes("1h", lateness="30m")
    given = ARGUMENTS | {"window": window, "by": (), "metrics": ["roc_auc"]}
    # The watermark that a DataFrame has already.
    watermarked = stream_of(local, tmp_path / "in").withWatermark("at", "30 minutes")
    out = spark.evaluate_stream(watermarked, **given)
    merged = spark.merge_states(run(out, tmp_path))
    # The last event's window is open.
    table = local.read.schema(SCHEMA).json(str(tmp_path / "in")).where(f"at < {START + 60 * HOUR}")
    assert merged == spark.evaluate(table, y_true="label", score="p", metrics=["roc_auc"])


DRIVER = """
import sys
from pathlib import Path
from tests.engines import test_spark_stream as tests
from tests.support.spark_sessions import session
from streameval.integrations import spark

folder, directory, master = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
made = session(master, directory, **{"spark.executor.memory": "512m"})
tests.run(spark.evaluate_stream(tests.stream_of(made, folder / "in"), **tests.ARGUMENTS), folder)
"""


def commits(folder: Path) -> int:
    """How many micro-batches have been committed."""
    found = folder / "checkpoint" / "commits"
    return sum(path.name.isdecimal() for path in found.iterdir()) if found.exists() else 0


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """End a driver, its JVM and its workers, which share its group, as a power cut would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def executors(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes of executors within a driver's group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            same = os.getpgid(int(path.name)) == process.pid
            command = (path / "cmdline").read_bytes()
        except (OSError, ProcessLookupError):
            continue
        if same and b"CoarseGrainedExecutorBackend" in command and b"-Xmx" in command:
            found.append(int(path.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["driver", "executor"])
def test_a_kill_changes_no_byte(local: Any, tmp_path: Path, victim: str) -> None:
    """A driver is killed twice and started again; or an executor while it runs."""
    write_batches(tmp_path / "in", BATCHES)
    master = "local[2]" if victim == "driver" else "local-cluster[2,1,512]"

    def start(number: int) -> subprocess.Popen[bytes]:
        arguments = [str(tmp_path), str(tmp_path / f"run{number}"), master]
        command = [sys.executable, "-W", "ignore", "-c", DRIVER, *arguments]
        return subprocess.Popen(command, start_new_session=True)

    kills = [1, 4] if victim == "driver" else [1]
    process = start(0)
    try:
        for number, after in enumerate(kills, 1):
            while commits(tmp_path) < after:
                assert process.poll() is None
                time.sleep(0.01)
            if victim == "driver":
                kill_tree(process)
                process = start(number)
            else:
                os.kill(executors(process)[0], signal.SIGKILL)
                assert commits(tmp_path) < len(BATCHES)  # in the middle of the stream
        assert process.wait() == 0
    finally:
        if process.poll() is None:
            kill_tree(process)
    rows = emitted(local.read.parquet(str(tmp_path / "out")).collect())
    one = windows_of(BATCHES, metrics=["accuracy", "roc_auc"])
    expected = {key: each.to_bytes() for key, each in one.items() if key[0] <= 59 * HOUR}
    assert {key[:2]: bytes(row.state) for key, row in rows.items()} == expected


# Columns that are not there: test_spark_batch.py.
BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"event_time": "p"},
        "event_time: column 'p': expected timestamps, which Spark's watermark requires, got a "
        'column of type double; convert it with functions.to_timestamp("p")',
    ),
    (
        {"window": se.Last(10)},
        "window: expected Panes of whole milliseconds, which is the unit of Spark's watermark",
    ),
    (
        {"watermark": "5m"},
        "watermark: expected 30m, the lateness of the window, got 5m; pass "
        'window=Panes(..., lateness="5m")',
    ),
    ({"output_mode": "complete"}, 'output_mode: expected "append" or "update", got \'complete\''),
]


def test_bad_input_is_one_sentence(local: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = stream_of(local, tmp_path / "in")
    for changed, text in BAD:
        with pytest.raises(InputError, match=f"^{re.escape(text)}[^\n]*$"):
            spark.evaluate_stream(stream, **ARGUMENTS | changed)
    with pytest.raises(InputError, match=r"^withWatermark of column 'at': expected 30m, .* got 5m"):
        spark.evaluate_stream(stream.withWatermark("at", "5 minutes"), **ARGUMENTS)
    with pytest.raises(InputError, match=r"^df: expected a DataFrame that ends, got one of a str"):
        spark.evaluate(stream, y_true="label", score="p")
    with pytest.raises(InputError, match=r"^df: expected a DataFrame of a stream, got one that e"):
        spark.evaluate_stream(local.createDataFrame([], SCHEMA), **ARGUMENTS)
    key = "spark.sql.streaming.stateStore.providerClass"
    before = local.conf.get(key)
    local.conf.unset(key)
    local.conf.set(key, before.replace("RocksDB", "HDFSBacked"))
    try:
        with pytest.raises(InputError, match=rf"^{key}: expected RocksDB, .*; spark.conf.set\("):
            spark.evaluate_stream(stream, **ARGUMENTS)
    finally:
        local.conf.set(key, before)
