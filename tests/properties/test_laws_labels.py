"""The laws of all states, for the counts of sets of labels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from streameval.states.label_counts import LabelCounts
from streameval.states.label_pairs import LabelPairs
from streameval.states.label_sets import LabelSetCounts
from streameval.tasks.multilabel import LabelSetInput
from tests.support.laws import LAWS, StateSpec, assert_near, check_law, columns

LABELS = ("a", "b", "c", "ø")
SETS = st.frozensets(st.sampled_from(LABELS))
WEIGHTS = st.one_of(st.just(1), st.integers(1, 4), st.integers(1, 2**53))
FLOAT_WEIGHTS = st.sampled_from([0.5, 1.5, 0.25, 2, 1, 3.75])


def feed(state: Any, events: list[Any]) -> None:
    true, predicted, weights = columns(events, 3)
    given = weights if set(weights) != {1} else None
    state.update_many(LabelSetInput(None).batch(true, predicted, weight=given))


def read_counts(counts: LabelCounts) -> Any:
    labels = counts.labels
    return labels, [counts.binary(label) for label in labels], counts.per_class(), counts.total


def spec(name: str, empty: Any, read: Any, weights: Any, **options: Any) -> StateSpec:
    return StateSpec(
        name=name,
        empty=empty,
        events=st.tuples(SETS, SETS, weights),
        update=lambda state, event: state.update(*event),
        update_many=feed,
        read=read,
        **options,
    )


def revert(state: Any, event: Any) -> None:
    state.revert(*event)


STATES: dict[str, tuple[Any, Any]] = {
    "counts": (LabelCounts, read_counts),
    "closed-counts": (lambda: LabelCounts(["ø", "d", "c", "b", "a"]), read_counts),
    "sets": (LabelSetCounts, lambda sets: (list(sets.sizes()), sets.total, sets.exact)),
    "pairs": (LabelPairs, lambda pairs: sorted(pairs.cells())),
}
SPECS = [
    made
    for name, (empty, read) in STATES.items()
    for made in (
        spec(name, empty, read, WEIGHTS, revert=revert),
        spec(
            f"{name}-floats",
            empty,
            lambda state: state.exact,
            FLOAT_WEIGHTS,
            same=assert_near,
            excused={"revert": "no float sum is undone"},
        ),
    )
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_laws(spec: StateSpec, law: str) -> None:
    check_law(spec, law)
