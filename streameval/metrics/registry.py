"""The registry: every metric by name, as evaluators, reports and commands look it up."""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from streameval.errors import MetricError, listed, shown
from streameval.events.values import Label
from streameval.metrics import (
    agreement,
    class_metrics,
    label_free,
    multiclass,
    multilabel,
    multilabel_ranking,
    probability,
    ranking,
    regression,
)
from streameval.metrics.averages import Counts, undefined_classes, whole_counts
from streameval.metrics.binormal import binormal_auc
from streameval.metrics.calibration import (
    expected_calibration_error,
    l2_calibration_error,
    max_calibration_error,
    quantile_calibration_error,
)
from streameval.metrics.class_metrics import class_rows
from streameval.metrics.curves import pr_gain_auc
from streameval.metrics.metric import (
    BINARY,
    CLASS_PREDICTIONS,
    MULTICLASS,
    PREDICTIONS,
    REGRESSION,
    Metric,
    public_name,
)
from streameval.states.registry import STATES
from streameval.tasks.registry import TASKS, measured_tasks, one_of_tasks, task_names

_USUAL = {
    # A use that a task has no names for has those of its reports.
    (use, task.name): tuple(task.usual.get(use, task.usual["report"]).split())
    for task in map(TASKS.__getitem__, measured_tasks())
    for use in ("report", "slices", "folds", "representation", "single")
}
USUAL_METRICS: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(_USUAL)
"""The metrics of each (use, task) where the caller names none, in the order of reports."""


def _row(
    function: Callable[..., Any],
    definition: str,
    *,
    name: str = "",
    state: str = "confusion",
    **fields: Any,
) -> Metric:
    name = name or function.__name__
    return Metric(name=name, function=function, state=state, definition=definition, **fields)


_cells_row = functools.partial(_row, family="confusion")
_rank_row = functools.partial(_row, state="index", tasks=BINARY)
_support_row = functools.partial(
    _row, class_metrics.support, high=math.inf, direction="none", params=("average",), family="none"
)


def _at_row(function: Callable[..., float], value: str, rate: str, *synonyms: str) -> Metric:
    option = f"min_{function.__name__.partition('_at_')[2]}"
    definition = f"highest {value} at a {rate} of at least {option}"
    return _rank_row(function, definition, params=(option,), synonyms=synonyms)


def _kappa_row(weights: Literal["linear", "quadratic"], distance: str) -> Metric:
    return _cells_row(
        functools.partial(agreement.cohen_kappa, weights=weights),
        f"cohen_kappa where an error counts by its {distance} in label order",
        name=f"cohen_kappa_{weights}",
        low=-1.0,
        params=("labels",),
        fixed=MappingProxyType({"weights": weights}),
    )


def _probability_rows(tasks: frozenset[str], state: str, top: float, what: str) -> Iterator[Metric]:
    row = functools.partial(_row, state=state, tasks=tasks, direction="down")
    yield row(
        probability.log_loss,
        "mean −ln(probability given to the true class), clipped at 2⁻⁵²",
        high=math.inf,
        family="loss",
        synonyms=("cross_entropy", "logloss", "nll", "negative_log_likelihood"),
    )
    yield row(
        probability.brier_score,
        "mean squared distance between probabilities and outcomes",
        high=top,
        family="loss",
        synonyms=("brier", "brier_score_loss", "mse"),
    )
    also = () if tasks == BINARY else ("confusion",)
    yield row(
        probability.normalized_entropy,
        "log loss over that of predicting how frequent each class is",
        high=math.inf,
        also=also,
    )
    yield row(
        probability.d2_log_loss_score,
        "share of the log loss of predicting the class frequencies that is removed",
        low=-math.inf,
        direction="up",
        also=also,
    )
    yield row(
        probability.d2_brier_score,
        "share of the Brier score of predicting the class frequencies that is removed",
        low=-math.inf,
        direction="up",
        also=also,
        synonyms=("brier_skill", "bss"),
    )
    yield row(
        expected_calibration_error,
        f"mean gap between {what} and its observed frequency, over bins",
        family="calibration",
        synonyms=("ece", "calibration_error"),
    )
    yield row(
        l2_calibration_error,
        f"root of the mean squared gap between {what} and its observed frequency, over bins",
        family="calibration",
    )
    yield row(
        max_calibration_error,
        f"largest gap between {what} and its observed frequency, in any bin",
        family="calibration",
    )


