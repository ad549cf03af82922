"""What evaluators and comparisons share: merges, the shards that they hold, files and pickles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from streameval.errors import InputError, StateError
from streameval.evaluator.slices import SlicedWindows, Slicer
from streameval.evaluator.view import ViewContext, locked
from streameval.state_files.codec import Unpacked, compressed, pack, unpack_one_of
from streameval.state_files.disk import write_atomically
from streameval.state_files.provenance import FEW_EVENTS, Provenance, content_of


class MergeableEvaluation:
    """Events of one shard or several; a comparison's windows are those of its first model."""

    __slots__ = ()

    _kind: ClassVar[str]
    """The kind of its files."""
    _called: ClassVar[str]
    """Its class in errors, with an article."""
    _context: ViewContext
    _windows: SlicedWindows
    _slicer: Slicer
    _scores_only: bool
    """Whether no state is kept that counts labels."""
    _provenance: Provenance

    # What each kind has of its own

    def add_events(self, other: Self) -> None:
        """Add another's events, of whatever shards; raises StateError where they cannot be."""
        raise NotImplementedError

    def _follow(self, other: Self, newest: int | None) -> None:
        """Take over labels, open slices and timeline of another, without its events."""
        raise NotImplementedError

    def emptied(self) -> Self:
        """A new one set up in the same way, without events."""
        raise NotImplementedError

    def _take_over(self, new: Self) -> None:
        """Count in what a new one counts in, under the lock and with the notes of this one."""
        raise NotImplementedError

    def to_state(self) -> dict[str, Any]:
        """Plain canonical data: what :meth:`to_bytes` packs."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, data: dict[str, Any]) -> Self:
        """The one that :meth:`to_state` wrote; raises StateError."""
        raise NotImplementedError

    # What was counted

    @property
    def wants_scores(self) -> bool:
        """Whether scores or probabilities are kept, beside the predicted labels."""
        return self._context.plan.keeps_scores

    @property
    def takes_probabilities(self) -> bool:
        """Whether scores of several classes are probabilities; see ``probabilities``."""
        return self._context.plan.probabilities

    def _score_missing(self) -> InputError:
        field = self._context.input.score_field
        return InputError(
            field,
            expected="a score, since only metrics of scores are kept",
            got="labels only",
            remedy=f"pass {field}=, or add metrics of labels to metrics=",
        )

    @property
    @locked
    def slices_overflowed(self) -> int:
        """Number of assignments to an ``(other)`` slice because ``max_slices`` was reached.

        One for each event and dimension; in a merge, one for each slice.
        """
        return self._slicer.overflowed

    @property
    @locked
    def arrivals(self) -> dict[str, int]:
        """Counts of events by arrival: on time, late and kept, late and dropped.

        Empty for windows that do not use event time.

        >>> from streameval import Evaluator, Panes
        >>> ev = Evaluator(window=Panes("1h", lateness="10m"), time_unit="s")
        >>> for time in (3000, 7300, 7100, 3500):
        ...     _ = ev.update(True, True, event_time=time)
        >>> ev.arrivals
        {'on_time': 2, 'late_kept': 1, 'late_dropped': 1}
        """
        timeline = self._windows.timeline
        return {} if timeline is None else timeline.counts()

    @property
    @locked
    def newest(self) -> int | None:
        """Windows of event time: the latest moment seen, in microseconds since 1970."""
        timeline = self._windows.timeline
        return None if timeline is None else timeline.latest

    @property
    @locked
    def retained(self) -> dict[str, Any]:
        """What the window keeps and the most that it ever will, and the number of slices.

        A comparison's numbers are about one model.

        >>> from streameval import Evaluator, Last
        >>> ev = Evaluator(window=Last(100)).update(True, score=0.9)
        >>> ev.retained
        {'events': 1, 'events_at_most': 100}
        """
        return self._windows.retained()

    @property
    @locked
    def is_empty(self) -> bool:
        """Whether no event has been counted."""
        return self._holds_none()

    def _holds_none(self) -> bool:
        # Called in every merge: without the lock again, and up to the first state that says no.
        windows = self._windows
        if windows.timeline is not None:
            # The first number that a window retains counts its parts with events.
            return windows.timeline.is_empty and not next(iter(windows.retained().values()))
        states = windows.total.current()
        for row in states.plan.rows:  # noqa: SIM110 -- a generator takes as long as the rest
            if states.support(row.name):  # derives no state
                return False
        return True

    def _holds_few(self) -> bool:
        """Whether equal bytes may be of different events, because these weigh so little."""
        timeline = self._windows.timeline
        if timeline is not None and sum(timeline.counts().values()) >= FEW_EVENTS:
            return False
        states = self._windows.total.current()
        return all(states.support(row.name) < FEW_EVENTS for row in states.plan.rows)

    # Merges, and the shards that they add

    def merge(self, other: Self, *, allow_overlap: bool = False) -> Self:
        """Add another shard's events; the operand is unchanged.

        Args:
            other: The shard.
            allow_overlap: Also count events that are counted here already, see
                :attr:`provenance`.

        Returns:
            This one, so that ``functools.reduce(Evaluator.merge, shards, Evaluator())`` merges.

        Raises:
            StateError: The two were set up differently (every setting that differs is named),
                or both hold a shard, or a sequence of one, whose events would count twice.

        >>> from streameval import Evaluator
        >>> shard = Evaluator().update(True, True)
        >>> total = Evaluator().merge(shard).merge(shard)
        Traceback (most recent call last):
        streameval.errors.StateError: expected each shard once, got the events of an evaluator ...
        """
        self._check_kind(other)
        # In one order for either operand, so that two threads cannot deadlock.
        first, second = sorted((self._context.lock, other._context.lock), key=id)
        with first, second:
            if not allow_overlap:
                self._provenance.check(other._provenance)
            elif other is self:
                other = self.copy()
            self.add_events(other)
            self._provenance.add(other._provenance, live=not other._holds_none())
        return self

    @locked
    def reset(self) -> Self:
        """Drop all events, and the labels and slices that they brought; settings stay.

        Views that were read before stay as they are.

        >>> from streameval import Evaluator
        >>> ev = Evaluator().update(True, score=0.9)
        >>> ev.reset().total.support
        0
        """
        self._take_over(self.emptied())
        return self

    def _check_kind(self, other: Self) -> None:
        """Raise StateError for what is not merged with this kind, whatever its settings."""
        if not isinstance(other, MergeableEvaluation) or other._kind != self._kind:
            raise StateError(f"expected {self._called} to merge, got {type(other).__name__}")

    @locked
    def delta(self, *, newest: int | None = None) -> Self:
        """An empty one for further events of this stream, to be merged into this one.

        It accepts and refuses the same events as this one: it has its labels, and its open
        slices count towards ``max_slices``. Merge it before this one counts anything else.

        Args:
            newest: Windows of event time: a moment in microseconds since 1970 that the stream
                has reached. None: the first event decides which events are late.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(positive="spam").update("ham", "spam")
        >>> delta = ev.delta()
        >>> _ = delta.update_many(["spam", "ham"], ["spam", "ham"])
        >>> _ = ev.merge(delta)
        >>> ev["accuracy"]
        0.6666666666666666
        """
        new = self.emptied()
        new._follow(self, newest)
        return new

    @property
    @locked
    def provenance(self) -> dict[str, Any]:
        """The shards whose events this holds, so that no merge counts one twice.

        ``contents``: the checksums of the bytes of states that were read and have no name.
        ``shards``: name, epoch and, in turn, first and end of each sequence. Saving or pickling
        gives an identity to events that were counted in memory. Before that, a second merge of
        the same evaluator, its :meth:`copy` or its newest 64 :meth:`to_bytes` is refused in
        this process.

        >>> from streameval import Evaluator, from_bytes
        >>> ev = Evaluator().update(True, True)
        >>> ev.name_shard("eu-1", epoch=2, sequence=(0, 1000))
        >>> ev.provenance
        {'contents': [], 'shards': [['eu-1', 2, 0, 1000]]}
        >>> len(from_bytes(ev.to_bytes()).provenance["contents"])
        1
        """
        return self._provenance.to_data()

    def shared_events(self, other: Self) -> str:
        """What events both are known to hold, in words; empty where none are known."""
        overlap = self._provenance.overlap(other._provenance)
        return "" if overlap is None or overlap.by_chance else overlap.what

    @locked
    def name_shard(
        self, shard: str, *, epoch: int = 0, sequence: tuple[int, int] | None = None
    ) -> None:
        """Name the shard that these events are, for files and merges.

        Two states of one shard merge only where their sequences do not overlap. A newer epoch,
        of a shard that is evaluated again, replaces older ones where states are merged together.
        A second call with a longer sequence extends it.

        Args:
            shard: A name without blanks, such as ``"eu-1"`` or ``"2026-03-01/part-0007"``.
            epoch: A whole number, larger in each new evaluation of the shard.
            sequence: First position of the events, and the next after the last one; None: the
                whole shard.

        Raises:
            InputError: A bad value, or another epoch than one that is held already.
        """
        self._provenance.name(shard, epoch, sequence)

    @locked
    def copy(self) -> Self:
        """An independent one of the same events."""
        new = type(self).from_state(self.to_state())
        return new._holding(self._provenance.copy(live=not self._holds_none()))

    def _holding(self, provenance: Provenance) -> Self:
        self._provenance = provenance  # type: ignore[misc]  # a slot of each kind
        return self

    # Bytes, files and pickles

    @locked
    def to_bytes(self, *, provenance: bool = False) -> bytes:
        """The state as bytes: the same for the same events in any order.

        The format is written down in docs/state-format.md.

        Args:
            provenance: With the shards that it holds, as :meth:`save` writes them: the bytes are
                then the same for the same events and shards.
        """
        state, known = self.to_state(), self._provenance if provenance else Provenance()
        held = known.to_data()
        contents, shards = held["contents"], held["shards"]
        data = b"" if shards or contents[1:] else pack(state, kind=self._kind)
        # A state that holds one content, unchanged, needs no mention of it.
        if shards or contents not in ([], [content_of(data).hex()]):
            data = pack(state, kind=self._kind, provenance=held)
        self._provenance.note_written(data)
        return data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, atomically: a crash leaves the old file or the new one.

        Its :attr:`provenance` is written too; without one, the file's checksum becomes its
        identity. Raises StateError where the file cannot be written.
        """
        data = self.to_bytes(provenance=True)
        write_atomically(path, compressed(data))
        if not self.is_empty:
            self._provenance.note_saved(data)

    @classmethod
    def from_parts(cls, unpacked: Unpacked, *, in_memory: bool = False) -> Self:
        """What the parts of a file, or of bytes in memory, hold; raises StateError."""
        new = cls.from_state(unpacked.data)
        by_chance = in_memory and new._holds_few()
        return new._holding(Provenance.of(unpacked, empty=new.is_empty, by_chance=by_chance))

    @locked
    def _pickled(self) -> tuple[bytes, Any]:
        # Not from_bytes: the object has an identity, and others may have its content.
        return self.to_bytes(), self._provenance.pickled(live=not self._holds_none())

    @classmethod
    def _from_pickled(cls, data: bytes, provenance: Any) -> Self:
        new = cls.from_state(unpack_one_of(data, (cls._kind,)).data)
        return new if provenance is None else new._holding(Provenance.from_data(provenance))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MergeableEvaluation) or other._kind != self._kind:
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]


def different_settings(
    mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, as both have them; None where one has no such setting."""
    if mine == theirs:
        return {}
    both = {name: (mine.get(name), theirs.get(name)) for name in {**mine, **theirs}}
    return {name: values for name, values in both.items() if values[0] != values[1]}
