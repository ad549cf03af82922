"""Counts of a join, and the watermark that it passes on."""

from __future__ import annotations

import random
import re
from pathlib import Path

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import streameval
from streameval.service.join.counters import (
    COUNTERS,
    GAUGES,
    OUTCOMES_OF_LABELS,
    REPORTED,
    STORED,
)
from streameval.service.join.coverage import Coverage, Delays, SavedCoverage
from streameval.service.join.watermark import Watermark
from streameval.service.publish.snapshot import Join
from tests.support.run import Clock

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOW = 20_000 * DAY


@given(st.lists(st.integers(-5, 2**50), min_size=1, max_size=60), st.floats(0.01, 1))
def test_a_quantile_is_within_its_bound(delays: list[int], share: float) -> None:
    histogram = Delays()
    for some in (delays[::2], delays[1::2]):
        histogram.add(np.array(some, dtype=np.int64))
    exact = sorted(max(delay, 0) for delay in delays)[max(int(np.ceil(share * len(delays))), 1) - 1]
    found = histogram.quantile(share)
    assert exact / 1e6 <= found + 1e-9
    assert found <= exact / 1e6 * (1 + histogram.relative_error) + 1e-9


@given(st.integers(0, 2**32))
def test_coverage_is_as_counted_by_hand(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(rng.randrange(8 * HOUR), rng.random() < 0.5) for _ in range(rng.randrange(200))]
    wait, cohort = rng.randrange(1, 3 * HOUR), rng.choice([HOUR // 60, HOUR // 4, HOUR, 24 * HOUR])
    # What is kept may be more than what is covered.
    keep, watermarks = rng.choice([0, 6 * HOUR]), [rng.randrange(12 * HOUR) for _ in range(6)]
    coverage = Coverage(wait, cohort)
    assert coverage.to_dict(None)["coverage_reason"] == "no prediction is mature yet"
    coverage.predicted.add(np.array([time for time, _ in rows], dtype=np.int64))
    coverage.labelled.add(np.array([time for time, has in rows if has], dtype=np.int64))
    for watermark in sorted(watermarks):
        coverage.sum_up(watermark, keep)
        end = (watermark - wait) // cohort * cohort
        span = -(-min(wait, HOUR) // cohort) * cohort
        mature = [has for time, has in rows if end - span <= time < end]
        found = coverage.to_dict(watermark)
        assert found["mature"]["predictions"] == len(mature)
        assert found["mature"]["labelled"] == sum(mature)
        assert found["coverage"] == (sum(mature) / len(mature) if mature else None)
        assert found["coverage_reason"].startswith("no mature prediction from ") == (not mature)


@given(st.integers(0, 2**32))
def test_summing_up_changes_no_total(seed: int) -> None:
    rng = random.Random(seed)
    summed, plain = Coverage(HOUR, HOUR), Coverage(HOUR, HOUR)
    watermark = 0
    for _ in range(40):
        watermark += rng.randrange(HOUR)
        times = np.array([watermark - rng.randrange(12 * HOUR) for _ in range(4)])
        for coverage in (summed, plain):
            coverage.count("p", "predictions", 4)
            coverage.predicted.add(times)
            coverage.count("l", "joined", 2)
            coverage.labelled.add(times[:2])
            coverage.early.add(times)
            coverage.early.add(times[:1], -1)
        summed.sum_up(watermark, rng.randrange(5) * HOUR)
        if rng.random() < 0.2:
            written = msgspec.json.encode(summed.saved())
            summed = Coverage(HOUR, HOUR)
            summed.restore(msgspec.json.decode(written, type=SavedCoverage))
    found, expected = summed.to_dict(watermark), plain.to_dict(watermark)
    shown = found.pop("cohorts")
    # Those that are over are not shown any more, the others are as they were.
    assert shown == expected.pop("cohorts")[-len(shown) :][: len(shown)]
    assert found == expected


def test_times_all_over_the_calendar_stay_bounded() -> None:
    coverage = Coverage(HOUR, HOUR)
    for start in range(0, 300_000, 50_000):
        times = np.arange(start, start + 50_000) * HOUR
        coverage.predicted.add(times)
        coverage.count("p", "predictions", len(times))
        coverage.sum_up(None, 0)
    assert len(coverage.saved().predicted) <= 100_000
    assert len(coverage.to_dict(None)["cohorts"]) == 200
    assert coverage.to_dict(None)["predictions"] == 300_000


def test_the_slowest_partition_tells_the_time_and_it_never_goes_back() -> None:
    clock = Clock()
    watermark = Watermark(clock, lambda: NOW)
    assert watermark.value is None
    watermark.expect(["a", "b"])
    watermark.note("a", np.array([HOUR]))
    assert watermark.value is None
    watermark.note("b", np.array([5, 3]))
    assert watermark.value == 5
    clock.now = 61.0
    watermark.note("a", np.array([2 * HOUR]))
    assert watermark.value == 2 * HOUR
    watermark.note("b", np.array([6]))
    assert watermark.value == 2 * HOUR
    clock.now = 200.0
    assert watermark.value == 2 * HOUR


def test_a_leap_is_believed_once_it_prevails() -> None:
    watermark = Watermark(Clock(), lambda: NOW, leap_us=HOUR)
    watermark.note("a", np.array([0, 400 * DAY, HOUR]))
    assert watermark.value == HOUR
    for n in range(100):
        # Of three records one is wrong.
        watermark.note("a", np.array([n * HOUR, 500 * DAY, n * HOUR]))
    assert watermark.value == 99 * HOUR
    watermark.note("a", np.full(15, 100 * DAY))
    assert watermark.value == 99 * HOUR
    watermark.note("a", np.full(1, 101 * DAY))
    assert watermark.value == 100 * DAY


@given(st.integers(0, 2**32))
def test_batches_may_be_cut_anywhere(seed: int) -> None:
    rng = random.Random(seed)
    moment, times = 0, []
    for _ in range(300):
        moment += rng.choice([0, HOUR, 3 * DAY if rng.random() < 0.02 else 1])
        times.append(moment + rng.choice([0] * 9 + [rng.randrange(10) * DAY]))
    written = []
    for longest in (1, 7, 300):
        watermark = Watermark(Clock(), lambda: NOW, leap_us=HOUR)
        left = times
        while left:
            size = rng.randrange(1, longest + 1)
            watermark.note("a", np.array(left[:size]))
            left = left[size:]
        written.append((watermark.value, watermark.saved()))
    assert written[0] == written[1] == written[2]


def test_the_counters_are_those_that_are_published() -> None:
    published = {field.name for field in msgspec.structs.fields(Join) if field.type is int}
    assert published == set(COUNTERS) == set(REPORTED)
    assert set(STORED) | set(OUTCOMES_OF_LABELS) | set(GAUGES) | {"expired"} == set(COUNTERS)
    script = Path(streameval.__file__).parent / "service" / "http" / "static" / "labels.js"
    page = set(re.findall(r'\["(\w+)", "', script.read_text(encoding="utf-8")))
    assert set(COUNTERS) <= page
