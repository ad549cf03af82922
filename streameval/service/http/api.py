"""The answers of the API: functions of a snapshot and a query, and the table of endpoints.

Each answer starts with the snapshot's ``sequence`` and time ``at``. An endpoint's row
declares what its answer holds besides, and its parameters: the routes are made of the table,
and ``/openapi.json`` is generated from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, defstruct
from msgspec.structs import fields, replace

from streameval import __version__
from streameval.errors import shown
from streameval.events.time import iso_time
from streameval.metrics.curves import served_curves
from streameval.metrics.registry import find
from streameval.service.http.errors import RefusedError
from streameval.service.http.health import Code, Reason
from streameval.service.publish.snapshot import (
    Checkpoint,
    Confusion,
    Curve,
    ExampleCell,
    Join,
    Label,
    ModelComparison,
    OpenedPart,
    OpenSlice,
    PredictionReport,
    Quarantine,
    Report,
    Series,
    Slice,
    Snapshot,
    SourceInfo,
    Time,
    Window,
    note,
)

Answer: TypeAlias = dict[str, Any]

LONGEST_TEXT = 200
_LARGEST_NUMBER = 1_000_000_000
_MOST_LABELS = 100
_MOST_CLASSES = 100
_MOST_ROWS = 10_000
_ORDERS = ("worst", "best", "asc", "desc")
_ALL = ("", "all")


class Parameter(NamedTuple):
    """A query parameter of an endpoint, as it is parsed and as ``openapi.json`` describes it."""

    name: str
    about: str
    default: str | int = ""
    """An int makes the parameter a number."""
    most: int = _LARGEST_NUMBER
    """The largest number."""
    choices: tuple[str, ...] = ()
    """The texts that are accepted, where they do not depend on the snapshot."""
    longest: int = LONGEST_TEXT
    """The most characters of a text."""


def _unknown(
    where: str, given: str, names: Iterable[str], *, none: str = "nothing here", status: int = 400
) -> RefusedError:
    """The error of a name that is not one of the known ones."""
    expected = ", ".join(names)
    expected = f"one of {expected}" if expected else none
    return RefusedError(status, expected=expected, got=shown(given), where=where)


class QueryParameters:
    """The parameters of one request; RefusedError 400 for one that the endpoint does not have."""

    def __init__(
        self,
        pairs: Iterable[tuple[str, str]],
        parameters: Sequence[Parameter] = (),
        open_slice: OpenSlice | None = None,
    ) -> None:
        self._open_slice = open_slice
        self._given = dict(pairs)
        self._known = {parameter.name: parameter for parameter in parameters}
        for name in self._given.keys() - self._known.keys():
            where = name if name.isidentifier() and len(name) < 40 else "the query"
            raise _unknown(where, name, self._known, none="no parameter")

    def text(self, name: str, default: str | None = None) -> str:
        """A text of at most as many characters as the parameter allows."""
        usual = str(self._known[name].default) if default is None else default
        value = self._given.get(name, usual)
        if len(value) > (longest := self._known[name].longest):
            expected = f"at most {longest} characters"
            raise RefusedError(400, expected=expected, got=f"{len(value):,}", where=name)
        return value

    def number(self, name: str) -> int:
        """A whole number from 0 to the parameter's largest."""
        text, most = self.text(name), self._known[name].most
        if not (text.isascii() and text.isdigit() and int(text) <= most):
            raise RefusedError(
                400, expected=f"a whole number from 0 to {most}", got=shown(text), where=name
            )
        return int(text)

    def choice(self, name: str, options: Sequence[str], default: str) -> str:
        """One of some words."""
        text = self.text(name, default)
        if text not in options:
            raise _unknown(name, text, options)
        return text

    def window(self, snapshot: Snapshot) -> Window:
        """A window; the first by default."""
        windows = {window.name: window for window in snapshot.windows}
        names = list(windows)
        return windows[self.choice("window", names, names[0] if names else "")]

    def model(self, data: Snapshot, window: str) -> str:
        """A model; empty where it is the first one, whose numbers a snapshot holds."""
        models = data.comparison[window].models if data.comparison else [""]
        name = self.choice("model", models, models[0])
        return "" if name == models[0] else name

    def of_part(
        self,
        data: Snapshot,
        window: str,
        part: OpenedPart,
        metric: str = "",
        model: str | None = None,
    ) -> Snapshot:
        """The snapshot with the part of the slice and the model; RefusedError 404."""
        name = self.text("slice") if "slice" in self._known else ""
        if model is None:
            model = self.model(data, window) if "model" in self._known else ""
        label = self.text("label") if "label" in self._known and part == "curves" else ""
        if label and label not in map(str, data.labels):
            raise _unknown("label", label, map(str, data.labels[:_MOST_LABELS]))
        if not (name or model or label):
            return data
        read = self._open_slice
        opened = None if read is None else read(data, window, name, part, metric, model, label)
        if opened is None:
            where = "slice" if name else "model"
            raise RefusedError(
                404,
                expected=f"a {where} of the window {window}",
                got=shown(name or model),
                where=where,
                remedy="/api/slices lists the names" if name else "",
            )
        return opened


