"""Slices: which of them an event belongs to, and the window of each."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from copy import copy
from datetime import date
from functools import partial
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, StateError, did_you_mean, listed, shown
from streameval.events import time as clock
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import (
    IntArray,
    Label,
    LabelColumn,
    canonical_label,
    check_same_length,
    column_array,
    factorised,
    is_missing,
    label_column,
)
from streameval.states.backend import compiled
from streameval.states.state_set import StatePlan
from streameval.windows.time_buckets import Arrivals, BucketTimeline
from streameval.windows.window import Undo, Window, WindowSpec

OTHER = "(other)"
"""The value of the slice of further values, and of events of this very value."""

MISSING = "(missing)"
"""The value of the slice of events without a value; an event of this very text is refused."""

_SETS = compiled("streameval.states.native.batch_partition")

_FEW = 4
"""Up to so many events of a slice in a batch are counted one by one."""

_DAYS = np.dtype("datetime64[D]")

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)

SliceKey: TypeAlias = tuple[tuple[str, Label], ...]
"""Pairs of key and value, in the order of the dimension: ``(("country", "PT"),)``."""

SliceRows: TypeAlias = tuple[SliceKey, IntArray]
"""A slice, and the rows of a batch that belong to it, ascending."""

SliceCodes: TypeAlias = tuple[IntArray, Callable[[int], SliceKey]]
"""A code of each event's slice in one dimension, and from a row to that slice."""


def slice_name(key: SliceKey) -> str:
    """A slice as people write it, unlike any other's name; the total is ``"total"``."""
    return ", ".join(f"{_escaped(n, _IN_KEY)}={_value_name(v)}" for n, v in key) or "total"


def plain_slice_name(key: SliceKey) -> str:
    """The slice's name without backslashes, as older releases wrote it: two slices may share it."""
    return ", ".join(f"{n}={v if slice_value(v) == v else repr(v)}" for n, v in key) or "total"


_IN_KEY = re.compile(r"(\\*)(=|, |\Z)")
_IN_VALUE = re.compile(r"(\\*)(, |\Z)")
_LIKE_QUOTED = re.compile(r"(\\*)('-?\d+')", re.ASCII)


def _value_name(value: Label) -> str:
    if slice_value(value) != value:
        return repr(value)
    if not isinstance(value, str):
        return str(value)
    quoted = _LIKE_QUOTED.fullmatch(value)
    return f"{2 * quoted[1]}\\{quoted[2]}" if quoted else _escaped(value, _IN_VALUE)


def _escaped(text: str, special: re.Pattern[str]) -> str:
    """The text with a backslash before what is special; those before it, or the end, doubled."""
    if not any(character in text for character in "\\,="):
        return text
    return special.sub(lambda found: 2 * found[1] + ("\\" + found[2] if found[2] else ""), text)


def slice_value(value: Label) -> Label:
    """The value of a slice in its one form: an ``int`` of 64 bits, or a ``str``."""
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if value[-1:].isdecimal() and _WHOLE.fullmatch(value):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    return value


def slice_order(key: SliceKey) -> tuple[Any, ...]:
    """A sort key: by dimension, then by value; numbers before text, ``(other)`` last."""
    return (
        tuple(name for name, _ in key),
        tuple((value == OTHER, isinstance(value, str), value) for _, value in key),
    )