def _auc_rows(
    function: Callable[..., Any], definition: str, source: str = "", family: str = "class_auc"
) -> Iterator[Metric]:
    row = functools.partial(_row, state="class_scores", tasks=MULTICLASS, family=family)
    for average, suffix, words in (
        ("macro", "", source),
        ("weighted", "_weighted", ", by support"),
    ):
        yield row(
            functools.partial(function, average=average),
            definition + words,
            name=function.__name__ + suffix,
            fixed=MappingProxyType({"average": average}),
        )


def _with_shown(row: Metric) -> Metric:
    tasks = frozenset(task for task in row.tasks if row.name in USUAL_METRICS["report", task])
    return replace(row, shown=tasks) if tasks else row


_QUANTILE = functools.partial(
    _row, label_free.score_quantile, state="index", tasks=PREDICTIONS, family="none",
    low=-math.inf, high=math.inf, direction="none",
)  # fmt: skip

_LABEL_FREE = (
    _row(
        label_free.mean_score,
        "mean of the scores",
        state="moments",
        tasks=PREDICTIONS,
        family="score",
        low=-math.inf,
        high=math.inf,
        direction="none",
        synonyms=("score_mean", "average_score"),
    ),
    _QUANTILE(
        "smallest score that at least half of the events do not exceed",
        name="median_score",
        fixed=MappingProxyType({"q": 0.5}),
        synonyms=("median",),
    ),
    _QUANTILE(
        "smallest score that at least the share q of the events do not exceed",
        params=("q",),
        synonyms=("quantile", "percentile"),
    ),
    _row(
        label_free.mean_confidence,
        "mean probability of the predicted label",
        state="class_probability",
        tasks=CLASS_PREDICTIONS,
        family="score",
        direction="none",
        synonyms=("confidence", "average_confidence"),
    ),
)

_number_row = functools.partial(
    _row, state="errors", tasks=REGRESSION, high=math.inf, direction="down", family="error"
)
_fit_row = functools.partial(_number_row, low=-1.0, high=1.0, direction="up", family="fit")
_ratio_row = functools.partial(_number_row, state="error_ratios")
_residual_row = functools.partial(_number_row, state="residuals", family="none")

