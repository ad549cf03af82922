"""Registry of states: the one list of them that the rest of the package reads.

A new state is one module and one row of :data:`STATES`. Its class keeps a
mergeable sum over events (:class:`~streameval.states.sums.sum_vector.SumVector` has what
such sums have in common) and has, for a set of states
(:class:`~streameval.states.state_set.StateSet`), these methods beside its own reads.
A method that raises changes nothing.

==============  ==============================================================
one event       ``update`` and ``revert`` with the arguments of
                :attr:`StateRow.input`; ``revert`` removes an event exactly
a batch         ``update_many`` with columns of the same arguments; multi-class
                scores: with an :class:`~streameval.events.event.EventBatch`;
                multi-class labels: as ``LabelColumn``. The same bits as one by one
errors          ``check`` and ``check_many``: raise the error
                that counting would raise; where :attr:`StateRow.refuses`
other states    ``merge`` adds another's events, which is unchanged, or so many
                ``times``: −1 removes those of one that was merged, both exact
written form    ``to_state``: plain data, equal content gives equal data;
                ``from_state``: that state, or StateError;
                ``exact``: whether all weights are integers;
                ``==``; ``_check`` asserts every invariant
==============  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from streameval.events.values import Weight
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from streameval.states.joint import JointCounts
from streameval.states.joint_losses import JointLosses
from streameval.states.label_persistence import LabelPersistence
from streameval.states.loss_squares import LossSquares
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.states.score_index import ScoreIndex
from streameval.states.sums import weighted_sum
from streameval.states.sums.sum_vector import Form, Parts
from streameval.states.weight_squares import WeightSquares

_BINARY = frozenset({"binary"})
_MULTICLASS = frozenset({"multiclass"})
_NO_TASK: frozenset[str] = frozenset()


def _written(state: Any) -> Form:
    form: Form = state.to_state()
    return form


@dataclass(frozen=True, slots=True)
class StateRow:
    """A state's row: its class, the events that it counts, and how it is made and written.

    Functions that take a ``plan`` get the :class:`~streameval.states.state_set.StatePlan` of
    the set of states.
    """

    name: str
    """The attribute of a set of states, and the key in state files."""
    types: tuple[type, ...]
    """The class; further ones whose objects serve as well."""
    tasks: frozenset[str]
    """Names of :data:`~streameval.tasks.registry.TASKS`."""
    input: Literal["labels", "scores", "order"]
    """Which events it counts, and with which arguments.

    - ``labels``: those with a prediction, by default as ``(y_true, y_pred, weight)``;
    - ``scores``: those with a score, by default as ``(y_true, score, weight, y_pred)``; the
      methods of :class:`~streameval.tasks.task.Task` have what a task gives;
    - ``order``: the true labels of all, as ``(y_true)``. The state depends on their
      order, is kept on request only, and reverts nothing; a sliding window removes
      its first event by ``forget_oldest(y_true, following)``.
    """
    requires: str
    """What an event must bring, in the words of an error."""
    make: Callable[[Any], Any]
    """From the plan to an empty state."""
    support: Callable[[Any], Weight]
    """The weight of the events that a state has counted."""
    weighted_sum: Callable[[Parts, int], Form] | None = None
    """Written form of several states' events, scaled as by ``SumVector.scaled`` or by
    :mod:`~streameval.states.sums.weighted_sum`.

    None only for a state that depends on the order of events.
    """
    source: str | None = None
    """A state that this one can be derived from, and then is, at the first read."""
    derive: Callable[[Any, Any], Any] = lambda source, plan: None
    """From the source's state and the plan to this state."""
    refuses: frozenset[str] = _NO_TASK
    """Tasks in which it may refuse a validated event: too many labels, too much weight.

    One that refuses binary scores stands before all others of them.
    """
    kept_for_intervals_of: frozenset[str] = frozenset()
    """States beside which it is kept where intervals were requested, and only then."""
    counts_some: bool = False
    """Whether it may count fewer events than another of its feed, whatever the weights."""
    of_probabilities: bool = False
    """Whether it counts nothing where multi-class scores are no probabilities: not kept then."""
    write: Callable[[Any], Form] = _written
    """The written form inside a set of states."""
    read: Callable[[Any, object], Any] | None = None
    """From the plan and that form to the state, or StateError; None is ``from_state``."""

    def restored(self, plan: Any, form: object) -> Any:
        """The state that :attr:`write` wrote; raises StateError."""
        if self.read is not None:
            return self.read(plan, form)
        return self.types[0].from_state(form)  # type: ignore[attr-defined]

    @property
    def ordered(self) -> bool:
        """Whether the state depends on the order of events."""
        return self.input == "order"


_LABELS = "labels: pass y_pred, a score= or proba= with each event"
_SCORES = "scores: pass score= (or proba=) with each event"
_PROBABILITIES = "probabilities: pass proba={label: probability} with each event"

