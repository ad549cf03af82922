"""A table of values by key that is asked a batch at a time, portable or compiled."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from streameval.states.score_index import backend

if TYPE_CHECKING:
    from streameval.native.native_key_table import NativeKeyTable

__all__ = ["KeyTable", "PortableKeyTable", "key_table"]

KeyTable: TypeAlias = "PortableKeyTable | NativeKeyTable"


class PortableKeyTable:
    """Values by key in a dict, and which of them have changed. Nothing is taken out again.

    Cost:
        In a table larger than the processor's cache some 0.4 µs a key. The compiled one
        (``native/native_key_table.pyx``) has the same methods, and asks for the memory
        of a whole batch before it waits for any of it.

    >>> table = PortableKeyTable()
    >>> table.add(["a", "b"], [1, 2]), table.add(["b", "c"], [3, 4])
    ([1, 2], [2, 4])
    >>> table.put(["a"], [5])
    >>> table.find(["a", "x"]), table.get("c"), len(table)
    ([5, None], 4, 3)
    >>> table.changes(), table.changes()
    ((['a', 'b', 'c'], [5, 2, 4]), ([], []))
    """

    __slots__ = ("_changed", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._changed: list[str] = []

    def __len__(self) -> int:
        return len(self._values)

    def reserve(self, count: int) -> None:
        """Make room for so many keys at once; a dict cannot."""

    def find(self, keys: Sequence[str]) -> list[Any]:
        """The value of each key, None where there is none."""
        return list(map(self._values.get, keys))

    def get(self, key: str) -> Any:
        """The value of one key, None where there is none."""
        return self._values.get(key)

    def add(self, keys: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """Put in the values of keys that have none; the value that each key has then."""
        before = len(self._values)
        found = list(map(self._values.setdefault, keys, values))
        if len(self._values) == before + len(keys):
            self._changed += keys
        else:
            self._changed += [
                key for key, value, now in zip(keys, values, found, strict=True) if now is value
            ]
        return found

    def put(self, keys: Sequence[str], values: Iterable[Any]) -> None:
        """Give keys their values, whatever they had."""
        self._values.update(zip(keys, values, strict=True))
        self._changed += keys

    def changes(self) -> tuple[list[str], list[Any]]:
        """Keys and values of what :meth:`add` and :meth:`put` have changed since this was asked."""
        keys = list(dict.fromkeys(self._changed))
        self._changed = []
        return keys, list(map(self._values.__getitem__, keys))


def key_table() -> KeyTable:
    """An empty table of the backend in use."""
    if backend() == "native":
        try:
            compiled = importlib.import_module("streameval.native.native_key_table")
        except ImportError:  # each compiled module is left out by itself where it fails
            return PortableKeyTable()
        table: KeyTable = compiled.NativeKeyTable()
        return table
    return PortableKeyTable()
