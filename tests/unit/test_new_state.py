"""A state is one class and one row: what a new one gets from the registry alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError
from streameval.metrics import registry as metric_registry
from streameval.metrics.metric import Metric
from streameval.states.fields import Fields
from streameval.states.registry import STATES, StateRow
from streameval.states.state_set import StatePlan, StateSet
from tests.support.window_model import Item, Model, batches, binary_stream, columns

# The class, as its module would have it; one on the base of all sums is in test_new_task.py ---

UNIT = 2**40


class ScoreTotals:
    """Weight and total score of each class, in whole units of 2**-40."""

    def __init__(self) -> None:
        self.exact = True
        self.weights: list[Any] = [0, 0]
        self.totals: list[Any] = [0, 0]

    def update(self, positive: bool, score: float, weight: Any = 1) -> None:
        self._add(positive, round(score * UNIT), weight)

    def _add(self, positive: bool, units: int, weight: Any) -> None:
        if type(weight) is float:
            self._promote()
        self.weights[positive] += weight
        self.totals[positive] += weight * units

    def _promote(self) -> None:
        self.exact = False
        self.weights, self.totals = list(map(float, self.weights)), list(map(float, self.totals))

    def update_many(self, positive: Any, score: Any, weight: Any) -> None:
        each = [1] * len(score) if weight is None else weight.tolist()
        for event in zip(positive.tolist(), score.tolist(), each, strict=True):
            self.update(*event)

    def revert(self, positive: bool, score: float, weight: Any = 1) -> None:
        if not self.exact or type(weight) is float or self.weights[positive] < weight:
            raise InputError("score", expected="an event that was counted", got=str(score))
        self._add(positive, round(score * UNIT), -weight)

    def merge(self, other: ScoreTotals, times: int = 1) -> None:
        if not other.exact:
            self._promote()
        for positive in (False, True):
            self.weights[positive] += times * other.weights[positive]
            self.totals[positive] += times * other.totals[positive]

    def to_state(self) -> dict[str, Any]:
        return {"exact": self.exact, "weights": self.weights[:], "totals": self.totals[:]}

    @classmethod
    def from_state(cls, data: Any) -> ScoreTotals:
        fields = Fields(data, "score_totals", {"exact", "weights", "totals"})
        new = cls()
        new.exact = fields.exact
        new.weights = fields.weights("weights", 2)
        new.totals = fields.weights("totals", 2, most=None)
        return new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreTotals) and self.to_state() == other.to_state()

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        kind = int if self.exact else float
        assert {type(value) for value in self.weights + self.totals} == {kind}


def summed(parts: Any, unit: int) -> dict[str, Any]:
    def scaled(key: str, positive: bool) -> float:
        return float(sum(part[key][positive] * factor for part, factor in parts) / unit)

    keys = ("weights", "totals")
    return {"exact": False} | {key: [scaled(key, False), scaled(key, True)] for key in keys}


# Its row, and that of a metric ----------------------------------------------


def row(name: str, kind: type, fed_by: Any, **more: Any) -> StateRow:
    return StateRow(
        name=name,
        types=(kind,),
        tasks=frozenset({"binary"}),
        input=fed_by,
        requires=f"{fed_by}: pass them with each event",
        make=lambda plan: kind(),
        support=lambda totals: sum(totals.weights),
        weighted_sum=summed,
        **more,
    )


ROW = row("score_totals", ScoreTotals, "scores")


def score_gap(totals: ScoreTotals, undefined: float | None = None) -> float:
    """Mean score of positives less that of negatives."""
    if not all(totals.weights):
        return se.metrics.Undefined("a class is missing") if undefined is None else undefined
    low, high = (t / w for t, w in zip(totals.totals, totals.weights, strict=True))
    return (high - low) / UNIT


METRIC = Metric(
    name="score_gap",
    function=score_gap,
    state="score_totals",
    definition="mean score of positives less that of negatives",
    tasks=frozenset({"binary"}),
    low=-float("inf"),
    high=float("inf"),
    shown=frozenset({"binary"}),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATES, ROW.name, ROW)
    monkeypatch.setitem(metric_registry._METRICS, METRIC.name, METRIC)
    monkeypatch.setitem(metric_registry._OF_TASK["binary"], METRIC.name, METRIC)  # type: ignore[arg-type]


# What it gets ---------------------------------------------------------------

WINDOWS = [None, se.Last(25), se.Panes("1h", "10m", "20m"), se.Fading("30m"), se.Fading(40)]
SOME = ["score_gap", "accuracy", "roc_auc"]
KEPT = [None, SOME, SOME[:1], None, SOME]


def opened(window: Any, kept: Any = None) -> se.Evaluator:
    return se.Evaluator(window=window, metrics=kept, slices=("country",), time_unit="s")


def stream(n: int, seed: int) -> list[Item]:
    rng = np.random.default_rng(seed)
    return [
        Item(item.y_true, item.score, time=item.time, slices={"country": f"c{rng.integers(3)}"})
        for item in binary_stream(n, seed)
    ]


def gap(inside: list[tuple[Item, float]]) -> float:
    means = []
    for positive in (False, True):
        held = [(item.score, weight) for item, weight in inside if item.y_true is positive]
        means.append(sum(s * w for s, w in held) / sum(w for _, w in held))
    return means[1] - means[0]


@pytest.mark.parametrize(("window", "kept"), list(zip(WINDOWS, KEPT, strict=True)), ids=repr)
def test_events_batches_shards_slices_and_files(window: Any, kept: Any) -> None:
    single, many, model = opened(window, kept), opened(window, kept), Model(window)
    items = stream(200, 3)
    compared = 0
    for run in batches(items, np.random.default_rng(1), 40):
        for item in run:
            single.update(**item.arguments(timed=True, sliced=True))
            model.add(item)
        many.update_many(**columns(run, timed=True, sliced=True))
        inside = model.inside() if window is not None else [(item, 1.0) for item in model.items]
        if {item.y_true for item, _ in inside} == {False, True}:
            assert single["score_gap"] == pytest.approx(gap(inside), abs=1e-6)
            compared += 1
    assert compared > 3
    assert many.to_bytes() == single.to_bytes()
    single._check()
    loaded = se.from_bytes(single.to_bytes())
    assert loaded == single
    assert loaded.report()["score_gap"] == single["score_gap"]
    for key, view in single.slices().items():
        assert loaded.slices()[key]["score_gap"] == pytest.approx(view["score_gap"], nan_ok=True)
    if isinstance(window, se.Last) or window == se.Fading(40):
        return
    whole, *shards = (opened(window, kept) for _ in range(4))
    for n, item in enumerate(sorted(items, key=lambda item: item.time)):
        for one in (whole, shards[n % 3]):
            one.update(**item.arguments(timed=True, sliced=True))
    merged = se.merge(shards)
    if not isinstance(window, se.Fading):
        item = Item(True, 0.125, time=max(i.time for i in items), slices=items[-1].slices)
        before = merged["score_gap"]
        merged.update(**item.arguments(timed=True, sliced=True))
        assert merged["score_gap"] != before
        merged.revert(**item.arguments(timed=True, sliced=True))
    assert merged["score_gap"] == pytest.approx(whole["score_gap"], rel=1e-12)


def test_a_whole_event_is_put_back_where_the_new_state_refuses() -> None:
    state_set = StateSet(StatePlan.everything("binary"))
    assert state_set.plan.keeps == {"confusion", "index", "score_totals"}
    state_set.update(1, 1, 0.5)
    state_set.score_totals.revert(True, 0.5)
    before = state_set.to_state()
    with pytest.raises(InputError):
        state_set.revert(1, 1, 0.5)
    assert repr(state_set.to_state()) == repr(before)


class LabelLimit(ScoreTotals):
    """Counts labels, and refuses all beyond a weight."""

    MOST = 5

    def check(self, y_true: Any, y_pred: Any, weight: Any = 1) -> None:
        if sum(self.weights) + weight > self.MOST:
            raise InputError("y_pred", expected="few events", got="more")

    def check_many(self, y_true: Any, y_pred: Any, weight: Any) -> None:
        self.check(True, True, len(y_true) if weight is None else int(weight.sum()))


LIMIT_ROW = row("label_limit", LabelLimit, "labels", refuses=frozenset({"binary"}))


@pytest.mark.skipif(
    se.backend() != "native", reason="NOT TESTED: compiled code, of which none was built"
)
@pytest.mark.parametrize("window", [None, se.Last(3), se.Panes("1h")], ids=repr)
def test_states_of_ones_own_keep_the_fast_path_of_the_others(
    window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STATES, LIMIT_ROW.name, LIMIT_ROW)
    ev, twin = (opened(window) for _ in range(2))
    twin._fast = False
    checked: list[Any] = []
    own = se.Evaluator._update_checked

    def noted(self: Any, *args: Any, **values: Any) -> None:
        checked.append(self)
        own(self, *args, **values)

    monkeypatch.setattr(se.Evaluator, "_update_checked", noted)
    for n in range(9):
        item = Item(n % 2 == 0, n / 8, weight=1 + n % 2, time=10**9, slices={"country": "c"})
        came = []
        for one in (ev, twin):
            try:
                one.update(**item.arguments(timed=True, sliced=True))
                came.append("")
            except InputError as error:
                came.append(str(error))
        assert came[0] == came[1]
        assert ev.to_bytes() == twin.to_bytes()
        if n == 2 and window is None:
            assert sum(one is ev for one in checked) == 1  # which opens the slice
    ev._check()
