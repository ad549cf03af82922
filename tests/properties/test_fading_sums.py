"""After any sequence of calls a fading window's answers are those of all its events anew.

The oracle has every kept event in Python integers: one of epoch e weighs its whole units times
2^(e − oldest kept epoch). Nothing is kept current, nothing is rounded before the one division.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.metrics import class_metrics
from streameval.states.sums.fixed_point import UNIT
from streameval.states.sums.loss_terms import event_terms
from streameval.windows.fading import EPOCHS, units, units_many


@dataclass(frozen=True)
class Given:
    """One event with its moment in the window's own unit."""

    moment: int
    true: Any
    predicted: Any
    score: Any = None
    weight: int = 1


@dataclass
class Oracle:
    """The events of a fading window, whose half-life is ``span``."""

    span: int
    events: list[Given] = field(default_factory=list)
    latest: int | None = None

    def add(self, event: Given) -> None:
        """Keep an event, unless it has faded out already."""
        self.latest = event.moment if self.latest is None else max(event.moment, self.latest)
        if event.moment // self.span > self.latest // self.span - EPOCHS:
            self.events.append(event)

    def kept(self) -> list[tuple[Given, int]]:
        """The events that count, with their weight in units of the oldest kept epoch."""
        assert self.latest is not None
        oldest = self.latest // self.span - EPOCHS + 1
        weighed = []
        for event in self.events:
            epoch, phase = divmod(event.moment, self.span)
            if epoch >= oldest:
                weighed.append((event, event.weight * units(phase, self.span) << (epoch - oldest)))
        return weighed

    def values(self) -> dict[str, float]:
        """Metrics of binary events, nan where undefined."""
        kept = self.kept()
        cells = {(t, p): 0 for t in (0, 1) for p in (0, 1)}
        losses = briers = inside = outside = 0
        by_score: dict[float, list[int]] = {}
        for event, weight in kept:
            if event.predicted is not None:
                cells[int(event.true), int(event.predicted)] += weight
            if event.score is None:
                continue
            by_score.setdefault(event.score, [0, 0])[int(event.true)] += weight
            if 0 <= event.score <= 1:
                loss, brier = event_terms(bool(event.true), event.score)[:2]
                losses += weight * loss
                briers += weight * brier
                inside += weight
            else:
                outside += weight
        tp, fp, fn, tn = cells[1, 1], cells[0, 1], cells[1, 0], cells[0, 0]
        undefined = 0 if outside else inside
        return {
            "roc_auc": _area(by_score),
            "accuracy": _ratio(tp + tn, tp + fp + fn + tn),
            "precision": _ratio(tp, tp + fp),
            "recall": _ratio(tp, tp + fn),
            "f1": _ratio(2 * tp, 2 * tp + fp + fn),
            "log_loss": _ratio(losses, undefined * UNIT),
            "brier_score": _ratio(briers, undefined * UNIT),
        }

    def class_values(self) -> tuple[dict[str, float], dict[Any, float]]:
        """Losses of events of several classes, and the AUC of each class against the rest."""
        kept = [(event, weight) for event, weight in self.kept() if event.score is not None]
        terms = [(event_terms(e.true, e.score, e.predicted), weight) for e, weight in kept]
        under = UNIT * sum(weight for _, weight in kept)
        losses = {
            "log_loss": _ratio(sum(weight * term[0] for term, weight in terms), under),
            "brier_score": _ratio(sum(weight * term[1] for term, weight in terms), under),
        }
        areas = {}
        for label in {e.true for e, _ in kept} | {
            k for e, _ in kept for k in e.score if e.score[k]
        }:
            by_score: dict[float, list[int]] = {}
            for e, weight in kept:
                by_score.setdefault(e.score.get(label, 0.0), [0, 0])[e.true == label] += weight
            areas[label] = _area(by_score)
        return losses, areas


def _area(by_score: dict[float, list[int]]) -> float:
    """The AUC of scores with the weights of negatives and positives."""
    negatives = positives = wins = 0
    for score in sorted(by_score):
        n, p = by_score[score]
        wins += p * (2 * negatives + n)
        negatives, positives = negatives + n, positives + p
    return _ratio(wins, 2 * positives * negatives)


