"""Predictions and labels meet by id: either first, each counted once, corrections exact.

The rules, all functions of the records and not of when they were read:

- The first prediction of an id counts; another is a duplicate.
- A label counts if its time and its prediction's differ by at most ``wait``;
  otherwise it is too late.
- The same label again is a duplicate. Another one, at most ``wait + remember``
  away, is a correction: what was counted is taken back and counted anew.
- A label that is further away than that is an orphan, as is one without a prediction.
- Labels that come before their prediction wait for it, and are then looked at in
  the order in which they came. One inside a complete record was there first: labels
  that come by themselves replace it, whichever is read first.

They need the records of one id and one sort (predictions, labels) to be in one partition,
as those of a topic with keys are: the order of two partitions is nobody's.

Memory is given back by the watermark, the slowest partition's newest time: an id is forgotten
when its newest record is older than that by more than ``wait + remember``. So all the
above holds for a record that is out of order within its partition, as long as its
prediction is not older than the watermark by more than ``wait + remember``: any label in
time may be out of order by ``remember``. What comes still later finds nothing: a label then
is an orphan, and a prediction that was forgotten counts once more.

Use it so: ``add`` each decoded batch; at a checkpoint ``take`` what is to be counted and
``write`` inside the transaction that counts it. What is in memory only is read again after
a crash. ``coverage`` is what readers are told.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, islice, repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.events import IntArray
from streameval.stream.batch import Decoded, Records
from streameval.stream.coverage import Coverage, SavedCoverage
from streameval.stream.joined_events import JoinedEvents, Outcome
from streameval.stream.label_rules import (
    INSIDE,
    LABELS,
    MET,
    WAITS,
    Entry,
    current_label,
    judged,
)
from streameval.stream.waiting import WaitingStore
from streameval.stream.watermark import SavedWatermark, Watermark

__all__ = ["LabelJoin", "Outcome"]

_MOST_LABELS = 64
"""Labels of one id that wait for its prediction; more are duplicates."""

_SCHEMA = """
CREATE TABLE join_counts (
    id INTEGER PRIMARY KEY CHECK (id = 0), crc INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE join_partitions (number INTEGER PRIMARY KEY, partition TEXT NOT NULL UNIQUE);
"""


class _Saved(msgspec.Struct):
    """What ``join_counts`` holds, as JSON."""

    coverage: SavedCoverage
    watermark: SavedWatermark


class _Met(NamedTuple):
    """Labels and predictions that meet, by columns."""

    ids: Sequence[str]
    labels: Sequence[Any]
    times: IntArray
    """Of the labels."""
    begun: IntArray
    """Times of the predictions."""
    numbers: Sequence[int]
    """Of the predictions' partitions."""
    payloads: Sequence[Sequence[Any]]
    newest: IntArray
    """Up to when what is known of the id was kept."""


class LabelJoin:
    """Joins the records of a run.

    Args:
        connection: Of the store; its tables are read at once.
        layout: The prediction's columns, without ``id`` and ``time``.
        wait_us: Microseconds that a prediction waits for its label, and the other way round.
        remember_us: For how long after that duplicates and corrections are recognised.
        hot: Most entries that are held in memory beside those that a checkpoint has not written.
        cohort_us: Width of the cohorts that coverage is told for.
        clock: Seconds, only ever forward.

    Raises:
        StoreError: What the store holds is damaged.

    Cost:
        About 2 µs for a prediction and its label.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        layout: Sequence[str],
        wait_us: int,
        remember_us: int,
        hot: int,
        cohort_us: int,
        clock: Callable[[], float],
    ) -> None:
        self._layout = tuple(layout)
        self._wait = wait_us
        self._remember = remember_us
        self._fresh: dict[str, Entry] = {}
        self._disk = WaitingStore(connection, wait_us + remember_us, hot)
        self._coverage = Coverage(wait_us, cohort_us)
        self._watermark = Watermark(clock, wait_us + remember_us)
        self._border: int | None = None
        """Entries whose newest time is before this one are forgotten."""
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._events = JoinedEvents(self._layout)
        self._load(connection)

    @staticmethod
    def create(connection: sqlite3.Connection) -> None:
        """Make the tables, inside the caller's transaction."""
        WaitingStore.create(connection)
        for statement in _SCHEMA.split(";\n"):
            if statement.strip():
                connection.execute(statement)

    def _load(self, connection: sqlite3.Connection) -> None:
        try:
            names = connection.execute("SELECT number, partition FROM join_partitions").fetchall()
            row = connection.execute("SELECT crc, data FROM join_counts").fetchone()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the join's counts cannot be read: {error}") from None
        self._names = dict(names)
        self._numbers = {partition: number for number, partition in names}
        if row is None:
            return
        crc, data = row
        try:
            if not isinstance(data, bytes) or zlib.crc32(data) != crc:
                raise ValueError("their checksum is not the one they were written with")
            saved = msgspec.json.decode(data, type=_Saved)
        except ValueError as error:
            raise StoreError(
                f"the join's counts are damaged: {error}; restore the store from a copy of it"
            ) from None
        self._coverage.restore(saved.coverage)
        self._watermark.restore(saved.watermark)
        self._forget_before(saved.watermark.value)

    def _forget_before(self, watermark: int | None) -> None:
        if watermark is not None:
            self._border = watermark - self._wait - self._remember

    def expect(self, partitions: Iterable[str]) -> None:
        """Partitions that are going to be read: until they are, nothing expires."""
        self._watermark.expect(partitions)

    # Records in

    def add(self, decoded: Decoded) -> None:
        """Take a batch's records; what they come to is in :meth:`take`."""
        partition = decoded.partition
        self._note_times(decoded)
        for records, take in (
            (decoded.predictions, self._add_predictions),
            (decoded.complete, self._add_complete),
            (decoded.labels, self._add_labels),
        ):
            if records is not None and records.rows:
                times = np.asarray(records.columns["time"], dtype=np.int64)
                take(partition, records, times)

    def _note_times(self, decoded: Decoded) -> None:
        """Tell the watermark, in the partition's order."""
        parts = [
            part
            for part in (decoded.predictions, decoded.complete, decoded.labels)
            if part is not None and part.rows
        ]
        if parts:
            times = np.concatenate([np.asarray(part.columns["time"], np.int64) for part in parts])
            if len(parts) > 1:
                places = np.concatenate([np.asarray(part.places) for part in parts])
                times = times[np.argsort(places, kind="stable")]
            self._watermark.note(decoded.partition, times)

    def _known(self, ids: list[str]) -> list[Entry | None]:
        """The entries of these ids, from memory or disk."""
        found: list[Entry | None] = list(map(self._fresh.get, ids))
        if all(found):
            return found
        missing = [place for place, entry in enumerate(found) if entry is None]
        older = self._disk.find([ids[place] for place in missing])
        border = self._border
        for place, entry in zip(missing, older, strict=True):
            # What a restart would not find is not found without one either.
            if entry is not None and (border is None or entry[5] >= border):
                found[place] = entry
        return found

    def _number(self, partition: str) -> int:
        number = self._numbers.get(partition)
        if number is None:
            number = self._numbers[partition] = len(self._numbers) + 1
            self._names[number] = partition
        return number

    def _payloads(self, records: Records) -> Iterable[Any]:
        columns = [_values(records.columns.get(name)) for name in self._layout]
        return zip(*columns) if columns else repeat(())  # noqa: B905 - repeat() has no end

    def _add_predictions(self, partition: str, records: Records, times: IntArray) -> None:
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        moments = times.tolist()
        payloads = list(islice(self._payloads(records), len(ids)))
        number = self._number(partition)
        known = self._known(ids)
        repeated = _repeated(ids)
        if not repeated and not any(known):
            kinds, numbers, none = repeat(WAITS, len(ids)), repeat(number), repeat(None)
            entries = zip(kinds, moments, numbers, payloads, none, moments, strict=False)
            self._fresh.update(zip(ids, entries, strict=True))
            new = times
        else:
            plain, early, others = self._sorted_out(ids, moments, known, repeated)
            self._fresh.update(
                (ids[n], (WAITS, moments[n], number, payloads[n], None, moments[n])) for n in plain
            )
            new = times[plain + early]
            if early:
                self._meet_early(number, early, ids, times, payloads, known)  # type: ignore[arg-type]
            for n in others:
                # What the first of an id does, the second has to see.
                entry = (WAITS, moments[n], number, payloads[n], None, moments[n])
                self._predict(partition, ids[n], entry, self._fresh.get(ids[n], known[n]))
        self._coverage.count(partition, "predictions", len(new))
        self._coverage.predicted(new)

    def _sorted_out(
        self,
        ids: list[str],
        moments: list[int],
        known: list[Entry | None],
        repeated: frozenset[str],
    ) -> tuple[list[int], list[int], list[int]]:
        """Predictions of unknown ids; those that one label in time waits for; all others."""
        plain: list[int] = []
        early: list[int] = []
        others: list[int] = []
        wait = self._wait
        for n, (key, old, begun) in enumerate(zip(ids, known, moments, strict=True)):
            if key in repeated:
                others.append(n)
            elif old is None:
                plain.append(n)
            elif old[0] == LABELS and len(old[4]) == 1 and -wait <= old[4][0][1] - begun <= wait:
                early.append(n)
            else:
                others.append(n)
        return plain, early, others

    def _meet_early(
        self,
        number: int,
        places: list[int],
        ids: list[str],
        times: IntArray,
        payloads: list[Sequence[Any]],
        known: list[Entry],
    ) -> None:
        """Predictions that one label each has waited for: what _predict does, by columns."""
        by_partition: dict[int, list[int]] = {}
        for n in places:
            by_partition.setdefault(known[n][4][0][2], []).append(n)
        for label_number, rows in by_partition.items():
            old = [known[n] for n in rows]
            labels, came, _ = zip(*[entry[4][0] for entry in old], strict=True)
            met = _Met(
                [ids[n] for n in rows],
                list(labels),
                np.array(came, dtype=np.int64),
                times[rows],
                (number,) * len(rows),
                [payloads[n] for n in rows],
                np.array([entry[5] for entry in old], dtype=np.int64),
            )
            self._coverage.label_waits(met.times, -1)
            self._meet(self._names[label_number], met)

    def _predict(
        self, partition: str, key: str, entry: Entry, old: Entry | None, *, label: Any = None
    ) -> None:
        """One prediction, with its label if it brings one, whatever is known of its id."""
        begun = entry[1]
        if old is not None and old[0] != LABELS:
            self._coverage.count(partition, "duplicate_predictions")
            if label is not None:
                self._label(partition, key, label, begun, old, inside=True)
            return
        self._coverage.count(partition, "predictions")
        self._coverage.predicted_one(begun)
        waiting: Sequence[tuple[Any, int, int]] = ()
        if old is not None:
            # As long as the labels would have been kept, so that they are superseded for as long.
            entry = (*entry[:5], max(begun, old[5]))
            waiting = old[4]
        self._fresh[key] = entry
        if label is not None:
            self._label(partition, key, label, begun, entry, inside=True)
        for one, time, number in waiting:
            self._coverage.label_waits_one(time, -1)
            self._label(self._names[number], key, one, time, self._fresh[key])

    def _add_labels(self, partition: str, records: Records, times: IntArray) -> None:
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        labels = list(_values(records.columns["y_true"]))
        known = self._known(ids)
        repeated = _repeated(ids)
        places = [
            n
            for n, (e, key) in enumerate(zip(known, ids, strict=True))
            if e is not None and e[0] == WAITS and key not in repeated
        ]
        begun = np.array([known[n][1] for n in places], dtype=np.int64)  # type: ignore[index]
        in_time = np.abs(times[places] - begun) <= self._wait
        if not in_time.all():
            places, begun = [places[n] for n in np.flatnonzero(in_time)], begun[in_time]
        if len(places) < len(ids):
            self._add_other_labels(partition, ids, labels, times, known, repeated, set(places))
            ids = [ids[n] for n in places]
            labels = [labels[n] for n in places]
            times = times[places]
            known = [known[n] for n in places]
        if ids:
            _, _, numbers, payloads, _, newest = zip(*known, strict=True)
            latest = np.array(newest, dtype=np.int64)
            self._meet(partition, _Met(ids, labels, times, begun, numbers, payloads, latest))

    def _add_other_labels(
        self,
        partition: str,
        ids: list[str],
        labels: list[Any],
        times: IntArray,
        known: list[Entry | None],
        repeated: frozenset[str],
        met: set[int],
    ) -> None:
        """All labels of a batch that do not simply meet a prediction."""
        others = [n for n in range(len(ids)) if n not in met]
        alone = [n for n in others if known[n] is None and ids[n] not in repeated]
        number = self._number(partition)
        moments = times.tolist()
        self._fresh.update(
            (ids[n], (LABELS, moments[n], 0, None, ((labels[n], moments[n], number),), moments[n]))
            for n in alone
        )
        self._coverage.label_waits(times[alone])
        if len(alone) < len(others):
            for n in sorted(set(others).difference(alone)):
                old = self._fresh.get(ids[n], known[n])
                self._label(partition, ids[n], labels[n], moments[n], old)

    def _meet(self, partition: str, met: _Met) -> None:
        """Labels in time for predictions without one: what judged() says, by columns."""
        ids, labels, times, begun, numbers, payloads, newest = met
        moments = begun.tolist()
        newest = np.maximum(np.maximum(times, begun), newest).tolist()
        kinds = repeat(MET, len(ids))
        entries = zip(kinds, moments, numbers, payloads, labels, newest, strict=True)
        self._fresh.update(zip(ids, entries, strict=True))
        different = set(numbers)
        for number in different:
            columns: Iterable[Iterable[Any]] = (labels, moments, payloads)
            if len(different) > 1:
                mine = [one == number for one in numbers]
                columns = (compress(column, mine) for column in columns)
            self._events.add(number, *columns)
        self._coverage.delays.add(times - begun)
        self._coverage.labelled(begun)
        self._coverage.count(partition, "joined", len(ids))
        self._coverage.count(partition, "labels", len(ids))

    def _label(
        self,
        partition: str,
        key: str,
        label: Any,
        time: int,
        old: Entry | None,
        *,
        inside: bool = False,
    ) -> None:
        """One label, whatever is known of its id."""
        if old is None or old[0] == LABELS:
            self._keep_label(partition, key, label, time, old)
            return
        count, entry = judged(
            old, label, time, inside=inside, wait=self._wait, remember=self._remember
        )
        if count == "orphans":
            self._coverage.label_waits_one(time)
            return
        self._coverage.count(partition, "labels")
        self._coverage.count(partition, count)
        if entry is old:
            return
        self._fresh[key] = entry
        _, begun, number, payload, _, _ = entry
        before, now = current_label(old), current_label(entry)
        if before is None:
            self._coverage.labelled_one(begun)
            if not inside:
                self._coverage.delays.add_one(time - begun)
        elif before == now:
            return
        else:
            self._events.revert(number, (before, begun, payload))
        self._events.add(number, (now,), (begun,), (payload,))

    def _keep_label(
        self, partition: str, key: str, label: Any, time: int, old: Entry | None
    ) -> None:
        """A label whose prediction has not come."""
        waiting = () if old is None else tuple(old[4])
        if len(waiting) >= _MOST_LABELS:
            self._coverage.count(partition, "labels")
            self._coverage.count(partition, "duplicate_labels")
            return
        labels = (*waiting, (label, time, self._number(partition)))
        newest = time if old is None else max(time, old[5])
        self._fresh[key] = (LABELS, newest, 0, None, labels, newest)
        self._coverage.label_waits_one(time)

    def _add_complete(self, partition: str, records: Records, times: IntArray) -> None:
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        labels = list(_values(records.columns["y_true"]))
        known = self._known(ids)
        number = self._number(partition)
        moments = times.tolist()
        payloads = list(islice(self._payloads(records), len(ids)))
        if not any(known) and len(set(ids)) == len(ids):
            kinds, numbers = repeat(INSIDE, len(ids)), repeat(number, len(ids))
            entries = zip(kinds, moments, numbers, payloads, labels, moments, strict=True)
            self._fresh.update(zip(ids, entries, strict=True))
            self._events.add(number, labels, moments, payloads)
            for name in ("predictions", "labels", "joined"):
                self._coverage.count(partition, name, len(ids))
            self._coverage.predicted(times)
            self._coverage.labelled(times)
            return
        for key, time, payload, label, old in zip(
            ids, moments, payloads, labels, known, strict=True
        ):
            entry: Entry = (WAITS, time, number, payload, None, time)
            self._predict(partition, key, entry, self._fresh.get(key, old), label=label)

    # Events out

    def take(self) -> Outcome:
        """What is to be counted and taken back since this was last asked."""
        return self._events.take(self._names)

    def write(self, connection: sqlite3.Connection) -> None:
        """Make the store's tables what the join is now, inside the caller's transaction."""
        self._disk.write(connection, self._fresh)
        self._fresh = {}
        watermark = self._watermark.value
        self._forget_before(watermark)
        if self._border is not None:
            self._disk.drop(connection, self._border)
        self._coverage.settle(watermark, self._remember)
        connection.executemany(
            "INSERT OR IGNORE INTO join_partitions VALUES (?, ?)", list(self._names.items())
        )
        data = msgspec.json.encode(_Saved(self._coverage.saved(), self._watermark.saved()))
        connection.execute(
            "INSERT OR REPLACE INTO join_counts VALUES (0, ?, ?)", (zlib.crc32(data), data)
        )

    @property
    def watermark(self) -> int | None:
        """How far time has come for certain, in microseconds; None before anything is."""
        return self._watermark.value

    def coverage(self) -> dict[str, Any]:
        """Counts, delays and cohorts, as they are published."""
        return self._coverage.to_dict(self._watermark.value)


def _repeated(ids: list[str]) -> frozenset[str]:
    """Those that are there more than once."""
    if len(set(ids)) == len(ids):
        return frozenset()
    return frozenset(key for key, count in Counter(ids).items() if count > 1)


def _values(column: Any) -> Iterable[Any]:
    if column is None:
        return repeat(None)
    return column.tolist() if isinstance(column, np.ndarray) else column  # type: ignore[no-any-return]
