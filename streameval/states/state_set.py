"""A set of states that are updated, merged and serialised together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch
from streameval.events.values import Label, Weight
from streameval.states.backend import compiled
from streameval.states.class_scores import class_counter
from streameval.states.confusion import ConfusionCounts
from streameval.states.registry import STATES, StateRow, states_of
from streameval.tasks.registry import TASKS, TaskName
from streameval.tasks.task import Task

if TYPE_CHECKING:
    from streameval.states.native.batch_partition import BatchPartition

_NATIVE = compiled("streameval.states.native.native_fast_path")
_SETS = compiled("streameval.states.native.batch_partition")
_COUNTED_BY_SETS = frozenset({"confusion", "index"})
_KERNELS = {row.types[0]: row.kernel for row in STATES.values()}
"""What compiled code does with the states of each class."""


@dataclass(frozen=True, slots=True)
class StatePlan:
    """Which states a state set keeps, and how they are made.

    Args:
        task: A name out of :data:`~streameval.tasks.registry.TASKS`.
        keeps: Names out of :data:`~streameval.states.registry.STATES` for this task.
        bins: Reliability bins of the probability states.
        labels: The closed list of classes of a multi-class task; None: labels are discovered.
        max_scores: Most distinct scores of a state that keeps scores, beyond which they
            are coarsened; None: all. What could be derived from all scores is then kept
            beside them, and stays exact.
        probabilities: Whether multi-class scores are probabilities, and not any numbers.

    Attributes:
        rows: The rows of the states that are kept; ``stored``: their names.
        derivable: The rows of those that follow from another that is kept while its scores
            are all there, and are written only where these have been coarsened.
        absent: The names of the states that are neither kept nor derived at a read.
        task_row: The task's object.
        checked: Whether a state may refuse an event that another has counted before.
        sorted: Whether :meth:`StateSet.add_part` counts sets of sorted batches in these states.
        fed: The names of the states that are kept by :attr:`~StateRow.input`; ``refusing``: of
            those that may refuse a validated event.
    """

    task: TaskName
    keeps: frozenset[str]
    bins: int = 10
    labels: tuple[Label, ...] | None = None
    max_scores: int | None = None
    probabilities: bool = True
    rows: tuple[StateRow, ...] = field(init=False, repr=False, compare=False)
    stored: tuple[str, ...] = field(init=False, repr=False, compare=False)
    derivable: tuple[StateRow, ...] = field(init=False, repr=False, compare=False)
    absent: tuple[str, ...] = field(init=False, repr=False, compare=False)
    task_row: Task = field(init=False, repr=False, compare=False)
    checked: bool = field(init=False, repr=False, compare=False)
    sorted: bool = field(init=False, repr=False, compare=False)
    fed: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    refusing: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _counts: ConfusionCounts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        task = TASKS[self.task]
        rows = states_of(self.task, self.keeps)
        others = [row for row in STATES.values() if row.name not in self.keeps]
        refusing = [row for row in rows if self.task in row.refuses]
        fed = _by_feed(rows)
        first = (fed["scores"] + fed["labels"])[:1]
        computed = {
            "rows": rows,
            "stored": tuple(row.name for row in rows),
            "derivable": tuple(row for row in rows if row.source in self.keeps),
            "absent": tuple(row.name for row in others if not self.derives(row)),
            "task_row": task,
            "checked": any(row.name not in first for row in refusing),
            "sorted": _SETS is not None
            and task.kernel == "two classes"
            and self.keeps <= _COUNTED_BY_SETS
            and self.max_scores is None,
            "fed": fed,
            "refusing": _by_feed(refusing),
            "_counts": ConfusionCounts(self.labels if task.classes is None else task.classes),
        }
        for name, value in computed.items():
            object.__setattr__(self, name, value)

    def confusion(self) -> ConfusionCounts:
        """An empty confusion of the plan's classes, whose list all of them share."""
        return self._counts.emptied()

    @classmethod
    def everything(cls, task: TaskName, bins: int = 10, **options: Any) -> StatePlan:
        """What all metrics of the task read; options as of :meth:`for_states`."""
        rows = states_of(task, STATES)
        names = {
            row.name
            for row in rows
            if not (row.kept_for_intervals_of or row.ordered or row.requested_only)
        }
        return cls.for_states(task, names, bins, **options)

    @classmethod
    def for_states(
        cls,
        task: TaskName,
        states: Iterable[str],
        bins: int = 10,
        *,
        labels: tuple[Label, ...] | None = None,
        temporal: bool = False,
        max_scores: int | None = None,
        intervals: bool = False,
        probabilities: bool = True,
    ) -> StatePlan:
        """The least that serves metrics of these states."""
        named = set(states)
        rows = tuple(
            row
            for row in states_of(task, STATES)
            if row.name in named
            or row.kept_beside & named
            or (temporal and row.ordered)
            or (
                intervals
                and row.kept_for_intervals_of & named
                and (probabilities or not row.of_probabilities)
            )
        )
        names = {row.name for row in rows}
        keeps = frozenset(
            row.name for row in rows if max_scores is not None or row.source not in names
        )
        return cls(task, keeps, bins, labels, max_scores, probabilities)

    def derives(self, row: StateRow) -> bool:
        """Whether a state that is not kept may be derived: from scores that are all kept."""
        return row.source is not None and self.max_scores is None

    def serves(self, state: str) -> bool:
        """Whether a state set of this plan keeps a state, or can derive it."""
        row = STATES[state]
        return state in self.keeps or (self.derives(row) and row.source in self.keeps)

    @property
    def keeps_scores(self) -> bool:
        """Whether a state is kept that counts scores."""
        return bool(self.fed["scores"])

    @property
    def ordered(self) -> bool:
        """Whether a state is kept that depends on the order of events."""
        return bool(self.fed["order"])