_REGRESSION = (
    _number_row(
        regression.mean_error,
        "bias: mean of y_pred − y_true",
        low=-math.inf,
        direction="none",
        synonyms=("bias", "mean_bias_error", "me", "mbe"),
    ),
    _number_row(
        regression.mean_absolute_error,
        "mean of |y_true − y_pred|",
        synonyms=("mae", "l1_loss", "neg_mean_absolute_error"),
    ),
    _number_row(
        regression.mean_squared_error,
        "mean of (y_true − y_pred)²",
        synonyms=("mse", "l2_loss", "neg_mean_squared_error"),
    ),
    _number_row(
        regression.root_mean_squared_error,
        "square root of the mean of (y_true − y_pred)²",
        synonyms=("rmse", "neg_root_mean_squared_error"),
    ),
    _fit_row(
        regression.r2,
        "1 − Σ (y_true − y_pred)² / Σ (y_true − their mean)²",
        low=-math.inf,
        synonyms=("r_squared", "coefficient_of_determination"),
    ),
    _fit_row(
        regression.explained_variance,
        "1 − variance of y_true − y_pred / variance of y_true",
        low=-math.inf,
        synonyms=("ev",),
    ),
    _fit_row(
        regression.pearson_r,
        "correlation of y_true and y_pred",
        synonyms=("pearson", "pearson_corrcoef", "pearson_corr_coef", "correlation"),
    ),
    _fit_row(
        regression.concordance_correlation,
        "2 · covariance / (both variances + the squared difference of the means)",
        synonyms=("ccc", "concordance_corrcoef", "concordance_corr_coef"),
    ),
    _number_row(
        regression.mean_pinball_loss,
        "mean of alpha·(y_true − y_pred), or where negative of (1 − alpha)·(y_pred − y_true)",
        params=("alpha",),
        synonyms=("pinball_loss", "quantile_loss"),
    ),
    _ratio_row(
        regression.mean_absolute_percentage_error,
        "mean of |y_true − y_pred| / max(|y_true|, 2⁻⁵²)",
        synonyms=("mape", "neg_mean_absolute_percentage_error"),
    ),
    _ratio_row(
        regression.symmetric_mean_absolute_percentage_error,
        "mean of 2·|y_true − y_pred| / (|y_true| + |y_pred|)",
        high=2.0,
        synonyms=("smape",),
    ),
    _ratio_row(
        regression.mean_squared_log_error,
        "mean of (ln(1 + y_true) − ln(1 + y_pred))²",
        synonyms=("msle", "neg_mean_squared_log_error"),
    ),
    _ratio_row(
        regression.root_mean_squared_log_error,
        "square root of the mean of (ln(1 + y_true) − ln(1 + y_pred))²",
        synonyms=("rmsle", "neg_root_mean_squared_log_error"),
    ),
    _residual_row(
        regression.median_absolute_error,
        "median of |y_true − y_pred|",
        synonyms=("medae", "neg_median_absolute_error"),
    ),
    _residual_row(
        regression.max_error,
        "largest |y_true − y_pred|",
        synonyms=("neg_max_error", "maximum_error"),
    ),
    _residual_row(
        regression.residual_quantile,
        "smallest y_true − y_pred that at least the share q of the events do not exceed",
        low=-math.inf,
        direction="none",
        params=("q",),
    ),
)

