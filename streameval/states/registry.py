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
from operator import attrgetter, methodcaller
from typing import Any, Literal

from streameval.events.values import Weight
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from streameval.states.error_moments import ErrorMoments
from streameval.states.error_ratios import RatioSquares, RatioSums
from streameval.states.error_residuals import ResidualIndex
from streameval.states.error_sums import ErrorSums
from streameval.states.joint import JointCounts
from streameval.states.joint_errors import JointErrors
from streameval.states.joint_losses import JointLosses
from streameval.states.joint_sets import JointSets
from streameval.states.label_counts import LabelCounts
from streameval.states.label_losses import LabelLosses
from streameval.states.label_pairs import LabelPairs
from streameval.states.label_persistence import LabelPersistence
from streameval.states.label_ranking import LabelRanking
from streameval.states.label_scores import LabelScores
from streameval.states.label_sets import LabelSetCounts
from streameval.states.label_squares import LabelSquares
from streameval.states.loss_squares import LossSquares
from streameval.states.moments import ScoreMoments
from streameval.states.prediction_histogram import PredictionHistogram
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.states.score_index import ScoreIndex
from streameval.states.sums import weighted_sum
from streameval.states.sums.sum_vector import Form, Parts
from streameval.states.weight_squares import WeightSquares

_BINARY = frozenset({"binary"})
_MULTICLASS = frozenset({"multiclass"})
_COMPARISON = frozenset({"comparison"})
_SET_COMPARISON = frozenset({"set_comparison"})
_NUMBER_COMPARISON = frozenset({"number_comparison"})
_PREDICTIONS = frozenset({"predictions"})
_CLASS_PREDICTIONS = frozenset({"class_predictions"})
_TWO_CLASSES = _BINARY | _PREDICTIONS
_CLASSES = _MULTICLASS | _CLASS_PREDICTIONS
_MULTILABEL = frozenset({"multilabel"})
_REGRESSION = frozenset({"regression"})
_NO_TASK: frozenset[str] = frozenset()


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
    requested_only: bool = False
    """Whether it is kept only where ``metrics=`` names a metric that reads it."""
    kept_beside: frozenset[str] = frozenset()
    """States beside which it is kept, for a curve: no metric reads it."""
    counts_some: bool = False
    """Whether it may count fewer events than another of its feed, whatever the weights."""
    of_probabilities: bool = False
    """Whether it counts nothing where multi-class scores are no probabilities: not kept then."""
    kernel: str | None = None
    """What ``native_fast_path`` does with the state; None: it calls its methods."""
    write: Callable[[Any], Form] = methodcaller("to_state")
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
_NUMBERS = "predicted numbers: pass y_pred with each event"
_LABEL_SCORES = "scores: pass score={label: score} (or proba=) with each event"
_PROBABILITIES = "probabilities: pass proba={label: probability} with each event"


def _row(name: str, kind: Any, tasks: frozenset[str], requires: str, **columns: Any) -> StateRow:
    """A row; without further columns of a state on ``SumVector`` that has no settings."""
    usual: dict[str, Any] = {
        "types": (kind,),
        "input": "scores",
        "make": lambda plan: kind(),
        "support": attrgetter("weight"),
        "weighted_sum": getattr(kind, "scaled", None),
    }
    return StateRow(name, tasks=tasks, requires=requires, **{**usual, **columns})


