"""Joins predictions and labels of one id, by columns and one record at a time.

The common cases (a new prediction, the first label of a waiting prediction, or the other way
round) are handled by columns. All others (duplicates, corrections, an id twice in a batch) are
handled one record at a time, by the same rules; columns only save time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice, repeat, zip_longest
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.events.values import BoolArray, IntArray
from streameval.records.event_columns import Column, EventColumns
from streameval.service.join.coverage import Coverage
from streameval.service.join.entry_store.entry_store import EntryStore, LabelledRows
from streameval.service.join.rules import (
    Complete,
    EarlyLabel,
    EarlyLabels,
    Entry,
    Labelled,
    Unlabelled,
    current_label,
    is_part,
    judged,
)

_MOST_LABELS = 64
"""Labels of one id that wait for its prediction; more are duplicates."""

_MOST_PARTS = 1_024
"""The same of a set that arrives label by label."""


class PartitionNumbers:
    """A number for each partition, from 1 on, so that an entry need not hold its name."""

    __slots__ = ("_numbers", "names")

    def __init__(self, known: Mapping[str, int]) -> None:
        self._numbers = dict(known)
        self.names = {number: name for name, number in known.items()}

    def number(self, partition: str) -> int:
        """The number of a partition; a new one if it has none."""
        found = self._numbers.setdefault(partition, len(self._numbers) + 1)
        self.names[found] = partition
        return found


Joined: TypeAlias = tuple[Any, int, Sequence[Any]]
"""A label, the prediction's time and its payload."""


class _Rows(NamedTuple):
    """Events, a payload each."""

    ids: list[str]
    labels: list[Any]
    times: list[int]
    payloads: list[Sequence[Any]]

    def columns(self, width: int) -> list[Column]:
        """The columns of the payloads; the last values of an earlier, shorter one are None."""
        columns: list[Column] = [_numbers(values) for values in zip_longest(*self.payloads)]
        return columns + [[None] * len(self.times)] * (width - len(columns))


class _Columns(NamedTuple):
    """Events by columns, with nan for None among floats."""

    ids: list[str]
    labels: list[Any]
    times: IntArray
    payload: Sequence[Column]

    def columns(self, width: int) -> list[Column]:
        """The columns of the payloads."""
        return list(self.payload)


_Block: TypeAlias = _Rows | _Columns


def _numbers(values: Sequence[Any]) -> Column:
    """Floats as an array, other values as a list."""
    return np.array(values) if type(values[0]) is float and None not in values else list(values)


def _without_nan(column: Column) -> Iterable[Any]:
    if not isinstance(column, np.ndarray):
        return column
    return [None if value != value else value for value in column.tolist()]