ROWS: tuple[Metric, ...] = tuple(
    _with_shown(row)
    for row in (
        _row(
            class_metrics.accuracy,
            "share of events predicted right",
            rule=class_metrics.RECALL,
            average="micro",
            family="proportion",
            synonyms=("acc", "subset_accuracy", "exact_match"),
        ),
        _row(
            class_metrics.error_rate,
            "share of events predicted wrong: 1 - accuracy",
            rule=class_metrics.FNR,
            average="micro",
            family="proportion",
            direction="down",
            synonyms=(
                "misclassification",
                "zero_one_loss",
                "hamming_loss",
                "error",
                "misclassification_rate",
            ),
        ),
        _cells_row(
            class_metrics.balanced_accuracy,
            "mean recall of the classes that some event has",
            rule=class_metrics.RECALL,
            average="macro",
        ),
        _cells_row(
            class_metrics.adjusted_balanced_accuracy,
            "balanced accuracy beyond guessing: (B - 1/K) / (1 - 1/K)",
            low=-1.0,
        ),
        _row(
            class_metrics.expected_cost,
            "mean cost of an event by its true and its predicted class, 1 for each error "
            "unless given",
            high=math.inf,
            direction="down",
            params=("costs",),
            synonyms=("mean_cost",),
        ),
        *class_rows(averages=True),
        _cells_row(
            class_metrics.geometric_mean,
            "K-th root of the product of the K classes' recalls",
            synonyms=("g_mean", "gmean"),
        ),
        _cells_row(
            agreement.matthews_corrcoef,
            "correlation of the true and the predicted class",
            low=-1.0,
            synonyms=("mcc", "phi", "matthews", "matthews_corr_coef"),
        ),
        _cells_row(
            agreement.cohen_kappa,
            "agreement beyond chance: (p_o - p_e) / (1 - p_e)",
            low=-1.0,
            params=("weights", "labels"),
            synonyms=("kappa",),
        ),
        _kappa_row("linear", "distance"),
        _kappa_row("quadratic", "squared distance"),
        _cells_row(
            agreement.kappa_m,
            "accuracy beyond always predicting the most frequent class",
            low=-math.inf,
        ),
        _row(
            agreement.kappa_temporal,
            "accuracy beyond predicting the previous event's true label",
            low=-math.inf,
            also=("succession",),
            family="none",
        ),
        *class_rows(averages=False),
        _cells_row(
            class_metrics.prevalence_weighted_precision,
            "correct over predicted, each class counting as often as it is true",
        ),
        _cells_row(
            class_metrics.prevalence_weighted_recall,
            "correct over true, each class counting as often as it is true",
        ),
        _support_row("weight of the positive events", tasks=BINARY, needs_positive=True),
        _support_row("weight of all events", tasks=MULTICLASS),
        _support_row("weight of all predictions", tasks=PREDICTIONS | CLASS_PREDICTIONS),
        _rank_row(
            ranking.roc_auc,
            "share of (positive, negative) pairs that the score orders correctly, ties half",
            synonyms=("auc", "auroc", "rocauc", "auc_roc", "roc", "c_statistic", "roc_auc_score"),
            family="auc",
        ),
        _rank_row(ranking.gini, "2 · AUC − 1", low=-1.0, family="auc"),
        _rank_row(
            ranking.ks,
            "largest |TPR − FPR| over all thresholds (Kolmogorov–Smirnov)",
            synonyms=("kolmogorov_smirnov", "ks_statistic", "ks_stat", "ks_score"),
        ),
        _rank_row(
            ranking.average_precision,
            "Σ (R_n − R_{n−1}) · P_n over the distinct scores, descending",
            synonyms=(
                "ap",
                "auprc",
                "pr_auc",
                "aucpr",
                "auc_pr",
                "prauc",
                "average_precision_score",
            ),
        ),
        _rank_row(
            ranking.eleven_point_average_precision,
            "mean interpolated precision at recall 0, 0.1, …, 1",
        ),
        _rank_row(ranking.break_even, "the value at which precision equals recall"),
        _rank_row(
            pr_gain_auc,
            "area under the precision–recall–gain curve (Flach & Kull 2015)",
            low=-math.inf,
        ),
        _rank_row(
            ranking.partial_roc_auc,
            "area under the ROC curve up to FPR max_fpr, McClish-standardised",
            params=("max_fpr", "min_fpr", "min_tpr", "max_tpr", "mcclish"),
        ),
        _rank_row(
            ranking.equal_error_rate,
            "the value at which FPR equals FNR",
            direction="down",
            synonyms=("eer",),
        ),
        _at_row(ranking.precision_at_recall, "precision", "recall", "precision_at_fixed_recall"),
        _at_row(ranking.recall_at_precision, "recall", "precision", "recall_at_fixed_precision"),
        _at_row(ranking.sensitivity_at_specificity, "TPR", "specificity"),
        _at_row(ranking.specificity_at_sensitivity, "specificity", "TPR"),
        _row(
            binormal_auc,
            "Φ((μ₁ − μ₀)/√(σ₁² + σ₀²)), the AUC if the scores of each class are normal",
            state="moments",
            tasks=BINARY,
        ),
        *_probability_rows(BINARY, "probability", 1.0, "the positive class's probability"),
        _rank_row(
            quantile_calibration_error,
            "gap between the positive class's probability and its observed frequency, over bins "
            "of as many events",
            direction="down",
            params=("bins", "norm"),
        ),
        *_probability_rows(
            MULTICLASS, "class_probability", 2.0, "the predicted label's probability"
        ),
        *_auc_rows(multiclass.roc_auc_ovr, "mean over classes of one-vs-rest AUC"),
        *_auc_rows(
            multiclass.roc_auc_ovo,
            "mean over pairs of classes of ½(A(i|j) + A(j|i))",
            " (Hand & Till 2001)",
        ),
        _row(
            multiclass.roc_auc_micro,
            "AUC of all (event, label) cases pooled",
            state="class_scores",
            tasks=MULTICLASS,
            family="class_auc",
        ),
        *_auc_rows(
            multiclass.average_precision_ovr,
            "mean over classes of one-vs-rest average precision",
            family="bootstrap",
        ),
        _row(
            multiclass.average_precision_micro,
            "average precision of all (event, label) cases pooled",
            state="class_scores",
            tasks=MULTICLASS,
        ),
        _row(
            probability.top_k_accuracy,
            "share of events whose true label is among the k most probable",
            state="class_probability",
            tasks=MULTICLASS,
            params=("k",),
            family="proportion",
            synonyms=("top_k", "topk", "topk_accuracy", "top_k_acc", "top_k_accuracy_score"),
        ),
        *_LABEL_FREE,
        *multilabel.label_rows(),
        *multilabel_ranking.score_rows(),
        *_REGRESSION,
    )
)
"""Every row, in the order of reports. A name may occur twice, once for each task."""


