"""Metrics: pure functions of states.

Every function takes a state and, by keyword, its options; ``undefined=`` is a
number in place of an undefined value, which is otherwise ``nan`` with a reason
(:class:`Undefined`). :data:`METRICS` holds them all by name.

What a module of metrics lists in its ``__all__`` is public here.

>>> from streameval import metrics
>>> from streameval.states.confusion import ConfusionCounts
>>> counts = ConfusionCounts()
>>> counts.update_many(["cat", "dog", "dog"], ["cat", "dog", "cat"])
>>> metrics.f1(counts, positive="cat"), metrics.f1_macro(counts)
(0.6666666666666666, 0.6666666666666666)
"""

# ruff: noqa: F403 - a metric is named once, in the __all__ of its own module

from __future__ import annotations

from inspect import isfunction

from streameval.metrics import (
    agreement,
    binormal,
    calibration,
    class_metrics,
    curves,
    cut_points,
    label_free,
    multiclass,
    multilabel,
    multilabel_ranking,
    probability,
    ranking,
    regression,
    score_profiles,
)
from streameval.metrics.agreement import *
from streameval.metrics.binormal import *
from streameval.metrics.calibration import *
from streameval.metrics.class_metrics import *
from streameval.metrics.confusion_matrix import ConfusionMatrix, confusion_matrix
from streameval.metrics.curves import *
from streameval.metrics.cut_points import *
from streameval.metrics.label_free import *
from streameval.metrics.metric import Metric, of_states
from streameval.metrics.multiclass import *
from streameval.metrics.multilabel import *
from streameval.metrics.multilabel_ranking import *
from streameval.metrics.probability import *
from streameval.metrics.ranking import *
from streameval.metrics.registry import (
    METRICS,
    ROWS,
    compute,
    find,
    left_out,
    shown_metrics,
)
from streameval.metrics.regression import *
from streameval.metrics.score_profiles import *
from streameval.metrics.thresholds import ThresholdTable, threshold_table
from streameval.metrics.undefined import Undefined, reason_of

__all__ = ["ConfusionMatrix", "ThresholdTable", "confusion_matrix", "threshold_table"]
__all__ += agreement.__all__
__all__ += binormal.__all__
__all__ += calibration.__all__
__all__ += class_metrics.__all__
__all__ += curves.__all__
__all__ += cut_points.__all__
__all__ += label_free.__all__
__all__ += multiclass.__all__
__all__ += multilabel.__all__
__all__ += multilabel_ranking.__all__
__all__ += probability.__all__
__all__ += ranking.__all__
__all__ += regression.__all__
__all__ += score_profiles.__all__

for _name in __all__:
    if isfunction(_value := globals()[_name]):
        globals()[_name] = of_states(_value)

__all__ += ["METRICS", "ROWS", "Metric", "Undefined"]
__all__ += ["compute", "find", "left_out", "reason_of", "shown_metrics"]
