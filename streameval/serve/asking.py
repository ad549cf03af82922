"""A query's parameters, taken one by one; what nobody took is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streameval.errors import shown
from streameval.serve.fault import RefusedError
from streameval.serve.seams import Data

__all__ = ["Asking"]

_LONGEST_TEXT = 200
_LARGEST_NUMBER = 1_000_000_000


class Asking:
    """The parameters of one request.

    >>> asking = Asking([("limit", "5"), ("colour", "red")])
    >>> asking.number("limit", 100, most=1000)
    5
    >>> asking.finish()
    Traceback (most recent call last):
    streameval.serve.fault.RefusedError: colour: expected one of limit, got 'colour'
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._given = dict(pairs)
        self._known: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """A text of at most 200 characters."""
        self._known.append(name)
        value = self._given.get(name, default)
        if len(value) > _LONGEST_TEXT:
            raise RefusedError(
                400,
                expected=f"at most {_LONGEST_TEXT} characters",
                got=f"{len(value):,}",
                where=name,
            )
        return value

    def number(self, name: str, default: int, *, most: int = _LARGEST_NUMBER) -> int:
        """A whole number from 0 to `most`."""
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdigit() and int(text) <= most):
            raise RefusedError(
                400,
                expected=f"a whole number from 0 to {most}",
                got=shown(text),
                where=name,
            )
        return int(text)

    def choice(self, name: str, options: Sequence[str], default: str) -> str:
        """One of some words."""
        text = self.text(name, default)
        if text not in options:
            raise RefusedError(
                400,
                expected="one of " + ", ".join(options) if options else "nothing here",
                got=shown(text),
                where=name,
            )
        return text

    def window(self, data: Data) -> str:
        """The name of a window; the first where none is asked for."""
        names = [window["name"] for window in data["windows"]]
        return self.choice("window", names, names[0] if names else "")

    def finish(self) -> None:
        """Refuse parameters that mean nothing here: a misspelt one would be ignored."""
        for name in self._given:
            if name not in self._known:
                raise RefusedError(
                    400,
                    expected="one of " + ", ".join(self._known) if self._known else "no parameter",
                    got=shown(name),
                    where=name if name.isidentifier() and len(name) < 40 else "the query",
                )
