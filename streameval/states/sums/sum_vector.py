"""The base of every state that is a vector of exact sums."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

from streameval.errors import StateError, shown
from streameval.events.values import Weight
from streameval.states.backend import compiled
from streameval.states.fields import (
    MOST_WEIGHT,
    bool_field,
    fields_of,
    never_counted,
    weight_field,
    weights_field,
)
from streameval.states.sums.exact_sum import ExactSum

if TYPE_CHECKING:
    from streameval.states.native.native_loss_tally import NativeEventQueue

_NATIVE = compiled("streameval.states.native.native_loss_tally")

Form: TypeAlias = dict[str, Any]
Parts: TypeAlias = Sequence[tuple[Form, int]]
"""Written forms of one kind of state, each with its factor."""


class Field(NamedTuple):
    """A number, a list of numbers or an :class:`ExactSum` of a :class:`SumVector`."""

    attribute: str
    key: str
    """In the written form."""
    most: int = MOST_WEIGHT
    """Largest value that a written state may have."""


def plus(mine: Any, more: Any, times: int) -> Any:
    """``mine + times · more``, of two numbers or element by element."""
    if isinstance(mine, list):
        if times == 1:
            return list(map(add, mine, more))  # half the time
        return [a + times * b for a, b in zip(mine, more, strict=True)]
    if isinstance(mine, ExactSum):
        mine.merge(more, times)
        return mine
    if isinstance(mine, tuple):
        return tuple(plus(a, b, times) for a, b in zip(mine, more, strict=True))
    return mine + times * more


def total_over(terms: Sequence[tuple[Weight, int]], unit: int) -> float:
    """Σ weight · factor / unit; whole weights are added as integers and rounded once."""
    whole, floats = 0, 0.0
    for weight, factor in terms:
        if type(weight) is int:
            whole += weight * factor
        else:
            floats += weight * factor
    return whole / unit + floats / unit


class SumVector:
    """Numbers that are sums over events: ints, and floats from the first fraction on.

    A subclass names its numbers in :attr:`FIELDS`, holds them in attributes, adds the terms of
    one event in :meth:`_add`, and says in :meth:`_is_sound` which sums events can have. Further
    parts of its constructor are :attr:`SETTINGS`, which merged states have in common.
    """

    __slots__ = ()

    NAME: ClassVar[str]
    """Of the state in errors."""
    SETTINGS: ClassVar[tuple[str, ...]] = ()
    """Attributes, and keys of the written form, that no event changes."""
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    _exact: bool

    # What a subclass writes

    def _empty(self) -> Self:
        """A state without events, of the same settings."""
        return type(self)()

    def _add(self, terms: Any, weight: Weight) -> None:
        """Add what :meth:`update` adds for an event of these terms; negative to remove it."""
        raise NotImplementedError

    def _is_sound(self, left: Any = None) -> bool:
        """Whether some events have these sums; only what an event of terms ``left`` changed."""
        raise NotImplementedError

    def _settle(self) -> None:
        """Add what compiled code has counted; called before the sums are read or changed."""

    # Reading

    @property
    def exact(self) -> bool:
        """False from the first weight that is not whole."""
        return self._exact

    # Counting

    def _remove(self, terms: Any, weight: int, field: str, value: object) -> None:
        """Remove an event, or raise InputError about the field and change nothing."""
        self._settle()
        self._add(terms, -weight)
        if not self._is_sound(terms):
            self._add(terms, weight)
            raise never_counted(field, value)

    def _check_merge(self, other: Any) -> None:
        """Raise StateError where the other cannot be merged."""
        if not isinstance(other, type(self)):
            raise StateError(f"merge: expected {type(self).__name__}, got {shown(other)}")
        mine, theirs = getattr(self, "bins", None), getattr(other, "bins", None)
        if mine != theirs:
            raise StateError(
                f"bins: states of {mine} and of {theirs} bins cannot be merged; give "
                "both the same bins="
            )

    def merge(self, other: Self, times: int = 1) -> None:
        """Add the other's events so many times; it is unchanged.

        Args:
            other: A state of the same settings.
            times: 1; another number only where both are exact, negative to remove events.

        Raises:
            StateError: The other is no such state, or of other settings. Nothing is changed.
        """
        self._check_merge(other)
        self._settle()
        other._settle()
        if not other._exact:
            self._promote()
        self._merge(other, times)

    def _merge(self, other: Self, times: int) -> None:
        for name, _, _ in self.FIELDS:
            setattr(self, name, plus(getattr(self, name), getattr(other, name), times))

    def _promote(self) -> None:
        """Make all sums floats, for good."""
        self._settle()
        self._exact = False  # type: ignore[misc]  # a slot of each subclass
        for name, _, _ in self.FIELDS:
            value = getattr(self, name)
            if type(value) is list:
                setattr(self, name, [float(each) for each in value])
            elif type(value) is int:
                setattr(self, name, float(value))

    def subtract(self, other: Self) -> None:
        """Remove all of another that was merged; both exact."""
        self.merge(other, -1)

    def copy(self) -> Self:
        """An independent state of the same events."""
        new = self._empty()
        new.merge(self)
        return new

    # Written form

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        self._settle()
        form: Form = {name: getattr(self, name) for name in self.SETTINGS}
        form["exact"] = self._exact
        return {**form, **self._write()}

    def _write(self) -> Form:
        form: Form = {}
        for name, key, _ in self.FIELDS:
            value = getattr(self, name)
            if type(value) is list:
                value = value[:]
            form[key] = value.to_state() if type(value) is ExactSum else value
        return form

    @classmethod
    def _keys(cls, data: object) -> frozenset[str]:
        """The keys that the written form has."""
        return frozenset({*cls.SETTINGS, "exact", *(field.key for field in cls.FIELDS)})

    @classmethod
    def from_state(cls, data: Any) -> Self:
        """The state that :meth:`to_state` wrote; raises StateError."""
        fields = fields_of(data, cls.NAME, cls._keys(data))
        exact = bool_field(fields, "exact", cls.NAME)
        new = cls._of_settings(fields)
        new._exact = exact  # type: ignore[misc]
        new._read(fields)
        new._refuse_unsound()
        return new

    @classmethod
    def _of_settings(cls, fields: Form) -> Self:
        """A state without events, of the settings that were written."""
        return cls()

    def _read(self, fields: Form) -> None:
        for field in self.FIELDS:
            self._read_field(fields, field)

    def _read_field(self, fields: Form, field: Field) -> None:
        name, key, most = field
        held = getattr(self, name)
        value: Any
        if type(held) is list:
            value = weights_field(fields, key, self.NAME, self._exact, len(held), most)
        elif type(held) is ExactSum:
            value = ExactSum.from_state(fields[key], f"{self.NAME}.{key}")
        else:
            value = weight_field(fields, key, self.NAME, self._exact, most)
        setattr(self, name, value)

    def _refuse_unsound(self) -> None:
        """Raise StateError where no events have the sums that were read."""
        if not self._is_sound():
            weight: Weight = getattr(self, "weight")  # noqa: B009  # of subclasses
            raise StateError(f"{self.NAME}: no events of weight {shown(weight)} have these sums")

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms, as floats."""
        first = parts[0][0]
        form = {key: first[key] for key in first if key in cls.SETTINGS}
        form["exact"] = False
        for _, key, _ in cls.FIELDS:
            columns = [part[key] for part, _ in parts]
            factors = [factor for _, factor in parts]
            if type(columns[0]) is list:
                form[key] = [
                    total_over(list(zip(column, factors, strict=True)), unit)
                    for column in zip(*columns, strict=True)
                ]
            else:
                form[key] = total_over(list(zip(columns, factors, strict=True)), unit)
        return form

    def _check(self) -> None:
        self._settle()
        kind = int if self._exact else float
        for name, _, _ in self.FIELDS:
            value = getattr(self, name)
            for each in value if type(value) in (list, tuple) else [value]:
                if type(each) is ExactSum:
                    each._check()
                else:
                    assert type(each) is kind, name
        assert self._is_sound()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.to_state() == other.to_state()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of weight {self.weight}>"  # type: ignore[attr-defined]


class QueuedSums(SumVector):
    """Sums that compiled code adds events to by a queue: they are counted at the next use.

    Each read of the sums calls :meth:`_settle` first. Events are added by ``update_many`` with
    columns of positives, scores and weights.
    """

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: NativeEventQueue | None = None

    def queue(self) -> NativeEventQueue:
        """Takes events of whole weight from compiled code, which has been built."""
        if self._queue is None:
            self._queue = _NATIVE.NativeEventQueue()
        return self._queue

    def _settle(self) -> None:
        if self._queue is not None:
            for *columns, times in self._queue.take():
                if times == 1:
                    self.update_many(*columns)
                else:
                    part = self._empty()
                    part.update_many(*columns)
                    self._merge(part, times)

    count_queued = _settle

    def update_many(self, first: Any, score: Any = None, weight: Any = None) -> None:
        """Count many events."""
        raise NotImplementedError

    def __getstate__(self) -> tuple[None, Form]:
        # As before there was a queue.
        self._settle()
        return None, {name: getattr(self, name) for name in type(self).__slots__}

    def __setstate__(self, state: tuple[None, Form]) -> None:
        self._queue = None
        for name, value in state[1].items():
            setattr(self, name, value)
