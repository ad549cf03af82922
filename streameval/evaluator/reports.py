"""Reports: immutable values of metrics, to print, store or publish."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from streameval.evaluator.slices import SliceKey, slice_name
from streameval.events.values import Label, Weight
from streameval.metrics.cut_points import CutPoint
from streameval.metrics.undefined import json_number
from streameval.tables import Table as Table
from streameval.tables import data_frame
from streameval.uncertainty.differences import Side
from streameval.uncertainty.estimate_check import EstimateCheck
from streameval.uncertainty.interval import Bounds, Interval, hash_of_values, same_values


class ReportRow(NamedTuple):
    """One metric of a report."""

    metric: str
    value: float
    """``nan`` where undefined."""
    reason: str
    """Why the value is undefined, or what was omitted from it; else empty."""
    support: Weight
    """Weight of the events that the value is about."""
    interval: Interval | None = None
    """None unless intervals were requested."""
    bounds: Bounds | None = None
    """None unless the value depends on scores that have been coarsened."""


class SeriesRow(NamedTuple):
    """A metric over one pane of event time."""

    start: str
    """ISO 8601, UTC; the pane holds its start and not its end."""
    end: str
    value: float
    reason: str
    support: Weight
    interval: Interval | None = None
    bounds: Bounds | None = None


def number(value: float) -> str:
    """A value as tables show it: ten digits; JSON has all of them."""
    return f"{value:.10g}"


def weight(value: Weight) -> str:
    """A support as tables show it."""
    return str(value) if isinstance(value, int) else f"{value:.12g}"


class Tabular:
    """Writes the header and the rows that ``_cells`` returns as text, Markdown and HTML."""

    __slots__ = ()

    _right: ClassVar[Sequence[str]] = ("support",)
    """The columns that text and Markdown align to the right."""

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        """The header and the rows; short, as in notebooks: four digits, intervals beside values."""
        raise NotImplementedError

    def table(self) -> Table:
        """The rows as cells."""
        header, rows = self._cells()
        return Table(header, rows, frozenset(self._right))

    def __str__(self) -> str:
        return self.table().to_text()

    def to_markdown(self) -> str:
        """A Markdown table."""
        return self.table().to_markdown()

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """The columns of :meth:`to_frame`."""
        header, rows = self._cells()
        return {name: [row[n] for row in rows] for n, name in enumerate(header)}

    def to_frame(self) -> Any:
        """A data frame of pandas or polars, whichever is loaded, with all digits.

        Raises:
            MissingExtraError: Neither is installed.
        """
        return data_frame(self._columns())

    def _repr_html_(self) -> str:
        return Table(*self._cells(short=True)).to_html()

    def __repr__(self) -> str:
        count = len(self._cells()[1])
        return f"<{type(self).__name__}: {count} row{'s' * (count != 1)}; print it for the table>"


_Row = TypeVar("_Row")


class TableOfRows(Tabular, Generic[_Row]):
    """A report of ``rows``, which iterating gives, as JSON too."""

    __slots__ = ()

    rows: tuple[_Row, ...]

    def __iter__(self) -> Iterator[_Row]:
        return iter(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The same as indented JSON text."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=2).decode()


@dataclass(frozen=True, slots=True, repr=False)
class Report(TableOfRows[ReportRow]):
    """Metrics with their values, reasons and support.

    Iterating gives its :class:`ReportRow` s; ``report["accuracy"]`` is a value.

    >>> report = Report("binary", (ReportRow("accuracy", 0.75, "", 4),))
    >>> report["accuracy"]
    0.75
    >>> print(report)
    metric    value  support
    accuracy  0.75         4
    """

    task: str
    rows: tuple[ReportRow, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the numbers depend on: positive label and threshold of a binary task, and the window
    where it is not all events."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, metric: str) -> float:
        for row in self.rows:
            if row.metric == metric:
                return row.value
        raise KeyError(metric)

    def to_dict(self, *, flat: bool = False) -> dict[str, Any]:
        """Plain data for JSON: undefined values are None with their reason.

        Args:
            flat: Only ``{name: value}``, for loggers; undefined values are ``nan``.
        """
        if flat:
            return {row.metric: float(row.value) for row in self.rows}
        return {
            "task": self.task,
            **self.notes,
            "metrics": {row.metric: plain_value(row) for row in self.rows},
        }

    def _names(self) -> dict[str, list[str]]:
        return {"metric": [row.metric for row in self.rows]}

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        return value_cells(self._names(), "value", self.rows, short=short)

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return value_columns(self._names(), self.rows)

    def __repr__(self) -> str:
        some = ", ".join(f"{row.metric} {row.value:.4g}" for row in self.rows[:3])
        more = ", …" if len(self.rows) > 3 else ""
        return f"<Report: {self.task}, {len(self.rows)} metrics; {some}{more}>"


class Shares(Report):
    """The share of each predicted label, with its support: a report by label."""

    __slots__ = ()

    def _names(self) -> dict[str, list[str]]:
        return {"label": [row.metric for row in self.rows]}


_COLUMNS = ("precision", "recall", "f1-score", "support")


@dataclass(frozen=True, slots=True, repr=False)
class ClassificationReport(Tabular):
    """The table of classes, as scikit-learn's ``classification_report``.

    ``rows`` maps a class or an average to its four numbers; an undefined
    number is ``nan`` and not part of the averages.
    """

    rows: Mapping[Label, tuple[float, float, float, Weight]]
    accuracy: float | None
    """None where some class was left out: there is a micro average instead."""
    total: Weight
    averages: Mapping[str, tuple[float, float, float, Weight]]
    row_intervals: Mapping[Label, tuple[Interval, ...]] | None = None
    """Of the three metrics of each class, where intervals were requested."""
    average_intervals: Mapping[str, tuple[Interval, ...]] | None = None
    accuracy_interval: Interval | None = None
    digits: int = 4
    """Decimal places of the printed numbers."""
    _right = _COLUMNS

    def to_dict(self) -> dict[str, Any]:
        """As ``sklearn.metrics.classification_report(output_dict=True)``.

        With intervals, a class and an average have a further key ``intervals``, from a metric to
        its interval, and there is an ``accuracy_interval``.
        """

        def lines(rows: Mapping[Any, Any], intervals: Mapping[Any, Any] | None) -> dict[str, Any]:
            plain: dict[str, Any] = {}
            for name, row in rows.items():
                plain[str(name)] = line = dict(zip(_COLUMNS, row, strict=True))
                if intervals is not None:
                    named = zip(_COLUMNS, intervals[name], strict=False)
                    line["intervals"] = {column: one.to_dict() for column, one in named}
            return plain

        table = lines(self.rows, self.row_intervals)
        if self.accuracy is not None:
            table["accuracy"] = self.accuracy
        if self.accuracy_interval is not None:
            table["accuracy_interval"] = self.accuracy_interval.to_dict()
        return {**table, **lines(self.averages, self.average_intervals)}

    def _cells(
        self, *, short: bool = False, beneath: bool = False
    ) -> tuple[list[str], list[list[str]]]:
        """The table; the ends of intervals are beside their numbers, or in lines beneath."""
        lines: list[list[str]] = []

        def add(
            name: str, values: Sequence[float | None], support: Weight, ends: Sequence[str] | None
        ) -> None:
            numbers = ["" if value is None else f"{value:.{self.digits}f}" for value in values]
            if ends is not None and not beneath:
                numbers = [f"{n} {end}".strip() for n, end in zip(numbers, ends, strict=True)]
            lines.append([name, *numbers, weight(support)])
            if ends is not None and beneath:
                lines.append(["", *ends, ""])

        for label, row in self.rows.items():
            add(str(label), row[:3], row[3], self._ends((self.row_intervals or {}).get(label)))
        if self.accuracy is not None:
            of_accuracy = self.accuracy_interval
            ends = None if of_accuracy is None else ["", "", *(self._ends([of_accuracy]) or ())]
            add("accuracy", (None, None, self.accuracy), self.total, ends)
        for name, row in self.averages.items():
            add(name, row[:3], row[3], self._ends((self.average_intervals or {}).get(name)))
        return ["", *_COLUMNS], lines

    def table(self, *, beneath: bool = False) -> Table:
        """The rows as cells; the ends of intervals beside their numbers, or in lines beneath."""
        return Table(*self._cells(beneath=beneath), frozenset(_COLUMNS))

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        rows: dict[Any, Sequence[Any]] = dict(self.rows)
        if self.accuracy is not None:
            rows["accuracy"] = (self.accuracy, self.accuracy, self.accuracy, self.total)
        rows |= self.averages
        numbers = zip(*rows.values(), strict=True)
        return {
            "class": [str(name) for name in rows],
            **{name: list(column) for name, column in zip(_COLUMNS, numbers, strict=False)},
        }

    def _ends(self, intervals: Sequence[Interval] | None) -> list[str] | None:
        if intervals is None:
            return None
        form = f"[{{:.{self.digits}f}}, {{:.{self.digits}f}}]"
        return [form.format(one.low, one.high) if one.defined else "" for one in intervals]

    def __str__(self) -> str:
        return self.table(beneath=True).to_text()


class SliceRow(NamedTuple):
    """A slice's value of the metric."""

    slice: SliceKey
    value: float
    reason: str
    support: Weight
    interval: Interval | None = None
    bounds: Bounds | None = None
    differs: Side | None = None
    """With intervals, the side on which it differs from all other events, by
    :func:`streameval.uncertainty.differences.sides`."""


