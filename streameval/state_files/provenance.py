"""Which shards a state holds, so that merging counts none of them twice.

A shard has a name, an epoch and a sequence of positions; or an identity of 16 bytes: the checksum
of the bytes it was read from or written to, or random bytes if it was pickled before it had
another. Events that never left their evaluator are protected by that object's identity.
"""

from __future__ import annotations

import re
import secrets
import warnings
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple
from weakref import ref

from streameval.errors import InputError, StateError, shown
from streameval.state_files.codec import CHECKSUM_BYTES, Unpacked

END = 2**63 - 1
"""The end of the sequence of a shard that was named without one: it begins at 0."""

FEW_EVENTS = 1000
"""Below this weight equal bytes in memory may be of different events."""

_CONTENT_BYTES = 16
_CONTENT = re.compile(rf"[0-9a-fA-F]{{{2 * _CONTENT_BYTES}}}")
_NAME_CHARACTERS = 200
_FEW_LIVE = 64
_REMEMBERED = 64


class Shard(NamedTuple):
    """A shard's name, its epoch, and the positions from ``first`` to ``end`` less 1."""

    name: str
    epoch: int = 0
    first: int = 0
    end: int = END

    @property
    def sequence(self) -> str:
        """``first:end``; empty for the whole shard."""
        return "" if self[2:] == (0, END) else f"{self.first}:{self.end}"

    def __str__(self) -> str:
        sequence = self.sequence and f", sequence {self.sequence}"
        return f"shard {self.name!r} (epoch {self.epoch}{sequence})"


def checked_shard(name: object, epoch: object = 0, sequence: object = None) -> Shard:
    """The shard that these arguments name; raises InputError."""
    if not _is_name(name):
        raise InputError(
            "shard",
            expected=f"a name of 1 to {_NAME_CHARACTERS} printed characters without blanks",
            got=shown(name),
        )
    if type(epoch) is not int or not 0 <= epoch < END:
        raise InputError("epoch", expected="a whole number from 0 on", got=shown(epoch))
    if sequence is None:
        return Shard(str(name), epoch)
    pair = tuple(sequence) if isinstance(sequence, (tuple, list)) else ()
    if list(map(type, pair)) != [int, int] or not 0 <= pair[0] < pair[1] <= END:
        raise InputError(
            "sequence",
            expected="the first position, from 0 on, and a larger one, the next after the last",
            got=shown(sequence),
        )
    return Shard(str(name), epoch, *pair)


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARACTERS:
        return False
    return name.isprintable() and " " not in name


class Overlap(NamedTuple):
    """What two provenances both hold."""

    what: str
    epochs: tuple[int, int] | None = None  # of a shard, if they differ: the first's, the second's
    unnamed: bool = False  # whether it is known by its content only
    by_chance: bool = False  # whether the contents may be equal by chance


class Wording(NamedTuple):
    """How an interface calls the remedies."""

    name: str
    allow: str


IN_PYTHON = Wording("name_shard()", "pass allow_overlap=True")
ON_COMMAND_LINE = Wording("--shard", "give --allow-overlap")


class _Live:
    """One evaluator in memory, as those that its events were merged into know it."""

    __slots__ = ("identity", "owner", "written")

    notes: ClassVar[int] = 0  # how often any has become known by another identity

    def __init__(self, owner: Provenance) -> None:
        self.owner = ref(owner)
        self.identity: bytes | None = None  # of its files and pickles
        # The newest checksums of bytes that it was written to.
        self.written: deque[bytes] | None = None

    def identify(self, identity: bytes) -> None:
        self.identity = identity
        _Live.notes += 1

    def write(self, content: bytes) -> None:
        """Become known by the checksum of bytes."""
        if self.written is None:
            self.written = deque(maxlen=_REMEMBERED)
        if content not in self.written:
            self.written.append(content)
            _Live.notes += 1

    def known_by(self) -> Iterable[bytes]:
        """The identities under which its events may be elsewhere."""
        identity = () if self.identity is None else (self.identity,)
        return (*identity, *(self.written or ()))


