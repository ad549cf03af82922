"""Windows and slices as they are written on a command line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from streameval.errors import InputError, shown
from streameval.event_time import LATEST
from streameval.slices import Slicer
from streameval.windows import Fading, Last, Panes
from streameval.windows.panes import MAX_PANES
from streameval.windows.window import WindowSpec

__all__ = ["Dimensions", "parse_slices", "parse_window"]

Dimensions = tuple[tuple[str, ...], ...]
"""Names of the fields that make each kind of slice."""

_FORMS = "last:10000, panes:1h, panes:1h/5m,lateness=10m,retain=7d, fading:6h or fading:1000"


def parse_window(text: str, *, all_panes: bool = False) -> WindowSpec:
    """The window that ``--window`` names.

    Args:
        text: As written.
        all_panes: Keep as many panes as can be, where no ``retain=`` is given.

    Raises:
        InputError: It names none.

    >>> parse_window("last:10000"), parse_window("fading:1000")
    (Last(n=10000), Fading(half_life=1000))
    >>> parse_window("panes:1h/5m,lateness=10m").panes
    12
    """
    kind, _, rest = text.strip().partition(":")
    value, *options = (part.strip() for part in rest.split(","))
    try:
        if kind == "last" and value.isdecimal() and not options:
            return Last(int(value))
        if kind == "fading" and value and not options:
            return Fading(int(value) if value.isdecimal() else value)
        if kind == "panes" and value:
            length, slash, pane = value.partition("/")
            steps = pane.strip() if slash else None
            spec = Panes(length.strip(), steps, **_pane_options(options))
            if all_panes and spec.retain is None:
                most = min(MAX_PANES, LATEST // spec.pane_us) * spec.pane_us
                retain = timedelta(microseconds=max(most, spec.retain_us))
                spec = replace(spec, retain=retain)
            return spec
    except InputError as error:
        if error.field == "--window":
            raise
        remedy = error.remedy or f"write it as in {text.strip()!r}: 90s, 5m, 1h, 7d or 52w"
        if "duration" not in error.expected:
            remedy = error.remedy
        raise InputError(
            "--window", expected=error.expected, got=error.got, remedy=remedy
        ) from None
    raise InputError("--window", expected=_FORMS, got=shown(text))


def _pane_options(options: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for option in options:
        name, _, value = (part.strip() for part in option.partition("="))
        if name not in ("lateness", "retain") or not value or name in given:
            raise InputError(
                "--window",
                expected="lateness=DURATION and retain=DURATION, each once, after panes:LENGTH",
                got=shown(option),
            )
        given[name] = value
    return given


def parse_slices(text: str, max_slices: int) -> Dimensions:
    """The fields in a comma list; ``+`` joins those of a combination.

    >>> parse_slices("country,country+model", 100)
    (('country',), ('country', 'model'))
    """
    dimensions = tuple(tuple(name.strip() for name in part.split("+")) for part in text.split(","))
    try:
        return Slicer(dimensions, max_slices).dimensions
    except InputError as error:
        raise InputError(
            "--slice",
            expected="fields joined by commas, or by + for a combination, each once",
            got=shown(text) if error.field == "slices" else error.got,
            remedy="write --slice country,model,country+model",
        ) from None