class Slicer:
    """Turns an event's ``slices=`` into the keys of the slices that it belongs to."""

    __slots__ = (
        "dimensions", "max_slices", "names", "names_set", "opened", "overflowed", "reserved",
    )  # fmt: skip

    def __init__(self, dimensions: Iterable[str | Iterable[str]], max_slices: int) -> None:
        expected = "names, or tuples of names for combinations"
        if isinstance(dimensions, str):
            dimensions = (dimensions,)
        parsed: list[tuple[str, ...]] = []
        for dimension in listed(dimensions, "slices", expected):
            one = isinstance(dimension, str)
            names = (dimension,) if one else tuple(listed(dimension, "slices", expected))
            if not names or not all(isinstance(name, str) and name for name in names):
                raise InputError("slices", expected=expected, got=shown(dimension))
            if len(set(names)) != len(names) or names in parsed:
                raise InputError("slices", expected="each name once", got=shown(dimension))
            if set(names) in map(set, parsed):
                # The same slices again: an event's values are the same in any order.
                once = "each combination once, in whichever order"
                raise InputError("slices", expected=once, got=shown(names))
            parsed.append(names)
        if type(max_slices) is not int or not 1 <= max_slices <= 10_000_000:
            raise InputError(
                "max_slices", expected="a number from 1 to 10000000", got=shown(max_slices)
            )
        self.restrict(parsed)
        self.max_slices = max_slices
        self.opened = 0
        """Slices that are open, those called ``(other)`` not counted."""
        self.overflowed = 0
        """Assignments of events to an ``(other)`` slice."""
        self.reserved: Set[SliceKey] = frozenset()
        """Slices that are counted in ``opened``, whether they are open or not."""

    def restrict(self, dimensions: Iterable[tuple[str, ...]]) -> None:
        """Assign events to slices of these dimensions only."""
        self.dimensions = tuple(dimensions)
        self.names = tuple(dict.fromkeys(name for names in self.dimensions for name in names))
        self.names_set = frozenset(self.names)

    def _mapping(self, slices: object) -> Mapping[str, object]:
        if not isinstance(slices, Mapping):
            raise InputError(
                "slices",
                expected=f"a mapping with {', '.join(map(shown, self.names))}",
                got=shown(slices),
                remedy="a key that is absent, or None, counts as (missing)",
            )
        return slices

    def _refuse_misspelt(self, given: Mapping[str, object]) -> None:
        """Raise InputError for a key that is like a declared one that is absent."""
        absent = [name for name in self.names if name not in given]
        for name in given if absent else ():
            if name not in self.names_set and isinstance(name, str):
                near = did_you_mean(name, absent) or did_you_mean(name.lower(), absent)
                if near:
                    raise InputError(
                        "slices",
                        expected=f"the keys {', '.join(map(shown, self.names))}",
                        got=shown(name),
                        remedy=near,
                    )

    def keys(self, slices: object) -> list[SliceKey]:
        """The event's slices, unknown ones included; raises InputError."""
        given = slices if type(slices) is dict else self._mapping(slices)
        pairs = {}
        if not given.keys() >= self.names_set:
            self._refuse_misspelt(given)
        for name in self.names:
            value = _slice_value(given.get(name), name)
            pairs[name] = name, MISSING if value is None else value
        return [tuple([pairs[name] for name in names]) for names in self.dimensions]

    def admit(self, key: SliceKey, known: Mapping[SliceKey, object], count: int = 1) -> SliceKey:
        """The slice that takes ``count`` events of this key, which the caller opens."""
        # A value "(other)" out of the stream belongs where it says.
        if key in known or key in self.reserved or _is_other(key):
            return key
        if self.opened < self.max_slices:
            self.opened += 1
            return key
        self.overflowed += count
        return other_key(key)

    def located(self, key: SliceKey, known: Mapping[SliceKey, object]) -> SliceKey:
        """The slice that counted an earlier event of this key: ``(other)`` after some merges."""
        return key if key in known else other_key(key)

    def coded(self, slices: object, length: int) -> list[SliceCodes]:
        """For columns: the slices of each dimension, as codes; raises InputError."""
        given = self._mapping(slices)
        self._refuse_misspelt(given)
        columns = {}
        for name in self.names:
            column = given.get(name)
            columns[name] = slice_column(np.full(length, None) if column is None else column, name)
        for name, column in columns.items():
            check_same_length(length, len(column.codes), f"slices[{name!r}]")
        found: list[SliceCodes] = []
        for names in self.dimensions:
            codes = columns[names[0]].codes
            for name in names[1:]:
                column = columns[name]
                codes = codes * len(column.labels) + column.codes
                # Compacted after each name, so that no product of sizes overflows.
                codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)

            def key_of(row: int, names: tuple[str, ...] = names) -> SliceKey:
                key = []
                for name in names:
                    value: Label | None = columns[name].labels[int(columns[name].codes[row])]
                    key.append((name, MISSING if value is None else value))
                return tuple(key)

            found.append((codes, key_of))
        return found

    def groups(self, slices: object, length: int) -> Iterator[SliceRows]:
        """For columns: each dimension's slices, with their rows in order; raises InputError."""
        for codes, key_of in self.coded(slices, length):
            for rows in _rows_by_code(codes):
                yield key_of(rows[0]), rows

    def key_from_state(self, pairs: object) -> SliceKey:
        """A key out of a saved state; raises StateError."""
        whole = isinstance(pairs, list) and all(type(p) is list and len(p) == 2 for p in pairs)
        key = tuple((name, value) for name, value in pairs) if whole else ()  # type: ignore[attr-defined]
        names = tuple(name for name, _ in key)
        if names in self.dimensions and all(type(value) in (str, int) for _, value in key):
            return key
        raise StateError(f"slices: expected a slice of {self.dimensions}, got {shown(pairs)}")


