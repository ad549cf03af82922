"""One call over any table: :func:`evaluate`, and :func:`from_counts` of what SQL has counted."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from streameval.errors import InputError, listed, shown
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.options import known_window
from streameval.evaluator.slices import Slicer
from streameval.evaluator.spellings import explains_keywords
from streameval.events.values import MAX_WEIGHT, check_same_length, column_array, named_columns
from streameval.metrics.registry import metric_names
from streameval.records.arrow import read_table
from streameval.records.chunk import Chunk
from streameval.records.csv_table import LabelTypes
from streameval.records.input_files import check_layout, column_names, find_sources, read_sources
from streameval.records.label_text import LABEL_TYPES
from streameval.records.layout import FORMATS, Layout, text_layout
from streameval.records.parts import counted_in_parts, processes
from streameval.records.record_counter import BATCH_ROWS, BadRecordError, RecordCounter
from streameval.records.rules import check_spec
from streameval.records.spec import MAX_SLICES, Dimensions, Spec, checked_proba
from streameval.records.tables import find_table, probability_block, read_columns
from streameval.records.wording import CALL
from streameval.tasks.registry import TASKS, task_names
from streameval.windows import Bootstrap, Fading, Last, Panes

_ENGINES = {"pyspark": "spark", "dask": "dask"}
"""Packages of distributed tables, and the modules of ``integrations`` that evaluate them."""

_OF_FILES = (
    "input_format", "label_type", "delimiter", "encoding", "header", "na_values", "utc", "workers",
)  # fmt: skip
"""Arguments that say how files are written and read."""

_OF_EVALUATOR = ("bins", "bootstrap", "temporal", "undefined")
"""Arguments that only the evaluator reads."""

_DATA = "data"
_BLOCK = "proba"

_MAX_COUNT = 2**62 - 1


@explains_keywords
def evaluate(
    data: Any = None,
    predictions: Any = None,
    *,
    y_true: Any = "y_true",
    y_pred: Any = None,
    score: Any = None,
    proba: Any = None,
    weight: Any = None,
    time: Any = None,
    time_unit: str | None = None,
    utc: bool = False,
    by: str | Iterable[str | Iterable[str]] | Mapping[str, Any] | None = None,
    max_slices: int = MAX_SLICES,
    window: Last | Panes | Fading | str | None = None,
    task: str = "auto",
    positive: object = None,
    negative: object = None,
    labels: Iterable[object] | None = None,
    label_separator: str | None = None,
    threshold: float | Mapping[Any, float] | None = None,
    metrics: str | Iterable[str] | None = None,
    bins: int = 10,
    max_scores: int | None = None,
    intervals: bool = False,
    bootstrap: Bootstrap | None = None,
    temporal: bool = False,
    undefined: float | None = None,
    probabilities: bool = True,
    input_format: str | None = None,
    label_type: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    na_values: Iterable[str] | None = None,
    workers: int | None = None,
) -> Evaluator:
    """Evaluate the predictions in any table, file, query, or columns: ``evaluate(y, s)``.

    The same events give the same state, to the last byte, whatever carried them. What can be
    streamed is read in bounded memory: lazy polars frames, DuckDB relations, Arrow data sets and
    readers batch by batch, files block by block.

    Args:
        data: A data frame (pandas, polars, all that narwhals supports), a polars LazyFrame, a
            DuckDB relation, a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, anything
            with Arrow's C interface, a mapping name -> array, a Spark or Dask DataFrame; or a
            path, a directory, a pattern such as ``"day-*.parquet"``, a URL
            (``"s3://bucket/day-*.parquet"``), or a list of them, of JSON, CSV, Parquet and Arrow
            files. Text files may be compressed by gzip, zstd, bz2 or xz. A directory
            ``country=SE`` on the path is a field of its files' rows. Or the true labels, a list,
            array or series, beside ``predictions``; the arguments that name columns are then
            columns too, and ``by`` is a mapping name -> column.
        predictions: The predictions of true labels that are given as ``data``: floats are
            scores, two dimensions (or a data frame) probabilities, everything else labels.
        y_true: The column of the true labels; None: the predictions have none, and are counted
            as :class:`~streameval.Predictions`. In JSONL, Parquet and Arrow a dot separates levels
            (``"meta.label"``).
        y_pred: The column of the predicted labels.
        score: Binary: the column of the positive label's scores.
        proba: The probabilities: a column of objects label -> number, a struct, or a list (in
            the order of ``labels``), in text files a JSON array; ``"p_*"``, for columns named
            ``p_LABEL`` (or ``"*_p"``, ``"p_*_v2"``); a list of columns
            (in the order of ``labels``, or named as the labels); a mapping label -> column; or
            an (n, K) array with a row for each of the table's. Binary: also the column of the
            positive label's probability.
        weight: The column of the weights.
        time: The column of the event times, for windows of event time. In a table in memory a
            timestamp without a zone is UTC; in files it is refused without ``utc=True``.
        time_unit: Of numeric times: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
        utc: Of files: take times without a zone as UTC.
        by: The column to evaluate by as well, or several; a tuple of columns is one slice for
            each combination. Null counts as ``(missing)``.
        max_slices: As of :class:`~streameval.Evaluator`.
        window: As of :class:`~streameval.Evaluator`.
        task: ``"binary"``, ``"multiclass"``, ``"multilabel"``, ``"regression"`` or ``"auto"``:
            binary with ``score`` or ``positive``, else multi-class. Multi-label: a column of lists
            of labels, one text an event with ``label_separator``, or columns of 0 and 1 by the
            name's pattern (``y_true="y_*"``); of columns alone also an (n, L) array.
        positive: Binary: the positive label; needed where the labels are not 0 and 1 (or
            false and true).
        negative: Binary: the negative label; any further label is then refused. By default it is
            the first other one.
        labels: All labels, as of :class:`~streameval.Evaluator`.
        label_separator: Multi-label: what stands between the labels of one text, such as ``"|"``.
        threshold: As of :class:`~streameval.Evaluator`.
        metrics: As of :class:`~streameval.Evaluator`.
        bins: As of :class:`~streameval.Evaluator`.
        max_scores: As of :class:`~streameval.Evaluator`.
        intervals: As of :class:`~streameval.Evaluator`.
        bootstrap: As of :class:`~streameval.Evaluator`; ``Bootstrap(unit="user")`` names the
            column of the units.
        temporal: As of :class:`~streameval.Evaluator`.
        undefined: As of :class:`~streameval.Evaluator`.
        probabilities: Multi-class: False where the numbers of ``proba`` are other scores of each
            of ``labels``, as of :class:`~streameval.Evaluator`.
        input_format: Of files: ``"json"`` (lines, or an array), ``"jsonl"`` (the same), ``"csv"``,
            ``"tsv"``, ``"parquet"`` or ``"arrow"``; None: by the file names.
        label_type: Of the labels in CSV files: ``"str"``, ``"int"`` or ``"bool"``; None infers
            it.
        delimiter: Of CSV files: one character, or ``"tab"``; None: a comma, or a tab in ``.tsv``.
        encoding: Of CSV and JSON files, such as ``"latin-1"``; None is UTF-8, or UTF-16 or UTF-32
            with a byte order mark.
        header: Of CSV files: whether the first line names the columns; otherwise their names are
            ``"1"``, ``"2"``, ``"3"`` …
        na_values: Of CSV files: cells that are missing values, beside the empty one. None: those
            that ``pandas.read_csv`` reads so, in columns of labels.
        workers: Of files: how many processes count them, with the same result. None: as many as
            there are cores, where that is faster: from 256 MB on, and without windows and other
            things that depend on the order of events.

    Returns:
        An evaluator of all events, which counts further ones and merges with others.

    Cost:
        About 0.1 µs an event with a label and a score in a data frame, beside the evaluator's
        own work; a copy of 65,536 rows at a time.

    Raises:
        InputError: A column that does not exist or has another type, a bad value (with its
            position), no rows, or data of an unknown kind; nothing is returned.
        MissingExtraError: A package is not installed; the message names the command.

    >>> table = {"spam": [1, 0, 1, 0], "score": [0.9, 0.4, 0.3, 0.2], "country": list("PDPD")}
    >>> ev = evaluate(table, y_true="spam", score="score", by="country")
    >>> ev["roc_auc"], {key[0][1]: view["recall"] for key, view in ev.slices().items()}
    (0.75, {'D': nan, 'P': 0.5})
    >>> evaluate([1, 0, 1, 0], [0.9, 0.4, 0.3, 0.2])["roc_auc"]
    0.75
    """
    given = {n: value for n, value in locals().items() if n not in ("data", "predictions")}
    held = TASKS[task if isinstance(task, str) and task in TASKS else "binary"].fields
    if held.get("score") == "probabilities" and proba is None:
        # One name for what has a number of each label.
        given |= {"proba": score, "score": None, "as_scores": score is not None}
    if data is None or predictions is not None or _has_columns(data, given):
        data, given = _table_of_columns(data, predictions, given, held)
        proba = given["proba"]
    paths = _paths(data)
    if paths is None:
        _check_of_files(data, given)
    # The packages of its class and of the classes that it derives from.
    packages = {kind.__module__.partition(".")[0] for kind in type(data).__mro__}
    for name in packages & _ENGINES.keys():
        # Beside this layer, and loaded for such a table only.
        engine = importlib.import_module(f"streameval.integrations.{_ENGINES[name]}")
        evaluator: Evaluator = engine.evaluate(data, **_of_engine(given))
        return evaluator
    block = None if _plain(proba) else probability_block(proba, "proba")
    spec = _spec_of(given if block is None else given | {"proba": _BLOCK})
    layout = text_layout(
        CALL, delimiter=delimiter, encoding=encoding, header=header, na_values=na_values
    )
    if paths is not None:
        if block is not None:
            raise InputError(
                "proba",
                expected="the name of a field of the files",
                got=f"an array of shape {block.shape}",
            )
        return _of_files(paths, spec, layout, input_format, label_type, workers)
    return _counted(*_of_table(data, spec, block))


_COLUMNS = ("y_true", "y_pred", "score", "weight", "time")
"""The arguments that name a column, or are columns."""


def _has_columns(data: Any, given: Mapping[str, Any]) -> bool:
    """Whether columns are given in place of their names."""
    if any(hasattr(type(given[n]), "__len__") and type(given[n]) is not str for n in _COLUMNS):
        return True
    defaults = _defaults()
    named = any(given[name] is not defaults[name] for name in _COLUMNS)
    return not named and not _is_table(data)


def _is_table(data: Any) -> bool:
    """Whether it is anything but a column of values."""
    if isinstance(data, (list, tuple)):
        return _paths(data) is not None or any(isinstance(one, Mapping) for one in data)
    if isinstance(data, np.ndarray):
        return False
    return not hasattr(data, "to_numpy") or _columns_of(data) is not None


def _columns_of(data: Any) -> Any:
    return getattr(data, "columns", getattr(data, "column_names", None))


def _table_of_columns(
    data: Any, predictions: Any, given: dict[str, Any], held: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a call as a table, and its arguments, which name them; raises InputError."""
    defaults = _defaults()
    sets = [name for name, kind in held.items() if kind == "labels"]
    columns = {name: given[name] for name in _COLUMNS if given[name] is not defaults[name]}
    names = _columns_of(data)
    table_given = isinstance(data, Mapping) or (names is not None and len(names) != 1)
    if isinstance(data, (str, os.PathLike)) or (table_given and not sets):
        raise InputError(
            _DATA,
            expected="a table with names of its columns, or columns alone",
            got="a table beside columns",
            remedy="name columns, se.evaluate(df, y_true='y', score='s'), or pass columns alone, "
            "se.evaluate(y_true=df['y'], score=df['s'])",
        )
    if data is not None:
        if "y_true" in columns:
            own = columns["y_true"]
            if isinstance(own, Mapping) and all(isinstance(one, str) for one in own.values()):
                pairs = ",".join(f"{label}={column}" for label, column in own.items())
                raise InputError(
                    "y_true",
                    expected="a field, or label=column,label=column",
                    got="a mapping",
                    remedy=f"pass {pairs!r}",
                )
            raise InputError("y_true", expected="the true labels once", got="them twice")
        columns = {"y_true": data, **columns}
    if predictions is not None:
        name = "y_pred"
        if not isinstance(predictions, str) and "proba" in held:
            name = _kind_of_sets(predictions) if sets else _kind_of(predictions)
        if given[name] is not None:
            raise InputError(name, expected="it once", got="it twice")
        if name == "proba":
            given = given | {"proba": predictions}
        else:
            columns[name] = predictions
    unlabelled = "y_true" in columns and columns["y_true"] is None
    if unlabelled:
        del columns["y_true"]
    if not unlabelled and ("y_true" not in columns or isinstance(columns["y_true"], str)):
        raise InputError(
            _DATA,
            expected="a table, a path, or columns",
            got="none",
            remedy="pass columns, se.evaluate(y, s), or a table, "
            "se.evaluate(df, y_true='y', score='s')",
        )
    for name, column in columns.items():
        if isinstance(column, str):
            raise InputError(
                name,
                expected="a column, as the true labels are",
                got=f"the name of a column, {shown(column)}",
                remedy="pass the table too, se.evaluate(df, y_true='y', score='s')",
            )
    proba = given["proba"]
    if proba is not None and (matrix := named_columns(proba)) is not None:
        proba = matrix
    named = dict.fromkeys(_COLUMNS) | {name: name for name in columns}
    if isinstance(proba, Mapping):
        named["proba"] = {label: f"proba {label}" for label in proba}
        columns |= {f"proba {label}": column for label, column in proba.items()}
    elif proba is not None and _plain(proba):
        named["proba"], columns["proba"] = "proba", proba
    if len(columns) == (not unlabelled) and proba is None:
        raise InputError(
            "predictions",
            expected="predictions beside the true labels",
            got="none",
            remedy="pass them: se.evaluate(y, s), or score=, y_pred= or proba=",
        )
    by = given["by"]
    if by is not None and not isinstance(by, Mapping):
        raise InputError(
            "by",
            expected="a mapping from a name to its column, beside columns",
            got=shown(by),
            remedy="pass by={'country': column}",
        )
    for name, column in (by or {}).items():
        if name in columns or not isinstance(name, str):
            raise InputError("by", expected="another name for the slices", got=shown(name))
        columns[name] = column
    table: dict[str, Any] = {}
    for name, column in columns.items():
        if name in sets:
            table[name] = column
            continue
        table[name] = column_array(column, name.partition(" ")[0])
        first = next((one for name, one in table.items() if name not in sets), table[name])
        check_same_length(len(first), len(table[name]), name)
    return table, {**given, **named, "by": None if by is None else tuple(by)}


