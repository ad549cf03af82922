"""The cells that a confusion may have: compiled ones, and those of the reference."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from streameval.states.confusion_parts import confusion_cells

KINDS: dict[str, type | None] = {"portable": None}
with contextlib.suppress(ImportError):  # where none was compiled
    from streameval.states.native.native_confusion import NativeConfusionCells

    KINDS["native"] = NativeConfusionCells


@contextlib.contextmanager
def cells_of(kind: type | None) -> Iterator[None]:
    """Inside, new confusions have cells of this kind; None is the reference."""
    before, confusion_cells._COMPILED = confusion_cells._COMPILED, kind
    try:
        yield
    finally:
        confusion_cells._COMPILED = before
