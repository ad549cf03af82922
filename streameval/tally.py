"""The states of one evaluator over one set of events, fed and merged together.

A tally is what a window keeps: a total has one, a sliding window one for each
pane, a slice its own. What it keeps follows from its :class:`Plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, StateError
from streameval.events import BoolArray, FloatArray, IntArray, Label, LabelColumn, Weight
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.score_index import ScoreIndex
from streameval.states.succession import Succession

__all__ = ["STATE_NAMES", "Batch", "Event", "Plan", "Tally", "Task"]

Task: TypeAlias = Literal["binary", "multiclass"]

STATE_NAMES: Mapping[str, tuple[str, ...]] = {
    "binary": ("confusion", "index", "probability", "moments", "succession"),
    "multiclass": ("confusion", "class_probability", "class_scores", "succession"),
}
"""Which states each task can keep. ``succession`` is kept only where it is asked for."""

_OF_LABELS = ("confusion", "succession")


class Event(NamedTuple):
    """One validated event.

    Binary: the labels are ``1`` (positive) and ``0``, the score a float.
    Multi-class: canonical labels, the score a mapping label -> probability.
    ``None`` where the event brought none.
    """

    y_true: Label
    y_pred: Label | None
    score: Any
    weight: Weight


@dataclass(frozen=True, slots=True)
class Batch:
    """Many validated events, column by column.

    Binary: ``y_true`` and ``y_pred`` are booleans and ``score`` is one column.
    Multi-class: they are codes into ``labels``, and ``score`` has one column
    for each of ``score_labels``.
    """

    y_true: npt.NDArray[Any]
    y_pred: npt.NDArray[Any] | None
    score: FloatArray | None
    weight: IntArray | FloatArray | None
    labels: tuple[Label, ...] = (0, 1)
    score_labels: tuple[Label, ...] = ()
    named: BoolArray | None = None
    """Which cells of a multi-class ``score`` the events named; None where they named all.

    A label that an event left out has probability 0 as well, but no rank.
    """

    def __len__(self) -> int:
        return len(self.y_true)

    def take(self, rows: IntArray | BoolArray | slice) -> Batch:
        """The batch of these rows, in this order."""
        return Batch(
            self.y_true[rows],
            None if self.y_pred is None else self.y_pred[rows],
            None if self.score is None else self.score[rows],
            None if self.weight is None else self.weight[rows],
            self.labels,
            self.score_labels,
            None if self.named is None else self.named[rows],
        )

    def true_labels(self) -> npt.NDArray[Any]:
        """The true labels themselves, one for each event."""
        if self.y_true.dtype == np.bool_:
            return self.y_true
        labels = np.empty(len(self.labels), dtype=object)
        labels[:] = self.labels
        named: npt.NDArray[Any] = labels[self.y_true]
        return named

    def weighted(self, weight: IntArray | FloatArray) -> Batch:
        """The same events with other weights."""
        return replace(self, weight=weight)

    def events(self) -> Iterable[Event]:
        """The events one by one, as :meth:`Tally.update` takes them."""
        weights = [1] * len(self) if self.weight is None else self.weight.tolist()
        nothing = [None] * len(self)
        if self.y_true.dtype == np.bool_:
            true: list[Any] = self.y_true.astype(np.int64).tolist()
            predicted: list[Any] = (
                nothing if self.y_pred is None else self.y_pred.astype(np.int64).tolist()
            )
            scores: list[Any] = nothing if self.score is None else self.score.tolist()
        else:
            labels = self.labels
            true = [labels[code] for code in self.y_true.tolist()]
            predicted = (
                nothing if self.y_pred is None else [labels[code] for code in self.y_pred.tolist()]
            )
            scores = nothing if self.score is None else self._mappings()
        return map(Event, true, predicted, scores, weights)

    def _mappings(self) -> list[dict[Label, float]]:
        assert self.score is not None
        names = self.score_labels
        rows = self.score.tolist()
        if self.named is None:
            return [dict(zip(names, row, strict=True)) for row in rows]
        return [
            {name: share for name, share, has in zip(names, row, given, strict=True) if has}
            for row, given in zip(rows, self.named.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a tally keeps, and how.

    Args:
        task: ``"binary"`` or ``"multiclass"``.
        keeps: Names out of :data:`STATE_NAMES` for this task.
        bins: Reliability bins of the probability states.
        labels: The closed list of classes of a multi-class task, in its order;
            None where labels are discovered. A binary task has two classes, 0
            and 1, whether events of both occur or not.
    """

    task: Task
    keeps: frozenset[str]
    bins: int = 10
    labels: tuple[Label, ...] | None = None
    _counts: ConfusionCounts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        closed = (0, 1) if self.task == "binary" else self.labels
        object.__setattr__(self, "_counts", ConfusionCounts(closed))

    def confusion(self) -> ConfusionCounts:
        """An empty confusion of the plan's classes, whose list all of them share."""
        return self._counts.emptied()

    @classmethod
    def everything(
        cls,
        task: Task,
        bins: int = 10,
        *,
        labels: tuple[Label, ...] | None = None,
        temporal: bool = False,
    ) -> Plan:
        """All that the task's metrics ask for.

        The sums over probabilities and the score moments of a binary task are
        not among them: they are derived from the score index when a metric
        first asks.
        """
        keeps = {"confusion", "index"} if task == "binary" else set(STATE_NAMES[task])
        keeps.discard("succession")
        if temporal:
            keeps.add("succession")
        return cls(task, frozenset(keeps), bins, labels)

    @classmethod
    def for_states(
        cls,
        task: Task,
        states: Iterable[str],
        bins: int = 10,
        *,
        labels: tuple[Label, ...] | None = None,
    ) -> Plan:
        """The least that serves metrics of these states."""
        keeps = frozenset(states) & frozenset(STATE_NAMES[task])
        if "index" in keeps:
            keeps -= {"probability", "moments"}
        return cls(task, keeps, bins, labels)

    def serves(self, state: str) -> bool:
        """Whether a tally of this plan can answer for a state."""
        return state in self.keeps or (
            state in ("probability", "moments") and "index" in self.keeps
        )