def _kind_of(predictions: Any) -> str:
    """What predictions are, by their type: ``"score"``, ``"proba"`` or ``"y_pred"``."""
    shape: Any = getattr(predictions, "shape", ())
    several = isinstance(predictions, Mapping) or (len(shape) == 2 and shape[1] > 1)
    if several or (
        isinstance(predictions, (list, tuple))
        and any(isinstance(row, (list, tuple, np.ndarray, Mapping)) for row in predictions)
    ):
        return "proba"
    array = column_array(predictions, "predictions")
    floats = array.dtype.kind == "f" or (
        len(array) > 0 and all(isinstance(one, (float, np.floating)) for one in array.tolist())
    )
    return "score" if floats else "y_pred"


def _kind_of_sets(predictions: Any) -> str:
    """What predictions of label sets are: ``"proba"``, where they are floats, or ``"y_pred"``."""
    values = named_columns(predictions) or predictions
    while isinstance(values, (Mapping, list, tuple)) and values:
        # The first column, row or cell; an event may have no label.
        inner = values.values() if isinstance(values, Mapping) else values
        values = next((one for one in inner if not hasattr(one, "__len__") or len(one)), None)
    dtype = getattr(values, "dtype", None)
    floats = isinstance(values, float) if dtype is None else str(dtype).lower().startswith("float")
    return "proba" if floats else "y_pred"


