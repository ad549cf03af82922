"""Events as an Arrow table, how ``evaluate`` is called on them, and the state of all of them.

What carries the table must not change a bit of the state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as arrow

import streameval as se
from tests.support.table_carriers import FILES, WRITTEN

ROWS = 180
_RANDOM = random.Random(13)
_START = datetime(2026, 3, 1, tzinfo=UTC)


def _some(*values: Any) -> list[Any]:
    return _RANDOM.choices(values, k=ROWS)


def _scores() -> list[float]:
    return [_RANDOM.randrange(50) / 50 for _ in range(ROWS)]


def _shares(labels: int) -> list[list[float]]:
    rows = []
    for _ in range(ROWS):
        cuts = sorted(_RANDOM.randrange(65) for _ in range(labels - 1))
        rows.append([(b - a) / 64 for a, b in zip([0, *cuts], [*cuts, 64], strict=True)])
    return rows


_ARGUMENTS = {
    **{name: name for name in ("y_true", "y_pred", "score", "proba", "weight")},
    "time": "event_time",
}
"""From what a call says of columns to the arguments of ``update``."""
_OPTIONS = ("task", "positive", "labels", "threshold", "window", "intervals", "bootstrap")
_OPTIONS += ("max_scores", "time_unit", "metrics")


@dataclass(frozen=True)
class Case:
    """Events, how ``evaluate`` is called on them, and how one evaluator counts them singly."""

    columns: Mapping[str, Any]
    call: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)
    """Options of the evaluator that ``evaluate`` finds out."""
    shares: Mapping[Any, str] = field(default_factory=dict)
    """From a label to the column of its probabilities; that of 1 alone is the positive one."""
    flags: Mapping[Any, str] = field(default_factory=dict)
    """From a label to the column that says whether a true set has it."""
    without: frozenset[str] = frozenset()
    """Carriers that cannot hold such columns."""
    of_files: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the call where the data are files."""

    def call_on(self, carrier: str) -> Mapping[str, Any]:
        """The arguments of ``evaluate`` on a carrier."""
        more = self.of_files if carrier in FILES else {}
        return {**self.call, **more, **WRITTEN.get(carrier, {})}

    def table(self) -> arrow.Table:
        return arrow.table(dict(self.columns))

    def state(self) -> bytes:
        """The state of the events one by one."""
        call, by = self.call, self.call.get("by", ())
        dimensions = (by,) if isinstance(by, str) else tuple(by)
        options = {name: call[name] for name in _OPTIONS if name in call} | dict(self.more)
        ev = se.Evaluator(**options, slices=dimensions)
        keys = [key for one in dimensions for key in ((one,) if isinstance(one, str) else one)]
        fields = {
            argument: call[name]
            for name, argument in _ARGUMENTS.items()
            if isinstance(call.get(name), str) and call[name] in self.columns
        }
        if "bootstrap" in call:
            fields["unit"] = call["bootstrap"].unit
        for row in self.table().to_pylist():
            event = {name: row[column] for name, column in fields.items()}
            moment = event.get("event_time")
            if isinstance(moment, datetime) and moment.tzinfo is None:
                event["event_time"] = moment.replace(tzinfo=UTC)
            if isinstance(event.get("proba"), list):
                event["proba"] = dict(zip(options["labels"], event["proba"], strict=True))
            if self.shares:
                shares = {label: row[column] for label, column in self.shares.items()}
                event["proba"] = shares if len(shares) > 1 else row[self.shares[1]]
            if self.flags:
                event["y_true"] = {label: row[column] for label, column in self.flags.items()}
            if separator := call.get("label_separator"):
                texts = {name: event[name] for name in ("y_true", "y_pred")}
                event |= {name: set(text.split(separator)) - {""} for name, text in texts.items()}
            if keys:
                event["slices"] = {key: row[key] for key in keys}
            ev.update(**event)
        return ev.to_bytes()


