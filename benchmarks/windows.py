"""Windows: against peers' rolling metrics, and how much memory panes take.

torcheval's row is left out where it is not installed (``pip install torch torcheval``), MOA's where
Java or Maven, which fetches it, is missing.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from river import metrics as river_metrics
from river import utils as river_utils

import streameval as se
from benchmarks.memory import peak, resident
from benchmarks.timing import (
    NO_TARGET,
    ROOT,
    Part,
    Row,
    faster,
    in_a_process,
    interleaved,
    once,
    printed,
)
from tests.support.maven import AbsentError, fetch

_HERE = "benchmarks.windows"


def parts(quick: bool) -> list[Part]:
    """All rows of this section."""
    return [
        *(
            partial(in_a_process, _HERE, f"rolling_auc({n})", STREAMEVAL_BACKEND=backend)
            for n in (1000, 100_000)
            for backend in backends()
        ),
        *(
            partial(in_a_process, _HERE, call, STREAMEVAL_BACKEND="native")
            for call in native_rows(quick)
            if "native" in backends()
        ),
        partial(torcheval_where_it_runs, 1_000, 1_000, 3 if quick else 5),
        partial(moa_where_it_runs, {1_000: 3_000, 100_000: 300}, 1 if quick else 5),
        partial(macro_f1, 20_000, 3 if quick else 7),
        partial(memory, 1000 if quick else 10_000, 288),
        ties,
        late_event,
    ]


def backends() -> list[str]:
    """The score indices that this machine has; which one is used is decided at import."""
    return ["portable", "native"] if se.backend() == "native" else ["portable"]


def native_rows(quick: bool) -> tuple[str, ...]:
    """What is measured with the compiled index only."""
    threads = "two_threads(1_000_000, 7)" if quick else "two_threads(5_000_000, 25)"
    return "rolling_auc(1_000_000)", "growth(1000, 1_000_000)", threads


_TARGETS = {1000: 2.0, 100_000: 500.0, 1_000_000: 5000.0}
"""How many times faster than River the compiled index is wanted to be; nothing of the portable."""

# River reads in a time proportional to the window: as many events as fit in half a second.
_RIVER_EVENTS = {1000: 10_000, 100_000: 500, 1_000_000: 25}
_EVENTS = 10_000


def _stream(n: int, events: int, seed: int = 7) -> tuple[Any, Any, list[tuple[bool, float]]]:
    """Labels and scores that fill a window, and the events that come after them."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n + events) < 0.3
    scores = rng.normal(0.4 + 0.2 * labels, 0.2).round(9)
    fresh = list(zip(labels[n:].tolist(), scores[n:].tolist(), strict=True))
    return labels[:n], scores[:n], fresh


def _full(n: int, repeats: int) -> tuple[se.Evaluator, Callable[[], None]]:
    """An evaluator with a full window, and an update and a read of _EVENTS events in turn.

    The same events come again and again in a small window, but never one that
    is still inside a large one.
    """
    labels, scores, fresh = _stream(n, _EVENTS * (repeats + 1))
    ev = se.Evaluator(window=se.Last(n), metrics=["roc_auc"])
    ev.update_many(labels, score=scores)
    starts = iter(range(0, len(fresh), _EVENTS))

    def run() -> None:
        start = next(starts)
        for label, score in fresh[start : start + _EVENTS]:
            ev.update(label, score=score)
            ev["roc_auc"]

    # The first events after a batch and the first read prepare what later ones use.
    run()
    return ev, run


