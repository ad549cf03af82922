"""Replicates by unit: drawn from the unit's value, in every window, merged and saved as states."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.windows.replicated import ReplicatedWindow, unit_counts, unit_keys

WINDOWS: dict[str, dict[str, Any]] = {
    "cumulative": {},
    "panes": {"window": se.Panes("1h", pane="15m", lateness="15m"), "time_unit": "s"},
    "fading": {"window": se.Fading("1h"), "time_unit": "s"},
    "fading by events": {"window": se.Fading(50)},
}
FEW = se.Bootstrap(replicates=20, unit="user")

events = st.lists(
    st.fixed_dictionaries({
        "y_true": st.booleans(),
        "score": st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
        "weight": st.integers(1, 3),
        "event_time": st.integers(1_700_000_000, 1_700_000_000 + 6 * 3600),
        "slices": st.sampled_from([{"country": name} for name in ("PT", "ES", "FR", None)]),
        "unit": st.sampled_from(["u1", "u2", 3, "4", 4]),
    }),
    max_size=8,
)  # fmt: skip


def columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as the arguments of ``update_many``."""
    given: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    return given | {"slices": {"country": [row["slices"]["country"] for row in rows]}}


def counted(window: str, rows: list[dict[str, Any]], **options: Any) -> se.Evaluator:
    ev = evaluator(window, **options)
    for row in rows:
        ev.update(**row)
    return ev


def evaluator(window: str, **options: Any) -> se.Evaluator:
    options = {"bootstrap": FEW, "slices": ("country",), "max_slices": 2} | options
    return se.Evaluator(**options, **WINDOWS[window])


def replicates(ev: se.Evaluator) -> Iterator[tuple[Any, list[Any]]]:
    """The replicates of the total and of each slice, as their state sets."""
    windows = ev._windows
    for key, window in {(): windows.total, **windows.slices}.items():
        assert isinstance(window, ReplicatedWindow)
        yield key, list(window.resampled())


# Draws


def test_keys_are_the_same_in_every_release() -> None:
    keys = unit_keys(["u17", 17, ""])
    assert keys.tolist() == [0xA8ABA6140C9206C1, 0xBABE73D7B7AE82D6, 0xE8C5DC7CB90DEA47]
    # A replicate does not depend on how many there are.
    assert unit_counts(keys, 20).tolist() == unit_counts(keys, 200)[:20].tolist()


def test_draws_are_the_inverse_of_the_distribution_in_64_bits() -> None:
    # SplitMix64 and the distribution, literally.
    (key,) = unit_keys(["user 1"]).tolist()
    expected = []
    for n in range(1, 101):
        bits = (key + n * 0x9E3779B97F4A7C15) % 2**64
        bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
        bits ^= bits >> 31
        shares = itertools.accumulate(math.exp(-1) / math.factorial(k) for k in range(30))
        expected.append(sum(bits / 2**64 >= share for share in shares))
    assert unit_counts(unit_keys(["user 1"]), 100)[:, 0].tolist() == expected


# The state


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=5)
@given(rows=events)
def test_a_replicate_is_an_evaluator_of_the_weighted_events(window, rows):
    ev = counted(window, rows)
    plain = evaluator(window, bootstrap=None)
    for row in rows:
        plain.update(**{**row, "unit": None})
    # What there was without replicates is the same: late events, slices, values.
    assert ev.arrivals == plain.arrivals
    assert ev.slices().keys() == plain.slices().keys()
    for name in ("accuracy", "average_precision"):
        if plain._windows.total.current().has_scores:
            assert ev.value(name, undefined=-1) == plain.value(name, undefined=-1)
    for key, sets in replicates(ev):
        for n in (0, 7, 19):  # the second counts units from 1 to 4 times
            assert sets[n] == drawn(window, rows, n, key, ev)


def drawn(
    window: str, rows: list[dict[str, Any]], replicate: int, key: Any, ev: se.Evaluator
) -> Any:
    """The state set of one replicate, from an evaluator that counts each event k times."""
    slow = se.Evaluator(**WINDOWS[window])
    # All events advance the time, those that are not in the replicate too: with weight 0.
    window_of = slow._windows
    names = {value for ((_, value),) in ev._windows.slices}
    timeline = window_of.timeline
    for row in rows:
        score, unit = row["score"], row["unit"]
        units = [{"4": 4}.get(unit, unit) if isinstance(unit, str) else unit]
        count = int(unit_counts(unit_keys(units), replicate + 1)[replicate, 0])
        value = row["slices"]["country"] or "(missing)"
        value = value if value in names else "(other)"
        inside = key == () or key[0][1] == value
        moment = None
        if timeline is not None:
            latest = timeline.latest
            moment = row["event_time"] * 1_000_000
            if window == "fading by events":
                moment = 0 if latest is None else latest + 1
            if latest is not None and timeline.drops(moment):
                timeline.admit(moment)
                continue
        if count and inside:
            event = int(row["y_true"]), int(score >= 0.5), score, row["weight"] * count
            window_of.total.add(event, moment)
        if timeline is not None and moment is not None:
            timeline.admit(moment)
    return window_of.total.current()


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=3)
@given(rows=events.filter(bool), cut=st.integers(0, 8))
def test_event_batch_merge_and_bytes_are_one_state(window, rows, cut):
    expected = counted(window, rows)
    batch = evaluator(window)
    for part in (rows[:cut], rows[cut:]):
        if part:
            batch.update_many(**columns(part))
    assert batch == expected
    assert batch.to_bytes() == expected.to_bytes()
    again = se.from_bytes(batch.to_bytes())
    assert again == expected
    again._check()
    assert again.interval("accuracy") == expected.interval("accuracy")
    if window == "cumulative":
        # Shards in any order, where no slice and no late event depends on it.
        free = {"max_slices": 10}
        shards = [counted(window, rows[n::3], **free) for n in range(3)]
        whole = counted(window, rows, **free)
        assert se.merge(shards) == se.merge(shards[::-1]) == whole
        delta = whole.delta()
        delta.update_many(**columns(rows))
        whole.merge(delta)
        assert whole == counted(window, rows + rows, **free)