def _multiclass(columns: Mapping[str, Any], proba: Any, *without: str, **more: Any) -> Case:
    return Case(
        {"label": _LABELS, **_BY_LABEL, **columns},
        {"y_true": "label", "proba": proba, **more},
        {"task": "multiclass"},
        shares=dict(zip(_NAMES, _BY_LABEL, strict=True)),
        without=frozenset(without),
    )


_SETS = (["cat", "dog"], [], ["cow"], ["dog", "cow", "cat"])
_FLAGS: Mapping[str, tuple[Any, ...]] = {"cat": (0, 1), "cow": (True, False), "dog": (0.0, 1.0)}


def _sets(columns: Mapping[str, Any], **more: Any) -> Case:
    return Case(
        columns,
        {"y_true": "true", "y_pred": "predicted", "task": "multilabel", **more},
    )


def _timed(unit: str, zone: str | None) -> Case:
    moments = [_START + timedelta(milliseconds=_RANDOM.randrange(7_200_000)) for _ in range(ROWS)]
    panes = se.Panes("1h", pane="10m", lateness="1h")
    times = arrow.array(
        [moment if zone else moment.replace(tzinfo=None) for moment in moments],
        arrow.timestamp(unit, zone),
    )
    return Case(
        {"label": _some(0, 1), "score": _scores(), "at": times},
        {"y_true": "label", "score": "score", "time": "at", "window": panes},
        of_files={} if zone else {"utc": True},
    )


_DAYS = [date(2026, 2, 28), date(2026, 3, 1), date(1, 1, 1)]
_KEYS = {
    "flag": arrow.array(_some(True, False, None)),
    "small": arrow.array(_some(-7, 0, 7, None), arrow.int8()),
    "large": arrow.array(_some(-(2**62), 2**62, None)),
    "whole": arrow.array(_some(7.0, 2.0**40, None)),
    "text": arrow.array(_some("PT", "007", None)),
    "category": arrow.array(_some("a", "b", None)).dictionary_encode(),
    "none": arrow.array(_some(None), arrow.string()),
    "date": arrow.array(_some(*_DAYS, None), arrow.date32()),
}

_NAMES = ["cat", "cow", "dog"]
_LABELS = _some(*_NAMES)
_TABLE = _shares(3)
_BY_LABEL = {f"p_{name}": [row[n] for row in _TABLE] for n, name in enumerate(_NAMES)}
_LISTS = arrow.array(_TABLE, arrow.list_(arrow.float64()))
_FIXED = arrow.array(_TABLE, arrow.list_(arrow.float64(), 3))
_STRUCTS = [dict(zip(_NAMES, row, strict=True)) for row in _TABLE]

