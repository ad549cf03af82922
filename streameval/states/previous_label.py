"""Repeats of consecutive true labels: the accuracy of a no-change classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streameval.errors import InputError, StateError, shown
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
from streameval.states.fields import (
    MOST_WEIGHT,
    fields_of,
    int_field,
    labels_field,
    never_counted,
    refuse,
)


class LabelRun:
    """The numbers of a :class:`PreviousLabel`; compiled code changes those of its own in place."""

    __slots__ = ("events", "last", "pairs", "repeats")

    last: Label | None
    events: int
    pairs: int
    repeats: int


_NATIVE: Any = compiled("streameval.states.native.native_loss_tally")

if not TYPE_CHECKING and _NATIVE is not None:
    LabelRun = _NATIVE.LabelRun

_NAME = "succession"
_KEYS = frozenset({"events", "last", "pairs", "repeats"})


class PreviousLabel(LabelRun):
    """Consecutive pairs of true labels: how many, and how many of equal labels.

    The one state that depends on the order of the events; ``kappa_temporal``
    needs it. Two consequences, which the other states do not have:

    - A merge adds the counts of both parts. The pair across the two is not
      counted, because their order is unknown, and the next event has no
      predecessor.
    - Only the first event can be removed: removing any other would make its
      neighbours consecutive.

    Attributes:
        events: Number of events.
        pairs: Number of events that had a predecessor.
        repeats: Number of those whose label was the predecessor's.
        last: The latest label; None at first and after a merge.

    Cost:
        O(1) time and memory.

    >>> weather = PreviousLabel()
    >>> for label in ["sun", "sun", "rain", "sun"]:
    ...     weather.update(label)
    >>> weather.repeats, weather.pairs
    (1, 3)
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.events = 0
        self.pairs = 0
        self.repeats = 0
        self.last = None

    @property
    def exact(self) -> bool:
        """Always True: events are counted, not weighed."""
        return True

    def update(self, y_true: object, weight: Weight = 1) -> None:
        """Count the next true label.

        Args:
            y_true: The label.
            weight: Validated and not used: it says how much an event counts,
                not how often it occurred.

        Raises:
            InputError: No label, or a str after a number; nothing is noted.
        """
        label = canonical_label(y_true, "y_true")
        if type(weight) is not int or weight != 1:
            canonical_weight(weight)
        if self.last is not None:
            check_same_kind(self.last, label, "y_true")
            self.pairs += 1
            self.repeats += label == self.last
        self.events += 1
        self.last = label

    def update_many(self, y_true: object, weight: object = None) -> None:
        """Count a column of true labels in their order of arrival.

        Raises:
            InputError: As :meth:`update`, with the position; nothing of the
                call is noted.

        Cost:
            1 ns an event beyond finding the distinct labels.

        >>> weather = PreviousLabel()
        >>> weather.update_many(["sun", "sun", "rain", "sun"])
        >>> weather.repeats, weather.last
        (1, 'sun')
        """
        labels, codes = label_column(y_true, "y_true")
        weight_column(weight, len(codes))
        if not len(codes):
            return
        first, last = labels[codes[0]], labels[codes[-1]]
        pairs = len(codes) - 1
        repeats = int(np.count_nonzero(codes[1:] == codes[:-1]))
        if self.last is not None:
            check_same_kind(self.last, first, "y_true", 0)
            pairs += 1
            repeats += first == self.last
        self.events += len(codes)
        self.pairs += pairs
        self.repeats += repeats
        self.last = last

    def revert(self, y_true: object, weight: Weight = 1) -> None:
        """Refused: it is not known which neighbours the event had.

        Raises:
            InputError: Always.
        """
        raise InputError(
            "revert",
            expected="a state that does not depend on the order of events",
            got=f"the succession of labels, from which {shown(y_true)} cannot be taken back",
            remedy="leave kappa_temporal out where labels are corrected",
        )

    def forget_oldest(self, oldest: Label, following: Label | None) -> None:
        """Drop the first event, as a window does that slides past it.

        Args:
            oldest: The canonical label of the first event.
            following: That of the second; None when there is no other.

        Raises:
            InputError: The state cannot have seen these two at its beginning.

        >>> weather = PreviousLabel()
        >>> weather.update_many(["sun", "sun", "rain"])
        >>> weather.forget_oldest("sun", "sun")
        >>> weather.repeats, weather.pairs
        (0, 1)
        """
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

    def merge(self, other: PreviousLabel) -> None:
        """Add the counts of another part of the stream, which stays as it is.

        >>> monday, tuesday = PreviousLabel(), PreviousLabel()
        >>> monday.update_many(["sun", "sun"])
        >>> tuesday.update_many(["sun", "rain"])
        >>> monday.merge(tuesday)
        >>> monday.pairs, monday.last
        (2, None)
        """
        if not isinstance(other, PreviousLabel):
            raise StateError(f"merge: expected PreviousLabel, got {shown(other)}")
        if not other.events:
            return
        self.last = None if self.events else other.last
        self.events += other.events
        self.pairs += other.pairs
        self.repeats += other.repeats

    def copy(self) -> PreviousLabel:
        """An independent copy."""
        twin = PreviousLabel()
        twin.events = self.events
        twin.pairs = self.pairs
        twin.repeats = self.repeats
        twin.last = self.last
        return twin

    def to_state(self) -> dict[str, Any]:
        """The written form: three counts, and the last label as a list of one or none.

        >>> PreviousLabel().to_state()
        {'events': 0, 'pairs': 0, 'repeats': 0, 'last': []}
        """
        return {
            "events": self.events,
            "pairs": self.pairs,
            "repeats": self.repeats,
            "last": [] if self.last is None else [self.last],
        }

    @classmethod
    def from_state(cls, data: object) -> PreviousLabel:
        """The state that :meth:`to_state` wrote.

        Raises:
            StateError: ``data`` is anything else.
        """
        fields = fields_of(data, _NAME, _KEYS)
        state = cls()
        state.events = int_field(fields, "events", _NAME, 0, MOST_WEIGHT)
        last = labels_field(fields, "last", _NAME)
        if len(last) > min(1, state.events):
            refuse(f"{_NAME}.last", "at most one label, and none before any event", last)
        # Each part of the stream begins without a predecessor; without a last
        # label there were two parts at least.
        most = max(0, state.events - (1 if last else 2))
        state.pairs = int_field(fields, "pairs", _NAME, 0, most)
        state.repeats = int_field(fields, "repeats", _NAME, 0, state.pairs)
        if not last and state.events == 1:
            refuse(f"{_NAME}.last", "the label of the one event", last)
        state.last = last[0] if last else None
        return state

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # As where no compiled class has the attributes.
        names = ("events", "last", "pairs", "repeats")
        return None, {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreviousLabel):
            return NotImplemented
        return self.to_state() == other.to_state()

    def __repr__(self) -> str:
        return f"PreviousLabel(events={self.events}, pairs={self.pairs}, repeats={self.repeats})"

    def _check(self) -> None:
        """Assert every invariant."""
        assert 0 <= self.repeats <= self.pairs
        if not self.events:
            assert self.pairs == 0
            assert self.last is None
        elif self.last is None:
            assert self.pairs <= self.events - 2
        else:
            assert self.pairs <= self.events - 1