def _defaults() -> dict[str, Any]:
    """The defaults of the arguments of :func:`evaluate`."""
    return {name: one.default for name, one in inspect.signature(evaluate).parameters.items()}


def _spec_of(given: Mapping[str, Any]) -> Spec:
    """The checked Spec of the arguments of a call; raises InputError, MetricError."""
    options = {name: value for name, value in given.items() if name in Spec.__dataclass_fields__}
    for name in _COLUMNS:
        column = options.get(name)
        if not isinstance(column, str) and column is not None:
            raise InputError(name, expected="the name of a column", got=shown(column))
    options["proba"] = checked_proba(given.get("proba"))
    if options["labels"] is not None:
        options["labels"] = tuple(listed(options["labels"], "labels", "a list of labels"))
    if options["task"] is not None:
        _check_one_of("task", options["task"], ("auto", *task_names()))
    if options["metrics"] is not None:
        options["metrics"] = tuple(metric_names(options["metrics"]))
    if options.get("window") is not None:
        options["window"] = known_window(options["window"])
    by, bootstrap = given["by"], given.get("bootstrap")
    return check_spec(
        Spec(
            **options,
            unit=bootstrap.unit if isinstance(bootstrap, Bootstrap) else None,
            slices=() if by is None else _dimensions(by, given["max_slices"]),
            more={name: given[name] for name in _OF_EVALUATOR if name in given},
            wording=CALL,
        )
    )


