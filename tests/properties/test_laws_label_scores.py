"""States of the scores of label sets keep the laws, and say what a list of events says."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from streameval.events.event import EventBatch
from streameval.events.label_rows import LabelRows
from streameval.metrics import multilabel_ranking as metrics
from streameval.states.label_losses import LabelLosses
from streameval.states.label_ranking import LabelRanking
from streameval.states.label_scores import LabelScores
from streameval.states.label_squares import LabelSquares
from tests.support.laws import StateSpec, assert_near, check_law, law_cases

NAMES = ("a", "b", "c", "d")
CLOSED = ("c", "a", "d", "b")
"""The declared labels, in an order of their own."""

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
MARGINS = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.5])
WHOLE = st.one_of(st.integers(1, 3), st.just(2**53))
FRACTIONS = st.sampled_from([0.5, 1, 1.5, 2])
SETS = st.frozensets(st.sampled_from(NAMES))


def events(scores=SCORES, weights=WHOLE):
    """Events that may leave labels out."""
    rows = st.dictionaries(st.sampled_from(NAMES), scores)
    return st.tuples(SETS, rows, weights)


def batch_of(rows, *, dense=False):
    """The batch of events: sparse rows, or a table of scores of every label."""
    code = {label: n for n, label in enumerate(NAMES)}
    true = LabelRows.of_sets([[code[label] for label in sorted(y)] for y, _, _ in rows])
    weights = np.array([w for *_, w in rows])
    weight = None if len(rows) and (weights == 1).all() else weights
    if dense:
        table = np.array([[s.get(label, 0.0) for label in CLOSED] for _, s, _ in rows])
        return EventBatch(true, None, table.reshape(len(rows), 4), weight, NAMES, CLOSED)
    cells = [sorted((code[label], value) for label, value in s.items()) for _, s, _ in rows]
    starts = np.cumsum([0, *map(len, cells)])
    codes = np.array([at for row in cells for at, _ in row], dtype=np.int64)
    values = np.array([value for row in cells for _, value in row], dtype=np.float64)
    return EventBatch(true, None, LabelRows(starts, codes, values), weight, NAMES)


def feed(dense):
    def update_many(state, rows):
        if rows:
            state.update_many(batch_of(rows, dense=dense))

    return update_many


def named(*functions):
    return {function.__name__: function for function in functions}


READS = {
    LabelScores: {
        **named(metrics.label_roc_auc, metrics.label_average_precision),
        "micro": partial(metrics.label_roc_auc, average="micro"),
        "weighted": partial(metrics.label_roc_auc, average="weighted"),
        "micro AP": partial(metrics.label_average_precision, average="micro"),
    },
    LabelLosses: {
        "label_log_loss": metrics.label_log_loss,
        "label_brier_score": metrics.label_brier_score,
        "calibration error": metrics.label_calibration_error,
    },
    LabelRanking: named(
        metrics.label_ranking_average_precision,
        metrics.label_ranking_loss,
        metrics.coverage_error,
        metrics.roc_auc_samples,
        metrics.average_precision_samples,
        metrics.precision_at_k,
        metrics.recall_at_k,
    ),
    LabelSquares: {"precision": lambda s: s.precision, "log loss": lambda s: s.log_loss},
}


def read(state):
    found = [function(state) for function in READS[type(state)].values()]
    return [None if math.isnan(value) else float(value) for value in found]


def spec(kind, declared, *, scores=SCORES, dense=False, fractions=False, **options):
    name = f"{kind.NAME}-{'declared' if declared else 'discovered'}"
    marks = {"dense": dense, "fractions": fractions, "margins": scores is MARGINS, **options}
    return StateSpec(
        name="-".join([name, *(mark for mark, on in marks.items() if on)]),
        empty=lambda: kind(declared, **options),
        events=events(scores, FRACTIONS if fractions else WHOLE),
        update_many=feed(dense),
        read=read,
        same=assert_near if fractions else StateSpec.same,
        excused={"revert": "weights that are no whole numbers"} if fractions else {},
        from_state=lambda form: kind.from_state(form, declared),
        of_base=kind in (LabelSquares, LabelLosses),
    )


SPECS = [
    spec(kind, declared, **options)
    for kind in (LabelScores, LabelRanking, LabelSquares)
    for declared, options in (
        (CLOSED, {"scores": MARGINS, "dense": True}),
        (None, {}),
        (CLOSED, {"fractions": True}),
    )
]
SPECS += [
    spec(LabelRanking, None, scores=MARGINS, dense=True),
    spec(LabelScores, CLOSED, max_scores=1024),
    spec(LabelLosses, CLOSED, scores=MARGINS, dense=True),
    spec(LabelLosses, CLOSED, fractions=True),
    spec(LabelLosses, None, bins=3),
]


@pytest.mark.parametrize(("spec", "law"), law_cases(SPECS))
def test_laws(spec, law):
    check_law(spec, law, max_examples=8)


# An oracle that keeps every event


def _top(k, true, scores):
    """Hits among the k highest scores of each event; of equal ones the later label is first."""
    for row, has in zip(scores, true, strict=True):
        order = sorted(range(4), key=lambda n: (row[n], CLOSED[n]), reverse=True)
        yield sum(has[order[:k]])


def expected(rows):
    """Each metric of a list of events, by scikit-learn's functions or its definition."""
    true = np.array([[label in y for label in CLOSED] for y, _, _ in rows])
    scores = np.array([[s.get(label, 0.0) for label in CLOSED] for _, s, _ in rows])
    weights = np.array([w for *_, w in rows])
    by = {"sample_weight": weights}
    held = true.any(axis=1)
    hits = np.array(list(_top(2, true, scores)))
    found = {
        "label_ranking_average_precision": sk.label_ranking_average_precision_score(
            true, scores, **by
        ),
        "label_ranking_loss": sk.label_ranking_loss(true, scores, **by),
        "coverage_error": sk.coverage_error(true, scores, **by),
        "precision_at_k": np.average(hits / 2, weights=weights),
    }
    # What some labels or events have no value of; None where none has one.
    some, mixed = true.any(axis=0), true.any(axis=0) & ~true.all(axis=0)
    aucs = [sk.roc_auc_score(true[:, n], scores[:, n], **by) for n in np.flatnonzero(mixed)]
    found["label_roc_auc"] = np.mean(aucs) if aucs else None
    cases, pairs = (true.ravel(), scores.ravel()), {"sample_weight": np.repeat(weights, 4)}
    found |= dict.fromkeys(("label_average_precision", "recall_at_k"))
    if some.any():
        of_labels = sk.average_precision_score(true[:, some], scores[:, some], **by)
        found["label_average_precision"] = of_labels
        found["micro AP"] = sk.average_precision_score(*cases, **pairs)
        shares = hits[held] / true[held].sum(axis=1)
        found["recall_at_k"] = np.average(shares, weights=weights[held])
    if 0 < true.sum() < true.size:
        found["micro"] = sk.roc_auc_score(*cases, **pairs)
    for name, function, rows_of in (
        ("roc_auc_samples", sk.roc_auc_score, held & ~true.all(axis=1)),
        ("average_precision_samples", sk.average_precision_score, held),
    ):
        each = [function(true[n], scores[n]) for n in np.flatnonzero(rows_of)]
        found[name] = np.average(each, weights=weights[rows_of]) if each else None
    if (scores >= 0).all() and (scores <= 1).all():
        losses = [
            sk.log_loss(true[:, n], scores[:, n], labels=[False, True], **by) for n in range(4)
        ]
        squares = ((true - scores) ** 2).mean(axis=1)
        found["label_log_loss"] = np.mean(losses)
        found["label_brier_score"] = np.average(squares, weights=weights)
    return found


