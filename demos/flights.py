"""Flights as a stream of labelled predictions, learnt from in the order of departure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streameval.demo.flights import departures
from streameval.demo.stream import pipeline


def predictions(advance: Callable[[], None] = lambda: None) -> Iterator[dict[str, Any]]:
    """Predict each flight at departure, then learn from it; flights that were diverted left out.

    Args:
        advance: Called after each flight, for a progress bar.

    Yields:
        Records of ``predictions.jsonl``.
    """
    model = pipeline()
    for flight in departures():
        if flight.late is None:
            continue
        score = model.predict_proba_one(flight.features).get(True, 0.5)
        model.learn_one(flight.features, flight.late)
        advance()
        yield {
            "departed": flight.departed.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "carrier": flight.features["carrier"],
            "origin": flight.features["origin"],
            "late": flight.late,
            "score": round(score, 6),
        }
