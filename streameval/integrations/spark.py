"""streameval on Apache Spark: exact states of DataFrames and of Structured Streaming.

Spark schedules, shuffles and retries; here is only what a task does with its rows. A task counts
them in an :class:`~streameval.Evaluator` and returns its state as bytes; further tasks
merge those. Counting and merging depend on nothing but their rows and leave their operands as
they are, so a task that Spark runs again, or twice at once, changes nothing.

Importing this module needs the extra ``spark``. Examples that run are in docs/spark.md.
"""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from typing import Any, Literal

import numpy as np

from streameval.errors import (
    InputError,
    MissingExtraError,
    OptionError,
    StateError,
    StreamevalError,
    listed,
    shown,
)
from streameval.evaluator.evaluator import Evaluator, from_bytes
from streameval.evaluator.reports import ReportRow
from streameval.evaluator.slices import Slicer, slice_name
from streameval.events.time import duration, duration_text, event_times
from streameval.metrics.registry import find, metric_names, shown_metrics
from streameval.records.event_table import PartCounter, check_name, no_table_column
from streameval.records.spec import Proba
from streameval.tasks.registry import TaskName
from streameval.uncertainty.interval import DEFAULT_LEVEL
from streameval.windows.panes import Panes
from streameval.windows.time_buckets import grouped
from streameval.windows.window import WindowSpec

try:
    import pyarrow as arrow
    import pyspark
    from pyarrow import compute
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column, DataFrame, Row, functions, types
except ImportError as error:
    package = (error.name or "pyspark").partition(".")[0]
    raise MissingExtraError("streameval on Spark", package=package, extra="spark") from None

__all__ = ["evaluate", "evaluate_stream", "merge_states"]

_ROWS = 1 << 18
_BYTES = 1 << 26
"""Rows, and bytes, counted at once: Spark's own batches have 10,000 rows, and the score index
merges once a batch."""

_DENSE = 256
"""Rows a group, above which a task sends states through the shuffle and not the rows."""

_OPEN = 1000
"""Groups of which a task holds states at once."""

_LARGEST = 2**31 - 2**20
"""Bytes that a cell of Spark holds."""

_PARTIAL = "part int, state binary, error binary"
"""A task's result: the partition it counted, and its state, or the error that ended it."""

_SUPPORT = "events"
_STATE = "state"
_REASONS = "reasons"
_BOUNDS = "bounds"

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"

_WATERMARK = "spark.watermarkDelayMs"
"""Key under which Spark keeps the delay of a watermark, among the metadata of its column."""