ACTIONS = st.sampled_from(["one", "batch", "dense", "revert", "merge", "subtract"])


@settings(max_examples=100)
@given(
    declared=st.sampled_from([CLOSED, None]),
    steps=st.sampled_from([SCORES, MARGINS]).flatmap(
        lambda scores: st.lists(
            st.tuples(ACTIONS, st.lists(events(scores), min_size=1, max_size=5)), max_size=8
        )
    ),
)
def test_an_oracle_that_keeps_every_event(declared, steps):
    kinds = (LabelScores, LabelRanking, LabelLosses)
    states, kept = [kind(declared) for kind in kinds], []
    for action, rows in steps:
        if action == "revert" and kept:
            event = kept.pop(len(rows) % len(kept))
            for state in states:
                state.revert(*event)
            continue
        for state, kind in zip(states, kinds, strict=True):
            if action == "one":
                for event in rows:
                    state.update(*event)
            elif action in ("merge", "subtract"):
                shard = kind(declared)
                feed(False)(shard, rows)
                state.merge(shard)
                if action == "subtract":
                    state.merge(shard, -1)
            else:
                feed(action == "dense")(state, rows)
            state._check()
        kept += rows if action != "subtract" else []
    if not kept or (declared is None and set(states[0].labels) != set(CLOSED)):
        return
    found = {name: f(state) for state in states for name, f in READS[type(state)].items()}
    for name, value in expected(kept).items():
        if declared is None and name.endswith("_at_k"):
            continue  # zeros have no place
        if value is None:
            assert math.isnan(found[name]), name
        else:
            assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name
