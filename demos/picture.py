"""The picture of the README: what the flights' predictions are worth, and when.

``make demo`` draws it into ``demos/out``; a copy is docs/flights.png.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from matplotlib.figure import Figure

import streameval as se
from streameval.plots import plot_curve, plot_series

WORST = 3


class Prediction(msgspec.Struct, gc=False):
    """A record of ``predictions.jsonl``."""

    departed: str
    carrier: str
    late: bool
    score: float


def draw(predictions: Path, picture: Path) -> str:
    """Evaluate by week and by carrier, draw, and say where the model is worst."""
    rows = msgspec.json.Decoder(Prediction).decode_lines(predictions.read_bytes())
    ev = se.Evaluator(
        window=se.Panes("52w", pane="7d", retain="53w"), slices=("carrier",), labels=[False, True]
    )
    ev.update_many(
        [row.late for row in rows],
        score=[row.score for row in rows],
        event_time=[row.departed for row in rows],
        slices={"carrier": [row.carrier for row in rows]},
    )
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.7])
    plot_curve(ev, "roc", ax=left)
    left.set_title("ROC, all carriers")
    plot_curve(ev, "calibration", ax=middle)
    middle.set_title("Calibration")
    plot_series(ev.series("f1"), "f1", ax=right)
    right.set_title("F1 of each week, and how many flights")
    figure.savefig(picture, dpi=110)
    return str(ev.slice_report("f1", min_support=1_000, worst=WORST, best=WORST))
