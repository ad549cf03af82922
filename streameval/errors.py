"""The errors that streameval raises.

Every error that streameval raises on purpose derives from
:class:`StreamevalError`. A bad value is an :class:`InputError` with what
was expected, what was got, where, and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

__all__ = [
    "ConfigError",
    "FencedError",
    "InputError",
    "MetricError",
    "MissingExtraError",
    "OptionError",
    "SourceError",
    "StateError",
    "StoreError",
    "StreamevalError",
    "did_you_mean",
    "listed",
    "shown",
]

_SHOWN_CHARACTERS = 60
_COMPARED = 100
"""Names that a missing one is compared with: an object may have a million of them."""


def shown(value: object) -> str:
    """``repr(value)`` in one printable line of at most 61 characters; never raises."""
    # Values come from files and topics: a label may be megabytes long, hold control characters,
    # or belong to a class whose repr fails.
    if isinstance(value, (str, bytes)) and len(value) > _SHOWN_CHARACTERS:
        value = value[:_SHOWN_CHARACTERS]
        cut = True
    else:
        cut = False
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS]
        cut = True
    if not text.isprintable():  # the repr of another class
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text + "…" if cut and not text.endswith("…") else text


def listed(value: object, field: str, expected: str) -> list[Any]:
    """The items of an argument that is a list, tuple or any other iterable but text."""
    if not isinstance(value, (str, bytes)):
        try:
            return list(value)  # type: ignore[call-overload, no-any-return]
        except TypeError:
            pass
    raise InputError(field, expected=expected, got=shown(value))


def did_you_mean(name: str, names: Iterable[Any]) -> str:
    """The remedy for a misspelling, or an empty text where no name is similar."""
    near = _near(name, tuple(map(str, islice(names, _COMPARED))))
    return f"did you mean {shown(near)}?" if near else ""


@lru_cache(64)  # every record of a file may lack the same field
def _near(name: str, names: tuple[str, ...]) -> str:
    return next(iter(get_close_matches(name, names, n=1)), "")


MANY_EVENTS = "for many events call update_many()"
"""The remedy where one event was given several values."""


class StreamevalError(Exception):
    """The base class of every error that streameval raises on purpose."""


class InputError(StreamevalError, ValueError):
    """A value that cannot be counted. Nothing of the call was counted.

    Args:
        field: The argument or record field, e.g. ``"score"``.
        expected: What is accepted, in words.
        got: The value, in words or as :func:`shown`.
        position: Index in the array, or None for a single event.
        remedy: What to do about it, a full clause; may be empty.
        remedy_code: Names the remedy for the command line and the configuration, which word it
            in their own options; empty where the words are everywhere the same.

    >>> print(InputError("score", expected="a finite number", got="nan", position=3))
    score[3]: expected a finite number, got nan
    """

    def __init__(
        self,
        field: str,
        *,
        expected: str,
        got: str,
        position: int | None = None,
        remedy: str = "",
        remedy_code: str = "",
    ) -> None:
        self.field = field
        self.expected = expected
        self.got = got
        self.position = position
        self.remedy = remedy
        self.remedy_code = remedy_code
        where = field if position is None else f"{field}[{position}]"
        tail = f"; {remedy}" if remedy else ""
        super().__init__(f"{where}: expected {expected}, got {got}{tail}")

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by their args; this one has keyword arguments.
        return _rebuild_input_error, tuple(getattr(self, name) for name in _PARTS)

    def at(self, position: int | None) -> InputError:
        """The same error at another position of the caller's array."""
        # A row of an array is no call for one event.
        is_row = position is not None and self.remedy == MANY_EVENTS
        return self.of(self.field, position=position, **({"remedy": ""} if is_row else {}))

    def of(self, field: str, **changed: Any) -> InputError:
        """The same error of another field, without a position; ``changed`` are its other parts."""
        parts = {name: getattr(self, name) for name in ("expected", "got", "remedy", "remedy_code")}
        return InputError(field, **(parts | changed))


class OptionError(InputError):
    """Two options that do not fit together: one requires the other, or they conflict.

    Args:
        field: The option that was given.
        relation: ``"requires"`` or ``"conflicts with"``.
        other: The option, or options, it requires or conflicts with.
        remedy: What to do about it, a full clause; may be empty.

    >>> print(OptionError.requires("--worst", "--slice", remedy="add --slice FIELD"))
    --worst requires --slice; add --slice FIELD
    >>> print(OptionError.conflicts("--proba", "--score", remedy="give one of them"))
    --proba conflicts with --score; give one of them
    """

    def __init__(
        self,
        field: str,
        relation: Literal["requires", "conflicts with"],
        other: str,
        *,
        remedy: str = "",
    ) -> None:
        present = relation == "conflicts with"
        expected, got = (f"no {other}", other) if present else (other, f"no {other}")
        super().__init__(field, expected=expected, got=got, remedy=remedy)
        self.relation = relation
        self.other = other
        self.args = (f"{field} {relation} {other}" + (f"; {remedy}" if remedy else ""),)

    @classmethod
    def requires(cls, field: str, other: str, *, remedy: str = "") -> OptionError:
        """``field`` was given without ``other``, which it requires."""
        return cls(field, "requires", other, remedy=remedy)

    @classmethod
    def conflicts(cls, field: str, other: str, *, remedy: str = "") -> OptionError:
        """``field`` and ``other`` were given, and exclude each other."""
        return cls(field, "conflicts with", other, remedy=remedy)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_option_error, (self.field, self.relation, self.other, self.remedy)

    def at(self, position: int | None) -> InputError:
        """The error itself: it is about options and not about an item of an array."""
        return self


class StateError(StreamevalError, ValueError):
    """A saved state that cannot be read, or states that cannot be merged."""


class MetricError(StreamevalError, LookupError):
    """A metric that does not exist, or that this evaluator does not keep the states of."""


class ConfigError(StreamevalError, ValueError):
    """A configuration that cannot be run; the message names the key."""


class SourceError(StreamevalError):
    """A source that cannot be read from its stored position."""


class StoreError(StreamevalError):
    """A store that cannot be opened or written; it is unchanged."""


class FencedError(StoreError):
    """Another worker has taken over a unit of the store; nothing was written to it since."""


class MissingExtraError(StreamevalError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""

    def __init__(self, feature: str, *, package: str, extra: str) -> None:
        self.feature = feature
        self.package = package
        self.extra = extra
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed; run: pip install "
            + (f"'streameval[{extra}]'" if extra else package)
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_missing_extra, (self.feature, self.package, self.extra)


# The names of pickled errors, of older releases too, which had no last part.
_PARTS = ("field", "expected", "got", "position", "remedy", "remedy_code")


def _rebuild_input_error(*parts: Any) -> InputError:
    return InputError(**dict(zip(_PARTS, parts, strict=False)))


def _rebuild_option_error(
    field: str, relation: Literal["requires", "conflicts with"], other: str, remedy: str
) -> OptionError:
    return OptionError(field, relation, other, remedy=remedy)


def _rebuild_missing_extra(feature: str, package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(feature, package=package, extra=extra)
