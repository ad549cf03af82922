"""Flights as two streams: predictions at departure, labels after landing.

As in life the model learns a label only when it is there, some labels are
sent twice, and some are corrected later.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from river import compose, linear_model, optim, preprocessing

from streameval.demo.flights import Flight

__all__ = ["Message", "messages", "pipeline"]

_NUMBERS = ("dep_delay", "distance", "hour")
_NAMES = ("carrier", "origin", "dest")

# Every so many labels one is sent twice, and one is wrong at first.
_REPEATED = 200
_CORRECTED = 500
_CORRECTION_AFTER = timedelta(hours=3)


class Message(NamedTuple):
    """One record of one of the streams."""

    moment: datetime
    kind: Literal["predictions", "labels"]
    record: dict[str, Any]


def pipeline() -> Any:
    """An online logistic regression over scaled numbers and one-hot names."""
    numbers = compose.Select(*_NUMBERS) | preprocessing.StandardScaler()
    names = compose.Select(*_NAMES) | preprocessing.OneHotEncoder()
    return (numbers + names) | linear_model.LogisticRegression(optim.SGD(0.02))


def messages(flights: Iterable[Flight]) -> Iterator[Message]:
    """The two streams, merged by time.

    Args:
        flights: In the order of departure.
    """
    model = pipeline()
    # What is under way: when it lands, a number that breaks ties, the label, what is learnt.
    awaited: list[tuple[datetime, int, Message, Flight | None]] = []
    count = 0

    def due(now: datetime | None) -> Iterator[Message]:
        while awaited and (now is None or awaited[0][0] <= now):
            _, _, message, flight = heapq.heappop(awaited)
            if flight is not None:
                model.learn_one(flight.features, flight.late)
            yield message

    for flight in flights:
        yield from due(flight.departed)
        score = model.predict_proba_one(flight.features).get(True, 0.5)
        features = flight.features
        yield Message(
            flight.departed,
            "predictions",
            {
                "id": flight.id,
                "departed": _text(flight.departed),
                "score": round(score, 6),
                "carrier": features["carrier"],
                "origin": features["origin"],
            },
        )
        if flight.landed is None or flight.late is None:
            continue
        label = _label(flight.id, flight.landed, flight.late)
        later: list[Message] = []
        if count % _CORRECTED == _CORRECTED - 1:
            corrected = flight.landed + _CORRECTION_AFTER
            later.append(_label(flight.id, corrected, flight.late))
            label = _label(flight.id, flight.landed, not flight.late)
        elif count % _REPEATED == _REPEATED - 1:
            later.append(label)
        heapq.heappush(awaited, (label.moment, 2 * count, label, flight))
        for message in later:
            heapq.heappush(awaited, (message.moment, 2 * count + 1, message, None))
        count += 1
    yield from due(None)


def _label(flight_id: str, moment: datetime, late: bool) -> Message:
    record = {"id": flight_id, "late": late, "landed": _text(moment)}
    return Message(moment, "labels", record)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