def _stamp(data: Snapshot) -> Answer:
    return {"sequence": data.sequence, "at": data.at}


def _types(kind: type[Struct], *but: str) -> dict[str, Any]:
    return {field.name: field.type for field in fields(kind) if field.name not in but}


_SNAPSHOT = _types(Snapshot)


def _struct(name: str, about: str | None = None, **types: Any) -> type[Struct]:
    """The type of an answer, for its schema and for encoding."""
    namespace = {"__doc__": about}
    return defstruct(name, list(types.items()), namespace=namespace, forbid_unknown_fields=True)


def _shape(name: str, about: str | None = None, **types: Any) -> type[Struct]:
    """The type of an answer from a snapshot."""
    stamp = {key: _SNAPSHOT[key] for key in ("sequence", "at")}
    return _struct(name, about, **stamp, **types)


def _part(of: Struct, kind: type[Struct]) -> Struct:
    return kind(*[getattr(of, name) for name in kind.__struct_fields__])


class Endpoint(NamedTuple):
    """A path under ``/api`` that is answered from a snapshot."""

    summary: str
    content: Callable[..., Answer]
    """From the snapshot, the query and the path's parameter to all fields but the stamp."""
    shape: type[Struct]
    parameters: Sequence[Parameter] = ()

    def answer(
        self,
        data: Snapshot,
        query: Sequence[tuple[str, str]],
        *path: str,
        open_slice: OpenSlice | None = None,
    ) -> Answer:
        """The fields of the answer."""
        given = QueryParameters(query, self.parameters, open_slice)
        return {**_stamp(data), **self.content(data, given, *path)}


_WINDOW = Parameter("window", "A window's name; by default the first.")
_SLICE = Parameter(
    "slice", "A slice's name, as /api/slices has it; by default all events.", longest=4096
)
_MODEL = Parameter("model", "Of several models, whose numbers; by default the first.")
_LABEL = Parameter(
    "label", "Curves of one label against all others, of a task of several.", longest=4096
)
_OFFSET = Parameter("offset", "Rows to skip.", 0)


def _limit(most: int) -> Parameter:
    return Parameter("limit", "Rows at most.", 100, most)


def _of_window(
    summary: str, content: Callable[..., Answer], name: str, *parameters: Parameter, **types: Any
) -> Endpoint:
    """An endpoint of a window, with which its answer begins."""

    def answer(data: Snapshot, query: QueryParameters, *path: str) -> Answer:
        window = query.window(data)
        return {"window": window, **content(data, query, window, *path)}

    shape = _shape(name, window=Window, **types)
    return Endpoint(summary, answer, shape, (_WINDOW, *parameters))


def _report(data: Snapshot, query: QueryParameters, window: Window) -> Answer:
    return {"report": query.of_part(data, window.name, "reports").reports[window.name]}


def _view(data: Snapshot, query: QueryParameters, window: Window) -> Answer:
    metrics = list(data.reports[window.name].metrics)
    metric = query.choice("metric", metrics, metrics[0] if metrics else "")
    # A metric over time is of the first window of panes where this one has none.
    paned = window.name if window.name in data.series else next(iter(data.series), None)
    has_series = paned is not None and metric in data.series[paned].metrics
    for part in ("reports", "curves", "confusion"):
        data = query.of_part(data, window.name, part)
    if has_series:
        try:
            data = query.of_part(data, str(paned), "series", metric)
        except RefusedError:  # the window of panes has no event of this slice
            has_series = False
    return {
        "report": data.reports[window.name],
        "curves": {name: _curve(data, window, name) for name in served_curves(data.task)},
        "confusion": _part(data.confusion[window.name], _MATRIX),
        "series": {**_stamp(data), **_series(data, str(paned), metric)} if has_series else None,
    }