class JoinedEvents:
    """Events to count and to revert, with the columns of records: ``y_true``, ``score`` etc."""

    def __init__(
        self,
        layout: Sequence[str],
        names: Mapping[int, str],
        has_ids: bool = False,
        *,
        has_labels: bool = True,
    ) -> None:
        self.has_ids = has_ids
        """Whether ``id`` is a column as well."""
        self._has_labels = has_labels
        self._layout = tuple(layout)
        """The columns of a payload."""
        self._names = names
        """Partitions by their numbers."""
        self._counted: defaultdict[int, list[_Block]] = defaultdict(list)
        self._reverted: list[tuple[int, str, Joined]] = []

    def add(
        self,
        number: int,
        ids: Iterable[str],
        labels: Iterable[Any],
        times: Iterable[int],
        payloads: Iterable[Sequence[Any]],
    ) -> None:
        """Add events of a partition to count."""
        blocks = self._counted[number]
        rows = blocks[-1] if blocks else None
        if not isinstance(rows, _Rows):
            rows = _Rows([], [], [], [])
            blocks.append(rows)
        if self.has_ids:
            rows.ids.extend(ids)
        rows.labels.extend(labels)
        rows.times.extend(times)
        rows.payloads.extend(payloads)

    def add_columns(
        self,
        number: int,
        ids: list[str],
        labels: list[Any],
        times: IntArray,
        columns: Sequence[Column],
    ) -> None:
        """Add events by columns: those of the layout, with nan for None among floats."""
        if len(times):
            self._counted[number].append(_Columns(ids, labels, times, columns))

    def revert(self, number: int, key: str, event: Joined) -> None:
        """Add an event of a partition to revert."""
        self._reverted.append((number, key, event))

    @property
    def counted(self) -> dict[str, dict[str, Column]]:
        """Columns of the events to count, by the prediction's partition; O(n)."""
        return {self._names[number]: self._joined(own) for number, own in self._counted.items()}

    @property
    def reverted(self) -> list[tuple[str, dict[str, Any]]]:
        """The events to revert, which were counted now or earlier, and their partitions; O(n)."""
        return [
            (self._names[number], ({"id": key} if self.has_ids else {}) | self._event(*event))
            for number, key, event in self._reverted
        ]

    def _joined(self, blocks: list[_Block]) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        if self._has_labels:
            columns["y_true"] = _numbers([label for block in blocks for label in block.labels])
        times = [np.asarray(block.times, dtype=np.int64) for block in blocks]
        columns["time"] = np.concatenate(times)
        if self.has_ids:
            columns["id"] = [key for block in blocks for key in block.ids]
        width = len(self._layout)
        pieces = [block.columns(width) for block in blocks]
        for name, *column in zip(self._layout, *pieces, strict=True):
            if all(isinstance(values, np.ndarray) for values in column):
                whole = np.concatenate(column)
                if not np.isnan(whole).any():
                    columns[name] = whole
                    continue
            values = [value for piece in column for value in _without_nan(piece)]
            # An absent column is None in all rows; so may be the value of a slice.
            if name.startswith("slice:") or any(value is not None for value in values):
                columns[name] = values
        return columns

    def _event(self, label: Any, time: int, payload: Sequence[Any]) -> dict[str, Any]:
        values = {
            name: value
            for name, value in zip(self._layout, payload, strict=False)
            if value is not None or name.startswith("slice:")
        }
        return {"y_true": label, "time": time, **values}