STATES: dict[str, StateRow] = {
    row.name: row
    for row in (
        _row(
            "confusion",
            ConfusionCounts,
            _TWO_CLASSES | _CLASSES,
            _LABELS,
            input="labels",
            kernel="confusion",
            make=lambda plan: plan.confusion(),
            support=attrgetter("total"),
            weighted_sum=weighted_sum.confusion,
            # The two labels of a binary task are known beforehand.
            refuses=_CLASSES,
            # The plan holds the closed list of classes, once for all sets of states.
            write=lambda counts: counts.to_state(occurring=True),
            read=lambda plan, form: plan.confusion().restored(form),
        ),
        _row(
            "index",
            ScoreIndex,
            _TWO_CLASSES,
            _SCORES,
            types=(ScoreIndex, ReferenceScoreIndex),
            kernel="index",
            make=lambda plan: ScoreIndex(max_scores=plan.max_scores),
            support=lambda index: index.positives + index.negatives,
            weighted_sum=weighted_sum.index,
            refuses=_TWO_CLASSES,
        ),
        _row(
            "probability",
            ProbabilitySums,
            _BINARY,
            _SCORES,
            kernel="losses",
            make=lambda plan: ProbabilitySums(plan.bins),
            support=lambda sums: sums.weight + sums.outside,
            source="index",
            derive=lambda index, plan: ProbabilitySums.from_blocks(index.group_blocks(), plan.bins),
        ),
        _row(
            "moments",
            ScoreMoments,
            _TWO_CLASSES,
            _SCORES,
            kernel="queued",
            source="index",
            derive=lambda index, plan: ScoreMoments.from_blocks(index.group_blocks()),
        ),
        _row(
            "class_probability",
            ClassProbabilitySums,
            _CLASSES,
            _PROBABILITIES,
            kernel="sums",
            make=lambda plan: ClassProbabilitySums(plan.bins, probabilities=plan.probabilities),
        ),
        _row(
            "class_scores",
            ClassScores,
            _CLASSES,
            _PROBABILITIES,
            kernel="scores",
            make=lambda plan: ClassScores(
                max_scores=plan.max_scores,
                probabilities=plan.probabilities,
                declared=plan.labels,
            ),
            support=attrgetter("total"),
            weighted_sum=weighted_sum.class_scores,
            refuses=_CLASSES,
            read=lambda plan, form: ClassScores.from_state(form, plan.labels),
        ),
        _row(
            "loss_squares",
            LossSquares,
            _BINARY | _MULTICLASS,
            _SCORES,
            kernel="queued",
            make=lambda plan: LossSquares(plan.bins),
            source="index",
            derive=lambda index, plan: LossSquares.from_blocks(index.group_blocks(), plan.bins),
            kept_for_intervals_of=frozenset({"probability", "class_probability"}),
            of_probabilities=True,
        ),
        _row(
            "label_weights",
            WeightSquares,
            _TWO_CLASSES | _CLASSES | _MULTILABEL | _REGRESSION,
            _LABELS,
            input="labels",
            kernel="weights",
            kept_for_intervals_of=frozenset(
                {
                    *("confusion", "label_counts", "label_sets"),
                    *("errors", "error_ratios", "residuals"),
                }
            ),
        ),
        _row(
            "score_weights",
            WeightSquares,
            _TWO_CLASSES | _CLASSES | _MULTILABEL,
            _SCORES,
            kernel="weights",
            kept_for_intervals_of=frozenset(
                {
                    "index",
                    "probability",
                    "moments",
                    "class_probability",
                    "class_scores",
                    "label_scores",
                    "label_losses",
                    "label_ranking",
                }
            ),
        ),
        _row(
            "succession",
            LabelPersistence,
            _BINARY | _MULTICLASS,
            "labels",
            input="order",
            kernel="run",
            support=attrgetter("events"),
        ),
        _row("errors", ErrorSums, _REGRESSION, _NUMBERS, input="labels", kernel="errors"),
        _row(
            "label_counts",
            LabelCounts,
            _MULTILABEL,
            _LABELS,
            input="labels",
            kernel="label_counts",
            make=lambda plan: LabelCounts.of_closed(plan.labels),
            # The plan holds the closed list of labels, as of a confusion.
            write=lambda counts: counts.to_state(occurring=True),
            read=lambda plan, form: LabelCounts.from_state(form, plan.labels),
        ),
        _row(
            "label_sets",
            LabelSetCounts,
            _MULTILABEL,
            _LABELS,
            input="labels",
            kernel="label_sets",
        ),
        _row(
            "label_pairs",
            LabelPairs,
            _MULTILABEL,
            _LABELS,
            input="labels",
            kept_for_intervals_of=frozenset({"label_counts"}),
        ),
        _row("error_ratios", RatioSums, _REGRESSION, _NUMBERS, input="labels"),
        _row(
            "residuals",
            ResidualIndex,
            _REGRESSION,
            _NUMBERS,
            input="labels",
            make=ResidualIndex.of_plan,
            weighted_sum=weighted_sum.index,
            refuses=_REGRESSION,
            requested_only=True,
        ),
        _row(
            "prediction_histogram",
            PredictionHistogram,
            _REGRESSION,
            _NUMBERS,
            input="labels",
            requested_only=True,
            kept_beside=frozenset({"residuals"}),
        ),
        _row(
            "error_moments",
            ErrorMoments,
            _REGRESSION,
            _NUMBERS,
            input="labels",
            kept_for_intervals_of=frozenset({"errors"}),
        ),
        _row(
            "error_ratio_squares",
            RatioSquares,
            _REGRESSION,
            _NUMBERS,
            input="labels",
            kept_for_intervals_of=frozenset({"error_ratios"}),
        ),
        _row(
            "label_scores",
            LabelScores,
            _MULTILABEL,
            _LABEL_SCORES,
            make=lambda plan: LabelScores(plan.labels, max_scores=plan.max_scores),
            refuses=_MULTILABEL,
            read=lambda plan, form: LabelScores.from_state(form, plan.labels),
        ),
        _row(
            "label_losses",
            LabelLosses,
            _MULTILABEL,
            _LABEL_SCORES,
            make=lambda plan: LabelLosses(plan.labels, bins=plan.bins),
            source="label_scores",
            derive=lambda scores, plan: LabelLosses.from_scores(scores, plan.bins),
            refuses=_MULTILABEL,
            read=lambda plan, form: LabelLosses.from_state(form, plan.labels),
        ),
        _row(
            "label_ranking",
            LabelRanking,
            _MULTILABEL,
            _LABEL_SCORES,
            make=lambda plan: LabelRanking(plan.labels),
            read=lambda plan, form: LabelRanking.from_state(form, plan.labels),
        ),
        _row(
            "label_squares",
            LabelSquares,
            _MULTILABEL,
            _LABEL_SCORES,
            make=lambda plan: LabelSquares(plan.labels),
            read=lambda plan, form: LabelSquares.from_state(form, plan.labels),
            kept_for_intervals_of=frozenset({"label_ranking", "label_losses"}),
        ),
        _row("joint", JointCounts, _COMPARISON, "predictions of every model"),
        _row(
            "joint_losses",
            JointLosses,
            _COMPARISON,
            "probabilities of every model",
            counts_some=True,
        ),
        _row("joint_sets", JointSets, _SET_COMPARISON, "sets of labels of every model"),
        _row("joint_errors", JointErrors, _NUMBER_COMPARISON, "predicted numbers of every model"),
    )
}
"""From the name of each state to its row."""


def states_of(task: str, names: Iterable[str]) -> tuple[StateRow, ...]:
    """The rows of those of some states that a task can keep, in the order of :data:`STATES`."""
    wanted = set(names)
    return tuple(row for row in STATES.values() if row.name in wanted and task in row.tasks)
