"""When time moves on to the next pane, a window follows what has left it and what has entered."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import assert_same

import streameval as se
from streameval.tally import Plan, Tally
from streameval.windows import panes as panes_module

PLANS = [
    Plan.everything("binary"),
    Plan("binary", frozenset({"confusion", "probability", "moments"})),
    Plan.everything("multiclass"),
]
WEIGHTS = st.sampled_from([1, 1, 1, 2, 7, 2**53])
SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0, -3.5, 5e-324])
SHARES = st.sampled_from([{"a": 1.0}, {"a": 0.5, "b": 0.5}, {"b": 0.25, "c": 0.75, "d": 0.0}])
EVENTS = {
    "binary": st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1]), SCORES, WEIGHTS),
    "multiclass": st.tuples(st.sampled_from("abc"), st.sampled_from("abz"), SHARES, WEIGHTS),
}


def fed(plan: Plan, events: list[Any]) -> Tally:
    tally = Tally(plan)
    for event in events:
        tally.update(*event)
    return tally


def read(tally: Tally) -> None:
    """Have the sums that are kept current derived."""
    if tally.confusion is not None:
        assert tally.confusion.sums.total == tally.confusion.total
    if tally.index is not None:
        assert tally.index.twice_wins >= 0
    if tally.class_scores is not None:
        for label in tally.class_scores.labels:
            tally.class_scores.one_vs_rest_wins(label)
    assert tally.plan.task != "binary" or tally.probability is not None


@pytest.mark.parametrize("plan", PLANS, ids=["binary", "sums", "multiclass"])
@given(data=st.data())
def test_what_is_subtracted_leaves_no_trace(plan: Plan, data: Any) -> None:
    lists = st.lists(EVENTS[plan.task], max_size=12)
    kept, gone = data.draw(lists), data.draw(lists)
    operand = fed(plan, gone)
    whole = fed(plan, kept)
    for each in data.draw(st.permutations(["merge", "read"])):
        whole.merge(operand) if each == "merge" else read(whole)
    if data.draw(st.booleans()):
        read(whole)
    before = operand.to_state()
    whole.subtract(operand)
    assert_same(operand.to_state(), before)
    assert_same(whole.to_state(), fed(plan, kept).to_state())
    whole._check()
    whole.merge(operand)
    read(whole)
    assert_same(whole.to_state(), fed(plan, kept + gone).to_state())
    whole._check()


STEP = st.sampled_from([0, 0, 3, 9, 10, 10, 11, 25, 60, 79, 80, 200, -5, -12, -19])
TIMED = st.tuples(STEP, st.booleans(), SCORES, st.sampled_from([1, 1, 1, 1, 1, 3, 0.5]))


@settings(max_examples=150)
@given(
    ways=st.lists(
        st.tuples(st.sampled_from(["one", "many", "delta", "revert"]), st.booleans(),
                  st.lists(TIMED, min_size=1, max_size=5)),
        min_size=3, max_size=25,
    ),
    task=st.sampled_from(["binary", "multiclass"]),
)  # fmt: skip
def test_a_window_that_moved_on_is_the_merge_of_its_panes(ways: Any, task: Any) -> None:
    window = se.Panes("80s", pane="10s", lateness="20s")
    ev = se.Evaluator(task=task, window=window, slices=("country",), time_unit="s")
    now, came = 1000, []
    for way, asked, drawn in ways:
        events = []
        for step, true, score, weight in drawn:
            now = max(now, now + step)
            proba = score if 0.0 <= score <= 1.0 else 0.5
            label = {"score": score} if task == "binary" else {
                "proba": {"a": proba, "b": 1.0 - proba}
            }  # fmt: skip
            events.append(
                {
                    "y_true": true if task == "binary" else "ab"[true],
                    **label,
                    "weight": weight,
                    "event_time": now + min(step, 0),
                    "slices": {"country": "PT" if score > 0.3 else "DE"},
                }
            )
        if way == "revert":
            # What is too old, or beside weights that are not whole, is refused.
            for event in came[-2:]:
                try:
                    ev.revert(**event)
                except se.InputError:
                    continue
                came.remove(event)
        elif way == "one":
            for event in events:
                ev.update(**event)
        else:
            columns: dict[str, Any] = {key: [one[key] for one in events] for key in events[0]}
            columns["slices"] = {"country": [one["slices"]["country"] for one in events]}
            to = ev.delta(newest=ev.newest) if way == "delta" else ev
            to.update_many(**columns)
            if to is not ev:
                ev.merge(to)
        if way != "revert":
            came += events
        if asked:
            fresh = se.from_bytes(ev.to_bytes())
            whole = all(event["weight"] != 0.5 for event in came)
            if whole:
                assert repr(ev.report()) == repr(fresh.report())
            for key, view in ev.slices().items():
                report = view.report()
                assert not whole or repr(report) == repr(fresh.slices()[key].report())
        ev._check()


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of thaws, merges and subtractions."""
    counts: Counter[str] = Counter()

    def counted(holder: Any, name: str) -> None:
        real = getattr(holder, name)

        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return real(*arguments)

        monkeypatch.setattr(holder, name, call)

    counted(panes_module, "thaw")
    counted(Tally, "merge")
    counted(Tally, "subtract")
    return counts


