"""An evaluator as a metric of torchmetrics, for loops of PyTorch and Lightning.

Importing this module needs the extra ``torchmetrics``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from streameval.errors import MissingExtraError
from streameval.evaluator.evaluator import Evaluator, from_bytes
from streameval.evaluator.merging import merge

try:
    import torch
    import torchmetrics
except ImportError:
    raise MissingExtraError(
        "StreamevalMetric", package="torchmetrics", extra="torchmetrics"
    ) from None

__all__ = ["StreamevalMetric"]


# Lightning recognises a metric by its class, so this adapter derives from torchmetrics'.
class StreamevalMetric(torchmetrics.Metric):  # type: ignore[misc]
    """Metrics of streameval as a metric of torchmetrics, exact over all ranks.

    The state that ranks exchange is the evaluator's bytes, and its reduction is the merge: the
    numbers are the same bits for any number of ranks. Checkpoints hold it too.

    Args:
        *metrics: Names of :data:`streameval.metrics.METRICS`.
        **evaluator_options: The options of :class:`streameval.Evaluator`.

    Raises:
        MetricError: An unknown metric.

    >>> import torch
    >>> metric = StreamevalMetric("roc_auc")
    >>> metric.update(torch.tensor([0.9, 0.4, 0.35, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    full_state_update = False
    is_differentiable = False

    def __init__(self, *metrics: str, **evaluator_options: Any) -> None:
        super().__init__()
        self.metrics = metrics or ("roc_auc",)
        options = {"metrics": self.metrics, **evaluator_options}
        self._new = partial(Evaluator, **options)  # unlike a lambda it can be pickled
        self.evaluator = self._new()
        self.add_state("packed", default=[], dist_reduce_fx=_merged)

    def update(self, preds: Any, target: Any) -> None:
        """Count a batch.

        Args:
            preds: Scores of the positive class or of each class (a column each, with
                ``labels=``), or predicted labels where it holds integers.
            target: True labels.
        """
        _count(self.evaluator, preds, target)

    def forward(self, preds: Any, target: Any) -> Any:
        """Count a batch; returns the numbers of this batch alone."""
        self.update(preds, target)
        batch = self._new()
        _count(batch, preds, target)
        self._forward_cache = self._values(batch)
        return self._forward_cache

    def compute(self) -> Any:
        """The number, or a dict of them if several were named."""
        packed: Sequence[Any] = self.packed
        return self._values(_unpacked(packed[0]) if packed else self.evaluator)

    def _values(self, evaluator: Evaluator) -> Any:
        found = {
            name: torch.tensor(float(evaluator[name]), dtype=torch.float64, device=self.device)
            for name in self.metrics
        }
        return found if len(found) > 1 else next(iter(found.values()))

    def _sync_dist(self, *args: Any, **kwargs: Any) -> None:
        self.packed = [_packed(self.evaluator).to(self.device)]
        super()._sync_dist(*args, **kwargs)

    def reset(self) -> None:
        """Forget all events."""
        super().reset()
        self.evaluator = self._new()

    def get_extra_state(self) -> Any:
        """What a checkpoint holds."""
        return _packed(self.evaluator)

    def set_extra_state(self, state: Any) -> None:
        """Go on from a checkpoint."""
        self.evaluator = _unpacked(state)


def _count(evaluator: Evaluator, preds: Any, target: Any) -> None:
    values, truth = (tensor.detach().cpu().numpy() for tensor in (preds, target))
    if values.ndim == 2:
        evaluator.update_many(truth, proba=values)
    elif values.dtype.kind == "f":
        evaluator.update_many(truth, score=values)
    else:
        evaluator.update_many(truth, y_pred=values)


def _packed(evaluator: Evaluator) -> Any:
    return torch.frombuffer(bytearray(evaluator.to_bytes()), dtype=torch.uint8)


def _unpacked(tensor: Any) -> Evaluator:
    return from_bytes(np.asarray(tensor.cpu()).tobytes())


def _merged(packed: Sequence[Any]) -> list[Any]:
    """The merge of the states of all ranks, as the reduction of torchmetrics."""
    found = merge((_unpacked(one) for one in packed), allow_overlap=True)  # ranks share no events
    return [_packed(found).to(packed[0].device)]
