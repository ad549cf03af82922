"""The base of every state that is a vector of exact sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import add, pos
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch
from streameval.events.truth import positive_column
from streameval.events.values import (
    MAX_WEIGHT,
    Label,
    Weight,
    canonical_weight,
    check_same_length,
    score_column,
    weight_column,
)
from streameval.states.backend import compiled
from streameval.states.fields import (
    MOST_WEIGHT,
    Fields,
    check_mergeable,
    never_counted,
    removable_weight,
    same_forms,
)
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.sums.exact_sum import ExactSum, scaled_sum

_NATIVE = compiled("streameval.states.native.native_tallies")

Form: TypeAlias = dict[str, Any]
Parts: TypeAlias = Sequence[tuple[Form, int]]
"""Written forms of one kind of state, each with its factor."""

T = TypeVar("T")

_ROUNDING = 1e-6
"""How far float sums of the same terms in another order may differ, generously."""


def per_size(size: int) -> int:
    """The length of a field with a sum for each unit of the state's size."""
    return size


@dataclass(eq=False)
class Field(Generic[T]):
    """A sum of a :class:`SumVector`, or a list of sums: an attribute, and a key when written."""

    size: int | Callable[[int], int] | None = None
    """Length of the list, or a function from the state's size to it; None: one number."""
    most: int | None = 1
    """Largest term of an event of weight 1; None: numbers of either sign."""
    kind: type[int] | type[ExactSum] = int
    """``int``: a float from the first fraction on. ``ExactSum``: of any floats."""
    power: int = 1
    """Of the weights that an ``ExactSum`` adds."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, state: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, state: SumVector, owner: Any) -> T: ...
    def __get__(self, state: SumVector | None, owner: Any) -> Any:
        if state is None:
            return self
        state._settle()
        return state._values[state._layout.places[self.name]]

    def length(self, size: int) -> int | None:
        """Length of the list in a state of this size; None: one number."""
        return self.size(size) if callable(self.size) else self.size


class _Layout(NamedTuple):
    """Where the fields of one class and size stand in the vector."""

    places: dict[str, int | slice]
    zeros: list[Any]
    most: list[int | None]
    plain: bool
    """Whether all are numbers."""


@lru_cache(maxsize=64)
def _layout(cls: type[SumVector], size: int) -> _Layout:
    places: dict[str, int | slice] = {}
    each: list[Field[Any]] = []
    for name, field in cls.FIELDS.items():
        length = field.length(size)
        start, end = len(each), len(each) + (1 if length is None else length)
        places[name] = start if length is None else slice(start, end)
        each += [field] * (end - start)
    zeros = [field.kind() for field in each]
    most = [None if field.kind is ExactSum else field.most for field in each]
    return _Layout(places, zeros, most, ExactSum not in map(type, zeros))


def total_over(terms: Iterable[tuple[Weight, int]], unit: int) -> float:
    """Σ weight · factor / unit; whole weights are added as integers and rounded once."""
    whole, floats = 0, 0.0
    for weight, factor in terms:
        if type(weight) is int:
            whole += weight * factor
        else:
            floats += weight * factor
    return whole / unit + floats / unit


class SumVector:
    """Sums over events: ints, and floats from the first fraction on.

    A subclass has its sums as class attributes (:class:`Field`), a property ``weight`` and the
    method :meth:`_terms_of`. It may add a batch faster (:meth:`_add_many`) and say more exactly
    which sums no events can have (:meth:`_fault`). The rest is written here once.

    >>> class Errors(SumVector):
    ...     NAME = "errors"
    ...     weight, squares = Field(), Field(most=2**40)
    ...
    ...     def _terms_of(self, y_true, given, y_pred=None):
    ...         return [(0, 1), (1, round((y_true - given) ** 2 * 2**40))]
    >>> errors = Errors()
    >>> errors.update(True, 0.5)
    >>> errors.to_state()
    {'exact': True, 'weight': 1, 'squares': 274877906944}
    """

    __slots__ = ("_cells", "_exact", "_layout", "_queue", "_size", "_values")

    NAME: ClassVar[str]
    """Of the state in errors."""
    FIELD: ClassVar[str] = "score"
    """The argument that errors about an event name."""
    SIZE: ClassVar[tuple[str, int, int]] = ("", 0, 0)
    """Key of the size in the written form, the least and the largest; of a fixed size no key."""
    FIELDS: ClassVar[dict[str, Field[Any]]] = {}
    KEYS: ClassVar[frozenset[str]]
    """Of the written form; ``OPTIONAL``: further ones, all or none of which it has."""
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()
    SETTINGS: ClassVar[tuple[str, ...]] = ()
    """Attributes that states which are merged have in common, beside the size."""
    CELLS: ClassVar[bool] = False
    """Whether the sums are those by key, which the written form has too."""
    VALIDATED: ClassVar[bool] = False
    """Whether all arguments are validated by the caller; a whole float weight then ends
    exactness too."""

    def __init_subclass__(cls) -> None:
        own = {name: field for name, field in vars(cls).items() if isinstance(field, Field)}
        cls.FIELDS = {**cls.FIELDS, **own}
        if "KEYS" not in vars(cls):
            cls.KEYS = frozenset({*cls.FIELDS, "exact", cls.SIZE[0]} - {""})

    def __init__(self, size: int = 0) -> None:
        self._exact = True
        self._queue: Any = None
        self._cells: dict[Any, Weight] = {}
        """Sums by key, without sums of 0; a subclass writes and reads them."""
        self._start(size)

    def _start(self, size: int) -> None:
        """Sums of 0, of this size."""
        self._size = size
        self._layout = _layout(type(self), size)  # type: ignore[arg-type]  # a class is hashable
        self._values = self._copied(self._layout.zeros)

    def _copied(self, values: list[Any]) -> list[Any]:
        return values[:] if self._layout.plain else list(map(pos, values))

    def _empty(self) -> Self:
        """A state without events, of the same settings."""
        return type(self)(self._size) if self.SIZE[0] else type(self)()

    # What a subclass writes

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> Any:
        """What an event of weight 1 adds: pairs of a place and a whole number."""
        raise NotImplementedError

    def _add(self, terms: Any, weight: Weight) -> None:
        """Add an event of these terms; of a negative weight to remove it."""
        values = self._values
        for at, term in terms or ():
            values[at] += weight * term

    def _add_cell(self, key: Any, weight: Weight) -> None:
        """Add to the sum of a key."""
        held = self._cells.pop(key, 0 if self._exact else 0.0) + weight
        if held:
            self._cells[key] = held

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        """Add the events of validated columns."""
        each = [1] * len(y_true) if weight is None else weight.tolist()
        for one, score, by in zip(y_true.tolist(), given.tolist(), each, strict=True):
            self._add(self._terms_of(one, score, None), by)

    def _fault(self, terms: Any = None) -> str:
        """Why no events have these sums, or only those that an event of these terms changes."""
        weight, _ = self._about(self.weight)
        sound = all(
            most is None or 0 <= value <= weight * most
            for value, most in zip(self._values, self._layout.most, strict=True)
        )
        return "" if sound else self._no_events()

    def _no_events(self) -> str:
        return f": no events of weight {shown(self.weight)} have these sums"

    def _about(self, weight: Weight) -> tuple[Weight, Weight]:
        """Upper and lower bound of a weight that was summed in another order."""
        if self._exact:
            return weight, weight
        return weight * (1.0 + _ROUNDING), weight * (1.0 - _ROUNDING)

    def queue(self) -> Any:
        """The ``NativeEventQueue`` that compiled code adds events of whole weight to."""
        if self._queue is None:
            self._queue = _NATIVE.NativeEventQueue()
        return self._queue

    def _settle(self) -> None:
        """Add what compiled code has counted; called before the sums are read or changed."""
        if self._queue is not None:
            for *columns, times in self._queue.take():
                if times == 1:
                    self._add_many(*columns)
                else:
                    part = self._empty()
                    part._add_many(*columns)
                    self._merge(part, times)

    def count_queued(self) -> None:
        """Count the events of the queue, which is full."""
        self._settle()

    # Reading

    @property
    def exact(self) -> bool:
        """False from the first weight that is not whole."""
        return self._exact

    if TYPE_CHECKING:  # a field or a property of each subclass

        @property
        def weight(self) -> Weight:
            """Weight of the events."""

    # Counting

    def update(self, y_true: Any, given: Any, weight: Weight = 1, y_pred: Any = None) -> None:
        """Count one event; the arguments are those of the states of a set."""
        terms = self._terms_of(y_true, given, y_pred)
        if not self.VALIDATED and (type(weight) is not int or not 0 < weight <= MAX_WEIGHT):
            weight = canonical_weight(weight)
        if type(weight) is float and self._exact:
            self._promote()
        self._add(terms, weight)

    def add_whole(self, y_true: Any, given: Any, weight: Weight, y_pred: Any = None) -> None:
        """:meth:`update` with a whole weight of any size, negative to remove it; not checked."""
        self._add(self._terms_of(y_true, given, y_pred), weight)

    def update_many(self, y_true: Any, given: Any = None, weight: Any = None) -> None:
        """Count columns, or a validated batch, to the same bits as :meth:`update` of each event."""
        if isinstance(y_true, EventBatch):
            weight = y_true.weight
        elif not self.VALIDATED:
            given = score_column(given, self.FIELD)
            y_true = positive_column(y_true)
            check_same_length(len(y_true), len(given), self.FIELD)
            weight = weight_column(weight, len(y_true))
        self._add_columns(y_true, given, weight)

    def _add_columns(self, y_true: Any, given: Any, weight: Any) -> None:
        if weight is not None and weight.dtype.kind == "f" and self._exact:
            self._promote()
        self._settle()
        self._add_many(y_true, given, weight)

    @classmethod
    def from_blocks(cls, blocks: Iterable[ScoreGroups], *settings: Any, **named: Any) -> Self:
        """The sums of the events of a score index, to the same bits where weights are whole."""
        new = cls(*settings, **named)
        for block in blocks:
            for positive, weight in ((True, block.positives), (False, block.negatives)):
                held = np.flatnonzero(weight)
                flags = np.full(len(held), positive, dtype=np.bool_)
                new._add_columns(flags, block.scores[held], weight[held])
        return new

    def revert(self, y_true: Any, given: Any, weight: Weight = 1, y_pred: Any = None) -> None:
        """Remove one earlier event, exactly; arguments as of :meth:`update`.

        Raises:
            InputError: A weight is or was not whole; or no events have the remaining sums, so
                this one was never counted (sums cannot detect every such case). Nothing is
                changed.
        """
        terms = self._terms_of(y_true, given, y_pred)
        whole = removable_weight(weight, self._exact)
        self._settle()
        self._add(terms, -whole)
        if self._fault(terms):
            self._add(terms, whole)
            raise self._never_counted(y_true, given, whole)

    def _never_counted(self, y_true: Any, given: Any, weight: int) -> InputError:
        return never_counted(self.FIELD, given)

    def _promote(self) -> None:
        """Make all sums floats, for good; an :class:`ExactSum` holds any."""
        self._settle()
        self._exact = False
        self._values = [float(v) if type(v) is int else v for v in self._values]
        self._cells = {key: float(weight) for key, weight in self._cells.items()}

    # Other states

    def _check_merge(self, other: Any) -> None:
        """Raise StateError where the other cannot be merged."""
        if self.SETTINGS or not isinstance(other, type(self)):
            check_mergeable(self, other, *self.SETTINGS)
        if self._size != other._size:
            key = self.SIZE[0]
            raise StateError(
                f"{key}: states of {self._size} and of {other._size} {key} cannot be merged; "
                f"give both the same {key}="
            )

    def merge(self, other: Self, times: int = 1) -> None:
        """Add the other's events so many times; it is unchanged.

        Args:
            other: A state of the same settings; else a StateError, and nothing is changed.
            times: 1; another number only where both are exact, negative to remove events.
        """
        self._check_merge(other)
        self._settle()
        other._settle()
        if self._exact and not other._exact:
            self._promote()
        self._merge(other, times)

    def _merge(self, other: Self, times: int) -> None:
        more = other._values if times == 1 else [times * value for value in other._values]
        self._values = list(map(add, self._values, more))
        for key, weight in list(other._cells.items()):
            self._add_cell(key, times * weight)

    def copy(self) -> Self:
        """An independent state of the same events."""
        self._settle()
        new = self._empty()
        new._exact = self._exact
        new._values = self._copied(self._values)
        new._cells = self._cells.copy()
        return new

    # Written form

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        self._settle()
        form: Form = {self.SIZE[0]: self._size} if self.SIZE[0] else {}
        form["exact"] = self._exact
        values = self._values
        for name, place in self._layout.places.items():
            value = values[place]
            form[name] = value.to_state() if type(value) is ExactSum else value
            if self.FIELDS[name].kind is ExactSum and type(place) is slice:
                form[name] = [one.to_state() for one in value]
        return form

    def __getstate__(self) -> object:
        return self.to_state()

    def __setstate__(self, state: Any) -> None:
        read = type(self).from_state(state)
        SumVector.__init__(self, read._size)
        for name in ("_exact", "_values", "_cells", *type(self).__slots__):
            if name != "__weakref__":
                setattr(self, name, getattr(read, name))

    @classmethod
    def from_state(cls, data: Any, *settings: Any) -> Self:
        """The state that :meth:`to_state` wrote, of settings beside it; raises StateError."""
        fields = Fields(data, cls.NAME, cls.KEYS, cls.OPTIONAL)
        new = cls._of_settings(fields, *settings)
        new._exact = fields.exact
        new._read(fields)
        if fault := new._fault():
            raise StateError(cls.NAME + fault)
        return new

    @classmethod
    def _of_settings(cls, fields: Fields, *settings: Any) -> Self:
        """A state without events, of the settings that were written, or stand beside the form."""
        key, least, largest = cls.SIZE
        return cls(fields.integer(key, least, largest)) if key else cls(*settings)

    def _read(self, fields: Fields) -> None:
        for key, field in self.FIELDS.items():
            most = None if field.most is None else MOST_WEIGHT * field.most
            length, value = field.length(self._size), fields[key]
            if field.kind is ExactSum and length is None:
                value = ExactSum.from_state(value, f"{self.NAME}.{key}")
            elif field.kind is ExactSum:
                if type(value) is not list or len(value) != length:
                    fields.refuse(key, f"a list of {length} sums", value)
                value = [ExactSum.from_state(one, f"{self.NAME}.{key}") for one in value]
            elif length is None:
                value = fields.weight(key, most)
            else:
                value = fields.weights(key, length, most)
            self._values[self._layout.places[key]] = value

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms, as floats."""
        if cls.CELLS:
            states = [(cls.from_state(form), factor) for form, factor in parts]
            return states[0][0]._empty().scaled_cells(states, unit)
        first = parts[0][0]
        form: Form = {key: first[key] for key in first if key == cls.SIZE[0]}
        form["exact"] = False
        factors = [factor for _, factor in parts]
        for name, field in cls.FIELDS.items():
            columns = [part[name] for part, _ in parts]
            if field.kind is ExactSum and field.size is None:
                form[name] = scaled_sum(columns, factors, unit, field.power)
            elif field.kind is ExactSum:
                each = zip(*columns, strict=True)
                form[name] = [scaled_sum(one, factors, unit, field.power) for one in each]
            elif field.size is None:
                form[name] = total_over(zip(columns, factors, strict=True), unit)
            else:
                form[name] = [
                    total_over(zip(column, factors, strict=True), unit)
                    for column in zip(*columns, strict=True)
                ]
        return form

    def scaled_cells(self, parts: Iterable[tuple[Self, int]], unit: int) -> Form:
        """Written form of Σ factor · state / unit, as floats; added to this state, a new one."""
        for state, factor in parts:
            self.merge(state, factor)
        self._exact = False
        self._values = [value / unit for value in self._values]
        self._cells = {key: weight / unit for key, weight in self._cells.items()}
        return self.to_state()

    def _check(self) -> None:
        self._settle()
        kind = int if self._exact else float
        assert len(self._values) == len(self._layout.zeros)
        for value in self._values:
            if type(value) is ExactSum:
                value._check()
            else:
                assert type(value) is kind
        assert all(type(held) is kind and held > 0 for held in self._cells.values())
        assert not self._fault()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return same_forms(self.to_state(), other.to_state())

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of weight {self.weight}>"


class DeclaredSums(SumVector):
    """The base of sums over sets of labels, whose closed list is written once for all states."""

    __slots__ = ("declared",)
    VALIDATED = True

    def __init__(self, declared: tuple[Label, ...] | None = None) -> None:
        super().__init__()
        self.declared = declared

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.SETTINGS}

    def _empty(self) -> Self:
        return type(self)(self.declared, **self._settings())

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).from_state, (self.to_state(), self.declared)