CASES: dict[str, Case] = {
    "scores of booleans": Case(
        {"late": _some(True, False), "score": _scores()},
        {"y_true": "late", "score": "score"},
    ),
    "labels of numbers, weights and slices": Case(
        {
            "label": _some(0, 1),
            "predicted": _some(0, 1),
            "country": _some("PT", "DE", "7", None),
            "model": _some(1, 2, None),
            "weight": _some(1, 2, 3),
        },
        {
            "y_true": "label",
            "y_pred": "predicted",
            "weight": "weight",
            "by": ["country", ("country", "model")],
            "task": "binary",
            "intervals": True,
        },
    ),
    "slices of dates": Case(
        {"label": _some(0, 1), "score": _scores(), "day": _some(*_DAYS, None)},
        {"y_true": "label", "score": "score", "by": "day"},
    ),
    "slices of every type": Case(
        {"label": _some(0, 1), "score": _scores(), **_KEYS},
        {"y_true": "label", "score": "score", "by": list(_KEYS)},
        # In CSV whole floats and truths are text.
        without=frozenset(
            name for name in FILES if "csv" in name or name in ("tsv", "xz") or "gzip" in name
        ),
    ),
    "scores of texts": Case(
        {"label": _some("spam", "ham"), "score": _scores(), "flag": _some(True, False)},
        {
            "y_true": "label",
            "score": "score",
            "positive": "spam",
            "by": "label",
            "max_scores": 2000,
        },
    ),
    "the positive probability": Case(
        {"label": _some(0, 1), "p": _scores()},
        {"y_true": "label", "proba": "p", "task": "binary", "threshold": 0.3},
    ),
    "both probabilities of numbers": Case(
        {"label": _some(0, 1), "p_1": _scores()},
        {"y_true": "label", "proba": "p_*", "task": "binary"},
        shares={1: "p_1"},
    ),
    "units": Case(
        {"label": _some(0, 1), "score": _scores(), "user": _some(1, 2, 3, 4, 5)},
        {"y_true": "label", "score": "score", "bootstrap": se.Bootstrap(20, unit="user")},
    ),
    "probabilities: mapping": _multiclass({}, dict(zip(_NAMES, _BY_LABEL, strict=True))),
    "probabilities: text of pairs": _multiclass({}, "cat=p_cat,cow=p_cow,dog=p_dog"),
    "probabilities: prefix": _multiclass({}, "p_*"),
    "probabilities: pattern": Case(
        {"label": _LABELS, **{f"p_{name}_v2": _BY_LABEL[f"p_{name}"] for name in _NAMES}},
        {"y_true": "label", "proba": "p_*_v2"},
        {"task": "multiclass"},
        shares={name: f"p_{name}_v2" for name in _NAMES},
    ),
    "probabilities: columns": _multiclass({}, list(_BY_LABEL), labels=_NAMES),
    "probabilities: columns named as labels": Case(
        {"label": _LABELS, **{name: _BY_LABEL[f"p_{name}"] for name in _NAMES}},
        {"y_true": "label", "proba": ["dog", "cat", "cow"], "labels": _NAMES},
        {"task": "multiclass"},
        shares={name: name for name in _NAMES},
    ),
    "probabilities: array": _multiclass({}, np.array(_TABLE), *FILES, labels=_NAMES),
    "probabilities: lists": _multiclass({"p": _LISTS}, "p", "dict", labels=_NAMES),
    "probabilities: lists of one length": _multiclass({"p": _FIXED}, "p", "dict", labels=_NAMES),
    "probabilities: struct": _multiclass({"p": _STRUCTS}, "p", "dict"),
    "a list of both probabilities": Case(
        {"label": _some("spam", "ham"), "p": [[1 - p, p] for p in _some(0.0, 0.25, 0.5, 1.0)]},
        {"y_true": "label", "proba": "p", "positive": "spam", "negative": "ham"},
        {"labels": ["ham", "spam"]},
        without=frozenset({"dict"}),
    ),
    "numbers": Case(
        {
            "y": [_RANDOM.gauss(0, 3) for _ in range(ROWS)],
            "predicted": _some(-7, 0, 12),
            "country": _some("PT", "DE", None),
            "weight": _some(1, 2, 3),
        },
        {
            "y_true": "y",
            "y_pred": "predicted",
            "weight": "weight",
            "by": "country",
            "task": "regression",
        },
    ),
    "label sets: lists": _sets({"true": _some(*_SETS), "predicted": _some(*_SETS)}),
    "label sets: numbers": _sets({"true": _some([7, 1], [], [2]), "predicted": _some([1], [2, 7])}),
    "label sets: texts": _sets(
        {
            "true": _some(*map("|".join, _SETS)),
            "predicted": arrow.array(_some(*map("|".join, _SETS))).dictionary_encode(),
        },
        label_separator="|",
    ),
    "label sets: columns": Case(
        {
            **{f"y_{name}_v2": _some(*values) for name, values in _FLAGS.items()},
            **{f"p_{name}": _scores() for name in _NAMES},
        },
        {"y_true": "y_*_v2", "proba": "p_*", "task": "multilabel", "threshold": 0.3},
        {"labels": _NAMES},
        shares={name: f"p_{name}" for name in _NAMES},
        flags={name: f"y_{name}_v2" for name in _NAMES},
    ),
    **{
        f"times in {unit}, {zone or 'naive'}": _timed(unit, zone)
        for unit, zone in (("ms", "UTC"), ("us", None), ("ns", "Europe/Lisbon"))
    },
}
