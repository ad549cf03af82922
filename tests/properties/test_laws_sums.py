"""The laws of all states, for indices of scores and sums: of probabilities, label sets, numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.events.values import weight_column
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.error_moments import ErrorMoments
from streameval.states.error_ratios import RatioSquares, RatioSums
from streameval.states.error_residuals import ResidualIndex
from streameval.states.error_sums import ErrorSums
from streameval.states.label_counts import LabelCounts
from streameval.states.label_pairs import LabelPairs
from streameval.states.label_sets import LabelSetCounts
from streameval.states.loss_squares import LossSquares
from streameval.states.moments import ScoreMoments
from streameval.states.prediction_histogram import PredictionHistogram
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.states.score_index import ScoreIndex
from streameval.states.weight_squares import WeightSquares
from streameval.tasks.multiclass import ClassInput
from streameval.tasks.multilabel import LabelSetInput
from tests.support.class_batch import class_batch
from tests.support.laws import StateSpec, assert_near, check_law, columns, law_cases

WEIGHTS = st.one_of(st.just(1), st.integers(1, 4), st.integers(1, 2**53))
HALVES = st.sampled_from([0.5, 1.5, 0.25, 2, 1, 3.75])
FLOAT_WEIGHTS = st.one_of(HALVES, st.floats(1e-300, 2.0**53))
FEW = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0, 5e-324, 1 - 2.0**-53])
PROBABILITIES = st.one_of(FEW, st.floats(0.0, 1.0))
SCORES = st.one_of(
    FEW, st.floats(-2.0, 2.0), st.floats(allow_nan=False, allow_infinity=False, width=64)
)
SETS = st.frozensets(st.sampled_from(["a", "b", "c", "ø"]))
# No two are further from each other than the largest float.
NUMBERS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.1, -0.3, 1e16, 5e-324, -2.5, 8.9e307, -8.9e307]),
    st.floats(-3.0, 3.0),
    st.floats(-8.9e307, 8.9e307),
).map(lambda x: x + 0.0)


@st.composite
def mappings(draw: Any, labels: tuple[Any, ...] = ("a", "b", "c", "ø")) -> dict[Any, float]:
    """Probabilities over some of the labels, with zeros and ties."""
    named = draw(st.lists(st.sampled_from(labels), min_size=1, unique=True))
    parts = [draw(st.sampled_from([0, 0, 1, 1, 2, 5])) for _ in named]
    parts[draw(st.integers(0, len(parts) - 1))] += 1
    total = sum(parts)
    return {label: part / total for label, part in zip(named, parts, strict=True)}


def multiclass(weights: Any) -> Any:
    return st.tuples(st.sampled_from(["a", "b", "c", "d"]), mappings(), weights)


def several_scores(weights: Any) -> Any:
    """Scores of every label that are no probabilities, with zeros and ties."""
    score = st.one_of(st.sampled_from([-2.5, -1.0, 0.0, 0.0, 1.0]), st.floats(-1e300, 1e300))
    each = st.fixed_dictionaries({label: score.map(lambda s: s + 0.0) for label in "abc"})
    return st.tuples(st.sampled_from("abc"), each, weights)


def split(events: list[Any]) -> list[Any]:
    """The columns of events; no weights where all are 1."""
    *given, weights = columns(events, 3)
    return [*given, weights if set(weights) != {1} else None]


def feed_scores(state: Any, events: list[Any]) -> None:
    true, scores, weights = split(events)
    if true:
        source = ClassInput("abc", probabilities=False)
        state.update_many(source.batch(true, None, scores, None, weights))


def feed_columns(state: Any, events: list[Any]) -> None:
    state.update_many(*split(events))


def feed_matrix(state: Any, events: list[Any]) -> None:
    """Batches of events that name the same labels, for a matrix cannot leave one out."""
    named: dict[Any, list[Any]] = {}
    for event in events:
        named.setdefault(frozenset(event[1]), []).append(event)
    for among, alike in named.items():
        labels = sorted(among, reverse=True)
        true, probabilities, weights = split(alike)
        matrix = np.array([[p[label] for label in labels] for p in probabilities])
        state.update_many(class_batch(true, matrix, labels, weights))


def feed_sets(state: Any, events: list[Any]) -> None:
    true, predicted, weights = split(events)
    state.update_many(LabelSetInput(None).batch(true, predicted, weight=weights))


def feed_numbers(state: Any, events: list[Any]) -> None:
    true, predicted, weights = split(events)
    by = None if weights is None else weight_column(weights, len(true))
    state.update_many(np.array(true, dtype=float), np.array(predicted, dtype=float), by)


def one_number(state: Any, event: Any) -> None:
    true, predicted, weight = event
    whole = type(weight) is float and weight.is_integer()
    state.update(true, predicted, int(weight) if whole else weight)


class FewCells(PredictionHistogram):
    """With so few cells that they are joined all the time."""

    __slots__ = ()
    KEYS = PredictionHistogram.KEYS
    MOST = 16


def read_counts(counts: LabelCounts) -> Any:
    labels = counts.labels
    return labels, [counts.binary(label) for label in labels], counts.per_class(), counts.total


def read_scores(state: ClassScores) -> Any:
    labels = state.labels
    pairs = [state.pair_wins(c, j) for c in labels for j in labels if c != j]
    rest = [state.one_vs_rest_wins(c) for c in labels]
    counts = [state.true_count(label) for label in labels]
    return labels, pairs, rest, counts, state.total, list(state.pooled()), state.exact


def read_moments(state: ScoreMoments) -> Any:
    return [
        (state.count(positive), state.mean(positive), state.variance(positive))
        for positive in (False, True)
    ]


def read_index(index: ScoreIndex) -> Any:
    sums = [index.twice_u, index.positives, index.negatives]
    return [*sums, index.distinct, index.delong_sums()]


def exact_weight(state: Any) -> Any:
    return state.weight, state.exact


def ranks(state: Any) -> Any:
    return state.weight, state.ranks, state.exact


def effective(state: Any) -> Any:
    return state.total, state.effective_size


def spec(name: str, empty: Any, events: Any, feed: Any, read: Any, **options: Any) -> StateSpec:
    return StateSpec(name, empty, events, feed, read=read, **options)


def scored(name: str, empty: Any, scores: Any, weights: Any, read: Any, **more: Any) -> StateSpec:
    return spec(name, empty, st.tuples(st.booleans(), scores, weights), feed_columns, read, **more)


BASE: dict[str, Any] = {"of_base": True}
# Sums of float weights that are exact as well, to the bit; they are not reverted.
FLOATS: dict[str, Any] = {"revert": None}
NOT_UNDONE: dict[str, Any] = {"excused": {"revert": "no float sum is undone"}}
ROUNDED: dict[str, Any] = {"same": assert_near, **NOT_UNDONE}
ANY = st.one_of(PROBABILITIES, SCORES)
MARGINS = {"probabilities": False}
CLASSES, ROWS = multiclass(WEIGHTS), several_scores(WEIGHTS)

SPECS = [
    scored(
        "probability",
        partial(ProbabilitySums, 4),
        *(ANY, WEIGHTS, lambda state: (state.weight, state.bin_edges, state.exact)),
    ),
    scored("moments", ScoreMoments, SCORES, WEIGHTS, read_moments, **BASE),
    scored("moments-floats", ScoreMoments, SCORES, FLOAT_WEIGHTS, read_moments, **FLOATS),
    scored("loss-squares", partial(LossSquares, 4), ANY, WEIGHTS, exact_weight, **BASE),
    *(
        scored(f"weight-squares{kind}", WeightSquares, PROBABILITIES, by, effective, **more)
        for kind, by, more in (("", WEIGHTS, BASE), ("-floats", FLOAT_WEIGHTS, BASE | FLOATS))
    ),
    *(
        spec(name, empty, CLASSES, feed_matrix, read, **more)
        for name, empty, read, more in (
            ("class-loss-squares", partial(LossSquares, 3), exact_weight, BASE),
            ("class-probability", partial(ClassProbabilitySums, 3), ranks, {}),
            ("class-scores", ClassScores, read_scores, {}),
        )
    ),
    *(
        spec(name, empty, ROWS, feed_scores, read, **more)
        for name, empty, read, more in (
            ("class-ranks", partial(ClassProbabilitySums, 3, **MARGINS), ranks, BASE),
            ("class-scores-signed", partial(ClassScores, **MARGINS), read_scores, {}),
        )
    ),
]

HALF = 0.5
# Few enough to tie often; neighbours in the last bit, subnormals and both ends.
TIED = [0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 0.1, -7.25, 3.0, HALF, HALF / 2]
TIED += [math.nextafter(HALF, 1.0), math.nextafter(HALF, 0.0), math.nextafter(HALF, 0.0) / 2]
OF_INDEX = st.one_of(
    st.sampled_from(TIED), st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1)
)
SPECS += [
    scored(
        f"{'index' if kind is ScoreIndex else 'reference index'}{name}",
        *(kind, OF_INDEX, weights, read_index),
        # An index that is not in use is not pickled.
        pickled=kind is ScoreIndex,
        **more,
    )
    for kind in dict.fromkeys((ReferenceScoreIndex, ScoreIndex))
    for name, weights, more in (
        # Of one, two, four and eight bytes, as the compiled index keeps them.
        ("", st.sampled_from([1, 1, 1, 2, 3, 5, 300, 70_000, 2**40, 2**53]), {}),
        # Weights that add without rounding, so that every order gives the same bits.
        ("-fractions", st.sampled_from([1, 0.5, 1.5, 2]), NOT_UNDONE),
    )
]

OF_SETS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "counts": (LabelCounts, read_counts, {}),
    "closed-counts": (lambda: LabelCounts(["ø", "d", "c", "b", "a"]), read_counts, {}),
    "sets": (LabelSetCounts, lambda sets: (list(sets.sizes()), sets.total, sets.exact), BASE),
    "pairs": (LabelPairs, lambda pairs: sorted(pairs.cells()), BASE),
}
for name, (kind, read, base) in OF_SETS.items():
    SPECS.append(spec(name, kind, st.tuples(SETS, SETS, WEIGHTS), feed_sets, read, **base))
    floats = st.tuples(SETS, SETS, HALVES)
    more = BASE if name == "closed-counts" else base
    SPECS.append(
        spec(
            f"{name}-floats", kind, floats, feed_sets, lambda state: state.exact, **more, **ROUNDED
        )
    )

OF_NUMBERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "errors": (ErrorSums, {}),
    "ratios": (RatioSums, BASE),
    "ratio-squares": (RatioSquares, BASE),
    "error-moments": (ErrorMoments, BASE),
    "residuals": (ResidualIndex, {}),
    "histogram": (PredictionHistogram, BASE),
    # The side of a histogram's squares does not fall.
    "few-cells": (FewCells, FLOATS),
}
for name, (kind, base) in OF_NUMBERS.items():
    more = {**base, "update": one_number}
    whole, floats = (st.tuples(NUMBERS, NUMBERS, by) for by in (WEIGHTS, FLOAT_WEIGHTS))
    SPECS.append(spec(name, kind, whole, feed_numbers, exact_weight, **more))
    if name not in ("residuals", "histogram", "few-cells"):
        more |= FLOATS
        SPECS.append(spec(f"{name}-floats", kind, floats, feed_numbers, exact_weight, **more))


def update_what_it_takes(state: ClassScores, event: Any) -> None:
    """Count an event of several scores, if the state is of any scores of the event's labels."""
    if not state.not_probabilities:
        raise InputError("score", expected="probabilities", got="any scores")
    if not {*state.labels} <= event[1].keys():
        # A task of any scores has a closed list of labels, and refuses what lacks one.
        raise InputError("score", expected=f"scores of {state.labels}", got=event[1])
    state.update(*event)


@pytest.mark.parametrize(("spec", "law"), law_cases(SPECS))
def test_laws(spec: StateSpec, law: str) -> None:
    # The tester damages integers as floats: they must not be beyond these.
    if law == "hostile" and spec.name.startswith("moments"):
        spec = replace(
            spec, events=st.tuples(st.booleans(), st.floats(-1000, 1000, width=16), WEIGHTS)
        )
    if law == "hostile" and spec.update is one_number:
        small = st.floats(-8, 8, width=16).map(lambda x: x + 0.0)
        spec = replace(spec, events=st.tuples(small, small, st.integers(1, 4)))
    if law == "hostile" and spec.name == "class-scores-signed":
        # A form that has lost its mark is one of probabilities.
        spec = replace(spec, update=update_what_it_takes)
    check_law(spec, law, max_examples=6 if spec.name.startswith("class-scores") else 20)
