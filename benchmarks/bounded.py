"""Bounded memory: the cost of an event, the width of the bounds, and the memory of a long stream.

    python -m benchmarks.bounded EVENTS

counts so many events in an evaluator with ``max_scores`` and prints what it took. The files of the
row of a run take 45 bytes an event of disk while it is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars

import streameval as se
from benchmarks.memory import measured, peak
from benchmarks.timing import Part, Row, interleaved
from streameval.events.values import BoolArray, FloatArray
from streameval.uncertainty.bounds import BOUNDED, bounds_of

_LIMIT = 65_536
_CHUNK = 1_000_000


def parts(quick: bool) -> list[Part]:
    """What is measured of indexes with a limit."""
    many = 1_000_000 if quick else 5_000_000
    long = 5_000_000 if quick else 100_000_000
    repeats = 5 if quick else 11
    return [
        partial(_update_rows, 200_000 if quick else 1_000_000, repeats),
        partial(_width_rows, many),
        partial(_memory_rows, long),
        partial(_run_row, long),
    ]


def _filled(events: int, seed: int, **options: Any) -> se.ScoreIndex:
    rng = np.random.default_rng(seed)
    index = se.ScoreIndex(**options)
    index.update_many(rng.random(events) < 0.5, rng.random(events))
    assert index.twice_u >= 0
    return index


def _loop(index: se.ScoreIndex, events: list[tuple[bool, float]]) -> Callable[[], None]:
    read = se.metrics.roc_auc

    def run() -> None:
        for positive, score in events:
            index.update(positive, score)
            read(index)

    return run


def _update_rows(before: int, repeats: int) -> list[Row]:
    """Beside an exact index of the same stream, and beside one of as many distinct scores."""
    count, rng = 20_000, np.random.default_rng(2)
    columns = (rng.random(count) < 0.5).tolist(), rng.random(count).tolist()
    events = list(zip(*columns, strict=True))
    rows = []
    bounded = _filled(before, 1, max_scores=_LIMIT)
    for size in (before, bounded.distinct):
        exact = _filled(size, 1)
        mine, theirs, ratio = interleaved(_loop(bounded, events), _loop(exact, events), repeats)
        rows.append(
            Row(
                f"AUC after every event, {_LIMIT:,} scores at most ({se.backend()})",
                mine * 1e6 / count,
                theirs * 1e6 / count,
                1 / ratio,
                "≤ 1.5× the time",
                1 / ratio <= 1.5,
                f"an exact index of {size:,} distinct scores",
                "µs an event",
                exact="bounds",
            )
        )
    return rows


def _balanced(rng: np.random.Generator, size: int) -> tuple[BoolArray, FloatArray]:
    positive = rng.random(size) < 0.5
    return positive, np.where(positive, rng.beta(3, 2, size), rng.beta(2, 3, size))


def _rare(rng: np.random.Generator, size: int) -> tuple[BoolArray, FloatArray]:
    positive = rng.random(size) < 0.002
    return positive, np.where(positive, rng.beta(2, 20, size), rng.beta(1, 200, size))


_WIDTHS = {
    "balanced": (_balanced, {4_096: 9.3e-4, 16_384: 2.3e-4, 65_536: 5.8e-5, 262_144: 1.5e-5}),
    "0.2 % positive": (_rare, {4_096: 9.3e-5, 16_384: 2.3e-5, 65_536: 2.9e-6, 262_144: 7.3e-7}),
}
"""Widths of AUC's bounds after 5,000,000 events, by limit."""


def _width_rows(many: int) -> list[Row]:
    rows = []
    for name, (draw, widths) in _WIDTHS.items():
        columns = draw(np.random.default_rng(3), many)
        exact = se.ScoreIndex()
        exact.update_many(*columns)
        for limit, documented in widths.items():
            index = se.ScoreIndex(max_scores=limit)
            index.update_many(*columns)
            bounds = bounds_of(BOUNDED["roc_auc"], se.metrics.roc_auc, index)
            assert bounds.low <= se.metrics.roc_auc(exact) <= bounds.high
            ratio = bounds.width / documented
            rows.append(
                Row(
                    f"width of AUC's bounds, {many:,} events, {name}, {limit:,} scores at most",
                    bounds.width,
                    documented,
                    ratio,
                    "≤ 1.1×",
                    ratio <= 1.1,
                    "documented",
                    "",
                    exact="bounds",
                )
            )
    return rows


def _within(what: str, events: int, peak_bytes: int) -> Row:
    megabytes = peak_bytes / 1e6
    return Row(
        f"peak memory of {what} {events:,} events, {_LIMIT:,} scores at most, Python included",
        megabytes,
        300.0,
        megabytes / 300,
        "< 300 MB",
        megabytes < 300,
        "the bound",
        "MB",
        exact="bounds",
    )


_RUN = """
store = "run.db"
[evaluator]
task = "binary"
[fields]
y_true = "y"
score = "s"
[files]
records = ["part-*.jsonl"]
follow = false
[serve]
enabled = false
"""


def _run_row(events: int) -> Row:
    """Of ``streameval run`` with its defaults over files in which hardly a score is repeated."""
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in range(10):
            positive, score = _balanced(rng, events // 10)
            columns = polars.DataFrame({"y": positive.astype(np.int8), "s": score})
            columns.write_ndjson(folder / f"part-{part}.jsonl")
        (folder / "run.toml").write_text(_RUN)
        command = [sys.executable, "-m", "streameval.cli", "run", "run.toml"]
        done = subprocess.run(measured(command), cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert f"{events:,} events counted" in done.stderr.decode()
        return _within("streameval run over", events, int(done.stdout.splitlines()[-1]))


def _memory_rows(events: int) -> Row:
    """In a process of its own, chunk by chunk: its peak, Python and numpy included."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bounded", str(events)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return _within("update_many of", events, found["peak"])


def main() -> None:
    """Count a stream chunk by chunk; print peak bytes, seconds and the width of the bounds."""
    events = int(sys.argv[1])
    ev = se.Evaluator(max_scores=_LIMIT)
    rng = np.random.default_rng(4)
    seconds = 0.0
    for start in range(0, events, _CHUNK):
        positive, score = _balanced(rng, min(_CHUNK, events - start))
        began = time.perf_counter()
        ev.update_many(positive, score=score)
        seconds += time.perf_counter() - began
    bounds = ev.bounds("roc_auc")
    found = {"peak": peak(), "seconds": seconds, "width": bounds.width, "auc": ev["roc_auc"]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
