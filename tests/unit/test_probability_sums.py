"""Log loss, Brier and reliability of binary events, against scikit-learn and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from streameval.errors import InputError, StateError
from streameval.states.probability import ProbabilitySums
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import UNIT

EDGES = [0.0, 1.0, 2.0**-52, 2.0**-53, 1 - 2.0**-52, 1 - 2.0**-53, 5e-324, 0.5]
EDGES += np.linspace(0, 1, 11).tolist() + np.nextafter(np.linspace(0, 1, 11)[1:], 0).tolist()
PROBABILITIES = st.one_of(st.sampled_from(EDGES), st.floats(0.0, 1.0))


def close(left: float, right: float) -> None:
    assert left == pytest.approx(right, rel=1e-12, abs=1e-12)


def sums_of(positive: Any, scores: Any, weight: Any = None, bins: int = 10) -> ProbabilitySums:
    sums = ProbabilitySums(bins)
    sums.update_many(positive, scores, weight)
    sums._check()
    return sums


def one_by_one(positive: Any, scores: Any, weight: Any = None) -> ProbabilitySums:
    sums = ProbabilitySums()
    weights = [1] * len(positive) if weight is None else weight
    for event in zip(positive, scores, weights, strict=True):
        sums.update(*event)
    return sums


def assert_sklearn(sums: ProbabilitySums, positive: Any, scores: Any, weight: Any) -> None:
    close(
        sums.log_loss_units / UNIT / sums.weight,
        log_loss(positive, scores, sample_weight=weight, labels=[False, True]),
    )
    close(
        sums.brier_units / UNIT / sums.weight,
        brier_score_loss(positive, scores, sample_weight=weight, pos_label=True),
    )


def assert_curve(sums: ProbabilitySums, positive: Any, scores: Any, bins: int) -> None:
    true, predicted = calibration_curve(positive, scores, n_bins=bins)
    held = [n for n, weight in enumerate(sums.bin_weights) if weight]
    close([sums.bin_positives[n] / sums.bin_weights[n] for n in held], true)  # type: ignore[arg-type]
    units = sums.bin_probability_units
    close([units[n] / UNIT / sums.bin_weights[n] for n in held], predicted)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.booleans(), PROBABILITIES, st.integers(1, 9)), min_size=1))
@settings(max_examples=80)
def test_losses_are_scikit_learns(events: list[tuple[bool, float, int]]) -> None:
    # scikit-learn wants both classes.
    events = [*events, (True, 0.3, 1), (False, 0.3, 1)]
    positive, scores, weights = map(list, zip(*events, strict=True))
    assert_sklearn(sums_of(positive, scores), positive, scores, None)
    assert_sklearn(sums_of(positive, scores, weights), positive, scores, weights)
    halves = [weight / 2 for weight in weights]
    assert_sklearn(sums_of(positive, scores, halves), positive, scores, halves)
    for bins in (1, 3, 10):
        assert_curve(sums_of(positive, scores, bins=bins), positive, scores, bins)


def test_losses_are_scikit_learns_over_many_events() -> None:
    rng = np.random.default_rng(3)
    scores = np.concatenate([rng.random(60_000), rng.choice(EDGES, 20_000)])
    positive = rng.random(80_000) < scores
    weight = rng.integers(1, 10_000, 80_000)
    assert_sklearn(sums_of(positive, scores), positive, scores, None)
    assert_sklearn(sums_of(positive, scores, weight), positive, scores, weight)
    assert_curve(sums_of(positive, scores, bins=13), positive, scores, 13)


def test_a_certain_error_costs_what_scikit_learn_says() -> None:
    wrong = sums_of([True, False], [0.0, 1.0])
    assert wrong.log_loss_units / UNIT / 2 == pytest.approx(36.04365338911715, abs=1e-14)
    close(wrong.log_loss_units / UNIT / 2, log_loss([1, 0], [0.0, 1.0]))
    right = sums_of([True, False], [1.0, 0.0])
    assert right.log_loss_units / UNIT / 2 == 2.0**-52
    assert right.brier_units == 0


def test_terms_are_rounded_down_to_units() -> None:
    sums = sums_of([True], [0.1])
    assert sums.brier_units == math.floor(Fraction(0.9 * 0.9) * UNIT)
    assert sums.bin_probability_units[0] == math.floor(Fraction(0.1) * UNIT)
    exact = -math.log(0.1)
    assert abs(sums.log_loss_units - exact * UNIT) <= 2 * math.ulp(exact) * UNIT


def test_one_by_one_and_many_have_the_same_bits() -> None:
    rng = np.random.default_rng(4)
    n = 20_000  # more than one chunk
    scores = np.concatenate([rng.random(n), rng.normal(size=500), rng.choice(EDGES, 3000)])
    positive = rng.random(len(scores)) < 0.4
    big = np.where(rng.random(len(scores)) < 0.01, 2**53, rng.integers(1, 5, len(scores)))
    for weight in (None, big):
        many = sums_of(positive, scores, weight)
        listed = None if weight is None else weight.tolist()
        single = one_by_one(positive.tolist(), scores.tolist(), listed)
        assert many == single
        assert many.to_state() == single.to_state()


def test_an_edge_belongs_to_the_bin_below() -> None:
    sums = sums_of([True] * 4, [0.0, 0.5, 0.5000000001, 1.0], bins=2)
    assert sums.bin_weights == [2, 2]
    assert sums.bin_edges == [0.0, 0.5, 1.0]


def test_scores_that_are_no_probabilities_are_counted_apart() -> None:
    sums = ProbabilitySums()
    sums.update(True, 1.5, 2)
    sums.update_many([True, False, True], [-0.1, 0.5, 7], [3, 1, 1])
    assert (sums.outside, sums.weight) == (6, 1)
    assert sums.brier_units == UNIT // 4
    sums.revert(True, 1.5, 2)
    assert sums.outside == 4
    with pytest.raises(InputError, match="event that was counted before"):
        sums.revert(True, 1.5, 5)
    assert sums.outside == 4


@pytest.mark.parametrize("whole", [True, False])
def test_from_groups_has_the_bits_of_the_events(whole: bool) -> None:
    rng = np.random.default_rng(5)
    scores = np.round(rng.normal(0.5, 0.4, 3000), 2)
    positive = rng.random(3000) < 0.5
    weight = rng.integers(1, 3000, 3000) if whole else rng.integers(1, 9, 3000) / 2
    index = ScoreIndex()
    index.update_many(positive, scores, weight)
    derived = ProbabilitySums.from_groups(index.groups(), bins=7)
    derived._check()
    fed = sums_of(positive, scores, weight, bins=7)
    assert derived.exact is fed.exact is whole
    if whole:
        assert derived == fed
    close(derived.log_loss_units / fed.log_loss_units, 1.0)
    close(derived.outside, fed.outside)


def test_the_first_fraction_makes_floats_of_the_same_scale() -> None:
    sums = sums_of([True, False], [0.75, 0.5])
    assert sums.exact
    before = sums.brier_units
    sums.update(True, 0.5, 0.5)
    assert not sums.exact
    assert type(sums.brier_units) is float
    assert sums.brier_units == before + 0.5 * UNIT / 4
    with pytest.raises(InputError, match="float sums cannot be undone exactly"):
        sums.revert(True, 0.75)
    whole = sums_of([True], [0.75])
    whole.merge(sums)
    whole._check()
    assert not whole.exact


def test_a_fraction_cannot_be_reverted_from_integers() -> None:
    sums = sums_of([True], [0.75])
    with pytest.raises(InputError, match=r"weight: expected whole weights only.*got 0\.5"):
        sums.revert(True, 0.75, 0.5)


@pytest.mark.parametrize(
    "event", [(False, 0.75), (True, 0.5), (True, 0.75, 2), (True, 0.72), (True, 0.78)]
)
def test_what_never_came_is_not_reverted(event: tuple[Any, ...]) -> None:
    sums = sums_of([True, False], [0.75, 0.1])
    before = sums.to_state()
    with pytest.raises(InputError, match=f"probability: .*got {event[1]}, of which not enough"):
        sums.revert(*event)
    assert sums.to_state() == before


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (("yes", 0.5), "positive: expected True or 1 .* got 'yes'"),
        ((2, 0.5), "positive: expected True or 1 .* got 2"),
        ((True, math.nan), "probability: expected a finite number, got nan"),
        ((True, "0.5"), "probability: expected a finite number, got '0.5'"),
        ((True, 0.5, 0), "weight: expected a weight above 0"),
        ((True, 0.5, -1), "weight: expected a weight above 0"),
        ((True, 0.5, math.nan), "weight: expected a weight above 0"),
    ],
)
def test_bad_events_are_refused_whole(event: tuple[Any, ...], message: str) -> None:
    sums = sums_of([True], [0.25])
    before = sums.to_state()
    with pytest.raises(InputError, match=message):
        sums.update(*event)
    positive, score, weight = (*event, 1)[:3]
    column = message.replace(":", r"\[1\]:", 1)
    with pytest.raises(InputError, match=column):
        sums.update_many([True, positive], [0.5, score], [1, weight])
    assert sums.to_state() == before


def test_columns_of_different_length_are_refused() -> None:
    sums = ProbabilitySums()
    with pytest.raises(InputError, match="probability: expected 2 values"):
        sums.update_many([True, False], [0.5])
    with pytest.raises(InputError, match="weight: expected 2 values"):
        sums.update_many([True, False], [0.5, 0.5], [1])


def test_numpy_scalars_and_integers_are_taken() -> None:
    sums = ProbabilitySums()
    sums.update(np.True_, np.float64(0.5), np.int64(2))
    sums.update(0, 1)
    sums.update_many(np.array([1, 0]), np.array([0.5, 1.0], dtype=np.float32))
    assert sums.weight == 5
    sums._check()
    assert all(type(units) is int for units in sums.bin_probability_units)


@pytest.mark.parametrize("bins", [0, -1, 10_001, True, 2.0, "10"])
def test_bins_out_of_range_are_refused(bins: Any) -> None:
    with pytest.raises(InputError, match="bins: expected a whole number from 1 to 10000"):
        ProbabilitySums(bins)


def test_states_of_other_bins_or_kind_do_not_merge() -> None:
    sums = sums_of([True], [0.5])
    before = sums.to_state()
    with pytest.raises(StateError, match="10 and of 5 bins cannot be merged"):
        sums.merge(ProbabilitySums(5))
    with pytest.raises(StateError, match="expected ProbabilitySums, got 3"):
        sums.merge(3)  # type: ignore[arg-type]
    assert sums.to_state() == before


def test_merging_with_itself_doubles() -> None:
    sums = sums_of([True, False], [0.5, 0.75])
    sums.merge(sums)
    assert sums == sums_of([True, False] * 2, [0.5, 0.75] * 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": 3}, "bin_weights: expected a list of 3 values, got 2 values"),
        ({"bins": 10**9}, r"bins: expected an integer in 1 … 10000, got 1000000000"),
        ({"exact": 1}, r"exact: expected a bool, got 1"),
        ({"outside": -1}, "outside: expected a non-negative integer.*got -1"),
        ({"outside": 1.0}, "outside: expected a non-negative integer.*got 1.0"),
        ({"brier_units": 3 * UNIT}, "not the losses of events of weight 2"),
        ({"log_loss_units": 0}, "not the losses of events of weight 2"),
        ({"bin_positives": [1, 1]}, r"bin_probability_units\[1\]: not the sums of events"),
        ({"bin_probability_units": [UNIT, UNIT]}, r"bin_probability_units\[1\]: not the sums"),
        ({"bin_weights": [2, True]}, r"bin_weights\[1\]: expected a non-negative integer"),
        ({"more": 1}, "expected the keys .*, got "),
    ],
)
def test_damaged_states_are_refused_with_the_field(change: dict[str, Any], message: str) -> None:
    data = sums_of([True, False], [0.5, 0.25], bins=2).to_state()
    assert ProbabilitySums.from_state(data).to_state() == data
    with pytest.raises(StateError, match="probability.*" + message):
        ProbabilitySums.from_state({**data, **change})


def test_a_state_that_is_no_dictionary_is_refused() -> None:
    with pytest.raises(StateError, match="probability: expected a dictionary, got list"):
        ProbabilitySums.from_state([])  # type: ignore[arg-type]


def test_a_float_state_is_refused_what_it_would_write_otherwise() -> None:
    data = sums_of([True, False], [0.5, 0.25], [0.5, 1], bins=2).to_state()
    assert ProbabilitySums.from_state(data).to_state() == data
    for value in (-0.0, math.nan, math.inf, 0):
        with pytest.raises(StateError, match=r"probability\.outside: expected a finite"):
            ProbabilitySums.from_state({**data, "outside": value})
