"""The laws that every metric keeps, but for those of :data:`BREAKS`, and the states of events.

A row's default parameters are meant.

    order      the events in another order give the same bits
    batch      so do these at once
    merge      the merged states of two parts give the same bits as the whole
    scale      every weight times three gives the same value (of a confusion, the same bits)
    fraction   every weight times 0.375 gives nearly the same value
    huge       every weight times 2**50 gives the same bits
"""

from __future__ import annotations

from streameval.metrics import ROWS
from streameval.metrics.metric import Metric
from streameval.metrics.registry import task_metrics
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from streameval.states.label_counts import LabelCounts
from streameval.states.label_losses import LabelLosses
from streameval.states.label_persistence import LabelPersistence
from streameval.states.label_ranking import LabelRanking
from streameval.states.label_scores import LabelScores
from streameval.states.label_sets import LabelSetCounts
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.score_index import ScoreIndex
from streameval.states.state_set import StatePlan, StateSet
from streameval.tasks.input import InputOptions
from streameval.tasks.multilabel import LabelSetInput
from streameval.tasks.registry import TASKS
from tests.support.class_batch import class_batch

LAWS = ("order", "batch", "merge", "scale", "fraction", "huge")

_OF_LABELS = frozenset({"confusion", "label_counts", "label_sets"})
"""States of predicted labels."""

_FACTORS = {"scale": 3, "fraction": 0.375, "huge": 2**50}

BREAKS = {
    # It depends on the label before each event.
    "kappa_temporal": {"order", "batch", "merge"},
    # A weight itself; and bins whose edges are places among whole events.
    **dict.fromkeys(("support", "quantile_calibration_error"), frozenset(_FACTORS)),
}
"""From metrics to the laws that they do not keep."""


def cases() -> list[tuple[Metric, str]]:
    """Every row with every task it is for."""
    return [(row, task) for row in ROWS for task in sorted(row.tasks) if TASKS[task].evaluated]


# Events: binary (true 0 or 1, predicted, score, weight); multi-class (true,
# predicted, {label: probability}, weight); multi-label (true set, predicted set, {label:
# probability}, weight).


def _label_states(events, at_once: bool) -> dict[str, object]:
    states: dict[str, object] = {"label_counts": LabelCounts(), "label_sets": LabelSetCounts()}
    scored = {
        "label_scores": LabelScores(),
        "label_losses": LabelLosses(),
        "label_ranking": LabelRanking(),
    }
    if at_once and events:
        true, predicted, scores, weights = map(list, zip(*events, strict=True))
        batch = LabelSetInput(None).batch(true, predicted, score=scores, weight=weights)
        for state in (*states.values(), *scored.values()):
            state.update_many(batch)
    for y_true, y_pred, score, weight in () if at_once else events:
        for state in states.values():
            state.update(y_true, y_pred, weight)
        for state in scored.values():
            state.update(y_true, score, weight)
    return {**states, **scored}


def states_of(task, events, *, at_once: bool = False) -> dict[str, object]:
    """Every state of a task, fed one by one, or what depends on no order at once."""
    if task == "multilabel":
        return _label_states(events, at_once)
    if task == "regression":
        return _states_of_numbers(events, at_once=at_once)
    confusion, succession = ConfusionCounts(), LabelPersistence()
    scored: dict[str, object] = (
        {"index": ScoreIndex(), "probability": ProbabilitySums(), "moments": ScoreMoments()}
        if task == "binary"
        else {"class_probability": ClassProbabilitySums(), "class_scores": ClassScores()}
    )
    if at_once and events:
        true, predicted, scores, weights = map(list, zip(*events, strict=True))
        confusion.update_many(true, predicted, weights)
        if task == "binary":
            columns = list(map(bool, true)), scores, weights
        else:
            matrix = [[row.get(label, 0.0) for label in "abc"] for row in scores]
            columns = (class_batch(true, matrix, list("abc"), weights),)
        for state in scored.values():
            state.update_many(*columns)
    for y_true, y_pred, score, weight in () if at_once else events:
        confusion.update(y_true, y_pred, weight)
        succession.update(y_true)
        for state in scored.values():
            state.update(bool(y_true) if task == "binary" else y_true, score, weight)
    return {"confusion": confusion, "succession": succession, **scored}


def _states_of_numbers(events, *, at_once: bool) -> dict[str, object]:
    """The states of events (true, predicted, None, weight)."""
    plan = StatePlan.for_states("regression", (row.state for row in task_metrics("regression")))
    states = StateSet(plan)
    source = TASKS["regression"].input(InputOptions())
    if at_once and events:
        true, predicted, _, weights = map(list, zip(*events, strict=True))
        states.update_many(source.batch(true, predicted, None, None, weights))
    for event in () if at_once else events:
        states.update(*source.event(*event[:3], None, event[3]))
    return {name: getattr(states, name) for name in plan.stored}


def changed(law, events, shuffled):
    """The events as a law changes them; `shuffled` holds the same in another order."""
    if law in _FACTORS:
        return [(*event, _FACTORS[law] * weight) for *event, weight in events]
    return shuffled


def states_after(law, task, events, shuffled):
    if law == "batch":
        return states_of(task, shuffled, at_once=True)
    if law != "merge":
        return states_of(task, changed(law, events, shuffled))
    half = len(events) // 2
    parts, rest = states_of(task, events[:half]), states_of(task, events[half:])
    for name, state in parts.items():
        state.merge(rest[name])
    return parts


def tolerance(law: str, row: Metric) -> float:
    """How near the value has to be; 0 where the same bits are promised."""
    if law in ("order", "batch", "merge", "huge") or (law == "scale" and row.state in _OF_LABELS):
        return 0.0
    return 1e-9 if law == "fraction" else 1e-12


def read(row: Metric, task, states, **options) -> float:
    """The row's value, the positive class being 1."""
    positive = 1 if task == "binary" else None
    return row.bind(positive=positive, **options)(*(states[name] for name in row.states))
