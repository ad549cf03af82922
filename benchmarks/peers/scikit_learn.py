"""scikit-learn's classification, ranking and regression metrics, read from evaluators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.metrics
from sklearn.metrics import _classification, _ranking, _regression
from sklearn.utils.multiclass import type_of_target

import streameval as se
from benchmarks.peers.ledger import Known, Ledger, NotCovered, same
from benchmarks.peers.page import rows
from streameval import metrics

PEER = "scikit-learn"
SUITES = ("test_classification", "test_ranking", "test_regression", "test_common")

_COUNTERPARTS = {name: row.counterparts for row in rows() for name in row.names if row.counterparts}

_MULTI_LABEL = "of label sets another metric"
_NO_PAIR = "AUC of a label that no or every event has: nan there, left out of the mean here"
_LABEL_SETS = "of label sets, given other targets"
_ONE_SAMPLE = "a matrix for each event"
_SOME_OF_EACH = "means over events of some of their labels"
_WEIGHTS = "weights of 0 or below, or above 2⁵³: refused"
_NAMES = "more names than classes: scikit-learn warns, streameval refuses"
_ONE_EVENT = "one event, of classes that are not given"
_ANY_FUNCTION = (
    "any function at each threshold, or the area under given points: no metric of events"
)
_NO_PROBABILITIES = "rows of probabilities that do not add up to 1: refused"
_OUTPUTS = "several outputs: here an evaluator has one"
_ONE_TRUTH = "equal true numbers: scikit-learn says 1, 0 or −∞, streameval undefined"
_SINGLE = "scikit-learn computes in single precision what was given so"


class Call:
    """The arguments of one call, and the evaluators that were fed them."""

    def __init__(self, name: str, theirs: Any, arguments: dict[str, Any]) -> None:
        self.name, self.theirs, self.given = name, theirs, arguments
        truth = next(iter(arguments.values()))
        if name in _OF_NUMBERS:
            self.kind = "numbers"
            if any(np.size(each) > len(each) for each in (truth, self.second)):
                raise NotCovered(_OUTPUTS)
        else:
            self.kind = type_of_target(truth)
        if "multioutput" in self.kind:
            raise NotCovered(_OUTPUTS)
        self.of_sets = self.kind.startswith("multilabel")
        # Of label sets the matrix as it is given, sparse or a list of rows.
        self.y_true = truth if self.of_sets else np.asarray(truth).ravel()
        weight = arguments.get("sample_weight")
        self.weight = None if weight is None else np.asarray(weight).ravel() * 1
        if self.weight is not None and np.any((self.weight <= 0) | (self.weight > 2**53)):
            raise NotCovered(_WEIGHTS)

    @property
    def second(self) -> np.ndarray[Any, Any]:
        """The second argument: predicted labels, or scores."""
        old = self.given.get("y_pred", "deprecated")
        deprecated = "y_proba" in self.given and not isinstance(old, str)
        return np.asarray(old if deprecated else list(self.given.values())[1])

    def labels_of(self, *columns: Any) -> list[Any]:
        """Given labels in their order, or those of the columns, ascending."""
        labels = self.given.get("labels")
        if labels is None:
            labels = np.unique(np.concatenate([np.asarray(column).ravel() for column in columns]))
        return list(np.asarray(labels).tolist())

    def of_label_sets(self, undefined: float | None = None) -> se.Evaluator:
        """Fed matrices of indicators, whose labels are the numbers of the columns."""
        width = self.y_true.shape[1] if hasattr(self.y_true, "shape") else len(self.y_true[0])
        ev = se.Evaluator("multilabel", labels=range(width), undefined=undefined)
        predicted = list(self.given.values())[1]
        return ev.update_many(self.y_true, predicted, weight=self.weight)

    def of_label_scores(self) -> se.Evaluator:
        """Fed a matrix of indicators and one of scores."""
        # A list of two indicators would be taken for two labels.
        true = self.given["y_true"]
        true = true if hasattr(true, "tocsr") else np.asarray(true)
        ev = se.Evaluator("multilabel", labels=range(true.shape[1]))
        score = np.asarray(self.given["y_score"])
        return ev.update_many(true, score=score, weight=self.weight)

    def of_labels(self) -> se.Evaluator:
        """Fed true and predicted labels."""
        ev = se.Evaluator("multiclass", metrics=["accuracy", "precision_macro"])
        ev.update_many(self.y_true, self.second.ravel(), weight=self.weight)
        return ev

    def one_class(self, positive: Any, *columns: Any) -> se.Evaluator:
        """A binary evaluator; labels are declared where they are not 0 or 1."""
        found = [np.asarray(column).ravel() for column in columns]
        labels = {*np.concatenate(found).tolist(), positive}
        return se.Evaluator(positive=positive, labels=labels if len(labels) == 2 else None)

    def of_scores(self, positive: Any) -> se.Evaluator:
        """Fed scores of a positive class."""
        ev = self.one_class(positive, self.y_true)
        score = self.second
        score = score[:, 1] if score.ndim == 2 and score.shape[1] == 2 else score.ravel()
        ev.update_many(self.y_true, score=score, weight=self.weight)
        return ev

    def of_classes(self, *, probabilities: bool) -> se.Evaluator:
        """Fed a row of scores for each event."""
        matrix, labels = self.second, sorted(self.labels_of(self.y_true))
        ev = se.Evaluator("multiclass", labels=labels, probabilities=probabilities)
        rows = {"proba" if probabilities else "score": matrix}
        ev.update_many(self.y_true, **rows, weight=self.weight)
        return ev

    def of_numbers(self, *metrics: str) -> se.Evaluator:
        """Fed true and predicted numbers."""
        columns = [np.asarray(column).ravel() for column in (self.y_true, self.second)]
        if any(column.dtype in (np.float32, np.float16) for column in columns):
            raise Known(_SINGLE)
        ev = se.Evaluator("regression", metrics=metrics)
        return ev.update_many(*columns, weight=self.weight)

    def value(self, ev: se.Evaluator, metric: str, **params: Any) -> Any:
        """A metric that the page names as a counterpart of this function."""
        row = _COUNTERPARTS[self.name]
        base = metric
        for ending in ("_macro", "_micro", "_weighted", "_samples"):
            base = base.removesuffix(ending)
        assert {metric, base} & set(row), metric
        return ev.value(metric, **params)

    def undefined(self) -> float:
        """The number for undefined values."""
        given = self.given.get("zero_division", self.given.get("replace_undefined_by", "warn"))
        return 0.0 if given == "warn" else float(given)


def _array(values: Any) -> Any:
    return np.array(list(values.values())) if isinstance(values, dict) else values


def _of_labels(metric: str, call: Call) -> Any:
    """A metric of one class, or its averages."""
    average, params = call.given["average"], {"undefined": call.undefined()}
    if metric == "fbeta":
        params["beta"] = call.given["beta"]
    if average == "binary":
        ev = call.one_class(call.given["pos_label"], call.y_true, call.second)
        ev.update_many(call.y_true, call.second.ravel(), weight=call.weight)
        return call.value(ev, metric, **params)
    params["labels"] = call.labels_of(call.y_true, call.second)
    ev = call.of_labels()
    if average is None:
        return _array(call.value(ev, metric, average=None, **params))
    return call.value(ev, f"{metric}_{average}", **params)


def _all_four(call: Call) -> Any:
    values = [_of_labels(metric, call) for metric in ("precision", "recall", "fbeta")]
    if call.given["average"] is not None:
        return (*values, None)
    confusion = call.of_labels().confusion
    return (*values, _one_by_one(call, confusion)[:, 1].sum(axis=1))


def _share(metric: str, call: Call) -> Any:
    ev = call.of_labels()
    value = call.value(ev, metric)
    if call.given.get("normalize", True):
        return value
    return value * ev.total.support if ev.total.support else 0.0


def _balanced(call: Call) -> Any:
    ev = call.of_labels()
    if not call.given["adjusted"]:
        return call.value(ev, "balanced_accuracy")
    if len(set(call.y_true.tolist())) == 1:
        raise Known("adjusted for chance, one true class: a division by 0 there, undefined here")
    return call.value(ev, "adjusted_balanced_accuracy")


def _kappa(call: Call) -> Any:
    weights = call.given["weights"]
    name = "cohen_kappa" if weights is None else f"cohen_kappa_{weights}"
    options = {"undefined": call.undefined(), "labels": call.given["labels"]}
    options["labels"] = None if options["labels"] is None else call.labels_of()
    return call.value(call.of_labels(), name, **options)


def _likelihood_ratios(call: Call) -> Any:
    labels = call.labels_of(call.y_true, call.second)
    ev = call.one_class(labels[-1], call.y_true, call.second)
    ev.update_many(call.y_true, call.second.ravel(), weight=call.weight)
    instead = call.given["replace_undefined_by"]
    if not isinstance(instead, dict):
        instead = {"LR+": instead, "LR-": instead}
    names = {"LR+": "positive_likelihood_ratio", "LR-": "negative_likelihood_ratio"}
    return tuple(call.value(ev, names[key], undefined=instead[key]) for key in names)


def _confusion(call: Call) -> Any:
    labels = call.labels_of(call.y_true, call.second)
    normalize = call.given["normalize"]
    found = metrics.confusion_matrix(call.of_labels().confusion, labels=labels, normalize=normalize)
    # A share of nothing is nan, as docs/scikit-learn.md says.
    return np.nan_to_num(found.matrix) if normalize else found.matrix


def _one_by_one(call: Call, confusion: Any) -> Any:
    cells = []
    for label in call.labels_of(call.y_true, call.second):
        one = confusion.binary(label)
        cells.append([[one.tn, one.fp], [one.fn, one.tp]])
    return np.array(cells)


def _report(call: Call) -> Any:
    given = call.given
    options = {key: given[key] for key in ("labels", "target_names") if given[key] is not None}
    ev = se.Evaluator("multiclass", undefined=call.undefined())
    ev.update_many(call.y_true, call.second.ravel(), weight=call.weight)
    if "labels" in options:
        options["labels"] = call.labels_of()
    if "target_names" in options:
        options["target_names"] = [str(name) for name in options["target_names"]]
        if len(options["target_names"]) > len(call.labels_of(call.y_true, call.second)):
            raise Known(_NAMES)
    ours = ev.classification_report(**options).to_dict()
    if call.given["output_dict"]:
        return ours
    # Of a text, the numbers behind it are compared.
    theirs = sklearn.metrics.classification_report(**{**call.given, "output_dict": True})
    return call.theirs if same(theirs, ours) else ours


def _positive(call: Call) -> Any:
    given = call.given.get("pos_label")
    return 1 if given is None else given


def _curve(kind: str, call: Call) -> Any:
    ev = call.of_scores(_positive(call))
    if kind == "precision_recall" and not (call.y_true == _positive(call)).any():
        raise Known("recall without a positive event: scikit-learn says 1, streameval undefined")
    return tuple(ev.curve(kind, drop_intermediate=call.given["drop_intermediate"]))


def _counts_at_thresholds(call: Call) -> Any:
    index = _index(call)
    table = metrics.threshold_table(index)
    columns = (table.tn, table.fp, table.fn, table.tp, table.threshold)
    # The highest threshold first, there.
    return tuple(np.asarray(column)[::-1] for column in columns)


def _index(call: Call) -> se.ScoreIndex:
    """The scores of a binary call."""
    index = se.ScoreIndex()
    index.update_many(call.y_true == _positive(call), call.second.ravel(), call.weight)
    return index


def _precision_of_scores(call: Call) -> Any:
    average = call.given["average"]
    if average == "samples":
        raise NotCovered(_MULTI_LABEL)
    if call.kind == "binary":
        return call.value(call.of_scores(_positive(call)), "average_precision", undefined=0.0)
    ev = call.of_classes(probabilities=False)
    if average == "micro":
        return call.value(ev, "average_precision_micro")
    return _array(call.value(ev, "average_precision_ovr", average=average, undefined=0.0))


def _area(call: Call) -> Any:
    if call.kind == "binary" and (call.second.ndim == 1 or call.second.shape[1] == 1):
        ev = call.of_scores(call.labels_of(call.y_true)[-1])
        limit = call.given["max_fpr"]
        if limit is None or limit == 1:
            return call.value(ev, "roc_auc")
        return call.value(ev, "partial_roc_auc", max_fpr=limit)
    ev = call.of_classes(probabilities=False)
    average, kind = call.given["average"], call.given["multi_class"]
    if average == "micro":
        return call.value(ev, "roc_auc_micro")
    return _array(call.value(ev, f"roc_auc_{kind}", average=average))


def _top_k(call: Call) -> Any:
    score, k = call.second, call.given["k"]
    if score.ndim == 1 or score.shape[1] == 1:
        raise NotCovered("two classes and one column of scores: all of two, or the accuracy at .5")
    ev = call.of_classes(probabilities=False)
    value = call.value(ev, "top_k_accuracy", k=k)
    return value if call.given["normalize"] else value * ev.total.support


def _loss(metric: str, call: Call) -> Any:
    matrix = call.second
    labels = sorted(call.labels_of(call.y_true))
    if len(call.y_true) == 1 and call.given["labels"] is None:
        raise NotCovered(_ONE_EVENT)
    if matrix.dtype == np.float32 or matrix.dtype == np.float16:
        raise Known(_SINGLE)
    if matrix.ndim == 1 or matrix.shape[1] == 1:
        positive = call.given.get("pos_label")
        if positive is None:
            positive = 1 if set(labels) <= {-1, 0, 1} else labels[-1]
        ev = call.of_scores(positive)
        half = 1.0
    else:
        if np.any(abs(matrix.sum(axis=1) - 1) > 1e-9):
            raise NotCovered(_NO_PROBABILITIES)
        ev, half = call.of_classes(probabilities=True), 0.5
    value = call.value(ev, metric)
    if metric == "brier_score":
        scale = call.given["scale_by_half"]
        if scale == "auto":
            scale = matrix.ndim == 1 or matrix.shape[1] < 3
        return value * (half if scale else 2 * half)
    return value if call.given.get("normalize", True) else value * ev.total.support


def _of_numbers(metric: str, call: Call) -> Any:
    params = {"alpha": call.given["alpha"]} if "alpha" in call.given else {}
    value = call.value(call.of_numbers(metric), metric, **params)
    equal = isinstance(value, metrics.Undefined) and "true numbers are equal" in value.reason
    # Of a single event R² is nan there too.
    if equal and not np.all(np.isnan(call.theirs)):
        raise Known(_ONE_TRUTH)
    return np.full(1, value) if isinstance(call.theirs, np.ndarray) else value


_OF_NUMBERS = {
    f"{name}_score" if name in ("explained_variance", "r2") else name: functools.partial(
        _of_numbers, name
    )
    for name in (
        "explained_variance",
        "max_error",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_pinball_loss",
        "mean_squared_error",
        "mean_squared_log_error",
        "median_absolute_error",
        "r2",
        "root_mean_squared_error",
        "root_mean_squared_log_error",
    )
}


def _no_function(call: Call) -> Any:
    raise NotCovered(_ANY_FUNCTION)


def _sets_of(metric: str, call: Call) -> Any:
    """A metric of label sets: of each label, or averaged."""
    average, labels = call.given["average"], call.given["labels"]
    params: dict[str, Any] = {"undefined": call.undefined()}
    if metric == "fbeta":
        params["beta"] = call.given["beta"]
    ev = call.of_label_sets()
    if labels is not None:
        params["labels"] = call.labels_of()
        if average == "samples" and sorted(params.pop("labels")) != ev.labels:
            raise NotCovered(_SOME_OF_EACH)
    if average is None:
        return _array(call.value(ev, metric, average=None, **params))
    return call.value(ev, f"{metric}_{average}", **params)


def _all_four_of_sets(call: Call) -> Any:
    values = [_sets_of(metric, call) for metric in ("precision", "recall", "fbeta")]
    if call.given["average"] is not None:
        return (*values, None)
    labels = None if call.given["labels"] is None else call.labels_of()
    return (*values, call.of_label_sets().label_counts.to_array(labels)[:, 1].sum(axis=1))


def _share_of_sets(metric: str, call: Call) -> Any:
    ev = call.of_label_sets()
    value = call.value(ev, metric)
    return value if call.given.get("normalize", True) else value * ev.total.support


def _matrices_of_sets(call: Call) -> Any:
    if call.given["samplewise"]:
        raise NotCovered(_ONE_SAMPLE)
    labels = None if call.given["labels"] is None else call.labels_of()
    return call.of_label_sets().label_counts.to_array(labels)


def _report_of_sets(call: Call) -> Any:
    given = call.given
    options = {}
    if given["labels"] is not None:
        options["labels"] = call.labels_of()
    if given["target_names"] is not None:
        options["target_names"] = [str(name) for name in given["target_names"]]
    ours = call.of_label_sets(call.undefined()).classification_report(**options).to_dict()
    if given["output_dict"]:
        return ours
    theirs = sklearn.metrics.classification_report(**{**given, "output_dict": True})
    return call.theirs if same(theirs, ours) else ours


def _scores_of_sets(metric: str, call: Call) -> Any:
    """An average, or the value of each label, of a metric of scores."""
    average, ev = call.given["average"], call.of_label_scores()
    undefined = 0.0 if metric == "average_precision" else None
    if average is None:
        return _array(call.value(ev, metric, average=None, undefined=undefined))
    if undefined is None and average != "micro" and np.isnan(call.theirs):
        raise Known(_NO_PAIR)
    return call.value(ev, f"{metric}_{average}", undefined=undefined)


def _area_of_sets(call: Call) -> Any:
    limit, average = call.given["max_fpr"], call.given["average"]
    if limit is None or limit == 1:
        return _scores_of_sets("roc_auc", call)
    if average not in (None, "macro"):
        raise NotCovered("of label sets the partial AUC of each label, and no average of them")
    ev = call.of_label_scores()
    of_labels = [
        call.value(ev.one_vs_rest(label), "partial_roc_auc", max_fpr=limit) for label in ev.labels
    ]
    return np.array(of_labels) if average is None else np.mean(of_labels)


def _ranking_of_sets(metric: str, call: Call) -> Any:
    return call.value(call.of_label_scores(), metric)


_part = functools.partial

_OF_SETS: dict[str, Callable[[Call], Any]] = {
    "accuracy_score": _part(_share_of_sets, "accuracy"),
    "average_precision_score": _part(_scores_of_sets, "average_precision"),
    "classification_report": _report_of_sets,
    "coverage_error": _part(_ranking_of_sets, "coverage_error"),
    "f1_score": _part(_sets_of, "f1"),
    "fbeta_score": _part(_sets_of, "fbeta"),
    "hamming_loss": _part(_share_of_sets, "hamming_loss"),
    "jaccard_score": _part(_sets_of, "jaccard"),
    "label_ranking_average_precision_score": _part(
        _ranking_of_sets, "label_ranking_average_precision"
    ),
    "label_ranking_loss": _part(_ranking_of_sets, "label_ranking_loss"),
    "multilabel_confusion_matrix": _matrices_of_sets,
    "precision_recall_fscore_support": _all_four_of_sets,
    "precision_score": _part(_sets_of, "precision"),
    "recall_score": _part(_sets_of, "recall"),
    "roc_auc_score": _area_of_sets,
    "zero_one_loss": _part(_share_of_sets, "error_rate"),
}
"""The adapters of label sets."""

_ADAPTERS: dict[str, Callable[[Call], Any]] = {
    "accuracy_score": _part(_share, "accuracy"),
    "auc": _no_function,
    "average_precision_score": _precision_of_scores,
    "balanced_accuracy_score": _balanced,
    "brier_score_loss": _part(_loss, "brier_score"),
    "class_likelihood_ratios": _likelihood_ratios,
    "classification_report": _report,
    "cohen_kappa_score": _kappa,
    "confusion_matrix": _confusion,
    "confusion_matrix_at_thresholds": _counts_at_thresholds,
    "d2_brier_score": _part(_loss, "d2_brier_score"),
    "d2_log_loss_score": _part(_loss, "d2_log_loss_score"),
    "det_curve": _part(_curve, "det"),
    "f1_score": _part(_of_labels, "f1"),
    "fbeta_score": _part(_of_labels, "fbeta"),
    "hamming_loss": _part(_share, "error_rate"),
    "jaccard_score": _part(_of_labels, "jaccard"),
    "log_loss": _part(_loss, "log_loss"),
    "matthews_corrcoef": lambda call: call.value(
        call.of_labels(), "matthews_corrcoef", undefined=0.0
    ),
    "metric_at_thresholds": _no_function,
    "multilabel_confusion_matrix": lambda call: _one_by_one(call, call.of_labels().confusion),
    "precision_recall_curve": _part(_curve, "precision_recall"),
    "precision_recall_fscore_support": _all_four,
    "precision_score": _part(_of_labels, "precision"),
    "recall_score": _part(_of_labels, "recall"),
    "roc_auc_score": _area,
    "roc_curve": _part(_curve, "roc"),
    "top_k_accuracy_score": _top_k,
    "zero_one_loss": _part(_share, "error_rate"),
    **_OF_NUMBERS,
}


def install(ledger: Ledger) -> None:
    """Have every public classification and ranking function compared, before tests import them."""
    covered = _ADAPTERS.keys() | _OF_SETS.keys()
    assert covered == _COUNTERPARTS.keys(), "docs/scikit-learn.md has other names"
    reasons = {
        name: row.cells[1]
        for row in rows()
        if row.section.startswith("Without")
        for name in row.names
    }
    for name in (*covered, *reasons):
        original = getattr(sklearn.metrics, name)

        def counterpart(
            theirs: Any, *args: Any, _name: str = name, _of: Any = original, **more: Any
        ) -> Any:
            if _name in reasons:
                raise NotCovered(reasons[_name])
            # By name: deprecated ones may be given by position, which the signature rules out.
            signature = inspect.signature(_of)
            bound = signature.bind(**dict(zip(signature.parameters, args, strict=False)), **more)
            bound.apply_defaults()
            call = Call(_name, theirs, bound.arguments)
            adapters = _OF_SETS if call.of_sets else _ADAPTERS
            if _name not in adapters:
                raise NotCovered(_MULTI_LABEL if call.of_sets else _LABEL_SETS)
            return adapters[_name](call)

        replaced = ledger.wrapped(PEER, name, original, counterpart)
        for module in (sklearn.metrics, _classification, _ranking, _regression):
            if hasattr(module, name):
                setattr(module, name, replaced)


def tests(*, bounded: bool, source: object) -> list[str]:
    """pytest's arguments: the test modules are in scikit-learn's wheel."""
    suites = SUITES[:1] if bounded else SUITES
    return ["--pyargs", *(f"sklearn.metrics.tests.{suite}" for suite in suites)]
