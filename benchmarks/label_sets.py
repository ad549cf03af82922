"""Multi-label: against scikit-learn, which recomputes, one event at a time and on arrays."""

from __future__ import annotations

import numpy as np
from sklearn import metrics as sklearn_metrics

import streameval as se
from benchmarks.memory import resident
from benchmarks.timing import Part, Row, faster, in_a_process, once

LABELS = [f"label {n}" for n in range(20)]
OF_LABELS = tuple(
    f"{name}_{average}"
    for name in ("precision", "recall", "f1", "jaccard")
    for average in ("micro", "macro", "weighted", "samples")
)
RANKINGS = (
    "roc_auc_macro",
    "average_precision_macro",
    "label_ranking_average_precision",
    "label_ranking_loss",
    "coverage_error",
)


def parts(quick: bool) -> list[Part]:
    """What measures the rows."""
    size = 100_000 if quick else 1_000_000
    return [
        lambda: each_event(20_000, 5),
        lambda: arrays(size, 3, rankings=False),
        # scikit-learn's label ranking takes 0.8 ms an event.
        lambda: arrays(5_000 if quick else 20_000, 3, rankings=True),
        lambda: many_labels(100_000),
        lambda: in_a_process("benchmarks.label_sets", "memory_of_many_labels()"),
    ]


def _events(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(13)
    truth = rng.random((size, len(LABELS))) < 0.2
    return truth, np.clip(rng.random(truth.shape) * 0.6 + 0.3 * truth, 0, 1)


def each_event(events: int, repeats: int) -> Row:
    """F1 micro, macro and samples of 20 labels, read after every event."""
    truth, scores = _events(events)
    sets = [{label for label, has in zip(LABELS, row, strict=True) if has} for row in truth]
    given = [dict(zip(LABELS, row, strict=True)) for row in scores.tolist()]
    names = ("f1_micro", "f1_macro", "f1_samples")
    window = 1_000

    def ours() -> None:
        ev = se.Evaluator(task="multilabel", labels=LABELS, metrics=names)
        ev.update_many(truth[:window], score=scores[:window])
        update = ev.update
        for true, score in zip(sets, given, strict=True):
            update(true, score=score)
            for name in names:
                ev[name]

    def peer() -> None:
        # What it is after one event: it takes longer after each.
        predicted = scores[:window] >= 0.5
        for average in ("micro", "macro", "samples"):
            sklearn_metrics.f1_score(
                truth[:window], predicted, average=average, zero_division=np.nan
            )

    mine = once(ours) / events
    theirs = min(once(peer) for _ in range(repeats))
    mine = min([mine, *(once(ours) / events for _ in range(repeats - 1))])
    return Row(
        "F1 micro, macro and samples of 20 labels after every event",
        mine * 1e6,
        theirs * 1e6,
        theirs / mine,
        "≤ 3 µs",
        mine <= 3e-6,
        f"scikit-learn's f1_score of the first {window:,} events, three times",
        "µs an event",
        share=3e-6 / mine,
    )


def arrays(size: int, repeats: int, *, rankings: bool) -> Row:
    """All metrics of labels, or of rankings, of arrays."""
    truth, scores = _events(size)
    names = RANKINGS if rankings else OF_LABELS

    def ours() -> None:
        ev = se.Evaluator(task="multilabel", labels=LABELS, metrics=names)
        ev.update_many(truth, score=scores)
        for name in names:
            ev[name]

    def peer() -> None:
        if rankings:
            sklearn_metrics.roc_auc_score(truth, scores, average="macro")
            sklearn_metrics.average_precision_score(truth, scores, average="macro")
            sklearn_metrics.label_ranking_average_precision_score(truth, scores)
            sklearn_metrics.label_ranking_loss(truth, scores)
            sklearn_metrics.coverage_error(truth, scores)
            return
        predicted = scores >= 0.5
        for average in ("micro", "macro", "weighted", "samples"):
            sklearn_metrics.precision_recall_fscore_support(
                truth, predicted, average=average, zero_division=0
            )
            sklearn_metrics.jaccard_score(truth, predicted, average=average, zero_division=0)

    what = "five metrics of rankings" if rankings else "sixteen metrics of labels"
    return faster(
        f"{what} of {size:,} × {len(LABELS)}",
        ours,
        peer,
        target=3 if rankings else 5,
        repeats=repeats,
        peer_name="scikit-learn",
    )


def _sparse(events: int, labels: int = 10_000, each: int = 5) -> tuple[list[set[int]], ...]:
    rng = np.random.default_rng(14)
    true = rng.integers(0, labels, (events, each))
    other = np.where(rng.random(true.shape) < 0.6, true, rng.integers(0, labels, true.shape))
    return [set(row) for row in true.tolist()], [set(row) for row in other.tolist()]


def many_labels(events: int) -> Row:
    """Events of five of 10,000 labels, one at a time."""
    true, predicted = _sparse(events)

    def ours() -> None:
        ev = se.Evaluator(
            task="multilabel", labels=range(10_000), metrics=["f1_micro", "f1_macro", "f1_samples"]
        )
        for pair in zip(true, predicted, strict=True):
            ev.update(*pair)
        ev["f1_macro"]

    each = once(ours) / events
    return Row(
        f"{events:,} events of 5 of 10,000 labels, one at a time",
        each * 1e6,
        10,
        1e-5 / each,
        "≤ 10 µs",
        each <= 1e-5,
        "what is wanted",
        "µs an event",
        share=1e-5 / each,
    )


def memory_of_many_labels(events: int = 100_000) -> Row:
    """The memory of the score indices of the labels that occur, in a process of its own."""
    true, predicted = _sparse(events)
    rng = np.random.default_rng(15)
    scores = [dict(zip(row, rng.random(len(row)).tolist(), strict=True)) for row in predicted]
    before = resident()
    ev = se.Evaluator(task="multilabel", metrics=["roc_auc_macro"])
    for n in range(0, events, 10_000):
        ev.update_many(true[n : n + 10_000], score=scores[n : n + 10_000])
    ev["roc_auc_macro"]
    grown = (resident() - before) / 1e6
    return Row(
        f"indices of {events:,} events with scores of 5 of 10,000 labels",
        grown,
        500,
        500 / grown,
        "≤ 500 MB",
        grown <= 500,
        "what is wanted",
        "MB",
        share=500 / grown,
    )