class Provenance:
    """The set of shards whose events a state holds."""

    __slots__ = (
        "__weakref__",
        "_known",
        "_live",
        "_many_live",
        "_noted",
        "_own",
        "_weak",
        "contents",
        "shards",
    )

    def __init__(self) -> None:
        # The identities of shards without a name.
        self.contents: set[bytes] = set()
        # By name and epoch: the borders of the sequences, ascending, ends and firsts in turn.
        self.shards: dict[str, dict[int, list[int]]] = {}
        # The contents that are checksums of few events in memory.
        self._weak: set[bytes] = set()
        # Of the evaluators in memory whose unwritten events were merged; those that no longer
        # exist and have no identity are removed when their number has doubled.
        self._own = _Live(self)
        self._live: set[_Live] = set()
        self._many_live = _FEW_LIVE
        # By what those are known, when so many had become known by anything.
        self._known: set[bytes] = set()
        self._noted = -1

    @classmethod
    def of(cls, unpacked: Unpacked, *, empty: bool, by_chance: bool = False) -> Provenance:
        """The shards of a state that was read, whose bytes may be equal to others ``by_chance``."""
        if unpacked.provenance is not None:
            return cls.from_data(unpacked.provenance)
        new = cls()
        if not empty:
            new.contents.add(unpacked.checksum[:_CONTENT_BYTES])
            if by_chance:
                new._weak |= new.contents
        return new

    def __bool__(self) -> bool:
        """Whether it holds a shard, of a name or of a content."""
        return bool(self.contents or self.shards)

    def name(self, shard: object, epoch: object, sequence: object) -> None:
        """Add the shard that its events are; raises InputError."""
        named = checked_shard(shard, epoch, sequence)
        held = self.shards.get(named.name, {})
        if held.keys() - {named.epoch}:
            expected = f"{max(held)}, the epoch of shard {named.name!r} that is held already"
            raise InputError("epoch", expected=expected, got=shown(epoch))
        self.add_shard(named)

    def add_shard(self, shard: Shard) -> None:
        """Add a sequence of a shard, joined with its adjoining sequences."""
        name, epoch, first, end = shard
        borders = self.shards.setdefault(name, {}).setdefault(epoch, [])
        start, stop = bisect_left(borders, first), bisect_right(borders, end)
        # An odd position is inside a sequence, which then reaches over the border.
        borders[start:stop] = [first] * (start % 2 == 0) + [end] * (stop % 2 == 0)

    def add(self, other: Provenance, *, live: bool = False) -> None:
        """Add the other's shards, and with ``live`` its events in memory."""
        if other.contents:
            # What one of the two knows for certain is certain.
            self._weak = (
                (self._weak - other.contents)
                | (other._weak - self.contents)
                | (self._weak & other._weak)
            )
            self.contents |= other.contents
        for name, epochs in other.shards.items():
            for epoch, borders in epochs.items():
                for first, end in _sequences(borders):
                    self.add_shard(Shard(name, epoch, first, end))
        for one in (other._own, *other._live) if live else tuple(other._live):
            self._live.add(one)
            self._known.update(one.known_by())
        if len(self._live) > self._many_live:
            self.contents |= {one.identity for one in self._live if one.identity is not None}
            self._live = {one for one in self._live if one.owner() is not None}
            self._many_live = 2 * len(self._live) + _FEW_LIVE

    def copy(self, *, live: bool = False) -> Provenance:
        """An independent one that holds the same."""
        new = Provenance()
        new.add(self, live=live)
        return new

    def pickled(self, *, live: bool) -> dict[str, Any] | None:
        """Plain data for a pickle, None for no shard; events without an identity get one."""
        for one in [self._own, *self._live] if live else ():
            owner = one.owner()
            if one.identity is None and owner is not None and not owner._is_covered():
                identity = secrets.token_bytes(_CONTENT_BYTES)
                one.identify(identity)
                owner.contents.add(identity)
        data = self.to_data()
        return data if any(data.values()) else None

    def _is_covered(self) -> bool:
        """Whether its events have a name or an identity that no other events have."""
        return bool(self.shards or self.contents - self._weak)

    def note_written(self, data: bytes) -> None:
        """Remember bytes that the evaluator's events were written to."""
        self._own.write(content_of(data))

    def note_saved(self, data: bytes) -> None:
        """Take the identity of a file that these bytes were written to, unless there is one."""
        if not self._is_covered():
            content = content_of(data)
            self._own.identify(content)
            self.contents.add(content)
            self._weak.discard(content)

    def overlap(self, other: Provenance) -> Overlap | None:
        """What both hold, or None."""
        if (
            self is other
            or other._own in self._live
            or self._own in other._live
            or not self._live.isdisjoint(other._live)
        ):
            return Overlap("the events of an evaluator")
        shared = self.contents & other.contents
        # What is in memory here may have been written to bytes that were read there.
        if other.contents:
            shared |= other.contents & self._known_by()
        if self.contents:
            shared |= self.contents & other._known_by()
        if shared:
            certain = shared - self._weak - other._weak
            content = f"the content {min(certain or shared)[:8].hex()}"
            return Overlap(content, unnamed=True, by_chance=not certain)
        for name in sorted(self.shards.keys() & other.shards.keys()):
            found = _overlap_of(name, self.shards[name], other.shards[name])
            if found is not None:
                return found
        return None

    def _known_by(self) -> set[bytes]:
        """The identities under which what was counted in memory may be elsewhere."""
        if self._noted != _Live.notes:
            self._noted = _Live.notes
            self._known = {known for one in (self._own, *self._live) for known in one.known_by()}
        return self._known

    def check(self, other: Provenance) -> None:
        """Raise StateError if events that both hold would count twice."""
        overlap = self.overlap(other)
        if overlap is None:
            return
        if not overlap.by_chance:
            raise StateError(_refusal(overlap, "this one", IN_PYTHON))
        warnings.warn(_doubt("it", overlap, "this one"), stacklevel=3)

    def missing(self, expected: Iterable[Shard]) -> list[Shard]:
        """The expected shards, and parts of sequences, that are not held, in whichever epoch."""
        result = []
        for shard in expected:
            epochs = self.shards.get(shard.name)
            if epochs is None:
                result.append(shard)
            elif shard.end != END:  # which expects any part of the shard
                position = shard.first
                for first, end in [*_sequences(epochs[max(epochs)]), (shard.end, shard.end)]:
                    missing_to = min(first, shard.end)
                    if position < missing_to:
                        result.append(shard._replace(first=position, end=missing_to))
                    position = max(position, end)
        return result

    # The written form

    def to_data(self) -> dict[str, Any]:
        """Plain data, the same for the same set: sorted, adjoining sequences in one piece."""
        contents = self.contents | {one.identity for one in self._live if one.identity is not None}
        return {
            "contents": [content.hex() for content in sorted(contents)],
            "shards": [
                [name, epoch, *self.shards[name][epoch]]
                for name in sorted(self.shards)
                for epoch in sorted(self.shards[name])
            ],
        }

    @classmethod
    def from_data(cls, data: Any) -> Provenance:
        """What :meth:`to_data` wrote; raises StateError for anything else."""
        new = cls()
        if not isinstance(data, dict) or data.keys() != {"contents", "shards"}:
            raise StateError(f"provenance: expected contents and shards, got {shown(data)}")
        if not all(isinstance(part, list) for part in data.values()):
            raise StateError(f"provenance: expected lists, got {shown(data)}")
        for text in data["contents"]:
            if not isinstance(text, str) or not _CONTENT.fullmatch(text):
                raise StateError(
                    f"provenance: expected {2 * _CONTENT_BYTES} digits of base 16, "
                    f"got {shown(text)}"
                )
            new.contents.add(bytes.fromhex(text))
        for entry in data["shards"]:
            if not _is_entry(entry):
                raise StateError(
                    f"provenance: expected a shard's name, epoch and sequences, got {shown(entry)}"
                )
            name, epoch, *borders = entry
            new.shards.setdefault(name, {})[epoch] = borders
        if new.to_data() != data:
            raise StateError("provenance: expected sorted contents and shards, each once")
        if not new:
            raise StateError("provenance: expected a content or a shard, got none")
        return new

    def _check(self) -> None:
        assert not self or Provenance.from_data(self.to_data()).to_data() == self.to_data()


