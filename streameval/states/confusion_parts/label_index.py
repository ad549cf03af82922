"""Index of each label of a confusion; labels without an event are removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from streameval.errors import InputError, shown
from streameval.events.values import MAX_CLASSES, Label, check_same_kind

_SHOWN_LABELS = 10


class LabelIndex:
    """Labels of one kind, each with an index that is fixed while the label is present.

    The next new label gets the index of a removed one, so that indices stay below the largest
    number of labels present at one time. Copies share the closed list, from each label to its
    place, so that an evaluator of many windows and slices holds it once.
    """

    __slots__ = ("closed", "free", "index", "labels")

    def __init__(self, closed: Iterable[Label] | None = None) -> None:
        self.index: dict[Any, int] = {}
        self.labels: list[Label] = []
        self.free: list[int] | None = None  # None before the first label is removed
        self.closed: Mapping[Label, int] | None = None
        if closed is not None:
            self.closed = {label: n for n, label in enumerate(closed)}

    def add(self, label: Label) -> int:
        """The index of a label, new or not."""
        k = self.index.get(label)
        if k is None:
            if self.free:
                k = self.free.pop()
                self.labels[k] = label
            else:
                k = len(self.labels)
                self.labels.append(label)
            self.index[label] = k
        return k

    def remove(self, k: int) -> None:
        """Remove the label of this index."""
        del self.index[self.labels[k]]
        if self.free is None:
            self.free = []
        self.free.append(k)

    def add_columns(
        self,
        columns: Iterable[tuple[str, list[Label], Iterable[int]]],
        find: Callable[[str, int], int] | None,
    ) -> list[dict[int, int]]:
        """The index of each code's label, new or not, in columns of (field, labels, codes).

        Raises InputError and adds none; ``find`` gives the position of a field's code for it.
        """
        columns = list(columns)
        self.check(columns, find)
        return [{code: self.add(labels[code]) for code in codes} for _, labels, codes in columns]

    def check(
        self,
        columns: Iterable[tuple[str, list[Label], Iterable[int]]],
        find: Callable[[str, int], int] | None,
    ) -> None:
        """Raise what :meth:`add_columns` of these columns would raise; no label is added."""
        new: dict[Label, None] = {}
        for field, labels, codes in columns:
            for code in codes:
                label = labels[code]
                if label not in self.index and label not in new:
                    try:
                        self._admit(label, field, new)
                    except InputError as error:
                        raise error.at(None if find is None else find(field, code)) from None
                    new[label] = None

    def _admit(self, label: Label, field: str, new: dict[Label, None]) -> None:
        if self.closed is not None:
            if label in self.closed:
                return
            names = ", ".join(map(shown, islice(self.closed, _SHOWN_LABELS)))
            raise InputError(
                field,
                expected=f"one of the {len(self.closed)} labels of the closed list, {names}"
                + (", …" if len(self.closed) > _SHOWN_LABELS else ""),
                got=shown(label),
            )
        known = next(iter(self.index), next(iter(new), None))
        if known is not None:
            check_same_kind(known, label, field)
        if len(self.index) + len(new) >= MAX_CLASSES:
            raise InputError(
                field,
                expected=f"at most {MAX_CLASSES} distinct labels",
                got=f"one more, {shown(label)}",
                remedy="the usual cause is a column of ids or of scores given as labels",
            )

    def copy(self) -> LabelIndex:
        """An independent copy."""
        twin = LabelIndex()
        twin.index = self.index.copy()
        twin.labels = self.labels.copy()
        twin.free = None if self.free is None else self.free.copy()
        twin.closed = self.closed
        return twin

    def _check(self, occurring: set[int]) -> None:
        """Assert every invariant; cells use the indices ``occurring``."""
        free = self.free or []
        assert len(self.index) + len(free) == len(self.labels)
        assert {*self.index.values(), *free} == set(range(len(self.labels)))
        assert all(self.labels[k] == label for label, k in self.index.items())
        assert {type(label) for label in self.index} in (set(), {int}, {str})
        assert len(self.index) <= MAX_CLASSES
        assert occurring.isdisjoint(free)
        assert len(occurring) == len(self.index), "a label without an event"
        assert self.closed is None or self.index.keys() <= self.closed.keys()
