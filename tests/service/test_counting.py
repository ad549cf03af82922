"""A run's counts have the bits of one evaluator that counted every event."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import StoreError
from streameval.evaluator.evaluator import Evaluator
from streameval.records.event_columns import EventColumns, arguments
from streameval.service.config.settings import FieldSettings
from streameval.service.run.counting import CollectedEvents, Counting, RejectedEvent
from streameval.service.sources.raw import RawBatch
from streameval.service.store import state_rows
from streameval.service.store.state_rows import StateRows, read_rows
from streameval.service.store.store import open_store

FIELDS = FieldSettings(score="score", weight="weight", time="time", slices={"country": "geo.c"})
MINUTE = 60_000_000
METRICS = ["accuracy", "roc_auc", "log_loss"]

Event = dict[str, Any]


def evaluators(**options: Any) -> dict[str, Evaluator]:
    shared: dict[str, Any] = {"slices": ("country",), "time_unit": "us", "metrics": METRICS}
    shared |= options
    return {
        "all": Evaluator(**shared),
        "recent": Evaluator(
            **shared, window=se.Panes("10m", pane="5m", lateness="5m", retain="1h")
        ),
        "fading": Evaluator(**shared, window=se.Fading("10m")),
    }


def columns(rows: list[Event]) -> dict[str, Any]:
    found: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    found["time"] = np.asarray(found["time"], dtype=np.int64)
    if "score" in found:
        found["score"] = np.asarray(found["score"], dtype=np.float64)
    return found


def feed(evaluator: Evaluator, rows: list[Event]) -> None:
    for row in rows:
        evaluator.update(**arguments(row))


class Bench:
    """A store and what counts into it; can be restarted."""

    def __init__(self, path: Path, in_order: bool, **options: Any) -> None:
        self.path = path
        self.in_order = in_order
        self.options = options
        self.number = 0
        self.ends = ExitStack()
        self.start()

    def start(self) -> None:
        self.ends.close()
        self.store = self.ends.enter_context(closing(open_store(str(self.path), {})))
        self.counting = Counting(evaluators(**self.options), FIELDS, in_order=self.in_order)
        self.events = CollectedEvents()
        with self.store.reading() as connection:
            self.counting.recover(read_rows(connection))
            self.rows = StateRows(connection)

    def checkpoint(self, compact: bool = False) -> tuple[int, list[RejectedEvent]]:
        self.number += 1
        with self.store.transaction():
            events, self.events = self.events, CollectedEvents()
            result = self.counting.checkpoint(self.rows, self.number, events)
            if compact:
                with pytest.MonkeyPatch.context() as patch:
                    # All rows are merged at even numbers, those that weigh little at odd ones.
                    patch.setattr(state_rows, "_FEW_BYTES", 0 if self.number % 2 else 2**20)
                    patch.setattr(state_rows, "_MANY_ROWS", 2)
                    self.rows.compact(lambda: False)
                self.rows._check()
        return result

    def add(self, partition: str, rows: list[Event]) -> None:
        places = np.arange(len(rows))
        self.events.add(partition, EventColumns(columns(rows), places))


@contextmanager
def bench(in_order: bool = True, **options: Any) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as directory:
        made = Bench(Path(directory) / "run.db", in_order, **options)
        with made.ends:
            yield made


EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "y_true": st.sampled_from(["spam", "ham"]),
            "score": st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9]),
            "weight": st.sampled_from([1, 1, 2]),
            "time": st.integers(0, 90).map(lambda minute: minute * MINUTE),
            "slice:country": st.sampled_from(["PT", "DE", "FR", "IT"]),
        }
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=40)
@given(EVENTS, st.integers(1, 3), st.randoms())
def test_how_partitions_interleave_leaves_no_trace(
    rows: list[Event], count: int, rng: random.Random
) -> None:
    """Each partition's events are late by that partition alone, so any order gives one result.

    That of one partition has the bits of one evaluator.
    """
    options = {"positive": "spam"} | ({"max_slices": 3} if count == 1 else {})
    parts: dict[str, list[Event]] = {str(n): [] for n in range(count)}
    for row in rows:
        parts[rng.choice(sorted(parts))].append(row)
    with bench(**options) as run:
        left = {name: list(events) for name, events in parts.items() if events}
        while left:
            name = rng.choice(sorted(left))
            run.add(name, [left[name].pop(0)])
            left = {name: events for name, events in left.items() if events}
            if rng.random() < 0.3:
                run.checkpoint(compact=rng.random() < 0.3)
            if rng.random() < 0.2:
                run.checkpoint()
                run.start()
        run.checkpoint()
        before = {name: one.to_bytes() for name, one in run.counting.evaluators.items()}
        run.start()
        for window, found in run.counting.evaluators.items():
            shards = []
            for events in parts.values():
                shards.append(evaluators(**options)[window])
                feed(shards[-1], events)
            assert found == se.merge(shards)
            assert found.to_bytes() == before[window]
            assert count > 1 or found.to_bytes() == shards[0].to_bytes()
            found._check()


@settings(max_examples=20)
@given(EVENTS, st.randoms())
def test_joined_events_may_come_in_any_order_and_be_taken_back(
    rows: list[Event], rng: random.Random
) -> None:
    taken = [row for row in rows if rng.random() < 0.3]
    with bench(in_order=False, positive="spam") as run:
        later = list(taken)
        for row in rng.sample(rows, len(rows)):
            run.events.add_columns("a", columns([row]))
            if rng.random() < 0.3:
                run.checkpoint(compact=rng.random() < 0.5)
        for row in later:
            run.events.revert("a", row)
            if rng.random() < 0.3:
                run.checkpoint(compact=rng.random() < 0.5)
                run.start()
        run.checkpoint()
        # In the order of time none is late, and what is left is what was never taken back.
        for window, whole in evaluators(positive="spam").items():
            feed(whole, sorted(rows, key=lambda row: row["time"]))
            for row in taken:
                try:
                    whole.revert(**arguments(row))
                except se.InputError:
                    assert window == "recent"  # its pane is gone
            assert metrics(run.counting.evaluators[window]) == metrics(whole)


def test_what_is_taken_back_is_found_in_a_row_that_was_left_alone() -> None:
    rng = random.Random(8)
    rows = [
        {**GOOD, "score": rng.random(), "slice:country": f"c{n % 40}", "time": n % 9 * MINUTE}
        for n in range(200)
    ]
    with bench(in_order=False, positive="spam") as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_rows, "_FEW_BYTES", 0)
        patch.setattr(state_rows, "_MANY_ROWS", 3)
        run.events.add_columns("a", columns(rows))
        run.checkpoint()
        for n, row in enumerate(rows[:30]):
            run.events.revert("a", row)
            # Every other one is counted again.
            if n % 2:
                run.events.add_columns("a", columns([row]))
            run.checkpoint()
            with run.store.transaction():
                run.rows.compact(lambda: False)
            run.rows._check()
        kinds = [kind for (kind,) in run.store.connection.execute("SELECT kind FROM states")]
        assert len(kinds) > 3
        assert "snapshot" not in kinds  # the first row was never merged
        run.start()
        for window, whole in evaluators(positive="spam").items():
            kept = rows[1:30:2] + rows[30:]
            feed(whole, sorted(kept, key=lambda row: row["time"]))
            assert metrics(run.counting.evaluators[window]) == metrics(whole)


def metrics(evaluator: Evaluator) -> dict[str, Any]:
    return {
        "total": evaluator.report().to_dict(),
        "slices": {key: view.report().to_dict() for key, view in evaluator.slices().items()},
    }


GOOD: Event = {"y_true": "spam", "score": 0.9, "weight": 1, "time": 0, "slice:country": "PT"}


def test_refused_events_are_found_and_counted_in_no_window() -> None:
    rows = [dict(GOOD) for _ in range(300)]
    rows[7]["y_true"] = "ham"
    for place in (150, 151, 299):
        rows[place]["y_true"] = "eggs"  # a third label
    rows[200]["weight"] = 2**30  # which only the fading window refuses
    batch = RawBatch(
        "a",
        "records",
        [f'{{"n": {n}}}'.encode() for n in range(300)],
        [10 * n for n in range(300)],
        {"offset": 3000},
        times=list(range(300)),
    )
    with bench(positive="spam") as run:
        places = np.asarray([10 * n for n in range(300)])
        run.events.add("a", EventColumns(columns(rows), places), batch)
        counted, refused = run.checkpoint()
        assert counted == 296
        assert [one.error.place for one in refused] == [1500, 1510, 2000, 2990]
        assert [one.error.reason for one in refused] == ["y_true", "y_true", "weight", "y_true"]
        assert refused[0].error.raw == b'{"n": 150}'
        assert refused[0].time == 150
        assert refused[0].error.detail.startswith("y_true: expected 'ham' or the positive label")
        kept = [row for n, row in enumerate(rows) if n not in (150, 151, 200, 299)]
        for window, whole in evaluators(positive="spam").items():
            feed(whole, kept)
            assert run.counting.evaluators[window] == whole


def test_a_refused_joined_event_is_kept_as_a_record() -> None:
    with bench(in_order=False, positive="spam") as run:
        run.events.add_columns("a", columns([GOOD, {**GOOD, "y_true": "ham"}]))
        run.events.add_columns("a", columns([{**GOOD, "y_true": "eggs"}]))
        run.events.add_columns("a", columns([{**GOOD, "weight": 1.5}]))
        counted, refused = run.checkpoint()
    assert counted == 2
    assert refused[0].error.raw == (
        b'{"y_true":"eggs","score":0.9,"weight":1,"time":"1970-01-01T00:00:00Z","geo":{"c":"PT"}}'
    )
    assert refused[1].error.detail.startswith("weight: expected a whole number")


def test_rows_stay_few_whatever_their_sizes() -> None:
    rng = random.Random(4)
    for _ in range(10):
        rows = state_rows._Rows()
        written = merged = 0
        for number in range(500):
            size = int(2 ** rng.uniform(8, rng.choice([12, 20])))
            written += size
            rows.numbers.append(number)
            rows.sizes.append(size)
            if (due := rows.due()) is not None:
                start, total = due
                assert total == sum(rows.sizes[start:])
                merged += total
                # Merged, they may weigh anything from the largest of them to all together.
                weight = rng.randint(max(rows.sizes[start:]), total)
                rows.numbers[start:], rows.sizes[start:] = [number], [weight]
            assert len(rows.sizes) <= 64 + 20
        # A byte is written again for each time that a row outgrows the one before.
        assert merged <= 3 * 20 * written


def test_a_damaged_row_is_reported() -> None:
    with bench() as run:
        run.add("a", [{**GOOD, "y_true": True}])
        run.checkpoint()
        run.store.connection.execute(
            "UPDATE states SET data = CAST(substr(data, 1, 40) || x'00' || substr(data, 42) "
            "AS BLOB)"
        )
        with pytest.raises(StoreError, match="the state 1 of partition 'a', window 'all'"):
            run.start()


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_a_delta_takes_what_its_evaluator_would(task: Any) -> None:
    options = {"positive": "spam"} if task == "binary" else {}
    whole = Evaluator(task, **options, slices=("country",), max_slices=1)
    whole.update("spam", "ham", slices={"country": "PT"})
    delta = whole.delta()
    with pytest.raises(se.InputError, match="y_true"):
        delta.update(7, "ham", slices={"country": "PT"})
    delta.update("ham", "ham", slices={"country": "DE"})
    delta.update("ham", "spam", slices={"country": "PT"})
    assert [key[0][1] for key in delta.slices()] == ["PT", "(other)"]
    delta._check()
    whole.merge(delta)
    assert [key[0][1] for key in whole.slices()] == ["PT", "(other)"]
    assert whole.slices_overflowed == 1
