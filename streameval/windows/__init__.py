"""Which events count: a specification of what to remember, for any metric.

Every window keeps tallies of mergeable states, so every metric works with
every window.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from streameval.errors import InputError, StateError, shown
from streameval.event_time import duration_text
from streameval.windows.cumulative import Cumulative
from streameval.windows.fading import Fading
from streameval.windows.last import Last
from streameval.windows.panes import Panes
from streameval.windows.window import WindowSpec

__all__ = ["Cumulative", "Fading", "Last", "Panes", "window_note", "window_spec"]


def window_spec(options: dict[str, Any]) -> WindowSpec:
    """The specification that ``to_options`` wrote; raises StateError."""
    kind = options.get("kind")
    if not isinstance(kind, str) or not isinstance(options.get("clock", ""), str):
        raise StateError(f"options.window: expected a window, got {shown(options)}")
    given = set(options) - {"kind"}
    numbers = [options[name] for name in sorted(given) if name != "clock"]
    if not all(type(value) is int and 0 <= value < 2**62 for value in numbers):
        raise StateError(f"options.window: expected whole numbers, got {shown(numbers)}")
    try:
        if kind == "cumulative" and not given:
            return Cumulative()
        if kind == "last" and given == {"n"}:
            return Last(options["n"])
        if kind == "panes" and given == {"length", "pane", "lateness", "retain"}:
            return Panes(
                length=_microseconds(options["length"]),
                pane=_microseconds(options["pane"]),
                lateness=_microseconds(options["lateness"]),
                retain=_microseconds(options["retain"]),
            )
        if kind == "fading" and given == {"half_life", "clock"}:
            half_life = options["half_life"]
            by_count = options["clock"] == "events"
            return Fading(half_life if by_count else _microseconds(half_life))
    except (InputError, OverflowError) as error:
        raise StateError(f"options.window: {error}") from None
    raise StateError(f"options.window: expected a window, got {shown(options)}")


def _microseconds(value: int) -> timedelta:
    return timedelta(microseconds=value)


def window_note(spec: WindowSpec) -> dict[str, str | int]:
    """The specification as reports tell it: durations as text, numbers of events as numbers.

    >>> window_note(Panes("4h", pane="1h", lateness="30m"))
    {'kind': 'panes', 'length': '4h', 'pane': '1h', 'lateness': '30m', 'retain': '270m'}
    >>> window_note(Fading("6h")), window_note(Fading(1000))
    ({'kind': 'fading', 'half_life': '6h'}, {'kind': 'fading', 'half_life': 1000})
    >>> window_note(Last(10_000))
    {'kind': 'last', 'n': 10000}
    """
    options = spec.to_options()
    kind = options.pop("kind")
    by_count = kind == "last" or options.pop("clock", "") == "events"
    return {
        "kind": kind,
        **{key: value if by_count else duration_text(value) for key, value in options.items()},
    }