class Collection:
    """States that are merged together: refuses what would count twice, naming both.

    The newest epoch of a shard replaces the older ones, whatever their sequences are: among
    ``known`` states in any order, among others only those that follow it. A newer epoch after an
    older one is refused, because what was merged cannot be subtracted.
    """

    def __init__(
        self, known: Iterable[tuple[str, Provenance]] = (), wording: Wording = IN_PYTHON
    ) -> None:
        self.union = Provenance()
        # Warnings of states that were counted although another one has the same bytes.
        self.doubts: list[str] = []
        self._wording = wording
        self._newest: dict[str, tuple[int, str]] = {}
        self._parts: list[tuple[str, Provenance]] = []
        for name, provenance in known:
            self._note(name, provenance)

    def _note(self, name: str, provenance: Provenance) -> None:
        for shard, epochs in provenance.shards.items():
            newest = max(epochs)
            if shard not in self._newest or newest > self._newest[shard][0]:
                self._newest[shard] = newest, name

    def replaced(self, name: str, provenance: Provenance, *, live: bool = False) -> str | None:
        """Why a state is left out; None if it is to be merged; raises StateError."""
        self._note(name, provenance)
        old = {
            shard: min(epochs)
            for shard, epochs in provenance.shards.items()
            if min(epochs) < self._newest[shard][0]
        }
        if old:
            shard, epoch = min(old.items())
            newest, holder = self._newest[shard]
            said = f"{holder} holds epoch {newest} of {Shard(shard, epoch)}"
            if len(old) == len(provenance.shards) and not provenance.contents:
                return f"{name} is left out: {said}"
            raise StateError(
                f"{name}: expected no older epoch among other shards, from which it cannot be "
                f"subtracted; {said}: merge the shards' own states again, or {self._wording.allow} "
                "to count both"
            )
        overlap = self.union.overlap(provenance)
        if overlap is not None:
            holder = next(one for one, part in self._parts if part.overlap(provenance))
            if not overlap.by_chance:
                raise StateError(f"{name}: {_refusal(overlap, holder, self._wording)}")
            self.doubts.append(_doubt(name, overlap, holder))
        self.union.add(provenance, live=live)
        self._parts.append((name, provenance))
        return None