def rolling_auc(n: int, repeats: int = 5) -> Row:
    """AUC of the last n events after each event, update and read."""
    ev, ours = _full(n, repeats)
    labels, scores, fresh = _stream(n, _EVENTS * (repeats + 1))
    rolling = river_metrics.RollingROCAUC(window_size=n)
    for label, score in zip(labels.tolist(), scores.tolist(), strict=True):
        rolling.update(label, score)
    for label, score in fresh[:_EVENTS]:
        rolling.update(label, score)
    # A few of 100,000 scores are tied.
    same = abs(ev["roc_auc"] - rolling.get()) < 1e-6
    count = _RIVER_EVENTS[n]
    starts = iter(range(_EVENTS, len(fresh), count))

    def peer() -> None:
        start = next(starts)
        for label, score in fresh[start : start + count]:
            rolling.update(label, score)
            rolling.get()

    mine, theirs, ratio = interleaved(ours, peer, repeats)
    ratio *= _EVENTS / count
    wanted = _TARGETS[n] if se.backend() == "native" else None
    assert same, "both agree where there are next to no ties"
    return Row(
        f"AUC of the last {n:,} after every event ({se.backend()})",
        mine * 1e6 / _EVENTS,
        theirs * 1e6 / count,
        ratio,
        f"≥ {wanted:g}×" if wanted else NO_TARGET,
        not wanted or ratio >= wanted,
        f"River RollingROCAUC, over {count:,} events of a full window",
        "µs an event",
        peer_exact="ties count as lost",
    )


def torcheval_where_it_runs(n: int, events: int, repeats: int) -> list[Row]:
    """:func:`against_torcheval`; no row where it is not installed."""
    if importlib.util.find_spec("torcheval") is None:
        print("no row of torcheval, which is not installed", file=sys.stderr)
        return []
    # In a process of its own, which torch fills with threads.
    return [in_a_process(_HERE, f"against_torcheval({n}, {events}, {repeats})")]


_MOA = "nz.ac.waikato.cms.moa:moa:2024.07.0"


def against_torcheval(n: int, events: int, repeats: int) -> Row:
    """torcheval's AUC of a window, which sorts the window at each read."""
    import torch
    from torcheval.metrics import WindowedBinaryAUROC

    ev, ours = _full(n, repeats)
    _, _, fresh = _stream(n, _EVENTS * (repeats + 1))
    peer = WindowedBinaryAUROC(max_num_samples=n)

    def update(stream: list[tuple[bool, float]]) -> None:
        labels, scores = zip(*stream, strict=True)
        peer.update(torch.tensor(scores, dtype=torch.float64), torch.tensor(labels))

    update(fresh[_EVENTS - n : _EVENTS])
    assert abs(ev["roc_auc"] - float(peer.compute())) < 1e-6
    starts = iter(range(_EVENTS, len(fresh), events))

    def theirs() -> None:
        start = next(starts)
        for event in fresh[start : start + events]:
            update([event])
            peer.compute()

    seconds = [(once(ours), once(theirs)) for _ in range(repeats)]
    return _against(n, seconds, events, "torcheval WindowedBinaryAUROC")


def moa_where_it_runs(events: dict[int, int], repeats: int) -> list[Row]:
    """:func:`against_moa`, a row for each window and its events; none without Java or Maven."""
    try:
        jars = fetch(_MOA, ROOT / "build" / "moa")
    except AbsentError as error:
        print(f"no rows of MOA: {error}", file=sys.stderr)
        return []
    return [against_moa(jars, n, count, repeats) for n, count in events.items()]


