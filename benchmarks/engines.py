"""Engines: evaluation of Parquet on Spark, Dask and Beam, against Spark ML and one process.

    python -m benchmarks.engines --events 100000000

Makes the events in Parquet, by parts and with a seed, and measures each row in a process of its
own, so that none finds the caches of another. The clock runs from a started engine, which has
evaluated one part, to the value; Beam starts with each pipeline, which its rows include. Slow
engines evaluate a share of the files. Writes ``engines.md`` and ``engines.json``; of fewer events
``engines-short``. With ``--only`` the other rows stay as they were, and with ``--folder`` the
events, so that an engine can be measured at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import streameval as se

HERE = Path(__file__).parent
FULL = 10**8
PART = 2_500_000
SEED = 13


class Outcome(NamedTuple):
    """What a row measured."""

    seconds: float
    roc_auc: float


class Measured(NamedTuple):
    """A row of the results."""

    name: str
    package: str
    """Its engine's distribution."""
    run: Callable[[Path], Outcome]
    """Evaluates the files of a folder."""
    share: int = 1
    """One in how many files is evaluated."""


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


_ML = "BinaryClassificationEvaluator"

ROWS = (
    Measured("one process: streameval evaluate", "streameval", one_process),
    Measured("Spark, 1 worker: streameval", "pyspark", _on_spark(1, _streameval_on_spark)),
    Measured("Spark, 2 workers: streameval", "pyspark", _on_spark(2, _streameval_on_spark)),
    Measured("Dask, 1 worker: streameval", "dask", _on_dask(1)),
    Measured("Dask, 2 workers: streameval", "dask", _on_dask(2)),
    Measured("Beam, 1 worker: streameval", "apache-beam", _on_beam(1), share=10),
    Measured("Beam, 2 workers: streameval", "apache-beam", _on_beam(2), share=10),
    Measured(f"Spark, 1 worker: {_ML}", "pyspark", _on_spark(1, _spark_ml), share=40),
    Measured(f"Spark, 2 workers: {_ML}", "pyspark", _on_spark(2, _spark_ml), share=40),
)
"""A worker is one process with one core. The first row's value is the exact one."""

Found = dict[str, dict[str, Any]]
"""From a row's name to what was measured, or to why it was not (``failed``)."""


def document(events: int, found: Found) -> str:
    """The results as Markdown."""
    measured = {name: row for name, row in found.items() if "failed" not in row}
    facts = [f"python {platform.python_version()}", f"{os.cpu_count()} processors"]
    facts += [platform.machine(), f"{se.backend()} states", f"numpy {np.__version__}"]
    facts += sorted({row["engine"] for row in measured.values()} - {_version("streameval")})
    lines = [
        "# Engines",
        "",
        f"Written by `make bench-engines EVENTS={events}`: {events:,} events in Parquet, in files "
        f"of {PART:,}, of which each row reads label and score and computes at least the AUC. "
        "streameval's rows compute all metrics of a binary task, and the AUC exactly. Where a row "
        "has fewer events it read the first files only: its AUC is that of these.",
        "",
        f"Machine: {', '.join(facts)}.",
        "",
        "| what | events | seconds | million events a second | AUC |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, row in measured.items():
        count, seconds = row["events"], row["seconds"]
        lines.append(
            f"| {name} | {count:,} | {seconds:.1f} | {count / seconds / 1e6:.2f} "
            f"| {row['roc_auc']:.12f} |"
        )
    failed = {name: row["failed"] for name, row in found.items() if "failed" in row}
    lines += ["", *(f"- Not measured: {name}: {why}" for name, why in failed.items())]
    return "\n".join(lines).rstrip() + "\n"


def _version(package: str) -> str:
    return f"{package} {metadata.version(package)}"


def measure(number: int, folder: Path, python: str) -> dict[str, Any]:
    """What a row gives in a process of its own."""
    row = ROWS[number]
    parts = sorted(folder.glob("part-*.parquet"))
    with tempfile.TemporaryDirectory(prefix="share-", dir=folder) as directory:
        share = Path(directory) / "events"
        share.mkdir()
        for part in parts[: -(-len(parts) // row.share)]:
            os.link(part, share / part.name)
        command = [python, "-W", "ignore", "-m", "benchmarks.engines"]
        command += ["--row", str(number), "--folder", str(share)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no reason"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def print_row(row: Measured, folder: Path) -> None:
    """Measure it, and print what it gives as JSON."""
    import pyarrow.parquet as parquet

    count = sum(parquet.read_metadata(path).num_rows for path in folder.iterdir())
    outcome = row.run(folder)
    print(json.dumps({"events": count, "engine": _version(row.package), **outcome._asdict()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=FULL)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--folder", type=Path, help="of the events, which are made once")
    parser.add_argument("--beam", default=sys.executable, help="the Python that has Beam")
    parser.add_argument("--row", type=int, help="measure this row of --folder, and print it")
    given = parser.parse_args()
    if given.row is not None:
        print_row(ROWS[given.row], given.folder)
        return
    results = HERE / ("engines.json" if given.events >= FULL else "engines-short.json")
    found: Found = {}
    if given.only and results.exists():
        found = json.loads(results.read_text())["rows"]
    with tempfile.TemporaryDirectory(prefix="engines-") as directory:
        folder = given.folder or Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        if not list(folder.glob("part-*.parquet")):
            make_events(folder, given.events)
        for number, row in enumerate(ROWS):
            if given.only not in row.name:
                continue
            python = given.beam if row.package == "apache-beam" else sys.executable
            result = found[row.name] = measure(number, folder, python)
            said = result.get("failed") or f"{result['seconds']:.1f} s"
            print(f"{row.name}: {said}", file=sys.stderr, flush=True)
    found = {row.name: found[row.name] for row in ROWS if row.name in found}
    results.write_text(json.dumps({"events": given.events, "rows": found}, indent=1) + "\n")
    results.with_suffix(".md").write_text(document(given.events, found))
    if any("failed" in row for row in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