_OF_TASK: dict[str, dict[str, Metric]] = {
    task: {row.name: row for row in ROWS if task in row.tasks} for task in measured_tasks()
}

# Of several rows of a name the first one: those of later tasks stand after them.
_METRICS = {row.name: row for row in (*ROWS, *ROWS[::-1], *_OF_TASK[task_names()[0]].values())}
METRICS: Mapping[str, Metric] = MappingProxyType(_METRICS)
"""Every name; the binary row where each task has its own: :func:`find` takes the task."""

# For the hint in an error only: a value has one name.
# Of two rows the first, unless the task is known.
_SYNONYMS: Mapping[str, str] = {
    synonym: row.name for row in reversed(ROWS) for synonym in row.synonyms
}

_WITH_PARAMETER = (
    (re.compile(r"f_?([2-9]|\d\.\d+)"), 'value("fbeta", beta={})'),
    (re.compile(r"top_?(\d+)(?:_acc(?:uracy)?)?"), 'value("top_k_accuracy", k={})'),
    (re.compile(r"(?:acc(?:uracy)?@)(\d+)"), 'value("top_k_accuracy", k={})'),
)
"""Names that hold a parameter, and how its metric is read."""

_NO_METRIC: Mapping[str, str] = {
    "confusion_matrix": "ev.confusion",
    "confusion": "ev.confusion",
    "multilabel_confusion_matrix": "ev.label_counts.to_array()",
    "classification_report": "ev.classification_report()",
    "roc_curve": 'ev.curve("roc")',
    "precision_recall_curve": 'ev.curve("precision_recall")',
    "pr_curve": 'ev.curve("precision_recall")',
    "calibration_curve": 'ev.curve("calibration")',
}
"""What is no metric, and how it is read."""


def hinted_names() -> dict[str, str]:
    """Every name and synonym of a metric, with and without ``_score``, and the metric's name."""
    known = {**_SYNONYMS, **{name: name for name in METRICS}}
    return {**{f"{name}_score": own for name, own in known.items()}, **known}


def find(name: str, task: str | None = None, average: object = ...) -> Metric:
    """The row of a `name`, as :data:`METRICS` spells it, in a task or (None) in either.

    With `average` the name is a family's, and None is for a row whose function returns a dictionary
    of every class's value; by default the name includes the average. Raises MetricError where there
    is no such metric (near spellings are named), or not in this task (alternatives are named).

    >>> find("fbeta", "multiclass", "weighted").name
    'fbeta_weighted'
    >>> find("f1", "multiclass")
    Traceback (most recent call last):
    streameval.errors.MetricError: f1 is about one class: in a multi-class task use f1_macro, ...
    """
    if not isinstance(name, str) or name not in METRICS:
        raise MetricError(_unknown(name, task))
    if average is not ...:
        if not (average is None or isinstance(average, str)):
            raise MetricError(f"{name} has no average {shown(average)}; it is a name or None")
        return _with_average(name, task, average)
    rows = METRICS if task is None else _rows_of(task)
    row = rows.get(name)
    if row is None:
        raise MetricError(_elsewhere(name, str(task)))
    return row


