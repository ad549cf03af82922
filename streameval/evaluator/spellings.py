"""Spellings of scikit-learn, torchmetrics, River and others, and what they are called here."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Never, TypeVar

from streameval.errors import did_you_mean
from streameval.metrics.registry import METRICS, hinted_names

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SAME_AS = {
    "y_true": "target targets truth actual actuals y_test ground_truth references labels_true",
    "y_pred": "preds prediction predictions predicted y_hat labels_pred",
    "score": "y_score y_scores scores decision decision_function",
    "proba": "y_prob y_proba prob probs probabilities probability y_pred_proba predict_proba",
    "weight": "sample_weight sample_weights weights w",
    "event_time": "time timestamp timestamps t ts",
    "time": "event_time timestamp timestamps",
    "slices": "by groups group sensitive_features",
    "by": "slices groupby group groups sensitive_features",
    "positive": "pos_label pos_val positive_label positive_class cls",
    "labels": "num_classes n_classes classes class_names label_names target_names",
    "metrics": "metric scoring",
    "undefined": "zero_division undefined_value",
    "bins": "n_bins num_bins",
    "window": "window_size rolling",
    "threshold": "cutoff thresholds",
}
_KEYWORDS: dict[str, list[str]] = {}
for _own, _foreign in _SAME_AS.items():
    for _name in _foreign.split():
        _KEYWORDS.setdefault(_name, []).append(_own)
"""From the keyword of another library to the arguments that it can be here."""

_OF_EVALUATOR = ("positive", "labels", "metrics", "undefined", "bins", "window", "threshold")
"""Arguments that an Evaluator is made with, which its methods do not take."""

_OTHERWISE = {
    "average": 'the average is part of a metric\'s name: "f1_macro", or value("f1", average=...)',
    "multi_class": 'the kind is part of a metric\'s name: "roc_auc_ovr" or "roc_auc_ovo"',
    "beta": 'it is a parameter of the metric: value("fbeta", beta=2)',
    "top_k": 'it is a parameter of the metric: value("top_k_accuracy", k=3)',
    "normalize": "the confusion counts; ConfusionMatrixDisplay takes normalize=",
}
"""Keywords that are no argument here, and what to write instead."""


def keyword_remedy(keyword: str, taken: Iterable[str], more: Iterable[str] = ()) -> str:
    """What to pass for a keyword that a call does not take; `more`: what an Evaluator takes."""
    taken, more = list(taken), list(more)
    if keyword in _OTHERWISE:
        return _OTHERWISE[keyword]
    for own in _KEYWORDS.get(keyword, ()):
        if own in taken:
            return f"pass {own}="
    for own in (keyword, *_KEYWORDS.get(keyword, ())):
        if own in more:
            return f"pass {own}= to the Evaluator"
    return did_you_mean(keyword, taken)


def unknown_keyword_error(function: Callable[..., Any], given: Iterable[str]) -> TypeError | None:
    """The error of the first keyword that a function does not take; None where it takes all."""
    taken = [name for name in inspect.signature(function).parameters if name != "self"]
    keyword = next((name for name in given if name not in taken), None)
    if keyword is None:
        return None
    more = () if "undefined" in taken else _OF_EVALUATOR
    remedy = keyword_remedy(keyword, taken, more)
    name = "Evaluator" if function.__name__ == "__init__" else function.__name__
    text = f"{name}() got an unexpected keyword argument '{keyword}'"
    return TypeError(f"{text}; {remedy}" if remedy else text)


def raise_unknown_keyword(function: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise the error of the first keyword that a function does not take, if there is one."""
    error = unknown_keyword_error(function, given)
    if error is not None:
        raise error


def explains_keywords(function: _Function) -> _Function:
    """The function, whose errors of unknown keywords name the argument that is meant."""

    @functools.wraps(function)
    def explained(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError:
            error = unknown_keyword_error(function, given)
            if error is None:
                raise
        raise error

    return explained  # type: ignore[return-value]


_REPORT = 'ev.report() has all metrics, ev["accuracy"] is one'
_UPDATE = "update(y_true, y_pred) counts one event, update_many(...) columns of them"
_ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(("compute", "get", "result", "results", "score", "value_at"), _REPORT),
    **dict.fromkeys(("metrics", "items", "keys", "values"), _REPORT),
    **dict.fromkeys(("add", "add_batch", "update_state", "append", "learn_one", "fit"), _UPDATE),
    **dict.fromkeys(("to_pandas", "to_polars", "to_frame"), "ev.report().to_frame() is a frame"),
    **dict.fromkeys(("to_dict", "as_dict"), "ev.report().to_dict(flat=True) is {name: value}"),
    **dict.fromkeys(("to_json",), "ev.report().to_json() is JSON"),
    **dict.fromkeys(("confusion_matrix", "cm"), "ev.confusion is the confusion"),
    **dict.fromkeys(("clear", "reset_states"), "reset() drops all events"),
    **{f"{name}_curve": f'ev.curve("{name}") is the curve' for name in ("roc", "precision_recall")},
    "calibration_curve": 'ev.curve("calibration") is the curve',
    "plot_roc": 'ev.plot("roc") draws it',
    "predict": "it evaluates predictions: pass them to update() or update_many()",
}
"""Attributes that others have, and what they are here."""

_MODULE: Mapping[str, str] = {
    **dict.fromkeys(("Metric", "MetricCollection", "Metrics"), "Evaluator() computes all metrics"),
    **dict.fromkeys(("score", "report", "compute"), "evaluate(y, s).report() has all metrics"),
    "confusion_matrix": "evaluate(y, p).confusion is the confusion",
    "classification_report": "evaluate(y, p).classification_report() is the report",
    "roc_curve": 'evaluate(y, s).curve("roc") is the curve',
    "read_csv": 'evaluate("file.csv", y_true="y", score="s") reads files',
}


class ForeignAttribute:
    """An attribute of other libraries: reading it raises AttributeError with what it is here."""

    __slots__ = ("_name", "_remedy")

    def __init__(self, name: str, remedy: str) -> None:
        self._name, self._remedy = name, remedy

    def __get__(self, instance: object, owner: type) -> Never:
        text = f"{owner.__name__!r} object has no attribute {self._name!r}"
        raise AttributeError(f"{text}; {self._remedy}")


def explains_attributes(kind: type, example: str) -> None:
    """Give a class the foreign attributes that it has not; hasattr() stays False for each.

    The remedies are about `example`, an expression of which every metric is read.
    """
    of_metrics = {name: f'it is ev["{own}"]' for name, own in hinted_names().items()}
    for name, remedy in {**of_metrics, **_ATTRIBUTES}.items():
        if name.isidentifier() and not any(name in base.__dict__ for base in type.mro(kind)):
            remedy = re.sub(r"\bev(?=[.\[])", example, remedy)
            setattr(kind, name, ForeignAttribute(name, remedy))


def module_remedy(name: str, public: Iterable[str]) -> str:
    """What a name is that the package does not have; empty where nothing is known."""
    if name in _MODULE:
        return _MODULE[name]
    plain = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    own = hinted_names().get(plain) or hinted_names().get(plain.removesuffix("_score"))
    if own is not None and own in METRICS:
        return f'it is evaluate(y, s)["{own}"]'
    return did_you_mean(name, public)