def _ratio(over: int, under: int) -> float:
    return over / under if under else math.nan


HOUR = 3600 * 10**6
START = 1_700_000_000 * 10**6
NAMES = ["roc_auc", "accuracy", "precision", "recall", "f1", "log_loss", "brier_score"]

SCORES = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.floats(0, 1), st.floats(0, 1), st.floats(-2, 2)
)


WEIGHTS = st.sampled_from([1, 1, 1, 2, 7, 2**20])
SHARES = st.lists(st.sampled_from([0, 0, 1, 2, 3, 5]), min_size=1, max_size=4).filter(any)


@st.composite
def events(draw: Any, moments: st.SearchStrategy[int]) -> Given:
    score = draw(st.one_of(st.none(), SCORES.map(lambda score: score + 0.0)))
    predicted = draw(st.booleans()) if score is None else score >= 0.5
    return Given(draw(moments), draw(st.booleans()), predicted, score, draw(WEIGHTS))


@st.composite
def class_events(draw: Any, moments: st.SearchStrategy[int]) -> Given:
    shares, labels = draw(SHARES), draw(st.permutations("abcde"))
    proba = {label: n / sum(shares) for label, n in zip(labels, shares, strict=False)}
    true, predicted = draw(st.sampled_from("abc")), draw(st.sampled_from("abcde"))
    return Given(draw(moments), true, predicted, proba, draw(WEIGHTS))