def evaluate(
    df: DataFrame,
    *,
    y_true: str | Mapping[Any, str] = "y_true",
    y_pred: str | None = None,
    score: str | None = None,
    proba: Proba | None = None,
    weight: str | None = None,
    unit: str | None = None,
    time: str | None = None,
    by: Iterable[str | Iterable[str]] | None = (),
    group_by: str | Column | Sequence[str | Column] = (),
    window: WindowSpec | None = None,
    task: TaskName | Literal["auto"] | None = None,
    metrics: Iterable[str] | None = None,
    intervals: bool | float = False,
    **options: Any,
) -> Any:
    """Evaluate the predictions in a DataFrame, exactly.

    Each task counts the rows of its partitions; further tasks merge the states, and the
    driver gets one. The state's bytes are those of one evaluator that was given all rows,
    whatever the partitions, retries and speculative tasks.

    Args:
        df: One row an event. A dot in the name of a column goes into a struct.
        y_true: Column of the true label, number or list of labels; or, of label sets, the columns
            of 0 and 1: ``PREFIX*SUFFIX`` or a mapping from labels, which they declare.
        y_pred: Column of the predicted label.
        score: Binary: column of the positive class's score.
        proba: Probabilities: a column that is a map or struct label -> number, an array or a
            vector of Spark ML in the order of ``labels``, or (binary) the positive class's number;
            or columns: ``PREFIX*SUFFIX``, a mapping from each label to its column, or a list in
            the order of ``labels``.
        weight: Column of the weight.
        unit: Column of the unit, with ``bootstrap=``, whose own ``unit`` it is by default.
        time: Column of the event time: a timestamp, or a number with ``time_unit=``.
        by: Columns, or tuples of columns, to slice by within the one evaluator.
        group_by: Columns to evaluate by, any number of groups: names, or expressions such as
            ``functions.window("at", "1 hour")``.
        window: None, :class:`~streameval.Panes` or :class:`~streameval.Fading` of event time.
            A DataFrame has no order of arrival: events count in the order of their times,
            so none is late.
        task: As of :class:`~streameval.Evaluator`; by default binary where ``score``,
            ``positive`` or ``threshold`` is given, and else multi-class.
        metrics: Names; only the states that they need are kept.
        intervals: Keep what only intervals read. With ``group_by`` also the level of the
            intervals to return; True is 0.95.
        **options: Any other option of :class:`~streameval.Evaluator`, such as ``positive``,
            ``labels``, ``max_scores`` or ``max_slices``.

    Returns:
        An :class:`~streameval.Evaluator`. With ``group_by`` a DataFrame with a row a group: its
        columns, a column a metric (``nan`` where undefined; with ``intervals`` also NAME_low and
        NAME_high), ``reasons`` of what is undefined, certain ``bounds`` of what depends on more
        scores than ``max_scores``, ``events`` (their weight) and ``state``.

    Cost:
        One pass over the named columns. What is sent between tasks and to the driver is states:
        24 bytes a distinct score, of which there are ``max_scores`` at most.

    Raises:
        InputError: A column that is not there or has a wrong type, options that conflict, or a
            row that cannot be counted, with its partition and its number there.
        MetricError: An unknown metric.
        StateError: States that do not merge, such as those of partitions with different
            negative labels, or one that is larger than a cell of Spark, 2 GB.
    """
    given = {**locals()}
    groups = _listed(group_by, "group_by")
    if df.isStreaming:
        raise InputError(
            "df",
            expected="a DataFrame that ends",
            got="one of a stream",
            remedy="call evaluate_stream, or evaluate within foreachBatch",
        )
    if groups and window is not None:
        remedy = f'group by functions.window("{time or "TIME"}", "1 hour") too'
        raise OptionError.conflicts("group_by", "window", remedy=remedy)
    counter = PartCounter.of_call(given, intervals=bool(intervals))
    event, counter = _events(df, counter)
    _check_interpreter(df)
    if groups:
        values = _Values.of(counter, metrics, intervals)
        keys = _keys(df, groups, "group_by", values, event)
        rows = df.select(*_numbered(keys), event)
        # Of a group of many rows a state goes through the shuffle; the rows of others are smaller.
        combine = partial(_combine_groups, counter, len(keys))
        state = types.StructField(_STATE, types.BinaryType())
        combined = rows.mapInArrow(combine, types.StructType([*rows.schema, state]))
        return _groups_applied(combined, [*keys], counter, values)
    rows = df.select(event)
    if time is not None:
        # No event is then late in its partition; the merge of partitions keeps the newest.
        rows = rows.sortWithinPartitions(functions.col(_EVENT).getField(time))
    found = _root(rows.mapInArrow(partial(_count_partition, counter), _PARTIAL))
    return counter.evaluator() if found is None else found


def merge_states(
    df: DataFrame,
    column: str = _STATE,
    *,
    by: str | Column | Sequence[str | Column] = (),
    metrics: Iterable[str] = (),
    intervals: bool | float = False,
) -> Any:
    """Merge the states in a column, as an aggregation.

    States may come from :func:`evaluate`, :func:`evaluate_stream`, ``Evaluator.to_bytes``, or
    files read as ``binaryFile``. Nulls are left out.

    Args:
        df: One state a row.
        column: The column that holds them.
        by: Columns to merge by, as ``group_by`` of :func:`evaluate`.
        metrics: With ``by``: names of metrics to return.
        intervals: With ``by``: the level of their intervals; True is 0.95.

    Returns:
        The evaluator of all states. With ``by`` a DataFrame with a row a group: its columns, the
        metrics as of :func:`evaluate`, ``reasons``, ``bounds``, ``events`` and ``state``.

    Raises:
        InputError: No such column, or one that is not binary.
        StateError: No state at all, bytes that are none, or states of different settings.
    """
    groups = _listed(by, "by")
    names = metric_names(metrics) if metrics else ()
    if not groups:
        for name, given in (("metrics", names), ("intervals", intervals)):
            if given:
                remedy = "the result is an Evaluator, which has all of them"
                raise OptionError.requires(name, "by", remedy=remedy)
    state = _column(df, column, "column")
    kind = df.select(state).schema[0].dataType
    if not isinstance(kind, types.BinaryType):
        raise InputError(
            f"column {column!r}",
            expected="states, which are binary",
            got=f"a column of type {kind.simpleString()}",
            remedy="write the state column as it is, not as text",
        )
    _check_interpreter(df)
    if groups:
        values = _Values(tuple(names), _level(intervals))
        keys = _keys(df, groups, "by", values, state)
        rows = df.select(*_numbered(keys), state.alias(_STATE))
        return _groups_applied(rows, [*keys], None, values)
    tagged = df.select(
        functions.spark_partition_id().alias("part"),
        state.alias(_STATE),
        functions.lit(None).cast("binary").alias("error"),
    ).where("state is not null")
    found = _root(tagged.mapInArrow(_merge_partition, _PARTIAL))
    if found is None:
        raise StateError("expected at least one state to merge, got none")
    return found


