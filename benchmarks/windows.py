"""Windows: against River's rolling metrics, and how much memory panes take."""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from river import metrics as river_metrics
from river import utils as river_utils

import streameval as se
from benchmarks.timing import Row, faster, once

ROOT = Path(__file__).parents[1]


def rows(quick: bool) -> list[Row]:
    """All rows of this section."""
    return [
        *(in_backend(backend, quick) for backend in backends()),
        *(in_backend(backend, quick, large=True) for backend in backends()),
        macro_f1(20_000, 3 if quick else 7),
        memory(1000, 288) if quick else memory(10_000, 288),
        ties(),
        late_event(),
    ]


def backends() -> list[str]:
    """The score indices that this machine has; which one is used is decided at import."""
    return ["portable", "native"] if se.backend() == "native" else ["portable"]


def in_backend(backend: str, quick: bool, *, large: bool = False) -> Row:
    """A row of :func:`rolling_auc` out of a process that uses this index."""
    n, events, repeats = (100_000, 3000, 3) if large else (1000, 10_000, 5)
    code = (
        "import json; from benchmarks.windows import rolling_auc; "
        f"print(json.dumps(rolling_auc({n}, {events}, {repeats}).to_dict()))"
    )
    return Row(**_run(code, STREAMEVAL_BACKEND=backend))


def rolling_auc(n: int, events: int, repeats: int) -> Row:
    """AUC of the last n events after each event, update and read."""
    rng = np.random.default_rng(7)
    size = n + events
    labels = rng.random(size) < 0.3
    scores = np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0.0, 1.0).round(9)
    ev = se.Evaluator(window=se.Last(n), metrics=["roc_auc"])
    rolling = river_metrics.RollingROCAUC(window_size=n)
    stream = list(zip(labels.tolist(), scores.tolist(), strict=True))
    ev.update_many(labels[:n], score=scores[:n])
    for label, score in stream[:n]:
        rolling.update(label, score)
    # The first events after a batch and the first read prepare what later ones use.
    fresh = stream[n:]
    for label, score in fresh[:50]:
        ev.update(label, score=score)
        rolling.update(label, score)
    # A few of 100,000 scores are tied.
    same = abs(ev["roc_auc"] - rolling.get()) < 1e-6

    def ours() -> None:
        for label, score in fresh:
            ev.update(label, score=score)
            ev["roc_auc"]

    def peer() -> None:
        for label, score in fresh:
            rolling.update(label, score)
            rolling.get()

    # The same events again and again, but never one that is still inside.
    wanted = 80.0 if n > 10_000 else 1.0 if se.backend() == "native" else 0.5
    row = faster(
        f"AUC of the last {n:,} after every event ({se.backend()})",
        ours,
        peer,
        target=wanted,
        repeats=repeats,
        peer_name="River RollingROCAUC",
        events=events,
        peer_exact="ties count as lost",
    )
    assert same, "both agree where there are next to no ties"
    return row


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
    scale = 1 if sys.platform == "darwin" else 1024
    # A first evaluator of this kind, so that what is loaded once is not counted.
    _fill(2, 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    kept: list[se.Evaluator] = []
    seconds = once(lambda: kept.append(_fill(slices, panes)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    views = kept[0].slices()
    assert len(views) == slices
    held = next(iter(views.values())).series("accuracy")
    assert len(held) == panes
    return {
        "gigabytes": peak / 1e9,
        "bytes_a_pane": (peak - before) / (slices * panes),
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
    found = _run(code)
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


def _run(code: str, **environment: str) -> dict[str, Any]:
    """The JSON that a Python process of its own prints."""

    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


if __name__ == "__main__":
    started = time.perf_counter()
    for measured in rows("--quick" in sys.argv):
        print(measured)
    print(f"{time.perf_counter() - started:.0f} s")