def _refusal(overlap: Overlap, holder: str, wording: Wording) -> str:
    if overlap.epochs is not None:
        held, got = overlap.epochs
        remedy = "the older one cannot be subtracted any more: merge again without it"
        if got < held:
            remedy = "an older epoch is replaced: leave it out"
        return (
            f"expected one epoch of {overlap.what}, got epoch {got} beside epoch {held} in "
            f"{holder}; {remedy}, or {wording.allow} to count both"
        )
    named = f", name the shards where only their events are alike ({wording.name})"
    return (
        f"expected each shard once, got {overlap.what} again, which {holder} holds too and which "
        f"would count twice; leave one of them out{named if overlap.unnamed else ''}, or "
        f"{wording.allow} if they shall"
    )


def _doubt(name: str, overlap: Overlap, holder: str) -> str:
    return (
        f"{name} is counted although {holder} holds {overlap.what} too, which of fewer than "
        f"{FEW_EVENTS:,} events may be chance: if they are the same events, leave one of them out; "
        f"name the shards ({IN_PYTHON.name}) to tell them apart"
    )


def _overlap_of(
    name: str, mine: dict[int, list[int]], theirs: dict[int, list[int]]
) -> Overlap | None:
    for epoch in sorted(mine.keys() & theirs.keys()):
        few, many = sorted((mine[epoch], theirs[epoch]), key=len)
        for first, end in _sequences(few):
            at = bisect_right(many, first)
            if at % 2 or at != bisect_left(many, end):
                # The first position that both hold, up to where one of the sequences ends.
                at += 1 - at % 2
                begin = max(first, many[at - 1])
                return Overlap(str(Shard(name, epoch, begin, min(end, many[at]))))
    held, got = max(mine), max(theirs)
    return None if held == got else Overlap(f"shard {name!r}", (held, got))


def _sequences(borders: list[int]) -> Iterable[tuple[int, int]]:
    return zip(borders[::2], borders[1::2], strict=True)


def content_of(data: bytes) -> bytes:
    """The identity of a state's bytes: the first half of the checksum at their end."""
    return data[-CHECKSUM_BYTES:][:_CONTENT_BYTES]


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, list) or len(entry) < 4 or len(entry) % 2:
        return False
    name, *numbers = entry
    if not _is_name(name) or not all(type(number) is int for number in numbers):
        return False
    epoch, *borders = numbers
    rising = all(a < b for a, b in pairwise([-1, *borders, END + 1]))
    return 0 <= epoch < END and rising
