"""Pictures of an evaluator: displays by scikit-learn's conventions, for matplotlib and plotly.

>>> from streameval.plots import DISPLAYS
>>> sorted(DISPLAYS)[:3]
['actual_vs_predicted', 'calibration', 'confusion']
"""

from __future__ import annotations

from streameval.plots.curves import (
    CalibrationDisplay,
    DetCurveDisplay,
    GainCurveDisplay,
    LiftCurveDisplay,
    PrecisionRecallDisplay,
    PrecisionRecallGainDisplay,
    RocCurveDisplay,
)
from streameval.plots.display import Display, check_picture, save_figure
from streameval.plots.displays import (
    ALONE,
    DISPLAYS,
    ConfusionMatrixDisplay,
    DriftDisplay,
    PredictionErrorDisplay,
    ResidualsDisplay,
    ScoreDistributionDisplay,
    SeriesDisplay,
    SlicesDisplay,
    ThresholdsDisplay,
    available_displays,
    plot_confusion,
    plot_curve,
    plot_series,
    plot_slices,
)

__all__ = [
    "ALONE",
    "DISPLAYS",
    "CalibrationDisplay",
    "ConfusionMatrixDisplay",
    "DetCurveDisplay",
    "Display",
    "DriftDisplay",
    "GainCurveDisplay",
    "LiftCurveDisplay",
    "PrecisionRecallDisplay",
    "PrecisionRecallGainDisplay",
    "PredictionErrorDisplay",
    "ResidualsDisplay",
    "RocCurveDisplay",
    "ScoreDistributionDisplay",
    "SeriesDisplay",
    "SlicesDisplay",
    "ThresholdsDisplay",
    "available_displays",
    "check_picture",
    "plot_confusion",
    "plot_curve",
    "plot_series",
    "plot_slices",
    "save_figure",
]