def _counted(
    spec: Spec, chunks: Iterable[Chunk], counter: RecordCounter | None = None
) -> Evaluator:
    """The evaluator of all chunks' events; raises InputError at the first bad one."""
    counter = counter or RecordCounter(spec, skip=False)
    try:
        result = counter.count(chunks)
    except BadRecordError as error:
        record = error.record
        if record.source == _DATA:
            raise record.input_error(record.field, record.place) from None
        raise record.input_error(f"{record.source}:{record.place}: {record.field}") from None
    if not counter.rows:
        raise InputError(
            _DATA,
            expected="at least one row",
            got="none",
            remedy="correct the filter or the path that gives the rows",
        )
    assert isinstance(result, Evaluator)
    return result


def _of_table(data: Any, spec: Spec, block: Any) -> tuple[Spec, Iterator[Chunk]]:
    """The spec in terms of the data's columns, and the chunks of the data."""
    table = None if isinstance(data, Mapping) else find_table(data)
    if table is None and not isinstance(data, Mapping):
        raise InputError(
            _DATA,
            expected="a data frame, a pyarrow table, data set or reader, a DuckDB relation, a "
            "mapping name -> array, a path, or a list of paths",
            got=shown(data) if type(data).__module__ == "builtins" else f"a {_class_name(data)}",
        )
    spec = spec.with_columns(map(str, data) if table is None else table.names, _DATA)
    wanted = [want for want in spec.field_requests() if block is None or want.path != _BLOCK]
    if table is None:
        chunks = read_columns(data, _DATA, wanted, BATCH_ROWS)
    else:
        chunks = read_table(table, _DATA, wanted)
    return spec, chunks if block is None else _with_block(chunks, block)