def _curve_of(data: Snapshot, query: QueryParameters, window: Window, name: str) -> Answer:
    names = served_curves(data.task)
    if name not in names:
        raise _unknown("the curve's name", name, names, status=404)
    data = query.of_part(data, window.name, "curves")
    return msgspec.structs.asdict(_curve(data, window, name))


def _curve(data: Snapshot, window: Window, name: str) -> Curve:
    missing = f"a {data.task} task without what this curve is made of has none"
    return data.curves[window.name].get(name) or Curve(name, missing, {})


def _series_of(data: Snapshot, query: QueryParameters, metric: str) -> Answer:
    names = list(data.series)
    window = query.text("window", names[0] if names else "")
    if window not in data.series:
        raise RefusedError(
            404,
            expected="a window of panes: " + (", ".join(names) or "this run has none"),
            got=shown(window),
            where="window",
            remedy="" if names else "give a window a length and a pane in the run's settings",
        )
    metrics = data.series[window].metrics
    if metric not in metrics:
        raise _unknown("the metric's name", metric, metrics, status=404)
    return _series(query.of_part(data, window, "series", metric), window, metric)


def _series(data: Snapshot, window: str, metric: str) -> Answer:
    found = data.series[window]
    none = [None] * len(found.start)
    return {
        "window": next(one for one in data.windows if one.name == window),
        "metric": metric,
        **{key: getattr(found, key) for key in ("start", "end", "immature", "support")},
        "values": found.metrics[metric],
        "low": found.low.get(metric, none),
        "high": found.high.get(metric, none),
    }


def _confusion(data: Snapshot, query: QueryParameters, window: Window) -> Answer:
    """``limit`` keeps the classes of the most support in the matrix."""
    limit = query.number("limit")
    found = query.of_part(data, window.name, "confusion").confusion[window.name]
    labels, matrix = found.labels, found.matrix
    if len(labels) > limit:
        by_support = sorted(range(len(labels)), key=lambda row: -sum(matrix[row]))
        kept = sorted(by_support[:limit])
        found = replace(
            found,
            labels=[labels[row] for row in kept],
            matrix=[[matrix[row][column] for column in kept] for row in kept],
            left_out=found.left_out + len(labels) - limit,
        )
    return msgspec.structs.asdict(found)


def _examples(data: Snapshot, query: QueryParameters, window: Window) -> Answer:
    if data.examples is UNSET:
        return {"cells": None}
    cells = data.examples[window.name]
    labels = {str(row.label) for row in data.confusion[window.name].classes}
    for name in ("true", "predicted"):
        label = query.text(name)
        if label and label not in labels:
            raise _unknown(name, label, sorted(labels)[:_MOST_LABELS])
        cells = [cell for cell in cells if label in ("", str(getattr(cell, name)))]
    return {"cells": cells}


def _slices(data: Snapshot, query: QueryParameters, window: Window) -> Answer:
    """Sorting costs O(n log n) in the window's slices."""
    rows = query.of_part(data, window.name, "slices").slices[window.name]
    metrics = list(rows[0].metrics if rows else data.reports[window.name].metrics)
    sort = query.choice("sort", ("support", "name", *metrics), "support")
    usual = {"support": "desc", "name": "asc"}.get(sort, "worst")
    order = query.choice("order", _ORDERS, usual)
    least = query.number("min_support")
    wanted = query.text("q").casefold()
    falls = _falls(sort, order, data.task)

    supported = [row for row in rows if row.support >= least]
    matching = [row for row in supported if wanted in row.name.casefold()]
    ordered = _by_interval if order in ("worst", "best") else _sorted
    page = _page(query, slices=ordered(matching, sort, falls=falls))
    if query.choice("models", _ALL, "") and data.comparison:
        names = data.comparison[window.name].models
        of_model = {}
        for name in names:
            model = "" if name == names[0] else name
            found = query.of_part(data, window.name, "slices", model=model).slices[window.name]
            of_model[name] = {row.name: row.metrics for row in found}
        page["slices"] = [
            replace(row, models={name: rows.get(row.name, {}) for name, rows in of_model.items()})
            for row in page["slices"]
        ]
    return {
        "metrics": metrics,
        "sort": sort,
        "order": order,
        "all": len(rows),
        "below_support": len(rows) - len(supported),
        **page,
    }


