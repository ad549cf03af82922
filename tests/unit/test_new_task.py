"""A task is one class and one row: what a new one gets from the registries alone."""

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
from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import (
    Weight,
    canonical_score,
    canonical_weight,
    check_same_length,
    score_column,
    weight_column,
)
from streameval.metrics import registry as metric_registry
from streameval.metrics.metric import Metric
from streameval.states.registry import STATES, StateRow
from streameval.states.sums.exact_sum import ExactSum
from streameval.states.sums.sum_vector import Field, SumVector
from streameval.tasks.input import Input, InputOptions
from streameval.tasks.registry import TASKS, one_of_tasks
from streameval.tasks.task import Task
from tests.support.window_model import Item, columns

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


# Its state, as its module in states/ would have it ----------------------------


class AbsoluteErrors(SumVector):
    """Σ w and Σ w·|y_true − y_pred|, exactly."""

    NAME = "absolute_errors"
    VALIDATED = True

    weight = Field[Weight]()  # type: ignore[assignment]
    total = Field[ExactSum](kind=ExactSum)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> list[tuple[int, float]]:
        return [(0, 1), (1, abs(y_true - given))]


def mean_gap(errors: AbsoluteErrors, undefined: float | None = None) -> float:
    """Mean of |y_true − y_pred|."""
    if not errors.weight:
        return se.metrics.Undefined("no events") if undefined is None else undefined
    return errors.total.value() / errors.weight


# Its rows ---------------------------------------------------------------------

STATE = StateRow(
    name="absolute_errors",
    types=(AbsoluteErrors,),
    tasks=frozenset({"numbers"}),
    input="labels",
    requires="predicted numbers: pass y_pred with each event",
    make=lambda plan: AbsoluteErrors(),
    support=lambda errors: errors.weight,
    weighted_sum=AbsoluteErrors.scaled,
)

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


def opened(window: Any = None) -> se.Evaluator:
    return se.Evaluator("numbers", window=window, slices=("country",), time_unit="s")


def mean(items: list[Item]) -> float:
    total = sum(item.weight * abs(item.y_true - item.y_pred) for item in items)
    return float(total / sum(item.weight for item in items))


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_events_batches_shards_slices_and_files(window: Any, tmp_path: Path) -> None:
    one, many, items = opened(window), opened(window), stream(120, 3)
    events = [item.arguments(timed=True, sliced=True) for item in items]
    for event in events:
        one.update(**event)
    for start in range(0, 120, 17):
        many.update_many(**columns(items[start : start + 17], timed=True, sliced=True))
    assert one.to_bytes() == many.to_bytes()
    one._check()
    inside = {None: items, WINDOWS[1]: items[-25:]}.get(window)
    if inside:
        assert one["mean_gap"] == pytest.approx(mean(inside))
    if window is None:
        for (place,), view in one.slices().items():
            part = [item for item in items if item.slices == dict([place])]
            assert view["mean_gap"] == pytest.approx(mean(part))
    one.save(tmp_path / "state")
    loaded = se.load(tmp_path / "state")
    assert loaded == one
    assert loaded["mean_gap"] == one["mean_gap"] > 0
    assert [row.metric for row in one.report()] == ["mean_gap"]
    worst = one.slice_report("mean_gap")
    assert [row.value for row in worst.rows] == sorted(
        (view["mean_gap"] for view in one.slices().values()), reverse=True
    )
    if window in WINDOWS[:3]:
        many.revert(**events[-1])
        many.update(**events[-1])
        assert many["mean_gap"] == pytest.approx(one["mean_gap"], rel=1e-12)
    if window not in (WINDOWS[1], WINDOWS[4]):
        shards = [opened(window) for _ in range(3)]
        for n, event in enumerate(events):
            shards[n % 3].update(**event)
        assert se.merge(shards)["mean_gap"] == pytest.approx(one["mean_gap"], rel=1e-12)


def test_it_is_refused_in_words() -> None:
    assert one_of_tasks().endswith(' or "numbers"')
    one = se.Evaluator("numbers")
    with pytest.raises(InputError, match=r"^y_pred: expected a finite number"):
        one.update(1.5, "cat")
    with pytest.raises(se.errors.MetricError, match=r"^accuracy is for binary, multi-class"):
        one["accuracy"]
    with pytest.raises(se.errors.MetricError, match="mean_gap is for number tasks"):
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
    table = tmp_path / "a.csv"
    table.write_text("y_true,y_pred\n" + "".join(f"{a},{b}\n" for a, b in rows))
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps({"y_true": a, "y_pred": b}) + "\n" for a, b in rows))
    done = subprocess.run(
        [sys.executable, "-c", MAIN, table, lines],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"mean_gap +1\b", done.stdout)) == 2
