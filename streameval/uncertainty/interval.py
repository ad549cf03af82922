"""Intervals and bounds of a value, and what a method computes an interval from."""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.values import Label, canonical_score
from streameval.metrics.metric import Metric
from streameval.metrics.undefined import json_number


def same_values(one: object, other: object) -> bool:
    """Whether two objects of one dataclass have equal values, ``nan`` being equal to ``nan``."""
    return type(one) is type(other) and _values(one) == _values(other)


def hash_of_values(one: object) -> int:
    """The hash that goes with :func:`same_values`."""
    return hash(_values(one))


def _values(one: Any) -> tuple[object, ...]:
    """The values of a dataclass, any ``nan`` as the one object that tuples find equal."""
    values = (getattr(one, field.name) for field in fields(one))
    return tuple(math.nan if value != value else value for value in values)


class Interval(NamedTuple):
    """A metric's value with its confidence interval.

    >>> print(Interval(0.75, 0.3, 0.95, level=0.95, method="wilson", n=4))
    0.75 [0.3, 0.95]
    """

    value: float
    """The metric's own value; ``nan`` where undefined."""
    low: float
    """The lower end; ``nan`` where there is no interval."""
    high: float
    level: float
    """The share of such intervals that contain the true value, as 0.95."""
    method: str
    """How the ends were computed; empty where there are none."""
    n: float
    """How many events it rests on: their weight; where weights are not whole, Kish's
    effective size, ``nan`` where that is not kept."""
    reason: str = ""
    """Why there is no interval, or what speaks against it; else empty."""

    def __str__(self) -> str:
        ends = f" [{self.low:.6g}, {self.high:.6g}]" if self.defined else ""
        # Without ends the parentheses are there even where there is nothing to say.
        reason = f" ({self.reason})" if self.reason or not self.defined else ""
        return f"{self.value:.6g}{ends}{reason}"

    def short(self) -> str:
        """The value and its ends to four digits, as notebooks show them."""
        ends = f" [{self.low:.4g}, {self.high:.4g}]" if self.defined else ""
        return f"{self.value:.4g}{ends}"

    def _repr_html_(self) -> str:
        how = f"{self.level:.4g} {self.method}, n = {self.n:.6g}" if self.defined else self.reason
        return f"<p>{self.short()} <small>{html.escape(how)}</small></p>"

    @property
    def defined(self) -> bool:
        """Whether there are ends."""
        return not math.isnan(self.low)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: an end that is not finite is None."""
        low, high, n = map(json_number, (self.low, self.high, self.n))
        data = {"low": low, "high": high, "method": self.method, "n": n}
        return {**data, "reason": self.reason} if self.reason else data


@dataclass(frozen=True, slots=True)
class Bounds:
    """Guaranteed bounds of the exact value, of an evaluator of bounded memory.

    >>> Bounds(0.71, 0.72).width < 0.011
    True
    """

    low: float
    high: float

    __eq__ = same_values
    __hash__ = hash_of_values

    @property
    def width(self) -> float:
        """``high - low``; 0 where the value is exact."""
        return self.high - self.low

    def __str__(self) -> str:
        return f"[{self.low:.10g}, {self.high:.10g}]"

    def to_list(self) -> list[float | None]:
        """Both ends for JSON: null where the value is undefined."""
        return [json_number(self.low), json_number(self.high)]


class Replicates(NamedTuple):
    """Values of a metric in the bootstrap replicates that an evaluator keeps."""

    unit: str
    """What was resampled."""
    values: Iterable[float]
    """Computed when they are read, once."""


class IntervalRequest(NamedTuple):
    """What a method computes an interval from."""

    metric: Metric
    value: float
    """The metric's value, which is a number."""
    states: tuple[Any, ...]
    """As :attr:`~streameval.metrics.metric.Metric.states` names them."""
    level: float
    n: float
    """How many events the states hold: their weight, or Kish's effective size where weights
    are not whole; ``nan`` where that is not known."""
    whole: bool
    """Whether all weights are whole, and so counts."""
    positive: Label | None
    """The positive class as the states count it; None in a multi-class task."""
    params: Mapping[str, Any]
    """The metric's own parameters, as given."""
    cumulative: bool
    """Whether all events since the start are in the states, and none is ever removed."""
    state: Callable[[str], Any] = lambda name: None
    """From the name of a further state to it; None where it is not kept."""
    replicates: Replicates | None = None
    """None unless events are not independent, and are resampled by unit."""
    bound: float | None = None
    """The largest loss that an event can have, as the caller knows it."""


class Ends(NamedTuple):
    """The ends that a method has computed."""

    low: float
    high: float
    method: str = ""
    """Empty for the row's name."""
    n: float | None = None
    """None for the weight of the events."""
    reason: str = ""
    """Why there are none; both are ``nan`` then."""


def no_ends(reason: str) -> Ends:
    """No interval, and why."""
    return Ends(math.nan, math.nan, reason=reason)


DEFAULT_LEVEL = 0.95
"""The level of an interval where none is given; signatures have the number itself, which help()
and the reference show."""


def checked_level(level: object, field: str = "level") -> float:
    """The level of an interval as a float; raises InputError."""
    if type(level) is float and 0 < level < 1:
        return level
    number = isinstance(level, (int, float, np.integer, np.floating))
    if number and not isinstance(level, bool) and 0 < level < 1:  # type: ignore[operator]
        return float(level)  # type: ignore[arg-type]
    percent = number and 1 < level < 100  # type: ignore[operator]
    raise InputError(
        field,
        expected="a number between 0 and 1",
        got=shown(level),
        remedy=f"pass {level / 100:g}" if percent else f"pass {DEFAULT_LEVEL}",  # type: ignore[operator]
    )


def checked_bound(bound: object) -> float | None:
    """The largest loss of an event as a float; raises InputError."""
    if bound is None:
        return None
    number = canonical_score(bound, "bound")
    if number > 0:
        return number
    raise InputError("bound", expected="a number above 0", got=shown(bound))


@functools.lru_cache
def normal_quantile(level: float) -> float:
    """z with P(−z < Z < z) = `level` for a standard normal Z."""
    return NormalDist().inv_cdf(0.5 + level / 2)
