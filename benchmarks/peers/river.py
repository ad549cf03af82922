"""River's classification metrics, beside evaluators that are fed the same."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from river import metrics

from benchmarks.peers.ledger import Known, Ledger, NotCovered, same
from streameval.integrations.river import RiverMetric

PEER = "river"

_COUNTERPARTS = {
    "Accuracy": "accuracy",
    "BalancedAccuracy": "balanced_accuracy",
    "CohenKappa": "cohen_kappa",
    "CrossEntropy": "log_loss",
    "GeometricMean": "geometric_mean",
    "LogLoss": "log_loss",
    "MCC": "matthews_corrcoef",
    **{
        f"{prefix}{name}": ours + ending
        for prefix, ending in (
            ("", ""),
            ("Macro", "_macro"),
            ("Micro", "_micro"),
            ("Weighted", "_weighted"),
        )
        for name, ours in (
            ("F1", "f1"),
            ("FBeta", "fbeta"),
            ("Jaccard", "jaccard"),
            ("Precision", "precision"),
            ("Recall", "recall"),
        )
    },
}

_REASONS = {
    "ROCAUC": "an approximation by a few thresholds",
    "RollingROCAUC": "a window of its own; with streameval, an evaluator's window",
    "RollingPRAUC": "a window of its own, and trapezoids",
    "MultiFBeta": "a beta for each class",
}

_SHARED = "a confusion matrix that another metric feeds"


def _fed(event: Any, name: str) -> Any:
    """The class's update or revert, which feeds the counterpart too."""

    def feeding(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = event(self, *args, **kwargs)
        twin = self.__dict__.setdefault("_twin", None) or _twin(self)
        self.__dict__["_twin"] = twin
        self.__dict__["_counted"] = self.__dict__.get("_counted", 0) + 1
        getattr(twin, name)(*args, **kwargs)
        return result

    return feeding


def _twin(metric: Any) -> RiverMetric:
    options: dict[str, Any] = {"undefined": 0.0}
    if "fbeta" in _COUNTERPARTS[type(metric).__name__]:
        options["beta"] = metric.beta
    if isinstance(metric, metrics.base.BinaryMetric):
        # Where a metric has none, probabilities are of True.
        options |= {"task": "binary", "positive": getattr(metric, "pos_val", True)}
    else:
        options["task"] = "multiclass"
    return RiverMetric(_COUNTERPARTS[type(metric).__name__], **options)


def _read(theirs: float, metric: Any) -> Any:
    name = type(metric).__name__
    if name in _REASONS:
        raise NotCovered(_REASONS[name])
    twin = metric.__dict__.get("_twin")
    if twin is None and getattr(metric, "cm", None) is not None and metric.cm.n_samples:
        raise NotCovered(_SHARED)
    ours = (twin or _twin(metric)).get()
    if name == "LogLoss" and not same(theirs, ours):
        raise Known("River cuts probabilities at 1e-15, streameval at 2**-52")
    return ours


def install(ledger: Ledger) -> None:
    """Have each get() compared, before tests import the classes."""
    for name in (*_COUNTERPARTS, *_REASONS):
        kind = getattr(metrics, name, None)
        if kind is None:
            continue
        if name in _COUNTERPARTS:
            kind.update, kind.revert = _fed(kind.update, "update"), _fed(kind.revert, "revert")
        kind.get = ledger.wrapped(PEER, name, kind.get, _read)


def tests(*, bounded: bool, source: Path | None) -> list[str]:
    """pytest's arguments: the wheel has the metrics' own examples, a source tree has more."""
    spec = find_spec("river.metrics")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    arguments = ["--doctest-modules", *spec.submodule_search_locations]
    return (
        arguments if source is None else [*arguments, str(source.resolve() / "tests" / "metrics")]
    )