def other_key(key: SliceKey) -> SliceKey:
    """The slice of further values in this one's dimension."""
    return tuple((name, OTHER) for name, _ in key)


def _is_other(key: SliceKey) -> bool:
    return all(value == OTHER for _, value in key)


def _slice_value(value: object, name: str) -> Label | None:
    """The value in its one form; None where it is missing."""
    if type(value) is not str and type(value) is not int:
        if is_missing(value):
            return None
        expected = "a str, int, bool or date value, or None"
        value = _plain_value(value, f"slices[{shown(name)}]", expected)
    label = slice_value(value)
    if label == MISSING:
        raise InputError(
            f"slices[{shown(name)}]",
            expected=f"a value other than {MISSING!r}, which names the events without one",
            got=shown(label),
            remedy="pass None where the value is missing",
        )
    return label


def _plain_value(value: object, field: str, expected: str) -> Label:
    if type(value) is date or (isinstance(value, np.datetime64) and value.dtype == _DAYS):
        return str(value)  # as CSV, JSON and Arrow write it
    try:
        return canonical_label(value)
    except InputError as error:
        raise InputError(field, expected=expected, got=error.got) from None


def unit_value(value: object) -> Label:
    """The value of an event's unit, in the one form that slices have; raises InputError."""
    if value is None or is_missing(value):
        raise InputError(
            "unit",
            expected="the value of the event's unit, since the evaluator has replicates by unit",
            got=shown(value),
            remedy="pass unit= with each event, one of its own where it belongs to no other",
            remedy_code="unit",
        )
    return slice_value(_plain_value(value, "unit", "a str, int, bool or date value"))


def unit_column(column: object) -> LabelColumn:
    """Codes of the values of events' units; raises InputError."""
    return _value_column(column, "unit", unit_value)


def slice_column(column: object, name: str) -> LabelColumn:
    """Codes of a slice's values, None where missing; a column of codes is returned as it is."""
    if isinstance(column, LabelColumn):
        return column
    return _value_column(column, f"slices[{shown(name)}]", lambda value: _slice_value(value, name))


def _value_column(
    column: object, field: str, value_of: Callable[[object], Label | None]
) -> LabelColumn:
    array = column_array(column, field)
    codes: IntArray
    if array.dtype.kind in "biu":
        distinct, codes = label_column(array, field)
    else:
        values: list[Any] = array.tolist()
        try:
            distinct, codes = factorised(values)
        except TypeError:  # an unhashable value, which is refused below
            distinct, codes = values, np.arange(len(values))
    labels: dict[Label | None, int] = {}
    merged = np.zeros(len(distinct), dtype=np.int64)
    for code, value in enumerate(distinct):
        try:
            label = value_of(value)
        except InputError as error:
            raise error.at(int(np.argmax(codes == code))) from None
        merged[code] = labels.setdefault(label, len(labels))
    if len(labels) < len(distinct):
        codes = merged[codes]
    return LabelColumn(list(labels), codes)  # type: ignore[arg-type]


