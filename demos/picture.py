"""The picture of the README: curves of the flights' predictions, and F1 by week.

``make demo`` draws it into ``demos/out``; a copy is docs/flights.png.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from streameval import Evaluator
from streameval.plots import plot_curve, plot_series, save_figure


def draw(weeks: Evaluator, picture: Path) -> None:
    """Draw an evaluator of the flights in panes of a week."""
    figure = Figure(figsize=(13, 3.75), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.75])
    plot_curve(weeks, "roc", ax=left)
    left.set_title("ROC curve of all flights")
    plot_curve(weeks, "calibration", ax=middle)
    middle.set_title("Calibration")
    plot_series(weeks.series("f1"), "f1", ax=right)
    right.set_title("F1 and number of flights of each week")
    save_figure(left, picture)