def _comparison(data: Snapshot, query: QueryParameters, window: Window) -> Answer:
    if data.comparison:
        data = query.of_part(data, window.name, "comparison")
    return {"comparison": data.comparison.get(window.name)}


def _predictions(data: Snapshot, query: QueryParameters, window: Window) -> Answer:
    if window.name in data.predictions:
        data = query.of_part(data, window.name, "predictions")
    return {"predictions": data.predictions.get(window.name)}


def _page(query: QueryParameters, **named: list[Any]) -> Answer:
    """The requested page of some rows, under their name."""
    ((name, rows),) = named.items()
    offset, limit = query.number("offset"), query.number("limit")
    page = rows[offset : offset + limit]
    return {"matching": len(rows), "offset": offset, "limit": limit, name: page}


def _falls(sort: str, order: str, task: str) -> bool:
    """Whether large values come first."""
    if order in ("asc", "desc"):
        return order == "desc"
    direction = "none" if sort in ("support", "name") else find(sort, task).direction
    if direction == "none":
        raise RefusedError(
            400,
            expected="asc or desc",
            got=shown(order),
            where="order",
            remedy=f"no value of {sort} is better than another",
        )
    return (direction == "down") == (order == "worst")


def _sorted(rows: list[Slice], sort: str, *, falls: bool) -> list[Slice]:
    # Ties by support, then by name, whatever the order: so pages don't overlap.
    rows = sorted(rows, key=lambda row: (-row.support, row.name))

    def value(row: Slice) -> Any:
        return getattr(row, sort) if sort in ("support", "name") else row.metrics.get(sort)

    defined = [row for row in rows if value(row) is not None]
    undefined = [row for row in rows if value(row) is None]
    return sorted(defined, key=value, reverse=falls) + undefined


def _by_interval(rows: list[Slice], sort: str, *, falls: bool) -> list[Slice]:
    """Rows by the last end of the interval: a slice is early only if its whole interval is."""
    # The worst values are mostly of slices with few events, by chance. A slice without an interval
    # is after the others.

    def end(row: Slice) -> float:
        return row.low.get(sort, -math.inf) if falls else row.high.get(sort, math.inf)

    return sorted(_sorted(rows, sort, falls=falls), key=end, reverse=falls)


def _quarantine(data: Snapshot, query: QueryParameters) -> Answer:
    reason, found = query.text("reason"), data.quarantine
    recent = [row for row in found.recent if not reason or row.reason == reason]
    return {
        "total": found.total,
        "kept": found.kept,
        "reasons": found.reasons,
        **_page(query, recent=recent),
    }


def _field(name: str) -> Callable[[Snapshot, QueryParameters], Answer]:
    return lambda data, query: {name: getattr(data, name)}


_MATRIX = _struct("Matrix", Confusion.__doc__, **_types(Confusion, "classes"))
_JOIN_COUNTS = _struct("JoinCounts", Join.__doc__, **_types(Join, "cohorts"))
_QUARANTINE_COUNTS = _struct("QuarantineCounts", Quarantine.__doc__, **_types(Quarantine, "recent"))

_PAGE: dict[str, Any] = {
    "matching": Annotated[int, note("Rows that are left after all filters.")],
    "offset": int,
    "limit": int,
}
_SERIES_ANSWER = _shape(
    "SeriesAnswer",
    "Columns of one length, the oldest pane first.",
    window=Window,
    metric=str,
    **_types(Series, "metrics", "low", "high"),
    values=list[float | None],
    low=Annotated[list[float | None], note("Lower ends of the intervals; null: none.")],
    high=Annotated[list[float | None], note("Upper ends of the intervals; null: none.")],
)