@dataclass(frozen=True, slots=True, repr=False)
class SliceReport(Tabular):
    """A metric for each slice, worst first; undefined values last."""

    metric: str
    total: SliceRow
    rows: tuple[SliceRow, ...]
    below_support: int
    """Number of slices omitted because of their support."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "metric": self.metric,
            "total": {"slice": {}, **plain_value(self.total)},
            "slices": [
                {
                    "slice": dict(row.slice),
                    **plain_value(row),
                    **({"differs": row.differs} if row.differs else {}),
                }
                for row in self.rows
            ],
            "below_support": self.below_support,
        }

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        rows = (self.total, *self.rows)
        names = {"slice": [slice_name(row.slice) for row in rows]}
        return value_cells(names, self.metric, rows, short=short)

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return value_columns(slice_columns([row.slice for row in self.rows]), self.rows)

    def __str__(self) -> str:
        tail = f"\nleft out for less support: {self.below_support}" if self.below_support else ""
        # Not super(), which knows the class as it was before it had slots.
        return Tabular.__str__(self) + tail


class GroupRate(NamedTuple):
    """A group and its rate."""

    slice: SliceKey
    rate: str
    """``"positive_rate"``, ``"recall"`` or ``"fpr"``."""
    value: float

    def __str__(self) -> str:
        return f"{slice_name(self.slice)}: {self.value:.4g}"


class FairnessRow(NamedTuple):
    """A metric of fairness, and the two groups that make it."""

    metric: str
    value: float
    """``nan`` where undefined."""
    reason: str
    """Why the value is undefined, or which groups it is without; else empty."""
    support: Weight
    """Weight of the events of the groups."""
    interval: Interval
    highest: GroupRate | None = None
    """The group of the largest rate; None where the value is undefined."""
    lowest: GroupRate | None = None
    bounds: None = None
    """As rows of other reports; no rate is of the ranking of scores."""


@dataclass(frozen=True, slots=True, repr=False)
class FairnessReport(TableOfRows[FairnessRow]):
    """The metrics of fairness over the groups of a slice key, each with its interval.

    Iterating gives its :class:`FairnessRow` s; ``report["demographic_parity_ratio"]`` is a value.
    """

    by: tuple[str, ...]
    """The slice key, or the keys of a combination."""
    label: Label
    """The class whose predictions are compared; the positive one of a binary task."""
    level: float
    groups: tuple[SliceKey, ...]
    left_out: tuple[SliceKey, ...]
    """Slices of less support, and those that are no group: ``(missing)`` and ``(other)``."""
    rows: tuple[FairnessRow, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the numbers depend on, as in a :class:`Report`."""

    @property
    def by_name(self) -> Mapping[str, FairnessRow]:
        """From each metric's name to its row."""
        return {row.metric: row for row in self.rows}

    def __getitem__(self, metric: str) -> float:
        return self.by_name[metric].value

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: undefined values are None with their reason."""
        metrics: dict[str, Any] = {}
        for row in self.rows:
            metrics[row.metric] = found = plain_value(row)
            for name, group in (("highest", row.highest), ("lowest", row.lowest)):
                if group is not None:
                    found[name] = {**group._asdict(), "slice": dict(group.slice)}
        return {
            "by": list(self.by),
            "label": self.label,
            **self.notes,
            "level": self.level,
            "groups": [dict(key) for key in self.groups],
            "left_out": [dict(key) for key in self.left_out],
            "metrics": metrics,
        }

    @property
    def without(self) -> str:
        """Which slices are left out, in words; empty where none is."""
        return f"left out: {some_slices(self.left_out)}" if self.left_out else ""

    def _names(self) -> dict[str, list[str]]:
        return {
            "metric": [row.metric for row in self.rows],
            "highest": [str(row.highest or "") for row in self.rows],
            "lowest": [str(row.lowest or "") for row in self.rows],
        }

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        return value_cells(self._names(), "value", self.rows, short=short)

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return value_columns(self._names(), self.rows)

    def __str__(self) -> str:
        # Not super(), which knows the class as it was before it had slots.
        return "\n".join(filter(None, (TableOfRows.__str__(self), self.without)))


class LabelCutPoints(Tabular, dict[Label, CutPoint]):
    """The best cut-point of each label by one rule."""

    __slots__ = ()
    _right = CutPoint._fields

    @property
    def thresholds(self) -> dict[Label, float]:
        """The threshold of each label that has one, as ``threshold=`` of an evaluator takes it."""
        return {label: cut.threshold for label, cut in self.items() if not cut.reason}

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        header = ["label", *CutPoint._fields]
        return header, [
            [str(label), _short(cut.threshold), *map(weight, cut[1:-1]), _decimals(cut.value)]
            for label, cut in self.items()
        ]

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        columns = {name: [getattr(cut, name) for cut in self.values()] for name in CutPoint._fields}
        return {"label": list(self), **columns}


class LabelTable(Tabular):
    """Support, metrics and threshold of each label; ``table["f1"]`` is a dict of label to value."""

    __slots__ = ("columns", "labels")

    def __init__(self, labels: Iterable[Label], columns: Mapping[str, Mapping[Label, Any]]) -> None:
        self.labels = list(labels)
        self.columns = columns

    def __getitem__(self, name: str) -> Mapping[Label, Any]:
        return self.columns[name]

    @property
    def _right(self) -> Sequence[str]:  # type: ignore[override]
        return list(self.columns)

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        shown: dict[str, Any] = {"label": str, "support": weight, "threshold": _short}
        columns = self._columns()
        cells = [map(shown.get(name, _decimals), column) for name, column in columns.items()]
        return list(columns), list(map(list, zip(*cells, strict=True)))

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        columns = {
            name: [column.get(label, math.nan) for label in self.labels]
            for name, column in self.columns.items()
        }
        return {"label": self.labels, **columns}


_short, _decimals = "{:.6g}".format, "{:.4f}".format


class Series(Tabular, list[SeriesRow]):
    """A metric over the panes, oldest first: a list of :class:`SeriesRow`."""

    __slots__ = ("metric",)

    def __init__(self, metric: str, rows: Iterable[SeriesRow]) -> None:
        super().__init__(rows)
        self.metric = metric

    def __reduce__(self) -> tuple[Any, ...]:
        return Series, (self.metric, list(self))

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        return value_cells(self._names(), self.metric, self, short=short)

    def _names(self) -> dict[str, list[str]]:
        return {"start": [row.start for row in self], "end": [row.end for row in self]}

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return value_columns(self._names(), self)

    def __repr__(self) -> str:
        last = f"; the last {self[-1].value:.4g}" if self else ""
        return f"<Series: {self.metric} of {len(self)} panes{last}>"


class ExpectedRow(NamedTuple):
    """A pane's expected metric and its value by the labels."""

    start: str
    """ISO 8601, UTC; the pane holds its start and not its end."""
    end: str
    expected: Interval
    value: float
    """``nan`` where undefined."""
    held: bool | None
    """Whether the interval contains the value; None where either is missing."""


