"""Events from iterables, and metrics by the number of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from streameval.errors import InputError, shown
from streameval.evaluator.reports import Report, ReportRow, Table, Tabular, number
from streameval.events.values import Weight
from streameval.metrics.registry import USUAL_METRICS, find, metric_names
from streameval.tasks.registry import TaskName
from streameval.uncertainty.interval import Bounds, Interval

_ARGUMENTS = ("y_true", "y_pred", "score", "proba", "weight", "event_time", "slices", "unit")


class Countable(Protocol):
    """What counts events: an evaluator or a track."""

    @property
    def update(self) -> Callable[..., object]: ...
    @property
    def update_many(self) -> Callable[..., object]: ...


class Tracked(Countable, Protocol):
    """What a track reads: an evaluator."""

    @property
    def task(self) -> TaskName: ...
    @property
    def report(self) -> Callable[..., Report]: ...


def consume(
    evaluator: Countable, events: Iterable[object], fields: tuple[str, ...], batch: int
) -> int:
    """Count the events of an iterable; see :meth:`streameval.Evaluator.consume`."""
    for name in fields:
        if name not in _ARGUMENTS:
            raise InputError("fields", expected=f"some of {', '.join(_ARGUMENTS)}", got=shown(name))
    if type(batch) is not int or batch < 1:
        raise InputError("batch", expected="a number of events above 0", got=shown(batch))
    try:
        source = iter(events)
    except TypeError:
        raise InputError("events", expected="an iterable of events", got=shown(events)) from None
    counted = 0
    pending: list[dict[str, Any]] = []
    try:
        for event in source:
            given = _arguments(event, fields, counted + len(pending))
            if len(pending) >= batch or (pending and given.keys() != pending[0].keys()):
                ready, pending = pending, []
                counted += _count(evaluator, ready, counted)
            pending.append(given)
    finally:
        # Also where the iterable raised: what it gave is counted.
        counted += _count(evaluator, pending, counted)
    return counted


def _arguments(event: object, fields: tuple[str, ...], position: int) -> dict[str, Any]:
    if isinstance(event, Mapping):
        needed = {"y_true"} & set(fields)  # predictions have none
        if not needed <= event.keys() <= {*needed, *_ARGUMENTS[1:]}:
            raise InputError(
                "events",
                expected=f"{'y_true and ' * len(needed)}some of {', '.join(_ARGUMENTS[1:])}",
                got=shown(list(event)),
                position=position,
            )
        return dict(event)
    if isinstance(event, (tuple, list)) and len(event) == len(fields):
        return dict(zip(fields, event, strict=True))
    raise InputError(
        "events",
        expected=f"a mapping, or a tuple of {', '.join(fields)}",
        got=shown(event),
        position=position,
        remedy="fields= says what the values of a tuple are",
    )


def _count(evaluator: Countable, events: list[dict[str, Any]], before: int) -> int:
    """Count events of the same arguments: at once, or one by one up to the one refused."""
    if not events:
        return 0
    try:
        columns: dict[str, Any] = {name: [event[name] for event in events] for name in events[0]}
        if "slices" in columns:
            columns["slices"] = _by_key(columns["slices"])
        evaluator.update_many(**columns)
    except (InputError, TypeError, AttributeError):
        # Nothing of the batch was counted.
        for position, event in enumerate(events, before):
            try:
                evaluator.update(**event)
            except InputError as error:
                raise error.at(position) from None
    return len(events)


def _by_key(slices: list[Mapping[str, object]]) -> dict[str, list[object]]:
    keys = dict.fromkeys(key for values in slices for key in values)
    return {key: [values.get(key) for values in slices] for key in keys}


class TrackRow(NamedTuple):
    """A metric at a moment of a track; the fields are those of a series over time."""

    start: int
    """Events before the row's own."""
    end: int
    """Events up to the row."""
    value: float
    reason: str
    support: Weight
    interval: Interval | None = None
    bounds: Bounds | None = None


