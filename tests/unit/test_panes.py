"""Panes: event time, the watermark, late events, the series, shards, memory."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, MetricError
from tests.support.window_model import (
    Item,
    Model,
    batches,
    binary_stream,
    class_stream,
    columns,
    plain,
)

HOUR = 1_700_002_800  # a whole hour


def opened(**options: Any) -> se.Evaluator:
    window = se.Panes("1h", "10m", "20m", **options.pop("panes", {}))
    return se.Evaluator(window=window, time_unit="s", **options)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_batches_give_the_bits_of_single_events(task: str) -> None:
    items = (binary_stream if task == "binary" else class_stream)(1500, seed=5)
    one, many, at_once = (opened(task=task) for _ in range(3))
    rng = np.random.default_rng(1)
    for run in batches(items, rng, 90):
        for item in run:
            one.update(**item.arguments(timed=True))
        many.update_many(**columns(run, timed=True))
        assert one.arrivals == many.arrivals
        if rng.random() < 0.2:  # a read in between changes nothing
            assert repr(float(many["accuracy"])) == repr(float(one["accuracy"]))
        assert many.retained["panes"] <= many.retained["panes_at_most"]
    at_once.update_many(**columns(items, timed=True))
    assert one.to_bytes() == many.to_bytes() == at_once.to_bytes()
    many._check()


def test_out_of_order_inside_the_lateness_is_the_same_as_in_order() -> None:
    items = binary_stream(800, seed=6, late=0)
    rng = np.random.default_rng(2)
    ordered = opened()
    shuffled = opened()
    ordered.update_many(**columns(items, timed=True))
    # A pane that ended less than 20 minutes ago still takes events.
    jittered = sorted(items, key=lambda item: item.time + rng.integers(0, 1200))
    shuffled.update_many(**columns(jittered, timed=True))
    assert shuffled.arrivals["late_dropped"] == 0
    assert shuffled.arrivals["late_kept"] > 50
    assert (
        shuffled.to_state()["window"]["panes"][0]["pane"]
        == (ordered.to_state()["window"]["panes"][0]["pane"])
    )
    assert repr(float(shuffled["roc_auc"])) == repr(float(ordered["roc_auc"]))
    for left, right in zip(shuffled.series("f1"), ordered.series("f1"), strict=True):
        assert repr(left) == repr(right)


def test_a_late_event_changes_the_answer_and_a_later_one_only_a_count() -> None:
    ev = opened()
    ev.update(True, True, event_time=HOUR)
    ev.update(True, True, event_time=HOUR + 1500)
    assert (ev["accuracy"], ev.arrivals["on_time"]) == (1.0, 2)
    ev.update(True, False, event_time=HOUR + 100)  # its pane ended 900 s ago
    assert ev["accuracy"] == 2 / 3
    assert ev.arrivals == {"on_time": 2, "late_kept": 1, "late_dropped": 0}
    ev.update(True, True, event_time=HOUR + 1799)
    before = ev.to_state()
    ev.update(True, False, event_time=HOUR + 500)  # ends 1199 s before: still kept
    ev.update(True, False, event_time=HOUR - 1)  # ended 1799 s before
    after = ev.to_state()
    assert ev.arrivals == {"on_time": 3, "late_kept": 2, "late_dropped": 1}
    assert before["timeline"]["latest"] == after["timeline"]["latest"]
    # The borders to the second: a pane's end at the watermark is too late.
    ev.update(True, False, event_time=HOUR + 1800)
    ev.update(True, False, event_time=HOUR + 599)
    assert ev.arrivals["late_dropped"] == 2


@pytest.mark.parametrize("many", [False, True])
def test_a_refused_event_moves_nothing(many: bool) -> None:
    ev = se.Evaluator(positive="spam", window=se.Panes("1h"), slices=("country",), time_unit="s")
    ev.update("spam", score=0.5, event_time=HOUR, slices={"country": "PT"})
    before = ev.to_bytes()
    good = {"y_true": "ham", "score": 0.3, "event_time": HOUR + 9999, "slices": {"country": "DE"}}
    bad: list[tuple[str, Any]] = [
        ("y_true", 1),
        ("score", math.nan),
        ("weight", -1),
        ("event_time", "noon"),
        ("event_time", None),
        ("slices", {"country": 0.5}),
        ("slices", {"country": ["PT"]}),
        ("slices", None),
    ]
    for name, value in bad:
        event = {**good, name: value}
        if many:
            event = {key: None if item is None else [item] for key, item in event.items()}
            if isinstance(event["slices"], list):
                event["slices"] = {key: [item] for key, item in event["slices"][0].items()}
        with pytest.raises(InputError, match=name):
            (ev.update_many if many else ev.update)(**event)
        assert ev.to_bytes() == before, name
    assert ev.arrivals["on_time"] == 1


def test_too_much_weight_is_refused_as_a_whole() -> None:
    ev = opened(metrics=["roc_auc", "accuracy"])
    for _ in range(511):
        ev.update(True, score=0.5, weight=2**53, event_time=HOUR)
    before = ev.to_bytes()
    for _ in range(2):
        with pytest.raises(InputError, match="weight: expected weights of one class"):
            ev.update(True, score=0.5, weight=2**53, event_time=HOUR + 60)
        with pytest.raises(InputError, match="weight: expected weights of one class"):
            ev.update_many([True], score=[0.5], weight=[2**53], event_time=[HOUR + 60])
        assert ev.to_bytes() == before


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
    most = ev.retained["panes_at_most"]
    assert most == 9  # 80 minutes, and the pane that is filling
    for start in range(0, 3000, 100):
        ev.update_many(**columns(items[start : start + 100], timed=True))
        kept = ev.retained
        assert kept["panes"] <= most
        assert kept["panes_frozen"] >= kept["panes"] - 4
        assert len(ev.series("accuracy")) <= most
    assert 0 < kept["frozen_bytes"] < 20_000
    assert kept["since"] < ev.series("accuracy")[0].end


def test_a_revert_goes_to_its_own_pane() -> None:
    items = binary_stream(400, seed=9)
    ev = opened()
    rest = opened()
    for n, item in enumerate(items):
        ev.update(**item.arguments(timed=True))
        rest.update(**item.arguments(timed=True))
        if n % 3 == 0:
            ev["roc_auc"]
    model = Model(se.Panes("1h", "10m", "20m"))
    for item in items:
        model.add(item)
    inside = [item for item, _ in model.inside()]
    watermark = ev.to_state()["timeline"]
    for item in inside[::4]:
        ev.revert(**item.arguments(timed=True))
        ev._check()
    assert ev.to_state()["timeline"] == watermark
    left = list(inside)
    for item in inside[::4]:
        left.remove(item)
    fresh = plain("binary", [(item, 1) for item in left])
    for name in ("accuracy", "roc_auc", "log_loss", "f1"):
        assert repr(float(ev[name])) == repr(float(fresh[name]))
    before = ev.to_bytes()
    for item in (
        Item(True, score=0.123, time=inside[-1].time),  # never came
        Item(True, score=0.5, time=items[0].time),  # dropped with its pane
        Item(True, score=0.5, time=inside[-1].time + 7200),  # still to come
    ):
        with pytest.raises(InputError):
            ev.revert(**item.arguments(timed=True))
        assert ev.to_bytes() == before
    with pytest.raises(InputError, match="event_time: expected the event's time"):
        ev.revert(True, score=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_a_million_events_add_up(seed: int) -> None:
    n = 1_000_000 if seed == 0 else 50_000
    rng = np.random.default_rng(seed)
    moments = np.cumsum(rng.integers(0, 3, n)) + HOUR
    late = rng.random(n) < 0.05
    moments = moments - late * rng.integers(0, 3600, n)
    true, predicted = rng.random(n) < 0.3, rng.random(n) < 0.3
    ev = opened(metrics=["accuracy"])
    for start in range(0, n, n // 7 + 1):
        rows = slice(start, start + n // 7 + 1)
        ev.update_many(true[rows], predicted[rows], event_time=moments[rows])
    counts = {"on_time": 0, "late_kept": 0, "late_dropped": 0}
    latest = None
    for moment in moments.tolist():
        end = moment - moment % 600 + 600
        if latest is None or end > latest:
            counts["on_time"] += 1
        elif end > latest - 1200:
            counts["late_kept"] += 1
        else:
            counts["late_dropped"] += 1
        latest = moment if latest is None or moment > latest else latest
    assert ev.arrivals == counts
    assert sum(ev.arrivals.values()) == n
    assert min(counts.values()) > n // 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1h", "7m"), "Panes(length): expected a multiple of the pane, 7m, got 1h"),
        (("1h", "5m", "-1m"), "Panes(lateness): expected a duration"),
        (("0s",), "Panes(length): expected a duration"),
        (("1h", "5m", "10m", "1h"), "Panes(retain): expected at least length + lateness, 70m"),
        (("7d", "1s"), "Panes(pane): expected panes so long that at most 100000 are retained"),
    ],
)
def test_what_is_no_window(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        se.Panes(*arguments)


@pytest.mark.parametrize("window", [se.Panes("1h"), se.Fading("1h"), se.Fading(100)])
def test_no_order_no_kappa_temporal(window: Any) -> None:
    message = r"temporal: expected a window that keeps the order of events: Last\(n\), or none"
    with pytest.raises(InputError, match=message):
        se.Evaluator(window=window, temporal=True)
    with pytest.raises(InputError, match=message):
        se.Evaluator(window=window, metrics=["kappa_temporal"])


def test_times_at_the_ends_of_the_calendar() -> None:
    ev = se.Evaluator(window=se.Panes("7d"), slices=())
    ev.update(True, True, event_time="0001-01-01T00:00:00+00:00")
    assert ev.series("accuracy")[0].start == "0001-01-01T00:00:00Z"
    ev.update(True, True, event_time="9999-12-31T23:59:59+00:00")
    assert len(ev.series("accuracy")) == 1
    assert ev["accuracy"] == 1.0


@pytest.mark.slow
def test_many_slices_of_many_panes_take_little_memory() -> None:
    # A tenth of each of 10,000 slices and 288 panes; benchmarks/windows.py has all of it.
    root = Path(__file__).parents[2]
    code = (
        "from benchmarks.windows import slices_memory; "
        "print(slices_memory(1000, 29)['bytes_a_pane'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    # 2 GB over 2,880,000 panes are 740 bytes.
    assert float(answer.stdout) < 740


def test_the_window_before_is_of_its_own_panes() -> None:
    ev = se.Evaluator(window=se.Panes("20m", pane="10m", retain="60m"), time_unit="s")
    for minute in range(60):
        ev.update(True, minute % 3 != 0, event_time=minute * 60)
    parts = {}
    for name, minutes in (("now", range(40, 60)), ("before", range(20, 40))):
        part = parts[name] = se.Evaluator()
        for minute in minutes:
            part.update(True, minute % 3 != 0)
    view = ev.total.before(20 * 60_000_000)
    assert ev["accuracy"] == parts["now"]["accuracy"]
    assert view["accuracy"] == parts["before"]["accuracy"]
    assert str(view.interval("accuracy")) == str(parts["before"].interval("accuracy"))
    # It is of the events of its time.
    ev.update(True, True, event_time=70 * 60)
    assert view["accuracy"] == parts["before"]["accuracy"]
    assert ev.total.before(20 * 60_000_000)["accuracy"] != view["accuracy"]
    with pytest.raises(MetricError, match="the window before needs a window of panes"):
        se.Evaluator().total.before(1)
    empty = se.Evaluator(window=se.Panes("20m"), time_unit="s").total.before(1)
    assert empty.report(["accuracy"]).rows[0].support == 0