def _rows_of(task: object) -> Mapping[str, Metric]:
    if not isinstance(task, str) or task not in _OF_TASK:
        raise MetricError(f"task: expected {one_of_tasks()}, got {shown(task)}")
    return _OF_TASK[task]


def _with_average(name: str, task: str | None, average: str | None) -> Metric:
    # The plain name of a class metric is valid with an average in multi-class
    # tasks too, which have no row of that name.
    rows = METRICS if task is None else _rows_of(task)
    row = rows.get(name) or METRICS[name]
    if name not in rows and f"{name}_macro" in rows and "average" not in row.params:
        row = replace(rows[f"{name}_macro"], name=name)
    fixed = "average" in row.fixed
    if not (fixed or "average" in row.params) or (fixed and name.endswith(row.fixed["average"])):
        raise MetricError(f"{name} takes no average")
    if average is None:
        function = functools.partial(row.function, average=None)
        # The counts that the task keeps of each class or label.
        counts = (
            METRICS.get(f"{name}_macro") if task is None else _rows_of(task).get(f"{name}_macro")
        )
        return replace(
            row,
            function=function,
            needs_positive=False,
            params=_less_average(row),
            state=row.state if counts is None else counts.state,
        )
    if average == row.fixed.get("average", "binary"):
        return replace(row, params=_less_average(row))
    other = f"{name}_{average}"
    if other not in METRICS:
        known = [n for n in METRICS if n.startswith(name + "_")]
        raise MetricError(
            f"{name} has no average {shown(average)}; there are {', '.join(known) or 'none'}"
        )
    return find(other, task)


def _less_average(row: Metric) -> tuple[str, ...]:
    return tuple(name for name in row.params if name != "average")


def _unknown(name: object, task: str | None) -> str:
    text = f"no metric is called {shown(name)}"
    if not isinstance(name, str):
        return f"{text}; a name is a str, and ev.report() has every metric to iterate over"
    plain = re.sub(r"[-\s]+", "_", name.lower().strip())
    if plain in _NO_METRIC:
        return f"{text}; read {_NO_METRIC[plain]}"
    for pattern, reading in _WITH_PARAMETER:
        if found := pattern.fullmatch(plain):
            return f"{text}; read {reading.format(found[1])}"
    plain = plain.removesuffix("_score")
    family, _, average = plain.partition("_")
    if family in ("macro", "micro", "weighted"):  # macro_f1
        plain = f"{average}_{family}"
    rows = _OF_TASK.get(str(task), {}).values()
    own = (row.name for row in rows if plain in row.synonyms)
    synonym = next(own, None) or _SYNONYMS.get(plain) or (plain if plain in METRICS else None)
    near = [synonym] if synonym else difflib.get_close_matches(plain, METRICS, n=3)
    if near:
        return f"{text}; did you mean {' or '.join(near)}?"
    return f"{text}; streameval.metrics.METRICS and `streameval metrics` list them"


def _elsewhere(name: str, task: str) -> str:
    if not TASKS[task].evaluated:
        return f"{name} is about true labels, which predictions do not have"
    if not any(TASKS[other].evaluated and name in rows for other, rows in _OF_TASK.items()):
        return f"{name} is about predictions without labels: count them in Predictions"
    instead = [other for other in _OF_TASK[task] if other.startswith(name + "_")]
    if METRICS[name].needs_positive and instead:
        here = TASKS[task].adjective
        return f"{name} is about one class: in a {here} task use {_either(instead)}"
    instead += [row for row in _OF_TASK[task] if name.startswith(row + "_")][:1]
    if _SYNONYMS.get(name) in _OF_TASK[task]:
        instead.append(_SYNONYMS[name])
    there = [TASKS[other].adjective for other, rows in _OF_TASK.items() if name in rows]
    return f"{name} is for {_either(there)} tasks" + (
        f"; use {_either(instead)}" if instead else ""
    )


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def metric_names(metrics: object) -> list[str]:
    """Names of metrics as a list; a single name is a list of one. Raises InputError for neither."""
    return [metrics] if isinstance(metrics, str) else listed(metrics, "metrics", "a list of names")