@settings(max_examples=20)
@given(rows=events.filter(bool), n=st.integers(0, 39))
def test_a_reverted_event_leaves_no_trace(rows: list[dict[str, Any]], n: int) -> None:
    n %= len(rows)
    options = {"max_slices": 10}
    ev = counted("cumulative", rows, **options)
    before = ev.to_bytes()
    event = rows[n]
    with pytest.raises(se.InputError):
        ev.revert(**{**event, "unit": "none"})
    assert ev.to_bytes() == before
    ev.revert(**event)
    rest = counted("cumulative", rows[:n] + rows[n + 1 :], **options)
    assert dict(replicates(ev))[()] == dict(replicates(rest))[()]


def test_states_of_other_tasks_have_replicates_too() -> None:
    rng = np.random.default_rng(1)
    classes = se.Evaluator("multiclass", labels=["a", "b", "c"], bootstrap=FEW)
    y_true, unit = rng.choice(["a", "b", "c"], 600), np.arange(600) // 3
    classes.update_many(y_true, proba=rng.dirichlet([1, 1, 1], 600), unit=unit)
    numbers = se.Evaluator("regression", bootstrap=FEW)
    numbers.update_many(rng.normal(size=600), rng.normal(size=600), unit=unit)
    for ev, names in (
        (classes, ("roc_auc_ovr", "roc_auc_ovo", "roc_auc_micro", "log_loss", "f1_macro")),
        (numbers, ("mean_absolute_error", "r2")),
    ):
        for name in names:
            found = ev.interval(name)
            assert found.low < found.value < found.high
            assert found.method == "bootstrap by user"


# Intervals


def grouped(users: int, each: int, seed: int) -> tuple[Any, ...]:
    """Users of whom some are easy and some hard: unit, true label, prediction."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(users), each)
    right = rng.random(users * each) < rng.beta(1.4, 0.6, users)[unit]
    y_true = rng.random(users * each) < 0.5
    return unit, y_true, y_true == right


def test_it_is_as_wide_as_the_design_effect_of_the_units_asks() -> None:
    unit, y_true, y_pred = grouped(200, 15, 3)
    ev = se.Evaluator(metrics=["accuracy"], bootstrap=se.Bootstrap(replicates=400, unit="user"))
    ev.update_many(y_true, y_pred, unit=unit)
    ours, plain = ev.interval("accuracy"), ev.interval("accuracy", method="wilson")
    # The correlation of two events of a user is 1/(1 + 1.4 + 0.6).
    wider = math.sqrt(1 + (15 - 1) / 3)
    assert ours.high - ours.low == pytest.approx(wider * (plain.high - plain.low), rel=0.15)


def test_reports_slices_and_series_have_the_interval_by_unit() -> None:
    unit, y_true, y_pred = grouped(100, 8, 5)
    window = se.Panes("2h", pane="1h", lateness="1h")
    ev = se.Evaluator(window=window, time_unit="s", slices=("half",), bootstrap=FEW)
    times = 7200 + unit % 2 * 3600
    ev.update_many(y_true, y_pred, unit=unit, slices={"half": unit % 2}, event_time=times)
    (row,) = ev.report(["accuracy"], intervals=0.9)
    assert row.interval == ev.interval("accuracy", level=0.9)
    # A slice holds the events of one pane here.
    by_slice = [row.interval for row in ev.slice_report("accuracy", intervals=0.95).rows]
    by_pane = [row.interval for row in ev.series("accuracy", intervals=0.95)]
    assert sorted(by_slice, key=str) == sorted(by_pane, key=str)
    assert [found and found.method for found in by_pane] == ["bootstrap by user"] * 2


# Options and errors


def test_bad_options_heavy_events_and_shards_of_other_options_are_refused() -> None:
    """The frozen texts of errors hold the number of replicates."""
    for unit in ("", 7):
        with pytest.raises(se.InputError, match=r"Bootstrap.unit.: expected a name, such as"):
            se.Bootstrap(unit=unit)  # type: ignore[arg-type]
    with pytest.raises(se.InputError, match="at most 1048576 with bootstrap="):
        se.Evaluator(bootstrap=FEW).update(1, 1, unit="u", weight=2**21)
    for ours, theirs in (FEW, None), (None, FEW), (FEW, se.Bootstrap(unit="user")):
        with pytest.raises(se.StateError, match="bootstrap"):
            se.Evaluator(bootstrap=ours).merge(se.Evaluator(bootstrap=theirs))


def test_a_damaged_state_is_refused() -> None:
    ev = se.Evaluator(bootstrap=FEW).update(1, 1, unit="u")
    for change in (
        lambda data: data["options"].update(bootstrap={"replicates": 5, "unit": "user"}),
        lambda data: data["options"].update(bootstrap={}),
        lambda data: data["options"].update(bootstrap=[]),
        lambda data: data["options"].pop("bootstrap"),
        lambda data: data["window"].pop("replicates"),
        lambda data: data["window"]["replicates"].pop(),
        lambda data: data["window"].update(replicates=3),
        lambda data: data.update(window=data["window"]["window"]),
    ):
        data = ev.to_state()
        change(data)
        with pytest.raises(se.StateError):
            se.Evaluator.from_state(data)
