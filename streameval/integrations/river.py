"""streameval's metrics inside River: exact where River's own approximate.

Importing this module needs the extra ``river``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streameval.errors import MissingExtraError
from streameval.evaluator import Evaluator
from streameval.metrics.registry import METRICS, find

try:
    from river import metrics as river_metrics
except ImportError:
    raise MissingExtraError("RiverMetric", package="river", extra="river") from None

__all__ = ["RiverMetric"]

_LABEL_STATES = frozenset({"confusion", "succession"})


# House rule: no inheritance but for exceptions. River recognises a metric by
# its class, so this one adapter derives from River's.
class RiverMetric(river_metrics.base.ClassificationMetric):
    """Any metric of streameval as a River metric.

    It goes wherever River takes a metric: ``evaluate.progressive_val_score``,
    ``utils.Rolling``, ``+`` with other classification metrics.

    Args:
        name: A name of :data:`streameval.metrics.METRICS`.
        **evaluator_options: As for :class:`streameval.Evaluator`. Where
            ``task`` is left out, a metric of labels that multi-class tasks
            have is multi-class (any labels), every other is binary
            (``positive=True`` unless given).

    A metric of labels is fed predicted labels; a metric of scores, or one
    with ``threshold=``, is fed probabilities. An undefined value is ``nan``.

    >>> auc = RiverMetric("roc_auc")
    >>> auc.update(True, {False: 0.2, True: 0.8})
    >>> auc.update(False, {False: 0.7, True: 0.3})
    >>> auc
    roc_auc: 100.00%
    """

    def __init__(self, name: str, **evaluator_options: Any) -> None:
        options = dict(evaluator_options)
        if "task" not in options:
            row = METRICS.get(name) or find(name)
            of_labels = row.state in _LABEL_STATES and "multiclass" in row.tasks
            told_binary = "positive" in options or "threshold" in options
            options["task"] = "multiclass" if of_labels and not told_binary else "binary"
        if name == "kappa_temporal":
            options.setdefault("temporal", True)
        # River clones a metric from the attributes named as these parameters.
        self.name = name
        self.evaluator_options = evaluator_options
        self._row = find(name, options["task"])
        self.evaluator = Evaluator(metrics=[name], **options)
        self._positive = options.get("positive", True)
        self._from_labels = self._row.state in _LABEL_STATES and "threshold" not in options

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Count one event; ``y_pred`` is a label, a probability or River's dict of them."""
        self.evaluator.update(y_true, **self._prediction(y_pred), weight=w)

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Undo one earlier event exactly."""
        self.evaluator.revert(y_true, **self._prediction(y_pred), weight=w)

    def _prediction(self, y_pred: Any) -> dict[str, Any]:
        if isinstance(y_pred, Mapping):
            if self.evaluator.task == "multiclass":
                return {"proba": y_pred}
            # As River: a class that the model does not know has probability 0.
            return {"score": y_pred.get(self._positive, 0.0)}
        if self._from_labels:
            return {"y_pred": y_pred}
        # River's models without probabilities, and bools as scores.
        return {"score": float(y_pred)}

    def get(self) -> float:
        """The current value; ``nan`` while undefined."""
        return self.evaluator[self.name]

    @property
    def bigger_is_better(self) -> bool:
        """Whether larger values are better."""
        return self._row.direction == "up"

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
        # A share reads as a percentage; log loss, kappas below 0 … do not.
        return ".2%" if (self._row.low, self._row.high) == (0.0, 1.0) else ",.6f"

    def __repr__(self) -> str:
        return f"{self.name}: {self.get():{self._fmt}}"