ENDPOINTS = {
    "/api/view": _of_window(
        "Report, curves, confusion and a metric over time, of one snapshot.",
        *(_view, "ViewAnswer", _SLICE, _MODEL, _LABEL),
        Parameter("metric", "The metric over time; by default the first of the report."),
        report=Report,
        curves=dict[str, Curve],
        confusion=_MATRIX,
        series=Annotated[
            _SERIES_ANSWER | None,
            note("Null where no window has panes, or none with events of the slice."),
        ],
    ),
    "/api/report": _of_window(
        "Every metric of a window, with support and reason.",
        *(_report, "ReportAnswer", _SLICE, _MODEL),
        report=Report,
    ),
    "/api/curves/{name}": _of_window(
        "A curve's columns; a reason and none where the window has no such curve.",
        *(_curve_of, "CurveAnswer", _SLICE, _MODEL, _LABEL),
        **_types(Curve),
    ),
    "/api/series/{metric}": Endpoint(
        "A metric in each pane of a window.",
        _series_of,
        _SERIES_ANSWER,
        (Parameter("window", "A window of panes; by default the first such."), _SLICE, _MODEL),
    ),
    "/api/confusion": _of_window(
        "The confusion matrix of the largest classes, and every class with its weight.",
        *(_confusion, "ConfusionAnswer", _SLICE, _MODEL, _limit(_MOST_CLASSES)),
        **_types(Confusion),
    ),
    "/api/examples": _of_window(
        "The ids of some events of each cell of the confusion matrix.",
        *(_examples, "ExamplesAnswer"),
        Parameter("true", "Only cells of this true label.", longest=4096),
        Parameter("predicted", "Only cells of this predicted label.", longest=4096),
        cells=Annotated[
            list[ExampleCell] | None,
            note("Cells without an id are left out; null where join.examples is not set."),
        ],
    ),
    "/api/slices": _of_window(
        "A page of the slices; undefined values are last in every order.",
        *(_slices, "SlicesAnswer"),
        Parameter("sort", "support, name, or a metric.", "support"),
        Parameter(
            "order",
            "By default worst for a metric, desc for support, asc for name. worst and best "
            "sort by the end of the interval: slices that are certainly so are first.",
            choices=_ORDERS,
        ),
        Parameter("min_support", "Leave out slices with less.", 0),
        Parameter("q", "Only names that contain this, in either case."),
        _MODEL,
        Parameter("models", "Whether each row has the metrics of every model.", choices=_ALL),
        *(_OFFSET, _limit(_MOST_ROWS)),
        metrics=list[str],
        sort=str,
        order=Annotated[str, note(enum=list(_ORDERS))],
        all=Annotated[int, note("Slices of the window.")],
        below_support=Annotated[int, note("Of these, left out by min_support.")],
        **_PAGE,
        slices=list[Slice],
    ),
    "/api/comparison": _of_window(
        "Metrics of several models and their differences from the first.",
        *(_comparison, "ComparisonAnswer", _SLICE),
        comparison=Annotated[ModelComparison | None, note("Null where the run has one model.")],
    ),
    "/api/predictions": _of_window(
        "What predictions say before their labels are there: rates, drift, expected metrics.",
        *(_predictions, "PredictionsAnswer", _SLICE, _MODEL),
        predictions=Annotated[PredictionReport | None, note("Null where they are not counted.")],
    ),
    "/api/quarantine": Endpoint(
        "Records that could not be counted.",
        _quarantine,
        _shape(
            "QuarantineAnswer",
            **_types(Quarantine, "recent"),
            **_PAGE,
            recent=_types(Quarantine)["recent"],
        ),
        (Parameter("reason", "Only records of this reason."), _OFFSET, _limit(1000)),
    ),
}


def _served(kind: Any) -> Meta | None:
    """The metadata of a field that is answered as it is."""
    notes = [one for one in getattr(kind, "__metadata__", ()) if isinstance(one, Meta)]
    return next((one for one in notes if (one.extra or {}).get("served")), None)


for _name, _kind in _SNAPSHOT.items():
    if _meta := _served(_kind):
        ENDPOINTS[f"/api/{_name}"] = Endpoint(
            str(_meta.description),
            _field(_name),
            _shape(f"{_name.capitalize()}Answer", **{_name: _kind}),
        )

EVENT = _shape(
    "SnapshotEvent",
    "The data of one server-sent event named snapshot.",
    **{key: _SNAPSHOT[key] for key in ("windows", "reports")},
    join=_JOIN_COUNTS | None,
    partitions=_SNAPSHOT["partitions"],
    quarantine=_QUARANTINE_COUNTS,
    alerts=_SNAPSHOT["alerts"],
    checkpoint=Checkpoint,
)