@st.composite
def timed_calls(draw: Any, events: Any = events) -> list[tuple[str, Any]]:
    """Calls of an evaluator: mostly in order, some late, some far ahead, some by columns."""
    calls: list[tuple[str, Any]] = []
    now = START
    for _ in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0, 1, HOUR // 7, HOUR, 5 * HOUR, 40 * HOUR]))
        late = st.sampled_from([now - d for d in (0, 0, 0, 1, HOUR // 3, 3 * HOUR, 70 * HOUR)])
        kind = draw(st.sampled_from(["one"] * 8 + ["many", "revert", "merge", "restore", "read"]))
        if kind == "one":
            calls.append((kind, draw(events(late))))
        elif kind in ("many", "merge"):
            calls.append((kind, draw(st.lists(events(late), min_size=1, max_size=5))))
        else:
            calls.append((kind, draw(st.integers(0, 100))))
    return calls


def check(ev: se.Evaluator, oracle: Oracle, names: list[str]) -> None:
    if oracle.latest is None:
        return
    expected = oracle.values()
    for name in names:
        try:
            value = ev[name]
        except se.MetricError:  # no event has a score yet
            value = math.nan
        assert repr(float(value)) == repr(float(expected[name])), name
        if not math.isnan(value):
            assert ev.value(name) == value
            assert ev.report([name]).rows[0].value == value


def follow(
    calls: list[tuple[str, Any]],
    opened: Callable[[], se.Evaluator],
    count: Callable[..., list[Given]],
    check: Callable[[se.Evaluator, Oracle], None],
    *,
    every: bool,
) -> None:
    """Make the calls of an evaluator and of the oracle; compare them each time, or at reads."""
    ev, oracle = opened(), Oracle(HOUR)
    for kind, what in calls:
        if kind in ("one", "many", "merge"):
            counting, some = opened() if kind == "merge" else ev, [what] if kind == "one" else what
            for event in count(counting, some, by_columns=kind == "many"):
                oracle.add(event)
            if kind == "merge":
                ev.merge(counting)
        elif kind == "revert":
            kept = oracle.kept() if oracle.events else []
            if kept:
                event = kept[what % len(kept)][0]
                count(ev, [event], revert=True)
                oracle.events.remove(event)
        elif kind == "restore":
            ev = se.from_bytes(ev.to_bytes())
        if every or kind == "read":
            check(ev, oracle)
    check(ev, oracle)
    ev._check()
    check(se.from_bytes(ev.to_bytes()), oracle)


@settings(max_examples=60)
@given(
    timed_calls(),
    st.sampled_from([["roc_auc"], ["accuracy", "f1"], ["log_loss"], None]),
    st.booleans(),
)
def test_the_answers_are_those_of_all_events_anew(calls, metrics, every):
    def opened() -> se.Evaluator:
        return se.Evaluator(window=se.Fading("1h"), time_unit="us", metrics=metrics)

    def count(
        ev: se.Evaluator, events: list[Given], *, by_columns: bool = False, revert: bool = False
    ) -> list[Given]:
        """Those that were counted: columns, and metrics of scores, need scores."""
        scored = by_columns or metrics in (["roc_auc"], ["log_loss"])
        run = [event for event in events if event.score is not None or not scored]
        rows = [
            {
                "y_true": event.true,
                "y_pred": event.predicted if event.score is None else None,
                "score": event.score,
                "weight": event.weight,
                "event_time": event.moment,
            }
            for event in run
        ]
        if by_columns and run:
            names = rows[0].keys() - {"y_pred"}
            ev.update_many(**{name: [row[name] for row in rows] for name in names})
        for row in rows if not by_columns else ():
            (ev.revert if revert else ev.update)(**row)
        return run

    follow(
        calls, opened, count, lambda ev, oracle: check(ev, oracle, metrics or NAMES), every=every
    )


@settings(max_examples=60)
@given(timed_calls(class_events), st.booleans())
def test_the_answers_of_several_classes_are_those_of_all_events_anew(calls, every):
    def opened() -> se.Evaluator:
        return se.Evaluator(task="multiclass", window=se.Fading("1h"), time_unit="us")

    def count(
        ev: se.Evaluator, events: list[Given], *, by_columns: bool = False, revert: bool = False
    ) -> list[Given]:
        for event in events:
            given = {"proba": event.score, "weight": event.weight, "event_time": event.moment}
            (ev.revert if revert else ev.update)(event.true, event.predicted, **given)
        return events

    follow(calls, opened, count, check_classes, every=every)


def check_classes(ev: se.Evaluator, oracle: Oracle) -> None:
    if oracle.latest is None or not oracle.kept():
        return
    losses, areas = oracle.class_values()
    for name, expected in losses.items():
        assert repr(ev[name]) == repr(expected) == repr(ev.value(name)), name
    found = ev.value("roc_auc_ovr", average=None)
    assert {label: repr(one) for label, one in found.items()} == {
        label: repr(one) for label, one in areas.items()
    }
    defined = [one for one in areas.values() if not math.isnan(one)]
    mean = sum(defined) / len(defined) if defined else math.nan
    assert ev["roc_auc_ovr"] == pytest.approx(mean, abs=1e-15, nan_ok=True)
    assert repr(ev["roc_auc_ovr"]) == repr(ev.value("roc_auc_ovr"))


@st.composite
def plain_calls(draw: Any) -> list[Given]:
    """Events in order, most of them plain, at moments that pass from epoch to epoch."""
    moment, run = START, []
    for _ in range(draw(st.integers(1, 60))):
        moment += draw(st.sampled_from([0, 1, HOUR // 5, HOUR // 5, HOUR, 3 * HOUR, 66 * HOUR]))
        run.append(draw(events(st.just(moment))))
    return run


@settings(max_examples=40)
@given(
    plain_calls(), st.sampled_from([1, 2, 5, 40, "1h"]), st.integers(2, 30), *[st.booleans()] * 2
)
def test_plain_events_are_counted_as_all_others_are(run, half_life, stride, sliced, portable):
    timed = isinstance(half_life, str)
    options: dict[str, Any] = {"window": se.Fading(half_life), "time_unit": "us"}
    options |= {"slices": ("part",)} if sliced else {}
    one = se.Evaluator(**options)
    compiled = mock.patch("streameval.windows.fading.compiled", return_value=None)
    with compiled if portable else nullcontext():
        other = se.Evaluator(**options)
    oracle = Oracle(HOUR if timed else half_life)
    for n, event in enumerate(run):
        where = {"slices": {"part": n % 3}} if sliced else {}
        if timed:
            where["event_time"] = event.moment
        score, weight = event.score, event.weight if n % 5 == 0 else 1
        given = {"score": score} if score is not None else {"y_pred": event.predicted}
        one.update(event.true, **given, weight=weight, **where)
        columns = {name: [value] for name, value in (given | where).items() if name != "slices"}
        columns |= {"slices": {"part": [n % 3]}} if sliced else {}
        other.update_many([event.true], **columns, weight=[weight])
        moment = event.moment if timed else n
        oracle.add(Given(moment, event.true, event.predicted, score, weight))
        if n % stride == 0:
            check(one, oracle, NAMES)
            for key, view in one.slices().items():
                for name in ("accuracy", "f1"):
                    assert repr(view[name]) == repr(other.slices()[key][name])
        if n % (3 * stride) == 0:
            check(other, oracle, NAMES)
    assert one.to_bytes() == other.to_bytes()
    assert one.arrivals == other.arrivals
    check(one, oracle, NAMES)
    one._check()
    other._check()


# By hand -----------------------------------------------------------------------------------


def opened(half_life: Any = "1h", **options: Any) -> se.Evaluator:
    return se.Evaluator(window=se.Fading(half_life), time_unit="s", **options)


@settings(max_examples=200)
@given(st.integers(1, 2**52), st.floats(0, 1, exclude_max=True))
def test_units_are_powers_of_two_to_nine_digits(half_life: int, part: float) -> None:
    phase = min(int(part * half_life), half_life - 1)
    whole = units(phase, half_life)
    assert 2**31 <= whole <= 2**32
    assert math.isclose(whole, 2.0 ** (31 + phase / half_life), rel_tol=3e-10)
    assert units_many(np.array([phase]), half_life).tolist() == [whole]


def test_what_has_faded_out_is_counted_and_nothing_else() -> None:
    ev = opened("1m")
    ev.update(True, True, event_time=100_000)
    before = repr(ev.to_state()["window"])
    ev.update(True, False, event_time=100_000 - 65 * 60)
    ev.update_many([True, True], [False, False], event_time=[0, 1])
    assert ev.arrivals == {"faded_out": 3}
    assert repr(ev.to_state()["window"]) == before
    assert ev["accuracy"] == 1.0


def test_more_weight_than_an_epoch_holds_is_refused_and_nothing_is_counted() -> None:
    ev = opened()
    ev.update(True, score=0.5, weight=2**20, event_time=0)
    before = ev.to_bytes()
    for weight, message in (
        ([1] * 3999 + [2**21], "weight[3999]: expected a weight of at most"),
        # Refused before another epoch has its part.
        ([2**20] * 4000, f"at most {2**30 - 1} events of weight 1 in a half-life"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            ev.update_many(
                [True] * 4000, score=[0.5] * 4000, weight=weight, event_time=[4000] + [9] * 3999
            )
        assert ev.to_bytes() == before


def test_numbers_that_compiled_sums_do_not_hold() -> None:
    ev = opened(metrics=["accuracy", "f1"])
    oracle = Oracle(3600 * 10**6)
    for start in (1_700_000_000, 1_700_003_600):
        times = [start + n for n in range(3000)]
        true, predicted = [n % 3 == 0 for n in times], [n % 5 < 2 for n in times]
        ev.update_many(true, predicted, weight=[2**20] * 3000, event_time=times)
        for moment, *labels in zip(times, true, predicted, strict=True):
            oracle.add(Given(moment * 10**6, *labels, weight=2**20))
    for seconds in (0, 1, 7200, 64 * 3600):
        moment = 1_700_010_000 + seconds
        ev.update(True, seconds != 1, event_time=moment)
        oracle.add(Given(moment * 10**6, True, seconds != 1))
        expected = oracle.values()
        assert (ev["accuracy"], ev["f1"]) == (expected["accuracy"], expected["f1"])
    ev._check()


def test_a_copy_of_the_confusion_stays_as_it_is() -> None:
    ev = opened()
    ev.update_many([True, False, True], [True, True, False], event_time=[0, 1800, 3600])
    copied, before = ev.confusion, ev["f1"]
    ev.update(True, True, event_time=3700)
    assert class_metrics.f1(copied, positive=True) == before != ev["f1"]


@pytest.mark.parametrize("bad", [-1, 1.5, True, 2**41, "80000d"])
def test_what_is_no_half_life(bad: Any) -> None:
    with pytest.raises(InputError, match=re.escape("Fading(half_life): expected")):
        se.Fading(bad)