def metric_calls(metrics: object) -> list[tuple[str, Mapping[str, Any]]]:
    """Names of metrics, or names with parameters, each as a pair of the two; raises InputError."""
    return [
        (one[0], one[1]) if isinstance(one, tuple) and len(one) == 2 else (one, {})
        for one in metric_names(metrics)
    ]


def call_name(name: str, params: Mapping[str, Any]) -> str:
    """A metric with its parameters, as reports name it: ``partial_roc_auc:max_fpr=0.1``."""
    return ":".join([name, *(f"{key}={value}" for key, value in params.items())])


def task_metrics(task: str) -> list[Metric]:
    """Every row of a task, in the order of reports."""
    return list(_rows_of(task).values())


def shown_metrics(task: str) -> list[Metric]:
    """The rows that a task's report shows by default, in its order.

    >>> [row.name for row in shown_metrics("multiclass")][:3]
    ['accuracy', 'balanced_accuracy', 'precision_macro']
    """
    return [row for row in _rows_of(task).values() if task in row.shown]


def left_out(metric: Metric | str, counts: Counts, undefined: float | None = None) -> list[Label]:
    """The classes or labels that a mean over them leaves out, as they have no value; O(classes).

    Empty for a `metric` (a row or its name) that is no such mean, and where `undefined`, the
    mean's own, is a number: it is then the value of those classes.

    >>> from streameval import ConfusionCounts
    >>> counts = ConfusionCounts.from_matrix([[1, 0], [1, 0]], ["cat", "dog"])
    >>> left_out("precision_macro", counts), left_out("recall_macro", counts)
    (['dog'], [])
    """
    row = metric if isinstance(metric, Metric) else find(metric)
    if not isinstance(counts, Counts):
        raise MetricError(
            f"left_out is about ConfusionCounts or LabelCounts, got {type(counts).__name__}"
        )
    rule = row.mean_of
    if rule is None or not counts.total:
        return []
    # The balanced accuracy is a mean over the classes that have events; its
    # ``undefined=`` is about the whole.
    if row.name != "balanced_accuracy" and undefined is not None and undefined == undefined:
        return []
    labels = [label for label, _ in undefined_classes(rule, whole_counts(counts))]
    if row.fixed.get("average") == "weighted":
        # A class without weight contributes nothing to a weighted mean.
        return [label for label in labels if counts.true_count(label)]
    return labels


def compute(
    name: str,
    *states: Any,
    positive: Label | None = None,
    undefined: float | None = None,
    average: object = ...,
    **params: Any,
) -> float:
    """A metric of states by its name; for repeated reads call ``find(name).bind(...)`` once.

    `states` are those that the metric reads, two for ``kappa_temporal``; `positive` is the class of
    metrics of one class, `undefined` a number in place of an undefined value, and `average` as in
    :func:`find`. Raises MetricError for an unknown name or parameter, or another state.

    >>> from streameval import ConfusionCounts
    >>> counts = ConfusionCounts.from_matrix([[1, 1], [0, 1]], ["cat", "dog"])
    >>> compute("f1", counts, positive="cat"), compute("f1_macro", counts)
    (0.6666666666666666, 0.6666666666666666)
    """
    row = find(name, None, average)
    for task, rows in _OF_TASK.items():
        # A name may read a different state in each task.
        if not _takes(row, states) and rows.get(name, METRICS[name]) is not METRICS[name]:
            other = find(name, task, average)
            row = other if _takes(other, states) else row
    if not _takes(row, states):
        wanted = ", ".join(public_name(STATES[state].types[0]) for state in row.states)
        got = ", ".join(type(state).__name__ for state in states) or "none"
        raise MetricError(f"{name} is a function of {wanted}, got {got}")
    return row.bind(positive=positive, undefined=undefined, **params)(*states)


def _takes(row: Metric, states: tuple[Any, ...]) -> bool:
    return len(states) == len(row.states) and all(
        isinstance(state, STATES[name].types)
        for state, name in zip(states, row.states, strict=True)
    )
