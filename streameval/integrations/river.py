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
from streameval.tasks.multilabel import predicted_scores, predicted_set
from streameval.tasks.registry import TASKS, TaskName, likely_task, task_names

try:
    from river import base as river_base
    from river import metrics as river_metrics
except ImportError:
    raise MissingExtraError("RiverMetric", package="river", extra="river") from None

__all__ = ["RiverMetric"]

_EVALUATOR_OPTIONS = frozenset(inspect.signature(Evaluator).parameters) - {"metrics"}


# River recognises a metric by its class, so this adapter derives from River's.
class RiverMetric(river_metrics.base.ClassificationMetric, river_metrics.base.RegressionMetric):
    """Any metric of streameval as a River metric.

    It works wherever River takes a metric: ``evaluate.progressive_val_score``,
    ``utils.Rolling``, ``forest.ARFClassifier(metric=…)``, bandits and other model
    selection, ``metrics.multioutput``, ``+`` with other metrics of its kind. For multi-label
    models, ``RiverMetric("f1_micro")`` stands in place of ``metrics.multioutput``.

    Args:
        name: A name of :data:`streameval.metrics.METRICS`.
        **evaluator_options: The options of :class:`streameval.Evaluator`; any
            other is a parameter of the metric, such as ``beta=2`` of ``fbeta``.
            Where ``task`` is left out, ``positive`` or ``threshold`` makes it
            binary. Otherwise a metric of one task only is of that task, and a
            metric of labels is multi-class (any labels). The first event decides between
            tasks that have the metric: multi-label where the truth is a mapping label -> bool,
            or a set; of probabilities multi-class where a label is none of ``True``, ``False``,
            0 and 1.

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
    >>> error = RiverMetric("mean_absolute_error")
    >>> error.update(3.2, 2.9)
    >>> error
    mean_absolute_error: 0.300000
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
        self._undecided = len(tasks) > 1 and not declared_binary
        self._positive = self._options.get("positive", True)
        self._from_labels = of_labels and "threshold" not in self._options
        # Label sets are found by the first event.
        of_classes = [task for task in tasks if TASKS[task].truth != "label sets"] or tasks
        self._open(of_classes[-1] if of_labels and not declared_binary else of_classes[0])

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
            tasks = {TASKS[task].truth: task for task in self._tasks()}
            if isinstance(y_true, (Mapping, set, frozenset)):
                self._open(tasks.get("label sets", self.evaluator.task))
            elif (
                not self._from_labels
                and isinstance(y_pred, Mapping)
                and not {y_true, *y_pred} <= {0, 1}
            ):
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
        task = TASKS[self.evaluator.task]
        if task.truth == "label sets" and isinstance(y_pred, Mapping):
            if self._from_labels:
                return {"y_pred": predicted_set(y_pred)}
            return {"score": predicted_scores(y_pred)}
        if self._from_labels:
            # As in River's predict_one, the first of equal probabilities.
            if isinstance(y_pred, Mapping):
                return {"y_pred": max(y_pred, key=lambda label: y_pred[label])}
            return {"y_pred": y_pred}
        if not isinstance(y_pred, Mapping):
            # Scores of anomaly detectors, and bools of models without probabilities.
            return {"score": float(y_pred)}
        if "score" not in task.fields:
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
        """Whether River can evaluate a model: one of a task that has the metric."""
        tasks = self._tasks() if self._undecided else (self.evaluator.task,)
        detector = river_base.AnomalyFilter if self._from_labels else river_base.AnomalyDetector
        kinds: set[type] = set()
        for truth in (TASKS[task].truth for task in tasks):
            kinds |= _MODELS.get(truth, {river_base.Classifier, detector})
        return isinstance(model, tuple(kinds))

    def __add__(self, other: river_metrics.base.Metric) -> river_metrics.base.Metrics:
        base: Any = river_metrics.base
        of_numbers = TASKS[self.evaluator.task].truth == "numbers"
        kind = base.RegressionMetric if of_numbers else base.ClassificationMetric
        if not isinstance(other, kind):
            raise ValueError(f"{self.name} and {type(other).__name__} are not compatible")
        together: river_metrics.base.Metrics = base.Metrics([self, other])
        return together

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


_MODELS: Mapping[str, set[type]] = {
    "label sets": {river_base.MultiLabelClassifier},
    "numbers": {river_base.Regressor},
}
"""The models that River evaluates, by what a true label is; of labels classifiers and detectors."""


def _is_given(y_pred: Any) -> bool:
    """Whether there is a prediction: River's models begin with None or ``{}``."""
    return y_pred is not None and not (isinstance(y_pred, Mapping) and not y_pred)
