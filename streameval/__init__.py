"""streameval: exact, mergeable evaluation of classifiers on streams of predictions.

A metric is a pure function of a mergeable state. An :class:`Evaluator` keeps
the states current; windows, slices and shards only choose which state is asked.

>>> import streameval as se
>>> ev = se.Evaluator(task="binary")
>>> ev.update(True, score=0.9)
>>> ev.update(False, score=0.4)
>>> ev["accuracy"], ev["roc_auc"]
(1.0, 1.0)
"""

from __future__ import annotations

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
from streameval.prequential import prequential
from streameval.records.evaluate import evaluate, from_counts
from streameval.states.backend import backend
from streameval.states.confusion import ConfusionCounts
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.score_index import ScoreIndex
from streameval.uncertainty.interval import Bounds, Interval
from streameval.windows import Bootstrap, Fading, Last, Panes

__version__ = "0.1.0"

__all__ = [
    "Bootstrap",
    "Bounds",
    "Comparison",
    "ConfusionCounts",
    "Difference",
    "Evaluator",
    "Fading",
    "InputError",
    "Interval",
    "Last",
    "MetricError",
    "MissingExtraError",
    "Panes",
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
