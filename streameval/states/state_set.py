"""A set of states that are updated, merged and serialised together.

A window keeps one or more of them: a sliding window one for each pane, each slice
its own. The :class:`StatePlan` lists the states that a set keeps.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch
from streameval.events.values import Label, Weight
from streameval.states.backend import compiled
from streameval.states.confusion import ConfusionCounts
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.reference_index import check_room
from streameval.states.registry import STATES, StateRow, states_of
from streameval.tasks.registry import TASKS, TaskName
from streameval.tasks.task import Task

if TYPE_CHECKING:
    from streameval.states.native.native_sets import NativeSets
    from streameval.states.native.native_way import StateWay

_NATIVE = compiled("streameval.states.native.native_way")
_SETS = compiled("streameval.states.native.native_sets")
_COUNTED_BY_SETS = frozenset({"confusion", "index"})

# Compared by identity: what is not the default weight itself may be a float.
_ONE = 1

# What default evaluators of several classes keep of scores.
_CLASS_STATES = (("class_scores",), ("class_probability", "class_scores"))


@dataclass(frozen=True, slots=True)
class StatePlan:
    """Which states a state set keeps, and how they are made.

    Args:
        task: A name out of :data:`~streameval.tasks.registry.TASKS`.
        keeps: Names out of :data:`~streameval.states.registry.STATES` for this task.
        bins: Reliability bins of the probability states.
        labels: The closed list of classes of a multi-class task, in its order;
            None where labels are discovered. A binary task has two classes, 0
            and 1, whether events of both occur or not.
        max_scores: Most distinct scores of a state that keeps scores, beyond which they
            are coarsened; None: all. What could be derived from a state of scores is then
            kept beside it from the first coarsening on, and stays exact.
        probabilities: Whether multi-class scores are probabilities, and not any numbers.

    Attributes:
        rows: The rows of the states that are kept.
        absent: The names of all other states but those that can be derived.
        postponed: The rows of those that are derived while the scores are all kept, and
            kept beside them before they are coarsened.
        direct: The names of the states that are kept from the first event on, in the order of
            the registry.
        task_row: The task's object.
        checked: Whether a state may refuse an event that another has counted before.
        sorted: Whether :meth:`StateSet.add_set` can count here: the states are compiled, and
            those that a default evaluator of a binary task keeps, or some of them.
        fed: The names of these states by :attr:`~StateRow.fed_by`.
        refusing: The same of those that may refuse a validated event.
    """

    task: TaskName
    keeps: frozenset[str]
    bins: int = 10
    labels: tuple[Label, ...] | None = None
    max_scores: int | None = None
    probabilities: bool = True
    rows: tuple[StateRow, ...] = field(init=False, repr=False, compare=False)
    absent: tuple[str, ...] = field(init=False, repr=False, compare=False)
    postponed: tuple[StateRow, ...] = field(init=False, repr=False, compare=False)
    direct: tuple[str, ...] = field(init=False, repr=False, compare=False)
    task_row: Task = field(init=False, repr=False, compare=False)
    checked: bool = field(init=False, repr=False, compare=False)
    sorted: bool = field(init=False, repr=False, compare=False)
    fed: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    refusing: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _counts: ConfusionCounts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        task = TASKS[self.task]
        rows = states_of(self.task, self.keeps)
        refusing = [row for row in rows if self.task in row.refuses]
        others = [row for row in STATES.values() if row.name not in self.keeps]
        postponed = tuple(row for row in rows if row.source in self.keeps)
        fed = _by_feed(rows)
        first = (fed["scores"] + fed["labels"])[:1]
        for name, value in (
            ("absent", tuple(row.name for row in others if not self.derives(row))),
            ("postponed", postponed),
            ("direct", tuple(row.name for row in rows if row not in postponed)),
            ("task_row", task),
            ("checked", any(row.name not in first for row in refusing)),
            (
                "sorted",
                _SETS is not None
                and task.kernel == "two classes"
                and self.keeps <= _COUNTED_BY_SETS
                and self.max_scores is None,
            ),
            ("rows", rows),
            ("fed", fed),
            ("refusing", _by_feed(refusing)),
            ("_counts", ConfusionCounts(self.labels if task.classes is None else task.classes)),
        ):
            object.__setattr__(self, name, value)

    def confusion(self) -> ConfusionCounts:
        """An empty confusion of the plan's classes, whose list all of them share."""
        return self._counts.emptied()

    @classmethod
    def everything(
        cls,
        task: TaskName,
        bins: int = 10,
        *,
        labels: tuple[Label, ...] | None = None,
        temporal: bool = False,
        max_scores: int | None = None,
        intervals: bool = False,
        probabilities: bool = True,
    ) -> StatePlan:
        """What all metrics of the task read.

        States that can be derived from another are not kept: a state set derives
        them when they are first read. States that depend on the order of events
        are kept if ``temporal``, those that only intervals read if ``intervals``.
        """
        rows = states_of(task, STATES)
        names = {row.name for row in rows if not (row.certainty_of or row.ordered)}
        return cls.for_states(
            task,
            names,
            bins,
            labels=labels,
            temporal=temporal,
            max_scores=max_scores,
            intervals=intervals,
            probabilities=probabilities,
        )

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
        """The least that serves metrics of these states; further arguments as above."""
        named = set(states)
        rows = tuple(
            row
            for row in states_of(task, STATES)
            if row.name in named
            or (temporal and row.ordered)
            or (
                intervals
                and row.certainty_of & named
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
        names[row.fed_by] += (row.name,)
    return names


class StateSet:
    """The states of one set of events.

    Each state of the plan is an attribute by its name in
    :data:`~streameval.states.registry.STATES`; the other states of the registry
    are None, or derived at the first read and then kept current.

    Cost:
        One event: the sum of its states'; a read: see each metric. States that
        can be derived cost nothing until they are read.

    >>> state_set = StateSet(StatePlan.everything("binary"))
    >>> state_set.update(1, 1, 0.8)
    >>> state_set.update(0, 1, 0.6)
    >>> state_set.index.twice_wins, state_set.confusion.correct
    (2, 1)
    """

    plan: StatePlan
    derived: tuple[StateRow, ...] = ()
    """The rows of states that were derived and are kept current since."""
    _task: Task
    _way: StateWay | None = None
    _counted: Callable[[Any, Any, Any], bool] | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A state by its name."""

    def __init__(self, plan: StatePlan) -> None:
        self.plan = plan
        self._task = plan.task_row
        for row in plan.rows:
            if row not in plan.postponed:
                setattr(self, row.name, row.make(plan))
        for name in plan.absent:
            setattr(self, name, None)
        self._sort()

    def _sort(self) -> None:
        """Note which states count which events, for the methods of single events."""
        fed, direct = self.plan.fed, self.plan.direct
        scored = [name for name in fed["scores"] if name in direct]
        self._scored = self._states([*scored, *(row.name for row in self.derived)])
        if any(row not in self.derived for row in self.plan.postponed):
            # The source of all of them is the first.
            self._scored = (_Guarded(self, self._scored[0]), *self._scored[1:])
        self._labelled = self._states(fed["labels"])
        self._ordered = self._states(fed["order"])
        refusing = self.plan.refusing
        self._refusing = (
            self._states([name for name in refusing["scores"] if name in direct]),
            self._states(refusing["labels"]),
        )
        # Compiled, all of them at once.
        if fed["scores"] in _CLASS_STATES and fed["labels"] == ("confusion",) and not self._ordered:
            self._counted = self.class_scores.counted_with(self.class_probability, self.confusion)
        if self._way is not None:
            self._serve(self._way)

    def way(self) -> StateWay | None:
        """How compiled code counts a plain event in these states; None where there is none."""
        if self._way is None and _NATIVE is not None:
            self._way = _NATIVE.StateWay()
            self._serve(self._way)
        return self._way

    def _serve(self, way: StateWay) -> None:
        """Tell the compiled way which states there are."""
        plan = self.plan
        others = plan.fed["labels"] not in ((), ("confusion",)) or self._ordered
        kernel = plan.task_row.kernel
        if others or plan.postponed or kernel is None:
            way.close()
            return
        binary = kernel == "two classes"
        index = self.index if binary and "index" in plan.direct else None
        scored = [state for state in self._scored if binary and state is not index]
        tallied = [state for state in scored if isinstance(state, ProbabilitySums)]
        way.serve(
            binary,
            index,
            tallied[0].tally() if tallied else None,
            tuple([state for state in scored if not isinstance(state, ProbabilitySums)]),
            self.confusion if self._labelled else None,
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
        self._sort()
        return state

    def _forget_derived(self) -> None:
        """Forget what can be derived again; what was postponed is current, and stays."""
        if not (self.derived or self.plan.postponed):
            return
        for row in self.derived:
            if row not in self.plan.postponed:
                delattr(self, row.name)
        self.derived = tuple(row for row in self.derived if row in self.plan.postponed)
        self._sort()

    def keep_postponed(self) -> tuple[Any, ...]:
        """Derive those postponed states that are not yet, for the scores may be coarsened next."""
        missing = [row.name for row in self.plan.postponed if row not in self.derived]
        return self._states(missing)

    def _postponed(self, row: StateRow) -> Any:
        """A postponed state of this state set, which is left as it is."""
        if row in self.derived:
            return getattr(self, row.name)
        return row.derive(getattr(self, str(row.source)), self.plan)

    @property
    def _coarse(self) -> bool:
        """Whether postponed states cannot be derived any more."""
        postponed = self.plan.postponed
        return bool(postponed) and getattr(self, str(postponed[0].source)).level > 0

    def become(self, other: StateSet) -> None:
        """Take the states of another state set of this plan, which is not used afterwards."""
        self._forget_derived()
        for name in (*self.plan.direct, *(row.name for row in other.derived)):
            setattr(self, name, getattr(other, name))
        self.derived = other.derived
        self._sort()

    # Counting

    def check(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Raise what :meth:`update` of this event would raise; nothing is counted.

        Raises:
            InputError: Too many labels, or more weight than a state can hold.
        """
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
        """Count one validated event (the fields of :class:`Event`).

        Raises:
            InputError: As :meth:`check`; nothing is counted.
        """
        if score is not None and self.plan.checked:
            counted = self._counted
            if counted is not None and weight is _ONE and counted(y_true, y_pred, score):
                return
            self.check(y_true, y_pred, score, weight)
        self.add(y_true, y_pred, score, weight)

    def add(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """:meth:`update` with an event that :meth:`check` has accepted, or of a plan that is not
        :attr:`~StatePlan.checked`, where the first state refuses an event, or none."""
        if score is not None and self._scored:
            given = self._task.of_scores(y_true, y_pred, score, weight)
            for state in self._scored:
                state.update(*given)
        if y_pred is not None and self._labelled:
            given = self._task.of_labels(y_true, y_pred, weight)
            for state in self._labelled:
                state.update(*given)
        if self._ordered:
            for state in self._ordered:
                state.update(y_true)

    def revert(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Undo exactly one earlier event, or raise and change nothing.

        Raises:
            InputError: The event was never counted, its weight is not whole, or
                a state depends on the order of events, of which none can be
                removed from the middle.
        """
        if self._ordered:
            raise InputError(
                "revert",
                expected="an evaluator that does not keep the order of events",
                got="one that keeps kappa_temporal",
                remedy="leave kappa_temporal out of metrics=",
            )
        self._remove(y_true, y_pred, score, weight)

    def evict(self, oldest: tuple[Any, ...], following: tuple[Any, ...] | None) -> None:
        """Remove the oldest event of a window, known to be inside.

        ``following`` is the event after it; None where there is none.
        """
        for remove, _, given in self._steps(*oldest):
            remove(*given)
        for state in self._ordered:
            state.forget_oldest(oldest[0], None if following is None else following[0])

    def replace(self, oldest: tuple[Any, ...], event: tuple[Any, ...]) -> None:
        """:meth:`update` with an event and :meth:`evict` the oldest, in one call.

        Not for a state set with a state that depends on the order of events.
        """
        y_true, y_pred, score, weight = event
        old_true, old_pred, old_score, old_weight = oldest
        if self.plan.checked or (score is None) is not (old_score is None):
            self.update(y_true, y_pred, score, weight)
            self.evict(oldest, None)
            return
        if score is not None:
            given = self._task.of_scores(y_true, y_pred, score, weight)
            old = self._task.of_scores(old_true, old_pred, old_score, old_weight)
            for state in self._scored:
                state.update(*given)
                state.revert(*old)
        # The new event's labels often equal the old one's.
        if y_true == old_true and y_pred == old_pred and weight == old_weight:
            return
        for state in self._labelled:
            if y_pred is not None:
                state.update(*self._task.of_labels(y_true, y_pred, weight))
            if old_pred is not None:
                state.revert(*self._task.of_labels(old_true, old_pred, old_weight))

    def take_out(self, event: tuple[Any, ...], others: Iterable[Label]) -> None:
        """:meth:`revert` where the true labels of all other events are known in their order."""
        self._remove(*event)
        for row in self.plan.rows:
            if row.ordered:
                state = row.make(self.plan)
                for label in others:
                    state.update(label)
                setattr(self, row.name, state)
        self._sort()

    def _steps(
        self, y_true: Any, y_pred: Any, score: Any, weight: Any
    ) -> list[tuple[Any, Any, tuple[Any, ...]]]:
        """For each state: the method that removes an event, its inverse, and the arguments."""
        steps: list[tuple[Any, Any, tuple[Any, ...]]] = []
        given: tuple[Any, ...]
        if y_pred is not None:
            given = self._task.of_labels(y_true, y_pred, weight)
            steps += [(state.revert, state.update, given) for state in self._labelled]
        if score is not None:
            given = self._task.of_scores(y_true, y_pred, score, weight)
            steps += [(state.revert, state.update, given) for state in self._scored]
        return steps

    def _remove(self, *event: Any) -> None:
        steps = self._steps(*event)
        done = 0
        try:
            for remove, _, given in steps:
                remove(*given)
                done += 1
        except InputError:
            # Another state refused: the event as a whole was never counted.
            for _, add, given in reversed(steps[:done]):
                add(*given)
            raise

    def check_many(self, batch: EventBatch) -> None:
        """Raise what :meth:`update_many` of this batch would raise; nothing is counted."""
        if not len(batch):
            return
        if batch.score is not None:
            for state in self._refusing[0]:
                state.check_many(*self._task.score_columns(batch))
        if batch.y_pred is not None:
            for state in self._refusing[1]:
                state.check_many(*self._task.label_columns(batch))

    def update_many(self, batch: EventBatch) -> None:
        """Count a validated batch; the same bits as its events one by one.

        Raises:
            InputError: As :meth:`check_many`; nothing is counted.
        """
        if batch.score is not None and self.plan.checked:
            self.check_many(batch)
        self.add_many(batch)

    def add_many(self, batch: EventBatch) -> None:
        """:meth:`update_many` with a batch that :meth:`check_many` has accepted."""
        if not len(batch):
            return
        if batch.score is not None and self._scored:
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

    def takes_sets(self) -> bool:
        """Whether :meth:`add_set` can count here: weights are whole, and none near its limit."""
        keeps = self.plan.keeps
        return (
            self.plan.sorted
            and ("index" not in keeps or _SETS.has_room(self.index))
            and ("confusion" not in keeps or self.confusion.has_room)
        )

    def add_set(self, sets: NativeSets, n: int) -> None:
        """:meth:`add_many` with the events of one set, where :meth:`takes_sets`."""
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
        """The content as bytes of this process; None where it is not :meth:`takes_sets`."""
        if not self.takes_sets():
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
                    check_merge = (
                        check_room if name == "index" else type(getattr(self, name)).check_merge
                    )
                    check_merge(getattr(self, name), getattr(other, name))
        except InputError as error:
            raise StateError(f"merge: {error}") from None

    def merge(self, other: StateSet) -> None:
        """Add another state set's events; the other is unchanged.

        Raises:
            StateError: The other is of another plan, or a state cannot hold the events of both;
                nothing is changed.
        """
        self.check_merge(other)
        postponed = self.plan.postponed
        if postponed:
            source = str(postponed[0].source)
            mine, theirs = getattr(self, source), getattr(other, source)
            if mine.level or theirs.level or mine.distinct + theirs.distinct > mine.max_scores:
                self.keep_postponed()
        beside = [(row, other._postponed(row)) for row in postponed if row in self.derived]
        for name in self.plan.direct:
            getattr(self, name).merge(getattr(other, name))
        for row, state in beside:
            getattr(self, row.name).merge(state)
        self._forget_derived()

    def subtract(self, other: StateSet) -> None:
        """Remove all events of another that was merged in before; both :attr:`exact`.

        The same bits as a merge of the remaining ones.
        """
        for name in self.plan.direct:
            getattr(self, name).subtract(getattr(other, name))
        self._forget_derived()

    @property
    def exact(self) -> bool:
        """Whether :meth:`subtract` gives the bits of a merge of the remaining events.

        Every state holds integers only, none depends on the order of events, and none
        coarsens scores, whose level does not fall.
        """
        return not self._ordered and self.plan.max_scores is None and self.has_whole_weights

    @property
    def has_whole_weights(self) -> bool:
        """Whether every state holds integers only, and merges have the same bits in any order."""
        return all(getattr(self, name).exact for name in self.plan.direct)

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
        """A state set for reading, whose states are made when they are first read.

        Args:
            plan: What it keeps.
            make: From the name of a state to the state; None for one that is derived from
                another, as far as the plan serves it.
            has_fed: Whether an event is in it that counts in the states that ``"labels"`` or
                ``"scores"`` feed: so much is known without a state.
        """
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
        """How many events of equal weight tell as much as those that a state has counted.

        Whole weights are counts: the size is their sum. Others, and those of a fading window,
        have Kish's effective size (Σw)² / Σw².

        Returns:
            At most the number of events where weights are not counts; nan where the plan
            keeps no Σw².

        >>> fractions = StateSet(StatePlan.everything("binary", intervals=True))
        >>> for weight in (1, 0.5, 0.5):
        ...     fractions.update(1, 1, 0.5, weight)
        >>> fractions.effective_size("index")
        2.6666666666666665
        """
        row = STATES[state]
        if getattr(self, row.name if row.name in self.plan.direct else str(row.source)).exact:
            return self.support(state)
        weights = self.label_weights if row.fed_by == "labels" else self.score_weights
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
        """Whether an event is in it that states of this :attr:`StateRow.fed_by` count."""
        return any(self.support(row.name) for row in self.plan.rows if row.fed_by == kind)

    def labels(self) -> list[Label]:
        """Every label of any state, sorted."""
        known: set[Label] = set()
        for state in self._states(self.plan.direct):
            known.update(getattr(state, "labels", ()))
        return sorted(known)

    # Writing and checking

    def to_state(self) -> dict[str, Any]:
        """Plain data of every state that the plan keeps, canonical.

        Postponed states are among them where they cannot be derived.
        """
        names = self.plan.keeps if self._coarse else self.plan.direct
        return {name: self.form(name) for name in sorted(names)}

    def form(self, name: str) -> dict[str, Any]:
        """Plain data of one state that the plan keeps, for :meth:`StateRow.restored`."""
        return STATES[name].write(getattr(self, name))

    @classmethod
    def from_state(cls, data: dict[str, Any], plan: StatePlan) -> StateSet:
        """The state set that :meth:`to_state` wrote.

        Raises:
            StateError: The data is not that of a state set of this plan.
        """
        if not isinstance(data, dict) or not set(plan.direct) <= set(data) <= plan.keeps:
            found = sorted(map(str, data)) if isinstance(data, dict) else type(data).__name__
            raise StateError(f"state set: expected the states {sorted(plan.direct)}, got {found}")
        new = cls(plan)
        for row in plan.rows:
            if row in plan.postponed:
                if not new._coarse:
                    continue  # where it is there, it says what the scores say
                if row.name not in data:
                    raise StateError(f"state set: expected {row.name} beside coarsened scores")
                new.derived += (row,)
            state = row.restored(plan, data[row.name])
            for setting in ("bins", "max_scores", "probabilities"):
                wanted = getattr(plan, setting)
                got = getattr(state, setting, wanted)
                if got != wanted:
                    raise StateError(
                        f"state set.{row.name}: expected {wanted} {setting}, got {got}"
                    )
            setattr(new, row.name, state)
        new._sort()
        new._check_supports()
        return new

    def _check_supports(self) -> None:
        """Raise StateError where states of a written set cannot have counted the same events.

        Labels and scores are not compared: either may be kept from a later time on, and not
        every event has a score.
        """
        plan = self.plan
        names = set(plan.keeps if self._coarse else plan.direct)
        for kind in ("labels", "scores"):
            rows = [row for row in plan.rows if row.fed_by == kind and row.name in names]
            for first, row in zip(rows[:1] * len(rows), rows[1:], strict=False):
                if not (getattr(self, first.name).exact and getattr(self, row.name).exact):
                    continue  # float sums of other terms
                most, got = self.support(first.name), row.support(getattr(self, row.name))
                fewer = row.certainty_of or row.counts_some or not plan.probabilities
                if got > most or (got < most and not fewer):
                    raise StateError(
                        f"state set.{row.name}: expected events of weight {most}, as in "
                        f"{first.name}, got {got}"
                    )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateSet):
            return NotImplemented
        return self.plan == other.plan and all(
            getattr(self, name) == getattr(other, name)
            for name in (self.plan.keeps if self._coarse else self.plan.direct)
        )

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        for state in self._states({*self.plan.direct, *(row.name for row in self.derived)}):
            state._check()
        assert not self._coarse or set(self.plan.postponed) <= set(self.derived)
        for row in self.derived:
            source = getattr(self, str(row.source))
            # Float sums depend on the order of their terms.
            if source.exact and not source.level:
                assert getattr(self, row.name) == row.derive(source, self.plan)


class _Guarded:
    """The scores of a state set that is to derive postponed states before they are coarsened.

    Counts the events that can be added until then: no more than new distinct scores.
    """

    __slots__ = ("_room", "_source", "_state_set", "revert")

    def __init__(self, state_set: StateSet, source: Any) -> None:
        # No cycle: large sets of states are freed with their last reference.
        self._state_set = weakref.ref(state_set)
        self._source = source
        self._room = 0
        self.revert = source.revert

    def _states(self, events: int) -> tuple[Any, ...]:
        """Those that count the next events: the scores, and what is derived just before them."""
        self._room -= events
        if self._room >= 0:
            return (self._source,)
        most = self._source.max_scores
        self._room = most - self._source.distinct - events
        # Near the limit a look at every few events would take longer than the states.
        if self._room >= most // 16:
            return (self._source,)
        state_set = self._state_set()
        assert state_set is not None
        return (self._source, *state_set.keep_postponed())

    def update(self, positive: bool, score: float, weight: Weight = 1) -> None:
        for state in self._states(1):
            state.update(positive, score, weight)

    def update_many(self, positive: Any, score: Any, weight: Any = None) -> None:
        for state in self._states(len(score)):
            state.update_many(positive, score, weight)


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
    """What :meth:`StateSet.later` makes.

    A class of its own only because with a ``__getattr__`` Python takes four
    times as long for every attribute, those that are set included.
    """

    _make: Callable[[str], Any]
    _known_fed: Callable[[str], bool]

    def has_fed(self, kind: str) -> bool:
        return self._known_fed(kind)

    def _sort(self) -> None:
        """No event is counted, so that no state needs to be made."""

    def _postponed(self, row: StateRow) -> Any:
        return getattr(self, row.name)

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
