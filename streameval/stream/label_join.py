"""Predictions and labels meet by id: either first, each counted once, corrections exact.

The rules, all functions of the records and not of when they were read:

- The first prediction of an id counts; another is a duplicate.
- A label counts if its time and its prediction's differ by at most ``wait``;
  otherwise it is too late.
- The same label again is a duplicate. Another one, at most ``wait + remember``
  away, is a correction: what was counted is taken back and counted anew.
- Labels that come before their prediction wait for it, and are then looked at in
  the order in which they came.

Memory is given back by the watermark: what waits is forgotten ``wait`` after its
time, what has met ``wait + remember``. A label that is out of order by more than
that finds nothing and counts as an orphan.

Between two checkpoints the entries that change are held in memory. A
checkpoint writes them to the waiting store; a number of them stay in memory as well.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, islice, repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.events import IntArray
from streameval.files.chunk import Column
from streameval.stream.batch import Decoded, Records
from streameval.stream.coverage import Coverage
from streameval.stream.waiting import Entry, WaitingStore
from streameval.stream.watermark import Watermark

__all__ = ["LabelJoin", "Outcome"]

_WAITS, _LABEL, _MET = 0, 1, 2
"""Kinds of entries: a prediction, labels without one, a prediction with its label."""

_MOST_LABELS = 64
"""Labels of one id that wait for its prediction; more are duplicates."""

_SCHEMA = """
CREATE TABLE join_counts (id INTEGER PRIMARY KEY CHECK (id = 0), data TEXT NOT NULL);
CREATE TABLE join_partitions (number INTEGER PRIMARY KEY, partition TEXT NOT NULL UNIQUE);
"""


class Outcome(NamedTuple):
    """What is to be counted and taken back.

    Events have the columns of records: ``y_true``, ``score``, ``time``,
    ``slice:KEY`` and so on.
    """

    counted: dict[str, dict[str, Column]]
    """Columns, by the prediction's partition."""
    reverted: list[tuple[str, dict[str, Any]]]
    """Single events that were counted now or earlier."""


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
        self._most_clean = hot
        self._fresh: dict[str, Entry] = {}
        self._clean: dict[str, Entry] = {}
        self._disk = WaitingStore(connection)
        self._coverage = Coverage(wait_us, cohort_us)
        self._watermark = Watermark(clock)
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._counted: dict[int, list[tuple[Any, int, Any]]] = {}
        self._reverted: list[tuple[str, dict[str, Any]]] = []
        self._load(connection)

    @staticmethod
    def create(connection: sqlite3.Connection) -> None:
        """Make the tables, inside the caller's transaction."""
        WaitingStore.create(connection)
        for statement in _SCHEMA.split(";\n"):
            if statement.strip():
                connection.execute(statement)

    def _load(self, connection: sqlite3.Connection) -> None:
        for number, partition in connection.execute(
            "SELECT number, partition FROM join_partitions"
        ):
            self._numbers[partition] = number
            self._names[number] = partition
        row = connection.execute("SELECT data FROM join_counts").fetchone()
        if row is not None:
            try:
                data = msgspec.json.decode(row[0], type=dict[str, Any])
                self._coverage.restore(data["coverage"])
                self._watermark.restore(data["watermark"])
            except (msgspec.DecodeError, KeyError, TypeError, AssertionError):
                raise StoreError("the join's counts are damaged; restore the store") from None

    def expect(self, partitions: Iterable[str]) -> None:
        """Partitions that are going to be read: until they are, nothing expires."""
        self._watermark.expect(partitions)

    # Records in

    def add(self, decoded: Decoded) -> None:
        """Take a batch's records; what they come to is in :meth:`take`."""
        partition = decoded.partition
        for records, take in (
            (decoded.predictions, self._add_predictions),
            (decoded.complete, self._add_complete),
            (decoded.labels, self._add_labels),
        ):
            if records is not None and records.rows:
                times = np.asarray(records.columns["time"], dtype=np.int64)
                self._watermark.note(partition, int(times.max()))
                take(partition, records, times)

    def _known(self, ids: list[str]) -> list[Entry | None]:
        """The entries of these ids, from memory or disk."""
        found: list[Entry | None] = list(map(self._fresh.get, ids))
        for get in (self._clean.get, self._on_disk(ids, found)):
            if None not in found:
                break
            if any(found):
                found = [entry or get(key) for entry, key in zip(found, ids, strict=True)]
            else:
                found = list(map(get, ids))
        return found

    def _on_disk(self, ids: list[str], found: list[Entry | None]) -> Callable[[str], Entry | None]:
        """Looks up what memory does not hold; read for all of them at the first call."""
        read: dict[str, Entry] | None = None

        def get(key: str) -> Entry | None:
            nonlocal read
            if read is None:
                clean = self._clean
                missing = [key for key, e in zip(ids, found, strict=True) if e is None]
                read = self._disk.find([key for key in missing if key not in clean])
            return read.get(key)

        return get

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
        known = self._known(ids)
        number = self._number(partition)
        entries = zip(
            *(repeat(_WAITS), times.tolist(), repeat(number), self._payloads(records)),
            *(repeat(None), repeat(None)),
            strict=False,
        )
        repeated = _repeated(ids)
        if not repeated and not any(known):
            self._fresh.update(zip(ids, entries, strict=False))
            new = times
        else:
            plain = [e is None and key not in repeated for e, key in zip(known, ids, strict=True)]
            listed = list(islice(entries, len(ids)))
            self._fresh.update(zip(compress(ids, plain), compress(listed, plain), strict=True))
            new = times[np.array(plain, dtype=bool)]
            for key, entry, old, done in zip(ids, listed, known, plain, strict=True):
                if not done:
                    self._predict(partition, key, entry, self._fresh.get(key, old))
        self._coverage.count(partition, "predictions", len(new))
        self._coverage.predicted(new)

    def _predict(self, partition: str, key: str, entry: Entry, old: Entry | None) -> None:
        """One prediction, whatever is known of its id."""
        if old is not None and old[0] != _LABEL:
            self._coverage.count(partition, "duplicate_predictions")
            return
        self._fresh[key] = entry
        self._coverage.count(partition, "predictions")
        self._coverage.predicted_one(entry[1])
        if old is not None:
            for label, time, number in old[4]:
                self._coverage.label_waits_one(time, -1)
                self._label(self._names[number], key, label, time, self._fresh[key])

    def _add_labels(self, partition: str, records: Records, times: IntArray) -> None:
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        labels = list(islice(_values(records.columns["y_true"]), len(ids)))
        known = self._known(ids)
        repeated = _repeated(ids)
        meets = [
            e is not None and e[0] == _WAITS and key not in repeated
            for e, key in zip(known, ids, strict=True)
        ]
        left = self._meet(partition, ids, labels, times, known, meets)
        if not any(left):
            return
        alone = [
            e is None and rest and key not in repeated
            for e, rest, key in zip(known, left, ids, strict=True)
        ]
        self._keep_labels(partition, ids, labels, times, alone)
        # What the first label of an id does, the second has to see.
        moments = times.tolist()
        for n, rest in enumerate(left):
            if rest and not alone[n]:
                key = ids[n]
                old = self._fresh.get(key, known[n])
                self._label(partition, key, labels[n], moments[n], old)

    def _meet(
        self,
        partition: str,
        ids: list[str],
        labels: list[Any],
        times: IntArray,
        known: list[Entry | None],
        chosen: list[bool],
    ) -> list[bool]:
        """Labels of predictions that wait, all at once; which rows are left to be looked at."""
        met: list[Entry] = list(compress(known, chosen))  # type: ignore[arg-type]
        if not met:
            return [True] * len(ids)
        begun = np.array([entry[1] for entry in met], dtype=np.int64)
        delays = times[np.array(chosen, dtype=bool)] - begun
        left = [not one for one in chosen]
        good = np.abs(delays) <= self._wait
        if not good.all():
            late = iter((~good).tolist())
            left = [next(late) if one else True for one in chosen]
            chosen = [not one for one in left]
            met = list(compress(known, chosen))  # type: ignore[arg-type]
            begun, delays = begun[good], delays[good]
        moments = compress(times.tolist(), chosen)
        own = list(compress(labels, chosen))
        for (_, time, number, payload, _, _), label in zip(met, own, strict=True):
            try:
                self._counted[number].append((label, time, payload))
            except KeyError:
                self._counted[number] = [(label, time, payload)]
        self._fresh.update(
            zip(
                compress(ids, chosen),
                [
                    (_MET, time, number, payload, label, moment)
                    for (_, time, number, payload, _, _), label, moment in zip(
                        met, own, moments, strict=True
                    )
                ],
                strict=True,
            )
        )
        self._coverage.delays.add(delays)
        self._coverage.labelled(begun)
        self._coverage.count(partition, "joined", len(met))
        self._coverage.count(partition, "labels", len(met))
        return left

    def _keep_labels(
        self,
        partition: str,
        ids: list[str],
        labels: list[Any],
        times: IntArray,
        chosen: list[bool],
    ) -> None:
        """Labels of ids that nothing is known of, all at once."""
        number = self._number(partition)
        self._fresh.update(
            (key, (_LABEL, time, 0, None, ((label, time, number),), None))
            for key, label, time in compress(zip(ids, labels, times.tolist(), strict=True), chosen)
        )
        self._coverage.label_waits(times[np.array(chosen, dtype=bool)])

    def _label(
        self,
        partition: str,
        key: str,
        label: Any,
        time: int,
        old: Entry | None,
        *,
        delayed: bool = True,
    ) -> None:
        """One label, whatever is known of its id."""
        count = self._coverage.count
        if old is None or old[0] == _LABEL:
            self._keep_label(partition, key, label, time, old)
            return
        # One that has waited for its prediction is counted now.
        count(partition, "labels")
        kind, begun, number, payload, before, _ = old
        if kind == _WAITS:
            if abs(time - begun) > self._wait:
                count(partition, "too_late")
                return
            self._fresh[key] = (_MET, begun, number, payload, label, time)
            self._counted.setdefault(number, []).append((label, begun, payload))
            self._coverage.labelled_one(begun)
            if delayed:
                self._coverage.delays.add_one(time - begun)
            count(partition, "joined")
        elif label == before:
            count(partition, "duplicate_labels")
        elif abs(time - begun) > self._wait + self._remember:
            count(partition, "too_late")
        else:
            self._fresh[key] = (_MET, begun, number, payload, label, time)
            self._reverted.append((self._names[number], self._event(before, begun, payload)))
            self._counted.setdefault(number, []).append((label, begun, payload))
            count(partition, "corrected")

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
        newest = time if old is None else max(time, old[1])
        self._fresh[key] = (_LABEL, newest, 0, None, labels, None)
        self._coverage.label_waits_one(time)

    def _add_complete(self, partition: str, records: Records, times: IntArray) -> None:
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        labels = _values(records.columns["y_true"])
        known = self._known(ids)
        number = self._number(partition)
        if not any(known) and len(set(ids)) == len(ids):
            payloads = list(islice(self._payloads(records), len(ids)))
            moments = times.tolist()
            self._fresh.update(
                zip(
                    ids,
                    zip(repeat(_MET), moments, repeat(number), payloads, labels, moments),
                    strict=True,
                )
            )
            self._counted.setdefault(number, []).extend(zip(labels, moments, payloads, strict=True))
            for name in ("predictions", "labels", "joined"):
                self._coverage.count(partition, name, len(ids))
            self._coverage.predicted(times)
            self._coverage.labelled(times)
            return
        entries = _again(records, times, number, self._payloads(records))
        for key, entry, label, old in zip(ids, entries, labels, known, strict=False):
            self._predict(partition, key, entry, self._fresh.get(key, old))
            self._label(partition, key, label, entry[1], self._fresh.get(key, old), delayed=False)

    # Events out

    def _event(self, label: Any, time: int, payload: Sequence[Any]) -> dict[str, Any]:
        values = zip(self._layout, payload, strict=True)
        return {
            "y_true": label,
            "time": time,
            **{name: value for name, value in values if value is not None},
        }

    def take(self) -> Outcome:
        """What is to be counted and taken back since this was last asked."""
        counted: dict[str, dict[str, Column]] = {}
        for number, events in self._counted.items():
            labels, times, payloads = zip(*events, strict=True)
            columns: dict[str, Column] = {
                "y_true": list(labels),
                "time": np.array(times, dtype=np.int64),
            }
            for name, values in zip(self._layout, zip(*payloads, strict=True), strict=True):
                if values[0] is None:
                    continue
                columns[name] = np.array(values) if type(values[0]) is float else list(values)
            counted[self._names[number]] = columns
        outcome = Outcome(counted, self._reverted)
        self._counted = {}
        self._reverted = []
        return outcome

    def write(self, connection: sqlite3.Connection) -> None:
        """Make the store's tables what the join is now, inside the caller's transaction."""
        wait, met = self._wait, self._wait + self._remember
        dues = [entry[1] + (met if entry[0] == _MET else wait) for entry in self._fresh.values()]
        self._disk.write(connection, self._fresh, dues)
        self._clean.update(self._fresh)
        self._fresh = {}
        spare = len(self._clean) - self._most_clean
        if spare > 0:
            for key in list(islice(self._clean, spare)):
                del self._clean[key]
        watermark = self._watermark.value
        if watermark is not None:
            self._disk.drop(connection, watermark)
        self._coverage.settle(watermark, self._remember)
        connection.executemany(
            "INSERT OR IGNORE INTO join_partitions VALUES (?, ?)", list(self._names.items())
        )
        data = {
            "coverage": self._coverage.to_state(),
            "watermark": self._watermark.to_state(),
        }
        connection.execute(
            "INSERT OR REPLACE INTO join_counts VALUES (0, ?)",
            (msgspec.json.encode(data).decode(),),
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


def _again(records: Records, times: IntArray, number: int, payloads: Iterable[Any]) -> list[Entry]:
    """The predictions' entries once more, for the way one by one."""
    moments = times.tolist()
    return [
        (_WAITS, time, number, payload, None, None)
        for time, payload in zip(moments, payloads, strict=False)
    ]


def _values(column: Any) -> Iterable[Any]:
    if column is None:
        return repeat(None)
    return column.tolist() if isinstance(column, np.ndarray) else column  # type: ignore[no-any-return]
