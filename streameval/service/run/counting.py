"""Counts events in the evaluators of a run, by partition and checkpoint.

Between checkpoints events are only collected. At a checkpoint the columns of
each partition are added to a *delta*, an empty evaluator with the labels and slices of
the main one; its bytes are a row of the store, and the main evaluator is merged
with it. Most of that is compiled and holds no lock of the interpreter, so another thread can
decode meanwhile. States are exact and commutative, so the main evaluator has the bits
of one that was updated with every event, regardless of checkpoints and restarts.

Whether an event is late in a window of panes depends on the newest earlier event of its
partition only, not on which partition was read first, which a restart may change. With a
join, ``wait`` is the only rule of lateness (by the times of prediction and label), and
windows drop only events older than all that they keep.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streameval.errors import InputError, StateError, StoreError
from streameval.evaluator.comparison import Evaluation
from streameval.evaluator.evaluator import Evaluator
from streameval.events.time import TIME_UNITS, event_time, iso_time
from streameval.events.values import IntArray
from streameval.records.chunk import RecordError
from streameval.records.event_columns import SLICE, Column, EventColumns, count_events, joined
from streameval.records.json_records import split_path
from streameval.service.config.settings import FieldSettings
from streameval.service.join.examples import Examples
from streameval.service.lateness import LateShare
from streameval.service.sources.raw import RawBatch
from streameval.service.store.state_rows import (
    PART,
    Event,
    StateRow,
    StateRows,
    merge_rows,
    revert_event,
)
from streameval.service.store.valid_from import ValidFrom


class RejectedEvent(NamedTuple):
    """An event that the decoder accepted and an evaluator rejected."""

    error: RecordError
    kind: str
    time: int | None
    cut: bool
    """Whether its own record is not available, so that it cannot be replayed."""


@dataclass(slots=True)
class CollectedEvents:
    """Events that one checkpoint counts and reverts, by partition."""

    parts: dict[str, list[tuple[EventColumns, RawBatch | None]]] = field(default_factory=dict)
    reverted: dict[str, list[Event]] = field(default_factory=dict)
    predicted: dict[str, EventColumns] = field(default_factory=dict)
    """Predictions that were read for the first time, without their labels."""

    def add(self, partition: str, events: EventColumns, batch: RawBatch | None = None) -> None:
        """Collect complete records; ``batch`` has their bytes, for the quarantine."""
        if events.rows:
            self.parts.setdefault(partition, []).append((events, batch))

    def add_columns(self, partition: str, columns: dict[str, Column]) -> None:
        """Collect joined events, which are no records of a source."""
        self.add(partition, _without_places(columns))

    def predict(self, partition: str, columns: dict[str, Column]) -> None:
        """Collect predictions, which are counted once."""
        self.predicted[partition] = _without_places(columns)

    def revert(self, partition: str, event: Event) -> None:
        """Revert an event that was counted or is collected."""
        self.reverted.setdefault(partition, []).append(event)


class Counting:
    """Counts events in every window at once; ``fields`` is needed to write a rejected event.

    ``in_order``: events are added in the order of their partition, which decides lateness; False
    for the events of a join. ``predicted``: the evaluators that count predictions without labels,
    and the model of each.
    """

    def __init__(
        self,
        evaluators: Mapping[str, Evaluation],
        fields: FieldSettings,
        *,
        in_order: bool,
        valid_from: ValidFrom | None = None,
        examples: Examples | None = None,
        predicted: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.evaluators = dict(evaluators)
        self.labelled = [name for name in evaluators if name not in predicted]
        """The evaluators of events with labels: the windows of the settings."""
        self._predicted = predicted
        self.examples = examples
        self._valid_from = ValidFrom() if valid_from is None else valid_from
        self._dimensions = {
            name: tuple(map(tuple, main.options["slices"])) for name, main in evaluators.items()
        }
        self._fields = fields
        self._in_order = in_order
        self._newest: dict[tuple[str, str], int] = {}
        self.late = {window: LateShare() for window in self.labelled}
        """The share of each window's recent events that it dropped."""

    def recover(self, rows: Iterable[StateRow]) -> None:
        """Merge the states of a store; raises StoreError where they are of other settings."""

        def own() -> Iterator[StateRow]:
            for row in rows:
                if row.window in self.evaluators:
                    self._note_newest(row.partition, row.window, row.evaluator)
                    yield row

        merge_rows(self.evaluators, own())

    def _note_newest(self, partition: str, window: str, evaluator: Evaluation) -> None:
        newest = evaluator.newest
        if newest is not None:
            known = self._newest.get((partition, window))
            self._newest[partition, window] = newest if known is None else max(known, newest)

    def checkpoint(
        self, rows: StateRows, number: int, events: CollectedEvents
    ) -> tuple[int, list[RejectedEvent]]:
        """Count and write events in a transaction; returns their number and the rejected ones."""
        counted = 0
        rejected: list[RejectedEvent] = []
        back: dict[str, list[Event]] = {}
        for partition in sorted({*events.parts, *events.reverted}):
            deltas, count, bad = self._deltas(partition, events.parts.get(partition, []))
            counted += count
            rejected += bad
            events_back = events.reverted.get(partition, [])
            if self.examples is not None:
                for event in events_back:
                    self.examples.revert(event)
                # An id is of no use to a state.
                events_back = [
                    {name: value for name, value in event.items() if name != "id"}
                    for event in events_back
                ]
            for window, delta in deltas.items():
                taken = self._parts_of(window, events_back)
                back.setdefault(window, []).extend(taken)
                self._merge(rows, partition, window, number, delta, taken)
        for window, taken in back.items():
            for event in taken:
                revert_event(self.evaluators[window], event)
        for partition, columns in sorted(events.predicted.items()):
            self._predict(rows, partition, number, columns)
        return counted, rejected

    def _merge(
        self,
        rows: StateRows,
        partition: str,
        window: str,
        number: int,
        delta: Evaluation,
        reverted: list[Event],
    ) -> None:
        rows.write(partition, window, number, delta, reverted)
        try:
            self.evaluators[window].merge(delta)  # type: ignore[arg-type]
        except (InputError, StateError) as error:
            raise StoreError(
                f"window {window!r} has no room for more events: {error}; nothing of "
                "this checkpoint was counted"
            ) from None
        self._note_newest(partition, window, delta)

    def _predict(self, rows: StateRows, partition: str, number: int, events: EventColumns) -> None:
        """Count predictions without their labels; one that is refused is so when it is joined."""
        times = _times(events)
        assert times is not None
        bad = _weights_not_whole(events)
        order = np.argsort(times, kind="stable")  # so that no event makes another late
        events = events.select(order[~np.isin(order, list(bad))] if bad else order).coded()
        for name, model in self._predicted.items():
            delta = self.evaluators[name].delta()
            self._count_in(name, delta, _of_model(events, model))
            self._merge(rows, partition, name, number, delta, [])

    def _parts_of(self, window: str, taken: list[Event]) -> list[Event]:
        """The reverted events that a window holds, with the part of each that it holds."""
        found: list[Event] = []
        for event in taken:
            part = self._valid_from.part(window, self._dimensions[window], event["time"])
            if part is None:
                found.append(event)
            elif part.labels or part.scores:
                found.append({**event, PART: part._asdict()})
        return found

    def _count_in(
        self, window: str, delta: Evaluation, events: EventColumns
    ) -> dict[int, InputError]:
        """Count events in the parts of a window that hold events of their times."""
        rejected: dict[int, InputError] = {}
        for chosen, part in self._valid_from.parts(
            window, self._dimensions[window], _times(events)
        ):
            if chosen is None:
                return dict(count_events(delta, events))
            taken = events.select(chosen)
            if part is None:
                found = dict(count_events(delta, taken))
            else:
                if not part.scores and "y_pred" in taken.columns:
                    taken.columns.pop("score", None)
                    taken.columns.pop("proba", None)
                assert isinstance(delta, Evaluator)  # of several models all parts begin together
                with delta.counting_only(part.dimensions, labels=part.labels, scores=part.scores):
                    found = dict(count_events(delta, taken))
            rejected |= {int(chosen[row]): error for row, error in found.items()}
        return rejected

    def _deltas(
        self, partition: str, parts: list[tuple[EventColumns, RawBatch | None]]
    ) -> tuple[dict[str, Evaluation], int, list[RejectedEvent]]:
        if not parts:
            return {name: self.evaluators[name].delta() for name in self.labelled}, 0, []
        events = joined([part for part, _ in parts])
        ids: Any = events.columns.pop("id", None) if self.examples is not None else None
        left = np.arange(events.rows)
        bad: dict[int, InputError] = {}
        times = _times(events)
        if not self._in_order:
            bad.update(_weights_not_whole(events))
            if times is not None:
                # By time, so that no event makes another late.
                left = np.argsort(times, kind="stable")
        shared = events.coded()
        while True:
            if bad:
                left = left[~np.isin(left, list(bad))]
            # The rows as they are need no copy.
            whole = self._in_order and len(left) == events.rows
            chosen = shared if whole else shared.select(left)
            found: dict[int, InputError] = {}
            deltas = {}
            for window in self.labelled:
                newest = self._newest.get((partition, window)) if self._in_order else None
                deltas[window] = delta = self.evaluators[window].delta(newest=newest)
                for position, error in self._count_in(window, delta, chosen).items():
                    found.setdefault(int(left[position]), error)
            if not found:
                break
            # An event that one window rejects is counted in none: all start again without it.
            bad.update(found)
        if self.examples is not None and ids is not None and chosen.rows:
            self.examples.add(chosen, ids if whole else [ids[row] for row in left.tolist()])
        for window, delta in deltas.items():
            dropped = self._dropped(window, delta, times)
            self.late[window].add(len(left), dropped, partition)
        ends = list(accumulate(part.rows for part, _ in parts)) if bad else []
        rejected = []
        for row, error in sorted(bad.items()):
            one, batch = events.select(slice(row, row + 1)), parts[bisect_right(ends, row)][1]
            rejected.append(self._rejected(partition, one, batch, error))
        return deltas, len(left), rejected

    def _dropped(self, window: str, delta: Evaluation, times: IntArray | None) -> int:
        """Number of a partition's events that are too late for a window."""
        arrivals = delta.arrivals
        if self._in_order:
            return arrivals.get("late_dropped", 0) + arrivals.get("faded_out", 0)
        # The delta has its own watermark here: the merge drops the events.
        since = self.evaluators[window].retained.get("since")
        if since is None or times is None:
            return 0
        return int(np.count_nonzero(times < event_time(since)))

    def _rejected(
        self, partition: str, one: EventColumns, batch: RawBatch | None, error: InputError
    ) -> RejectedEvent:
        (event,) = one.events()
        place = int(one.places[0])
        bad = RecordError.of(error).at(partition, place)
        if batch is None:
            bad = bad._replace(raw=_as_record(event, self._fields))
            return RejectedEvent(bad, "records", event.get("time"), cut=True)
        at = bisect_left(batch.places, place)
        bad = bad._replace(raw=batch.messages[at])
        time = None if batch.times is None else int(batch.times[at])
        return RejectedEvent(bad, batch.kind, time, cut=False)