class Track(Tabular):
    """Metrics of an evaluator after every so many events, for a stream without times.

    Count events through the track, with :meth:`update`, :meth:`update_many` or :meth:`consume`;
    or count them in the evaluator and call :meth:`tick`. A row reads the evaluator's window at
    that moment: all events so far, or, with ``window=Last(every)``, the events since the row
    before. Events counted before the track was made are in the values and not in its numbers of
    events; events of weight 0 are in the numbers and not in the values.

    Args:
        evaluator: What the metrics are read from.
        every: After how many events.
        metrics: Names; by default the main ones of the task.

    >>> from streameval import Evaluator
    >>> track = Evaluator().track(every=2)
    >>> track.consume([(1, 1), (0, 1), (1, 1)])
    3
    >>> [(row.start, row.end, row.value) for row in track.series("accuracy")]
    [(0, 2, 0.5), (2, 3, 0.6666666666666666)]
    """

    __slots__ = ("_evaluator", "_events", "_every", "_names", "_rows")

    def __init__(
        self, evaluator: Tracked, every: int, metrics: Iterable[str] | None = None
    ) -> None:
        if type(every) is not int or every < 1:
            raise InputError("every", expected="a number of events above 0", got=shown(every))
        self._evaluator = evaluator
        self._every = every
        self._names: list[str] | None = None
        if metrics is not None:
            self._names = [find(name, evaluator.task).name for name in metric_names(metrics)]
        self._events = 0
        self._rows: list[tuple[int, dict[str, ReportRow]]] = []

    @property
    def events(self) -> int:
        """How many events there were."""
        return self._events

    def tick(self, events: int = 1) -> None:
        """Note that events were counted in the evaluator; a row where one was due, or several.

        Raises:
            InputError: No number of events.
        """
        if type(events) is not int or events < 0:
            raise InputError("events", expected="a number of events", got=shown(events))
        due = self._events // self._every
        self._events += events
        if self._events // self._every > due:
            self._rows.append(self._row())

    @property
    def _begun(self) -> bool:
        """Whether there are events after the last row."""
        return self._events > (self._rows[-1][0] if self._rows else 0)

    def update(self, *arguments: Any, **named: Any) -> None:
        """:meth:`streameval.Evaluator.update`, and a row where it is due."""
        self._evaluator.update(*arguments, **named)
        self.tick()

    def update_many(self, *arguments: Any, **columns: Any) -> None:
        """:meth:`streameval.Evaluator.update_many`, in parts between rows.

        Columns are what can be sliced: lists, arrays. Parts before a refused one stay counted.
        """
        every = [column for column in (*arguments, *columns.values()) if column is not None]
        first = next(iter(every), ())
        if isinstance(first, Mapping):
            first = next(iter(first.values()), ())
        start, length = 0, len(first)
        while start < length:
            end = min(length, start + self._every - self._events % self._every)

            def part(column: Any, start: int = start, end: int = end) -> Any:
                if isinstance(column, Mapping):
                    return {name: values[start:end] for name, values in column.items()}
                return None if column is None else column[start:end]

            named = {name: part(column) for name, column in columns.items()}
            self._evaluator.update_many(*map(part, arguments), **named)
            self.tick(end - start)
            start = end

    def consume(
        self, events: Iterable[object], *, fields: Iterable[str] = ("y_true", "y_pred")
    ) -> int:
        """:meth:`streameval.Evaluator.consume`, with a row where one is due."""
        source, counted, names = iter(events), 0, tuple(fields)
        while True:
            before, room = self._events, self._every - self._events % self._every
            ready = list(islice(source, room))
            if not ready:
                return counted
            try:
                got = consume(self._evaluator, ready, names, room)
            except InputError as error:
                position = None if error.position is None else counted + error.position
                raise error.at(position) from None
            self.tick(got)
            counted += self._events - before

    def _row(self) -> tuple[int, dict[str, ReportRow]]:
        evaluator = self._evaluator
        if self._names is None:
            known = {row.metric for row in evaluator.report()}
            self._names = [name for name in USUAL_METRICS["folds", evaluator.task] if name in known]
        return self._events, {row.metric: row for row in evaluator.report(self._names)}

    def _all(self) -> Iterator[tuple[int, dict[str, ReportRow]]]:
        """The rows, and one of the events since the last where there are any."""
        yield from self._rows
        if self._begun:
            yield self._row()

    def series(self, metric: str) -> list[TrackRow]:
        """The rows of a metric, for :class:`~streameval.plots.SeriesDisplay` ``.of_rows``.

        Raises:
            InputError: The metric is not tracked.
        """
        series: list[TrackRow] = []
        start = 0
        for events, rows in self._all():
            row = rows.get(metric)
            if row is None:
                raise InputError("metric", expected=f"one of {', '.join(rows)}", got=shown(metric))
            series.append(TrackRow(start, events, row.value, row.reason, row.support))
            start = events
        return series

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns, for a data frame: ``pandas.DataFrame(track.to_dict())``."""
        rows = list(self._all())
        names = rows[0][1] if rows else ()
        return {
            "events": [events for events, _ in rows],
            **{name: [float(values[name].value) for _, values in rows] for name in names},
        }

    def __len__(self) -> int:
        return len(self._rows) + self._begun

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        columns = self.to_dict()
        lines = zip(*columns.values(), strict=True)
        return list(columns), [[str(events), *map(number, values)] for events, *values in lines]

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return self.to_dict()

    def table(self) -> Table:
        """The rows as cells."""
        header, rows = self._cells()
        return Table(header, rows, frozenset(header))

    def __repr__(self) -> str:
        return f"<Track: {self._events} events, a row every {self._every}>"