def compact(data: Snapshot) -> Struct:
    """The part of a snapshot in the stream of events, which a page draws header and tiles of."""
    join = None if data.join is None else _part(data.join, _JOIN_COUNTS)
    quarantine = _part(data.quarantine, _QUARANTINE_COUNTS)
    return _part(replace(data, join=join, quarantine=quarantine), EVENT)


class Definition(Struct, frozen=True, forbid_unknown_fields=True):
    """The meaning and range of a metric."""

    definition: Annotated[str, note("One line: what the number is.")]
    low: Annotated[float | None, note("The smallest value; null: no bound.")]
    high: Annotated[float | None, note("The largest value; null: no bound.")]
    direction: Annotated[str, note("up: larger is better.", enum=["up", "down", "none"])]


_RUN = _shape(
    "Run",
    "What the run evaluates and reads.",
    task=_SNAPSHOT["task"],
    positive=_SNAPSHOT["positive"],
    classes=int,
    labels=Annotated[list[Label], note(f"The first {_MOST_LABELS}.")],
    level=_SNAPSHOT["level"],
    windows=list[Window],
    metrics=list[str],
    definitions=Annotated[dict[str, Definition], note("What each metric means.")],
    series=Annotated[list[str], note("Windows that have one.")],
    curves=Annotated[dict[str, list[str]], note("Those that each window has.")],
    slices=Annotated[dict[str, int], note("How many each window has.")],
    join=bool,
    predictions=Annotated[bool, note("Whether they are counted before their labels.")],
    models=Annotated[list[str], note("Those that are compared; empty of one model.")],
    sources=Annotated[list[SourceInfo], note("What the run reads.")],
    checkpoint=Checkpoint,
)

STATUS = _struct(
    "Status",
    version=str,
    started=Time,
    uptime_seconds=float,
    ready=bool,
    reasons=Annotated[list[str], note("Why it is not ready.")],
    codes=Annotated[list[Code], note("What each of the reasons is.")],
    posts=Annotated[bool, note("Whether events can be posted.")],
    run=Annotated[_RUN | None, note("Null before the first snapshot.")],
)
Alive = _struct("Alive", alive=bool)
_WHY_NOT = Annotated[list[str], note("Why not; empty without the token.")]
CaughtUp = _struct("CaughtUp", caught_up=bool, reasons=_WHY_NOT)
Ready = _struct("Ready", ready=bool, reasons=_WHY_NOT)
Accepted = _struct("Accepted", accepted=Annotated[int, note("Events that are durable now.")])


def status(
    data: Snapshot | None, *, now: float, started: float, reasons: list[Reason], posts: bool
) -> Answer:
    """The answer of ``/api/status``; times are seconds since 1970."""
    return {
        "version": __version__,
        "started": iso_time(int(started * 1e6)),
        "uptime_seconds": max(0.0, now - started),
        "ready": not reasons,
        "reasons": [reason.text for reason in reasons],
        "codes": [reason.code for reason in reasons],
        "posts": posts,
        "run": None if data is None else _run(data),
    }


def _run(data: Snapshot) -> Answer:
    metrics = list(data.reports[data.windows[0].name].metrics) if data.windows else []
    return {
        **_stamp(data),
        "task": data.task,
        "positive": data.positive,
        "classes": len(data.labels),
        "labels": data.labels[:_MOST_LABELS],
        "level": data.level,
        "windows": data.windows,
        "metrics": metrics,
        "definitions": {name: _definition(name, data.task) for name in metrics},
        "series": list(data.series),
        "curves": {window: list(curves) for window, curves in data.curves.items()},
        "slices": {window: len(rows) for window, rows in data.slices.items()},
        "join": data.join is not None,
        "predictions": bool(data.predictions),
        "models": next((one.models for one in data.comparison.values()), []),
        "sources": data.sources,
        "checkpoint": data.checkpoint,
    }


def _definition(name: str, task: str) -> Definition:
    """JSON has no infinity, so no bound is null."""
    row = find(name, task)
    low, high = (bound if math.isfinite(bound) else None for bound in (row.low, row.high))
    return Definition(row.definition, low, high, row.direction)