def against_moa(jars: Path, n: int, events: int, repeats: int) -> Row:
    """MOA's AUC of a window: a tree of the scores, walked whole at each read. In Java."""
    ev, ours = _full(n, repeats)
    labels, scores, fresh = _stream(n, _EVENTS * (repeats + 1))
    stream = [*zip(labels, scores, strict=True), *fresh[:_EVENTS]]
    auc = ev["roc_auc"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events"
        np.array(stream, dtype=">f8").tofile(file)

        def theirs() -> float:
            program = ["java", "-cp", f"{jars}/*", "benchmarks/RollingAuc.java"]
            arguments = [str(n), str(events), str(file)]
            done = subprocess.run(program + arguments, cwd=ROOT, capture_output=True, check=True)
            found = json.loads(done.stdout)
            assert abs(auc - found["auc"]) < 1e-6, "both agree where there are next to no ties"
            return float(found["seconds"])

        seconds = [(once(ours), theirs()) for _ in range(repeats)]
    return _against(n, seconds, events, "MOA WindowAUCImbalancedPerformanceEvaluator, Java")


def _against(n: int, seconds: list[tuple[float, float]], events: int, peer: str) -> Row:
    """A row of the seconds of _EVENTS events here and of some of the peer's, in turn."""
    mine = [ours / _EVENTS for ours, _ in seconds]
    theirs = [peers / events for _, peers in seconds]
    ratio = statistics.median(b / a for a, b in zip(mine, theirs, strict=True))
    return Row(
        f"AUC of the last {n:,} after every event ({se.backend()})",
        statistics.median(mine) * 1e6,
        statistics.median(theirs) * 1e6,
        ratio,
        "≥ 1×",
        ratio >= 1,
        f"{peer}, over {events:,} events of a full window",
        "µs an event",
        share=ratio,
    )


def growth(small: int, large: int, repeats: int = 7) -> Row:
    """The same of a large window against a small one."""
    _, few = _full(small, repeats)
    _, many = _full(large, repeats)
    mine, theirs, ratio = interleaved(many, few, repeats)
    return Row(
        f"cost of update + read from the last {small:,} to the last {large:,} ({se.backend()})",
        mine * 1e6 / _EVENTS,
        theirs * 1e6 / _EVENTS,
        1 / ratio,
        "< 3×",
        1 / ratio < 3,
        f"at {small:,}",
        "µs an event",
    )


def two_threads(many: int, repeats: int) -> Row:
    """Two evaluators fed at once by two threads, against one after the other."""
    columns = [_stream(many, 0, seed)[:2] for seed in (1, 2)]

    def feed(labels: Any, scores: Any) -> None:
        ev = se.Evaluator()
        ev.update_many(labels, score=scores)
        assert ev["roc_auc"] > 0

    found, sorts = [], []
    for _ in range(repeats):
        found.append(_scaling(feed, columns))
        # What two threads can gain at all, on this machine and at this moment.
        sorts.append(_scaling(lambda _, scores: np.sort(scores), columns)[2])
    mine, theirs, ratio = (statistics.median(column) for column in zip(*found, strict=True))
    shares = [ours[2] / possible for ours, possible in zip(found, sorts, strict=True)]
    return Row(
        f"update_many of {many:,} events and AUC in two threads on two evaluators ({se.backend()})",
        mine,
        theirs,
        ratio,
        "≥ 1.5×, or 0.85 of what np.sort gains",
        ratio >= 1.5 or statistics.median(shares) >= 0.85,
        f"one thread, one after the other; np.sort gains {statistics.median(sorts):.2f}",
    )


def _scaling(
    work: Callable[..., object], parts: list[tuple[Any, Any]]
) -> tuple[float, float, float]:
    def together() -> None:
        threads = [threading.Thread(target=work, args=part) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def in_turn() -> None:
        for part in parts:
            work(*part)

    return interleaved(together, in_turn, 1)


def macro_f1(events: int, repeats: int) -> Row:
    """Macro F1 of the last 1,000 events of three classes, update and read."""
    rng = np.random.default_rng(8)
    true = rng.choice(3, events, p=[0.5, 0.3, 0.2])
    guess = np.where(rng.random(events) < 0.7, true, rng.integers(0, 3, events))
    stream = list(zip(true.tolist(), guess.tolist(), strict=True))
    ev = se.Evaluator(task="multiclass", window=se.Last(1000), metrics=["f1_macro"])
    with warnings.catch_warnings():
        # The way with a class does not take metrics yet in all versions.
        warnings.simplefilter("ignore", DeprecationWarning)
        rolling: Any = river_utils.Rolling(river_metrics.MacroF1(), window_size=1000)

    def ours() -> None:
        for label, predicted in stream:
            ev.update(label, predicted)
            ev["f1_macro"]

    def peer() -> None:
        for label, predicted in stream:
            rolling.update(label, predicted)
            rolling.get()

    ours()
    peer()
    assert abs(ev["f1_macro"] - rolling.get()) < 1e-12
    return faster(
        "macro F1 of the last 1,000 after every event",
        ours,
        peer,
        target=1.0,
        repeats=repeats,
        peer_name="River utils.Rolling(MacroF1)",
        events=events,
    )


def slices_memory(slices: int, panes: int) -> dict[str, float]:
    """What so many slices of so many panes of label metrics take, an event in each.

    Returns:
        ``gigabytes`` (the process at its peak), ``bytes_a_pane`` (above what
        it was before) and ``seconds``.
    """
    # A first evaluator of this kind, so that what is loaded once is not counted.
    _fill(2, 2)
    before = resident()
    kept: list[se.Evaluator] = []
    seconds = once(lambda: kept.append(_fill(slices, panes)))
    most = peak()
    views = kept[0].slices()
    assert len(views) == slices
    held = next(iter(views.values())).series("accuracy")
    assert len(held) == panes
    return {
        "gigabytes": most / 1e9,
        "bytes_a_pane": (most - before) / (slices * panes),
        "seconds": seconds,
    }


def _fill(slices: int, panes: int) -> se.Evaluator:
    rng = np.random.default_rng(9)
    ev = se.Evaluator(
        window=se.Panes("1d", "5m", retain="1d"),
        slices=("user",),
        metrics=["accuracy", "f1", "matthews_corrcoef"],
        time_unit="s",
    )
    users = np.arange(slices)
    for pane in range(panes):
        # Four events of each: the whole confusion of two classes.
        true, predicted = np.divmod(np.arange(4 * slices) // slices, 2)
        ev.update_many(
            true == 1,
            predicted == 1,
            event_time=pane * 300 + rng.integers(0, 300, 4 * slices),
            slices={"user": np.tile(users, 4)},
        )
    return ev


def memory(slices: int, panes: int) -> Row:
    """The memory of many slices of many panes, in a process of their own."""
    code = (
        "import json; from benchmarks.windows import slices_memory; "
        f"print(json.dumps(slices_memory({slices}, {panes})))"
    )
    found = printed(code)
    # 2 GB over the 2,880,000 panes of the whole; of fewer the process itself is the most.
    most = 2e9 / 2_880_000
    whole = slices * panes == 2_880_000
    taken = found["gigabytes"] * 1e9 / 2_880_000 if whole else found["bytes_a_pane"]
    return Row(
        f"memory of {slices:,} slices × {panes} panes of label metrics",
        taken,
        most,
        most / taken,
        "< 2 GB for 10,000 × 288",
        taken < most,
        f"the limit; {found['gigabytes']:.2f} GB at the peak, {found['seconds']:.0f} s to fill",
        "bytes a pane",
    )


def ties() -> Row:
    """The AUC of 20 events that all have the same score: one half, for neither class wins."""
    ev = se.Evaluator(window=se.Last(20), metrics=["roc_auc"])
    rolling = river_metrics.RollingROCAUC(window_size=20)
    for n in range(20):
        ev.update(n == 0, score=0.5)
        rolling.update(n == 0, 0.5)
    return _flaw(
        "AUC of one positive among 19 negatives of its score", ev["roc_auc"], rolling.get(), 0.5
    )


def late_event() -> Row:
    """Accuracy of the last hour when a wrong prediction of five hours ago comes in."""
    start = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    late = start - dt.timedelta(hours=5)
    ev = se.Evaluator(window=se.Panes("1h", "5m", "10m"), metrics=["accuracy"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        hour = dt.timedelta(hours=1)
        rolling: Any = river_utils.TimeRolling(river_metrics.Accuracy(), period=hour)
    for moment, predicted in ((start, True), (late, False)):
        ev.update(True, predicted, event_time=moment)
        rolling.update(True, predicted, t=moment.replace(tzinfo=None))
    return _flaw("accuracy of the last hour, an event 5 h late", ev["accuracy"], rolling.get(), 1.0)


def _flaw(name: str, ours: float, theirs: float, truth: float) -> Row:
    return Row(
        name,
        ours,
        theirs,
        abs(theirs - truth),
        f"exactly {truth:g}",
        ours == truth,
        "River",
        "",
        peer_exact="exact" if theirs == truth else f"off by {abs(theirs - truth):g}",
    )


if __name__ == "__main__":
    started = time.perf_counter()
    for part in parts("--quick" in sys.argv):
        print(part())
    print(f"{time.perf_counter() - started:.0f} s")
