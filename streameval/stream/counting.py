"""Events into the evaluators of a run, by partition and checkpoint.

Between checkpoints events are only collected. At a checkpoint the columns of
each partition go into a *delta*, an empty evaluator that knows what the main
one knows; its bytes are a row of the store, and the main evaluator is merged
with it. States are exact and commutative, so the main evaluator has the bits
of one that was fed every event, wherever checkpoints and restarts fell.

What is late in a window of panes is decided within a partition: by the newest
event of that partition before it. So it does not depend on which partition was
read first, which a restart may change. With a join, ``wait`` is the only rule
of lateness (by the times of prediction and label), and windows drop only what
is older than all that they keep.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from streameval.errors import InputError, StateError, StoreError
from streameval.evaluator import Evaluator
from streameval.event_time import event_time
from streameval.files.chunk import Column
from streameval.stream.batch import BadEvent, Batch, Records
from streameval.stream.config.settings import FieldSettings
from streameval.stream.event_columns import (
    Columns,
    arguments,
    as_record,
    coded,
    events,
    joined,
    rows_of,
    taken_rows,
)
from streameval.stream.evolution import Begins
from streameval.stream.lateness import LateShare
from streameval.stream.state_rows import PART, Event, StateRow, StateRows, take_back

__all__ = ["Counting", "Refused"]

_ONE_BY_ONE = 64
"""Events counted singly where one was refused: a call with columns costs as much as 20."""


class Refused(NamedTuple):
    """An event that decoding let pass and the evaluator did not."""

    partition: str
    kind: str
    time: int | None
    event: BadEvent
    cut: bool
    """Whether its own record is gone, so that it cannot be read again."""


class _Origin(NamedTuple):
    """Where some collected rows came from."""

    rows: int
    records: Records | None
    batch: Batch | None


class Counting:
    """Counts events in every window at once.

    Args:
        evaluators: Empty ones, by the window's name.
        fields: Where a record has its fields, to write a refused event as one.
        in_order: Events come in the order of their partition, and are late by
            it; False where a join gives them out.
        begins: From when on parts of the windows hold events.
    """

    def __init__(
        self,
        evaluators: Mapping[str, Evaluator],
        fields: FieldSettings,
        *,
        in_order: bool,
        begins: Begins | None = None,
    ) -> None:
        self.evaluators = dict(evaluators)
        self._begins = Begins() if begins is None else begins
        self._dimensions = {
            name: tuple(map(tuple, main.options["slices"])) for name, main in evaluators.items()
        }
        self._fields = fields
        self._in_order = in_order
        self._newest: dict[tuple[str, str], int] = {}
        self._parts: dict[str, list[Mapping[str, Column]]] = {}
        self._origins: dict[str, list[_Origin]] = {}
        self._reverted: dict[str, list[Event]] = {}
        self.pending = 0
        """Events that the next checkpoint counts."""
        self.late = {window: LateShare() for window in evaluators}
        """Of each window's recent events, those that it dropped."""

    def recover(self, rows: Iterable[StateRow]) -> None:
        """Count what a store holds; raises StoreError where it is of another set-up."""
        taken: list[tuple[str, Event]] = []
        for row in rows:
            main = self.evaluators.get(row.window)
            if main is None:
                continue
            try:
                main.merge(row.evaluator)
            except StateError as error:
                raise StoreError(
                    f"the state {row.number} of partition {row.partition!r}, window "
                    f"{row.window!r} does not belong here: {error}"
                ) from None
            self._note_newest(row.partition, row.window, row.evaluator)
            taken += [(row.window, event) for event in row.reverted]
        for window, event in taken:
            take_back(self.evaluators[window], event)

    def _note_newest(self, partition: str, window: str, evaluator: Evaluator) -> None:
        newest = evaluator.newest
        if newest is not None:
            known = self._newest.get((partition, window))
            self._newest[partition, window] = newest if known is None else max(known, newest)

    def add(self, partition: str, records: Records, batch: Batch | None = None) -> None:
        """Collect complete records; ``batch`` has their bytes, for the quarantine."""
        if records.rows:
            self._collect(partition, records.columns, _Origin(records.rows, records, batch))

    def add_columns(self, partition: str, columns: Mapping[str, Column]) -> None:
        """Collect joined events."""
        rows = len(columns["y_true"])
        if rows:
            self._collect(partition, columns, _Origin(rows, None, None))

    def _collect(self, partition: str, columns: Mapping[str, Column], origin: _Origin) -> None:
        self._parts.setdefault(partition, []).append(columns)
        self._origins.setdefault(partition, []).append(origin)
        self.pending += origin.rows

    def take_back(self, partition: str, event: Event) -> None:
        """Take out, at the next checkpoint, an event that was counted or is collected."""
        self._reverted.setdefault(partition, []).append(event)

    def checkpoint(self, rows: StateRows, number: int) -> tuple[int, list[Refused]]:
        """Count what was collected and write it, inside the transaction of a checkpoint.

        Returns:
            How many events were counted, and those that were refused.

        Raises:
            StoreError: A window has no room for more.
        """
        counted = 0
        refused: list[Refused] = []
        back: dict[str, list[Event]] = {}
        for partition in sorted({*self._parts, *self._reverted}):
            deltas, count, bad = self._deltas(partition)
            counted += count
            refused += bad
            events_back = self._reverted.get(partition, [])
            for window, delta in deltas.items():
                taken = self._parts_of(window, events_back)
                back.setdefault(window, []).extend(taken)
                rows.write(partition, window, number, delta, taken)
                try:
                    self.evaluators[window].merge(delta)
                except (InputError, StateError) as error:
                    raise StoreError(
                        f"window {window!r} has no room for more events: {error}; nothing of "
                        "this checkpoint was counted"
                    ) from None
                self._note_newest(partition, window, delta)
        for window, taken in back.items():
            for event in taken:
                take_back(self.evaluators[window], event)
        self._parts.clear()
        self._origins.clear()
        self._reverted.clear()
        self.pending = 0
        return counted, refused

    def _parts_of(self, window: str, taken: list[Event]) -> list[Event]:
        """Of events that are taken back those that a window holds, with what it holds of them."""
        found: list[Event] = []
        for event in taken:
            part = self._begins.part(window, self._dimensions[window], event["time"])
            if part is None:
                found.append(event)
            elif part.labels or part.scores:
                found.append({**event, PART: part._asdict()})
        return found

    def _count_in(
        self, window: str, delta: Evaluator, columns: Columns, rows: int
    ) -> dict[int, InputError]:
        """Count rows in those parts of a window that hold events of their times."""
        times = columns.get("time")
        known = None if times is None else np.asarray(times, dtype=np.int64)
        refused: dict[int, InputError] = {}
        for chosen, part in self._begins.parts(window, self._dimensions[window], known):
            if chosen is None:
                return _count(delta, columns, rows)
            taken = taken_rows(columns, chosen)
            if part is None:
                found = _count(delta, taken, len(chosen))
            else:
                if not part.scores and "y_pred" in taken:
                    taken = {n: c for n, c in taken.items() if n not in ("score", "proba")}
                with delta.restricted(part.dimensions, labels=part.labels, scores=part.scores):
                    found = _count(delta, taken, len(chosen))
            refused |= {int(chosen[row]): error for row, error in found.items()}
        return refused

    def _deltas(self, partition: str) -> tuple[dict[str, Evaluator], int, list[Refused]]:
        parts = self._parts.get(partition)
        if not parts:
            return {name: main.delta() for name, main in self.evaluators.items()}, 0, []
        columns = joined(parts)
        count = total = len(columns["y_true"])
        left = np.arange(total)
        bad: dict[int, InputError] = {}
        if not self._in_order:
            bad.update(_weights_not_whole(columns))
            if "time" in columns:
                # By time, so that none of them is late by another.
                left = np.argsort(np.asarray(columns["time"], dtype=np.int64), kind="stable")
        shared = coded(columns)
        while True:
            if bad:
                left = left[~np.isin(left, list(bad))]
            # The rows as they are need no copy.
            chosen = shared if self._in_order and len(left) == total else taken_rows(shared, left)
            found: dict[int, InputError] = {}
            deltas = {}
            for window, main in self.evaluators.items():
                newest = self._newest.get((partition, window)) if self._in_order else None
                deltas[window] = delta = main.delta(newest=newest)
                for position, error in self._count_in(window, delta, chosen, len(left)).items():
                    found.setdefault(int(left[position]), error)
            if not found:
                break
            # What one window refuses is counted in none: all begin again without it.
            bad.update(found)
        count -= len(bad)
        for window, delta in deltas.items():
            self.late[window].add(len(left), self._dropped(window, delta, columns))
        return deltas, count, [self._refused(partition, columns, n, bad[n]) for n in sorted(bad)]

    def _dropped(self, window: str, delta: Evaluator, columns: Mapping[str, Column]) -> int:
        """How many of a partition's events are too late for a window."""
        arrivals = delta.arrivals
        if self._in_order:
            return arrivals.get("late_dropped", 0) + arrivals.get("faded_out", 0)
        # The delta has a time of its own here: what is dropped is dropped by the merge.
        since = self.evaluators[window].retained.get("since")
        if since is None or "time" not in columns:
            return 0
        times = np.asarray(columns["time"], dtype=np.int64)
        return int(np.count_nonzero(times < event_time(since)))

    def _refused(
        self, partition: str, columns: Mapping[str, Column], row: int, error: InputError
    ) -> Refused:
        (event,) = events(taken_rows(columns, np.asarray([row])))
        reason, detail = error.field, str(error.at(None))
        for origin in self._origins[partition]:
            if row < origin.rows:
                break
            row -= origin.rows
        place = 0 if origin.records is None else int(origin.records.places[row])
        if origin.batch is None:
            time = event.get("time")
            bad = BadEvent(place, reason, detail, as_record(event, self._fields))
            return Refused(partition, "records", time, bad, True)
        at = bisect_left(origin.batch.places, place)
        times = origin.batch.times
        bad = BadEvent(place, reason, detail, origin.batch.messages[at])
        time = None if times is None else int(times[at])
        return Refused(partition, origin.batch.kind, time, bad, False)


