"""Every metric by name: what the evaluator, the report and the command line ask.

A new metric is one function and one row beside it (``label_rows.py`` or
``score_rows.py``); nothing else lists metrics.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from streameval.errors import MetricError, listed, shown
from streameval.events import Label
from streameval.metrics.averages import undefined_classes
from streameval.metrics.label_rows import LABEL_ROWS, RULE_OF_MEAN
from streameval.metrics.metric import BOTH, Metric, public_name
from streameval.metrics.score_rows import SCORE_ROWS
from streameval.states.confusion import ConfusionCounts
from streameval.states.registry import STATES

__all__ = [
    "LISTED",
    "METRICS",
    "ROWS",
    "compute",
    "find",
    "left_out",
    "metric_names",
    "shown_metrics",
]

ROWS: tuple[Metric, ...] = (*LABEL_ROWS, *SCORE_ROWS)
"""Every row, in the order of reports. A name may stand twice, once for each task."""


def _by_task(task: str) -> dict[str, Metric]:
    return {row.name: row for row in ROWS if task in row.tasks}


_OF_TASK: Mapping[str, Mapping[str, Metric]] = {task: _by_task(task) for task in sorted(BOTH)}

METRICS: Mapping[str, Metric] = MappingProxyType(
    {**{row.name: row for row in ROWS}, **_OF_TASK["binary"]}
)
"""Every name; the binary row where the tasks have one each. :func:`find` knows the task."""

# Other names in use, for the hint of an error only: a value has one name.
LISTED = "streameval.metrics.METRICS lists them"
"""Where names are found, in errors; the command line names its own command instead."""

_ALSO_CALLED: Mapping[str, str] = {
    "acc": "accuracy",
    "auc": "roc_auc",
    "auroc": "roc_auc",
    "auprc": "average_precision",
    "ap": "average_precision",
    "brier": "brier_score",
    "coverage": "recall",
    "cross_entropy": "log_loss",
    "ece": "expected_calibration_error",
    "f_beta": "fbeta",
    "f2": "fbeta",
    "f_measure": "f1",
    "g_mean": "geometric_mean",
    "g_measure": "fowlkes_mallows",
    "gmean": "geometric_mean",
    "hit_rate": "recall",
    "iou": "jaccard",
    "kappa": "cohen_kappa",
    "kolmogorov_smirnov": "ks",
    "mcc": "matthews_corrcoef",
    "misclassification": "error_rate",
    "phi": "matthews_corrcoef",
    "ppv": "precision",
    "sensitivity": "recall",
    "tnr": "specificity",
    "tpr": "recall",
    "youden": "informedness",
    "youden_j": "informedness",
    "zero_one_loss": "error_rate",
}


def find(name: str, task: str | None = None, average: object = ...) -> Metric:
    """The row of a name.

    Args:
        name: As :data:`METRICS` spells it, or with `average` a family's name.
        task: ``"binary"`` or ``"multiclass"``; None for whichever has it.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``; None
            for a row whose function returns a dictionary of every class's
            value. Left out, the name says it all.

    Raises:
        MetricError: No such metric (near spellings are named), or not in this
            task (what to ask instead is named).

    >>> find("fbeta", "multiclass", "weighted").name
    'fbeta_weighted'
    >>> find("f1", "multiclass")
    Traceback (most recent call last):
    streameval.errors.MetricError: f1 is about one class: in a multi-class task ask f1_macro, ...
    >>> find("mcc")
    Traceback (most recent call last):
    streameval.errors.MetricError: no metric is called 'mcc'; did you mean matthews_corrcoef?
    """
    if not isinstance(name, str) or name not in METRICS:
        raise MetricError(_unknown(name))
    if average is not ...:
        if not (average is None or isinstance(average, str)):
            raise MetricError(f"{name} has no average {shown(average)}; it is a name or None")
        return _with_average(name, task, average)
    rows = METRICS if task is None else _rows_of(task)
    row = rows.get(name)
    if row is None:
        raise MetricError(_elsewhere(name, str(task)))
    return row


def _rows_of(task: object) -> Mapping[str, Metric]:
    if not isinstance(task, str) or task not in _OF_TASK:
        raise MetricError(f'task: expected "binary" or "multiclass", got {shown(task)}')
    return _OF_TASK[task]


def _with_average(name: str, task: str | None, average: str | None) -> Metric:
    # The plain name of a class metric, though no row of multi-class tasks, is
    # what its averages are made of.
    row = (METRICS if task is None else _rows_of(task)).get(name, METRICS[name])
    fixed = "average" in row.fixed
    if not (fixed or "average" in row.params) or (fixed and name.endswith(row.fixed["average"])):
        raise MetricError(f"{name} takes no average")
    if average is None:
        function = functools.partial(row.function, average=None)
        return replace(row, function=function, needs_positive=False, params=_less_average(row))
    if average == row.fixed.get("average", "binary"):
        return replace(row, params=_less_average(row))
    other = f"{name}_{average}"
    if other not in METRICS:
        known = [n for n in METRICS if n.startswith(name + "_")]
        raise MetricError(
            f"{name} has no average {shown(average)}; there are {', '.join(known) or 'none'}"
        )
    return find(other, task)


def _less_average(row: Metric) -> tuple[str, ...]:
    return tuple(name for name in row.params if name != "average")


def _unknown(name: object) -> str:
    text = f"no metric is called {shown(name)}"
    if not isinstance(name, str):
        return f"{text}; a name is a str"
    plain = name.lower().replace("-", "_").replace(" ", "_").removesuffix("_score")
    also = _ALSO_CALLED.get(plain)
    near = [also] if also else difflib.get_close_matches(plain, METRICS, n=3)
    if near:
        return f"{text}; did you mean {' or '.join(near)}?"
    return f"{text}; {LISTED}"


def _elsewhere(name: str, task: str) -> str:
    instead = [other for other in _OF_TASK[task] if other.startswith(name + "_")]
    if task == "multiclass":
        if METRICS[name].needs_positive and instead:
            return f"{name} is about one class: in a multi-class task ask {_either(instead)}"
        there = f"; ask {_either(instead)}" if instead else ""
        return f"{name} is for binary tasks{there}"
    base = next((row for row in _OF_TASK[task] if name.startswith(row + "_")), None)
    return f"{name} is for multi-class tasks" + (f"; ask {base}" if base else "")


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def metric_names(metrics: object) -> list[str]:
    """Names of metrics as a list; a single one may stand for itself.

    Raises:
        InputError: It is neither.

    >>> metric_names("f1"), metric_names(("f1", "accuracy"))
    (['f1'], ['f1', 'accuracy'])
    """
    return [metrics] if isinstance(metrics, str) else listed(metrics, "metrics", "a list of names")


def shown_metrics(task: str) -> list[Metric]:
    """The rows that a task's report shows without being asked, in its order.

    >>> [row.name for row in shown_metrics("multiclass")][:3]
    ['accuracy', 'balanced_accuracy', 'precision_macro']
    """
    return [row for row in _rows_of(task).values() if task in row.shown]


def left_out(
    metric: Metric | str, counts: ConfusionCounts, undefined: float | None = None
) -> list[Label]:
    """The classes that a mean over classes leaves out, because they have no value.

    Args:
        metric: A row or its name; empty for one that is no such mean.
        counts: The events.
        undefined: The number that the mean was asked with, if any: it stands
            for those classes, which are then not left out.

    Cost:
        O(classes).

    >>> counts = ConfusionCounts.from_matrix([[1, 0], [1, 0]], ["cat", "dog"])
    >>> left_out("precision_macro", counts), left_out("recall_macro", counts)
    (['dog'], [])
    """
    name = (metric if isinstance(metric, Metric) else find(metric)).name
    if not isinstance(counts, ConfusionCounts):
        raise MetricError(f"left_out is about ConfusionCounts, got {type(counts).__name__}")
    rule = RULE_OF_MEAN.get(name)
    if rule is None or not counts.total:
        return []
    # The balanced accuracy is a mean over the classes that exist, whatever
    # number stands in for an undefined whole.
    if name != "balanced_accuracy" and undefined is not None and undefined == undefined:
        return []
    labels = [label for label, _ in undefined_classes(rule, counts)]
    if name.endswith("_weighted"):
        # Without weight a class is not missed.
        return [label for label in labels if counts.true_count(label)]
    return labels


def compute(
    name: str,
    *states: Any,
    positive: Label | None = None,
    undefined: float | None = None,
    average: object = ...,
    **params: Any,
) -> float:
    """A metric of states by its name.

    To read one value again and again, take ``find(name).bind(...)`` once.

    Args:
        name: As :data:`METRICS` spells it.
        *states: The state that the metric asks; two for ``kappa_temporal``.
        positive: The positive class, for metrics of one class.
        undefined: A number in place of an undefined value.
        average: As in :func:`find`.
        **params: The metric's own parameters.

    Raises:
        MetricError: An unknown name or parameter, or another state.

    >>> counts = ConfusionCounts.from_matrix([[1, 1], [0, 1]], ["cat", "dog"])
    >>> compute("f1", counts, positive="cat"), compute("f1_macro", counts)
    (0.6666666666666666, 0.6666666666666666)
    >>> compute("roc_auc", counts)
    Traceback (most recent call last):
    streameval.errors.MetricError: roc_auc is a function of ScoreIndex, got ConfusionCounts
    """
    row = find(name, None, average)
    if not _takes(row, states) and name in _OF_TASK["multiclass"]:
        # One name may ask another state in each task.
        row = find(name, "multiclass", average)
    if not _takes(row, states):
        wanted = ", ".join(public_name(STATES[state].types[0]) for state in row.states)
        got = ", ".join(type(state).__name__ for state in states) or "none"
        raise MetricError(f"{name} is a function of {wanted}, got {got}")
    return row.bind(positive=positive, undefined=undefined, **params)(*states)


def _takes(row: Metric, states: tuple[Any, ...]) -> bool:
    return len(states) == len(row.states) and all(
        isinstance(state, STATES[name].types)
        for state, name in zip(states, row.states, strict=True)
    )
