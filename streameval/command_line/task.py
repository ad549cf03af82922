"""Which evaluator answers a request: decided once, from the first labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streameval.command_line.batches import Batch
from streameval.command_line.request import Request
from streameval.errors import InputError, shown
from streameval.evaluator import Evaluator
from streameval.event_time import NANOSECONDS, iso_time, unit_remedy
from streameval.events import Label
from streameval.files.chunk import Column
from streameval.files.label_text import label_from_text, likely_type

__all__ = ["check_time_unit", "first_label", "label_reader", "open_evaluator"]

_LISTED = 8


def label_reader(sample: object) -> Callable[[str], Label]:
    """How text from the command line, or a JSON key, becomes a label like ``sample``.

    >>> label_reader(0)("1"), label_reader("ham")("1")
    (1, '1')
    """
    if isinstance(sample, str):
        return lambda text: text

    def number(text: str) -> Label:
        if text.lower() in ("true", "false"):
            return int(text.lower() == "true")
        return int(label_from_text(text, "int"))

    return number


def check_time_unit(request: Request, first: Batch) -> None:
    """Refuse ``--time-unit`` where it puts half of the first records into early 1970.

    Raises:
        InputError: Another unit puts them between 1990 and 2100.
    """
    if request.time is None or request.time_unit is None:
        return
    times = first.columns[request.time]
    assert isinstance(times, np.ndarray)
    middle = len(times) // 2
    moment = int(np.partition(times.view(np.int64), middle)[middle])
    remedy = unit_remedy(moment * 1_000 // NANOSECONDS[request.time_unit], request.time_unit)
    if remedy:
        raise InputError(
            "--time-unit",
            expected=f"the unit of the times in {request.time!r}",
            got=f"{request.time_unit}, by which a typical one is {iso_time(moment)}",
            remedy=remedy,
        )


def open_evaluator(request: Request, first: Batch | None) -> Evaluator:
    """The evaluator for a request.

    Args:
        request: What was asked.
        first: The first records; None when there are none at all.

    Raises:
        InputError: It cannot be told which label is positive.
        MetricError: ``--metrics`` names one that the task does not have.
    """
    options: dict[str, Any] = {
        "metrics": request.kept_metrics,
        "temporal": request.temporal,
        "window": request.window,
        "slices": request.slices,
        "max_slices": request.max_slices,
        "time_unit": request.time_unit,
    }
    if request.labels is not None:
        options["labels"] = _labels(request.labels, first, request)
    if not request.binary:
        return Evaluator("multiclass", **options)
    if request.threshold is not None:
        options["threshold"] = request.threshold
    return Evaluator("binary", positive=_positive(request, first), **options)


def _labels(texts: tuple[str, ...], first: Batch | None, request: Request) -> list[Label]:
    """The labels that ``--labels`` lists, or that ``--positive`` names, of the records' type."""
    option = "--labels" if texts is request.labels else "--positive"
    if first is None:
        # Nothing to compare with; a number is what 0 and 1 would have been.
        sample: Any = "" if likely_type(texts) == "str" else 0
    else:
        sample = first_label(first.columns[request.y_true])
    read = label_reader(sample)
    labels: list[Label] = []
    for text in texts:
        try:
            labels.append(read(text))
        except InputError:
            raise InputError(
                option, expected=f"a number like the label {shown(sample)}", got=shown(text)
            ) from None
    return labels


def _positive(request: Request, first: Batch | None) -> Label:
    if request.positive is not None:
        return _labels((request.positive,), first, request)[0]
    if request.labels is not None:
        labels = _labels(request.labels, first, request)
    elif first is not None:
        labels = _distinct(first.columns[request.y_true])
    else:
        return 1
    # Beside 0 and 1 a stray label is a bad record: the evaluator refuses it where it stands.
    if all(label in (0, 1) for label in labels) or {0, 1} <= set(labels):
        return 1
    listed = ", ".join(shown(label) for label in labels[:_LISTED])
    more = f" and {len(labels) - _LISTED} more" if len(labels) > _LISTED else ""
    raise InputError(
        "--positive",
        expected="the label that counts as positive",
        got=f"nothing; the labels of {request.y_true!r} are {listed}{more}",
        remedy="give --positive LABEL",
    )


def first_label(column: Column) -> Any:
    """The label of the first record, whose type the others should have."""
    assert not isinstance(column, dict)
    return column[0].item() if isinstance(column, np.ndarray) else column[0]


def _distinct(column: Column) -> list[Any]:
    """The distinct labels, in an order to show them."""
    if isinstance(column, np.ndarray):
        return [value.item() for value in np.unique(column)]
    assert isinstance(column, list)
    return sorted(dict.fromkeys(column), key=lambda label: (str(type(label)), label))