def _weights_not_whole(columns: Mapping[str, Column]) -> dict[int, InputError]:
    """Of joined events, those that could never be taken back exactly."""
    if "weight" not in columns:
        return {}
    weights = np.asarray(columns["weight"], dtype=np.float64)
    return {
        row: InputError(
            "weight",
            expected="a whole number, so that a corrected label can be taken back exactly",
            got=f"{weights[row]:.12g}",
        )
        for row in np.flatnonzero(weights != np.floor(weights)).tolist()
    }


def _count(evaluator: Evaluator, columns: Columns, rows: int) -> dict[int, InputError]:
    """Count the rows without those that the evaluator refuses; these, by their row.

    A refused call counted nothing and names one row that it cannot take. Those
    before it are counted first, alone. From there some rows go one by one, for
    the bad ones often come in crowds; then in growing steps again.
    """
    refused: dict[int, InputError] = {}
    start = 0
    step = rows
    while start < rows:
        stop = min(start + step, rows)
        try:
            evaluator.update_many(**arguments(rows_of(columns, start, stop)))
        except InputError as error:
            before = (stop - start) // 2 if error.position is None else error.position
            if 0 < before < stop - start:
                step = before
                continue
        else:
            start = stop
            step *= 2
            continue
        step = _ONE_BY_ONE
        stop = min(start + step, rows)
        for row, event in enumerate(events(rows_of(columns, start, stop)), start):
            try:
                evaluator.update(**arguments(event))
            except InputError as error:
                refused[row] = error
        start = stop
    return refused
