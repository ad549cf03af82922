"""Pictures of an evaluator: displays by scikit-learn's conventions, for matplotlib and plotly.

>>> from streameval.plots import DISPLAYS
>>> sorted(DISPLAYS)[:3]
['calibration', 'confusion', 'det']
"""

from __future__ import annotations

from streameval.plots.displays import (
    DISPLAYS,
    CalibrationDisplay,
    ConfusionMatrixDisplay,
    DetCurveDisplay,
    Display,
    GainCurveDisplay,
    LiftCurveDisplay,
    PrecisionRecallDisplay,
    PrecisionRecallGainDisplay,
    RocCurveDisplay,
    ScoreDistributionDisplay,
    SeriesDisplay,
    SlicesDisplay,
    ThresholdsDisplay,
    available_displays,
    check_picture,
    plot_confusion,
    plot_curve,
    plot_series,
    plot_slices,
    save_figure,
)

__all__ = [
    "DISPLAYS",
    "CalibrationDisplay",
    "ConfusionMatrixDisplay",
    "DetCurveDisplay",
    "Display",
    "GainCurveDisplay",
    "LiftCurveDisplay",
    "PrecisionRecallDisplay",
    "PrecisionRecallGainDisplay",
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