@dataclass(frozen=True, slots=True, repr=False)
class ExpectedCheck(TableOfRows[ExpectedRow]):
    """How an expected metric held in each pane, and whether too many intervals failed.

    Iterating gives its :class:`ExpectedRow` s. What follows the rows is explained in
    :class:`~streameval.uncertainty.estimate_check.EstimateCheck`.
    """

    metric: str
    rows: tuple[ExpectedRow, ...]
    panes: int
    held: int
    error: float
    flagged: bool
    reason: str

    __eq__ = same_values
    __hash__ = hash_of_values

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: undefined values are None."""
        check = EstimateCheck(self.panes, self.held, self.error, self.flagged, self.reason)
        rows = [row._asdict() | {"value": json_number(row.value)} for row in self.rows]
        for row, (_, _, one, *_) in zip(rows, self.rows, strict=True):
            row["expected"] = {"value": json_number(one.value), **one.to_dict()}
        return {"metric": self.metric, **check.to_dict(), "rows": rows}

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        names = ("start", "end", "expected", "low", "high", "value", "held")
        rows = [(*row[:2], float(row[2].value), *row[2][1:3], *row[3:]) for row in self.rows]
        return {name: [row[n] for row in rows] for n, name in enumerate(names)}

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        form, columns = ".4g" if short else ".6g", dict(self._columns())
        columns["held"] = [{True: "yes", False: "no"}.get(held, "") for held in columns["held"]]
        for name in ("expected", "low", "high", "value"):
            columns[name] = [f"{number:{form}}" for number in columns[name]]
        return [*columns], [list(line) for line in zip(*columns.values(), strict=True)]

    def __str__(self) -> str:
        return f"{Tabular.__str__(self)}\n{self.reason}"

    def __repr__(self) -> str:
        state = "flagged" if self.flagged else "not flagged"
        return f"<ExpectedCheck: {self.metric}, {state}; {self.reason}>"


def some_slices(keys: Sequence[SliceKey]) -> str:
    """Names of up to five slices, and how many more there are."""
    names = "; ".join(map(slice_name, keys[:5]))
    return names if len(keys) <= 5 else f"{names} and {len(keys) - 5} more"


ValueRow: TypeAlias = ReportRow | SliceRow | SeriesRow | FairnessRow
"""A row with a value, its reason, support, interval and bounds."""


def slice_columns(keys: Sequence[SliceKey]) -> dict[str, list[Any]]:
    """A column with each slice's name, and one for each of the keys."""
    columns: dict[str, list[Any]] = {"slice": [slice_name(key) for key in keys]}
    for name in dict.fromkeys(name for key in keys for name, _ in key):
        taken = name in columns or name in ("value", "low", "high", "support", "reason")
        columns[f"slice.{name}" if taken else name] = [dict(key).get(name) for key in keys]
    return columns


