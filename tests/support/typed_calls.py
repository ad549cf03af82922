"""What mypy says of calls of an evaluator; read by mypy, never run."""

from __future__ import annotations

from typing import assert_type

from streameval import Evaluator
from streameval.events.values import Label
from streameval.metrics.calibration import CalibrationCurve
from streameval.metrics.curves import DetCurve, RocCurve
from streameval.metrics.names import MetricName
from streameval.metrics.score_profiles import GainCurve


def calls(ev: Evaluator, name: MetricName, other: str) -> None:
    assert_type(ev["accuracy"], float)
    assert_type(ev[other], float)
    assert_type(ev.value("f1", undefined=0.0), float)
    assert_type(ev.value(name, beta=2), float)
    assert_type(ev.value("fbeta", average=None, beta=2), dict[Label, float])
    assert_type(ev.curve("roc"), RocCurve)
    assert_type(ev.total.curve("det"), DetCurve)
    assert_type(ev.curve("gain"), GainCurve)
    assert_type(ev.curve("calibration"), CalibrationCurve)