class Tally:
    """The states of one set of events.

    Cost:
        One event: the sum of its states'; a read: see each metric. States that
        nobody asked for cost nothing where the score index can give them later.

    >>> tally = Tally(Plan.everything("binary"))
    >>> tally.update(1, 1, 0.8)
    >>> tally.update(0, 1, 0.6)
    >>> tally.index.twice_wins, tally.confusion.correct
    (2, 1)
    """

    __slots__ = (
        "_moments",
        "_probability",
        "class_probability",
        "class_scores",
        "confusion",
        "index",
        "plan",
        "succession",
    )

    def __init__(self, plan: Plan) -> None:
        keeps = plan.keeps
        self.plan = plan
        self.confusion = plan.confusion() if "confusion" in keeps else None
        self.index = ScoreIndex() if "index" in keeps else None
        self._probability = ProbabilitySums(plan.bins) if "probability" in keeps else None
        self._moments = ScoreMoments() if "moments" in keeps else None
        self.class_probability = (
            ClassProbabilitySums(plan.bins) if "class_probability" in keeps else None
        )
        self.class_scores = ClassScores() if "class_scores" in keeps else None
        self.succession = Succession() if "succession" in keeps else None

    @property
    def probability(self) -> ProbabilitySums | None:
        """Sums over the binary probabilities; from the first ask kept current."""
        if self._probability is None and self.index is not None:
            self._probability = ProbabilitySums.from_blocks(
                self.index.group_blocks(), self.plan.bins
            )
        return self._probability

    @property
    def moments(self) -> ScoreMoments | None:
        """Mean and variance of the scores of each class; from the first ask kept current."""
        if self._moments is None and self.index is not None:
            self._moments = ScoreMoments.from_blocks(self.index.group_blocks())
        return self._moments

    def check(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Raise what :meth:`update` of this event would raise; nothing is counted.

        Raises:
            InputError: Too many labels, or more weight than a state can hold.
        """
        if score is not None:
            if self.index is not None:
                self.index.check(y_true == 1, score, weight)
            elif self.class_scores is not None:
                self.class_scores.check(y_true, score, weight)
        # The two labels of a binary task are known beforehand.
        if y_pred is not None and self.confusion is not None and self.plan.task == "multiclass":
            self.confusion.check(y_true, y_pred, weight)

    def check_many(self, batch: Batch) -> None:
        """Raise what :meth:`update_many` of this batch would raise; nothing is counted."""
        if not len(batch):
            return
        if batch.score is not None and self.index is not None:
            self.index.check_many(batch.y_true, batch.score, batch.weight)
        elif batch.score is not None and self.class_scores is not None:
            named = batch.score_labels
            if batch.named is not None:
                held = np.flatnonzero(np.logical_or.reduce(batch.named)).tolist()
                named = tuple(named[column] for column in held)
            self.class_scores.check_codes(
                batch.y_true, batch.labels, batch.score, named, batch.weight
            )
        if (
            batch.y_pred is not None
            and self.confusion is not None
            and self.plan.task == "multiclass"
        ):
            self.confusion.check_codes(
                LabelColumn(list(batch.labels), batch.y_true),
                LabelColumn(list(batch.labels), batch.y_pred),
            )

    def update(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Count one validated event (the fields of :class:`Event`).

        Raises:
            InputError: As :meth:`check`; nothing is counted.
        """
        if score is not None:
            index = self.index
            if index is not None:
                # The one state that can refuse a binary event, hence the first. A bool
                # takes its short way, the label 1 or 0 does not.
                index.update(y_true == 1, score, weight)
            elif self.plan.task == "multiclass":
                # Several states can refuse it.
                self.check(y_true, y_pred, score, weight)
                if self.class_scores is not None:
                    self.class_scores.update(y_true, score, weight)
            if self._probability is not None:
                self._probability.update(y_true == 1, score, weight)
            if self._moments is not None:
                self._moments.update(y_true == 1, score, weight)
            if index is None and self.class_probability is not None:
                self.class_probability.update(y_true, score, weight, y_pred)
        if y_pred is not None and self.confusion is not None:
            self.confusion.update(y_true, y_pred, weight)
        if self.succession is not None:
            self.succession.update(y_true)

    def revert(self, y_true: Any, y_pred: Any, score: Any = None, weight: Any = 1) -> None:
        """Undo exactly one earlier event, or raise and change nothing.

        Raises:
            InputError: The event was never counted, its weight is not whole, or
                this tally knows the order of its events (``succession``), of
                which none can be taken out of the middle.
        """
        if self.succession is not None:
            raise InputError(
                "revert",
                expected="an evaluator that does not keep the order of events",
                got="one that keeps kappa_temporal",
                remedy="leave kappa_temporal out of metrics=",
            )
        self._remove(y_true, y_pred, score, weight)

    def evict(self, oldest: tuple[Any, ...], following: tuple[Any, ...] | None) -> None:
        """Take the oldest event, known to be inside, out of a window.

        ``following`` came right after it; None where no other did.
        """
        y_true, y_pred, score, weight = oldest
        if y_pred is not None and self.confusion is not None:
            self.confusion.revert(y_true, y_pred, weight)
        if score is not None:
            if self.index is not None:
                self.index.revert(y_true == 1, score, weight)
            if self._probability is not None:
                self._probability.revert(y_true == 1, score, weight)
            if self._moments is not None:
                self._moments.revert(y_true == 1, score, weight)
            if self.class_probability is not None:
                self.class_probability.revert(y_true, score, weight, y_pred)
            if self.class_scores is not None:
                self.class_scores.revert(y_true, score, weight)
        if self.succession is not None:
            self.succession.forget_oldest(y_true, None if following is None else following[0])

    def replace(self, oldest: tuple[Any, ...], event: tuple[Any, ...]) -> None:
        """:meth:`update` with an event and :meth:`evict` the oldest, in one go.

        Not for a tally that knows the order of its events.
        """
        y_true, y_pred, score, weight = event
        old_true, old_pred, old_score, old_weight = oldest
        index = self.index
        if score is None and old_score is None:
            pass
        elif (
            index is not None
            and score is not None
            and old_score is not None
            and self._probability is None
            and self._moments is None
        ):
            index.update(y_true == 1, score, weight)
            index.revert(old_true == 1, old_score, old_weight)
        else:
            self.update(y_true, y_pred, score, weight)
            self.evict(oldest, None)
            return
        counts = self.confusion
        # Of labels, what comes is often what goes.
        if counts is not None and not (
            y_true == old_true and y_pred == old_pred and weight == old_weight
        ):
            counts.update(y_true, y_pred, weight)
            counts.revert(old_true, old_pred, old_weight)

    def take_out(self, event: tuple[Any, ...], others: Iterable[Label]) -> None:
        """:meth:`revert` where the true labels of all other events are known in their order."""
        self._remove(*event)
        if self.succession is not None:
            self.succession = Succession()
            for label in others:
                self.succession.update(label)

    def _remove(self, y_true: Any, y_pred: Any, score: Any, weight: Any) -> None:
        done: list[Any] = []
        try:
            if y_pred is not None and self.confusion is not None:
                self.confusion.revert(y_true, y_pred, weight)
                done.append((self.confusion, (y_true, y_pred, weight)))
            if score is not None:
                for state in (
                    self.index,
                    self._probability,
                    self._moments,
                    self.class_probability,
                    self.class_scores,
                ):
                    if state is not None:
                        of_labels = () if state is not self.class_probability else (y_pred,)
                        state.revert(y_true, score, weight, *of_labels)
                        done.append((state, (y_true, score, weight, *of_labels)))
        except InputError:
            # Another state refused: the event as a whole never came.
            for state, event in reversed(done):
                state.update(*event)
            raise

    def update_many(self, batch: Batch) -> None:
        """Count a validated batch; the same bits as its events one by one."""
        if not len(batch):
            return
        binary = self.plan.task == "binary"
        if not binary and batch.score is not None:
            self.check_many(batch)
        if batch.score is not None:
            if binary:
                for state in (self.index, self._probability, self._moments):
                    if state is not None:
                        state.update_many(batch.y_true, batch.score, batch.weight)
            else:
                self._add_probabilities(batch)
        if batch.y_pred is not None and self.confusion is not None:
            if binary:
                self.confusion.update_many(batch.y_true, batch.y_pred, batch.weight)
            else:
                labels = list(batch.labels)
                self.confusion.add_codes(
                    LabelColumn(labels, batch.y_true),
                    LabelColumn(labels, batch.y_pred),
                    batch.weight,
                )
        if self.succession is not None:
            self.succession.update_many(batch.true_labels())

    def _add_probabilities(self, batch: Batch) -> None:
        assert batch.score is not None
        scores, sums = self.class_scores, self.class_probability
        if batch.named is None:
            given = (batch.y_true, batch.labels, batch.score, batch.score_labels, batch.weight)
            if scores is not None:
                scores.add_codes(*given)
            if sums is not None:
                sums.add_codes(*given, batch.y_pred)
            return
        for event in batch.events():
            if scores is not None:
                scores.add(event.y_true, event.score, event.weight)
            if sums is not None:
                sums.add(event.y_true, event.score, event.weight, event.y_pred)

    def merge(self, other: Tally) -> None:
        """Add another tally's events; the other is unchanged."""
        if self.plan != other.plan:
            raise StateError(
                f"tallies of different plans cannot be merged: {self.plan} and {other.plan}"
            )
        for name in self.plan.keeps:
            getattr(self, name).merge(getattr(other, name))
        self._forget_derived()

    def subtract(self, other: Tally) -> None:
        """Take out all events of another that was merged in before; both :attr:`exact`.

        The same bits as a merge of what is left.
        """
        for name in self.plan.keeps:
            getattr(self, name).subtract(getattr(other, name))
        self._forget_derived()

    def _forget_derived(self) -> None:
        if "probability" not in self.plan.keeps:
            self._probability = None
        if "moments" not in self.plan.keeps:
            self._moments = None

    @property
    def exact(self) -> bool:
        """Whether every state holds integers only, and none knows the order of events."""
        return self.succession is None and all(
            getattr(self, name).exact for name in self.plan.keeps
        )

    def copy(self) -> Tally:
        """An independent tally of the same events."""
        new = Tally(self.plan)
        new.merge(self)
        return new

    @classmethod
    def later(cls, plan: Plan, make: Callable[[str], Any]) -> Tally:
        """A tally for reading, whose states are made when they are first asked for.

        Args:
            plan: What it keeps.
            make: From the name of a state to the state.
        """
        new = _LaterTally.__new__(_LaterTally)
        new.plan = plan
        new._make = make
        return new

    def support(self, state: str) -> Weight:
        """The weight of the events that a state has seen."""
        if state == "confusion":
            return 0 if self.confusion is None else self.confusion.total
        if state in ("index", "moments", "probability") and self.index is not None:
            return self.index.positives + self.index.negatives
        if state == "moments":
            return (
                0
                if self._moments is None
                else (self._moments.count(True) + self._moments.count(False))
            )
        if state == "probability":
            return (
                0
                if self._probability is None
                else (self._probability.weight + self._probability.outside)
            )
        if state == "class_scores":
            return 0 if self.class_scores is None else self.class_scores.total
        if state == "class_probability":
            return 0 if self.class_probability is None else self.class_probability.weight
        return 0 if self.succession is None else self.succession.events

    @property
    def has_labels(self) -> bool:
        """Whether an event with a predicted label is in it."""
        return bool(self.support("confusion"))

    @property
    def has_scores(self) -> bool:
        """Whether an event with a score is in it."""
        return any(
            self.support(state) for state in STATE_NAMES[self.plan.task] if state not in _OF_LABELS
        )

    def labels(self) -> list[Label]:
        """Every label that a state knows, sorted."""
        known: set[Label] = set()
        for state in (self.confusion, self.class_probability, self.class_scores):
            known.update(getattr(state, "labels", ()))
        return sorted(known)

    def to_state(self) -> dict[str, Any]:
        """Plain data of every state that the plan keeps, canonical."""
        return {name: self.form(name) for name in sorted(self.plan.keeps)}

    def form(self, name: str) -> dict[str, Any]:
        """Plain data of one state that the plan keeps, for :meth:`restored`."""
        if name == "confusion" and self.confusion is not None:
            # The plan holds the closed list of classes, once for all tallies.
            return self.confusion.to_state(occurring=True)
        form: dict[str, Any] = getattr(self, name).to_state()
        return form

    @staticmethod
    def restored(plan: Plan, name: str, kind: type[Any], form: object) -> Any:
        """The state that :meth:`form` wrote; raises StateError."""
        return plan.confusion().restored(form) if name == "confusion" else kind.from_state(form)

    @classmethod
    def from_state(cls, data: dict[str, Any], plan: Plan) -> Tally:
        """The tally that :meth:`to_state` wrote.

        Raises:
            StateError: The data is not that of a tally of this plan.
        """
        if not isinstance(data, dict) or set(data) != plan.keeps:
            found = sorted(map(str, data)) if isinstance(data, dict) else type(data).__name__
            raise StateError(f"tally: expected the states {sorted(plan.keeps)}, got {found}")
        new = cls(plan)
        for name in plan.keeps:
            state = cls.restored(plan, name, type(getattr(new, name)), data[name])
            if getattr(state, "bins", plan.bins) != plan.bins:
                raise StateError(f"tally.{name}: expected {plan.bins} bins, got {state.bins}")
            setattr(new, "_" + name if name in ("probability", "moments") else name, state)
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        return self.plan == other.plan and all(
            getattr(self, name) == getattr(other, name) for name in self.plan.keeps
        )

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        for name in self.plan.keeps:
            getattr(self, name)._check()
        # Float sums depend on the order of their terms.
        if self.index is not None and self.index.exact:
            if self._probability is not None:
                fresh = ProbabilitySums.from_groups(self.index.groups(), self.plan.bins)
                assert self._probability == fresh
            if self._moments is not None:
                assert self._moments == ScoreMoments.from_groups(self.index.groups())


class _LaterTally(Tally):
    """What :meth:`Tally.later` makes.

    A class of its own only because with a ``__getattr__`` Python takes four
    times as long for every attribute, those that are set included.
    """

    __slots__ = ("_make",)

    _make: Callable[[str], Any]

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """A state that was put off; Python calls this for unset slots only."""
            if name == "_make" or name not in Tally.__slots__:
                raise AttributeError(name)
            state = name.removeprefix("_")
            value = self._make(state) if state in self.plan.keeps else None
            setattr(self, name, value)
            return value
