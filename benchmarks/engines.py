"""Engines: evaluation of Parquet on Spark, Dask and Beam, against Spark ML and one process.

    python -m benchmarks.engines --events 100000000

Makes the events in Parquet, by parts and with a seed, and measures each row in a process of its
own, so that none finds the caches of another. The clock runs from a started engine, which has
evaluated one part, to the value; Beam starts with each pipeline, which its rows include. Writes
``engines.md``; of fewer events ``engines-short.md``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import streameval as se
from benchmarks.run import machine

HERE = Path(__file__).parent
FULL = 10**8
PART = 2_500_000
SEED = 13


class Outcome(NamedTuple):
    """What a row measured."""

    seconds: float
    roc_auc: float


class Measured(NamedTuple):
    """A row of the results: its name, and what evaluates the files of a folder."""

    name: str
    run: Callable[[Path], Outcome]


def make_events(folder: Path, events: int) -> None:
    """Parquet parts of label and score: six digits, so a million distinct scores."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    for number, start in enumerate(range(0, events, PART)):
        random = np.random.default_rng([SEED, number])
        count = min(PART, events - start)
        label = random.random(count) < 0.3
        score = np.round(np.clip(random.normal(0.4 + 0.15 * label, 0.2), 0, 1), 6)
        table = arrow.table({"label": label.astype(np.int8), "score": score})
        parquet.write_table(table, folder / f"part-{number:05}.parquet")


def one_process(folder: Path) -> Outcome:
    """The command line, on all files."""
    state = folder.parent / "one.state"
    command = [sys.executable, "-m", "streameval.cli", "evaluate", str(folder / "*.parquet")]
    command += ["--y-true", "label", "--score", "score", "--save", str(state), "--no-progress"]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    return Outcome(seconds, se.load(state)["roc_auc"])


def _on_spark(workers: int, value: Callable[[Any], float]) -> Callable[[Path], Outcome]:
    def run(folder: Path) -> Outcome:
        from tests.support.spark_sessions import session

        directory = folder.parent / "spark"
        made = session(
            f"local-cluster[{workers},1,2048]",
            directory,
            **{"spark.executor.memory": "2g", "spark.sql.shuffle.partitions": "8"},
        )
        try:
            value(made.read.parquet(str(folder / "part-00000.parquet")))
            rows = made.read.parquet(str(folder))
            start = time.perf_counter()
            found = value(rows)
            return Outcome(time.perf_counter() - start, found)
        finally:
            made.stop()

    return run


def _streameval_on_spark(rows: Any) -> float:
    from streameval.integrations import spark

    return float(spark.evaluate(rows, y_true="label", score="score")["roc_auc"])


def _spark_ml(rows: Any) -> float:
    from pyspark.ml.evaluation import BinaryClassificationEvaluator
    from pyspark.sql import functions

    evaluator = BinaryClassificationEvaluator(rawPredictionCol="score", labelCol="label")
    numbers = rows.withColumn("label", functions.col("label").cast("double"))
    return float(evaluator.evaluate(numbers))


def _on_dask(workers: int) -> Callable[[Path], Outcome]:
    def run(folder: Path) -> Outcome:
        from dask import dataframe
        from distributed import Client, LocalCluster

        from streameval.integrations.dask import evaluate

        def value(path: Path) -> float:
            rows = dataframe.read_parquet(str(path))
            return evaluate(rows, y_true="label", score="score")["roc_auc"]

        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as made,
            Client(made),
        ):
            value(folder / "part-00000.parquet")
            start = time.perf_counter()
            found = value(folder)
            return Outcome(time.perf_counter() - start, found)

    return run


def _on_beam(workers: int) -> Callable[[Path], Outcome]:
    def run(folder: Path) -> Outcome:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        from streameval.integrations.beam import EvaluateFn

        state = str(folder.parent / "beam.state")
        options = ["--runner=FnApiRunner", f"--direct_num_workers={workers}"]
        options += ["--direct_running_mode=multi_processing"]
        start = time.perf_counter()
        with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
            found = (
                pipeline
                | beam.io.ReadFromParquetBatched(str(folder / "*.parquet"))
                | beam.CombineGlobally(EvaluateFn(y_true="label", score="score"))
            )
            _ = found | beam.Map(lambda evaluator: evaluator.save(state))
        return Outcome(time.perf_counter() - start, se.load(state)["roc_auc"])

    return run


ROWS = (
    Measured("one process: streameval evaluate", one_process),
    Measured("Spark, 1 worker: streameval", _on_spark(1, _streameval_on_spark)),
    Measured("Spark, 2 workers: streameval", _on_spark(2, _streameval_on_spark)),
    Measured("Dask, 1 worker: streameval", _on_dask(1)),
    Measured("Dask, 2 workers: streameval", _on_dask(2)),
    Measured("Beam, 1 worker: streameval", _on_beam(1)),
    Measured("Beam, 2 workers: streameval", _on_beam(2)),
    Measured("Spark, 1 worker: BinaryClassificationEvaluator", _on_spark(1, _spark_ml)),
    Measured("Spark, 2 workers: BinaryClassificationEvaluator", _on_spark(2, _spark_ml)),
)
"""A worker is one process with one core. The first row's value is the exact one."""


def document(events: int, found: dict[str, Outcome], failed: dict[str, str]) -> str:
    """The results as Markdown."""
    facts = ", ".join(f"{key} {value}" for key, value in machine().items())
    lines = [
        "# Engines",
        "",
        f"Written by `make bench-engines EVENTS={events}`: {events:,} events in Parquet, of which "
        "each row reads label and score and computes at least the AUC. streameval's rows "
        "compute all metrics of a binary task, and the AUC exactly.",
        "",
        f"Machine: {facts}.",
        "",
        "| what | seconds | million events a second | AUC |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, each in found.items():
        rate = events / each.seconds / 1e6
        lines.append(f"| {name} | {each.seconds:.1f} | {rate:.2f} | {each.roc_auc:.12f} |")
    lines += ["", *(f"- Not measured: {name}: {why}" for name, why in failed.items())]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=FULL)
    parser.add_argument("--row", type=int, help="measure this row of --folder, and print it")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.row is not None:
        print(json.dumps(ROWS[given.row].run(given.folder)))
        return
    found: dict[str, Outcome] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="engines-") as directory:
        folder = Path(directory) / "events"
        folder.mkdir()
        make_events(folder, given.events)
        for number, row in enumerate(ROWS):
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.engines"]
            command += ["--row", str(number), "--folder", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                failed[row.name] = (done.stderr.strip().splitlines() or ["no reason"])[-1]
                print(f"{row.name}: {failed[row.name]}", file=sys.stderr)
                continue
            found[row.name] = Outcome(*json.loads(done.stdout.splitlines()[-1]))
            print(f"{row.name}: {found[row.name].seconds:.1f} s", flush=True)
    name = "engines" if given.events >= FULL else "engines-short"
    (HERE / f"{name}.md").write_text(document(given.events, found, failed))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
