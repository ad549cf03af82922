"""Windows and slices as they are written on a command line."""

from __future__ import annotations

from collections.abc import Iterable

from streameval.errors import InputError, shown
from streameval.evaluator.slices import Slicer
from streameval.windows.kinds import KINDS, window_forms
from streameval.windows.window import WindowKind, WindowSpec

Dimensions = tuple[tuple[str, ...], ...]
"""Names of the fields that make each kind of slice."""


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
            spec: WindowSpec = kind.spec(**given, **_named(options, kind))
            return spec if kind.widest is None or not all_panes else kind.widest(spec)
    except InputError as error:
        if error.field == "--window":
            raise
        remedy = error.remedy
        if error.remedy_code == "duration":
            remedy = f"write it as in {text.strip()!r}: 90s, 5m, 1h, 7d or 52w"
        raise InputError(
            "--window", expected=error.expected, got=error.got, remedy=remedy
        ) from None
    raise InputError("--window", expected=_or(window_forms()), got=shown(text))


def _or(forms: Iterable[str]) -> str:
    *others, last = forms
    return f"{', '.join(others)} or {last}"


def _named(options: list[str], kind: WindowKind) -> dict[str, str]:
    given: dict[str, str] = {}
    for option in options:
        name, _, value = (part.strip() for part in option.partition("="))
        if name not in kind.named or not value or name in given:
            each = " and ".join(f"{known}=DURATION" for known in kind.named)
            raise InputError(
                "--window",
                expected=f"{each}, each once, after {kind.name}:{kind.sizes[0].upper()}",
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