def _check_of_files(data: Any, given: Mapping[str, Any]) -> None:
    """Raise InputError for an argument that is about files only."""
    defaults = _defaults()
    for name in _OF_FILES:
        if given[name] is not defaults[name]:
            raise InputError(
                name,
                expected="files",
                got=f"a {_class_name(data)}",
                remedy=f"leave {name}= out: a table has types of its own",
            )


def _of_engine(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, for an engine, which has the same defaults."""
    defaults = _defaults()
    of_engine = {n: value for n, value in given.items() if value is not defaults.get(n, False)}
    if of_engine.pop("as_scores", False):
        of_engine["score"] = of_engine.pop("proba")
    if "negative" in of_engine and "positive" in of_engine and "labels" not in of_engine:
        of_engine["labels"] = [of_engine.pop("negative"), given["positive"]]
    return of_engine


def _of_files(
    paths: list[str],
    spec: Spec,
    layout: Layout,
    input_format: str | None,
    label_type: str | None,
    workers: int | None,
) -> Evaluator:
    """The evaluator of files' events."""
    if input_format is not None:
        _check_one_of("input_format", input_format, FORMATS)
    if label_type is not None:
        _check_one_of("label_type", label_type, LABEL_TYPES)
    sources = find_sources(paths, input_format, layout)  # type: ignore[arg-type]
    check_layout(sources, layout, CALL)
    if spec.patterns:
        spec = spec.with_columns(column_names(sources[0]), sources[0].name)
    types = LabelTypes(label_type)  # type: ignore[arg-type]
    count = processes(workers, spec, sources)
    counter = counted_in_parts(spec, sources, types, skip=False, workers=count)
    chunks = () if counter else read_sources(sources, spec.field_requests(), types)
    return _counted(spec, chunks, counter)


def _with_block(chunks: Iterator[Chunk], block: Any) -> Iterator[Chunk]:
    """The chunks, each with its rows of the block of probabilities."""
    rows = 0
    for chunk in chunks:
        places = np.asarray(chunk.events.places)
        rows = int(places[-1]) + 1 if len(places) else rows
        if rows > len(block):
            break
        chunk.events.columns["proba"] = block[places]
        yield chunk
    if rows != len(block):
        raise InputError(
            _BLOCK,
            expected=f"a row for each of the table's, which has {rows} or more",
            got=f"{len(block)}",
        )


def _paths(data: Any) -> list[str] | None:
    """The paths that the data names; None where it is no path."""
    given = data if isinstance(data, (list, tuple)) and data else [data]
    if not all(isinstance(one, (str, os.PathLike)) for one in given):
        return None
    return [os.fspath(one) for one in given]


def _class_name(data: Any) -> str:
    package = type(data).__module__.partition(".")[0]
    name = type(data).__name__
    return name if package == "builtins" else f"{package}.{name}"


def _plain(proba: Any) -> bool:
    """Whether it names columns, rather than holds a row of numbers for each event."""
    if isinstance(proba, (list, tuple)):
        return not any(isinstance(row, (list, tuple, np.ndarray)) for row in proba)
    return len(getattr(proba, "shape", ())) != 2


def _dimensions(by: Any, max_slices: int) -> Dimensions:
    try:
        return Slicer(by, max_slices).dimensions
    except InputError as error:
        field = "by" if error.field == "slices" else error.field
        raise error.of(field, remedy="") from None


def _check_one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        expected = ", ".join(map(shown, known[:-1])) + f" or {shown(known[-1])}"
        raise InputError(name, expected=expected, got=shown(value))


def from_counts(
    score: object = None,
    label: object = None,
    count: object = None,
    *,
    y_pred: object = None,
    by: Mapping[str, object] | None = None,
    max_slices: int = MAX_SLICES,
    task: str = "auto",
    positive: object = None,
    labels: Iterable[object] | None = None,
    threshold: float | None = None,
    metrics: str | Iterable[str] | None = None,
    bins: int = 10,
    max_scores: int | None = None,
    undefined: float | None = None,
) -> Evaluator:
    """An evaluator of events that a database has counted: ``GROUP BY score, label``.

    The state is that of the events one by one, to the last byte: a warehouse scans and counts,
    and only a row for each distinct score and label leaves it.

    Args:
        score: The scores, a column; None with ``y_pred``.
        label: The true labels, a column.
        count: How many events each row stands for: whole numbers from 0, all together below 2⁶².
        y_pred: The predicted labels, a column, for ``GROUP BY y_pred, label``; beside scores,
            where they do not follow from ``threshold``.
        by: Key -> column, for ``GROUP BY …, country``: slices. An event beyond ``max_slices``
            is counted in ``(other)``, and a row of several as one in
            :attr:`~streameval.Evaluator.slices_overflowed`.
        max_slices: As of :class:`~streameval.Evaluator`; and so are the others.
        task: As of :func:`evaluate`.
        positive: As of :func:`evaluate`.
        labels: As of :class:`~streameval.Evaluator`.
        threshold: As of :class:`~streameval.Evaluator`.
        metrics: As of :class:`~streameval.Evaluator`.
        bins: As of :class:`~streameval.Evaluator`.
        max_scores: As of :class:`~streameval.Evaluator`.
        undefined: As of :class:`~streameval.Evaluator`.

    There is no ``intervals=``: the score index has what intervals read, and what that argument
    keeps, the sum of squared weights, cannot be derived from counts.

    Cost:
        That of as many weighted events as there are rows, not as many as they stand for.

    Raises:
        InputError: A count that is negative, not whole or too large, or a value that an
            evaluator refuses, with its position.

    >>> ev = from_counts(score=[0.9, 0.4, 0.4], label=[1, 1, 0], count=[2_000_000, 1_000, 3_000])
    >>> ev["roc_auc"], ev.confusion.total
    (0.99975012..., 2004000)
    """
    arguments = {**locals()}
    for name in ("label", "count"):
        if arguments[name] is None:
            raise InputError(
                name, expected="a column", got="none", remedy=f"pass {name}= with each row's"
            )
    if score is None and y_pred is None:
        raise InputError(
            "score", expected="scores, or y_pred=", got="none", remedy="pass each row's score"
        )
    counts = _counts(count)
    rows, weights = _events_of(counts)
    table: dict[str, Any] = {"count": weights}
    columns = {name: arguments.pop(name) for name in ("label", "score", "y_pred")}
    for name, column in [*columns.items(), *(by or {}).items()]:
        if name in table:
            raise InputError("by", expected="another name for the slices", got=shown(name))
        if column is not None:
            array = column_array(column, name)
            check_same_length(len(counts), len(array), name)
            table[name] = array[rows]
    named = {name: name for name in ("score", "y_pred") if name in table}
    arguments |= {"y_true": "label", "weight": "count", "by": None if by is None else tuple(by)}
    spec = _spec_of(arguments | named)
    chunks = read_columns(table, _DATA, spec.field_requests(), BATCH_ROWS)
    try:
        return _counted(spec, chunks)
    except InputError as error:
        if error.position is None:
            raise
        raise error.at(int(rows[error.position])) from None


def _counts(count: object) -> Any:
    """The column of counts as int64; raises InputError."""
    array = column_array(count, "count")
    if array.dtype.kind == "b":
        array = array.astype(object)
    if array.dtype.kind in "iu":
        good = (array >= 0) & (array <= _MAX_COUNT)
    elif array.dtype.kind == "f":
        # Beyond 2^53 a float may stand for another whole number than was counted.
        good = (array >= 0) & (array <= MAX_WEIGHT) & (array == np.floor(array))
    else:
        good = np.array([_is_count(value) for value in array.tolist()], dtype=np.bool_)
    if not good.all():
        position = int(np.argmin(good))
        value = array[position]
        large = isinstance(value, (float, np.floating)) and MAX_WEIGHT < value < np.inf
        raise InputError(
            "count",
            expected="a whole number from 0, below 2**62",
            got=shown(value.item() if isinstance(value, np.generic) else value),
            position=position,
            remedy="floats hold whole numbers to 2**53 only: cast it, CAST(... AS BIGINT)"
            if large
            else "pass COUNT(*) of each group",
        )
    return array.astype(np.int64)


def _is_count(value: object) -> bool:
    """Whether a Python value, such as a Decimal of SUM(...), is a count."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return False
    most = MAX_WEIGHT if isinstance(value, float) else _MAX_COUNT
    return bool(0 <= value <= most) and value == int(value)


def _events_of(counts: Any) -> tuple[Any, Any]:
    """The rows of the counts and the weights that stand for them.

    >>> rows, weights = _events_of(np.array([3, 0, 2**53 + 5]))
    >>> rows.tolist(), weights.tolist()
    ([0, 2, 2], [3, 9007199254740992, 5])
    """
    parts = -(-counts // MAX_WEIGHT)
    rows = np.repeat(np.arange(len(counts)), parts)
    weights = np.full(len(rows), MAX_WEIGHT, dtype=np.int64)
    last = np.cumsum(parts)[parts > 0] - 1
    weights[last] = (counts - (parts - 1) * MAX_WEIGHT)[parts > 0]
    return rows, weights