def _without_places(columns: dict[str, Column]) -> EventColumns:
    return EventColumns(columns, np.zeros(len(columns["time"]), np.int64))


def _of_model(events: EventColumns, model: str) -> EventColumns:
    """The predictions of one of several models, as those of the only one."""
    if not model:
        return events
    columns = {}
    for name, column in events.columns.items():
        kind, _, of = name.partition(":")
        if kind not in ("y_pred", "score"):
            columns[name] = column
        elif of == model:
            columns[kind] = column
    return EventColumns(columns, events.places)


def _times(events: EventColumns) -> IntArray | None:
    times: Any = events.columns.get("time")
    return None if times is None else np.asarray(times, dtype=np.int64)


def _weights_not_whole(events: EventColumns) -> dict[int, InputError]:
    """The errors of joined events that could not be reverted exactly."""
    weights: Any = events.columns.get("weight")
    if weights is None:
        return {}
    weights = np.asarray(weights, dtype=np.float64)
    return {
        row: InputError(
            "weight",
            expected="a whole number, so that a corrected label can be reverted exactly",
            got=f"{weights[row]:.12g}",
        )
        for row in np.flatnonzero(weights != np.floor(weights)).tolist()
    }


def _as_record(event: Mapping[str, Any], fields: FieldSettings) -> bytes:
    """A joined event as one JSON record: the two records that it was joined of are not kept."""
    record: dict[str, Any] = {}
    paths = fields.paths
    for name, value in event.items():
        if name.startswith(SLICE):
            key = name[len(SLICE) :]
            path: str | None = fields.slices.get(key, key)
        else:
            path = paths.get(name)
        if path is None or value is None:
            continue
        if name == "time":
            value = _time(value, fields.time_unit)
        *branches, leaf = split_path(path)
        table = record
        for branch in branches:
            table = table.setdefault(branch, {})
        table[leaf] = value
    return msgspec.json.encode(record)


def _time(moment: int, unit: str | None) -> int | str:
    if unit is None:
        return iso_time(moment)
    return moment * 1_000 if unit == "ns" else moment // TIME_UNITS[unit]
