"""The kinds of windows: one row each, and what is derived from the rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from streameval.errors import InputError, StateError, shown
from streameval.events.time import duration_text
from streameval.windows.cumulative import CUMULATIVE
from streameval.windows.fading import FADING
from streameval.windows.last import LAST
from streameval.windows.panes import PANES
from streameval.windows.window import WindowKind, WindowSpec

KINDS: dict[str, WindowKind] = {kind.name: kind for kind in (CUMULATIVE, LAST, PANES, FADING)}
"""Every kind of window by its name, the default one first. A new window is one module and one
row here."""


def kind_of(spec: object) -> WindowKind | None:
    """The kind of a specification; None of anything else."""
    return next((kind for kind in KINDS.values() if isinstance(spec, kind.spec)), None)


def window_forms(*, timed: bool = False) -> Iterator[str]:
    """How windows are written on a command line; ``timed``: one for each kind of event time."""
    for kind in KINDS.values():
        if not timed:
            yield from kind.forms
        elif kind.clock != "events":
            yield kind.forms[0]


def parse_window(text: str, field: str = "window") -> WindowSpec:
    """The window of a text such as ``last:1000`` or ``panes:1h/5m``; raises InputError."""
    name, _, rest = text.strip().partition(":")
    value, *options = (part.strip() for part in rest.split(","))
    kind = KINDS.get(name)
    sizes = [part.strip() for part in value.split("/")]
    try:
        if (
            kind is not None
            and value
            and len(sizes) <= len(kind.sizes)
            and (value.isdecimal() or kind.clock != "events")
            and (kind.named or not options)
        ):
            count = kind.clock != "time" and value.isdecimal()
            given = {
                option: int(size) if count else size
                for option, size in zip(kind.sizes, sizes, strict=False)
            }
            spec: WindowSpec = kind.spec(**given, **_named(options, kind, field))
            return spec
    except InputError as error:
        if error.field == field:
            raise
        remedy = error.remedy
        if error.remedy_code == "duration":
            remedy = f"write it as in {text.strip()!r}: 90s, 5m, 1h, 7d or 52w"
        raise error.of(field, remedy=remedy, remedy_code="") from None
    *others, last = window_forms()
    raise InputError(field, expected=f"{', '.join(others)} or {last}", got=shown(text))


def _named(options: list[str], kind: WindowKind, field: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for option in options:
        name, _, value = (part.strip() for part in option.partition("="))
        if name not in kind.named or not value or name in given:
            each = " and ".join(f"{known}=DURATION" for known in kind.named)
            raise InputError(
                field,
                expected=f"{each}, each once, after {kind.name}:{kind.sizes[0].upper()}",
                got=shown(option),
            )
        given[name] = value
    return given


def window_spec(options: dict[str, Any]) -> WindowSpec:
    """The specification that ``to_options`` wrote; raises StateError."""
    name = options.get("kind")
    if not isinstance(name, str) or not isinstance(options.get("clock", ""), str):
        raise StateError(f"options.window: expected a window, got {shown(options)}")
    given = {key: options[key] for key in sorted(options.keys() - {"kind", "clock"})}
    if not all(type(value) is int and 0 <= value < 2**62 for value in given.values()):
        raise StateError(
            f"options.window: expected whole numbers, got {shown(list(given.values()))}"
        )
    kind = KINDS.get(name)
    clocks = {"clock"} if kind is not None and kind.clock == "either" else set()
    if kind is None or options.keys() != {"kind", *clocks, *kind.sizes, *kind.named}:
        raise StateError(f"options.window: expected a window, got {shown(options)}")
    timed = kind.clock == "time" or options.get("clock", "events") != "events"
    try:
        spec: WindowSpec = kind.spec(
            **{key: timedelta(microseconds=n) if timed else n for key, n in given.items()}
        )
    except (InputError, OverflowError) as error:
        raise StateError(f"options.window: {error}") from None
    return spec


def window_note(spec: WindowSpec) -> dict[str, str | int]:
    """The specification as in reports: durations as text, numbers of events as numbers.

    >>> from streameval import Fading, Last, Panes
    >>> window_note(Panes("4h", pane="1h", lateness="30m"))
    {'kind': 'panes', 'length': '4h', 'pane': '1h', 'lateness': '30m', 'retain': '270m'}
    >>> window_note(Fading("6h")), window_note(Fading(1000))
    ({'kind': 'fading', 'half_life': '6h'}, {'kind': 'fading', 'half_life': 1000})
    >>> window_note(Last(10_000))
    {'kind': 'last', 'n': 10000}
    """
    return {
        key: duration_text(value) if spec.needs_time and key != "kind" else value
        for key, value in spec.to_options().items()
        if key != "clock"
    }
