"""The public paths, an event at a time: each against River's running AUC in the same run.

One yardstick for all of them, ``ROCAUC()`` of River with an update and a read, so that their
costs can be compared with each other and from one machine to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import streameval as se
from benchmarks.events import river_auc
from benchmarks.memory import peak, resident
from benchmarks.timing import Part, Row, faster, in_a_process, interleaved

_YARDSTICK = 12.4
"""µs of River's update and read on the machine for which the wanted µs were set."""
_RIVER_EVENTS = 5_000
_START = 1_700_000_000

Loop = Callable[[], None]


class Path(NamedTuple):
    """A way that users call it."""

    what: str
    wanted: float
    """µs an event where River's take 12.4."""
    prepare: Callable[[int, int], Loop]
    """From the events before, and those of one run, to the run."""
    before: int = 50_000
    events: int = 10_000


def _stream(count: int, seed: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.random(count) < 0.3
    return truth, np.where(truth, rng.beta(3, 2, count), rng.beta(2, 3, count))


def _events(count: int, seed: int = 4) -> list[tuple[bool, float]]:
    truth, scores = _stream(count, seed)
    return list(zip(truth.tolist(), scores.tolist(), strict=True))


def _scores(*names: str, weight: float = 1, **options: Any) -> Callable[[int, int], Loop]:
    """Update with a score, and a read of these metrics."""

    def prepare(before: int, events: int) -> Loop:
        ev = se.Evaluator(**options)
        truth, score = _stream(before)
        ev.update_many(truth, score=score, weight=None if weight == 1 else np.full(before, weight))
        fresh = _events(events)

        def run() -> None:
            update = ev.update
            for label, value in fresh:
                update(label, score=value)
                for name in names:
                    ev[name]

        def weighted() -> None:
            update = ev.update
            for label, value in fresh:
                update(label, score=value, weight=weight)
                for name in names:
                    ev[name]

        return run if weight == 1 else weighted

    return prepare


def _labels(task: str, *names: str, classes: int = 2, **options: Any) -> Callable[[int, int], Loop]:
    """Update with a true and a predicted label."""

    def prepare(before: int, events: int) -> Loop:
        ev = se.Evaluator(task=task, **options)
        rng = np.random.default_rng(5)
        count = before + events
        true = rng.integers(0, classes, count)
        guess = np.where(rng.random(count) < 0.7, true, rng.integers(0, classes, count))
        if task == "binary":
            true, guess = true == 1, guess == 1
        ev.update_many(true[:before], guess[:before])
        fresh = list(zip(true[before:].tolist(), guess[before:].tolist(), strict=True))

        def run() -> None:
            update = ev.update
            for label, predicted in fresh:
                update(label, predicted)
                for name in names:
                    ev[name]

        return run

    return prepare


def _classes(*names: str) -> Callable[[int, int], Loop]:
    """Update of three classes with a probability of each."""

    def prepare(before: int, events: int) -> Loop:
        ev = se.Evaluator(task="multiclass", labels=["a", "b", "c"])
        rng = np.random.default_rng(6)
        truth = [("a", "b", "c")[n] for n in rng.integers(0, 3, before + events)]
        rows = rng.dirichlet((1, 1, 1), before + events)
        ev.update_many(truth[:before], proba=rows[:before])
        fresh = [
            (label, dict(zip("abc", row, strict=True)))
            for label, row in zip(truth[before:], rows[before:].tolist(), strict=True)
        ]

        def run() -> None:
            update = ev.update
            for label, shares in fresh:
                update(label, proba=shares)
                for name in names:
                    ev[name]

        return run

    return prepare


def _panes(
    *names: str, slices: bool = False, weight: int | None = None
) -> Callable[[int, int], Loop]:
    """Update of a window of panes, an event a second."""

    def prepare(before: int, events: int) -> Loop:
        ev = se.Evaluator(
            window=se.Panes("1h", "5m"),
            time_unit="s",
            slices=("country",) if slices else (),
        )
        clock = itertools.count(_START)
        fresh = _events(before + events)
        given = [{"country": ("PT", "ES", "FR")[n % 3]} for n in range(3)]

        def run_of(stream: list[tuple[bool, float]]) -> None:
            update = ev.update
            if weight is not None:
                for n, (label, value) in enumerate(stream):
                    update(
                        label,
                        score=value,
                        event_time=next(clock),
                        slices=given[n % 3],
                        weight=weight,
                    )
                    for name in names:
                        ev[name]
            elif slices:
                for n, (label, value) in enumerate(stream):
                    update(label, score=value, event_time=next(clock), slices=given[n % 3])
                    for name in names:
                        ev[name]
            else:
                for label, value in stream:
                    update(label, score=value, event_time=next(clock))
                    for name in names:
                        ev[name]

        run_of(fresh[:before])
        return partial(run_of, fresh[before:])

    return prepare


def _sliced(before: int, events: int) -> Loop:
    """Update with a slice, all events counting."""
    ev = se.Evaluator(slices=("country",))
    fresh = [
        (label, score, {"country": ("PT", "ES", "FR")[n % 3]})
        for n, (label, score) in enumerate(_events(before + events))
    ]

    def run_of(stream: list[tuple[bool, float, dict[str, str]]]) -> None:
        update = ev.update
        for label, score, given in stream:
            update(label, score=score, slices=given)

    run_of(fresh[:before])
    return partial(run_of, fresh[before:])


def _reverted(before: int, events: int) -> Loop:
    """Update, and the event taken back."""
    ev = se.Evaluator()
    truth, scores = _stream(before)
    ev.update_many(truth, score=scores)
    fresh = _events(events)

    def run() -> None:
        update, revert = ev.update, ev.revert
        for label, score in fresh:
            update(label, score=score)
            revert(label, score=score)

    return run


def _small_batches(before: int, events: int) -> Loop:
    """Batches of ten events, and the AUC after each."""
    ev = se.Evaluator()
    truth, scores = _stream(before)
    ev.update_many(truth, score=scores)
    truth, scores = _stream(10 * events, 7)
    batches = list(zip(truth.reshape(-1, 10), scores.reshape(-1, 10), strict=True))

    def run() -> None:
        for labels, values in batches:
            ev.update_many(labels, score=values)
            ev["roc_auc"]

    return run


def _panes_and_slices(before: int, events: int) -> Loop:
    """One batch over an hour of panes and 100 slices."""
    starts = itertools.count(_START, 3_600)
    ev = se.Evaluator(window=se.Panes("1h", "5m"), time_unit="s", slices=("user",))
    truth, scores = _stream(events, 8)
    users = np.random.default_rng(9).integers(0, 100, events)
    phases = np.sort(np.random.default_rng(10).integers(0, 3_600, events))

    def run() -> None:
        times = next(starts) + phases
        ev.update_many(truth, score=scores, event_time=times, slices={"user": users})

    run()
    return run


def _fading(half_life: int) -> dict[str, Any]:
    return {"window": se.Fading(half_life)}


PATHS = (
    Path("score, and AUC", 0.30, _scores("roc_auc")),
    # At most 1.5 times the row above, or that of the same path without the option.
    Path("score of weight 2, and AUC", 0.45, _scores("roc_auc", weight=2)),
    Path("score with intervals=True, and AUC", 0.45, _scores("roc_auc", intervals=True)),
    Path("score with temporal=True, and AUC", 0.45, _scores("roc_auc", temporal=True)),
    Path("score with max_scores=4096, and AUC", 0.45, _scores("roc_auc", max_scores=4096)),
    Path("score, and F1", 0.50, _scores("f1")),
    Path("score, F1 and log loss", 0.70, _scores("f1", "log_loss")),
    Path(
        "score, and five metrics",
        0.70,
        _scores("accuracy", "f1", "matthews_corrcoef", "cohen_kappa", "roc_auc"),
    ),
    Path("labels, binary", 0.30, _labels("binary")),
    Path("labels, three classes", 0.30, _labels("multiclass", classes=3)),
    # At most six times the row above.
    Path("probabilities of three classes", 1.8, _classes(), before=5_000, events=2_000),
    Path(
        "probabilities of three classes, and one-vs-rest AUC",
        4.0,
        _classes("roc_auc_ovr"),
        before=5_000,
        events=1_000,
    ),
    Path("Last(1000): score, and AUC", 0.60, _scores("roc_auc", window=se.Last(1000))),
    Path(
        "Last(1000): labels of three classes, and macro F1",
        0.70,
        _labels("multiclass", "f1_macro", classes=3, window=se.Last(1000)),
    ),
    Path("Panes: score", 0.80, _panes()),
    Path("Panes: score, and AUC", 1.50, _panes("roc_auc")),
    Path("Panes: score, a slice, and AUC", 1.50, _panes("roc_auc", slices=True)),
    Path(
        "Panes: score of weight 2, a slice, and AUC",
        2.25,
        _panes("roc_auc", slices=True, weight=2),
    ),
    Path("Fading(10): score, and AUC", 3.0, _scores("roc_auc", **_fading(10))),
    Path("Fading(10,000): score, and AUC", 3.0, _scores("roc_auc", **_fading(10_000))),
    Path(
        "Fading(10,000): labels, and accuracy",
        1.0,
        _labels("binary", "accuracy", **_fading(10_000)),
    ),
    Path(
        "Fading(10,000): score, AUC and log loss",
        3.0,
        _scores("roc_auc", "log_loss", **_fading(10_000)),
    ),
    Path("score of weight 2.5, and AUC", 2.0, _scores("roc_auc", weight=2.5), events=1_000),
    Path("score, and a slice", 1.0, _sliced),
    Path("score, and taken back", 1.2, _reverted),
    Path("ten scores at a time, and AUC", 8.0, _small_batches, before=1_000_000, events=1_000),
    Path("update_many over panes and 100 slices", 0.06, _panes_and_slices, events=200_000),
    Path("score with intervals=True, and accuracy", 2.5, _scores("accuracy", intervals=True)),
    Path("score, and Kolmogorov-Smirnov", 50.0, _scores("ks"), before=1_000_000, events=500),
)


def parts(quick: bool) -> list[Part]:
    """All rows of this section."""
    repeats = 3 if quick else 5
    small = (path._replace(before=min(path.before, 200_000)) for path in PATHS)
    rows = small if quick else PATHS
    several = 200 if quick else 1_000
    return [
        *(partial(measured, path, repeats) for path in rows),
        partial(average_precision, 200_000 if quick else 1_000_000, repeats),
        partial(many_classes, several, 2_000, repeats),
        partial(in_a_process, "benchmarks.paths", f"many_classes_memory({several}, 2_000)"),
    ]


def measured(path: Path, repeats: int) -> Row:
    """A path against the yardstick."""
    ours = path.prepare(path.before, path.events)
    ours()  # the first reads derive states
    mine, theirs, ratio = interleaved(ours, river_auc(_events(_RIVER_EVENTS)), repeats)
    ratio *= path.events / _RIVER_EVENTS
    wanted = _YARDSTICK / path.wanted
    return Row(
        f"{path.what}; after {path.before:,} events",
        mine * 1e6 / path.events,
        theirs * 1e6 / _RIVER_EVENTS,
        ratio,
        f"≥ {wanted:.3g}×",
        ratio >= wanted,
        "River ROCAUC()",
        "µs an event",
        share=ratio / wanted,
    )


def average_precision(before: int, repeats: int) -> Row:
    """A read after an event, which takes a pass over the scores, against one over the events."""
    run = _scores("average_precision")(before, 1)
    run()
    truth, scores = _stream(before)
    return faster(
        f"score, and average precision, O(n); after {before:,} events",
        run,
        lambda: average_precision_score(truth, scores),
        target=4,
        repeats=repeats,
        peer_name="scikit-learn on all events",
    )


def _many(classes: int, rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(11)
    return rng.permutation(np.arange(rows) % classes), rng.dirichlet(np.ones(classes), rows)


def many_classes(classes: int, rows: int, repeats: int) -> list[Row]:
    """Probabilities of many classes at once, against scikit-learn."""
    truth, proba = _many(classes, rows)
    labels = list(range(classes))
    kept: list[se.Evaluator] = []

    def count() -> None:
        ev = se.Evaluator(task="multiclass", labels=labels)
        ev.update_many(truth, proba=proba)
        kept[:] = [ev]

    def one_vs_rest() -> float:
        return kept[0]["roc_auc_ovr"]

    def peer() -> float:
        log_loss(truth, proba, labels=labels)
        return float(roc_auc_score(truth, proba, labels=labels, multi_class="ovr"))

    def ours() -> None:
        count()
        kept[0]["log_loss"]
        one_vs_rest()

    found: list[Row] = []
    for what, run, wanted in (
        ("update_many", count, 1.1 / 0.3),
        ("update_many, log loss and one-vs-rest AUC", ours, 1.0),
    ):
        mine, theirs, ratio = interleaved(run, peer, min(repeats, 3))
        found.append(
            Row(
                f"probabilities of {classes:,} classes, {rows:,} rows: {what}",
                mine,
                theirs,
                ratio,
                f"≥ {wanted:.3g}×",
                ratio >= wanted,
                "scikit-learn: log loss and one-vs-rest AUC",
                share=ratio / wanted,
            )
        )
    np.testing.assert_allclose(one_vs_rest(), peer(), rtol=0, atol=1e-12)
    return found


def many_classes_memory(classes: int, rows: int) -> Row:
    """What they take at the peak, above the input."""
    truth, proba = _many(classes, rows)
    small = se.Evaluator(task="multiclass", labels=[0, 1])
    small.update_many([0, 1], proba=[[0.5, 0.5], [0.2, 0.8]])
    small["roc_auc_ovr"]
    before = resident()
    ev = se.Evaluator(task="multiclass", labels=list(range(classes)))
    ev.update_many(truth, proba=proba)
    ev["log_loss"], ev["roc_auc_ovr"]
    taken = (peak() - before) / 2**20
    return Row(
        f"probabilities of {classes:,} classes, {rows:,} rows: peak memory above the input",
        taken,
        100.0,
        100 / taken,
        "≤ 100 MiB",
        taken <= 100,
        "the bound",
        "MiB",
        share=100 / taken,
    )


def growth(quick: bool) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """µs of an update and a read of the AUC against the events before, for each window."""
    top = 5 if quick else 7
    sizes = [10**power for power in range(3, top + 1)]
    for what, window in (
        ("Evaluator()", lambda size: None),
        ("Last(n)", se.Last),
        ("Fading(n / 10)", lambda size: se.Fading(max(1, size // 10))),
    ):
        points = []
        for size in sizes:
            run = _scores("roc_auc", window=window(size))(size, 1_000)
            run()
            mine, _, _ = interleaved(run, lambda: None, 3)
            points.append((size, mine * 1e6 / 1_000))
        yield what, points