@dataclass(slots=True, eq=False)
class Pairing:
    """Adds records to the entries of their ids; collects joined events and counts."""

    entries: EntryStore
    coverage: Coverage
    partitions: PartitionNumbers
    layout: Sequence[str]
    """The prediction's columns, without ``id`` and ``time``."""
    wait_us: int
    """How long a prediction waits for its label, and the other way round."""
    remember_us: int
    """How long after that duplicates and corrections are recognised."""
    has_ids: bool = False
    """Whether events have their id."""
    has_predictions: bool = False
    """Whether new predictions are events as well, without their labels."""
    events: JoinedEvents = field(init=False)
    predicted: JoinedEvents = field(init=False)

    def __post_init__(self) -> None:
        self.events = JoinedEvents(self.layout, self.partitions.names, self.has_ids)
        self.predicted = JoinedEvents(self.layout, self.partitions.names, has_labels=False)

    def drain(self) -> tuple[JoinedEvents, JoinedEvents]:
        """The events, and the new predictions without their labels, since the last call."""
        drained = self.events, self.predicted
        self.__post_init__()
        return drained

    def _payloads(self, records: EventColumns) -> list[tuple[Any, ...]]:
        columns = [_values(records.columns.get(name)) for name in self.layout]
        if not columns:
            return [()] * records.rows
        return list(islice(zip(*columns), records.rows))  # noqa: B905 - repeat() has no end

    # Predictions

    def predictions(self, partition: str, records: EventColumns, times: IntArray) -> None:
        """Add predictions, with the labels that they contain, if any."""
        ids: Any = records.columns["id"]
        inside = "y_true" in records.columns
        labels = list(_values(records.columns["y_true"])) if inside else []
        number = self.partitions.number(partition)
        payload = self.entries.payloads(records)
        inserted = self.entries.predict(ids, times, number, payload, labels if inside else None)
        if inserted is not None:
            given = [ids, labels, times, *payload]
            if not inserted.all():
                given = _picked(given, inserted)
                records = records.select(~inserted)
            new_ids, new_labels, new_times, *payload = given
            self._count_new(partition, new_times, inside)
            if self.has_predictions:
                self.predicted.add_columns(number, [], [], new_times, payload)
            if inside:
                self.events.add_columns(number, new_ids, new_labels, new_times, payload)
            if inserted.all():
                return
            ids, labels, times = _picked([ids, labels, times], ~inserted)
        moments = times.tolist()
        payloads = self._payloads(records)
        kind, kept = (Complete, labels) if inside else (Unlabelled, repeat(None))
        entries: Any = list(map(kind, moments, repeat(number), payloads, kept, moments))
        known = self.entries.add(ids, entries, int(times.min()))
        if known:
            others = sorted(known) if inside else self._join_early(ids, entries, known)
            for n in others:
                # A later record of the same id has to see the effect of an earlier one.
                old = self.entries.latest(ids[n], known[n])
                entry = Unlabelled(moments[n], number, payloads[n], None, moments[n])
                self._predict_one(partition, ids[n], entry, old, labels[n] if inside else None)
            new = np.ones(len(ids), dtype=np.bool_)
            new[others] = False
            given = [ids, labels, times, moments, payloads]
            ids, labels, times, moments, payloads = _picked(given, new)
        if not ids:
            return
        self._count_new(partition, times, inside)
        if self.has_predictions:
            self.predicted.add(number, (), (), moments, payloads)
        if inside:
            self.events.add(number, ids, labels, moments, payloads)

    def _count_new(self, partition: str, times: IntArray, inside: bool) -> None:
        for name in ("predictions", "labels", "joined") if inside else ("predictions",):
            self.coverage.count(partition, name, len(times))
        self.coverage.predicted.add(times)
        if inside:
            self.coverage.labelled.add(times)

    def _join_early(
        self, ids: list[str], entries: list[Unlabelled], known: dict[int, Any]
    ) -> list[int]:
        """Join predictions for which one label in time waits, by columns; returns the others."""
        others: list[int] = []
        by_partition: defaultdict[int, list[int]] = defaultdict(list)
        repeated = _repeated([ids[n] for n in known])
        for n, old in sorted(known.items()):
            if (
                type(old) is EarlyLabels
                and len(old.labels) == 1
                and not is_part(old.labels[0].label)
                and abs(old.labels[0].time - entries[n].time) <= self.wait_us
                and ids[n] not in repeated
            ):
                by_partition[old.labels[0].partition].append(n)
            else:
                others.append(n)
        for number, rows in by_partition.items():
            labels = [known[n].labels[0] for n in rows]
            times = np.array([label.time for label in labels], dtype=np.int64)
            self.coverage.early.add(times, -1)
            self._join_first(
                self.partitions.names[number],
                [ids[n] for n in rows],
                [entries[n] for n in rows],
                [label.label for label in labels],
                times,
                [known[n].newest for n in rows],
            )
        return others

    # Labels

    def labels(self, partition: str, records: EventColumns, times: IntArray) -> None:
        """Add label records."""
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        labels = list(_values(records.columns["y_true"]))
        if is_part(labels[0]):  # then all are
            every = np.ones(len(ids), dtype=np.bool_)
            known = self.entries.find(ids)
            self._other_labels(partition, ids, labels, times, known, _repeated(ids), every)
            return
        joined = self.entries.label(ids, labels, times, self.wait_us)
        if joined is not None:
            if joined.rows.any():
                self._add_joined(partition, ids, labels, times, joined)
            if joined.rows.all():
                return
            ids, labels, times = _picked([ids, labels, times], ~joined.rows)
        known = self.entries.find(ids)
        repeated = _repeated(ids)
        first = [
            type(entry) is Unlabelled and key not in repeated
            for entry, key in zip(known, ids, strict=True)
        ]
        begun = [entry.time if there else 0 for entry, there in zip(known, first, strict=True)]  # type: ignore[union-attr]
        in_time = np.array(first, dtype=np.bool_)
        in_time &= np.abs(times - np.array(begun, dtype=np.int64)) <= self.wait_us
        if not in_time.all():
            self._other_labels(partition, ids, labels, times, known, repeated, ~in_time)
            ids, labels, times, known = _picked([ids, labels, times, known], in_time)
        if ids:
            waiting: list[Unlabelled] = known  # type: ignore[assignment]
            newest = [entry.newest for entry in waiting]
            self._join_first(partition, ids, waiting, labels, times, newest)

    def _other_labels(
        self,
        partition: str,
        ids: list[str],
        labels: list[Any],
        times: IntArray,
        known: list[Entry | None],
        repeated: frozenset[str],
        others: BoolArray,
    ) -> None:
        """Add the labels of a batch that are not the first one of a waiting prediction."""
        number = self.partitions.number(partition)
        moments = times.tolist()
        alone: list[int] = []
        single: list[int] = []
        for n in np.flatnonzero(others).tolist():
            (alone if known[n] is None and ids[n] not in repeated else single).append(n)
        if alone:
            early = times[alone]
            self.entries.put(
                [ids[n] for n in alone],
                [_early((EarlyLabel(labels[n], moments[n], number),), moments[n]) for n in alone],
                int(early.min()),
            )
            self.coverage.early.add(early)
        for n in single:
            old = self.entries.latest(ids[n], known[n])
            self._label_one(partition, ids[n], labels[n], moments[n], old)

    def _join_first(
        self,
        partition: str,
        ids: Sequence[str],
        predictions: Sequence[Unlabelled],
        labels: Sequence[Any],
        times: IntArray,
        kept_until: Sequence[int],  # the newest time of what was known of each id
    ) -> None:
        """Join labels of a partition with predictions without one: judged() by columns."""
        moments = [one.time for one in predictions]
        numbers = [one.partition for one in predictions]
        payloads = [one.payload for one in predictions]
        begun = np.array(moments, dtype=np.int64)
        newest = np.maximum(np.maximum(times, begun), np.array(kept_until, dtype=np.int64))
        entries = map(Labelled, moments, numbers, payloads, labels, newest.tolist())
        self.entries.put(ids, entries, int(newest.min()))
        different = set(numbers)
        for number in different:
            columns: Iterable[Iterable[Any]] = (ids, labels, moments, payloads)
            if len(different) > 1:
                mine = [one == number for one in numbers]
                columns = (compress(column, mine) for column in columns)
            self.events.add(number, *columns)
        self._count_joined(partition, times, begun)

    def _add_joined(
        self,
        partition: str,
        ids: list[str],
        labels: list[Any],
        times: IntArray,
        joined: LabelledRows,
    ) -> None:
        """Count the records of labels that compiled code has joined."""
        (own_labels,) = _picked([labels], joined.rows)
        own_ids = _picked([ids], joined.rows)[0] if self.has_ids else own_labels
        events = [own_ids, own_labels, joined.times, *joined.columns]
        numbers = np.unique(joined.partitions).tolist()
        for number in numbers:
            own = events if len(numbers) == 1 else _picked(events, joined.partitions == number)
            self.events.add_columns(number, own[0], own[1], own[2], own[3:])
        self._count_joined(partition, times[joined.rows], joined.times)

    def _count_joined(self, partition: str, times: IntArray, begun: IntArray) -> None:
        self.coverage.delays.add(times - begun)
        self.coverage.labelled.add(begun)
        self.coverage.count(partition, "joined", len(times))
        self.coverage.count(partition, "labels", len(times))

    # One record at a time

    def _predict_one(
        self, partition: str, key: str, entry: Unlabelled, old: Entry | None, label: Any
    ) -> None:
        """Add one prediction, with the label that it contains, if any, to any known entry."""
        if old is not None and not isinstance(old, EarlyLabels):
            self.coverage.count(partition, "duplicate_predictions")
            if label is not None:
                self._label_one(partition, key, label, entry.time, old, inside=True)
            return
        self.coverage.count(partition, "predictions")
        self.coverage.predicted.add_one(entry.time)
        if self.has_predictions:
            self.predicted.add(entry.partition, (), (), (entry.time,), (entry.payload,))
        if old is not None:
            # As long as the labels would have been kept, so that they are superseded for as long.
            entry = msgspec.structs.replace(entry, newest=max(entry.time, old.newest))
        self._put(key, entry)
        now: Entry = entry
        if label is not None:
            now = self._label_one(partition, key, label, entry.time, now, inside=True)
        for early in () if old is None else old.labels:
            self.coverage.early.add_one(early.time, -1)
            name = self.partitions.names[early.partition]
            now = self._label_one(name, key, early.label, early.time, now)

    def _label_one(
        self,
        partition: str,
        key: str,
        label: Any,
        time: int,
        old: Entry | None,
        *,
        inside: bool = False,
    ) -> Entry:
        """Add one label to any known entry; returns the entry afterwards."""
        if old is None or isinstance(old, EarlyLabels):
            return self._keep_early(partition, key, label, time, old)
        count, entry = judged(
            old, label, time, inside=inside, wait=self.wait_us, remember=self.remember_us
        )
        if count == "orphans":
            self.coverage.early.add_one(time)
            return old
        self.coverage.count(partition, "labels")
        self.coverage.count(partition, count)
        if entry is old:
            return old
        self._put(key, entry)
        before, now = current_label(old), current_label(entry)
        if before == now:
            return entry
        if before is None:
            self.coverage.labelled.add_one(entry.time)
            if not inside:
                self.coverage.delays.add_one(time - entry.time)
        else:
            self.events.revert(entry.partition, key, (before, entry.time, entry.payload))
        self.events.add(entry.partition, (key,), (now,), (entry.time,), (entry.payload,))
        return entry

    def _keep_early(
        self, partition: str, key: str, label: Any, time: int, old: EarlyLabels | None
    ) -> EarlyLabels:
        """Keep a label whose prediction has not been read."""
        most = _MOST_PARTS if is_part(label) else _MOST_LABELS
        if old is not None and len(old.labels) >= most:
            self.coverage.count(partition, "labels")
            self.coverage.count(partition, "duplicate_labels")
            return old
        before = () if old is None else old.labels
        labels = (*before, EarlyLabel(label, time, self.partitions.number(partition)))
        entry = _early(labels, time if old is None else max(time, old.newest))
        self._put(key, entry)
        self.coverage.early.add_one(time)
        return entry

    def _put(self, key: str, entry: Entry) -> None:
        self.entries.put((key,), (entry,), entry.newest)


def _early(labels: tuple[EarlyLabel, ...], newest: int) -> EarlyLabels:
    return EarlyLabels(newest, 0, None, labels, newest)


def _picked(columns: Sequence[Any], mask: BoolArray) -> list[Any]:
    """The chosen values of arrays and lists."""
    chosen = mask.tolist()
    return [
        column[mask] if isinstance(column, np.ndarray) else list(compress(column, chosen))
        for column in columns
    ]


def _repeated(ids: list[str]) -> frozenset[str]:
    if len(set(ids)) == len(ids):
        return frozenset()
    return frozenset(key for key, count in Counter(ids).items() if count > 1)


def _values(column: Any) -> Iterable[Any]:
    if column is None:
        return repeat(None)
    return column.tolist() if isinstance(column, np.ndarray) else column  # type: ignore[no-any-return]