# Columns of a DataFrame, in types that an evaluator takes.


_EVENT = "event"
"""The column that holds an event, a struct: a name within one may have dots for Spark."""


def _events(df: DataFrame, counter: PartCounter) -> tuple[Any, PartCounter]:
    """The events of a DataFrame as one column, and the counter of what it holds."""
    # Each task would find the same columns; here an error is known before any of them.
    counter = counter.with_columns(df.columns)
    time = counter.spec.time
    chosen = {path: _column(df, path, use) for use, path in counter.paths.items()}
    schema = df.select(*(column.alias(path) for path, column in chosen.items())).schema
    if time is not None:
        kind = schema[time].dataType
        times = types.TimestampType | types.TimestampNTZType | types.NumericType
        if not isinstance(kind, times):
            raise InputError(
                f"time: column {time!r}",
                expected="timestamps, or numbers with time_unit=",
                got=f"a column of type {kind.simpleString()}",
                remedy=f'convert it with functions.to_timestamp("{time}")',
            )
    fields = [_readable(field, chosen[field.name]).alias(field.name) for field in schema]
    return functions.struct(*fields).alias(_EVENT), counter


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column(df: DataFrame, path: str, use: str) -> Any:
    """A column of a DataFrame, or with a dot one of a struct."""
    check_name(path, use)
    known = _known(df, path, df.columns, use)
    if known is not None:
        return functions.col(_quoted(known))
    column: Any = None
    kind: Any = df.schema
    names: list[str] = df.columns
    for name in path.split("."):
        inner = kind.names if isinstance(kind, types.StructType) else []
        known = _known(df, name, inner, use)
        if known is None:
            raise no_table_column(use, path, names)
        kind = kind[known].dataType
        if column is None:
            column = functions.col(_quoted(known))
            names = [*names, *(f"{known}.{each}" for each in getattr(kind, "names", ()))]
        else:
            column = column.getField(known)
    return column


def _known(df: DataFrame, name: str, names: Sequence[str], use: str) -> str | None:
    """The one of the names that is this one for Spark, by default in any case; None for none."""
    sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    found = [
        each for each in names if each == name or (not sensitive and each.lower() == name.lower())
    ]
    if len(found) > 1:
        raise InputError(
            use,
            expected=f"one column {name!r}",
            got=f"{len(found)}: {', '.join(map(repr, found))}",
            remedy="rename the others" if sensitive else "rename the others: case does not count",
        )
    return found[0] if found else None


def _readable(field: types.StructField, column: Any) -> Any:
    """The column in a type that numpy has: a decimal as a number, a vector as an array."""
    if isinstance(field.dataType, types.DecimalType):
        return column.cast("double")
    if field.dataType.typeName() == "vectorudt":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column)
    return column


def _check_interpreter(df: DataFrame) -> None:
    """Raise InputError where workers on this machine would run a Python without streameval."""
    context = getattr(df.sparkSession, "_sc", None)  # a remote session has none
    if context is None or not context.master.startswith("local"):
        return
    program = shutil.which(context.pythonExec)
    if program != sys.executable and not _has_streameval(program):
        raise InputError(
            "PYSPARK_PYTHON",
            expected=f"a Python that has streameval, such as {sys.executable}",
            got=shown(context.pythonExec),
            remedy="set this variable before the Spark session is created",
        )


@cache
def _has_streameval(program: str | None) -> bool:
    if program is None:
        return False
    command = [program, "-c", "import streameval.integrations.spark"]
    return subprocess.run(command, capture_output=True).returncode == 0


# What tasks do.


def _merged(states: Iterable[Evaluator]) -> Evaluator | None:
    """The merge of states, which were read here, into the first; None where there are none."""
    stream = iter(states)
    whole = next(stream, None)
    if whole is not None:
        for state in stream:
            # Two tasks may have counted equal events, and have equal states: both count.
            whole.add_events(state)
    return whole


def _of_events(rows: arrow.Table) -> arrow.Table:
    """The events' own columns."""
    return arrow.Table.from_struct_array(rows.column(_EVENT))


