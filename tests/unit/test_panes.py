"""Panes: event time, the watermark, late events, the series, what is retained; frozen ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, MetricError
from streameval.states.backend import compiled
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows import time_buckets
from streameval.windows.time_buckets import freeze, thaw
from tests.support.laws import assert_same
from tests.support.window_model import binary_stream, columns

HOUR = 1_700_002_800  # a whole hour


def opened(**options: Any) -> se.Evaluator:
    window = se.Panes("1h", "10m", "20m", **options.pop("panes", {}))
    return se.Evaluator(window=window, time_unit="s", **options)


def test_the_series_shows_every_pane() -> None:
    ev = opened(panes={"retain": "3h"})
    assert ev.series("accuracy") == []
    for minute, right in [(0, True), (5, False), (31, True), (65, True)]:
        ev.update(True, right, event_time=HOUR + 60 * minute)
    rows = ev.series("accuracy")
    assert [row.support for row in rows] == [2, 0, 0, 1, 0, 0, 1]
    assert rows[0].start == "2023-11-14T23:00:00Z"
    assert [row.end for row in rows[:-1]] == [row.start for row in rows[1:]]
    assert rows[0].value == 0.5
    assert math.isnan(rows[1].value)
    assert rows[1].reason
    assert [row.support for row in ev.series("f1")] == [2, 0, 0, 1, 0, 0, 1]
    with pytest.raises(MetricError, match="no metric is called"):
        ev.series("f3")
    with pytest.raises(MetricError, match="a series needs a window of panes"):
        se.Evaluator(window=se.Last(5)).series("accuracy")


def test_memory_is_bounded_by_what_is_retained_and_says_so() -> None:
    ev = opened()
    items = binary_stream(3000, seed=8)
    assert ev.retained["panes_at_most"] == 9  # 80 minutes, and the pane that is filling
    for start in range(0, 3000, 100):
        ev.update_many(**columns(items[start : start + 100], timed=True))
        kept = ev.retained
        assert kept["panes_frozen"] >= kept["panes"] - 4
        assert len(ev.series("accuracy")) <= 9
    assert 0 < kept["frozen_bytes"] < 20_000  # of 2,000 events
    assert kept["since"] < ev.series("accuracy")[0].end


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1h", "5m", "-1m"), "Panes(lateness): expected a duration"),
        (("0s",), "Panes(length): expected a duration"),
        (("1h", "5m", "10m", "1h"), "Panes(retain): expected at least length + lateness, 70m"),
        (("7d", "1s"), "Panes(pane): expected panes so long that at most 100000 are retained"),
    ],
)
def test_what_is_no_window(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        se.Panes(*arguments)


def test_times_at_the_ends_of_the_calendar() -> None:
    ev = se.Evaluator(window=se.Panes("7d"), slices=())
    for time in ("0001-01-01T00:00:00", "9999-12-31T23:59:59"):
        ev.update(True, True, event_time=f"{time}+00:00")
        assert [row.start[:5] for row in ev.series("accuracy")] == [time[:5]]
    assert ev["accuracy"] == 1.0


def test_the_window_before_is_of_its_own_panes() -> None:
    ev = se.Evaluator(window=se.Panes("20m", pane="10m", retain="60m"), time_unit="s")
    now, before = se.Evaluator(), se.Evaluator()
    for minute in range(60):
        ev.update(True, minute % 3 != 0, event_time=minute * 60)
        if minute >= 20:
            (now if minute >= 40 else before).update(True, minute % 3 != 0)
    view = ev.total.before(20 * 60_000_000)
    assert ev["accuracy"] == now["accuracy"]
    assert view["accuracy"] == before["accuracy"]
    assert str(view.interval("accuracy")) == str(before.interval("accuracy"))
    # It is of the events of its time.
    ev.update(True, True, event_time=70 * 60)
    assert view["accuracy"] == before["accuracy"]
    assert ev.total.before(20 * 60_000_000)["accuracy"] != view["accuracy"]
    with pytest.raises(MetricError, match="the window before needs a window of panes"):
        se.Evaluator().total.before(1)
    empty = se.Evaluator(window=se.Panes("20m"), time_unit="s").total.before(1)
    assert empty.report(["accuracy"]).rows[0].support == 0


# When time advances to the next pane, a window adds and evicts panes exactly ----------------

PLANS = [
    StatePlan.everything("binary"),
    StatePlan("binary", frozenset({"confusion", "probability", "moments"})),
    StatePlan.everything("multiclass"),
]
WEIGHTS = st.sampled_from([1, 1, 1, 2, 7, 2**53])
SCORE = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0, -3.5, 5e-324])
SHARES = st.sampled_from([{"a": 1.0}, {"a": 0.5, "b": 0.5}, {"b": 0.25, "c": 0.75, "d": 0.0}])
DRAWN = {
    "binary": st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1]), SCORE, WEIGHTS),
    "multiclass": st.tuples(st.sampled_from("abc"), st.sampled_from("abz"), SHARES, WEIGHTS),
}


def fed(plan: StatePlan, events: list[Any]) -> StateSet:
    state_set = StateSet(plan)
    for event in events:
        state_set.update(*event)
    return state_set


def read(state_set: StateSet) -> None:
    """Have the sums that are kept current derived."""
    if state_set.confusion is not None:
        assert state_set.confusion.sums.total == state_set.confusion.total
    if state_set.index is not None:
        assert state_set.index.twice_u >= 0
    if state_set.class_scores is not None:
        for label in state_set.class_scores.labels:
            state_set.class_scores.one_vs_rest_wins(label)
    assert state_set.plan.task != "binary" or state_set.probability is not None


@pytest.mark.parametrize("plan", PLANS, ids=["binary", "sums", "multiclass"])
@given(data=st.data())
def test_what_is_subtracted_leaves_no_trace(plan: StatePlan, data: Any) -> None:
    lists = st.lists(DRAWN[plan.task], max_size=12)
    kept, gone = data.draw(lists), data.draw(lists)
    operand = fed(plan, gone)
    whole = fed(plan, kept)
    for each in data.draw(st.permutations(["merge", "read"])):
        whole.merge(operand) if each == "merge" else read(whole)
    if data.draw(st.booleans()):
        read(whole)
    before = operand.to_state()
    for times, expected in ((-1, kept), (1, kept + gone)):
        whole.merge(operand, times)
        assert_same(operand.to_state(), before)
        assert_same(whole.to_state(), fed(plan, expected).to_state())
        whole._check()


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of thaws, merges and subtractions."""
    counts: Counter[str] = Counter()

    def counted(holder: Any, name: str) -> None:
        real = getattr(holder, name)

        def call(*arguments: Any) -> Any:
            counts["subtract" if arguments[2:] == (-1,) else name] += 1
            return real(*arguments)

        monkeypatch.setattr(holder, name, call)

    counted(time_buckets, "thaw")
    counted(StateSet, "merge")
    return counts


