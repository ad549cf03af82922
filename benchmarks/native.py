"""The compiled score index: against scikit-learn and numpy, and its growth."""

from __future__ import annotations

import gc
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from river import metrics as river_metrics
from sklearn.metrics import roc_auc_score

import streameval as se
from benchmarks.memory import resident
from benchmarks.timing import Part, Row, faster, interleaved
from streameval.states.ranking.reference_index import ReferenceScoreIndex

_EVENTS = 5_000


def filled(kind: type, distinct: int, seed: int = 11) -> Any:
    """An index of so many distinct scores whose pair count has been read."""
    rng = np.random.default_rng(seed)
    index = kind()
    index.update_many(rng.random(distinct) < 0.5, rng.random(distinct))
    assert index.twice_u >= 0
    return index


def _fresh(count: int, seed: int = 12) -> list[tuple[bool, float]]:
    rng = np.random.default_rng(seed)
    return list(zip((rng.random(count) < 0.5).tolist(), rng.random(count).tolist(), strict=True))


def _loop(index: Any, events: list[tuple[bool, float]]) -> Callable[[], None]:
    read = se.metrics.roc_auc

    def run() -> None:
        for label, score in events:
            index.update(label, score)
            read(index)

    return run


def parts(quick: bool) -> list[Part]:
    """What is measured of the compiled index; nothing where it is not built."""
    if se.backend() != "native":
        return []
    distinct = 200_000 if quick else 1_000_000
    many = 1_000_000 if quick else 10_000_000
    repeats = 3 if quick else 5
    return [
        partial(_running_error, distinct, repeats),
        partial(_running_interval, distinct, repeats),
        partial(_bulk, many, repeats),
        partial(_growth_row, many, repeats),
        partial(_memory_row, many),
    ]


def _running_error(distinct: int, repeats: int) -> Row:
    events = _fresh(_EVENTS)
    index = filled(se.ScoreIndex, distinct)
    index.delong_sums()
    read = se.metrics.roc_auc

    def ours() -> None:
        for label, score in events:
            index.update(label, score)
            read(index)
            math.sqrt(index.auc_variance())

    alone = _loop(filled(se.ScoreIndex, distinct), events)
    mine, theirs, ratio = interleaved(ours, alone, repeats)
    return Row(
        f"AUC and its standard error after every event, {distinct:,} distinct scores (native)",
        mine * 1e6 / _EVENTS,
        theirs * 1e6 / _EVENTS,
        1 / ratio,
        "≤ 3× the time",
        1 / ratio <= 3,
        "the AUC alone",
        "µs an event",
    )


def _running_interval(distinct: int, repeats: int) -> Row:
    rng = np.random.default_rng(11)
    evaluators = [se.Evaluator(metrics=["roc_auc"]) for _ in range(2)]
    for ev in evaluators:
        ev.update_many(rng.random(distinct) < 0.5, score=rng.random(distinct))
    with_interval, plain = evaluators
    with_interval.interval("roc_auc")
    assert plain["roc_auc"] > 0
    events = _fresh(_EVENTS)

    def ours() -> None:
        for label, score in events:
            with_interval.update(label, score=score)
            with_interval.interval("roc_auc")

    def alone() -> None:
        for label, score in events:
            plain.update(label, score=score)
            plain["roc_auc"]

    mine, theirs, ratio = interleaved(ours, alone, repeats)
    return Row(
        f"AUC and its interval after every event, {distinct:,} distinct scores: Evaluator (native)",
        mine * 1e6 / _EVENTS,
        theirs * 1e6 / _EVENTS,
        1 / ratio,
        "≤ 3× the time",
        1 / ratio <= 3,
        "the AUC alone",
        "µs an event",
    )


def _bulk(many: int, repeats: int) -> list[Row]:
    rng = np.random.default_rng(13)
    labels, scores = rng.random(many) < 0.3, rng.random(many)

    def ours() -> None:
        index = se.ScoreIndex()
        index.update_many(labels, scores)
        se.metrics.roc_auc(index)

    name = f"update_many of {many:,} events, then AUC (native)"
    mine, theirs, ratio = interleaved(ours, lambda: np.sort(scores), repeats)
    return [
        faster(
            name,
            ours,
            lambda: roc_auc_score(labels, scores),
            target=10,
            repeats=repeats,
            peer_name="scikit-learn roc_auc_score",
        ),
        Row(
            name, mine, theirs, 1 / ratio, "≤ 5× the time", 1 / ratio <= 5, "np.sort of the scores"
        ),
    ]


def _growth_row(many: int, repeats: int) -> Row:
    events = _fresh(_EVENTS)
    small, large = filled(se.ScoreIndex, 10_000), filled(se.ScoreIndex, many)
    mine, theirs, ratio = interleaved(_loop(large, events), _loop(small, events), repeats)
    return Row(
        f"cost of update + read from 10,000 to {many:,} distinct scores (native)",
        mine * 1e6 / _EVENTS,
        theirs * 1e6 / _EVENTS,
        1 / ratio,
        "< 4×",
        1 / ratio < 4,
        "at 10,000",
        "µs an event",
    )


def _memory_row(many: int) -> Row:
    """Bytes a distinct score, in a process of its own: what is resident after less before."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.native", str(many)],
        capture_output=True,
        text=True,
        check=True,
    )
    each = float(done.stdout) / many
    return Row(
        f"memory at {many:,} distinct scores, added one at a time (native)",
        each,
        24.0,
        each / 24,
        "≤ 24 bytes each",
        each <= 24,
        "the bound",
        "bytes",
    )


def growth(quick: bool) -> dict[str, list[tuple[int, float]]]:
    """µs of an update and a read against size, for each implementation."""
    top = 6 if quick else 7
    sizes = [10**power for power in range(3, top + 1)]
    curves: dict[str, list[tuple[int, float]]] = {}
    kinds: list[tuple[str, type]] = [("streameval, portable index", ReferenceScoreIndex)]
    if se.backend() == "native":
        kinds.insert(0, ("streameval, compiled index", se.ScoreIndex))
    for name, kind in kinds:
        curves[name] = [
            (size, _micro(_loop(filled(kind, size), _fresh(2_000)), 2_000)) for size in sizes
        ]
    curves["River RollingROCAUC (window of that size)"] = [
        (size, _river(size)) for size in sizes if size <= 100_000
    ]
    curves["scikit-learn on all events"] = [
        (size, _scikit_learn(size)) for size in sizes if size <= 1_000_000
    ]
    return curves


def _micro(run: Callable[[], None], events: int) -> float:
    taken = []
    for _ in range(3):
        gc.collect()
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6 / events


def _river(size: int) -> float:
    metric = river_metrics.RollingROCAUC(window_size=size)
    for label, score in _fresh(size, 3):
        metric.update(label, score)
    events = _fresh(20)

    def run() -> None:
        for label, score in events:
            metric.update(label, score)
            metric.get()

    return _micro(run, len(events))


def _scikit_learn(size: int) -> float:
    labels, scores = (np.array(column) for column in zip(*_fresh(size, 4), strict=True))
    return _micro(lambda: roc_auc_score(labels, scores), 1)


def main() -> None:
    """Print the bytes that an index fed one event at a time takes."""
    many = int(sys.argv[1])
    rng = np.random.default_rng(14)
    index = se.ScoreIndex()
    before = resident()
    for start in range(0, many, 100_000):
        count = min(100_000, many - start)
        for score in rng.random(count).tolist():
            index.update(start % 200_000 == 0, score)
    assert index.distinct == many
    print(resident() - before)


if __name__ == "__main__":
    main()
