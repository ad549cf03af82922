"""A task, a state and a metric are one class and one row each: what the registries alone give."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, MetricError, StateError
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import (
    canonical_score,
    canonical_weight,
    check_same_length,
    score_column,
    weight_column,
)
from streameval.metrics import registry as metric_registry
from streameval.metrics.metric import Metric
from streameval.states.fields import Fields
from streameval.states.registry import STATES, StateRow
from streameval.states.state_set import StatePlan, StateSet
from streameval.tasks.input import Input, InputOptions
from streameval.tasks.registry import TASKS, one_of_tasks
from streameval.tasks.task import Task
from tests.support.window_model import Item, Model, batches, columns

# The task, as its module in tasks/ would have it ------------------------------


class NumbersInput(Input):
    """An event is a number and its prediction."""

    def event(
        self, y_true: object, y_pred: object, score: object, proba: object, weight: object
    ) -> EventFields:
        true, predicted = canonical_score(y_true, "y_true"), canonical_score(y_pred, "y_pred")
        return true, predicted, None, canonical_weight(weight, zero=True)

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> EventBatch:
        true, predicted = score_column(y_true, "y_true"), score_column(y_pred, "y_pred")
        check_same_length(len(true), len(predicted), "y_pred")
        return EventBatch(true, predicted, None, weight_column(weight, len(true), zero=True))


class NumbersTask(Task):
    name = "numbers"
    adjective = "number"
    usual = {"report": "mean_gap"}  # noqa: RUF012
    fields = {"y_true": "number", "y_pred": "number"}  # noqa: RUF012

    def input(self, options: InputOptions) -> Input:
        return NumbersInput()


# Its state, from nothing, as its module in states/ would have it -----------------

UNIT = 2**40


class AbsoluteErrors:
    """Weight and Σ w·|y_true − y_pred|, the sum in whole units of 2**-40."""

    def __init__(self) -> None:
        self.exact = True
        self.sums: list[Any] = [0, 0]

    def update(self, y_true: Any, y_pred: Any, weight: Any = 1) -> None:
        self._add(round(abs(y_true - y_pred) * UNIT), weight)

    def _add(self, units: int, weight: Any) -> None:
        if type(weight) is float:
            self._promote()
        self.sums[0] += weight
        self.sums[1] += weight * units

    def _promote(self) -> None:
        self.exact, self.sums = False, list(map(float, self.sums))

    def update_many(self, y_true: Any, y_pred: Any, weight: Any) -> None:
        each = [1] * len(y_true) if weight is None else weight.tolist()
        for event in zip(y_true.tolist(), y_pred.tolist(), each, strict=True):
            self.update(*event)

    def revert(self, y_true: Any, y_pred: Any, weight: Any = 1) -> None:
        if not self.exact or type(weight) is float or self.sums[0] < weight:
            raise InputError("y_true", expected="an event that was counted", got=str(y_true))
        self._add(round(abs(y_true - y_pred) * UNIT), -weight)

    def merge(self, other: AbsoluteErrors, times: int = 1) -> None:
        if not other.exact:
            self._promote()
        self.sums = [one + times * two for one, two in zip(self.sums, other.sums, strict=True)]

    def to_state(self) -> dict[str, Any]:
        return {"exact": self.exact, "sums": self.sums[:]}

    @classmethod
    def from_state(cls, data: Any) -> AbsoluteErrors:
        fields, new = Fields(data, "absolute_errors", {"exact", "sums"}), cls()
        new.exact, new.sums = fields.exact, fields.weights("sums", 2, most=None)
        return new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsoluteErrors) and self.to_state() == other.to_state()

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        assert {type(value) for value in self.sums} == {int if self.exact else float}


def scaled(parts: Any, unit: int) -> dict[str, Any]:
    sums = [sum(part["sums"][n] * factor for part, factor in parts) / unit for n in (0, 1)]
    return {"exact": False, "sums": sums}


def mean_gap(errors: AbsoluteErrors, undefined: float | None = None) -> float:
    """Mean of |y_true − y_pred|."""
    if not errors.sums[0]:
        return se.metrics.Undefined("no events") if undefined is None else undefined
    return float(errors.sums[1] / errors.sums[0] / UNIT)


# Its rows ---------------------------------------------------------------------


def row(name: str, kind: type, task: str, **more: Any) -> StateRow:
    return StateRow(
        name=name,
        types=(kind,),
        tasks=frozenset({task}),
        input="labels",
        requires="predicted numbers: pass y_pred with each event",
        make=lambda plan: kind(),
        support=lambda errors: errors.sums[0],
        weighted_sum=scaled,
        **more,
    )


STATE = row("absolute_errors", AbsoluteErrors, "numbers")
METRIC = Metric(
    name="mean_gap",
    function=mean_gap,
    state="absolute_errors",
    definition="mean of |y_true - y_pred|",
    tasks=frozenset({"numbers"}),
    low=0.0,
    high=float("inf"),
    direction="down",
    shown=frozenset({"numbers"}),
)


def register(setitem: Callable[[Any, Any, Any], None]) -> None:
    """What the rows give the registries when they are imported."""
    setitem(TASKS, NumbersTask.name, NumbersTask())
    setitem(STATES, STATE.name, STATE)
    setitem(metric_registry._METRICS, METRIC.name, METRIC)
    setitem(metric_registry._OF_TASK, NumbersTask.name, {METRIC.name: METRIC})
    for use in ("report", "slices", "folds", "representation", "single"):
        setitem(metric_registry._USUAL, (use, NumbersTask.name), (METRIC.name,))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch.setitem)


# What it gets -----------------------------------------------------------------

WINDOWS = [None, se.Last(25), se.Panes("1h", "10m", "20m"), se.Fading("30m"), se.Fading(40)]


def stream(n: int, seed: int) -> list[Item]:
    rng = np.random.default_rng(seed)
    times = 1_700_000_000 + np.cumsum(rng.integers(0, 90, n))
    pairs, weights = rng.normal(size=(n, 2)).tolist(), rng.integers(1, 4, n).tolist()
    return [
        Item(true, y_pred=predicted, weight=by, time=time, slices={"country": f"c{by}"})
        for (true, predicted), by, time in zip(pairs, weights, times.tolist(), strict=True)
    ]


def opened(window: Any = None, task: Any = "numbers") -> se.Evaluator:
    return se.Evaluator(task, window=window, slices=("country",), time_unit="s")


def mean(inside: list[tuple[Item, float]]) -> float:
    total = sum(weight * abs(item.y_true - item.y_pred) for item, weight in inside)
    return float(total / sum(weight for _, weight in inside))


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_events_batches_shards_slices_and_files(window: Any, tmp_path: Path) -> None:
    one, many, model, items = opened(window), opened(window), Model(window), stream(120, 3)
    for run in batches(items, np.random.default_rng(1), 40):
        for item in run:
            one.update(**item.arguments(timed=True, sliced=True))
            model.add(item)
        many.update_many(**columns(run, timed=True, sliced=True))
        inside = model.inside() if window is not None else [(i, i.weight) for i in model.items]
        assert one["mean_gap"] == pytest.approx(mean(inside), rel=1e-9)
    assert one.to_bytes() == many.to_bytes()
    one._check()
    for (place,), view in one.slices().items() if window is None else ():
        part = [(item, item.weight) for item in items if item.slices == dict([place])]
        assert view["mean_gap"] == pytest.approx(mean(part))
    one.save(tmp_path / "state")
    loaded = se.load(tmp_path / "state")
    assert loaded == one
    assert loaded["mean_gap"] == one["mean_gap"]
    assert [row.metric for row in one.report()] == ["mean_gap"]
    worst = [row.value for row in one.slice_report("mean_gap").rows]
    each = (view["mean_gap"] for view in loaded.slices().values())
    assert worst == sorted(each, reverse=True)
    last = items[-1].arguments(timed=True, sliced=True)
    if window in WINDOWS[:3]:
        many.revert(**last)
        assert many["mean_gap"] != one["mean_gap"]
        many.update(**last)
        assert many["mean_gap"] == pytest.approx(one["mean_gap"], rel=1e-12)
    if window not in (WINDOWS[1], WINDOWS[4]):
        shards = [opened(window) for _ in range(3)]
        for n, item in enumerate(items):
            shards[n % 3].update(**item.arguments(timed=True, sliced=True))
        assert se.merge(shards)["mean_gap"] == pytest.approx(one["mean_gap"], rel=1e-12)


def test_it_is_refused_in_words() -> None:
    assert one_of_tasks().endswith(' or "numbers"')
    one = se.Evaluator("numbers")
    with pytest.raises(InputError, match=r"^y_pred: expected a finite number"):
        one.update(1.5, "cat")
    with pytest.raises(MetricError, match=r"^accuracy is for binary, multi-class"):
        one["accuracy"]
    with pytest.raises(MetricError, match="mean_gap is for number tasks"):
        se.Evaluator()["mean_gap"]
    with pytest.raises(StateError, match="task is 'numbers' here and 'binary' there"):
        one.merge(se.Evaluator())


# A process of its own: the commands' choices are made when they are imported.
MAIN = """
import operator, sys
from tests.unit.test_new_task import register
register(operator.setitem)
from streameval.cli import main
for path in sys.argv[1:]:
    code = main(["evaluate", path, "--task", "numbers", "--y-pred", "y_pred"])
    assert code == 0, path