SLICES = 5


def turnovers(ev: se.Evaluator, panes: range, way: str) -> None:
    """Fill panes with events of every slice; publish after each."""
    countries = np.arange(3 * SLICES) % SLICES
    scores = countries * 7919 % 997 / 997
    for pane in panes:
        to = ev.delta(newest=ev.newest) if way == "delta" else ev
        to.update_many(
            countries % 2 == 0,
            score=scores,
            event_time=np.full(3 * SLICES, 1e9 + 10 * pane),
            slices={"country": countries.astype(str)},
        )
        if to is not ev:
            ev.merge(to)
        ev.report()
        for view in ev.slices().values():
            view.report()


@pytest.mark.parametrize("way", ["delta", "many"])
@pytest.mark.parametrize("panes", [6, 24])
def test_a_turnover_costs_the_same_whatever_the_number_of_panes(operations, panes, way):
    window = se.Panes(f"{10 * panes}s", pane="10s")
    ev = se.Evaluator(window=window, slices=("country",), time_unit="s")
    turnovers(ev, range(panes + 3), way)
    operations.clear()
    turnovers(ev, range(panes + 3, panes + 8), way)
    windows = 5 * (SLICES + 1)
    assert operations["subtract"] == windows
    # Compiled code holds the new panes of a batch as bytes, and those of a delta are read.
    compiled = se.backend() == "native"
    assert operations["thaw"] == (2 * windows if compiled and way == "delta" else windows)
    # A delta is merged into the pane and into the window's merge. A sorted batch is counted in
    # both; any other enters with its pane, and single events of a slice are counted in both.
    assert operations["merge"] == (2 * windows if way == "delta" else 0 if compiled else 5)
    ev._check()
    fresh = se.from_bytes(ev.to_bytes())
    assert [repr(view.report()) for view in (ev, *ev.slices().values())] == [
        repr(view.report()) for view in (fresh, *fresh.slices().values())
    ]


