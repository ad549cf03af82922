"""The laws of all states, for the four sums over probabilities and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.loss_squares import LossSquares
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.weight_squares import WeightSquares
from streameval.tasks.multiclass import ClassInput
from tests.support.class_batch import class_batch
from tests.support.laws import LAWS, StateSpec, check_law, columns

WEIGHTS = st.one_of(st.just(1), st.integers(1, 4), st.integers(1, 2**53))
FLOAT_WEIGHTS = st.sampled_from([0.5, 1.5, 0.25, 2, 1, 3.75])
FEW = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0, 5e-324, 1 - 2.0**-53])
PROBABILITIES = st.one_of(FEW, st.floats(0.0, 1.0))
SCORES = st.one_of(
    FEW, st.floats(-2.0, 2.0), st.floats(allow_nan=False, allow_infinity=False, width=64)
)


def binary(scores: Any, weights: Any) -> Any:
    return st.tuples(st.booleans(), scores, weights)


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


def feed_scores(state: Any, events: list[Any]) -> None:
    true, scores, weights = columns(events, 3)
    if true:
        source = ClassInput("abc", probabilities=False)
        given = weights if set(weights) != {1} else None
        state.update_many(source.batch(true, None, scores, None, given))


def feed_columns(state: Any, events: list[Any]) -> None:
    positive, scores, weights = columns(events, 3)
    state.update_many(positive, scores, weights if set(weights) != {1} else None)


def feed_matrix(state: Any, events: list[Any]) -> None:
    """Batches of events that name the same labels, for a matrix cannot leave one out."""
    named: dict[Any, list[Any]] = {}
    for event in events:
        named.setdefault(frozenset(event[1]), []).append(event)
    for among, alike in named.items():
        labels = sorted(among, reverse=True)
        true, probabilities, weights = columns(alike, 3)
        matrix = np.array([[p[label] for label in labels] for p in probabilities])
        state.update_many(
            class_batch(true, matrix, labels, weights if set(weights) != {1} else None)
        )


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


COMMON: dict[str, Any] = {
    "update": lambda state, event: state.update(*event),
    "revert": lambda state, event: state.revert(*event),
}

SPECS = [
    StateSpec(
        name="probability",
        empty=lambda: ProbabilitySums(4),
        events=binary(st.one_of(PROBABILITIES, SCORES), WEIGHTS),
        update_many=feed_columns,
        read=lambda state: (state.weight, state.bin_edges, state.exact),
        **COMMON,
    ),
    StateSpec(
        name="moments",
        empty=ScoreMoments,
        events=binary(SCORES, WEIGHTS),
        update_many=feed_columns,
        read=read_moments,
        **COMMON,
    ),
    StateSpec(
        # Their sums of float weights are exact as well: compared to the bit.
        name="moments-floats",
        empty=ScoreMoments,
        events=binary(SCORES, st.one_of(FLOAT_WEIGHTS, st.floats(1e-300, 2.0**53))),
        update_many=feed_columns,
        read=read_moments,
        update=COMMON["update"],
    ),
    StateSpec(
        name="loss-squares",
        empty=lambda: LossSquares(4),
        events=binary(st.one_of(PROBABILITIES, SCORES), WEIGHTS),
        update_many=feed_columns,
        read=lambda state: (state.weight, state.exact),
        **COMMON,
    ),
    StateSpec(
        name="class-loss-squares",
        empty=lambda: LossSquares(3),
        events=multiclass(WEIGHTS),
        update_many=feed_matrix,
        read=lambda state: (state.weight, state.exact),
        **COMMON,
    ),
    StateSpec(
        name="weight-squares",
        empty=WeightSquares,
        events=binary(PROBABILITIES, WEIGHTS),
        update_many=feed_columns,
        read=lambda state: (state.total, state.effective_size),
        **COMMON,
    ),
    StateSpec(
        # Exact as well.
        name="weight-squares-floats",
        empty=WeightSquares,
        events=binary(PROBABILITIES, st.one_of(FLOAT_WEIGHTS, st.floats(1e-300, 2.0**53))),
        update_many=feed_columns,
        read=lambda state: (state.total, state.effective_size),
        update=COMMON["update"],
    ),
    StateSpec(
        name="class-probability",
        empty=lambda: ClassProbabilitySums(3),
        events=multiclass(WEIGHTS),
        update_many=feed_matrix,
        read=lambda state: (state.weight, state.ranks, state.exact),
        **COMMON,
    ),
    StateSpec(
        name="class-ranks",
        empty=lambda: ClassProbabilitySums(3, probabilities=False),
        events=several_scores(WEIGHTS),
        update_many=feed_scores,
        read=lambda state: (state.weight, state.ranks, state.exact),
        **COMMON,
    ),
    StateSpec(
        name="class-scores-signed",
        empty=lambda: ClassScores(probabilities=False),
        events=several_scores(WEIGHTS),
        update_many=feed_scores,
        read=read_scores,
        **COMMON,
    ),
    StateSpec(
        name="class-scores",
        empty=ClassScores,
        events=multiclass(WEIGHTS),
        update_many=feed_matrix,
        read=read_scores,
        **COMMON,
    ),
]


def update_what_it_takes(state: ClassScores, event: Any) -> None:
    """Count an event of several scores, if the state is of any scores of the event's labels."""
    if not state.not_probabilities:
        raise InputError("score", expected="probabilities", got="any scores")
    if not {*state.labels} <= event[1].keys():
        # A task of any scores has a closed list of labels, and refuses what lacks one.
        raise InputError("score", expected=f"scores of {state.labels}", got=event[1])
    state.update(*event)


CASES = [
    (spec, law)
    for spec in SPECS
    for law in LAWS
    # Float sums cannot be undone exactly; the refusal is tested with each state.
    if not (law == "revert" and spec.revert is None)
]


@pytest.mark.parametrize(("spec", "law"), CASES, ids=lambda value: getattr(value, "name", value))
def test_laws(spec: StateSpec, law: str) -> None:
    if law == "hostile" and spec.name.startswith("moments"):
        # The tester damages integers as floats: they must not be beyond these.
        spec = replace(spec, events=binary(st.floats(-1000, 1000, width=16), WEIGHTS))
    if law == "hostile" and spec.name == "class-scores-signed":
        # A form that has lost its mark is one of probabilities.
        spec = replace(spec, update=update_what_it_takes)
    check_law(spec, law, max_examples=6 if spec.name.startswith("class-scores") else 20)