STATES: dict[str, StateRow] = {
    row.name: row
    for row in (
        StateRow(
            name="confusion",
            types=(ConfusionCounts,),
            tasks=_BINARY | _MULTICLASS,
            input="labels",
            requires=_LABELS,
            make=lambda plan: plan.confusion(),
            support=lambda counts: counts.total,
            weighted_sum=weighted_sum.confusion,
            # The two labels of a binary task are known beforehand.
            refuses=_MULTICLASS,
            # The plan holds the closed list of classes, once for all sets of states.
            write=lambda counts: counts.to_state(occurring=True),
            read=lambda plan, form: plan.confusion().restored(form),
        ),
        StateRow(
            name="index",
            types=(ScoreIndex, ReferenceScoreIndex),
            tasks=_BINARY,
            input="scores",
            requires=_SCORES,
            make=lambda plan: ScoreIndex(max_scores=plan.max_scores),
            support=lambda index: index.positives + index.negatives,
            weighted_sum=weighted_sum.index,
            refuses=_BINARY,
        ),
        StateRow(
            name="probability",
            types=(ProbabilitySums,),
            tasks=_BINARY,
            input="scores",
            requires=_SCORES,
            make=lambda plan: ProbabilitySums(plan.bins),
            support=lambda sums: sums.weight + sums.outside,
            weighted_sum=ProbabilitySums.scaled,
            source="index",
            derive=lambda index, plan: ProbabilitySums.from_blocks(index.group_blocks(), plan.bins),
        ),
        StateRow(
            name="moments",
            types=(ScoreMoments,),
            tasks=_BINARY,
            input="scores",
            requires=_SCORES,
            make=lambda plan: ScoreMoments(),
            support=lambda moments: moments.count(True) + moments.count(False),
            weighted_sum=ScoreMoments.scaled,
            source="index",
            derive=lambda index, plan: ScoreMoments.from_blocks(index.group_blocks()),
        ),
        StateRow(
            name="class_probability",
            types=(ClassProbabilitySums,),
            tasks=_MULTICLASS,
            input="scores",
            requires=_PROBABILITIES,
            make=lambda plan: ClassProbabilitySums(plan.bins, probabilities=plan.probabilities),
            support=lambda sums: sums.weight,
            weighted_sum=ClassProbabilitySums.scaled,
        ),
        StateRow(
            name="class_scores",
            types=(ClassScores,),
            tasks=_MULTICLASS,
            input="scores",
            requires=_PROBABILITIES,
            make=lambda plan: ClassScores(
                max_scores=plan.max_scores,
                probabilities=plan.probabilities,
                declared=plan.labels,
            ),
            support=lambda scores: scores.total,
            weighted_sum=weighted_sum.class_scores,
            refuses=_MULTICLASS,
            read=lambda plan, form: ClassScores.from_state(form, plan.labels),
        ),
        StateRow(
            name="loss_squares",
            types=(LossSquares,),
            tasks=_BINARY | _MULTICLASS,
            input="scores",
            requires=_SCORES,
            make=lambda plan: LossSquares(plan.bins),
            support=lambda squares: squares.weight,
            weighted_sum=LossSquares.scaled,
            source="index",
            derive=lambda index, plan: LossSquares.from_blocks(index.group_blocks(), plan.bins),
            kept_for_intervals_of=frozenset({"probability", "class_probability"}),
            of_probabilities=True,
        ),
        StateRow(
            name="label_weights",
            types=(WeightSquares,),
            tasks=_BINARY | _MULTICLASS,
            input="labels",
            requires=_LABELS,
            make=lambda plan: WeightSquares(),
            support=lambda weights: weights.total,
            weighted_sum=WeightSquares.scaled,
            kept_for_intervals_of=frozenset({"confusion"}),
        ),
        StateRow(
            name="score_weights",
            types=(WeightSquares,),
            tasks=_BINARY | _MULTICLASS,
            input="scores",
            requires=_SCORES,
            make=lambda plan: WeightSquares(),
            support=lambda weights: weights.total,
            weighted_sum=WeightSquares.scaled,
            kept_for_intervals_of=frozenset(
                {"index", "probability", "moments", "class_probability", "class_scores"}
            ),
        ),
        StateRow(
            name="succession",
            types=(LabelPersistence,),
            tasks=_BINARY | _MULTICLASS,
            input="order",
            requires="labels",
            make=lambda plan: LabelPersistence(),
            support=lambda succession: succession.events,
        ),
        StateRow(
            name="joint",
            types=(JointCounts,),
            tasks=frozenset({"comparison"}),
            input="scores",
            requires="predictions of every model",
            make=lambda plan: JointCounts(),
            support=lambda counts: counts.total,
            weighted_sum=JointCounts.scaled,
        ),
        StateRow(
            name="joint_losses",
            types=(JointLosses,),
            tasks=frozenset({"comparison"}),
            input="scores",
            requires="probabilities of every model",
            make=lambda plan: JointLosses(),
            support=lambda losses: losses.weight,
            weighted_sum=JointLosses.scaled,
            counts_some=True,
        ),
    )
}
"""From the name of each state to its row."""


def states_of(task: str, names: Iterable[str]) -> tuple[StateRow, ...]:
    """The rows of those of some states that a task can keep, in the order of :data:`STATES`.

    >>> [row.name for row in states_of("multiclass", ["class_scores", "index", "confusion"])]
    ['confusion', 'class_scores']
    """
    wanted = set(names)
    return tuple(row for row in STATES.values() if row.name in wanted and task in row.tasks)
