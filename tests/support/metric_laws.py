"""Which invariance holds for which metric: the table, and what each law means.

A row's default parameters are meant. A law that a metric's line does not name
is not promised.

    order      the events in another order, also at once, give the same bits
    scale      every weight times three gives the same value (of a confusion, the same bits),
               times 0.3 nearly, and times 2**50 the same bits
    merge      the merged states of two parts give the same bits as the whole
    swap       binary: exchanging the two classes (score s becomes 1 − s)
    rename     multi-class, multi-label: other names, in another order, for the classes
    transpose  exchanging truth and prediction (metrics of predicted labels only)
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

LAWS = ("order", "scale", "merge", "swap", "rename", "transpose")

_OF_LABELS = frozenset({"confusion", "label_counts", "label_sets"})
"""States of predicted labels."""

CLAIMED_BY = {law: law for law in LAWS} | {"batch": "order", "fraction": "scale", "huge": "scale"}
"""From what is put to the test to the law that claims it."""

_FACTORS = {"scale": 3, "fraction": 0.375, "huge": 2**50}


def _averages(names: str, *averages: str) -> str:
    return " ".join(f"{name}_{average}" for name in names.split() for average in averages)


def _of_label_sets(*names: str) -> str:
    return " ".join(f"{name}@multilabel" for name in " ".join(names).split())


_OVERLAP = "f1 fbeta jaccard fowlkes_mallows"
_ONE_SIDED = "precision specificity fpr npv"

_LINES = (
    # A metric with a line of its own in each task is written name@task.
    (
        "order scale merge swap rename transpose",
        "accuracy error_rate expected_cost recall_weighted fnr_weighted matthews_corrcoef "
        "cohen_kappa",
    ),
    (
        "order scale merge swap rename transpose",
        _averages(f"{_OVERLAP} {_ONE_SIDED} recall fnr", "micro"),
    ),
    ("order scale merge swap rename transpose", _averages(_OVERLAP, "macro")),
    ("order scale merge swap transpose", "cohen_kappa_linear cohen_kappa_quadratic"),
    ("order scale merge swap rename", _averages(_OVERLAP, "weighted")),
    ("order scale merge swap rename", _averages(_ONE_SIDED, "macro", "weighted")),
    (
        "order scale merge swap rename",
        "recall_macro fnr_macro balanced_accuracy adjusted_balanced_accuracy geometric_mean "
        "kappa_m "
        "prevalence_weighted_precision prevalence_weighted_recall",
    ),
    ("scale swap rename", "kappa_temporal"),
    ("order scale merge swap", "informedness markedness"),
    ("order scale merge transpose", _OVERLAP),
    (
        "order scale merge",
        f"{_ONE_SIDED} recall fnr positive_rate positive_likelihood_ratio "
        "negative_likelihood_ratio",
    ),
    ("order merge", "support@binary"),
    ("order merge rename transpose", "support@multiclass"),
    ("order scale merge swap", "roc_auc gini ks equal_error_rate binormal_auc"),
    (
        "order scale merge",
        "average_precision eleven_point_average_precision break_even pr_gain_auc partial_roc_auc "
        "precision_at_recall recall_at_precision sensitivity_at_specificity "
        "specificity_at_sensitivity",
    ),
    # The edges of its bins are places among whole events.
    ("order merge", "quantile_calibration_error"),
    (
        "order scale merge swap",
        "log_loss@binary brier_score@binary normalized_entropy@binary "
        "d2_log_loss_score@binary d2_brier_score@binary",
    ),
    (
        "order scale merge",
        "mean_error mean_absolute_error mean_squared_error root_mean_squared_error r2 "
        "explained_variance pearson_r concordance_correlation mean_pinball_loss "
        "mean_absolute_percentage_error symmetric_mean_absolute_percentage_error "
        "mean_squared_log_error root_mean_squared_log_error median_absolute_error max_error "
        "residual_quantile",
    ),
    # A probability on the edge of two bins belongs to the lower one.
    (
        "order scale merge",
        "expected_calibration_error@binary l2_calibration_error@binary "
        "max_calibration_error@binary",
    ),
    (
        "order scale merge rename",
        "log_loss@multiclass brier_score@multiclass roc_auc_ovr roc_auc_ovr_weighted "
        "roc_auc_ovo roc_auc_ovo_weighted roc_auc_micro normalized_entropy@multiclass "
        "d2_log_loss_score@multiclass d2_brier_score@multiclass average_precision_ovr "
        "average_precision_ovr_weighted average_precision_micro",
    ),
    (
        "order scale merge rename transpose",
        _of_label_sets(
            "accuracy error_rate hamming_loss matthews_corrcoef_macro cohen_kappa_macro",
            _averages(_OVERLAP, "micro", "macro"),
            _averages("f1 fbeta jaccard", "samples"),
        ),
    ),
    (
        "order scale merge rename",
        _of_label_sets(
            "balanced_accuracy_macro precision_samples recall_samples",
            _averages(_OVERLAP, "weighted"),
            _averages(f"{_ONE_SIDED} recall fnr", "micro", "macro", "weighted"),
        ),
    ),
    ("order merge rename transpose", "support@multilabel"),
    (
        "order scale merge rename",
        _of_label_sets(
            _averages("roc_auc average_precision", "macro", "micro", "weighted", "samples"),
            "label_ranking_average_precision label_ranking_loss coverage_error",
            "log_loss brier_score expected_calibration_error",
        ),
    ),
    # Of equal scores the label that sorts later ranks higher.
    ("order scale merge", _of_label_sets("precision_at_k recall_at_k")),
    # Which of two equally probable labels ranks first depends on their names.
    (
        "order scale merge",
        "expected_calibration_error@multiclass l2_calibration_error@multiclass "
        "max_calibration_error@multiclass top_k_accuracy",
    ),
)

TABLE: dict[str, frozenset[str]] = {
    name: frozenset(laws.split()) for laws, names in _LINES for name in names.split()
}


def line_of(row: Metric, task: str) -> str:
    """The key of a row's line."""
    own = f"{row.name}@{task}"
    return own if own in TABLE else row.name


def cases() -> list[tuple[Metric, str]]:
    """Every row with every task it is for."""
    return [(row, task) for row in ROWS for task in sorted(row.tasks) if TASKS[task].evaluated]


def applies(law: str, row: Metric, task: str) -> bool:
    """Whether a law says anything about a row in a task."""
    if law == "swap":
        return task == "binary"
    if law == "rename":
        return task in ("multiclass", "multilabel")
    return law != "transpose" or row.state in _OF_LABELS


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


_NEW_NAMES = {"a": "z", "b": "m", "c": "n"}


def _renamed(given):
    """A label, a set of labels, or a mapping from labels, with the new names."""
    if isinstance(given, dict):
        return {_NEW_NAMES[label]: value for label, value in given.items()}
    return _NEW_NAMES[given] if isinstance(given, str) else {_NEW_NAMES[label] for label in given}


def changed(law, events, shuffled):
    """The events as a law changes them; `shuffled` holds the same in another order."""
    if law == "order":
        return shuffled
    if law in _FACTORS:
        return [(t, p, s, _FACTORS[law] * w) for t, p, s, w in events]
    if law == "swap":
        return [(1 - t, 1 - p, 1 - s, w) for t, p, s, w in events]
    if law == "rename":
        return [(*map(_renamed, event[:3]), event[3]) for event in events]
    if law == "transpose":
        return [(p, t, s, w) for t, p, s, w in events]
    raise AssertionError(law)


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
