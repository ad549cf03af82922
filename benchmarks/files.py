"""The command line on a large file, and ``evaluate`` of tables: rows a second, and peak memory."""

from __future__ import annotations

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import metrics

import streameval as se
from benchmarks.memory import measured
from benchmarks.timing import Row, faster

_CHUNK = 200_000
# Of the index: score, positives and negatives of each distinct score.
_BYTES_A_SCORE = 24


def write_predictions(path: Path, rows: int) -> None:
    """JSON lines of 60 to 80 bytes with a label, a score and two other fields."""
    rng = np.random.default_rng(7)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, rows, _CHUNK):
            count = min(_CHUNK, rows - start)
            labels = rng.random(count) < 0.3
            scores = rng.random(count)
            file.writelines(
                f'{{"id":{start + n},"model":"v7","label":{str(label).lower()},"score":{score}}}\n'
                for n, (label, score) in enumerate(
                    zip(labels.tolist(), scores.tolist(), strict=True)
                )
            )


def _with_bytecode() -> None:
    """Compile the package's modules, as an installed one's are.

    Where ``PYTHONDONTWRITEBYTECODE`` is set, each process would compile those of a source tree.
    """
    compileall.compile_dir(Path(se.__file__).parent, quiet=2)


def evaluate_file(rows: int, repeats: int) -> list[Row]:
    """``streameval evaluate`` of so many rows."""
    _with_bytecode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.jsonl"
        write_predictions(path, rows)
        bytes_a_row = path.stat().st_size / rows
        seconds, memory = [], []
        for _ in range(repeats):
            taken, peak = _run(path)
            seconds.append(taken)
            memory.append(peak)
    median = statistics.median(seconds)
    rate = rows / median
    allowed = 150 + rows * _BYTES_A_SCORE / 2**20
    peak = statistics.median(memory)
    name = f"streameval evaluate, {rows:,} rows of {bytes_a_row:.0f} bytes, one core"
    return [
        Row(name, median, rows / 1e6, rate / 1e6, "≥ 1 M rows/s", rate >= 1e6, "1 µs a row"),
        Row(
            f"{name}: peak memory",
            peak,
            allowed,
            peak / allowed,
            "≤ 150 MB + index",
            peak <= allowed,
            f"150 MB + {_BYTES_A_SCORE} bytes a score",
            "MiB",
        ),
    ]


def _run(path: Path) -> tuple[float, float]:
    """Seconds and peak MiB of one run, in a process of its own on one core."""
    command = [sys.executable, "-m", "streameval.cli", "evaluate", str(path)]
    command += ["--y-true", "label", "--score", "score", "--format", "json"]
    core = min(os.sched_getaffinity(0))
    start = time.perf_counter()
    done = subprocess.run(
        measured(["taskset", "--cpu-list", str(core), *command]),
        capture_output=True,
        text=True,
        check=True,
    )
    taken = time.perf_counter() - start
    result, peak = done.stdout.rsplit("\n", 2)[:2]
    assert json.loads(result)["metrics"]["roc_auc"]["value"] > 0
    return taken, float(peak) / 2**20


def _by_scikit_learn(labels: Any, scores: Any) -> list[float]:
    predicted = scores >= 0.5
    return [
        metrics.accuracy_score(labels, predicted),
        metrics.f1_score(labels, predicted),
        metrics.roc_auc_score(labels, scores),
        metrics.log_loss(labels, scores),
    ]


def evaluate_tables(rows: int, repeats: int) -> list[Row]:
    """``streameval.evaluate`` of a table, against scikit-learn on the arrays that it is made of."""
    import pandas
    import polars
    import pyarrow

    rng = np.random.default_rng(7)
    labels = rng.random(rows) < 0.3
    scores = rng.random(rows)
    frame = pandas.DataFrame({"label": labels, "score": scores})
    tables = {
        "pandas": frame,
        "polars": polars.DataFrame({"label": labels, "score": scores}),
        "Arrow": pyarrow.table({"label": labels, "score": scores}),
        "numpy": {"label": labels, "score": scores},
    }

    def peer() -> list[float]:
        return _by_scikit_learn(labels, scores)

    def ours(table: object) -> list[float]:
        ev = se.evaluate(table, y_true="label", score="score")
        return [ev[name] for name in ("accuracy", "f1", "roc_auc", "log_loss")]

    expected = peer()
    for table in tables.values():
        np.testing.assert_allclose(ours(table), expected, rtol=1e-9)
    return [
        faster(
            f"evaluate() of a {name} table, {rows:,} rows: accuracy, F1, AUC, log loss",
            partial(ours, table),
            peer,
            target=2,
            repeats=repeats,
            peer_name="scikit-learn on the arrays",
        )
        for name, table in tables.items()
    ]


def evaluate_formats(rows: int, repeats: int) -> list[Row]:
    """``streameval.evaluate`` of a file in one process, against pandas and scikit-learn on it."""
    import pandas

    readers: dict[str, Callable[[Path], pandas.DataFrame]] = {
        "csv": partial(pandas.read_csv, usecols=["label", "score"]),
        "parquet": partial(pandas.read_parquet, columns=["label", "score"]),
        "jsonl": partial(pandas.read_json, lines=True),
    }

    def peer(path: Path) -> list[float]:
        frame = readers[path.suffix[1:]](path)
        return _by_scikit_learn(frame["label"].to_numpy(), frame["score"].to_numpy())

    def ours(path: Path) -> list[float]:
        ev = se.evaluate(path, y_true="label", score="score", workers=1)
        return [ev[name] for name in ("accuracy", "f1", "roc_auc", "log_loss")]

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"predictions.{ending}" for ending in readers]
        _write_formats(paths, rows)
        for path in paths:
            np.testing.assert_allclose(ours(path), peer(path), rtol=1e-9)
        return [
            faster(
                f"evaluate() of {path.suffix[1:]}, {rows:,} rows: accuracy, F1, AUC, log loss",
                partial(ours, path),
                partial(peer, path),
                target=3,
                repeats=repeats,
                peer_name="pandas and scikit-learn on the file",
            )
            for path in paths
        ]


def _write_formats(paths: Sequence[Path], rows: int) -> None:
    """One table in each format: an id, a text, a label and a score."""
    import pandas

    rng = np.random.default_rng(7)
    columns = {"id": range(rows), "model": "v7", "label": (rng.random(rows) < 0.3).astype(int)}
    frame = pandas.DataFrame({**columns, "score": rng.random(rows)})
    for path in paths:
        if path.suffix == ".csv":
            frame.to_csv(path, index=False)
        elif path.suffix == ".parquet":
            frame.to_parquet(path, index=False, row_group_size=200_000)
        else:
            frame.to_json(path, orient="records", lines=True, double_precision=15)


def evaluate_in_parts(rows: int, repeats: int) -> list[Row]:
    """``streameval.evaluate`` of one file by two processes, against one."""
    _with_bytecode()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.jsonl"
        write_predictions(path, rows)
        table = path.with_suffix(".csv")
        _write_formats([table], rows)
        for file, kind, target in ((path, "file", 1.8), (table, "CSV file", 1.6)):
            count = partial(se.evaluate, file, y_true="label", score="score")
            assert count(workers=2) == count(workers=1)
            found.append(
                faster(
                    f"evaluate() of one {kind} of {rows:,} lines by two processes",
                    partial(count, workers=2),
                    partial(count, workers=1),
                    target=target,
                    repeats=repeats,
                    peer_name="one process",
                )
            )
    return found
