"""streameval's metrics inside River: exact where River's own approximate.

Importing this module needs the extra ``river``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from streameval.errors import MetricError, MissingExtraError
from streameval.evaluator.evaluator import Evaluator
from streameval.metrics.metric import Metric
from streameval.metrics.registry import find
from streameval.tasks.registry import TASKS, TaskName, likely_task, task_names

try:
    from river import base as river_base
    from river import metrics as river_metrics
except ImportError:
    raise MissingExtraError("RiverMetric", package="river", extra="river") from None

__all__ = ["RiverMetric"]

_EVALUATOR_OPTIONS = frozenset(inspect.signature(Evaluator).parameters) - {"metrics"}


# River recognises a metric by its class, so this adapter derives from River's.
class RiverMetric(river_metrics.base.ClassificationMetric):
    """Any metric of streameval as a River metric.

    It works wherever River takes a metric: ``evaluate.progressive_val_score``,
    ``utils.Rolling``, ``forest.ARFClassifier(metric=…)``, bandits and other model
    selection, ``metrics.multioutput``, ``+`` with other classification metrics.

    Args:
        name: A name of :data:`streameval.metrics.METRICS`.
        **evaluator_options: The options of :class:`streameval.Evaluator`; any
            other is a parameter of the metric, such as ``beta=2`` of ``fbeta``.
            Where ``task`` is left out, ``positive`` or ``threshold`` makes it
            binary. Otherwise a metric of one task only is of that task, and a
            metric of labels is multi-class (any labels). A metric of
            probabilities that both tasks have is decided by the first event:
            multi-class where a label is none of ``True``, ``False``, 0 and 1.

    A metric of labels is fed predicted labels; a metric of scores, or one
    with ``threshold=``, is fed probabilities, or the scores of an anomaly detector.
    A prediction that is None or ``{}`` is ignored, as in
    ``evaluate.progressive_val_score``. An undefined value is ``nan``; model
    selection, which compares values, should have ``undefined=0.0``.

    Raises:
        MetricError: An unknown metric or parameter.

    >>> auc = RiverMetric("roc_auc")
    >>> auc.update(True, {False: 0.2, True: 0.8})
    >>> auc.update(False, {False: 0.7, True: 0.3})
    >>> auc
    roc_auc: 100.00%
    >>> recall_counts_more = RiverMetric("fbeta", beta=2)
    """

    def __init__(self, name: str, **evaluator_options: Any) -> None:
        # River clones a metric from the attributes named as these parameters.
        self.name = name
        self.evaluator_options = evaluator_options
        given = evaluator_options.items()
        self._options = {key: value for key, value in given if key in _EVALUATOR_OPTIONS}
        self._params = {key: value for key, value in given if key not in _EVALUATOR_OPTIONS}
        tasks = self._tasks()
        of_labels = not self._found(tasks[0]).needs_scores
        declared_binary = bool({"positive", "threshold"} & set(self._options))
        self._undecided = len(tasks) > 1 and not of_labels and not declared_binary
        self._positive = self._options.get("positive", True)
        self._from_labels = of_labels and "threshold" not in self._options
        self._open(tasks[-1] if of_labels and not declared_binary else tasks[0])

    def _tasks(self) -> tuple[TaskName, ...]:
        """The tasks in which the metric exists; the declared one where there is one."""
        if "task" in self._options:
            return (self._options["task"],)
        tasks = []
        for task in task_names():
            try:
                self._found(task)
            except MetricError:
                continue
            tasks.append(task)
        if not tasks:
            find(self.name, task_names()[0])  # raises: no such metric
        return tuple(tasks)

    def _found(self, task: TaskName) -> Metric:
        return find(self.name, task, self._params.get("average", ...))

    def _open(self, task: TaskName) -> None:
        options = {**self._options, "task": task}
        self.evaluator = Evaluator(metrics=[self._found(task).name], **options)
        self.get()  # raises: a parameter that the metric does not take

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        # River's generic tests construct their instances from these parameters.
        yield {"name": "accuracy"}
        yield {"name": "roc_auc"}

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Count one event; ``y_pred`` is a label, a score or River's dict of probabilities."""
        if self._undecided and _is_given(y_pred):
            self._undecided = False
            if isinstance(y_pred, Mapping) and not {y_true, *y_pred} <= {0, 1}:
                self._open(likely_task(False))
        prediction = self._prediction(y_pred)
        if prediction is not None:
            self.evaluator.update(y_true, **prediction, weight=w)

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Undo one earlier event exactly."""
        prediction = self._prediction(y_pred)
        if prediction is not None:
            self.evaluator.revert(y_true, **prediction, weight=w)

    def _prediction(self, y_pred: Any) -> dict[str, Any] | None:
        """The prediction as an evaluator's argument; None where there is none."""
        if not _is_given(y_pred):
            return None
        if self._from_labels:
            # As in River's predict_one, the first of equal probabilities.
            if isinstance(y_pred, Mapping):
                return {"y_pred": max(y_pred, key=lambda label: y_pred[label])}
            return {"y_pred": y_pred}
        if not isinstance(y_pred, Mapping):
            # Scores of anomaly detectors, and bools of models without probabilities.
            return {"score": float(y_pred)}
        if "score" not in TASKS[self.evaluator.task].fields:
            return {"proba": y_pred}
        # As in River, a class that is missing from the prediction has probability 0.
        return {"score": y_pred.get(self._positive, 0.0)}

    def get(self) -> float:
        """The current value; ``nan`` while undefined."""
        if self._params:
            value: float = self.evaluator.value(self.name, **self._params)
            return value
        return self.evaluator[self.name]

    def works_with(self, model: Any) -> bool:
        """Whether River can evaluate a model: a classifier, an anomaly detector or filter."""
        kind = river_base.AnomalyFilter if self._from_labels else river_base.AnomalyDetector
        return isinstance(model, river_base.Classifier | kind)

    @property
    def bigger_is_better(self) -> bool:
        """Whether larger values are better."""
        return find(self.name).direction == "up"

    @property
    def requires_labels(self) -> bool:
        """Whether River is to pass labels rather than probabilities."""
        return self._from_labels

    @property
    def works_with_weights(self) -> bool:
        """Weights count."""
        return True

    @property
    def _fmt(self) -> str:  # type: ignore[override]
        # Only a fraction is shown as a percentage: not log loss, not a kappa below 0.
        row = find(self.name)
        return ".2%" if (row.low, row.high) == (0.0, 1.0) else ",.6f"

    def __repr__(self) -> str:
        return f"{self.name}: {self.get():{self._fmt}}"


def _is_given(y_pred: Any) -> bool:
    """Whether there is a prediction: River's models begin with None or ``{}``."""
    return y_pred is not None and not (isinstance(y_pred, Mapping) and not y_pred)