def _by_feed(rows: Iterable[StateRow]) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {"labels": (), "scores": (), "order": ()}
    for row in rows:
        names[row.input] += (row.name,)
    return names


class StateSet:
    """The states of a plan, each an attribute by its name in the registry.

    Other states of the registry are None, or derived at the first read and then kept current.
    """

    plan: StatePlan
    derived: tuple[StateRow, ...] = ()
    """The rows of states that were derived and are kept current since."""
    _task: Task
    _path: Any = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A state by its name."""

    def __init__(self, plan: StatePlan) -> None:
        self.plan = plan
        self._task = plan.task_row
        for row in plan.rows:
            setattr(self, row.name, row.make(plan))
        for name in plan.absent:
            setattr(self, name, None)
        self._bind()

    def _bind(self) -> None:
        """Note which states count which events, and have the fast path count in them."""
        plan = self.plan
        fed, refusing = plan.fed, plan.refusing
        self._scored = self._states([*fed["scores"], *(row.name for row in self.derived)])
        self._labelled = self._states(fed["labels"])
        self._ordered = self._states(fed["order"])
        self._refusing = self._states(refusing["scores"]), self._states(refusing["labels"])
        if self._path is not None:
            self._bind_fast_path(self._path)

    def fast_path(self) -> Any:
        """Counts an event in these states in compiled code; None where there is none."""
        if self._path is None and _NATIVE is not None and self._task.kernel is not None:
            self._path = _NATIVE.StateFastPath()
            self._bind_fast_path(self._path)
        return self._path

    def _bind_fast_path(self, path: Any) -> None:
        binary = self._task.kernel == "two classes"
        taken: dict[str, Any] = {}
        queued: tuple[list[Any], ...] = [], [], []
        others: tuple[list[Any], ...] = [], [], []
        every = self._scored, self._labelled, self._ordered
        for states, queues, rest in zip(every, queued, others, strict=True):
            for state in states:
                role = _KERNELS.get(type(state))
                if role == "weights" or (role == "queued" and binary):
                    queues.append(state)
                elif role is None or role == "queued" or role in taken:
                    rest.append(state)
                else:
                    taken[role] = state
        get, losses = taken.get, taken.get("losses")
        tallied = map(get, ("errors", "label_counts", "label_sets"))
        scores, sums = get("scores"), get("sums")
        classes = class_counter(scores, sums)
        if classes is None:
            others[0].extend([state for state in (scores, sums) if state is not None])
        known = [id(state) for states in others for state in states]
        refusing = [tuple([s for s in states if id(s) in known]) for states in self._refusing]
        path.bind(
            binary,
            get("index"),
            None if losses is None else losses.tally(),
            tuple([None if state is None else state.tally() for state in tallied]),
            get("confusion"),
            classes,
            get("run"),
            (tuple(queued[0]), tuple(queued[1])),
            tuple(map(tuple, others)),
            None if self.plan.derivable else every,
            (*refusing, *self._refusing),
        )

    def _states(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in names])

    def _missing(self, row: StateRow) -> Any:
        """A state that is not kept: derived, and kept current from now on; or None."""
        source = None if row.source is None else getattr(self, row.source)
        if source is None:
            return None
        state = row.derive(source, self.plan)
        setattr(self, row.name, state)
        self.derived += (row,)
        self._bind()
        return state

    def _forget_derived(self) -> None:
        if not self.derived:
            return
        for row in self.derived:
            delattr(self, row.name)
        self.derived = ()
        self._bind()

    @property
    def _written(self) -> tuple[str, ...]:
        """The names of the states that are written: those that cannot be derived."""
        plan = self.plan
        if not plan.derivable or getattr(self, str(plan.derivable[0].source)).level:
            return plan.stored
        derivable = {row.name for row in plan.derivable}
        return tuple(name for name in plan.stored if name not in derivable)

    def _derive_before(self, events: int) -> None:
        """Derive anew what is written beside coarse scores, if so many events may coarsen them."""
        # Once weights are fractions: their sums are written as they follow from the scores.
        for row in self.plan.derivable:
            source = getattr(self, str(row.source))
            if source.exact or source.level or source.distinct + events <= source.max_scores:
                return
            setattr(self, row.name, row.derive(source, self.plan))
        if self.plan.derivable:
            self._bind()

    def become(self, other: StateSet) -> None:
        """Take the states of another state set of this plan, which is not used afterwards."""
        self._forget_derived()
        for name in (*self.plan.stored, *(row.name for row in other.derived)):
            setattr(self, name, getattr(other, name))
        self.derived = other.derived
        self._bind()

    # Counting

    def check(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Raise what :meth:`update` of this event would raise; nothing is counted."""
        of_scores, of_labels = self._refusing
        if score is not None:
            given = self._task.of_scores(y_true, y_pred, score, weight)
            for state in of_scores:
                state.check(*given)
        if y_pred is not None:
            given = self._task.of_labels(y_true, y_pred, weight)
            for state in of_labels:
                state.check(*given)

    def update(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Count one validated event (the fields of :class:`Event`)."""
        if self.plan.checked and (score is not None or len(self._labelled) > 1):
            self.check(y_true, y_pred, score, weight)
        self.add(y_true, y_pred, score, weight)

    def add(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """:meth:`update` with an event that :meth:`check` has accepted."""
        if score is not None and self._scored:
            self._derive_before(1)
            given = self._task.of_scores(y_true, y_pred, score, weight)
            for state in self._scored:
                state.update(*given)
        if y_pred is not None and self._labelled:
            given = self._task.of_labels(y_true, y_pred, weight)
            for state in self._labelled:
                state.update(*given)
        for state in self._ordered:
            state.update(y_true)

    def revert(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Undo exactly one earlier event, or raise and change nothing."""
        if self._ordered:
            raise InputError(
                "revert",
                expected="an evaluator that does not keep the order of events",
                got="one that keeps kappa_temporal",
                remedy="leave kappa_temporal out of metrics=",
            )
        self.remove(y_true, y_pred, score, weight)

    def remove(self, y_true: Any, y_pred: Any, score: Any, weight: Any) -> None:
        """:meth:`revert` in all states but those that depend on the order of events."""
        steps: list[tuple[Any, tuple[Any, ...]]] = []
        if y_pred is not None:
            given = self._task.of_labels(y_true, y_pred, weight)
            steps += [(state, given) for state in self._labelled]
        if score is not None:
            given = self._task.of_scores(y_true, y_pred, score, weight)
            steps += [(state, given) for state in self._scored]
        done = 0
        try:
            for state, given in steps:
                state.revert(*given)
                done += 1
        except InputError:
            # Another state refused: the event as a whole was never counted.
            for state, given in reversed(steps[:done]):
                state.update(*given)
            raise

    def forget_oldest(self, oldest: Label, following: Label | None) -> None:
        """Have states that depend on the order drop the first true label, before this one."""
        for state in self._ordered:
            state.forget_oldest(oldest, following)

    def reorder(self, labels: Iterable[Label]) -> None:
        """Make the states that depend on the order anew, of all true labels."""
        for row in self.plan.rows:
            if row.ordered:
                state = row.make(self.plan)
                for label in labels:
                    state.update(label)
                setattr(self, row.name, state)
        self._bind()

    def check_many(self, batch: EventBatch) -> None:
        """Raise what :meth:`update_many` of this batch would raise; nothing is counted."""
        if not len(batch):
            return
        of_scores, of_labels = self._refusing
        if batch.score is not None:
            for state in of_scores:
                state.check_many(*self._task.score_columns(batch))
        if batch.y_pred is not None:
            for state in of_labels:
                state.check_many(*self._task.label_columns(batch))

    def update_many(self, batch: EventBatch) -> None:
        """Count a validated batch; the same bits as its events one by one."""
        if self.plan.checked and (batch.score is not None or len(self._labelled) > 1):
            self.check_many(batch)
        self.add_many(batch)

    def add_many(self, batch: EventBatch) -> None:
        """:meth:`update_many` with a batch that :meth:`check_many` has accepted."""
        if not len(batch):
            return
        if batch.score is not None and self._scored:
            self._derive_before(len(batch))
            if batch.named is not None:
                for event in batch.events():
                    given = self._task.of_scores(*event)
                    for state in self._scored:
                        state.update(*given)
            else:
                given = self._task.score_columns(batch)
                for state in self._scored:
                    state.update_many(*given)
        if batch.y_pred is not None and self._labelled:
            given = self._task.label_columns(batch)
            for state in self._labelled:
                state.update_many(*given)
        for state in self._ordered:
            state.update_many(batch.true_labels())

    # Sets of a sorted batch

    def takes_partition(self) -> bool:
        """Whether :meth:`add_part` can count here: weights are whole, and none near its limit."""
        keeps = self.plan.keeps
        return (
            self.plan.sorted
            and ("index" not in keeps or _SETS.has_room(self.index))
            and ("confusion" not in keeps or self.confusion.has_room)
        )

    def add_part(self, sets: BatchPartition, n: int) -> None:
        """:meth:`add_many` with the events of one set, where :meth:`takes_partition`."""
        keeps = self.plan.keeps
        if sets.scored and "index" in keeps:
            sets.add_scores(n, self.index)
            if self.derived:
                positive, score = sets.columns(n)
                for state in self._scored[1:]:
                    state.update_many(positive, score)
        if sets.labelled and "confusion" in keeps:
            self.confusion.add_pairs(sets.pairs(n))

    def packed(self) -> bytes | None:
        """The content as bytes of this process; None where it is not :meth:`takes_partition`."""
        if not self.takes_partition():
            return None
        index = self.index if "index" in self.plan.keeps else None
        cells = self.confusion.pairs() if "confusion" in self.plan.keeps else (0, 0, 0, 0)
        packed: bytes = _SETS.pack(index, cells)
        return packed

    @staticmethod
    def is_packed(data: bytes) -> bool:
        """Whether bytes are from :meth:`packed`."""
        return _SETS is not None and _SETS.is_packed(data)

    @classmethod
    def unpacked(cls, data: bytes, plan: StatePlan) -> StateSet:
        """The state set that was packed."""
        new = cls(plan)
        cells = _SETS.unpack(data, new.index if "index" in plan.keeps else None)
        pairs = [(at >> 1, at & 1, weight) for at, weight in enumerate(cells) if weight]
        if pairs:
            new.confusion.add_pairs(pairs)
        return new

    # Other state sets

    def check_merge(self, other: StateSet) -> None:
        """Raise what :meth:`merge` would raise; nothing is changed."""
        if self.plan != other.plan:
            raise StateError(
                f"state sets of different plans cannot be merged: {self.plan} and {other.plan}"
            )
        try:
            for names in self.plan.refusing.values():
                for name in names:
                    getattr(self, name).check_merge(getattr(other, name))
        except InputError as error:
            raise StateError(f"merge: {error}") from None

    def merge(self, other: StateSet, times: int = 1) -> None:
        """Add another state set's events; with ``times=-1``, both exact, remove merged ones."""
        if times > 0:
            self.check_merge(other)
        for name in self.plan.stored:
            mine, theirs = getattr(self, name), getattr(other, name)
            mine.merge(theirs) if times == 1 else mine.merge(theirs, times)
        self._forget_derived()

    @property
    def exact(self) -> bool:
        """Whether a removal by :meth:`merge` gives the bits of a merge of the remaining events."""
        return not self._ordered and self.plan.max_scores is None and self.has_whole_weights

    @property
    def has_whole_weights(self) -> bool:
        """Whether every state holds integers only, and merges have the same bits in any order."""
        return all(getattr(self, name).exact for name in self.plan.stored)

    def copy(self) -> StateSet:
        """An independent state set of the same events."""
        new = StateSet(self.plan)
        new.merge(self)
        return new

    # Reading

    @classmethod
    def later(
        cls, plan: StatePlan, make: Callable[[str], Any], has_fed: Callable[[str], bool]
    ) -> StateSet:
        """A state set for reading, whose states are made when they are first read."""
        new = _DerivedStateSet.__new__(_DerivedStateSet)
        new.plan = plan
        new._task = plan.task_row
        new._make = make
        new._known_fed = has_fed
        return new

    def support(self, state: str) -> Weight:
        """The weight of the events that a state has counted; 0 for one that is not kept."""
        row = STATES[state]
        if row.source in self.plan.keeps:
            # What it would be derived from has counted the same events.
            row = STATES[row.source]
        return row.support(getattr(self, row.name)) if row.name in self.plan.keeps else 0

    def effective_size(self, state: str) -> float:
        """The sum of whole weights, which are counts; of others Kish's size, nan without Σw²."""
        row = STATES[state]
        if getattr(self, row.name if row.name in self.plan.stored else str(row.source)).exact:
            return self.support(state)
        weights = self.label_weights if row.input == "labels" else self.score_weights
        return math.nan if weights is None else float(weights.effective_size)

    @property
    def has_labels(self) -> bool:
        """Whether an event with a predicted label is in it."""
        return self.has_fed("labels")

    @property
    def has_scores(self) -> bool:
        """Whether an event with a score is in it."""
        return self.has_fed("scores")

    def has_fed(self, kind: str) -> bool:
        """Whether an event is in it that states of this :attr:`StateRow.input` count."""
        return any(self.support(row.name) for row in self.plan.rows if row.input == kind)

    def labels(self) -> list[Label]:
        """Every label of any state, sorted."""
        known: set[Label] = set()
        for state in self._states(self.plan.stored):
            known.update(getattr(state, "labels", ()))
        return sorted(known)

    # Writing and checking

    def to_state(self, *, derivable: bool = False) -> dict[str, Any]:
        """Plain data of every state that the plan keeps, canonical."""
        return {
            name: self.form(name)
            for name in sorted(self.plan.keeps if derivable else self._written)
        }

    def form(self, name: str) -> dict[str, Any]:
        """Plain data of one state that the plan keeps, for :meth:`StateRow.restored`."""
        return STATES[name].write(getattr(self, name))

    @classmethod
    def from_state(
        cls, data: dict[str, Any], plan: StatePlan, *, derivable: bool = False
    ) -> StateSet:
        """The state set that :meth:`to_state` wrote."""
        least = set(plan.stored).difference(row.name for row in plan.derivable)
        if not isinstance(data, dict) or not least <= set(data) <= plan.keeps:
            found = sorted(map(str, data)) if isinstance(data, dict) else type(data).__name__
            raise StateError(f"state set: expected the states {sorted(least)}, got {found}")
        new = cls(plan)
        for row in plan.rows:
            if row in plan.derivable and not derivable:
                source = getattr(new, str(row.source))
                if not source.level:
                    # What was written can say no more than the scores do.
                    setattr(new, row.name, row.derive(source, plan))
                    continue
                if row.name not in data:
                    raise StateError(f"state set: expected {row.name} beside coarsened scores")
            state = row.restored(plan, data[row.name])
            for setting in ("bins", "max_scores", "probabilities"):
                wanted = getattr(plan, setting)
                got = getattr(state, setting, wanted)
                if got != wanted:
                    raise StateError(
                        f"state set.{row.name}: expected {wanted} {setting}, got {got}"
                    )
            setattr(new, row.name, state)
        new._bind()
        new._check_supports()
        return new

    def _check_supports(self) -> None:
        """Raise StateError where states of a written set cannot have counted the same events."""
        plan = self.plan
        names = set(self._written)
        for kind in ("labels", "scores"):
            rows = [row for row in plan.rows if row.input == kind and row.name in names]
            for first, row in zip(rows[:1] * len(rows), rows[1:], strict=False):
                if not (getattr(self, first.name).exact and getattr(self, row.name).exact):
                    continue  # float sums of other terms
                most, got = self.support(first.name), row.support(getattr(self, row.name))
                fewer = row.kept_for_intervals_of or row.counts_some or not plan.probabilities
                if got > most or (got < most and not fewer):
                    raise StateError(
                        f"state set.{row.name}: expected events of weight {most}, as in "
                        f"{first.name}, got {got}"
                    )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateSet):
            return NotImplemented
        return self.plan == other.plan and all(
            getattr(self, name) == getattr(other, name) for name in self._written
        )

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        for name in (*self.plan.stored, *(row.name for row in self.derived)):
            getattr(self, name)._check()
        for row in (*self.derived, *self.plan.derivable):
            source = getattr(self, str(row.source))
            # Float sums depend on the order of their terms.
            if source.exact and not source.level:
                assert getattr(self, row.name) == row.derive(source, self.plan)


class _Derived:
    """A state that can be derived; Python calls this only where the attribute is unset."""

    __slots__ = ("_row",)

    def __init__(self, row: StateRow) -> None:
        self._row = row

    def __get__(self, state_set: StateSet | None, owner: type[StateSet]) -> Any:
        return self if state_set is None else state_set._missing(self._row)


for _row in STATES.values():
    if _row.source is not None:
        setattr(StateSet, _row.name, _Derived(_row))


class _DerivedStateSet(StateSet):
    """What :meth:`StateSet.later` makes."""

    # A class of its own only because with a ``__getattr__`` Python takes four times as long for
    # every attribute, those that are set included.

    _make: Callable[[str], Any]
    _known_fed: Callable[[str], bool]

    def has_fed(self, kind: str) -> bool:
        return self._known_fed(kind)

    def _bind(self) -> None:
        """No event is counted, so that no state needs to be made."""

    def _missing(self, row: StateRow) -> Any:
        state = self._make(row.name)
        if state is None:
            return super()._missing(row)
        setattr(self, row.name, state)
        return state

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """A state that was not made yet; Python calls this for unset attributes only."""
            if name not in STATES:
                raise AttributeError(name)
            return self._missing(STATES[name])