class SlicedWindows:
    """The windows of one evaluator: the total's and each slice's, with one timeline."""

    __slots__ = (
        "_plan",
        "_slicer",
        "_spec",
        "_time_unit",
        "needs_time",
        "slices",
        "timeline",
        "total",
    )

    def __init__(
        self, spec: WindowSpec, plan: StatePlan, slicer: Slicer, time_unit: str | None
    ) -> None:
        self._spec = spec
        self._plan = plan
        self._slicer = slicer
        self._time_unit = time_unit
        self.needs_time = spec.needs_time
        self.timeline: BucketTimeline | None = spec.timeline()
        self.total: Window = spec.open(plan, self.timeline)
        self.slices: dict[SliceKey, Window] = {}

    @property
    def alone(self) -> bool:
        """Whether every event is counted in the total only, whatever its time."""
        return self.timeline is None and not self._slicer.dimensions

    def follow(self, other: SlicedWindows, newest: int | None) -> None:
        """Continue another's timeline and open slices, without its events."""
        if self.timeline is not None and newest is not None:
            self.timeline.reach(newest)
        # What is open there counts as open here.
        self._slicer.reserved, self._slicer.opened = other.slices.keys(), other._slicer.opened

    def add(self, event: EventFields, event_time: object, slices: object) -> None:
        """Count an event unless it is too late, or raise InputError and change nothing."""
        if event[3] != 1:
            self._spec.check_weight(event[3])
        timeline, slicer = self.timeline, self._slicer
        moment = self._moment(event_time) if self.needs_time else None
        keys = slicer.keys(slices) if slicer.dimensions else ()
        if not event[3]:
            return  # weight 0 counts for nothing
        if timeline is not None:
            latest = timeline.latest
            if moment is None:
                moment = 0 if latest is None else latest + 1
            if latest is not None and moment < latest and timeline.drops(moment):
                timeline.admit(moment)
                return
        for key in keys:
            window = self.slices.get(key) or self.slices.get(other_key(key))
            if window is not None:
                window.check(event, moment)
        # The last call that can refuse: a new slice can hold what the total accepts.
        self.total.add(event, moment)
        if timeline is not None:
            timeline.admit(moment)  # type: ignore[arg-type]
        for key in keys:
            window = self.slices.get(key)
            if window is None:
                window = self._open(slicer.admit(key, self.slices))
            window.add(event, moment)

    def fast_path_of(self, names: tuple[str, ...], values: tuple[object, ...]) -> Any:
        """The fast path of an event in an open slice; None where only Python counts."""
        keys = self._slicer.keys(dict(zip(names, values, strict=True)))
        window = self.slices.get(keys[self._slicer.dimensions.index(names)])
        path = None if window is None else window.fast_path()
        return None if path is None else path.counts

    def _moment(self, value: object) -> int:
        if value is None:
            raise clock.time_missing()
        timeline = self.timeline
        first = timeline is not None and timeline.latest is None
        return clock.event_time(value, self._time_unit, first=first)

    def _open(self, key: SliceKey) -> Window:
        window = self.slices.get(key)
        if window is None:
            window = self.slices[key] = self._spec.open(self._plan, self.timeline)
        return window

    def add_many(self, batch: EventBatch, event_time: object, slices: object) -> None:
        """Count a batch as its events one by one, or raise InputError and change nothing."""
        self.stage_many(batch, event_time, slices)()

    def stage_many(
        self, batch: EventBatch, event_time: object, slices: object
    ) -> Callable[[], None]:
        """Check a batch, or raise InputError; the result, called next, counts it without fail."""
        self._spec.check_weight(batch.weight)
        # Events of weight 0 are validated and not counted.
        rows = batch.weighing()
        moments = self._moments(event_time, len(batch), rows) if self.needs_time else None
        coded = self._slicer.coded(slices, len(batch)) if self._slicer.dimensions else []
        if rows is not None:
            batch, moments = batch.take(rows), None if moments is None else moments[rows]
        if not len(batch):
            return lambda: None
        timeline, arrivals = self.timeline, None
        if timeline is not None:
            if moments is None:
                moments = timeline.tick(len(batch))
            arrivals = timeline.arrivals(moments)
            if arrivals.kept is not None:
                batch, moments = batch.take(arrivals.kept), moments[arrivals.kept]
                rows = arrivals.kept if rows is None else rows[arrivals.kept]
            if not len(batch):
                return partial(timeline.admit_many, arrivals)
        placed = self._place(coded, rows)
        count = self._stage_sets(batch, moments, arrivals, placed)
        if count is None:
            count = _stage_rows(batch, moments, placed)

        def commit() -> None:
            if timeline is not None and arrivals is not None:
                timeline.admit_many(arrivals)
            self._slicer.opened = placed.slicer.opened
            self._slicer.overflowed = placed.slicer.overflowed
            self.slices |= placed.opened
            count()

        return commit

    def _moments(self, event_time: object, length: int, rows: IntArray | None) -> IntArray:
        """The events' times; the first event that is counted decides as one by one."""
        if event_time is None:
            raise clock.time_missing()
        first = 0
        if self.timeline is not None and self.timeline.latest is None:
            first = 1 if rows is None else int(rows[0]) + 1 if len(rows) else length
        return clock.event_times(event_time, length, self._time_unit, first=first)

    def _place(self, coded: Iterable[SliceCodes], rows: IntArray | None) -> _Placement:
        """The window that counts each event of these rows (None: all) in each dimension."""
        arrived: list[tuple[int, SliceKey, int, IntArray, int]] = []
        dimensions: list[tuple[IntArray, IntArray]] = []
        for codes, key_of in coded:
            if rows is not None:
                codes = codes[rows]
            if codes.max() > 2 * len(codes):
                codes = np.unique(codes, return_inverse=True)[1]
            codes = np.ascontiguousarray(codes, dtype=np.int64)
            windows_of = np.zeros(int(codes.max()) + 1, dtype=np.int64)
            dimensions.append((codes, windows_of))
            for code, first, count in _occurrences(codes, len(windows_of)):
                key = key_of(first if rows is None else int(rows[first]))
                arrived.append((first, key, count, windows_of, code))
        # As one by one: by the first event of a slice, then by dimension, in whose order they are.
        arrived.sort(key=itemgetter(0))
        slicer, known = copy(self._slicer), ChainMap[SliceKey, Any]({}, self.slices)
        number_of: dict[SliceKey, int] = {}
        for _, key, count, windows_of, code in arrived:
            owner = slicer.admit(key, known, count)
            known[owner] = None
            windows_of[code] = number_of.setdefault(owner, len(number_of) + 1)
        new = [key for key in number_of if key not in self.slices]
        opened = {key: self._spec.open(self._plan, self.timeline) for key in new}
        every = {**self.slices, **opened} if opened else self.slices
        windows = [self.total, *map(every.__getitem__, number_of)]
        return _Placement(windows, dimensions, opened, slicer)

    def _stage_sets(
        self,
        batch: EventBatch,
        moments: IntArray | None,
        arrivals: Arrivals | None,
        placed: _Placement,
    ) -> Callable[[], None] | None:
        """Have compiled code sort the batch; None where it cannot. The result counts it."""
        keeps, timeline, windows = self._plan.keeps, self.timeline, placed.windows
        if (
            _SETS is None
            or not self._plan.sorted
            or batch.weight is not None
            or batch.unit is not None
            or not self.total.takes_partition([])
            or len(batch) >= 2**32
        ):
            return None
        width = least = 0
        if timeline is not None and arrivals is not None:
            width, least = timeline.width, timeline.oldest_at(arrivals.latest)
        sets = _SETS.BatchPartition(
            np.ascontiguousarray(batch.y_true),
            _contiguous(batch.y_pred if "confusion" in keeps else None),
            _contiguous(batch.score if "index" in keeps else None),
            # A copy: places are computed of them, and the array may be the caller's.
            None if moments is None else moments.copy(),
            width,
            least,
            len(windows),
            placed.dimensions,
        )
        spans = sets.spans()
        if not all(windows[n].takes_partition(numbers) for n, _, numbers in spans):
            return None

        def count() -> None:
            # Of the timeline as it is after the batch.
            buckets = () if timeline is None else filter(timeline.closed, sets.buckets())
            closed = frozenset(buckets)
            for n, first, numbers in spans:
                windows[n].add_parts(sets, first, numbers, closed)

        return count

    def remove(self, event: EventFields, event_time: object, slices: object) -> Undo:
        """Undo one earlier event in each of its windows, or raise InputError and change nothing."""
        moment = self._moment(event_time) if self.needs_time else None
        if self.timeline is not None and moment is None:
            raise InputError(
                "revert",
                expected="a window of event time",
                got="one that fades by the number of events, where this event's is not known",
            )
        keys = self._slicer.keys(slices) if self._slicer.dimensions else []
        if not event[3]:
            return lambda: None
        undone: list[Undo] = [self.total.remove(event, moment)]

        def restore() -> None:
            for undo in reversed(undone):
                undo()

        try:
            for key in keys:
                window = self.slices.get(self._slicer.located(key, self.slices))
                if window is None:
                    got = f"none in {slice_name(key)}"
                    raise InputError("revert", expected="an event that was counted", got=got)
                undone.append(window.remove(event, moment))
        except InputError:
            # Not counted in one of its slices, so not an event of this evaluator.
            restore()
            raise
        return restore

    def check_merge(self, other: SlicedWindows) -> None:
        """Raise StateError where the windows of two shards cannot be merged."""
        self.total.check_merge(other.total)
        if self.timeline is None:
            # A slice's last events may be older than those of all. Panes and epochs hold no more.
            for key in other.in_order():
                own = self.slices.get(self._slicer.located(key, self.slices))
                if own is not None:
                    own.check_merge(other.slices[key])

    def merge(self, other: SlicedWindows) -> None:
        """Add another shard's events; the operand is unchanged."""
        if self.timeline is not None and other.timeline is not None:
            self.timeline.merge(other.timeline)
        self.total.merge(other.total)
        for key in other.in_order():
            own = self._slicer.admit(key, self.slices)
            self._open(own).merge(other.slices[key])
        self._slicer.overflowed += other._slicer.overflowed

    def in_order(self) -> list[SliceKey]:
        """The slices' keys, sorted."""
        return sorted(self.slices, key=slice_order)

    def retained(self) -> dict[str, Any]:
        """What the total's window keeps, and how many slices there are."""
        kept = dict(self.total.retained())
        if self._slicer.dimensions:
            kept["slices"] = len(self.slices)
            # One more called "(other)" for each dimension.
            kept["slices_at_most"] = self._slicer.max_slices + len(self._slicer.dimensions)
        return kept

    def to_state(self) -> dict[str, Any]:
        """Plain canonical data."""
        return {
            "window": self.total.to_state(),
            "timeline": None if self.timeline is None else self.timeline.to_state(),
            "slices": [
                {"key": [list(pair) for pair in key], "window": self.slices[key].to_state()}
                for key in self.in_order()
            ],
            "slices_overflowed": self._slicer.overflowed,
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take over a saved state; raises StateError."""
        timeline = data.get("timeline")
        if self.timeline is not None:
            self.timeline.restore(part_of(timeline, "timeline"))
        elif timeline is not None:
            raise StateError(f"timeline: expected null, got {shown(timeline)}")
        window = part_of(data.get("window"), "window")
        self.total = self._spec.restore(window, self._plan, self.timeline)
        saved, overflowed = data.get("slices"), data.get("slices_overflowed")
        if not isinstance(saved, list):
            raise StateError(f"slices: expected a list, got {shown(saved)}")
        if type(overflowed) is not int or overflowed < 0:
            raise StateError(f"slices_overflowed: expected a count, got {shown(overflowed)}")
        self._slicer.overflowed = overflowed
        for item in saved:
            if not isinstance(item, dict) or set(item) != {"key", "window"}:
                raise StateError(f"slices: expected a key and a window, got {shown(item)}")
        keys = [self._slicer.key_from_state(item["key"]) for item in saved]
        if sorted(keys, key=slice_order) != keys:
            raise StateError("slices: expected them sorted")
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise StateError(f"slices: {shown(slice_name(twice))} is there twice")
        for key, item in zip(keys, saved, strict=True):
            self._restore_slice(key, item)
        opened, most = self._slicer.opened, self._slicer.max_slices
        if opened > most:
            raise StateError(f"slices: expected at most {most}, got {opened}")

    def _restore_slice(self, key: SliceKey, item: Mapping[str, Any]) -> None:
        window = self._spec.restore(part_of(item["window"], "window"), self._plan, self.timeline)
        # An older version kept "7" beside 7, which are one slice now.
        one = tuple((name, slice_value(value)) for name, value in key)
        known = self.slices.get(one)
        if known is not None:
            try:
                known.check_merge(window)
            except StateError:
                one = key  # not mergeable, so it stays beside the other, with its value quoted
            else:
                known.merge(window)
                return
        self.slices[one] = window
        self._slicer.opened += one != other_key(one)

    def _check(self) -> None:
        for window in (self.total, *self.slices.values()):
            window._check()
        named = [key for key in self.slices if key != other_key(key)]
        reserved = [key for key in self._slicer.reserved if key != other_key(key)]
        assert self._slicer.opened == len({*named, *reserved}) <= self._slicer.max_slices


class _Placement(NamedTuple):
    """The windows that count the events of a batch."""

    windows: list[Window]
    """The total's, and those of the slices."""
    dimensions: list[tuple[IntArray, IntArray]]
    """Codes of the events' slices, and from a code to the number of the window."""
    opened: dict[SliceKey, Window]
    """The windows that are new."""
    slicer: Slicer
    """With the counts after the batch."""


def _stage_rows(
    batch: EventBatch, moments: IntArray | None, placed: _Placement
) -> Callable[[], None]:
    """Check each window's rows of a batch, or raise InputError; the result counts them."""
    total, *_ = windows = placed.windows
    staged = [total.stage(batch, moments)]
    few: list[tuple[Window, IntArray]] = []
    for codes, windows_of in placed.dimensions:
        numbers = windows_of[codes]
        for rows in _rows_by_code(numbers):
            window = windows[numbers[rows[0]]]
            if len(rows) > _FEW:
                times = None if moments is None else moments[rows]
                staged.append(window.stage(batch.take(rows), times))
            else:
                few.append((window, rows))
    singles = _singles(few, batch, moments) if few else []

    def count() -> None:
        for count_part in staged:
            count_part()
        for window, event, moment in singles:
            window.add(event, moment)

    return count


def _singles(
    few: list[tuple[Window, IntArray]], batch: EventBatch, moments: IntArray | None
) -> list[tuple[Window, EventFields, int | None]]:
    """The events of slices of a few events, for which numpy would take longer, checked."""
    taken = np.concatenate([rows for _, rows in few])
    events = iter(batch.take(taken).events())
    times = iter([None] * len(taken) if moments is None else moments[taken].tolist())
    singles: list[tuple[Window, EventFields, int | None]] = []
    for window, rows in few:
        mine = list(islice(events, len(rows)))
        weight = sum(event[3] for event in mine)
        for event, moment in zip(mine, islice(times, len(rows)), strict=True):
            # Each could be counted with the weight of all.
            window.check((*event[:3], weight, *event[4:]), moment)
            singles.append((window, event, moment))
    return singles


def _occurrences(codes: IntArray, most: int) -> list[tuple[int, int, int]]:
    """(code, its first row, number of its rows) of each code that occurs, ascending."""
    if _SETS is not None:
        found: list[tuple[int, int, int]] = _SETS.occurrences(codes, most)
        return found
    columns = np.unique(codes, return_index=True, return_counts=True)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _rows_by_code(codes: IntArray) -> list[IntArray]:
    """The ascending rows of each code that occurs."""
    # Of 16 bits numpy's stable sort is by digits, ten times as fast.
    few = codes.max(initial=0) < 2**15
    order = np.argsort(codes.astype(np.int16) if few else codes, kind="stable")
    borders = [0, *(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), len(codes)]
    return [order[start:end] for start, end in pairwise(borders)]


def _contiguous(column: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    return None if column is None else np.ascontiguousarray(column)


def part_of(part: object, key: str) -> dict[str, Any]:
    """An object within a saved state; raises StateError for anything else."""
    if not isinstance(part, dict):
        raise StateError(f"{key}: expected an object, got {shown(part)}")
    return part
