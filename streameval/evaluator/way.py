"""The base of an evaluator: compiled where that was built, else of the same attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from streameval.states.score_index import compiled

__all__ = ["EvaluatorWay", "compiled_methods"]

_Class = TypeVar("_Class", bound=type)


class PortableWay:
    """Counts every event in Python.

    Attributes:
        _readers: By the name of a metric, what reads it while the evaluator's lock is held.
        _plain_open: Whether compiled code counts plain events.
    """

    __slots__ = ("_plain_open", "_readers")

    _plain_open: bool
    _readers: dict[str, Callable[[], float]]

    def _lead(self, *path: Any) -> None:
        """Forget the readers; see the compiled way for the arguments."""
        self._readers = {}
        self._plain_open = False


def _unchanged(cls: _Class) -> _Class:
    return cls


_NATIVE: Any = compiled("native_way")

if TYPE_CHECKING:
    EvaluatorWay = PortableWay
    compiled_methods = _unchanged
else:
    EvaluatorWay = PortableWay if _NATIVE is None else _NATIVE.EvaluatorWay
    compiled_methods = _unchanged if _NATIVE is None else _NATIVE.compiled_methods
