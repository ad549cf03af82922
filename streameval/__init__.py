"""streameval: exact, mergeable evaluation of classifiers on streams of predictions.

A metric is a pure function of a mergeable state. An :class:`Evaluator` keeps
the states current; windows, slices and shards only choose which state is asked.

>>> import streameval as se
>>> ev = se.Evaluator(task="binary")
>>> ev = ev.update(True, score=0.9).update(False, score=0.4)
>>> ev["accuracy"], ev["roc_auc"]
(1.0, 1.0)
"""

from __future__ import annotations

TYPE_CHECKING = False  # as of typing, which takes longer to load than the rest
if TYPE_CHECKING:
    from typing import Any

    from streameval import metrics
    from streameval.errors import (
        InputError,
        MetricError,
        MissingExtraError,
        StateError,
        StreamevalError,
    )
    from streameval.evaluator.comparison import Comparison, Difference
    from streameval.evaluator.evaluator import Evaluator, from_bytes, load
    from streameval.evaluator.merging import merge
    from streameval.evaluator.predictions import Predictions
    from streameval.prequential_folds import prequential
    from streameval.records.evaluate import evaluate, from_counts
    from streameval.states.backend import backend
    from streameval.states.confusion import ConfusionCounts
    from streameval.states.label_counts import LabelCounts
    from streameval.states.label_sets import LabelSetCounts
    from streameval.states.moments import ScoreMoments
    from streameval.states.probability import ProbabilitySums
    from streameval.states.score_index import ScoreIndex
    from streameval.uncertainty.drift import Drift
    from streameval.uncertainty.interval import Bounds, Interval
    from streameval.windows import Bootstrap, Fading, Last, Panes

__version__ = "0.1.0"

__all__ = [
    "Bootstrap",
    "Bounds",
    "Comparison",
    "ConfusionCounts",
    "Difference",
    "Drift",
    "Evaluator",
    "Fading",
    "InputError",
    "Interval",
    "LabelCounts",
    "LabelSetCounts",
    "Last",
    "MetricError",
    "MissingExtraError",
    "Panes",
    "Predictions",
    "ProbabilitySums",
    "ScoreIndex",
    "ScoreMoments",
    "StateError",
    "StreamevalError",
    "__version__",
    "backend",
    "evaluate",
    "from_bytes",
    "from_counts",
    "load",
    "merge",
    "metrics",
    "prequential",
]

_MODULES = {
    "errors": "InputError MetricError MissingExtraError StateError StreamevalError",
    "evaluator.comparison": "Comparison Difference",
    "evaluator.evaluator": "Evaluator from_bytes load",
    "evaluator.merging": "merge",
    "evaluator.predictions": "Predictions",
    "prequential_folds": "prequential",
    "records.evaluate": "evaluate from_counts",
    "states.backend": "backend",
    "states.confusion": "ConfusionCounts",
    "states.label_counts": "LabelCounts",
    "states.label_sets": "LabelSetCounts",
    "states.moments": "ScoreMoments",
    "states.probability": "ProbabilitySums",
    "states.score_index": "ScoreIndex",
    "uncertainty.drift": "Drift",
    "uncertainty.interval": "Bounds Interval",
    "windows": "Bootstrap Fading Last Panes",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
"""The module of each name, imported when the name is first used: commands start faster."""


def __getattr__(name: str) -> Any:
    from importlib import import_module
    from importlib.util import find_spec

    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_"):
        if find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        from streameval.evaluator.spellings import module_remedy

        if remedy := module_remedy(name, __all__):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {remedy}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
