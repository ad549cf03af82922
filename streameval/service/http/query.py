"""Query parameters: declared once for each endpoint; unknown ones are rejected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streameval.errors import shown
from streameval.service.http.errors import RefusedError
from streameval.service.snapshot import Snapshot, Window

LONGEST_TEXT = 200
_LARGEST_NUMBER = 1_000_000_000


class Parameter(NamedTuple):
    """A query parameter of an endpoint, as it is parsed and as ``openapi.json`` describes it."""

    name: str
    about: str
    default: str | int = ""
    """Of a number an int."""
    most: int = _LARGEST_NUMBER
    """The largest number."""
    choices: tuple[str, ...] = ()
    """The texts that are accepted, where they do not depend on the snapshot."""


def unknown(
    where: str, given: str, names: Iterable[str], *, none: str = "nothing here", status: int = 400
) -> RefusedError:
    """The error of a name that is none of some."""
    expected = ", ".join(names)
    expected = f"one of {expected}" if expected else none
    return RefusedError(status, expected=expected, got=shown(given), where=where)


class QueryParameters:
    """The parameters of one request.

    Args:
        pairs: As given.
        parameters: Those of the endpoint.

    Raises:
        RefusedError: 400; a parameter that the endpoint does not have.

    >>> limit = Parameter("limit", "Rows at most.", 100, most=1000)
    >>> QueryParameters([("limit", "5")], [limit]).number("limit")
    5
    >>> QueryParameters([("colour", "red")], [limit])
    Traceback (most recent call last):
    streameval.service.http.errors.RefusedError: colour: expected one of limit, got 'colour'
    """

    def __init__(
        self, pairs: Iterable[tuple[str, str]], parameters: Sequence[Parameter] = ()
    ) -> None:
        self._given = dict(pairs)
        self._known = {parameter.name: parameter for parameter in parameters}
        for name in self._given.keys() - self._known.keys():
            where = name if name.isidentifier() and len(name) < 40 else "the query"
            raise unknown(where, name, self._known, none="no parameter")

    def text(self, name: str, default: str | None = None) -> str:
        """A text of at most 200 characters."""
        usual = str(self._known[name].default) if default is None else default
        value = self._given.get(name, usual)
        if len(value) > LONGEST_TEXT:
            expected = f"at most {LONGEST_TEXT} characters"
            raise RefusedError(400, expected=expected, got=f"{len(value):,}", where=name)
        return value

    def number(self, name: str) -> int:
        """A whole number from 0 to the parameter's largest."""
        text, most = self.text(name), self._known[name].most
        if not (text.isascii() and text.isdigit() and int(text) <= most):
            raise RefusedError(
                400, expected=f"a whole number from 0 to {most}", got=shown(text), where=name
            )
        return int(text)

    def choice(self, name: str, options: Sequence[str], default: str) -> str:
        """One of some words."""
        text = self.text(name, default)
        if text not in options:
            raise unknown(name, text, options)
        return text

    def window(self, snapshot: Snapshot) -> Window:
        """A window; the first by default."""
        windows = {window.name: window for window in snapshot.windows}
        names = list(windows)
        return windows[self.choice("window", names, names[0] if names else "")]