def value_columns(
    names: Mapping[str, Sequence[Any]], rows: Sequence[ValueRow]
) -> dict[str, Sequence[Any]]:
    """The columns of a data frame of values: of intervals and bounds where there are any."""
    columns: dict[str, Sequence[Any]] = {**names, "value": [float(row.value) for row in rows]}
    for prefix, found in (
        ("", [row.interval for row in rows]),
        ("bounds_", [row.bounds for row in rows]),
    ):
        if any(one is not None for one in found):
            for end in ("low", "high"):
                ends = [math.nan if one is None else float(getattr(one, end)) for one in found]
                columns[prefix + end] = ends
    return {
        **columns,
        "support": [row.support for row in rows],
        "reason": [row.reason for row in rows],
    }


def value_cells(
    names: Mapping[str, Sequence[str]],
    value: str,
    rows: Sequence[ValueRow],
    *,
    short: bool = False,
) -> tuple[list[str], list[list[str]]]:
    """The header and the cells of a table of values: all have intervals, or none."""
    shown_values = [f"{row.value:.4g}" if short else number(row.value) for row in rows]
    intervals = [row.interval for row in rows if row.interval is not None]
    if short and intervals:
        shown_values = [one.short() for one in intervals]
    columns = [*names.items(), (value, shown_values)]
    if intervals and not short:
        columns += [
            ("low", [f"{interval.low:.6g}" for interval in intervals]),
            ("high", [f"{interval.high:.6g}" for interval in intervals]),
            ("interval", [interval.method for interval in intervals]),
        ]
    if any(row.bounds for row in rows):
        columns.append(("bounds", ["" if row.bounds is None else str(row.bounds) for row in rows]))
    differs = [getattr(row, "differs", None) or "" for row in rows]
    if any(differs):
        columns.append(("differs", differs))
    columns.append(("support", [weight(row.support) for row in rows]))
    reasons = [row.reason or (row.interval.reason if row.interval else "") for row in rows]
    if any(reasons):
        columns.append(("reason", reasons))
    header, cells = zip(*columns, strict=True)
    return list(header), [list(line) for line in zip(*cells, strict=True)]


def plain_value(row: ValueRow) -> dict[str, Any]:
    """A value with its support, reason and interval, as plain data for JSON."""
    return {
        "value": json_number(row.value),
        "support": row.support,
        **({"reason": row.reason} if row.reason else {}),
        **({"interval": row.interval.to_dict()} if row.interval else {}),
        **({"bounds": row.bounds.to_list()} if row.bounds else {}),
    }