SLICES = 20


def turnovers(ev: se.Evaluator, panes: range, slices: int, way: str) -> None:
    """Fill panes with events of the first slices; publish after each."""
    countries = np.arange(3 * slices) % slices
    scores = countries * 7919 % 997 / 997
    for pane in panes:
        to = ev.delta(newest=ev.newest) if way == "delta" else ev
        to.update_many(
            countries % 2 == 0,
            score=scores,
            event_time=np.full(3 * slices, 1e9 + 10 * pane),
            slices={"country": countries.astype(str)},
        )
        if to is not ev:
            ev.merge(to)
        ev.report()
        for view in ev.slices().values():
            view.report()


@pytest.mark.parametrize("way", ["delta", "many"])
@pytest.mark.parametrize("panes", [6, 24, 96])
def test_a_turnover_costs_the_same_whatever_the_number_of_panes(
    operations: Counter[str], panes: int, way: str
) -> None:
    window = se.Panes(f"{10 * panes}s", pane="10s")
    ev = se.Evaluator(window=window, slices=("country",), time_unit="s")
    turnovers(ev, range(panes + 3), SLICES, way)
    operations.clear()
    turnovers(ev, range(panes + 3, panes + 8), SLICES, way)
    windows = 5 * (SLICES + 1)
    assert operations["thaw"] == operations["subtract"] == windows
    # A delta is merged into the pane and into the window's merge; a batch enters with its pane.
    assert operations["merge"] == windows * (2 if way == "delta" else 1)
    ev._check()


def test_a_slice_without_events_in_what_left_or_entered_costs_nothing(
    operations: Counter[str],
) -> None:
    ev = se.Evaluator(window=se.Panes("240s", "10s"), slices=("country",), time_unit="s")
    turnovers(ev, range(4), 2, "delta")
    turnovers(ev, range(4, 12), SLICES, "delta")
    turnovers(ev, range(12, 27), 2, "delta")
    operations.clear()
    # Panes 3 to 7 leave: the first held two slices, the others all of them.
    turnovers(ev, range(27, 28), 2, "delta")
    assert operations["subtract"] == 3
    assert operations["merge"] == 6


def test_what_is_read_no_more_is_not_kept_current(operations: Counter[str]) -> None:
    ev = se.Evaluator(window=se.Panes("80s", "10s"), time_unit="s")
    ev.update(True, score=0.5, event_time=1e9)
    ev.report()
    for pane in range(1, 20):
        ev.update(pane % 2 == 0, score=0.5, event_time=1e9 + 10 * pane)
    assert operations["subtract"] == 1
    assert ev.report(["accuracy"]).rows[0].support == 8