def _tables(batches: Iterable[arrow.RecordBatch]) -> Iterator[arrow.Table]:
    """Spark's small batches, joined."""
    pending: list[arrow.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield arrow.Table.from_batches(pending)
            pending, rows, size = [], 0, 0
    if rows:
        yield arrow.Table.from_batches(pending)


def _count_partition(
    counter: PartCounter, batches: Iterator[arrow.RecordBatch]
) -> Iterator[arrow.RecordBatch]:
    """The state of a partition's rows, or its first error; nothing where there are no rows."""
    part = _partition()
    evaluator = counter.evaluator()
    start = 0
    try:
        for rows in _tables(batches):
            counter.count_table(
                evaluator, _of_events(rows), f"partition {part}", range(start, sys.maxsize)
            )
            start += rows.num_rows
        if start:
            yield _partial(part, _packed(evaluator))
    except StreamevalError as error:
        yield _partial(part, None, error)


def _merge_partition(batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
    """The merge of a partition's states, or the error of the first partition that has one."""
    errors: list[tuple[int, bytes]] = []
    part = -1

    def states() -> Iterator[Evaluator]:
        nonlocal part
        for batch in batches:
            for row in batch.to_pylist():
                part = row["part"]
                if row["error"] is not None:
                    errors.append((part, row["error"]))
                else:
                    yield from_bytes(row["state"])

    try:
        merged = _merged(states())
    except StreamevalError as error:
        yield _partial(part, None, error)
        return
    if errors:
        part, failed = min(errors)
        yield _partial(part, None, pickle.loads(failed))
    elif merged is not None:
        yield _partial(part, _packed(merged))


def _partition() -> int:
    context = pyspark.TaskContext.get()
    return 0 if context is None else context.partitionId()


def _packed(evaluator: Evaluator) -> bytes:
    state = evaluator.to_bytes()
    if len(state) > _LARGEST:
        raise StateError(
            f"expected a state of at most 2 GB, which a cell of Spark holds, got {len(state)} "
            "bytes; pass max_scores="
        )
    return state


def _partial(part: int, state: bytes | None, error: Exception | None = None) -> arrow.RecordBatch:
    # Errors are sent as rows: the driver raises them, and not a failed job with its stack.
    failed = None if error is None else pickle.dumps(error)
    kinds = {"part": arrow.int32(), "state": arrow.binary(), "error": arrow.binary()}
    row = {"part": part, "state": state, "error": failed}
    return arrow.RecordBatch.from_pylist([row], schema=arrow.schema(kinds))


def _root(states: DataFrame) -> Evaluator | None:
    """The merge of all states: of the tasks' in a tree, so that the driver gets one."""
    # Spark decides by the states' size how many tasks merge; each holds two states at once.
    merged = states.repartition("part").mapInArrow(_merge_partition, _PARTIAL)
    top = merged.repartition(1).mapInArrow(_merge_partition, _PARTIAL).collect()
    if not top:
        return None
    if top[0].error is not None:
        raise pickle.loads(top[0].error)
    return from_bytes(bytes(top[0].state))


# A row a group.


@dataclass(frozen=True, slots=True)
class _Values:
    """The metrics to return of each state."""

    metrics: tuple[str, ...]
    level: float | None

    @classmethod
    def of(
        cls, counter: PartCounter, names: Iterable[str] | None, intervals: bool | float
    ) -> _Values:
        """Those named, or the default ones of what the columns give."""
        task: Any = counter.evaluator().task
        if names is None:
            scored = counter.spec.has_scores
            names = [row.name for row in shown_metrics(task) if scored or not row.needs_scores]
        return cls(tuple(find(name, task).name for name in metric_names(names)), _level(intervals))

    def rows(self, evaluator: Evaluator) -> tuple[ReportRow, ...]:
        if not self.metrics:
            return ()
        return evaluator.report(self.metrics, intervals=self.level).rows

    def schema(self) -> list[types.StructField]:
        fields = []
        for name in self.metrics:
            more = () if self.level is None else (f"{name}_low", f"{name}_high")
            fields += [types.StructField(each, types.DoubleType()) for each in (name, *more)]
        texts = types.MapType(types.StringType(), types.StringType())
        ends = [types.StructField(end, types.DoubleType()) for end in ("low", "high")]
        bounds = types.MapType(types.StringType(), types.StructType(ends))
        return [
            *fields,
            types.StructField(_REASONS, texts),
            types.StructField(_BOUNDS, bounds),
            types.StructField(_SUPPORT, types.DoubleType()),
            types.StructField(_STATE, types.BinaryType()),
        ]

    def columns(self, evaluator: Evaluator) -> dict[str, Any]:
        """One value of each of the schema's fields."""
        found: dict[str, Any] = {}
        rows = self.rows(evaluator)
        for row in rows:
            found[row.metric] = row.value
            if self.level is not None:
                found[f"{row.metric}_low"], found[f"{row.metric}_high"] = _ends(row)
        found[_REASONS] = [(row.metric, row.reason) for row in rows if row.reason]
        bounds = [(row.metric, row.bounds) for row in rows if row.bounds is not None]
        found[_BOUNDS] = [(name, {"low": two.low, "high": two.high}) for name, two in bounds]
        return found | {_SUPPORT: float(evaluator.total.support), _STATE: _packed(evaluator)}


def _level(intervals: bool | float) -> float | None:
    if isinstance(intervals, bool):
        return DEFAULT_LEVEL if intervals else None
    return intervals


def _ends(row: ReportRow) -> tuple[float | None, float | None]:
    if row.interval is None or not row.interval.defined:
        return None, None
    return row.interval.low, row.interval.high


def _listed(groups: Any, argument: str) -> list[Any]:
    if isinstance(groups, (str, Column)):
        return [groups]
    return listed(groups, argument, "columns, or one")


_NO_KEYS = (
    types.VariantType, types.MapType, types.CalendarIntervalType, types.YearMonthIntervalType,
)  # fmt: skip
"""Types that Spark does not sort by, or does not give to Python."""

_SESSION = "spark.sessionWindow"
"""Key that Spark's analysis puts into the metadata of a session window."""


def _keys(
    df: DataFrame, groups: list[Any], argument: str, values: _Values, beside: Any
) -> dict[str, Any]:
    """The columns to group by, by their names in the result; raises InputError."""
    keys: dict[str, Any] = {}
    taken = [field.name for field in values.schema()]
    for n, name in enumerate(groups):
        use = f"{argument}[{n}]"
        column = name if isinstance(name, Column) else _column(df, name, use)
        try:
            field = df.select(column, beside).schema[0]
        except AnalysisException as error:
            got = f"{name}, of which Spark says: {str(error).splitlines()[0]}"
            raise InputError(use, expected="an expression of a row", got=got) from None
        if isinstance(name, Column):
            if _SESSION in field.metadata:
                raise InputError(
                    use,
                    expected="an expression of a row",
                    got="session_window, whose sessions Spark merges in its own aggregations only",
                    remedy="group by functions.window",
                )
            name = field.name
        if _known(df, name, taken, use):
            raise InputError(
                argument,
                expected=f"columns that are named otherwise than the result's {name!r}",
                got=shown(groups),
                remedy=f'rename it: df.withColumnRenamed("{name}", ...)',
            )
        if _holds(field.dataType, _NO_KEYS):
            raise InputError(
                use,
                expected="a type that Spark sorts by and gives to Python",
                got=field.dataType.simpleString(),
                remedy='make it text: functions.col(...).cast("string"), or to_json(...)',
            )
        taken.append(name)
        keys[name] = column
    return keys


def _holds(kind: Any, some: tuple[type, ...]) -> bool:
    """Whether a type is one of some, or has one inside."""
    inner = [field.dataType for field in getattr(kind, "fields", ())]
    return isinstance(kind, some) or any(
        _holds(each, some) for each in (*inner, *filter(None, [getattr(kind, "elementType", None)]))
    )


def _numbered(keys: Mapping[str, Any]) -> list[Any]:
    """The columns under names that have no dots."""
    return [column.alias(f"group_{n}") for n, column in enumerate(keys.values())]


def _combine_groups(
    counter: PartCounter, groups: int, batches: Iterator[arrow.RecordBatch]
) -> Iterator[arrow.RecordBatch]:
    """A partition's rows, those of large groups as states; at most 1,000 states are held."""
    where = f"partition {_partition()}"
    empty = counter.evaluator()
    held: dict[tuple[str, ...], tuple[arrow.Table, Evaluator]] = {}
    start = 0
    for rows in _tables(batches):
        parts = list(chain.from_iterable(map(_scalars, rows.columns[:groups])))
        names = [f"key_{n}" for n in range(len(parts))]
        numbered = arrow.table([*parts, np.arange(rows.num_rows)], [*names, "row"])
        try:
            found = numbered.group_by(names).aggregate([("row", "list")])
        except arrow.ArrowNotImplementedError:  # lists: only Spark groups by them
            found = numbered
        if rows.num_rows < _DENSE * found.num_rows:
            states = arrow.nulls(rows.num_rows, arrow.binary())
            yield from rows.append_column(_STATE, states).to_batches()
        else:
            if len(held) + found.num_rows > _OPEN:
                yield from _flushed(held)
            for key, of_group in zip(
                found.select(names).to_pylist(), found.column("row_list"), strict=True
            ):
                mine = np.asarray(of_group.values)
                # As text, because nan, which is one group, is unequal to itself.
                text = tuple(map(repr, key.values()))
                if text not in held:
                    held[text] = rows.slice(mine[0], 1), empty.emptied()
                events = _of_events(rows.take(of_group.values))
                counter.count_table(held[text][1], events, where, start + mine)
        start += rows.num_rows
    yield from _flushed(held)


def _scalars(column: Any) -> list[Any]:
    """Columns that ``Table.group_by`` takes and that group as one does: structs are taken apart."""
    kind = column.type
    if arrow.types.is_timestamp(kind):
        return [column.cast(arrow.int64())]  # an hour that comes twice in its zone is two
    if not arrow.types.is_struct(kind):
        return [column]
    fields = [compute.struct_field(column, [n]) for n in range(kind.num_fields)]
    return [column.is_null(), *chain.from_iterable(map(_scalars, fields))]


def _flushed(
    held: dict[tuple[str, ...], tuple[arrow.Table, Evaluator]],
) -> Iterator[arrow.RecordBatch]:
    """The states that a task holds, each beside the first event of its group."""
    for first, evaluator in held.values():
        state = arrow.array([_packed(evaluator)], arrow.binary())
        yield from first.append_column(_STATE, state).to_batches()
    held.clear()


def _groups_applied(
    rows: DataFrame, groups: list[str], counter: PartCounter | None, values: _Values
) -> DataFrame:
    """A row a group, of rows of which each is a state or, without one, an event."""
    made = values.schema()
    keys = list(rows.schema)[: len(groups)]

    def group(
        key: tuple[arrow.Scalar, ...], batches: Iterator[arrow.RecordBatch]
    ) -> Iterator[arrow.RecordBatch]:
        named = ", ".join(f"{name}={value}" for name, value in zip(groups, key, strict=True))
        merged = None if counter is None else counter.evaluator()
        for table in _tables(batches):
            states = table.column(_STATE)
            parts = (from_bytes(state.as_py()) for state in states.drop_null())
            merged = _merged(parts if merged is None else chain([merged], parts))
            if counter is not None and merged is not None and states.null_count:
                events = _of_events(table.filter(states.is_null()))
                counter.count_table(merged, events, f"group {named}")
        if merged is not None:
            columns = values.columns(merged)
            yield _batch({field.name: one for field, one in zip(keys, key, strict=True)}, columns)

    found = rows.groupBy(*(field.name for field in keys)).applyInArrow(
        group, types.StructType([*keys, *made])
    )
    return found.toDF(*groups, *(field.name for field in made))


def _batch(keys: Mapping[str, arrow.Scalar], values: Mapping[str, Any]) -> arrow.RecordBatch:
    arrays = {name: arrow.repeat(key, 1).cast(_expected(key.type)) for name, key in keys.items()}
    kinds = {
        _REASONS: arrow.map_(arrow.string(), arrow.string()),
        _BOUNDS: arrow.map_(
            arrow.string(), arrow.struct([("low", arrow.float64()), ("high", arrow.float64())])
        ),
        _STATE: arrow.binary(),
    }
    for name, value in values.items():
        arrays[name] = arrow.array([value], kinds.get(name, arrow.float64()))
    return arrow.RecordBatch.from_pydict(arrays)


def _expected(kind: arrow.DataType) -> arrow.DataType:
    """The type in which Spark expects a key back, whatever the session's zone and settings are."""
    if arrow.types.is_timestamp(kind) and kind.tz is not None:
        return arrow.timestamp(kind.unit, "UTC")
    if arrow.types.is_struct(kind):
        fields = [kind.field(n) for n in range(kind.num_fields)]
        return arrow.struct([field.with_type(_expected(field.type)) for field in fields])
    if arrow.types.is_list(kind):
        return arrow.list_(kind.value_field.with_type(_expected(kind.value_type)))
    large = {arrow.large_string(): arrow.string(), arrow.large_binary(): arrow.binary()}
    return large.get(kind, kind)


# Streams.


def evaluate_stream(
    df: DataFrame,
    *,
    y_true: str | Mapping[Any, str] = "y_true",
    event_time: str,
    window: Panes,
    watermark: str | None = None,
    y_pred: str | None = None,
    score: str | None = None,
    proba: Proba | None = None,
    weight: str | None = None,
    by: Iterable[str | Iterable[str]] | None = (),
    task: TaskName | Literal["auto"] | None = None,
    metrics: Iterable[str] | None = None,
    intervals: bool | float = False,
    output_mode: str = "append",
    **options: Any,
) -> DataFrame:
    """Evaluate a stream in windows of event time, with Spark's Structured Streaming.

    A task counts what a micro-batch has of each slice and pane; a stateful operator, keyed by
    slice, merges that into the panes' states, which Spark keeps in its state store and
    checkpoints. So a query that was killed continues with the same bytes.

    An event is late, and dropped, where its pane ended before the watermark: the latest event
    time of earlier micro-batches less ``window.lateness``. Any other counts in its own pane.

    Args:
        df: A streaming DataFrame, one row an event.
        y_true: Column of the true label.
        event_time: Column of the event time, a timestamp.
        window: Length, pane and lateness. ``retain`` has no effect: a pane is kept
            until the last window that it is in has closed.
        watermark: The delay of Spark's watermark, which is the window's lateness.
            None: that one, or the watermark that the DataFrame already has.
        y_pred: Column of the predicted label.
        score: Binary: column of the positive class's score.
        proba: As of :func:`evaluate`.
        weight: Column of the weight.
        by: Columns, or tuples of columns, to slice by; any number of slices.
        task: As of :func:`evaluate`.
        metrics: Names; only the states that they need are kept.
        intervals: The level of the intervals; True is 0.95.
        output_mode: ``"append"``: the rows of a window once, when it has closed. ``"update"``: the
            rows of each window that a micro-batch changed. The query's ``outputMode`` must be
            the same.
        **options: Any other option of :class:`~streameval.Evaluator`, such as ``max_scores``.

    Returns:
        A stream of rows: ``window`` (start, end), ``slice`` (``total``, or as
        ``country=PT``), ``metric``, ``value`` (``nan`` where undefined), ``low``, ``high``,
        ``reason``, ``events`` and ``state``: that of the window's events, for
        :func:`merge_states`. A window without events has no rows.

    Raises:
        InputError: As :func:`evaluate`; a watermark other than the window's lateness; the state
            store is not RocksDB, which Spark's operator requires.

    A row that cannot be counted stops the query.
    """
    given = {**locals()}
    if not df.isStreaming:
        raise InputError(
            "df",
            expected="a DataFrame of a stream",
            got="one that ends",
            remedy="call evaluate, or read it with spark.readStream",
        )
    if not isinstance(window, Panes) or window.pane_us % 1000:
        raise InputError(
            "window",
            expected="Panes of whole milliseconds, which is the unit of Spark's watermark",
            got=shown(window),
            remedy='pass window=streameval.Panes("1h")',
        )
    if output_mode not in _OUTPUT_MODES:
        raise InputError("output_mode", expected='"append" or "update"', got=shown(output_mode))
    counter = PartCounter.of_call(given, intervals=bool(intervals), by=(), window=None)
    slicer = Slicer(by or (), 1)
    # The panes and slices are Spark's keys here; an evaluator counts what is in one of them.
    keyed = replace(counter.spec, time=event_time, slices=slicer.dimensions)
    event, timed = _events(df, replace(counter, spec=keyed))
    counter = replace(timed, spec=replace(timed.spec, time=None, slices=()))
    values = _Values.of(counter, metrics, intervals)
    times = _column(df, event_time, "event_time").alias(_TIME)
    rows = _with_watermark(df.select(event, times), event_time, window, watermark)
    _check_streaming(df)
    count = partial(_count_panes, counter, timed, slicer, window.pane_us)
    parts = rows.mapInArrow(count, "slice string, pane long, state binary")
    emit = output_mode == "append"
    found = parts.groupBy("slice").transformWithState(
        _PaneStates(window, values, emit_closed=emit),
        _STREAM,
        output_mode.capitalize(),
        "EventTime",
    )
    ends = [functions.timestamp_micros(name).alias(name) for name in ("start", "end")]
    return found.select(functions.struct(*ends).alias("window"), *found.columns[2:])


_OUTPUT_MODES = ("append", "update")

_TIME = "time"
"""The column of the event time beside the event: Spark's watermark is of a column."""

_STREAM = (
    "start long, end long, slice string, metric string, value double, low double, high double, "
    "reason string, events double, state binary"
)


def _with_watermark(
    rows: DataFrame, event_time: str, window: Panes, watermark: str | None
) -> DataFrame:
    """The rows with the watermark by which our panes close; raises InputError."""
    field = rows.schema[_TIME]
    if not isinstance(field.dataType, types.TimestampType):
        raise InputError(
            f"event_time: column {event_time!r}",
            expected="timestamps, which Spark's watermark requires",
            got=f"a column of type {field.dataType.simpleString()}",
            remedy=f'convert it with functions.to_timestamp("{event_time}")',
        )
    lateness = window.lateness_us
    given = field.metadata.get(_WATERMARK)
    for name, delay in (
        ("watermark", None if watermark is None else duration(watermark, "watermark")),
        (f"withWatermark of column {event_time!r}", None if given is None else given * 1000),
    ):
        if delay is not None and delay != lateness:
            text = duration_text(delay)
            raise InputError(
                name,
                expected=f"{duration_text(lateness)}, the lateness of the window",
                got=text,
                remedy=f'pass window=Panes(..., lateness="{text}")',
            )
    if given is not None:
        return rows
    return rows.withWatermark(_TIME, f"{lateness // 1000} milliseconds")


def _check_streaming(df: DataFrame) -> None:
    if find_spec("google.protobuf") is None:
        raise MissingExtraError("evaluate_stream", package="protobuf", extra="spark")
    provider = df.sparkSession.conf.get(_PROVIDER)
    if provider != _ROCKSDB:
        raise InputError(
            _PROVIDER,
            expected="RocksDB, which Spark's operator with state requires",
            got=shown(provider),
            remedy=f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")',
        )
    _check_interpreter(df)


def _count_panes(
    counter: PartCounter,
    timed: PartCounter,
    slicer: Slicer,
    pane_us: int,
    batches: Iterator[arrow.RecordBatch],
) -> Iterator[arrow.RecordBatch]:
    """A state of each slice and pane of a partition of a micro-batch."""
    empty = counter.evaluator()
    where = f"partition {_partition()}"
    held: dict[tuple[str, int], Evaluator] = {}
    start = 0
    for table in _tables(batches):
        rows = _of_events(table)
        try:
            moments = event_times(rows.column(timed.spec.time), rows.num_rows)
            slices = {name: rows.column(name) for name in timed.spec.slice_fields}
            groups = [((), np.arange(rows.num_rows)), *slicer.groups(slices, rows.num_rows)]
        except InputError as error:
            row = "" if error.position is None else f"row {start + error.position}"
            raise timed.located(error, where, row) from None
        for key, chosen in groups:
            for pane, inside in grouped(moments[chosen] // pane_us):
                mine = chosen if inside is None else chosen[inside]
                state = held.setdefault((slice_name(key), pane * pane_us), empty.emptied())
                counter.count_table(state, rows.take(arrow.array(mine)), where, start + mine)
        start += rows.num_rows
    kinds = {"slice": arrow.string(), "pane": arrow.int64(), "state": arrow.binary()}
    for (name, pane), evaluator in held.items():
        found = {"slice": name, "pane": pane, "state": _packed(evaluator)}
        yield arrow.RecordBatch.from_pylist([found], schema=arrow.schema(kinds))


class _PaneStates:
    """A slice's panes in Spark's state store, and the windows that they make."""

    def __init__(self, window: Panes, values: _Values, *, emit_closed: bool) -> None:
        self._length, self._pane = window.length_us, window.pane_us
        self._values = values
        self._emit_closed = emit_closed

    def init(self, handle: Any) -> None:
        """Open the states of the key."""
        self._handle = handle
        self._states = handle.getMapState("panes", "start long", "state binary")

    # The names, and those of the arguments, are Spark's.

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Merge the states of a micro-batch."""
        watermark = timerValues.getCurrentWatermarkInMs() * 1000
        parts: dict[int, list[Evaluator]] = {}
        for row in rows:
            if row.pane + self._pane > watermark:  # else it is late
                parts.setdefault(row.pane, []).append(from_bytes(bytes(row.state)))
        for start, states in parts.items():
            kept = self._state(start)
            merged = _merged(states if kept is None else [kept, *states])
            assert merged is not None
            self._states.updateValue((start,), (_packed(merged),))
            # The last one drops the pane.
            for end in self._ends(start) if self._emit_closed else [start + self._length]:
                self._handle.registerTimer(end // 1000 - 1)
        if not self._emit_closed:
            for end in sorted({end for start in parts for end in self._ends(start)}):
                yield from self._rows(key[0], end)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Emit a window that has closed, and drop the pane that is in no later one."""
        end = (expiredTimerInfo.getExpiryTimeInMs() + 1) * 1000
        if self._emit_closed:
            yield from self._rows(key[0], end)
        if self._states.containsKey((end - self._length,)):
            self._states.removeKey((end - self._length,))

    def handleInitialState(  # noqa: N802
        self,
        key: Any,
        initialState: Any,  # noqa: N803
        timerValues: Any,  # noqa: N803
    ) -> None:
        """There is none."""

    def close(self) -> None:
        """Nothing is open."""

    def _ends(self, start: int) -> range:
        """The ends of the windows that a pane is in."""
        return range(start + self._pane, start + self._length + 1, self._pane)

    def _state(self, start: int) -> Evaluator | None:
        if not self._states.containsKey((start,)):
            return None
        return from_bytes(bytes(self._states.getValue((start,))[0]))

    def _rows(self, name: str, end: int) -> Iterator[Any]:
        start = end - self._length
        panes = map(self._state, range(start, end, self._pane))
        merged = _merged(state for state in panes if state is not None)
        if merged is None:
            return
        state, events = _packed(merged), float(merged.total.support)
        for row in self._values.rows(merged):
            low, high = _ends(row)
            yield Row(
                start=start,
                end=end,
                slice=name,
                metric=row.metric,
                value=row.value,
                low=low,
                high=high,
                reason=row.reason,
                events=events,
                state=state,
            )
