"""One row of the registry: what a metric's name means and how it is called.

A module of metrics declares its rows beside its functions; ``registry.py``
puts them together. The row lives here so that both can import it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from streameval.errors import MetricError, shown
from streameval.events import Label

__all__ = ["BINARY", "BOTH", "DIRECTIONS", "MULTICLASS", "STATES", "Metric"]

BINARY = frozenset({"binary"})
MULTICLASS = frozenset({"multiclass"})
BOTH = BINARY | MULTICLASS
NOWHERE: frozenset[str] = frozenset()

STATES = (
    "confusion",
    "index",
    "probability",
    "moments",
    "class_probability",
    "class_scores",
    "succession",
)
"""The names under which an evaluator keeps its states."""

DIRECTIONS = ("up", "down", "none")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric's row: name, function, the state that it asks, range and meaning.

    The function takes the state first (then the states of `also`, in that
    order) and everything else by keyword. It always takes ``undefined=``,
    returns a float, and returns :class:`~streameval.metrics.undefined.Undefined`
    where there is no value.

    >>> row = Metric(
    ...     name="share", function=lambda counts, undefined=None: 0.5, state="confusion",
    ...     definition="always one half",
    ... )
    >>> row.bind()("any state")
    0.5
    >>> row.bind(beta=2)
    Traceback (most recent call last):
    streameval.errors.MetricError: share takes no parameter 'beta'; it takes none
    """

    name: str
    """As scikit-learn spells its scorer, where there is one."""
    function: Callable[..., float]
    """Called as ``function(state, undefined=None, **params)``; `fixed` is bound already."""
    state: str
    """Which state it asks; one of :data:`STATES`."""
    definition: str
    """One line: what the number is."""
    tasks: frozenset[str] = BOTH
    """Where the name may be asked: :data:`BINARY`, :data:`MULTICLASS` or :data:`BOTH`."""
    low: float = 0.0
    high: float = 1.0
    direction: str = "up"
    """``up``: larger is better; ``down``; ``none``: neither."""
    params: tuple[str, ...] = ()
    """What a caller may set by keyword, besides ``undefined``."""
    needs_positive: bool = False
    """The function takes ``positive=``: the label of the positive class."""
    shown: frozenset[str] = NOWHERE
    """The tasks whose report has the metric without being asked."""
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What the name fixes, such as ``average="macro"``: for reading, bound already."""
    also: tuple[str, ...] = ()
    """Further states it asks, passed after `state`."""

    @property
    def states(self) -> tuple[str, ...]:
        """Every state that the function takes, in the order of its arguments."""
        return (self.state, *self.also)

    def bind(
        self, *, positive: Label | None = None, undefined: float | None = None, **params: Any
    ) -> Callable[..., float]:
        """The metric as a function of its states alone.

        Names and parameters are looked at here, once, so that a caller who
        reads a value after every event pays for none of it.

        Args:
            positive: The positive class; ignored where the metric has none.
            undefined: A number in place of an undefined value.
            **params: The metric's own parameters, such as ``beta=2``.

        Raises:
            MetricError: A parameter that the metric does not take, or no
                `positive` where it needs one.
        """
        for name in params:
            if name not in self.params:
                takes = ", ".join(self.params) if self.params else "none"
                raise MetricError(f"{self.name} takes no parameter {shown(name)}; it takes {takes}")
        if self.needs_positive:
            if positive is None:
                raise MetricError(f"{self.name} is about one class: say which with positive=...")
            params["positive"] = positive
        if undefined is not None:
            params["undefined"] = undefined
        return functools.partial(self.function, **params) if params else self.function
