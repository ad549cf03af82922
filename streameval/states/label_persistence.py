"""Repeats of consecutive true labels: the accuracy of a no-change classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.values import (
    Label,
    Weight,
    canonical_label,
    canonical_weight,
    check_same_kind,
    label_column,
    weight_column,
)
from streameval.states.backend import compiled
from streameval.states.fields import MOST_WEIGHT, Fields, check_mergeable, never_counted


class LabelRun:
    """The numbers of a :class:`LabelPersistence`, which compiled code changes in place."""

    __slots__ = ("events", "last", "pairs", "repeats")

    last: Label | None
    events: int
    pairs: int
    repeats: int


_NATIVE: Any = compiled("streameval.states.native.native_tallies")

if not TYPE_CHECKING and _NATIVE is not None:
    LabelRun = _NATIVE.LabelRun

_KEYS = frozenset({"events", "last", "pairs", "repeats"})


class LabelPersistence(LabelRun):
    """Consecutive pairs of true labels: how many, and how many of equal labels.

    The order of merged parts is unknown: the pair across them is not counted, and the next event
    has no predecessor. Only the first event can be removed: without any other its neighbours
    would become consecutive.

    >>> weather = LabelPersistence()
    >>> for label in ["sun", "sun", "rain", "sun"]:
    ...     weather.update(label)
    >>> weather.repeats, weather.pairs
    (1, 3)
    """

    __slots__ = ()
    exact = True
    """Events are counted, not weighed."""

    def __init__(self) -> None:
        self.events = self.pairs = self.repeats = 0
        self.last = None

    def update(self, y_true: object, weight: Weight = 1) -> None:
        """Count the next true label; its weight is validated and not used."""
        label = canonical_label(y_true, "y_true")
        if type(weight) is not int or weight != 1:
            canonical_weight(weight)
        self._follow(label, label, 1, 0, None)

    def update_many(self, y_true: object, weight: object = None) -> None:
        """Count a column of true labels in their order of arrival."""
        labels, codes = label_column(y_true, "y_true")
        weight_column(weight, len(codes))
        if len(codes):
            repeats = int(np.count_nonzero(codes[1:] == codes[:-1]))
            self._follow(labels[codes[0]], labels[codes[-1]], len(codes), repeats, 0)

    def _follow(
        self, first: Label, last: Label, events: int, repeats: int, position: int | None
    ) -> None:
        """Count consecutive events from the first to the last, with the repeats among them."""
        if self.last is not None:
            check_same_kind(self.last, first, "y_true", position)
            self.pairs += 1
            self.repeats += first == self.last
        self.events += events
        self.pairs += events - 1
        self.repeats += repeats
        self.last = last

    def revert(self, y_true: object, weight: Weight = 1) -> None:
        """Refused, because the neighbours of the event are unknown: raises InputError."""
        raise InputError(
            "revert",
            expected="a state that does not depend on the order of events",
            got=f"the succession of labels, from which {shown(y_true)} cannot be taken back",
            remedy="leave kappa_temporal out where labels are corrected",
        )

    def forget_oldest(self, oldest: Label, following: Label | None) -> None:
        """Remove the first event; raises InputError where these cannot be the first two labels."""
        repeats = self.repeats - (oldest == following)
        if following is None:
            known = self.events == 1 and self.last == oldest
        else:
            known = self.pairs > 0 and 0 <= repeats <= self.pairs - 1
        if not known:
            raise never_counted("y_true", (oldest, following))
        self.events -= 1
        if following is None:
            self.last = None
        else:
            self.pairs -= 1
            self.repeats = repeats

    def merge(self, other: LabelPersistence) -> None:
        """Add the counts of another part of the stream, which is unchanged."""
        check_mergeable(self, other)
        if other.events:
            self.last = None if self.events else other.last
            self.events += other.events
            self.pairs += other.pairs
            self.repeats += other.repeats

    def copy(self) -> LabelPersistence:
        """An independent state of the same events."""
        new = LabelPersistence()
        new.merge(self)
        return new

    def to_state(self) -> dict[str, Any]:
        """The written form: three counts, and a list of the last label, if there is one."""
        last = [] if self.last is None else [self.last]
        return {"events": self.events, "pairs": self.pairs, "repeats": self.repeats, "last": last}

    @classmethod
    def from_state(cls, data: object) -> LabelPersistence:
        """The state that :meth:`to_state` wrote; raises StateError."""
        fields = Fields(data, "succession", _KEYS)
        state = cls()
        state.events = fields.integer("events", 0, MOST_WEIGHT)
        last = fields.labels(key="last")
        if len(last) > min(1, state.events):
            fields.refuse("last", "at most one label, and none before any event", last)
        # Each part of the stream begins without a predecessor; without a last
        # label there were two parts at least.
        most = max(0, state.events - (1 if last else 2))
        state.pairs = fields.integer("pairs", 0, most)
        state.repeats = fields.integer("repeats", 0, state.pairs)
        if not last and state.events == 1:
            fields.refuse("last", "the label of the one event", last)
        state.last = last[0] if last else None
        return state

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # As where no compiled class has the attributes.
        names = ("events", "last", "pairs", "repeats")
        return None, {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelPersistence):
            return NotImplemented
        return self.to_state() == other.to_state()

    def __repr__(self) -> str:
        return f"LabelPersistence(events={self.events}, pairs={self.pairs}, repeats={self.repeats})"

    def _check(self) -> None:
        LabelPersistence.from_state(self.to_state())