def test_weights_that_are_not_whole_are_never_subtracted(operations: Counter[str]) -> None:
    ev = se.Evaluator(window=se.Panes("80s", "10s"), time_unit="s")
    subtracted = []
    for pane in range(30):
        for n in range(3):
            weight = 0.1 * (n + 1) if pane == 10 else 1
            ev.update(n == 0, score=n / 3, weight=weight, event_time=1e9 + 10 * pane)
        report = ev.report()
        subtracted.append(operations["subtract"])
        if not 10 <= pane < 18:
            assert repr(report) == repr(se.from_bytes(ev.to_bytes()).report())
    # One for each step, but for those while pane 10 is inside and when it leaves.
    assert subtracted == [0] * 8 + [1, 2, *[3] * 9, *range(4, 15)]


def test_a_batch_that_leaves_the_merge_no_room_is_counted_whole() -> None:
    start = 1_000_000_000
    ev = se.Evaluator(window=se.Panes("60s", "10s"), time_unit="s", slices=("a",))
    ev.update_many(
        [True] * 512,
        score=[0.5] * 512,
        weight=[2**53] * 511 + [2**53 - 3],
        event_time=[start] * 512,
        slices={"a": [1] * 512},
    )
    ev["roc_auc"]
    later = {"event_time": [start + 12] * 8, "slices": {"a": [2] * 8}}
    ev.update_many([True] * 8, score=[0.5] * 8, **later)
    panes = [len(one["window"]["panes"]) for one in ev.to_state()["slices"]]
    assert panes == [1, 1]
    assert ev.arrivals["on_time"] == 520


# Frozen panes ------------------------------------------------------------------------------


# That panes thaw to what was frozen, of every task and weight: tests/unit/test_golden_states.py and
# the oracle of windows.


@pytest.mark.skipif(
    compiled("streameval.states.native.batch_partition") is None,
    reason="the bytes of compiled code",
)
@pytest.mark.parametrize("states", [["confusion"], ["index"], ["confusion", "index"]])
@pytest.mark.parametrize(("weight", "width"), [(1, 1), (300, 2), (2**20, 4), (2**52, 8)])
def test_a_pane_of_scores_is_packed(states: list[str], weight: int, width: int) -> None:
    state_set = StateSet(StatePlan.for_states("binary", states))
    for item in binary_stream(50, seed=2):
        state_set.update(item.y_true, int(item.score >= 0.5), item.score, weight)
    data = freeze(state_set)
    scores = state_set.index.distinct if "index" in states else 0
    assert len(data) <= 48 + (8 + 2 * width) * scores
    again = thaw(data, state_set.plan)
    assert_same(again.to_state(), state_set.to_state())
    again._check()
    assert freeze(again) == data