"""


def test_the_command_reads_files(tmp_path: Path) -> None:
    rows = [(1.5, 1.0), (2.5, 3.0), (-1.0, 1.0)]
    table, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    table.write_text("y_true,y_pred\n" + "".join(f"{a},{b}\n" for a, b in rows))
    lines.write_text("".join(json.dumps({"y_true": a, "y_pred": b}) + "\n" for a, b in rows))
    command = [sys.executable, "-c", MAIN, table, lines]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"mean_gap +1\b", done.stdout)) == 2


# A state of one's own beside those of a task of the package -----------------------


class FewErrors(AbsoluteErrors):
    """Refuses all beyond a weight."""

    def check(self, y_true: Any, y_pred: Any, weight: Any = 1) -> None:
        if self.sums[0] + weight > 5:
            raise InputError("y_pred", expected="few events", got="more")

    def check_many(self, y_true: Any, y_pred: Any, weight: Any) -> None:
        self.check(True, True, len(y_true) if weight is None else int(weight.sum()))


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = row("few_errors", FewErrors, "binary", refuses=frozenset({"binary"}))
    monkeypatch.setitem(STATES, limit.name, limit)


def test_a_whole_event_is_put_back_where_the_new_state_refuses(limited: None) -> None:
    state_set = StateSet(StatePlan.everything("binary"))
    assert state_set.plan.keeps == {"confusion", "index", "few_errors"}
    state_set.update(1, 1, 0.5)
    state_set.few_errors.revert(1, 1)
    before = repr(state_set.to_state())
    with pytest.raises(InputError):
        state_set.revert(1, 1, 0.5)
    assert repr(state_set.to_state()) == before


@pytest.mark.skipif(
    se.backend() != "native", reason="NOT TESTED: compiled code, of which none was built"
)
@pytest.mark.parametrize("window", [None, se.Last(3), se.Panes("1h")], ids=repr)
def test_states_of_ones_own_keep_the_fast_path_of_the_others(limited, window, monkeypatch):
    ev, twin = (opened(window, "binary") for _ in range(2))
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
